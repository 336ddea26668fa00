package signin_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idverify/idverify-go/sandboxfake"
)

func TestCheckPage_Results(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		number string
		open   bool // open the Check URL
		want   string
	}{
		{"match", "+44 7700 900-012", true, "Verified"},
		{"no match", "+44 7700 900-013", true, "Not verified"},
		{"no result", "+44 7700 900-099", true, "No result"},
		{"Check URL not opened", "+44 7700 900-012", false, "Time is up"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			b := s.browser(t)
			checkURL := b.begin(row.number)

			if row.open {
				b.open(checkURL)
			} else if err := s.service.Advance(t.Context(), 3*time.Minute); err != nil {
				t.Fatal(err)
			}

			if got := b.open(s.url + "/check"); got.title != row.want || got.status != http.StatusOK {
				t.Errorf("page = %q, status %d, want %q", got.title, got.status, row.want)
			}
		})
	}
}

func TestRedirect_ExchangesCodeOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	b := s.browser(t)
	redirect := b.redirectOf(b.begin("+44 7700 900-012"))

	var opened sync.WaitGroup
	for range 10 {
		opened.Go(func() { b.open(redirect) })
	}
	opened.Wait()

	if n := s.calls("phone_check.complete"); n != 1 {
		t.Errorf("%d code exchanges, want 1: a code works once", n)
	}
	if got := b.open(redirect); got.title != "Verified" {
		t.Errorf("page = %q, want Verified", got.title)
	}
}

func TestRedirect_RejectsForgedRedirect(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	b := s.browser(t)
	s.service.Inject(sandboxfake.Match{Operation: "phone_check.open"}, sandboxfake.Fault{WrongKey: true})
	checkURL := b.begin("+44 7700 900-012")

	got := b.open(checkURL)

	if got.title != "This link cannot be used" || got.status != http.StatusBadRequest {
		t.Errorf("page = %q, status %d, want This link cannot be used, status 400", got.title, got.status)
	}
	if n := s.calls("phone_check.complete"); n != 0 {
		t.Errorf("the code of a forged redirect was exchanged %d times", n)
	}
}

func TestRedirect_KeySetUnavailable(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	b := s.browser(t)
	redirect := b.redirectOf(b.begin("+44 7700 900-012"))
	s.service.Inject(sandboxfake.Match{Operation: "jwks.get"}, sandboxfake.Fault{Status: 503})

	first := b.open(redirect)

	if first.title != "Please try again later" || first.status != http.StatusServiceUnavailable {
		t.Errorf("page = %q, status %d, want Please try again later, status 503", first.title, first.status)
	}
}

func TestRedirect_ExchangeNotConfirmed(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	b := s.browser(t)
	s.service.Inject(sandboxfake.Match{Operation: "phone_check.complete"}, sandboxfake.Fault{Drop: true})
	s.service.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback, Repeat: true}, sandboxfake.Fault{Status: 400})

	got := b.open(b.begin("+44 7700 900-012"))

	if got.title != "Verified" {
		t.Errorf("page = %q, want Verified: the check of this session is COMPLETED", got.title)
	}
}

func TestRedirect_ExchangeResponseLost(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	b := s.browser(t)
	s.service.Inject(sandboxfake.Match{Operation: "phone_check.complete"}, sandboxfake.Fault{Drop: true})
	s.service.Inject(sandboxfake.Match{Operation: "phone_check.get"}, sandboxfake.Fault{Status: 403})

	b.open(b.begin("+44 7700 900-012"))
	if err := s.service.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}

	if got := b.open(s.url + "/check"); got.title != "Verified" {
		t.Errorf("page = %q, want Verified: the callback contains the result", got.title)
	}
}

