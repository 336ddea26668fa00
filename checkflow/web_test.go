package checkflow_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/checkflow"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/receivertest"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// withRedirect creates a check with the site's redirect URL, as for a project that has one.
func (s *site) withRedirect(ctx context.Context, client *idverify.Client, p idverify.PhoneCheckParams) (*idverify.PhoneCheck, error) {
	p.RedirectURL = s.url + "/return"
	return client.PhoneChecks.Create(ctx, p)
}

func TestConfig_CallbackURL(t *testing.T) {
	t.Parallel()
	var got []string
	s := newSite(t, func(c *checkflow.Config) {
		c.CallbackURL = "https://shop.sandbox.test/callbacks"
		c.Create = func(ctx context.Context, client *idverify.Client, p idverify.PhoneCheckParams) (*idverify.PhoneCheck, error) {
			got = append(got, p.CallbackURL)
			return client.PhoneChecks.Create(ctx, p)
		}
	})
	app := s.app(t)

	for _, own := range []string{"", "https://shop.sandbox.test/other"} {
		p := checkflow.StartParams{Check: idverify.PhoneCheckParams{PhoneNumber: victims, CallbackURL: own}}
		w, r := newStart(t)
		must(s.current().Start(w, r, p))(t)
		must(app.Start(r, "", p))(t)
	}

	want := []string{"https://shop.sandbox.test/callbacks", "https://shop.sandbox.test/callbacks", "https://shop.sandbox.test/other", "https://shop.sandbox.test/other"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("callback URLs (-want +got):\n%s", diff)
	}
}

func TestNewWeb_RejectsConfig(t *testing.T) {
	t.Parallel()
	service := sandboxfake.New(t, sandboxfake.WithInMemory())
	valid := checkflow.Config{
		Client:      service.Client(),
		Store:       checkflow.NewMemoryStore(0),
		Allow:       func(*http.Request, string) error { return nil },
		Verifier:    service.Verifier([]string{host, "localhost:*", "127.0.0.1:8080", "[::1]:8080", "192.0.2.1"}, nil),
		RedirectURL: "https://" + host + "/return",
		StartPage:   "/",
	}
	for field, edits := range map[string][]func(*checkflow.Config){
		"Client":   {func(c *checkflow.Config) { c.Client = nil }},
		"Store":    {func(c *checkflow.Config) { c.Store = nil }},
		"Allow":    {func(c *checkflow.Config) { c.Allow = nil }},
		"Verifier": {func(c *checkflow.Config) { c.Verifier = nil }},
		"CallbackURL": {
			toCallbackURL("/callbacks"), toCallbackURL("https:///callbacks"), toCallbackURL("ftp://" + host + "/callbacks"), toCallbackURL("https://" + host + "/%zz?secret"),
			toCallbackURL("https://user:secret@" + host + "/callbacks"), toCallbackURL("https://" + host + "/callbacks#x"),
		},
		"RedirectURL": {
			toRedirectURL(""), toRedirectURL("/return"), toRedirectURL("https:///return"), toRedirectURL("ftp://" + host + "/return"), toRedirectURL("shop:return"),
			toRedirectURL("http://" + host + "/return"), toRedirectURL("http://127.0.0.1.example.com/return"), toRedirectURL("http://localhost.example.com/"), toRedirectURL("http://192.0.2.1/return"),
			toRedirectURL("https://other.example.com/return"), toRedirectURL("https://" + host + ":8443/return"),
			toRedirectURL("https://user:secret@" + host + "/return"), toRedirectURL("https://" + host + "/return#x"),
			toRedirectURL("https://" + host + "/return?code=1"), toRedirectURL("https://" + host + "/return?check%5fid=1"),
			toRedirectURL("https://" + host + "/return?error=1"), toRedirectURL("https://" + host + "/return?error_description=1"),
			toRedirectURL("https://" + host + "/return?authorization=1"), toRedirectURL("https://" + host + "/return?date=1"), toRedirectURL("https://" + host + "/%zz?secret"),
		},
		"StartPage": {
			toStartPage(""), toStartPage("start"), toStartPage("//other.example.com/"), toStartPage("javascript:alert(1)"), toStartPage("javascript:/x/;alert(1)"), toStartPage("javascript://x/%0aalert(1)"), toStartPage("%zz"),
			toStartPage("///other.example.com/x"), toStartPage("/./return"), toStartPage("/x/../return"), toStartPage("https://" + host + ":443/return"),
			func(c *checkflow.Config) { c.RedirectURL = "https://" + host },
			func(c *checkflow.Config) {
				c.RedirectURL, c.StartPage = "http://localhost:80/return", "http://localhost/return"
			},
			toStartPage("/return"), toStartPage("https://" + strings.ToUpper(host) + "/return?x"),
		},
	} {
		for i, edit := range edits {
			c := valid
			edit(&c)
			_, err := checkflow.NewWeb(c)
			text := strings.TrimPrefix(fmt.Sprint(err), "checkflow: new web: ")
			if !strings.HasPrefix(text, "Config."+field+" ") && !strings.HasPrefix(text, "the host of Config."+field+" ") {
				t.Errorf("%s, case %d: error = %v, want one about Config.%s", field, i, err, field)
			}
			if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "example.com") || strings.Contains(err.Error(), host)) {
				t.Errorf("error %q contains a URL", err)
			}
		}
	}
	for _, redirectURL := range []string{"http://localhost:3000/return", "http://127.0.0.1:8080/return", "http://[::1]:8080/return", "http://LOCALHOST:3000/return", "https://" + host + ":443/return?tenant=7"} {
		c := valid
		c.RedirectURL, c.StartPage = redirectURL, "http://other.example.com/return"
		if _, err := checkflow.NewWeb(c); err != nil {
			t.Errorf("%s: error = %v, want none", redirectURL, err)
		}
	}
}

