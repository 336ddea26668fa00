package receivertest

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/idverify/idverify-go/internal/attack"
)

// variantRule returns the rule that a receiver accepts a variant of a valid message.
func variantRule(v attack.Variant) rule {
	return rule{
		name: "accepts-" + ruleName(v.Name), severity: Severity(v.Severity),
		title:  "The receiver accepts a valid message: " + v.Name,
		reason: v.Reason,
		run: func(e *examination, ctx context.Context) (outcome, error) {
			s, err := e.newSubject(ctx, productOf(v))
			if err != nil {
				return outcome{}, err
			}
			a, err := e.sendPatiently(ctx, s, v.Message)
			if err != nil {
				return outcome{}, err
			}
			if a.status == http.StatusTooManyRequests {
				return notApplicable("the receiver limits the rate: " + describe(a.response)), nil
			}
			if !e.accepted(a) && e.rejected(a) && v.Product != "" {
				return notApplicable("rejected, which is correct if the backend does not create checks of this product: " + describe(a.response)), nil
			}
			if !e.accepted(a) {
				return failed("", a, notAccepted+" ("+v.Name+")", describe(a.response)+excerpt(a.response)), nil
			}
			return passed(""), nil
		},
	}
}

// attackRule returns the rule that a receiver rejects a message.
func attackRule(row attack.Attack) rule {
	return rule{
		name: ruleName(row.Name), severity: Severity(row.Severity), attack: true,
		title:  "The receiver rejects an invalid message: " + row.Name,
		reason: row.Reason,
		run: func(e *examination, ctx context.Context) (outcome, error) {
			return e.attack(ctx, row)
		},
	}
}

// maxSilent is the number of attacks without a response after which an examination stops.
const maxSilent = 5

// attack sends a message that must be rejected. A response that may be due to a rate limit or an
// overload counts only if the receiver accepts a valid message after it.
func (e *examination) attack(ctx context.Context, row attack.Attack) (outcome, error) {
	for range 3 {
		s, err := e.newSubject(ctx, phoneCheck)
		if err != nil {
			return outcome{}, err
		}
		a, err := e.sendInTime(ctx, s, row.Message)
		if err != nil {
			return outcome{}, err
		}
		if a.failure == responded && a.status/100 != 5 && a.status != http.StatusTooManyRequests {
			return e.attacked(row, a), nil
		}
		if a.failure == silent {
			e.silent++
		}
		state, err := e.confirm(ctx)
		if err != nil {
			return outcome{}, err
		}
		switch {
		case state == accepting:
			return e.attacked(row, a), nil
		case state == stopped:
			return notApplicable(e.stopped), nil
		}
	}
	return notApplicable("the receiver limits the rate, or is overloaded"), nil
}

// attacked returns the outcome of a message that must be rejected.
func (e *examination) attacked(row attack.Attack, a attempt) outcome {
	index := len(e.report.Findings)
	e.responses[index] = rejection{row.Name, a.checkID, e.accepted(a), response{failure: a.failure, status: a.status}}
	switch {
	case e.accepted(a) && row.Configurable:
		return notApplicable("accepted, which options of the verifier allow (ClockSkew, MaxBody, a host with any port): " + describe(a.response))
	case e.accepted(a):
		return failed("", a, "accepted an invalid message ("+row.Name+")", describe(a.response))
	case e.rejected(a):
		e.unconfirmed = append(e.unconfirmed, index)
		return passed("")
	case a.failure == unreachable:
		return notApplicable(describe(a.response))
	case a.failure == silent:
		if e.silent >= maxSilent {
			e.stop(fmt.Sprintf("the receiver did not respond to %d invalid messages", e.silent))
		}
		return failed(SeverityLow, a, "did not reject an invalid message ("+row.Name+")", describe(a.response)+", so invalid messages occupy its connections")
	case a.status == http.StatusServiceUnavailable && !names(a.message, keyIDOf(&e.Keys.signing.PublicKey)):
		// A verifier that may not fetch the key set again yet cannot know that the key does not exist.
		return passed("")
	}
	return failed(SeverityLow, a, "did not reject an invalid message ("+row.Name+")", describe(a.response)+", want 400"+excerpt(a.response))
}

// names reports whether the Authorization of a message contains the key ID.
func names(m *attack.Message, keyID string) bool {
	authorization := m.Get("Authorization")
	if u, err := url.ParseRequestURI(m.Target); err == nil && m.Redirect {
		decoded, _ := base64.StdEncoding.DecodeString(u.Query().Get("authorization"))
		authorization = string(decoded)
	}
	return strings.Contains(authorization, `"`+keyID+`"`)
}