func TestRedirect_ExchangeFails(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	b := s.browser(t)
	s.service.Inject(sandboxfake.Match{Operation: "phone_check.complete"}, sandboxfake.Fault{Status: 503})
	s.service.Inject(sandboxfake.Match{Operation: "phone_check.get"}, sandboxfake.Fault{Status: 404, Code: "check_not_found"})

	waiting := b.open(b.begin("+44 7700 900-012"))
	if err := s.service.Advance(t.Context(), 3*time.Minute); err != nil {
		t.Fatal(err)
	}

	if waiting.title != "Just a moment" {
		t.Errorf("page = %q, want Just a moment", waiting.title)
	}
	if got := b.open(s.url + "/check"); got.title != "Time is up" {
		t.Errorf("page after the callback = %q, want Time is up", got.title)
	}
}

func TestForm_InvalidNumber(t *testing.T) {
	t.Parallel()
	for _, number := range []string{"", "07700 900012", "call me", `"><script>alert(1)</script>`, strings.Repeat("4", 5000)} {
		s := newShop(t)
		b := s.browser(t)

		got := b.post(number)

		if got.status != http.StatusUnprocessableEntity || !strings.Contains(got.body, `role="alert"`) {
			t.Errorf("%.20q: status = %d, want 422 and the form with an error message", number, got.status)
		}
		if strings.Contains(got.body, "<script>") {
			t.Errorf("%.20q: the page contains the unescaped input", number)
		}
		if n := s.calls("phone_check.create"); n != 0 {
			t.Errorf("%.20q: %d checks created, want 0", number, n)
		}
	}
}

func TestForm_CreateFails(t *testing.T) {
	t.Parallel()
	for _, fault := range []sandboxfake.Fault{{Status: 402}, {Status: 503}, {Drop: true}, {Body: "<html>"}} {
		s := newShop(t)
		s.service.Inject(sandboxfake.Match{Operation: "phone_check.create"}, fault)

		got := s.browser(t).post("+44 7700 900-012")

		if got.title != "Please try again later" || got.status != http.StatusServiceUnavailable {
			t.Errorf("%+v: page = %q, status %d, want Please try again later, status 503", fault, got.title, got.status)
		}
	}
}

func TestForm_RejectsCrossSiteRequest(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	b := s.browser(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/", strings.NewReader("number=447700900012"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "cross-site")

	got := b.do(r)

	if got.status != http.StatusForbidden || s.calls("phone_check.create") != 0 {
		t.Errorf("status = %d, want 403 and no check: each one is charged", got.status)
	}
}

func TestForm_CookiesDisabled(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	b := s.browser(t)
	b.client.Jar = nil

	got := b.post("+44 7700 900-012")

	if got.title != "No sign-in in progress" {
		t.Errorf("page = %q, want No sign-in in progress", got.title)
	}
}

func TestForm_CookieAttributes(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	b := s.browser(t)
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

	got := b.post("+44 7700 900-012")

	cookie := got.header.Get("Set-Cookie")
	for _, want := range []string{"__Host-", "Path=/;", "HttpOnly", "Secure", "SameSite=Lax"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("cookie = %q, want %s", cookie, want)
		}
	}
}

func TestPages_ProtectPersonalData(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	b := s.browser(t)
	checkURL := b.begin("+44 7700 900-012")

	for _, url := range []string{s.url + "/", s.url + "/check", checkURL} {
		got := b.open(url)

		for header, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
			"Referrer-Policy":         "same-origin",
			"Cache-Control":           "no-store",
			"X-Content-Type-Options":  "nosniff",
		} {
			if got.header.Get(header) != want {
				t.Errorf("%s: %s = %q, want %q", got.title, header, got.header.Get(header), want)
			}
		}
		if strings.Contains(got.url, "code=") {
			t.Errorf("%s: the URL contains the code", got.title)
		}
	}
	for _, secret := range []string{"447700900012", "7700 900", "code="} {
		if strings.Contains(s.log.String(), secret) {
			t.Errorf("log contains %q:\n%s", secret, s.log.String())
		}
	}
}