func toCallbackURL(u string) func(*checkflow.Config) {
	return func(c *checkflow.Config) { c.CallbackURL = u }
}

func toRedirectURL(u string) func(*checkflow.Config) {
	return func(c *checkflow.Config) { c.RedirectURL = u }
}

func toStartPage(u string) func(*checkflow.Config) {
	return func(c *checkflow.Config) { c.StartPage = u }
}

func TestNewApp_RejectsConfig(t *testing.T) {
	t.Parallel()
	service := sandboxfake.New(t, sandboxfake.WithInMemory())
	valid := checkflow.Config{Client: service.Client(), Store: checkflow.NewMemoryStore(0), Allow: func(*http.Request, string) error { return nil }}
	for field, edit := range map[string]func(*checkflow.Config){
		"Client":      func(c *checkflow.Config) { c.Client = nil },
		"Verifier":    func(c *checkflow.Config) { c.Verifier = service.Verifier([]string{host}, nil) },
		"RedirectURL": toRedirectURL("https://" + host + "/return"),
		"StartPage":   toStartPage("/"),
	} {
		c := valid
		edit(&c)
		if _, err := checkflow.NewApp(c); err == nil || !strings.Contains(err.Error(), "Config."+field) {
			t.Errorf("%s: error = %v, want one about Config.%s", field, err, field)
		}
	}
}

