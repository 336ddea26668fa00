package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/idverify/idverify-go"
)

// Event describes a callback, a result or an attempt of Work. Except for Err, it contains no IDs
// and no personal data. Err may contain the error of your function unchanged. All fields except
// Duration, Lag and Err have few distinct values, so they are suitable as attributes of a metric.
type Event struct {
	Operation string           // "callback", "record", "reconcile" or "work"
	Outcome   Outcome          // see the constants
	Product   idverify.Product // empty if it is not known
	Duration  time.Duration    // of the operation, without verification

	// Lag is the time from storing the result to processing it. It is set for OutcomeDone.
	Lag time.Duration

	Err error // of OutcomeFailed and OutcomeStopped
}

// LogValue implements slog.LogValuer. It returns a group of operation, outcome, product, duration
// and lag: without Err, which can contain personal data, without product if it is empty, and
// without lag unless Outcome is OutcomeDone. Package otelidverify depends on these names and kinds.
func (e Event) LogValue() slog.Value {
	attrs := make([]slog.Attr, 0, 5)
	attrs = append(attrs, slog.String("operation", e.Operation), slog.String("outcome", string(e.Outcome)), slog.Duration("duration", e.Duration))
	if e.Product != "" {
		attrs = append(attrs, slog.String("product", string(e.Product)))
	}
	if e.Outcome == OutcomeDone {
		attrs = append(attrs, slog.Duration("lag", e.Lag))
	}
	return slog.GroupValue(attrs...)
}

// Outcome describes a callback, a result or an attempt of Work.
type Outcome string

// The outcomes of an Event.
const (
	OutcomeStored    Outcome = "stored"    // the result was stored
	OutcomeDuplicate Outcome = "duplicate" // a result was stored before; this one was not
	OutcomeEarly     Outcome = "early"     // callback of a check that is not stored yet: the service sends it again
	OutcomeIgnored   Outcome = "ignored"   // callback of another check, product or status: acknowledged, not stored
	OutcomeLost      Outcome = "lost"      // the check was not found: ended with StatusLost
	OutcomeDone      Outcome = "done"      // the function of Work returned nil
	OutcomeFailed    Outcome = "failed"    // the result is not stored or not processed yet: Err contains the reason
	OutcomeStopped   Outcome = "stopped"   // the function is not called again: it failed MaxAttempts times, or its transaction ended before it returned
)

// Stats describes the entries that are not processed.
type Stats struct {
	Pending    int           // results that wait for Work
	OldestAge  time.Duration // age of the oldest of them, or how far a clock was ahead if that is more; 0 if there is none
	Stopped    int           // entries that are not processed any more: see Retry
	InProgress int           // checks that have not ended
	Overdue    int           // checks that Reconcile has to read
}

// LogValue implements slog.LogValuer. It returns a group of pending, oldest_age, stopped,
// in_progress and overdue. Package otelidverify depends on these names and kinds.
func (s Stats) LogValue() slog.Value {
	return slog.GroupValue(slog.Int("pending", s.Pending), slog.Duration("oldest_age", s.OldestAge), slog.Int("stopped", s.Stopped),
		slog.Int("in_progress", s.InProgress), slog.Int("overdue", s.Overdue))
}

// Stats returns the number of entries that are not processed. Its cost depends on their number, not
// on the size of the table.
func (i *Inbox) Stats(ctx context.Context) (Stats, error) {
	var (
		s     Stats
		first sql.NullInt64
		last  sql.NullInt64
		now   = i.now()
	)
	err := i.queryRow(ctx, "SELECT "+
		"(SELECT count(*) FROM idverify_checks WHERE due_at IS NOT NULL), "+
		"(SELECT min(ended_at) FROM idverify_checks WHERE due_at IS NOT NULL), "+
		"(SELECT max(ended_at) FROM idverify_checks WHERE due_at IS NOT NULL), "+
		"(SELECT count(*) FROM idverify_checks WHERE stopped_at IS NOT NULL), "+
		"(SELECT count(*) FROM idverify_checks WHERE reconcile_at IS NOT NULL), "+
		"(SELECT count(*) FROM idverify_checks WHERE reconcile_at <= $1)", now).
		Scan(&s.Pending, &first, &last, &s.Stopped, &s.InProgress, &s.Overdue)
	if err != nil {
		return Stats{}, fmt.Errorf("inbox: stats: %w", err)
	}
	if first.Valid {
		s.OldestAge = time.Duration(max(now-first.Int64, last.Int64-now)) * time.Microsecond
	}
	return s, nil
}

// observe passes the event to the observer. If the observer panics, observe logs the type of the
// value, which may contain personal data. The panic must not end Work or Start.
func (i *Inbox) observe(ctx context.Context, e Event) {
	if i.opts.Observe == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			i.log(ctx, slog.LevelError, "inbox: observer panicked", nil, slog.String("operation", e.Operation), slog.String("type", fmt.Sprintf("%T", p)))
		}
	}()
	i.opts.Observe(ctx, e)
}

// outcomeOf returns the outcome of storing a result.
func outcomeOf(stored bool, err error) Outcome {
	ended, _ := errors.AsType[*endedError](err)
	switch {
	case ended != nil && ended.stopped:
		return OutcomeStopped
	case err != nil:
		return OutcomeFailed
	case stored:
		return OutcomeStored
	}
	return OutcomeDuplicate
}

// log writes a record. A panic of a function of the user is logged with its stack.
func (i *Inbox) log(ctx context.Context, level slog.Level, message string, err error, attrs ...slog.Attr) {
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	if p, ok := errors.AsType[*panicError](err); ok {
		attrs = append(attrs, slog.String("stack", string(p.stack)))
	}
	i.opts.Logger.LogAttrs(ctx, level, message, attrs...)
}
