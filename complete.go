package idverify

import (
	"context"
	"errors"
	"strings"

	"github.com/idverify/idverify-go/internal/redact"
	"github.com/idverify/idverify-go/internal/wire"
)

// completeCheck exchanges code with op and returns the check. If the outcome is unknown, it reads
// the check with getOp, and sends the code once more if the check is still PENDING. It performs at
// most four operations. After ctx has ended, exchange and get fail without a request.
func completeCheck[J resourceJSON[T], T any](ctx context.Context, a *api, op, getOp wire.Operation, checkID, code string, status func(*T) CheckStatus) (*T, error) {
	body, err := codePatch(a, op, code)
	if err != nil {
		return nil, err
	}
	exchange := func() (*T, error) {
		return sendRequest[J](ctx, a, request{op: op, ids: []string{checkID}, body: body, code: code})
	}
	get := func() (*T, error) {
		return sendRequest[J](ctx, a, request{op: getOp, ids: []string{checkID}, code: code})
	}
	check, err := exchange()
	unknown := unknownOutcomeOf(err)
	if unknown == nil || !a.waitRetryAfter(ctx, err) {
		return check, err
	}

	var later []error
	effect := unknown.effect
	check, readErr := get()
	if readErr == nil && status(check) == StatusPending {
		completed, sendErr := exchange()
		if sendErr == nil {
			return completed, nil
		}
		if second := unknownOutcomeOf(sendErr); second != nil {
			sendErr = withOutcome(sendErr, unknownOutcome{effect: second.effect}) // the advice is that of the first error
		}
		later = append(later, sendErr)
		// Either of the two requests may have used the code.
		if (unknownOutcomeOf(sendErr) != nil || isCheckNotFound(sendErr)) && a.waitRetryAfter(ctx, sendErr) {
			check, readErr = get()
		}
	}
	switch {
	case readErr != nil:
		later = append(later, readErr)
	case status(check) == StatusCompleted:
		return check, withOutcome(err, unknownOutcome{
			effect: "the check is COMPLETED, but the service did not confirm this code",
			action: "accept the result only for the session that owns check and redirect",
			final:  true,
		})
	default:
		effect += ", and the check is " + redact.Text(string(status(check)), append(a.secrets(), code)...)
	}
	err = withOutcome(err, unknownOutcome{effect: effect, action: "use the callback, or get the check later"})
	return nil, &unconfirmedError{first: err, later: later}
}

// waitRetryAfter waits for the Retry-After of err. It reports whether another request can be sent:
// ctx has not ended, and the wait does not exceed RetryPolicy.MaxWait or the deadline of ctx.
func (a *api) waitRetryAfter(ctx context.Context, err error) bool {
	if e, ok := errors.AsType[*Error](err); ok && e.RetryAfter > 0 {
		if e.RetryAfter > a.retry.MaxWait || exceedsDeadline(ctx, e.RetryAfter) {
			return false
		}
		sleep(ctx, e.RetryAfter)
	}
	return ctx.Err() == nil
}

// unknownOutcomeOf returns the possible effect of the operation that failed with err, or nil if the
// outcome is known.
func unknownOutcomeOf(err error) *unknownOutcome {
	switch e := err.(type) {
	case *Error:
		return e.unknown
	case *DecodeError:
		return e.unknown
	case *sendError:
		return e.unknown
	}
	return nil
}

// withOutcome returns a copy of err with the possible effect u. It does not modify err, because
// observers may still use it.
func withOutcome(err error, u unknownOutcome) error {
	switch e := err.(type) {
	case *Error:
		described := *e
		described.unknown = &u
		return &described
	case *DecodeError:
		described := *e
		described.unknown = &u
		return &described
	case *sendError:
		described := *e
		described.unknown = &u
		return &described
	}
	return err
}

// isCheckNotFound reports whether the service did not find the check. Any other 404 comes from a
// wrong version or a proxy and says nothing about the check.
func isCheckNotFound(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code() == wire.CheckNotFound
}

// unconfirmedError is an error whose outcome is unknown, with the errors of the operations that
// followed to determine the outcome.
type unconfirmedError struct {
	first error
	later []error
}

// Error implements error.
func (e *unconfirmedError) Error() string {
	texts := []string{e.first.Error()}
	for _, err := range e.later {
		texts = append(texts, err.Error())
	}
	return strings.Join(texts, "; then ")
}

// Unwrap returns all errors.
func (e *unconfirmedError) Unwrap() []error { return append([]error{e.first}, e.later...) }