// TestWeb_Responses checks cookie and headers.
func TestWeb_Responses(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		redirectURL string
		ttl         time.Duration // of the check
		want        http.Cookie
	}{
		{"https://" + host + "/return", 45 * time.Second, http.Cookie{Name: "__Host-idverify-flow", Secure: true, MaxAge: 105}}, // the TTL and a minute
		{"http://localhost:3000/return", 0, http.Cookie{Name: "idverify-flow", MaxAge: 180}},
		{"https://localhost:3000/return", -time.Second, http.Cookie{Name: "__Host-idverify-flow", Secure: true, MaxAge: 180}},
		{"http://localhost:3000/return", 24 * time.Hour, http.Cookie{Name: "idverify-flow", MaxAge: 86460}},
		{"http://localhost:3000/return", 1_000_000_000 * time.Second, http.Cookie{Name: "idverify-flow", MaxAge: 180}},
		{"http://localhost:3000/return", 9_223_372_036 * time.Second, http.Cookie{Name: "idverify-flow", MaxAge: 180}}, // with a minute more, it overflows
		{"http://localhost:3000/return", math.MaxInt64, http.Cookie{Name: "idverify-flow", MaxAge: 180}},               // of the number 1e30
	} {
		s, want := newSite(t), row.want
		s.config.RedirectURL = row.redirectURL
		s.config.Create = func(ctx context.Context, client *idverify.Client, p idverify.PhoneCheckParams) (*idverify.PhoneCheck, error) {
			check, err := client.PhoneChecks.Create(ctx, p)
			if err == nil {
				check.TTL = row.ttl
			}
			return check, err
		}
		s.config.Verifier = s.service.Verifier([]string{host, "localhost:3000"}, nil)
		s.restart()
		b := s.browser()

		started := b.post(victims, nil)

		cookie := must(http.ParseSetCookie(started.header.Get("Set-Cookie")))(t)
		if len(cookie.Value) < 26 {
			t.Errorf("cookie value %q has less than 128 random bits", cookie.Value)
		}
		want.Value, want.Path, want.HttpOnly, want.SameSite = cookie.Value, "/", true, http.SameSiteLaxMode
		want.Raw = cookie.Raw
		if diff := cmp.Diff(want, *cookie); diff != "" {
			t.Errorf("cookie (-want +got):\n%s", diff)
		}
		for name, p := range map[string]page{
			"start":           started,
			"failed start":    b.post("1", nil),
			"invalid return":  b.send(t.Context(), false, http.MethodGet, s.url+"/return", "", nil),
			"other method":    b.send(t.Context(), false, http.MethodPost, s.url+"/return", "", nil),
			"rejected return": b.send(t.Context(), false, http.MethodGet, s.redirectWithoutSession(), "", nil),
		} {
			if p.header.Get("Cache-Control") != "no-store" || p.header.Get("Referrer-Policy") != "no-referrer" {
				t.Errorf("%s: headers %v, want no-store and no-referrer", name, p.header)
			}
			if strings.Contains(p.location, "code=") {
				t.Errorf("%s: Location contains the code", name)
			}
		}
	}
}

// TestWeb_StartBehindProxy sends requests of a browser without Sec-Fetch-Site through a proxy that
// changes the host.
func TestWeb_StartBehindProxy(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		redirectURL, origin string
		want                error
	}{
		{"https://" + host + "/return", "https://" + host, nil},
		{"https://" + strings.ToUpper(host) + ":443/return", "https://" + host, nil},
		{"https://" + host + "/return", "https://other.sandbox.test", checkflow.ErrNotAllowed},
		{"https://" + host + "/return", "http://" + host, checkflow.ErrNotAllowed},
	} {
		s := newSite(t, toRedirectURL(row.redirectURL))
		w, r := newStart(t)
		r.Host = "backend.internal"
		r.Header.Set("Origin", row.origin)

		_, err := s.current().Start(w, r, checkflow.StartParams{Check: idverify.PhoneCheckParams{PhoneNumber: victims}})

		if !errors.Is(err, row.want) {
			t.Errorf("page of %s with %s: error = %v, want %v", row.origin, row.redirectURL, err, row.want)
		}
	}
}

