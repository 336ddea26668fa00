package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Work calls fn for each stored result, one after the other, until ctx ends, and then returns nil.
// What fn writes with tx is committed together with the mark that the entry is processed: it takes
// effect once for each check. Effects outside of the database happen at least once: use the
// Reference as their idempotency key.
//
// If fn returns an error or panics, or the process is killed, tx is rolled back, and fn is called
// again after a pause that doubles from one second to ten minutes. Other entries are not delayed.
// After a serialization failure or a deadlock, fn is called again at once. After
// [Options].MaxAttempts attempts the entry stops: it is counted in [Stats] and listed by
// [Inbox.Stopped], and [Inbox.Retry] starts it again.
//
// Return every error of tx, and neither commit nor roll back tx. SQLite ends a transaction by
// itself if the disk is full, a statement is interrupted or ON CONFLICT ROLLBACK applies. Later
// statements of tx are then committed one by one. Work notices this when fn returns: it does not
// call fn again, and the entry stops with Attempts 0. Verify its effects before Retry. If the
// process is killed before the entry has stopped, fn is called again.
//
// Work notices a result stored by this Inbox immediately, and other results within a second. On
// SQLite fn holds the lock of the database, so it must be short. If ctx ends while fn runs, Work
// waits for fn, whose context ends too. If fn fails after ctx has ended, the attempt does not
// count.
//
// Several goroutines may call Work, and on PostgreSQL several processes; each entry is processed by
// one of them. On SQLite, use the same Inbox for all calls. For many machines use a job queue, see
// [Options].OnResult. Work returns an error at once if OnResult is set, because the entries are
// processed by it.
func (i *Inbox) Work(ctx context.Context, fn func(ctx context.Context, tx *sql.Tx, e Entry) error) error {
	if i.opts.OnResult != nil {
		return errors.New("inbox: work: OnResult processes the results (use an Inbox without OnResult)")
	}
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		found, err := i.workOnce(ctx, fn)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			i.log(ctx, slog.LevelError, "inbox: work", err)
		case found:
			continue
		}
		select {
		case <-i.arrived:
		case <-poll.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// The intervals of Work. The pause after the n-th attempt is minPause << (n-1) up to the attempt
// doublings, and then maxPause.
const (
	pollInterval = time.Second
	minPause     = time.Second
	maxPause     = 10 * time.Minute
	doublings    = 10
)

// maxAhead is longer than any pause, also if the clocks of two processes differ. An entry that is
// due later was scheduled while a clock was ahead of this process's clock.
const maxAhead = maxPause + maxClockSkew

// wake makes Work look for entries.
func (i *Inbox) wake() {
	select {
	case i.arrived <- struct{}{}:
	default: // already signaled
	}
}

// workOnce processes the entry that is due first, and reports whether there was one. An error is a
// failure of the database.
func (i *Inbox) workOnce(ctx context.Context, fn resultFunc) (found bool, err error) {
	e, err := i.claim(ctx)
	if err != nil || e == nil {
		return false, err
	}
	begin := i.opts.Now()
	failure := errors.New("the process ended during the last attempt")
	if e.Attempts <= i.opts.MaxAttempts {
		var mine bool
		if mine, failure = i.processClaimed(ctx, e, fn); !mine {
			return true, nil // another process has claimed the entry in the meantime
		}
	}
	now := i.opts.Now()
	event := Event{Operation: "work", Outcome: OutcomeDone, Product: e.Product, Duration: now.Sub(begin), Err: failure}
	ended, _ := errors.AsType[*endedError](failure)
	switch {
	case failure == nil:
		event.Lag = max(0, now.Sub(e.EndedAt))
		i.observe(ctx, event)
		return true, nil
	case ended != nil:
		event.Outcome = outcomeOf(false, failure) // if it has not stopped, the next attempt stops it
	case ctx.Err() != nil:
		return true, i.schedule(ctx, e, i.now(), e.Attempts-1)
	case e.Attempts < i.opts.MaxAttempts:
		event.Outcome = OutcomeFailed
		err = i.schedule(ctx, e, i.now()+e.pause, e.Attempts)
	default:
		event.Outcome = OutcomeStopped
		_, err = i.stopDetached(ctx, stopping{reference: e.Reference, attempts: i.opts.MaxAttempts, dueAt: e.due})
	}
	i.log(ctx, slog.LevelError, "inbox: entry not processed", failure, slog.String("check_id", e.CheckID), slog.String("reference", e.Reference),
		slog.Int("attempt", min(e.Attempts, i.opts.MaxAttempts)), slog.String("outcome", string(event.Outcome)))
	i.observe(ctx, event)
	return true, err
}

// claimed is an entry with an attempt that was counted.
type claimed struct {
	*Entry

	due   int64 // due_at as this claim has set it; another claim changes it
	pause int64 // time between the attempts, in microseconds
}

// claim counts an attempt of the entry that is due first, and schedules the next attempt in case
// the process is killed. It returns nil if no entry is due, now or later than maxAhead.
func (i *Inbox) claim(ctx context.Context) (*claimed, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	now := i.now()
	e, err := i.claimWhere(ctx, "due_at <= $5", now, now)
	if e != nil || err != nil {
		return e, err
	}
	var due int64
	err = i.queryRow(ctx, "SELECT due_at FROM idverify_checks WHERE due_at > $1 ORDER BY due_at LIMIT 1"+i.dialect.skipLocked(), now+maxAhead.Microseconds()).Scan(&due)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find an entry due too far ahead: %w", err)
	}
	e, err = i.claimWhere(ctx, "due_at = $5", due, now)
	if e != nil {
		i.log(ctx, slog.LevelWarn, "inbox: entry due too far ahead, processed now", nil, slog.String("check_id", e.CheckID), slog.String("reference", e.Reference),
			slog.Time("due_at", time.UnixMicro(due).UTC()))
	}
	return e, err
}

