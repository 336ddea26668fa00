package main

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/idverify/idverify-go/sandboxfake"
)

// begin starts a sign-in and returns the Check URL.
func (b *browser) begin(number string) (checkURL string) {
	b.t.Helper()
	begun := b.post("/signins", `{"phone_number": "`+number+`"}`)
	if begun.status != http.StatusCreated {
		b.t.Fatalf("response = %d %v, want 201", begun.status, begun.body)
	}
	return begun.text("check_url")
}

// redirectOf opens the Check URL and returns the redirect URL without following it.
func (b *browser) redirectOf(checkURL string) string {
	b.t.Helper()
	return b.do("GET", checkURL, "").location
}

func TestShop_SignIn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, row := range []struct {
		name, number, location string
		want                   int
	}{
		{"match", "447700900012", "/session", http.StatusOK},
		{"no match", "447700900013", "/session?reason=no_match", http.StatusUnauthorized},
		{"no result", "447700900099", "/session?reason=ended", http.StatusUnauthorized},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := s.browser(t)

			got := b.do("GET", b.redirectOf(b.begin(row.number)), "")
			s.awaitDecision(t)

			if got.status != http.StatusSeeOther || got.location != "https://"+host+"/api"+row.location {
				t.Errorf("response = %d to %q, want 303 to %s", got.status, got.location, row.location)
			}
			if session := b.get(row.location); session.status != row.want {
				t.Errorf("session = %d %v, want %d", session.status, session.body, row.want)
			}
		})
	}
	if got := s.value(t, "SELECT string_agg(decision, ' ' ORDER BY decided_at) FROM decisions"); got != "yes no unknown" {
		t.Errorf("audit log = %q, want yes no unknown", got)
	}
}

// The victim opens the Check URL of the attacker.
func TestShop_SignInOtherBrowser(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	victim, attacker := s.browser(t), s.browser(t)
	redirect := victim.redirectOf(attacker.begin("447700900012"))

	warned := victim.do("GET", redirect, "")
	got := attacker.do("GET", redirect, "")

	if want := "https://" + host + "/api/session?reason=other_session"; warned.location != want {
		t.Errorf("page of the victim = %q, want %q", warned.location, want)
	}
	if want := "https://" + host + "/api/session?reason=revoked"; got.location != want || attacker.get("/session").status != http.StatusUnauthorized {
		t.Errorf("page of the attacker = %q, want %q: the attacker is signed in as the victim", got.location, want)
	}
}

// A page of the attacker makes the victim's browser open the Check URL with another method.
func TestShop_SignInOtherMethod(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, method := range []string{"HEAD", "OPTIONS", "POST"} {
		victim, attacker := s.browser(t), s.browser(t)
		redirect := victim.redirectOf(attacker.begin("447700900012"))
		victim.origin = "https://attacker.example.com"

		victim.do(method, redirect, "")
		got := attacker.do("GET", redirect, "")

		if want := "https://" + host + "/api/session?reason=revoked"; got.location != want {
			t.Errorf("page of the attacker after %s = %q, want %q", method, got.location, want)
		}
	}
}

func TestShop_SignInNotStarted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := s.browser(t)
	s.service.Inject(sandboxfake.Match{Operation: "phone_check.create"}, sandboxfake.Fault{Status: http.StatusPaymentRequired}, sandboxfake.Fault{Drop: true})

	for _, name := range []string{"balance too low", "outcome unknown"} {
		got := b.post("/signins", `{"phone_number": "447700900012"}`)

		if got.status != http.StatusServiceUnavailable || b.cookies() != "" {
			t.Errorf("%s: status = %d, cookies = %q, want 503 and no flow", name, got.status, b.cookies())
		}
	}
	if plans := s.value(t, "SELECT count(*)::text FROM idverify_checks"); plans != "1" {
		t.Errorf("%s plans, want 1: that of the check that may exist", plans)
	}
}

// The victim can sign in from another address than the attacker, until the attacker has used many.
func TestShop_SignInLimit(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := s.browser(t)
	for _, row := range []struct {
		name, path    string
		addr, started string // the address of the request, and of the starts before
		before        int    // starts in the last hour
		want          int
	}{
		{"last of the address", "/signins", "192.0.2.1", "192.0.2.1/32", 4, http.StatusCreated},
		{"limit of the address", "/signins", "192.0.2.1", "192.0.2.1/32", 5, http.StatusForbidden},
		{"app", "/app/signins", "192.0.2.1", "192.0.2.1/32", 5, http.StatusForbidden},
		{"other address", "/signins", "192.0.2.2", "192.0.2.1/32", 5, http.StatusCreated},
		{"same IPv6 subscriber", "/signins", "2001:db8:0:1::2", "2001:db8:0:1::/64", 5, http.StatusForbidden},
		{"other IPv6 subscriber", "/signins", "2001:db8:0:2::1", "2001:db8:0:1::/64", 5, http.StatusCreated},
		{"IPv4-mapped IPv6", "/signins", "::ffff:192.0.2.1", "192.0.2.1/32", 5, http.StatusForbidden},
		{"last of the number", "/signins", "192.0.2.2", "192.0.2.1/32", 19, http.StatusCreated},
		{"limit of the number", "/app/signins", "192.0.2.2", "192.0.2.1/32", 20, http.StatusForbidden},
	} {
		t.Run(row.name, func(t *testing.T) {
			s.value(t, "WITH rows AS (DELETE FROM signins) SELECT ''")
			s.value(t, "WITH rows AS (INSERT INTO signins SELECT '447700900012', $1, now() - interval '59 minutes' FROM generate_series(1, $2)) SELECT ''", row.started, row.before)
			created := s.calls("phone_check.create")
			s.deviceIP = row.addr

			got := b.post(row.path, `{"phone_number": "+44 7700 900-012"}`)

			if got.status != row.want {
				t.Errorf("response = %d %v, want %d", got.status, got.body, row.want)
			}
			if n := s.calls("phone_check.create") - created; (n == 1) != (row.want == http.StatusCreated) {
				t.Errorf("%d checks: each one is charged", n)
			}
		})
	}
}

func TestShop_SignInWithoutAddress(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.deviceIP = ""

	got := s.browser(t).post("/signins", `{"phone_number": "447700900012"}`)

	if got.status == http.StatusCreated || s.calls("phone_check.create") != 0 {
		t.Errorf("response = %d %v, want an error and no check", got.status, got.body)
	}
	if want := "X-Real-IP is missing or not an IP address (set it in the proxy)"; !strings.Contains(s.log.String(), want) {
		t.Errorf("log lacks %q", want)
	}
}

func TestShop_SignInLimitConcurrent(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var group sync.WaitGroup
	for range 3 * addressLimit {
		group.Go(func() { s.browser(t).post("/signins", `{"phone_number": "447700900012"}`) })
	}

	group.Wait()

	if n := s.calls("phone_check.create"); n != addressLimit {
		t.Errorf("%d checks, want %d: each one is charged", n, addressLimit)
	}
}

func TestShop_RejectsOtherSites(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, row := range []struct {
		origin string
		want   int
	}{
		{"https://" + host, http.StatusCreated},
		{"https://other.example.com", http.StatusForbidden},
	} {
		t.Run(row.origin, func(t *testing.T) {
			b := s.browser(t)
			b.origin = row.origin

			got := b.post("/signins", `{"phone_number": "447700900012"}`)

			if got.status != row.want {
				t.Errorf("status = %d, want %d", got.status, row.want)
			}
		})
	}
}
