package idverify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/idverify/idverify-go/internal/redact"
	"github.com/idverify/idverify-go/internal/wire"
)

// The intervals between the reads of Wait, and its duration if a check has no TTL.
const (
	minPollInterval = 500 * time.Millisecond
	maxPollInterval = 5 * time.Second
	defaultTTL      = 2 * time.Minute
)

// CheckEndedError is the error of Wait for a check that ended without a result, or is still in
// progress after its TTL. The service does not store a check that ends as EXPIRED or ERROR. Its
// callback reports how it ended; with version v0.2, the redirect also reports ERROR. Wait cannot
// distinguish such a check from one that never existed. The error matches [ErrNotFound] if the
// service did not find the check.
//
// Protocol: docs/protocol.md, section 4.
type CheckEndedError struct {
	CheckID   string
	Status    CheckStatus // the last status that was read; empty if there was none
	ErrorCode string      // of a check that was read with status ERROR

	Operation string // the operation that Wait repeats, for example "phone_check.get"

	title string // "wait for PhoneCheck"
	err   error

	statusText, errorText string // Status and ErrorCode, redacted
}

// Error implements error.
func (e *CheckEndedError) Error() string {
	s := errorMessage{operation: cmp.Or(e.title, wire.Title(e.Operation))}.String() + ": "
	status := cmp.Or(e.statusText, redact.Text(string(e.Status))) // the caller may have constructed e
	switch {
	case e.err != nil && e.Status == "":
		s += "check not found: it ended as EXPIRED or ERROR, or never existed (set CallbackURL to learn how such checks end)"
	case e.err != nil:
		s += fmt.Sprintf("check not found after status %s: it ended as EXPIRED or ERROR (its callback reports how it ended)", status)
	case e.Status.Final():
		s += "check ended as " + string(e.Status)
		if e.ErrorCode != "" {
			s += ": " + cmp.Or(e.errorText, redact.Text(e.ErrorCode))
		}
	default:
		s += fmt.Sprintf("check is still %s after its TTL", status)
	}
	return s
}

// Unwrap returns the error of the last read, or nil.
func (e *CheckEndedError) Unwrap() error { return e.err }

// progress contains the fields of a check that wait needs.
type progress struct {
	status    CheckStatus
	errorCode string
	ttl       time.Duration
}

// isCheckNotFound reports whether the service did not find the check. Any other 404 comes from a
// wrong version or a proxy and says nothing about the check.
func isCheckNotFound(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code() == wire.CheckNotFound
}

// wait reads the check with get until it is COMPLETED.
func wait[T any](ctx context.Context, a *api, op wire.Operation, title, checkID string, get func(context.Context, string) (*T, error), toProgress func(*T) progress) (*T, error) {
	ended := &CheckEndedError{CheckID: checkID, Operation: op.Name, title: title}
	interval := minPollInterval
	var end time.Time
	for {
		check, err := get(ctx, checkID)
		if isCheckNotFound(err) {
			ended.err = err
			return nil, ended
		}
		if err != nil {
			return nil, err
		}
		p := toProgress(check)
		ended.Status, ended.ErrorCode = p.status, p.errorCode
		ended.statusText, ended.errorText = redact.Text(string(p.status), a.secrets()...), redact.Text(p.errorCode, a.secrets()...)
		if p.status == StatusCompleted {
			return check, nil
		}
		if end.IsZero() {
			if p.ttl <= 0 {
				p.ttl = defaultTTL
			}
			// Count the TTL from the first read, because the service's clock may differ. Wait then
			// never ends too early, and one more read finds that the check has ended.
			end = time.Now().Add(min(p.ttl, math.MaxInt64-maxPollInterval) + maxPollInterval)
		}
		if p.status.Final() || !time.Now().Before(end) {
			return nil, ended
		}

		sleep(ctx, interval)
		if err := ctx.Err(); err != nil {
			return nil, &sendError{operation: title, err: err, text: err.Error() + ": check is still " + ended.statusText}
		}
		interval = min(interval*3/2, maxPollInterval)
	}
}
