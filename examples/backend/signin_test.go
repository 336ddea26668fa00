package main

import (
	"net/http"
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

func TestShop_SignInLimit(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.value(t, "WITH rows AS (INSERT INTO signins SELECT n::text, '447700900012' FROM generate_series(1, 9) n) SELECT ''")
	b := s.browser(t)
	b.begin("447700900012")

	got := b.post("/signins", `{"phone_number": "+44 7700 900-012"}`)
	app := b.post("/app/signins", `{"phone_number": "447700900012"}`)
	b.begin("447700900014")

	if got.status != http.StatusForbidden || app.status != http.StatusForbidden || s.calls("phone_check.create") != 2 {
		t.Errorf("status = %d and %d with %d checks, want 403 and 2: each one is charged", got.status, app.status, s.calls("phone_check.create"))
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