// redirectWithoutSession returns a valid redirect URL of a check that checkflow has not started.
func (s *site) redirectWithoutSession() string {
	s.t.Helper()
	check := must(s.withRedirect(s.t.Context(), s.service.Client(idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"})), idverify.PhoneCheckParams{PhoneNumber: victims}))(s.t)
	return s.browser().redirectOf(check.CheckURL)
}

// TestWeb_NextPage checks where Return redirects.
func TestWeb_NextPage(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ startPage, location, number, want string }{
		{"/", "/home", victims, "/home"},
		{"/", "", victims, "/"},
		{"/start?lang=en", "", "447700900000", "/start?lang=en&reason=ended"},
		{"/start", "", "447700900011", "/start?reason=no_match"},
		{"https://other.example.com/a#top", "", "447700900000", "https://other.example.com/a?reason=ended#top"},
	} {
		s := newSite(t)
		s.config.StartPage = row.startPage
		s.restart()
		s.service.Handle(host, s.handlerWith(func(http.ResponseWriter, *http.Request, checkflow.Result) string { return row.location }))
		b := s.browser()

		p := b.send(t.Context(), false, http.MethodGet, b.redirectOf(b.start(row.number)), "", nil)

		if p.status != http.StatusSeeOther || p.location != row.want || !strings.Contains(p.header.Get("Set-Cookie"), "Max-Age=0") {
			t.Errorf("redirect = %d %q, %v, want 303 %q without the cookie", p.status, p.location, p.header, row.want)
		}
	}
}

// TestWeb_PassesParamsToCreate checks what reaches the service, and what does not.
func TestWeb_PassesParamsToCreate(t *testing.T) {
	t.Parallel()
	var got idverify.PhoneCheckParams
	var allowed string
	s := newSite(t, func(c *checkflow.Config) {
		c.Allow = func(_ *http.Request, number string) error { allowed = number; return nil }
		c.Create = func(ctx context.Context, client *idverify.Client, p idverify.PhoneCheckParams) (*idverify.PhoneCheck, error) {
			got = p
			return client.PhoneChecks.Create(ctx, p)
		}
	})
	params := idverify.PhoneCheckParams{PhoneNumber: "+44 (7700) 900-012", ReferenceID: strings.Repeat("r", 1024), RedirectURL: s.url + "/return", PhoneIP: netip.MustParseAddr("192.0.2.10")}
	w, r := newStart(t)

	must(s.current().Start(w, r, checkflow.StartParams{Check: params, Data: strings.Repeat("x", 4096)}))(t)
	want := params
	want.PhoneNumber = victims
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" || allowed != victims {
		t.Errorf("parameters (-want +got):\n%s\nAllow got %q, want %q", diff, allowed, victims)
	}
	for name, row := range map[string]struct {
		p    idverify.PhoneCheckParams
		data string
	}{
		"long reference ID":  {idverify.PhoneCheckParams{PhoneNumber: victims, ReferenceID: strings.Repeat("x", 1025)}, ""},
		"other redirect URL": {idverify.PhoneCheckParams{PhoneNumber: victims, RedirectURL: "https://other.example.com/"}, ""},
		"long data":          {idverify.PhoneCheckParams{PhoneNumber: victims}, strings.Repeat("x", 4097)},
	} {
		w, r := newStart(t)
		_, err := s.current().Start(w, r, checkflow.StartParams{Check: row.p, Data: row.data})
		if status := checkflow.StatusCode(err); !errors.Is(err, idverify.ErrBadRequest) || status != http.StatusBadRequest {
			t.Errorf("%s: error = %v with status %d, want ErrBadRequest with 400", name, err, status)
		}
	}
	if log := s.log.String(); strings.Contains(log, "level=ERROR") {
		t.Errorf("log = %q, want level warn only: a sender can cause it", log)
	}
}

// TestWeb_Log checks that records and errors contain no secret.
func TestWeb_Log(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	victim, attacker := s.browser(), s.browser()
	redirect := victim.redirectOf(victim.start(victims))
	secrets := []string{victims, parameter(t, redirect, "code"), victim.cookie(), host, "order 17", "192.0.2.77"}
	down := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 77), Port: 5432}, Err: errors.New("connection refused")}

	attacker.open(redirect)
	victim.open(redirect)
	attacker.open(redirect + "x")
	s.service.Inject(sandboxfake.Match{Operation: "phone_check.create"}, sandboxfake.Fault{Status: 500})
	victim.post(victims, nil)
	s.service.Inject(sandboxfake.Match{Operation: "phone_check.complete"}, sandboxfake.Fault{Drop: true})
	s.service.Inject(sandboxfake.Match{Operation: "phone_check.get"}, sandboxfake.Fault{Drop: true})
	victim.open(victim.start(victims))
	for _, failing := range []string{"available", "claim", "finish"} {
		redirect := victim.redirectOf(victim.start(victims))
		s.store.setHook(failing, func() error { return down })
		victim.post(victims, nil)
		victim.open(redirect)
		s.store.reset()
	}

	log := s.log.String()
	for _, part := range []string{"redirect not verified\" reason=ErrMalformed error=", "reason=other_session check_id=", "reason=revoked check_id=", "reason=unavailable error=", "connection refused",
		`error="checkflow: start: `, "outcome of the exchange unknown\" check_id="} {
		if !strings.Contains(log, part) {
			t.Errorf("log = %q, want %s", log, part)
		}
	}
	for _, secret := range secrets {
		if strings.Contains(log, secret) {
			t.Errorf("log = %q, which contains %q", log, secret)
		}
	}
}