// rejection is an attack with the response to it.
type rejection struct {
	attack   string // the name of the attack
	checkID  string
	accepted bool
	response
}

// acceptance is whether a receiver accepts valid messages.
type acceptance int

const (
	accepting acceptance = iota
	recovered            // it accepts messages again
	stopped              // it does not accept messages any more
)

// maxRecovery is how long an examination waits for a receiver that has stopped accepting messages.
const maxRecovery = time.Minute

// confirm sends a valid message. If it is accepted, the rejections since the last valid message are
// due to the messages, and not to a limit or a crash.
func (e *examination) confirm(ctx context.Context) (acceptance, error) {
	a, err := e.sendOnce(ctx)
	if err != nil {
		return stopped, err
	}
	if e.accepted(a) {
		e.unconfirmed = nil
		return accepting, nil
	}
	first := a
	// Rejections with the same response as the valid message prove nothing.
	var same []int
	for _, i := range e.unconfirmed {
		if r := e.responses[i]; r.failure == first.failure && r.status == first.status {
			same = append(same, i)
		}
	}
	e.unconfirmed = nil
	detail := fmt.Sprintf("the receiver stopped accepting valid messages after %d rules: %s", len(e.report.Findings), describe(first.response))
	e.discard(same, detail)
	for waited := time.Duration(0); waited < maxRecovery && !permanent(a.response); {
		wait := retryAfter(a.response)
		if err := pause(ctx, wait); err != nil {
			return stopped, err
		}
		waited += wait
		if a, err = e.sendOnce(ctx); err != nil {
			return stopped, err
		}
		if e.accepted(a) {
			return recovered, nil
		}
		if a.failure == silent {
			waited += messageTimeout
		}
	}
	switch {
	case first.status == http.StatusTooManyRequests:
		detail += " (raise its rate limit for the examination)"
	case first.status == http.StatusForbidden, first.failure == closed, first.failure == unreachable:
		detail += " (does it block senders of invalid messages, or has it crashed?)"
	}
	e.stop(detail)
	return stopped, nil
}

// permanent reports whether waiting cannot change the response.
func permanent(r response) bool {
	return r.failure == responded && r.status/100 == 4 && r.status != http.StatusTooManyRequests && r.status != http.StatusForbidden
}

// sendOnce sends a valid message about a new check. It does not wait if the rate is limited.
func (e *examination) sendOnce(ctx context.Context) (attempt, error) {
	s, err := e.newSubject(ctx, phoneCheck)
	if err != nil {
		return attempt{}, err
	}
	return e.sendInTime(ctx, s, e.signed)
}

// checkEffects fails the rules whose messages had an effect although they were rejected. Messages
// that were accepted without an effect fail with a low severity.
func (e *examination) checkEffects(ctx context.Context) error {
	waited := false
	for i := range e.report.Findings {
		a, ok := e.responses[i]
		if !ok {
			continue
		}
		count := e.effects
		if !waited {
			count, waited = e.settled, true
		}
		n, err := count(ctx, a.checkID)
		if unsupported(err) {
			return nil
		} else if err != nil {
			return err
		}
		f := &e.report.Findings[i]
		switch {
		case f.Result == ResultPass && n > 0:
			f.Result, f.Detail = ResultFail, "acted on an invalid message ("+a.attack+"): "+describe(a.response)
		case f.Result == ResultFail && a.accepted && n == 0 && e.acts:
			f.Severity = SeverityLow
			f.Detail += ", without an effect; want 400"
		}
	}
	return nil
}

// stillAccepts is the rule that a valid message is accepted at the end.
func (e *examination) stillAccepts(ctx context.Context) (outcome, error) {
	if e.valid.message == nil || !e.accepted(e.valid) {
		return notApplicable(e.stopped), nil
	}
	if e.stopped != "" {
		return outcome{result: ResultFail, detail: notAccepted + " at the end: " + e.stopped}, nil
	}
	s, err := e.newSubject(ctx, phoneCheck)
	if err != nil {
		return outcome{}, err
	}
	a, err := e.sendPatiently(ctx, s, e.signed)
	switch {
	case err != nil:
		return outcome{}, err
	case !e.accepted(a):
		return failed("", a, notAccepted+" at the end", describe(a.response)+excerpt(a.response)), nil
	}
	return passed(""), nil
}

// addedCheckIDs are the places at which an attacker can add a check ID to the query of a redirect.
// A receiver may use the first or the last one, but only the one that the service has appended.
var addedCheckIDs = []struct {
	detail string
	setup  func(*attack.Setup, string)   // before the message is signed; nil means no change
	sent   func(*attack.Message, string) // after it is signed
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