// claimWhere claims the first entry that meets the condition, whose parameter $5 is value.
func (i *Inbox) claimWhere(ctx context.Context, condition string, value, now int64) (*claimed, error) {
	var due int64
	e, err := scanEntry(i.queryRow(ctx, "UPDATE idverify_checks SET attempts = attempts + 1, "+
		"due_at = CAST($1 AS bigint) + CASE WHEN attempts < $2 THEN CAST($3 AS bigint) << attempts ELSE CAST($4 AS bigint) END "+
		"WHERE reference = (SELECT reference FROM idverify_checks WHERE "+condition+" ORDER BY due_at LIMIT 1"+i.dialect.skipLocked()+") "+
		"RETURNING "+columns+", due_at", now, doublings, minPause.Microseconds(), maxPause.Microseconds(), value), &due)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("claim an entry: %w", err)
	}
	return &claimed{Entry: e, due: due, pause: due - now}, nil
}

// processClaimed calls fn in a transaction that also marks the entry as processed. It reports false
// if another process has claimed the entry since.
func (i *Inbox) processClaimed(ctx context.Context, e *claimed, fn resultFunc) (mine bool, err error) {
	now := i.now()
	marked, err := i.process(ctx, func(ctx context.Context, q querier) (*Entry, error) {
		// This locks the row while fn runs, so that no other process claims it.
		result, err := q.ExecContext(ctx, "UPDATE idverify_checks SET due_at = NULL, done_at = $1 WHERE reference = $2 AND due_at = $3", now, e.Reference, e.due)
		if err != nil {
			return nil, err
		}
		if n, err := result.RowsAffected(); n == 0 {
			return nil, err
		}
		return e.Entry, nil
	}, fn)
	if ended, ok := errors.AsType[*endedError](err); ok {
		s := stopping{reference: e.Reference, doneAt: now} // if fn has committed the mark
		if ended.wrote {
			s.dueAt = e.due
		}
		ended.stopped, err = i.stopDetached(ctx, s)
		err = i.settle(e.Reference, ended, err)
	}
	return marked != nil || err != nil, err
}

// schedule sets the time of the next attempt and the number of attempts so far, also if ctx has
// ended. It does nothing if the entry is processed, or claimed by another process.
func (i *Inbox) schedule(ctx context.Context, e *claimed, due int64, attempts int) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	_, err := i.exec(ctx, "UPDATE idverify_checks SET due_at = $1, attempts = $2 WHERE reference = $3 AND due_at = $4", due, attempts, e.Reference, e.due)
	if err != nil {
		return fmt.Errorf("schedule an entry: %w", err)
	}
	return nil
}

// stopping identifies an entry to stop, which must be due at dueAt or processed at doneAt.
type stopping struct {
	reference     string
	attempts      int   // stored in the entry
	dueAt, doneAt int64 // in microseconds since 1970; 0 for none
}

// stopDetached calls stop with a context that does not end with ctx.
func (i *Inbox) stopDetached(ctx context.Context, s stopping) (stopped bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	return i.stop(ctx, s)
}

// stop ends the processing of an entry, and reports whether it did.
func (i *Inbox) stop(ctx context.Context, s stopping) (stopped bool, err error) {
	result, err := i.exec(ctx, "UPDATE idverify_checks SET due_at = NULL, done_at = NULL, stopped_at = $1, attempts = $2 WHERE reference = $3 AND (due_at = $4 OR done_at = $5)",
		i.now(), s.attempts, s.reference, s.dueAt, s.doneAt)
	if err != nil {
		return false, fmt.Errorf("stop an entry: %w", err)
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// Stopped returns up to limit entries whose processing has stopped, longest stopped first. The
// logged error of the last attempt contains the reason.
func (i *Inbox) Stopped(ctx context.Context, limit int) ([]*Entry, error) {
	var entries []*Entry
	err := i.run(ctx, func(q querier) error {
		rows, err := q.QueryContext(ctx, "SELECT "+columns+" FROM idverify_checks WHERE stopped_at IS NOT NULL ORDER BY stopped_at LIMIT $1", limit)
		if err != nil {
			return err
		}
		entries, err = collect(rows)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("inbox: stopped entries: %w", err)
	}
	return entries, nil
}

// Retry lets Work process a stopped entry again, with [Options].MaxAttempts further attempts. If
// its Attempts is 0, effects of the last attempt may be committed: verify them before. The error is
// [ErrNotFound] if no stopped entry has the reference.
func (i *Inbox) Retry(ctx context.Context, reference string) error {
	if !validID(reference) {
		return fmt.Errorf("inbox: retry: %w", ErrNotFound)
	}
	result, err := i.exec(ctx, "UPDATE idverify_checks SET due_at = $1, stopped_at = NULL, attempts = 0 WHERE reference = $2 AND stopped_at IS NOT NULL", i.now(), reference)
	if err == nil {
		err = expectRow(result, ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("inbox: retry: %w", err)
	}
	i.wake()
	return nil
}
