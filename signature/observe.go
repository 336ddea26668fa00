package signature

import (
	"errors"
	"net/http"
	"time"
)

// Verification describes a call of [Verifier.VerifyCallback] or [Verifier.VerifyRedirect]. It
// contains no personal data, and nothing that the sender chose unless the message was verified.
// Operation, Kind, KeyID and Reason have few distinct values, so they are suitable as attributes of
// a metric.
type Verification struct {
	Operation string        // "callback" or "redirect"
	Kind      string        // Message.Kind, for example phone_check; empty for a redirect, or if not verified
	KeyID     string        // Message.KeyID; empty if not verified
	Reason    string        // name of the reason, such as "ErrHost"; empty if verified
	Err       error         // error that the method returns, an [*Error]; nil if verified
	Duration  time.Duration // time until the decision, including the key lookup and reading the body
}

// verify calls check, which verifies a message of the given operation, and passes the result to
// VerifierOptions.Observe. Parameter check is a method expression, because a method value would be
// allocated.
func (v *Verifier) verify(operation string, r *http.Request, check func(*Verifier, *http.Request) (*Message, error)) (*Message, error) {
	var start time.Time
	if v.observe != nil {
		start = time.Now()
	}
	m, err := check(v, r)
	if err != nil {
		m, err = nil, withOperation(operation, err)
	}
	if v.observe != nil {
		o := Verification{Operation: operation, Err: err, Duration: time.Since(start)}
		if e, ok := errors.AsType[*Error](err); ok {
			o.Reason = reasonName(e.Reason)
		}
		if m != nil {
			o.Kind, o.KeyID = m.Kind, m.KeyID
		}
		v.observe(r.Context(), o)
	}
	return m, err
}
