package signin_test

import (
	"html"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/checkflow"
	"github.com/idverify/idverify-go/examples/passwordless/internal/signin"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestSignIn_Results(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, number, want, home string }{
		{"match", "+44 7700 900-012", "Verified", "Verified"},
		{"no match", "+44 7700 900-013", "Not verified", form},
		{"no result", "+44 7700 900-099", "No result", form},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			b := s.browser(t)

			got := b.get(b.start(row.number))

			if got.title != row.want || got.status != http.StatusOK || strings.Contains(got.url, "code=") {
				t.Errorf("page = %q at %s, status %d, want %q at an URL without the code", got.title, got.url, got.status, row.want)
			}
			if home := b.get(s.url); home.title != row.home {
				t.Errorf("home page = %q, want %q", home.title, row.home)
			}
		})
	}
}

// The attacker starts with the victim's number and sends the Check URL to the victim.
func TestSignIn_OtherBrowser(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	victim, attacker := s.browser(t), s.browser(t)
	redirect := victim.redirectOf(attacker.start("+44 7700 900-012"))

	warned := victim.get(redirect)
	got := attacker.get(redirect)

	if warned.title != "Started in another browser" {
		t.Errorf("page of the victim = %q, want Started in another browser", warned.title)
	}
	if got.title != "Opened in another browser" || attacker.get(s.url).title != form {
		t.Errorf("page of the attacker = %q, want Opened in another browser: the attacker is signed in as the victim", got.title)
	}
}

func TestSignIn_Reload(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	b := s.browser(t)
	redirect := b.redirectOf(b.start("+44 7700 900-012"))
	b.get(redirect)

	if got := b.get(redirect); got.title != "Verified" {
		t.Errorf("page = %q, want Verified", got.title)
	}
	if got := s.browser(t).get(redirect); got.title != "Time is up" {
		t.Errorf("page of another browser = %q, want Time is up", got.title)
	}
	for reason, want := range map[checkflow.Reason]string{checkflow.ReasonInvalid: "This link cannot be used", checkflow.ReasonCodeRejected: "Time is up", checkflow.ReasonNotFound: "Time is up"} {
		if got := s.browser(t).get(s.url + "/?reason=" + string(reason)); got.title != want {
			t.Errorf("page for reason %s = %q, want %q", reason, got.title, want)
		}
	}
}

// With the prefix, browsers reject a cookie that another host of the domain sets.
func TestSignIn_Cookie(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	b := s.browser(t)
	redirect := b.redirectOf(b.start("+44 7700 900-012"))
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

	cookies := b.get(redirect).header.Values("Set-Cookie")

	session := regexp.MustCompile(`^__Host-session=\w+; Path=/; Max-Age=900; HttpOnly; Secure; SameSite=Lax$`)
	if !slices.ContainsFunc(cookies, session.MatchString) {
		t.Errorf("cookies = %q, want one that matches %s", cookies, session)
	}
	planted := s.browser(t)
	for _, c := range cookies {
		name, value, _ := strings.Cut(strings.TrimPrefix(c, "__Host-"), "=")
		value, _, _ = strings.Cut(value, ";")
		planted.client.Jar.SetCookies(&url.URL{Scheme: "https", Host: host}, []*http.Cookie{{Name: name, Value: value}})
	}
	if got := planted.get(s.url); got.title != form {
		t.Errorf("page with a cookie without the prefix = %q, want %q", got.title, form)
	}
}

func TestSignIn_SessionExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShopOf(t)
		b := s.browser(t)
		b.get(b.start("+44 7700 900-012"))
		token := b.client.Jar.Cookies(&url.URL{Scheme: "https", Host: host})
		b.client.Jar.SetCookies(&url.URL{Scheme: "https", Host: host}, token) // they do not expire

		time.Sleep(15*time.Minute - time.Nanosecond)
		before := b.get(s.url)
		time.Sleep(time.Nanosecond)

		if after := b.get(s.url); before.title != "Verified" || after.title != form {
			t.Errorf("pages = %q, then %q, want Verified until the session expires", before.title, after.title)
		}
	})
}

func TestForm_InvalidNumber(t *testing.T) {
	t.Parallel()
	for _, number := range []string{"", "07700 900012", "call me", `"><script>alert(1)</script>`, strings.Repeat("4", 5000)} {
		s := newShop(t)

		got := s.browser(t).post(number, nil)

		if got.status != http.StatusUnprocessableEntity || !strings.Contains(got.body, `role="alert"`) {
			t.Errorf("%.20q: status = %d, want 422 and the form with an error message", number, got.status)
		}
		if strings.Contains(got.body, "<script>") {
			t.Errorf("%.20q: the page contains the unescaped input", number)
		}
	}
}

