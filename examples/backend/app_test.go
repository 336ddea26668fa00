package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
)

// phone is an app on a phone.
type phone struct {
	*browser

	site                     *site
	checkID, checkURL, token string
}

// startApp starts a sign-in in an app.
func (s *site) startApp(t *testing.T, number string) *phone {
	t.Helper()
	p := &phone{browser: s.browser(t), site: s}
	started := p.post("/app/signins", `{"phone_number": "`+number+`"}`)
	if started.status != http.StatusCreated {
		t.Fatalf("response = %d %v, want 201", started.status, started.body)
	}
	p.checkID, p.checkURL, p.token = started.text("check_id"), started.text("check_url"), started.text("token")
	return p
}

// open opens a Check URL over the mobile network, and returns the code.
func (p *phone) open(checkURL string) (code string) {
	p.t.Helper()
	visit := must(p.site.service.Device().Open(p.t.Context(), checkURL))(p.t)
	var body struct{ Code string }
	noError(p.t, json.Unmarshal(visit.Body, &body))
	return body.Code
}

// exchange sends a code to the shop.
func (p *phone) exchange(code string) reply {
	p.t.Helper()
	r := p.post("/app/sessions", fmt.Sprintf(`{"token": %q, "check_id": %q, "code": %q}`, p.token, p.checkID, code))
	p.bearer = r.text("session")
	return r
}

func TestShop_App(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, row := range []struct {
		number, deviceIP, error string
		status, session         int
	}{
		{"447700900012", "127.0.0.1", "", http.StatusCreated, http.StatusOK},
		{"447700900012", "192.0.2.10", "code_rejected", http.StatusForbidden, http.StatusUnauthorized}, // another phone opens the Check URL
		{"447700900013", "127.0.0.1", "no_match", http.StatusForbidden, http.StatusUnauthorized},
		{"447700900099", "127.0.0.1", "code_rejected", http.StatusForbidden, http.StatusUnauthorized}, // the phone gets no code
	} {
		s.deviceIP = row.deviceIP
		p := s.startApp(t, row.number)

		got := p.exchange(p.open(p.checkURL))

		if got.status != row.status || got.text("error") != row.error {
			t.Errorf("%s from %s: response = %d %v, want %d %s", row.number, row.deviceIP, got.status, got.body, row.status, row.error)
		}
		if session := p.get("/session"); session.status != row.session {
			t.Errorf("%s from %s: session = %d, want %d", row.number, row.deviceIP, session.status, row.session)
		}
	}
}

// The attacker starts with the victim's number and sends the victim the Check URL. Then the victim
// signs in.
func TestShop_AppOtherSession(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	attacker, victim := s.startApp(t, "447700900012"), s.startApp(t, "447700900012")
	own := victim.open(victim.checkURL)
	for name, got := range map[string]reply{
		"no code":           attacker.exchange(""),
		"code of the other": attacker.exchange(own),
		"other check":       (&phone{browser: attacker.browser, token: attacker.token, checkID: victim.checkID}).exchange(own),
	} {
		if got.status != http.StatusForbidden || got.text("session") != "" {
			t.Errorf("%s: response = %d %v, want 403: the attacker is signed in as the victim", name, got.status, got.body)
		}
	}

	if got := victim.exchange(own); got.status != http.StatusCreated {
		t.Errorf("response to the victim = %d %v, want 201", got.status, got.body)
	}
	if got := victim.exchange(own); got.status != http.StatusForbidden {
		t.Errorf("response to the second exchange = %d, want 403", got.status)
	}
}
