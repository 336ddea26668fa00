package signin_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/idverify/idverify-go/sandboxfake"
)

// The attacker opens the victim's redirect URL in another browser before the victim does.
func TestRedirect_OtherBrowserEndsSession(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name        string
		ownSession  bool   // the attacker has started another check
		attackerEnd string // final page of the attacker
	}{
		{"without a session", false, "No sign-in in progress"},
		{"with another session", true, "One more step"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			victim, attacker := s.browser(t), s.browser(t)
			if row.ownSession {
				attacker.begin("+44 7700 900-014")
			}
			redirect := victim.redirectOf(victim.begin("+44 7700 900-012"))

			rejected := attacker.open(redirect)
			opened := victim.open(redirect)

			if rejected.title != "Started in another browser" || rejected.status != http.StatusForbidden {
				t.Errorf("page of the attacker = %q, status %d, want Started in another browser", rejected.title, rejected.status)
			}
			if n := s.calls("phone_check.complete"); n != 0 {
				t.Errorf("%d code exchanges, want 0", n)
			}
			if got := attacker.open(s.url + "/check"); got.title != row.attackerEnd {
				t.Errorf("page of the attacker's session = %q, want %q", got.title, row.attackerEnd)
			}
			if opened.title != "Opened in another browser" {
				t.Errorf("page of the victim = %q, want Opened in another browser", opened.title)
			}
			if got := victim.open(victim.begin("+44 7700 900-012")); got.title != "Verified" {
				t.Errorf("page of the victim after a new start = %q, want Verified", got.title)
			}
		})
	}
}

// The attacker starts with the victim's number and brings the redirect before the victim's browser
// does. The session ends when the victim's browser follows.
func TestRedirect_VictimOpensAfterAttacker(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	victim, attacker := s.browser(t), s.browser(t)
	redirect := victim.redirectOf(attacker.begin("+44 7700 900-012"))
	first := attacker.open(redirect)

	second := victim.open(redirect)

	if first.title != "Verified" {
		t.Fatalf("page of the attacker = %q, want Verified before the victim's browser returns", first.title)
	}
	if second.title != "This link cannot be used" {
		t.Errorf("page of the victim = %q, want This link cannot be used", second.title)
	}
	if got := attacker.open(s.url + "/check"); got.title != "Opened in another browser" {
		t.Errorf("page of the attacker = %q, want Opened in another browser", got.title)
	}
	reloaded := s.browser(t)
	own := reloaded.redirectOf(reloaded.begin("+44 7700 900-014"))
	reloaded.open(own)
	if got := reloaded.open(own); got.title != "Verified" {
		t.Errorf("page after a reload = %q, want Verified", got.title)
	}
}

// The attacker starts with the victim's number, makes the victim open the Check URL, and learns the
// redirect URL at once: from a shared screen, a log or a synchronized history. The attacker's
// browser has the session of the check.
func TestRedirect_AttackerOpensVictimsURL(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	victim, attacker := s.browser(t), s.browser(t)
	redirect := victim.redirectOf(attacker.begin("+44 7700 900-012"))
	warned := victim.open(redirect)

	got := attacker.open(redirect) // within the clock skew: the clock is frozen

	if warned.title != "Started in another browser" {
		t.Errorf("page of the victim = %q, want Started in another browser", warned.title)
	}
	if got.title != "Opened in another browser" {
		t.Errorf("page of the attacker = %q, want Opened in another browser: the attacker is signed in as the victim", got.title)
	}
	if n := s.calls("phone_check.complete"); n != 0 {
		t.Errorf("%d code exchanges, want 0", n)
	}
}

// The attacker starts with the victim's number and plants the session cookie in the victim's
// browser. The check matches, but only the victim's browser may see the result.
func TestSession_HidesResultFromPlantedCookie(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		fault sandboxfake.Fault // of the exchange
	}{
		{"result by code exchange", sandboxfake.Fault{}},
		{"result by callback", sandboxfake.Fault{Drop: true}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			victim, attacker := s.browser(t), s.browser(t)
			if row.fault.Drop {
				s.service.Inject(sandboxfake.Match{Operation: "phone_check.complete"}, row.fault)
				s.service.Inject(sandboxfake.Match{Operation: "phone_check.get"}, sandboxfake.Fault{Status: 403})
			}
			checkURL := attacker.begin("+44 7700 900-012")
			planted := attacker.cookies()
			victim.setCookies(planted)

			victim.open(checkURL)
			if err := s.service.Idle(t.Context()); err != nil {
				t.Fatal(err)
			}

			if got := attacker.open(s.url + "/check"); got.title != "No sign-in in progress" {
				t.Errorf("page of the attacker = %q, want No sign-in in progress", got.title)
			}
			if got := victim.open(s.url + "/check"); got.title != "Verified" {
				t.Errorf("page of the victim = %q, want Verified", got.title)
			}
			if now := victim.cookies(); len(now) != 1 || now[0].Value == planted[0].Value {
				t.Errorf("the victim's browser has %d cookies or the planted session cookie, want a new one", len(now))
			}
		})
	}
}

// The attacker starts with the victim's number and sends the Check URL to the victim, whose phone
// opens it.
func TestSession_CheckURLOpenedByVictim(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	victim, attacker := s.browser(t), s.browser(t)
	checkURL := attacker.begin("+44 7700 900-012")

	view := victim.open(checkURL)

	if view.title != "Started in another browser" {
		t.Errorf("page of the victim = %q, want Started in another browser", view.title)
	}
	if err := s.service.Advance(t.Context(), 3*time.Minute); err != nil {
		t.Fatal(err)
	}
	if got := attacker.open(s.url + "/check"); got.title != "Opened in another browser" {
		t.Errorf("page of the attacker = %q, want Opened in another browser", got.title)
	}
}