func TestForm_StartFails(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		fault  sandboxfake.Fault
		header http.Header
		status int
		want   string
	}{
		{"balance too low", sandboxfake.Fault{Status: http.StatusPaymentRequired}, nil, http.StatusServiceUnavailable, "Please try again later"},
		{"outcome unknown", sandboxfake.Fault{Drop: true}, nil, http.StatusServiceUnavailable, "Please try again later"},
		{"network not supported", sandboxfake.Fault{Status: http.StatusBadRequest, Code: "mno_not_supported"}, nil, http.StatusUnprocessableEntity, "No result"},
		{"page of another site", sandboxfake.Fault{}, http.Header{"Sec-Fetch-Site": {"cross-site"}}, http.StatusForbidden, "No result"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.service.Inject(sandboxfake.Match{Operation: "phone_check.create"}, row.fault)

			got := s.browser(t).post("+44 7700 900-012", row.header)

			if got.title != row.want || got.status != row.status {
				t.Errorf("page = %q, status %d, want %q, status %d", got.title, got.status, row.want, row.status)
			}
		})
	}
}

func TestPages_ProtectPersonalData(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	b := s.browser(t)
	step := b.post("+44 7700 900-012", nil)

	for _, got := range []view{step, b.get(b.start("+44 7700 900-012")), b.get(s.url)} {
		for header, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
			"Referrer-Policy":         "same-origin",
			"Cache-Control":           "no-store",
			"X-Content-Type-Options":  "nosniff",
		} {
			if got.header.Get(header) != want {
				t.Errorf("%s: %s = %q, want %q", got.title, header, got.header.Get(header), want)
			}
		}
	}
	for _, secret := range []string{"447700900012", "7700 900", "code="} {
		if strings.Contains(s.log.String(), secret) {
			t.Errorf("log contains %q:\n%s", secret, s.log.String())
		}
	}
}

const (
	host = "shop.sandbox.test"
	form = "Sign in with your phone number" // the title of the page
)

// shop serves the pages with a fake of the service.
type shop struct {
	service *sandboxfake.Server
	url     string
	log     tooltest.Buffer
}

func newShop(t *testing.T) *shop {
	t.Helper()
	return newShopOf(t, sandboxfake.WithFrozenClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
}

// newShopOf returns a shop whose fake has options.
func newShopOf(t *testing.T, opts ...sandboxfake.Option) *shop {
	t.Helper()
	service := sandboxfake.New(t, append(opts, sandboxfake.WithInMemory())...)
	s := &shop{service: service, url: "https://" + host}
	handler := tooltest.Must(signin.New(signin.Config{
		Config: checkflow.Config{
			Client:   service.Client(idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1})),
			Verifier: service.Verifier([]string{host}, nil),
			Store:    checkflow.NewMemoryStore(0),
			Allow:    func(*http.Request, string) error { return nil },
			Logger:   slog.New(slog.NewTextHandler(&s.log, nil)),
		},
		BaseURL: s.url,
	}))(t)
	service.Handle(host, handler)
	return s
}

// browser is an HTTP client with its own cookies.
type browser struct {
	t      *testing.T
	shop   *shop
	client *http.Client
}

func (s *shop) browser(t *testing.T) *browser {
	t.Helper()
	return &browser{t: t, shop: s, client: s.service.Device().Client()}
}

// view is a page as a browser sees it.
type view struct {
	status int
	title  string
	body   string
	url    string
	header http.Header
}

var (
	heading  = regexp.MustCompile(`<h1>([^<]*)</h1>`)
	linkHref = regexp.MustCompile(`<a class="button" href="(https:[^"]*)"`)
)

func (b *browser) do(method, url, body string, header http.Header) view {
	b.t.Helper()
	r := tooltest.Must(http.NewRequestWithContext(b.t.Context(), method, url, strings.NewReader(body)))(b.t)
	maps.Copy(r.Header, header)
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response := tooltest.Must(b.client.Do(r))(b.t)
	defer response.Body.Close()
	text := tooltest.Must(io.ReadAll(response.Body))(b.t)
	v := view{status: response.StatusCode, body: string(text), url: response.Request.URL.String(), header: response.Header}
	if m := heading.FindSubmatch(text); m != nil {
		v.title = html.UnescapeString(string(m[1]))
	}
	return v
}

// get opens a URL and follows redirects.
func (b *browser) get(url string) view { b.t.Helper(); return b.do(http.MethodGet, url, "", nil) }

// post submits the form.
func (b *browser) post(number string, header http.Header) view {
	b.t.Helper()
	return b.do(http.MethodPost, b.shop.url+"/", url.Values{"number": {number}}.Encode(), header)
}

// start submits the form and returns the Check URL on the next page.
func (b *browser) start(number string) (checkURL string) {
	b.t.Helper()
	page := b.post(number, nil)
	m := linkHref.FindStringSubmatch(page.body)
	if page.title != "One more step" || m == nil {
		b.t.Fatalf("page = %q, status %d, want One more step and a Check URL", page.title, page.status)
	}
	return html.UnescapeString(m[1])
}

// redirectOf opens the Check URL and returns the redirect URL without following it.
func (b *browser) redirectOf(checkURL string) string {
	b.t.Helper()
	stay := *b
	stay.client = b.shop.service.Device().Client()
	stay.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return stay.get(checkURL).header.Get("Location")
}
