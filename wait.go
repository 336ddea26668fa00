package idverify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// How often Wait reads a check, and for how long when the check names no ttl.
const (
	minPollInterval = 500 * time.Millisecond
	maxPollInterval = 5 * time.Second
	defaultTTL      = 2 * time.Minute
)

// CheckEndedError says that a check ended without a result that can be read: the service does not keep checks that end as EXPIRED or ERROR, only their callback shows them (specification, section 3).
// A check that never existed looks the same. errors.Is finds [ErrNotFound] when the service no longer knew the check.
type CheckEndedError struct {
	CheckID   string
	Status    CheckStatus // the last one seen; empty when the check could not be read even once
	ErrorCode string      // of a check that could be read as ERROR

	Operation string // of the read that Wait repeats, for example "phone_check.get"

	title string // "wait for PhoneCheck"
	err   error

	statusText, errorText string // Status and ErrorCode, redacted
}

// Error implements error.
func (e *CheckEndedError) Error() string {
	s := errorMessage{operation: cmp.Or(e.title, wire.Title(e.Operation))}.String() + ": "
	status := cmp.Or(e.statusText, sanitize(string(e.Status))) // a caller may have made e
	switch {
	case e.err != nil && e.Status == "":
		s += "check not found: it ended as EXPIRED or ERROR, or never existed (set CallbackURL to receive the result of such checks)"
	case e.err != nil:
		s += fmt.Sprintf("check not found after status %s: it ended as EXPIRED or ERROR (its callback contains the result)", status)
	case e.Status.Final():
		s += "check ended as " + string(e.Status)
		if e.ErrorCode != "" {
			s += ": " + cmp.Or(e.errorText, sanitize(e.ErrorCode))
		}
	default:
		s += fmt.Sprintf("check is still %s after its TTL", status)
	}
	return s
}

// Unwrap returns the service's answer to the last read, where that was a refusal.
func (e *CheckEndedError) Unwrap() error { return e.err }

// progress is what wait must know of a check of any product.
type progress struct {
	status    CheckStatus
	errorCode string
	ttl       time.Duration
}

// wait reads the check with get until it is COMPLETED.
func wait[T any](ctx context.Context, a *api, op wire.Operation, title, checkID string, get func(context.Context, string) (*T, error), toProgress func(*T) progress) (*T, error) {
	ended := &CheckEndedError{CheckID: checkID, Operation: op.Name, title: title}
	interval := minPollInterval
	var end time.Time
	for {
		check, err := get(ctx, checkID)
		// Another 404 is that of a wrong version or of something in between, and says nothing of the check.
		if e, ok := errors.AsType[*Error](err); ok && e.Fragment() == wire.CheckNotFound {
			ended.err = err
			return nil, ended
		}
		if err != nil {
			return nil, err
		}
		p := toProgress(check)
		ended.Status, ended.ErrorCode = p.status, p.errorCode
		ended.statusText, ended.errorText = sanitize(string(p.status), a.secrets()...), sanitize(p.errorCode, a.secrets()...)
		if p.status == StatusCompleted {
			return check, nil
		}
		if end.IsZero() {
			if p.ttl <= 0 {
				p.ttl = defaultTTL
			}
			// The ttl counts from the first read, because the service's clock may differ: Wait never
			// ends too early. One more read follows, which finds that the check has ended.
			end = time.Now().Add(min(p.ttl, math.MaxInt64-maxPollInterval) + maxPollInterval)
		}
		if p.status.Final() || !time.Now().Before(end) {
			return nil, ended
		}

		timer := time.NewTimer(interval)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, &sendError{operation: title, err: ctx.Err(), text: ctx.Err().Error() + ": check is still " + ended.statusText}
		}
		interval = min(interval*3/2, maxPollInterval)
	}
}
