package signin_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/idverify/idverify-go/sandboxfake"
)

// The attacker opens the victim's redirect URL in another browser, before the victim does.
func TestRedirect_OtherBrowserEndsSession(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name        string
		ownSession  bool   // of the attacker, for a check of the attacker's number
		attackerEnd string // what the attacker sees in the end
	}{
		{"without a session", false, "No sign-in in progress"},
		{"with a session of its own", true, "One more step"},
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

			if rejected.title != "Begun somewhere else" || rejected.status != http.StatusForbidden {
				t.Errorf("the attacker sees %q, status %d, want Begun somewhere else", rejected.title, rejected.status)
			}
			if n := s.calls("phone_check.complete"); n != 0 {
				t.Errorf("%d codes were exchanged, want 0", n)
			}
			if got := attacker.open(s.url + "/check"); got.title != row.attackerEnd {
				t.Errorf("the attacker's session says %q, want %q", got.title, row.attackerEnd)
			}
			if opened.title != "Opened somewhere else" {
				t.Errorf("the victim sees %q, want the sign-in to have ended", opened.title)
			}
			if got := victim.open(victim.begin("+44 7700 900-012")); got.title != "Verified" {
				t.Errorf("after a new start the victim sees %q, want Verified", got.title)
			}
		})
	}
}

// As below, but the attacker is faster than the victim's browser. The victim's arrival ends the
// attacker's session.
func TestRedirect_VictimComesSecond(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	victim, attacker := s.browser(t), s.browser(t)
	redirect := victim.redirectOf(attacker.begin("+44 7700 900-012"))
	first := attacker.open(redirect)

	second := victim.open(redirect)

	if first.title != "Verified" {
		t.Fatalf("the attacker sees %q: the test expects that the redirect was used", first.title)
	}
	if second.title != "This link cannot be used" {
		t.Errorf("the victim sees %q, want This link cannot be used", second.title)
	}
	if got := attacker.open(s.url + "/check"); got.title != "Opened somewhere else" {
		t.Errorf("afterwards the attacker sees %q, want the sign-in to have ended", got.title)
	}
	reloaded := s.browser(t)
	own := reloaded.redirectOf(reloaded.begin("+44 7700 900-014"))
	reloaded.open(own)
	if got := reloaded.open(own); got.title != "Verified" {
		t.Errorf("after a reload the owner sees %q, want Verified", got.title)
	}
}

// The attacker begins with the victim's number, makes the victim open the Check URL, and learns the
// redirect URL at once: from a shared screen, a log, or a synchronized history. The attacker's
// browser has the session of the check.
func TestRedirect_AttackerOpensVictimsURL(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	victim, attacker := s.browser(t), s.browser(t)
	redirect := victim.redirectOf(attacker.begin("+44 7700 900-012"))
	warned := victim.open(redirect)

	got := attacker.open(redirect) // the clock is frozen: less than 5 s later

	if warned.title != "Begun somewhere else" {
		t.Errorf("the victim sees %q, want Begun somewhere else", warned.title)
	}
	if got.title != "Opened somewhere else" {
		t.Errorf("the attacker sees %q, want the sign-in to have ended: the attacker is signed in as the victim", got.title)
	}
	if n := s.calls("phone_check.complete"); n != 0 {
		t.Errorf("%d codes were exchanged, want 0", n)
	}
}

// The attacker begins with the victim's number and plants the session cookie in the victim's
// browser. The check matches, but only the victim's browser may learn of it.
func TestSession_PlantedCookieLearnsNothing(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		fault sandboxfake.Fault // of the exchange
	}{
		{"result of the exchange", sandboxfake.Fault{}},
		{"result of the callback", sandboxfake.Fault{Drop: true}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			victim, attacker := s.browser(t), s.browser(t)
			if row.fault.Drop {
				s.service.Inject(sandboxfake.Match{Operation: "phone_check.complete"}, row.fault)
			}
			checkURL := attacker.begin("+44 7700 900-012")
			planted := attacker.cookies()
			victim.setCookies(planted)

			victim.open(checkURL)
			if err := s.service.Idle(t.Context()); err != nil {
				t.Fatal(err)
			}

			if got := attacker.open(s.url + "/check"); got.title != "No sign-in in progress" {
				t.Errorf("the attacker sees %q, want No sign-in in progress", got.title)
			}
			if got := victim.open(s.url + "/check"); got.title != "Verified" {
				t.Errorf("the victim sees %q, want Verified", got.title)
			}
			if now := victim.cookies(); len(now) != 1 || now[0].Value == planted[0].Value {
				t.Errorf("the victim's browser has %d cookies, the session cookie the same as before: want a new one", len(now))
			}
		})
	}
}

// The attacker begins with the victim's number and sends the Check URL to the victim, so that the
// victim's phone completes the check.
func TestACheckURLSentToSomebodyElseVerifiesNothing(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	victim, attacker := s.browser(t), s.browser(t)
	checkURL := attacker.begin("+44 7700 900-012")

	view := victim.open(checkURL)

	if view.title != "Begun somewhere else" {
		t.Errorf("the victim sees %q, want a warning", view.title)
	}
	if err := s.service.Advance(t.Context(), 3*time.Minute); err != nil {
		t.Fatal(err)
	}
	if got := attacker.open(s.url + "/check"); got.title != "Opened somewhere else" {
		t.Errorf("the attacker sees %q, want the sign-in to have ended", got.title)
	}
}
