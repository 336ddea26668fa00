package signature

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// Verification describes a call of [Verifier.VerifyCallback] or [Verifier.VerifyRedirect]. It
// contains no personal data, and nothing that the sender chose unless the message was verified. All
// fields except Err and Duration have few distinct values, so they are suitable as attributes of a
// metric.
type Verification struct {
	Operation string        // "callback" or "redirect"
	Product   string        // Message.Product, for example phone_check; empty for a redirect, or if not verified
	KeyID     string        // Message.KeyID; empty if not verified
	Reason    string        // name of the reason, such as "ErrHost"; empty if verified
	Err       error         // error that the method returns, an [*Error]; nil if verified
	Duration  time.Duration // time until the decision, including the key lookup and reading the body

	// Alert reports whether a sender cannot have caused Err: the key source or the replay store is
	// unavailable, or middleware has consumed the body. [Verifier.RequireCallback] and
	// [Verifier.RequireRedirect] log it at level error. It is false if the sender closed the
	// connection, whatever Reason is.
	Alert bool
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
		if errors.Is(r.Context().Err(), context.Canceled) { // the sender closed the connection
			err = asWarning(err)
		}
	}
	if v.observe != nil {
		o := Verification{Operation: operation, Err: err, Duration: time.Since(start)}
		if e, ok := errors.AsType[*Error](err); ok {
			o.Reason, o.Alert = e.ReasonName(), logLevel(err) == slog.LevelError
		}
		if m != nil {
			o.Product, o.KeyID = m.Product, m.KeyID
		}
		v.callObserve(r.Context(), o)
	}
	return m, err
}

// callObserve calls VerifierOptions.Observe. If it panics, callObserve logs the type of the value,
// which may contain personal data. The panic must not end the verification: the replay store has
// recorded the message, so the service or the user could not send it again.
func (v *Verifier) callObserve(ctx context.Context, o Verification) {
	defer func() {
		if p := recover(); p != nil {
			v.logger.LogAttrs(ctx, slog.LevelError, "signature: observer panicked",
				slog.String("operation", o.Operation),
				slog.String("type", fmt.Sprintf("%T", p)))
		}
	}()
	v.observe(ctx, o)
}
