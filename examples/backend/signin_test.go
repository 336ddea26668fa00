package main

import (
	"fmt"
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
	for _, row := range []struct{ name, number, want string }{
		{"match", "447700900012", "signed_in"},
		{"no match", "447700900013", rejected},
		{"no result", "447700900099", failed},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := s.browser(t)
			redirect := b.redirectOf(b.begin(row.number))
			planted := b.cookies()

			got := b.do("GET", redirect, "")
			s.awaitDecision(t)
			after := b.get("/session")

			if got.status != http.StatusSeeOther || got.location != "https://"+host+"/api/session" {
				t.Errorf("response = %d to %q, want 303 to the session", got.status, got.location)
			}
			if after.text("status") != row.want {
				t.Errorf("status = %q, want %q", after.text("status"), row.want)
			}
			if now := b.cookies(); now == planted {
				t.Error("the session cookie is unchanged: an attacker may have planted it")
			}
			attacker := s.browser(t)
			attacker.setCookies(planted)
			if got := attacker.get("/session"); got.status != http.StatusUnauthorized {
				t.Errorf("status with the first cookie = %d, want 401", got.status)
			}
		})
	}
}

// The victim opens the Check URL of the attacker, or the attacker opens the redirect of the victim.
func TestShop_SignInOtherBrowser(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name       string
		ownSession bool // the other browser has started its own sign-in
	}{
		{"without a session", false},
		{"with another session", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			owner, other := s.browser(t), s.browser(t)
			if row.ownSession {
				other.begin("447700900014")
			}
			redirect := owner.redirectOf(owner.begin("447700900012"))

			got := other.do("GET", redirect, "")

			if got.status != http.StatusForbidden {
				t.Errorf("status = %d, want 403", got.status)
			}
			if n := s.calls("phone_check.complete"); n != 0 {
				t.Errorf("%d code exchanges, want 0", n)
			}
			if got := owner.get("/session"); got.text("status") != "revoked" {
				t.Errorf("status of the owner's session = %q, want revoked", got.text("status"))
			}
			if got := other.get("/session"); row.ownSession && got.text("status") != "started" {
				t.Errorf("status of the other session = %q, want started", got.text("status"))
			}
		})
	}
}

// The redirect of a session that is signed in arrives again. The verifier rejects it as a replay
// unless Redis has lost its claims.
func TestShop_SignInRedirectAgain(t *testing.T) {
	t.Parallel()
	const owner, former, other, second = "owner", "owner before the new cookie arrived", "other browser", "browser with another session"
	for _, row := range []struct {
		from    string
		flushed bool
		status  int
		want    string
	}{
		{owner, false, http.StatusSeeOther, "signed_in"},
		{owner, true, http.StatusSeeOther, "signed_in"},
		{former, false, http.StatusSeeOther, "signed_in"},
		{former, true, http.StatusSeeOther, "signed_in"},
		{other, false, http.StatusForbidden, "revoked"},
		{other, true, http.StatusForbidden, "revoked"},
		{second, false, http.StatusForbidden, "revoked"},
	} {
		t.Run(fmt.Sprintf("%s, flushed %t", row.from, row.flushed), func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			b := s.browser(t)
			redirect := b.redirectOf(b.begin("447700900012"))
			begun := b.cookies()
			b.do("GET", redirect, "")
			s.awaitDecision(t)
			if row.flushed {
				s.flushRedis(t)
			}
			sender := b
			if row.from != owner {
				sender = s.browser(t)
			}
			switch row.from {
			case former:
				sender.setCookies(begun)
			case second:
				sender.begin("447700900014")
			}

			got := sender.do("GET", redirect, "")

			if got.status != row.status || s.calls("phone_check.complete") != 1 {
				t.Errorf("status = %d and %d code exchanges, want %d and 1", got.status, s.calls("phone_check.complete"), row.status)
			}
			if session := b.get("/session"); session.text("status") != row.want {
				t.Errorf("status = %q, want %q", session.text("status"), row.want)
			}
		})
	}
}

// Only redirects need Redis: without it, callbacks are still accepted.
func TestShop_SignInWithoutRedis(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(s *site) { s.env["REDIS_URL"] = "redis://127.0.0.1:1/0" })
	b := s.browser(t)
	begun := b.post("/signups", `{"phone_number": "447700900012"}`)
	redirect := b.redirectOf(b.begin("447700900012"))

	got := b.do("GET", redirect, "")
	s.open(t, begun.text("check_url"))
	callback, err := s.service.AwaitDelivery(t.Context(), func(d sandboxfake.Delivery) bool { return len(d.Attempts) > 0 })

	if got.status != http.StatusServiceUnavailable {
		t.Errorf("status of the redirect = %d, want 503", got.status)
	}
	if err != nil || !callback.Acknowledged() {
		t.Errorf("callback = %+v, %v, want acknowledged", callback.Attempts, err)
	}
}

func TestShop_SignInForgedRedirect(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := s.browser(t)
	redirect := b.redirectOf(b.begin("447700900012"))

	got := s.browser(t).do("GET", redirect+"x", "")

	if got.status != http.StatusBadRequest || got.text("error") != "invalid_redirect" {
		t.Errorf("response = %d %v, want 400 invalid_redirect", got.status, got.body)
	}
	if session := b.get("/session"); session.text("status") != "started" {
		t.Errorf("status = %q, want started: anyone can send an invalid redirect", session.text("status"))
	}
}

func TestShop_SignInExchangeFails(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		faults []sandboxfake.Fault
		want   string
	}{
		// The check is COMPLETED.
		{"response lost", []sandboxfake.Fault{{Drop: true}}, "signed_in"},
		{"code not found", []sandboxfake.Fault{{Status: http.StatusNotFound, Code: "check_not_found"}}, failed},
		{"rejected", []sandboxfake.Fault{{Status: http.StatusForbidden}}, pending},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			b := s.browser(t)
			s.service.Inject(sandboxfake.Match{Operation: "phone_check.complete"}, row.faults...)

			got := b.do("GET", b.redirectOf(b.begin("447700900012")), "")
			if row.want == "signed_in" {
				s.awaitDecision(t)
			}

			if session := b.get("/session"); got.status != http.StatusSeeOther || session.text("status") != row.want {
				t.Errorf("response = %d, then status %q, want 303, then %q", got.status, session.text("status"), row.want)
			}
		})
	}
}

func TestShop_SignInNotCreated(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := s.browser(t)
	s.service.Inject(sandboxfake.Match{Operation: "phone_check.create"}, sandboxfake.Fault{Status: http.StatusPaymentRequired}, sandboxfake.Fault{Drop: true})

	for _, name := range []string{"balance too low", "outcome unknown"} {
		got := b.post("/signins", `{"phone_number": "447700900012"}`)

		if got.status != http.StatusServiceUnavailable || b.cookies() != "" {
			t.Errorf("%s: status = %d, cookies = %q, want 503 and no session", name, got.status, b.cookies())
		}
	}
	if n := s.calls("phone_check.create"); n != 2 {
		t.Errorf("%d creates, want 2: one for each request", n)
	}
	if plans := s.value(t, "SELECT count(*)::text FROM idverify_checks"); plans != "1" {
		t.Errorf("%s plans, want 1: that of the check that may exist", plans)
	}
	if got := b.get("/session"); got.status != http.StatusUnauthorized {
		t.Errorf("status without a session = %d, want 401", got.status)
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
