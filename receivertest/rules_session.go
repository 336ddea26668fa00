package receivertest

import (
	"context"
	"net/url"
	"strings"

	"github.com/idverify/idverify-go/internal/attack"
)

// addedCheckIDs are the places at which an attacker can add a check ID to the query of a redirect.
// A receiver may use the first or the last one, but only the one that the service has appended.
var addedCheckIDs = []struct {
	detail string
	setup  func(*attack.Setup, string)   // before the message is signed; nil means no change
	sent   func(*attack.Message, string) // after that
}{
	{detail: "the redirect URL of a check of another customer contained the check ID of the session",
		setup: func(s *attack.Setup, checkID string) {
			u := *s.URL
			u.RawQuery = "check_id=" + url.QueryEscape(checkID)
			if s.URL.RawQuery != "" {
				u.RawQuery = s.URL.RawQuery + "&" + u.RawQuery
			}
			s.URL = &u
		}},
	{detail: "the check ID of the session was inserted before the signed one",
		sent: func(m *attack.Message, checkID string) {
			m.Target = strings.Replace(m.Target, "?", "?check_id="+url.QueryEscape(checkID)+"&", 1)
		}},
	{detail: "the check ID of the session was appended after the signature",
		sent: func(m *attack.Message, checkID string) { m.Target += "&check_id=" + url.QueryEscape(checkID) }},
}

// otherCheck sends redirects of checks of another customer, to which the check ID of the session
// was added.
func (e *examination) otherCheck(ctx context.Context) (outcome, error) {
	if e.Probe.Session == nil {
		return notApplicable(withoutSession), nil
	}
	for _, row := range addedCheckIDs {
		s, err := e.newSubject(ctx, phoneCheck)
		if err != nil {
			return outcome{}, err
		}
		if !s.known {
			return notApplicable(withoutSession), nil
		}
		a, err := e.sendInTime(ctx, s, func(setup attack.Setup) *attack.Message {
			setup.CheckID = newCheckID()
			if row.setup != nil {
				row.setup(&setup, s.checkID)
			}
			m := e.signed(setup)
			if row.sent != nil {
				row.sent(m, s.checkID)
			}
			return m
		})
		if err != nil {
			return outcome{}, err
		}
		n, err := e.settled(ctx, s.checkID)
		switch {
		case err != nil && !unsupported(err):
			return outcome{}, err
		case err == nil && n > 0:
			return failed("", a, "acted on a check that the service did not sign", describe(a.response)+": "+row.detail), nil
		case e.rejected(a), err == nil && e.acts:
		case a.status/100 == 3 && location(a) == location(e.valid):
			return failed("", a, "accepted a check that the service did not sign", describe(a.response)+", as for the check of the session: "+row.detail), nil
		default:
			return notApplicable(describe(a.response) + ": " + withoutEffects), nil
		}
	}
	return passed(""), nil
}