// TestWeb_LogsUnusedCheck checks that the log contains the ID of a check that was created, and
// charged, although Start failed.
func TestWeb_LogsUnusedCheck(t *testing.T) {
	t.Parallel()
	for name, created := range map[string]string{"store unavailable": victims, "another number": attackers} {
		s := newSite(t, func(c *checkflow.Config) {
			c.Create = func(context.Context, *idverify.Client, idverify.PhoneCheckParams) (*idverify.PhoneCheck, error) {
				return &idverify.PhoneCheck{CheckID: "c-447700900016", CheckURL: "https://service.sandbox.test/", PhoneNumber: created}, nil
			}
		})
		s.store.setHook("add", func() error { return errors.New("connection refused") })

		s.browser().post(victims, nil)

		if log := s.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, "check not started\" check_id=c-447700900016 error=") {
			t.Errorf("%s: log = %q, want one record with the check ID", name, log)
		}
	}
}

// TestWeb_LogsMissingCookie checks that the log distinguishes a browser without a cookie from the
// browser of another session.
func TestWeb_LogsMissingCookie(t *testing.T) {
	t.Parallel()
	for cookie, want := range map[string]string{"": "cookie_sent=false", "another": "cookie_sent=true"} {
		s := newSite(t)
		b := s.browser()
		redirect := b.redirectOf(b.start(victims))
		b.setCookie(cookie)

		b.open(redirect).wantReason(t, checkflow.ReasonOtherSession)

		if log := s.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, want) {
			t.Errorf("cookie %q: log = %q, want one record with %s", cookie, log, want)
		}
	}
}

// TestWeb_RequestIDs checks that errors and records contain the request IDs of the service, even if
// digits in them look like a phone number.
func TestWeb_RequestIDs(t *testing.T) {
	t.Parallel()
	const id = "call-447700900012"
	s := newSite(t)
	s.config.Client = s.service.Client(idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1}), idverify.WithHTTPClient(&http.Client{
		Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := s.service.HTTPClient().Transport.RoundTrip(r)
			if err == nil {
				response.Header.Set("X-Request-Id", id)
			}
			return response, err
		}),
	}))
	s.restart()
	b := s.browser()
	s.service.Inject(sandboxfake.Match{Operation: "phone_check.create"}, sandboxfake.Fault{Status: 500})
	s.service.Inject(sandboxfake.Match{Operation: "phone_check.complete"}, sandboxfake.Fault{Status: 403})

	_, err := s.startOf(t, victims)
	b.open(b.start(victims))

	if err == nil || !strings.Contains(err.Error(), id) {
		t.Errorf("error = %v, want the request ID", err)
	}
	if log := s.log.String(); strings.Count(log, id) != 2 {
		t.Errorf("log = %q, want two records with the request ID", log)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestWeb_Examined sends the attacks of package receivertest to Return.
func TestWeb_Examined(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keys := must(receivertest.NewKeys())(t)
		keySet := must(signature.NewJWKS(keys.URL(), &signature.JWKSOptions{HTTPClient: keys.Client()}))(t)
		verifier := must(signature.NewVerifier(keySet, []string{host}, nil))(t)
		s := newSiteOf(t, sandboxfake.New(t, sandboxfake.WithInMemory()), func(c *checkflow.Config) { c.Verifier = verifier })

		receivertest.Run(t, receivertest.Receiver{Keys: keys, Kind: receivertest.KindRedirect, URL: s.url + "/return", Handler: s.handler(), Strict: true, Probe: receivertest.Probe{
			Effects: func(_ context.Context, checkID string) (n int, err error) {
				for _, r := range s.service.Requests() {
					if r.Operation == "phone_check.complete" && strings.HasSuffix(r.Path, "/"+checkID) {
						n++
					}
				}
				return n, nil
			},
			Session: func(context.Context) (receivertest.Session, error) {
				b := s.browser()
				segments := strings.Split(b.start(victims), "/")
				return receivertest.Session{CheckID: segments[len(segments)-2], Header: http.Header{"Cookie": {fmt.Sprintf("%s=%s", flowCookie, b.cookie())}}}, nil
			},
		}})
	})
}
