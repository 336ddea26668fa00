package inbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/idverify/idverify-go/internal/redact"
)

// process marks an entry and calls do with it in one transaction, which it commits if do returns
// nil. It returns nil if mark does. The transaction has the default isolation level of the
// database, because do may depend on it.
//
// The error matches *endedError if the transaction ended before do returned.
func (i *Inbox) process(ctx context.Context, mark markFunc, do resultFunc) (e *Entry, err error) {
	err = repeat(ctx, func() error {
		e, err = i.processOnce(ctx, mark, do)
		return err
	})
	return e, err
}

// markFunc marks an entry as processed with q. It returns nil if there is nothing to process.
type markFunc func(ctx context.Context, q querier) (*Entry, error)

// resultFunc is the function of Work, or Options.OnResult.
type resultFunc func(ctx context.Context, tx *sql.Tx, e Entry) error

func (i *Inbox) processOnce(ctx context.Context, mark markFunc, do resultFunc) (e *Entry, err error) {
	// If ctx ends before do is called, the transaction is rolled back. Afterwards it is committed if
	// do returns nil.
	detached, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	detach := context.AfterFunc(ctx, cancel)
	defer detach()
	// Without a limit, a lost connection would block Work silently. The function itself may take
	// longer.
	limit := time.AfterFunc(queryTimeout, cancel)
	defer limit.Stop()
	tx, err := i.db.BeginTx(detached, nil)
	if err != nil {
		return nil, databaseError(cmp.Or(ctx.Err(), err))
	}
	defer tx.Rollback()
	e, err = mark(detached, tx) // locks the entry
	if err != nil {
		return nil, databaseError(cmp.Or(ctx.Err(), err))
	}
	if e == nil {
		return nil, nil
	}
	if _, blocked := i.blocked.Load(e.Reference); blocked {
		return e, &endedError{wrote: true} // the transaction of that call does not lock the entry
	}
	changes, err := i.dialect.setSavepoint(detached, tx)
	if err != nil {
		return nil, databaseError(cmp.Or(ctx.Err(), err))
	}
	if !detach() || !limit.Stop() {
		return nil, cmp.Or(ctx.Err(), context.DeadlineExceeded)
	}
	if i.dialect == SQLite { // a transaction of PostgreSQL also ends with its connection
		i.blocked.Store(e.Reference, nil)
	}
	defer func() { // also after runtime.Goexit
		if ended, ok := errors.AsType[*endedError](err); ok && ended.wrote {
			i.blocked.Store(e.Reference, nil) // until the entry has stopped
		} else {
			i.blocked.Delete(e.Reference)
		}
	}()
	failure := call(func() error { return do(ctx, tx, *e) })
	limit.Reset(i.endTimeout(ctx))
	if err := i.dialect.releaseSavepoint(detached, tx, changes, failure); err != nil {
		return e, err
	}
	i.blocked.Delete(e.Reference) // before the commit unlocks the entry
	if err := tx.Commit(); err != nil {
		return e, fmt.Errorf("commit: %w", databaseError(err))
	}
	return e, nil
}

// endTimeout returns the time limit for ending a transaction after its function has returned.
func (i *Inbox) endTimeout(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok || i.opts.OnResult == nil {
		return queryTimeout
	}
	return max(time.Until(deadline), minEndTimeout) // the service waits for the response
}

// queryTimeout limits each statement of Work, Start and their methods, but not your functions. A
// connection that was lost without a response then causes an error, and is replaced.
const queryTimeout = 30 * time.Second

// minEndTimeout is the minimum of endTimeout, also if the function has used all of its time.
const minEndTimeout = time.Second / 2

// endedError means that a transaction ended before the function of the user returned.
type endedError struct {
	reference string
	cause     error // of the function; nil if it returned nil
	wrote     bool  // statements of the function may be committed although the entry is not processed
	stopped   bool  // the entry has stopped
}

// Error implements error.
func (e *endedError) Error() string {
	text, next := ErrTransactionEnded.Error(), "return every error of tx, and do not commit or roll back"
	if e.wrote {
		text += "; later statements may be committed"
		next = "verify its effects before Retry; " + next
	}
	text += " (" + next + ")"
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

// Is reports whether the entry has stopped and target is ErrTransactionEnded.
func (e *endedError) Is(target error) bool { return e.stopped && target == ErrTransactionEnded }

// Unwrap returns the error of the function.
func (e *endedError) Unwrap() error { return e.cause }

// settle returns the error for an entry whose transaction ended before its function returned. err
// is the error of the attempt to stop the entry, or nil.
func (i *Inbox) settle(reference string, ended *endedError, err error) error {
	ended.reference = reference
	switch {
	case err != nil:
		return fmt.Errorf("%w; %w", ended, err)
	case !ended.stopped && !ended.wrote:
		return cmp.Or(ended.cause, errors.New(ended.Error())) // the function is called again
	}
	i.blocked.Delete(reference)
	return ended
}

// inTx runs do, which executes statements of this package only, in a transaction.
func (i *Inbox) inTx(ctx context.Context, do func(querier) error) error {
	return repeat(ctx, func() error {
		tx, err := i.db.BeginTx(ctx, i.dialect.readCommitted())
		if err != nil {
			return databaseError(err)
		}
		defer tx.Rollback()
		if err := do(tx); err != nil {
			return databaseError(err)
		}
		if err := tx.Commit(); err != nil {
			return fmt.Errorf("commit: %w", databaseError(err))
		}
		return nil
	})
}

// run runs do, which executes statements that need no transaction.
func (i *Inbox) run(ctx context.Context, do func(querier) error) error {
	if !i.isolate {
		err := do(i.db)
		if !isConflict(err) {
			return databaseError(err)
		}
		// The default isolation level has changed since New.
	}
	return i.inTx(ctx, do)
}

// exec executes a statement that needs no transaction.
func (i *Inbox) exec(ctx context.Context, query string, args ...any) (result sql.Result, err error) {
	err = i.run(ctx, func(q querier) error {
		result, err = q.ExecContext(ctx, query, args...)
		return err
	})
	return result, err
}

// queryRow returns the row of a statement that needs no transaction. Scan executes the statement.
func (i *Inbox) queryRow(ctx context.Context, query string, args ...any) scanner {
	return func(dest ...any) error {
		return i.run(ctx, func(q querier) error { return q.QueryRowContext(ctx, query, args...).Scan(dest...) })
	}
}

// scanner is a row that a statement returns.
type scanner func(dest ...any) error

// Scan reads the columns of the row.
func (s scanner) Scan(dest ...any) error { return s(dest...) }

// querier is implemented by *sql.DB, *sql.Conn and *sql.Tx.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// expectRow returns the error otherwise if the statement changed no row.
func expectRow(result sql.Result, otherwise error) error {
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		err = otherwise
	}
	return err
}

// notFound replaces sql.ErrNoRows by ErrNotFound.
func notFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotFound
	}
	return err
}

// repeat runs a transaction again while it conflicts with others, for as long as the database may
// take for a callback.
func repeat(ctx context.Context, transaction func() error) error {
	end := time.Now().Add(storeTimeout) // not Options.Now, which a test may freeze
	for pause := minConflictPause; ; pause = min(2*pause, maxConflictPause) {
		err := transaction()
		if !isConflict(err) || time.Now().After(end) {
			return err
		}
		select {
		case <-time.After(rand.N(pause)):
		case <-ctx.Done():
			return err
		}
	}
}

// The bounds of the longest random pause of repeat.
const (
	minConflictPause = 2 * time.Millisecond
	maxConflictPause = 128 * time.Millisecond
)

// isConflict reports whether err is a serialization failure or a deadlock of a transaction that was
// rolled back.
func isConflict(err error) bool {
	if _, ended := errors.AsType[*endedError](err); ended {
		return false
	}
	state := sqlState(err)
	return state == "40001" || state == "40P01"
}

// call calls a function of the user and turns a panic into an error, so that one entry does not
// stop the processing of the others.
func call(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{value: p, stack: debug.Stack()}
		}
	}()
	return f()
}

// panicError is a panic of a function of the user.
type panicError struct {
	value any
	stack []byte
}

// Error implements error. It does not contain the value, which may be personal data.
func (e *panicError) Error() string { return "panic: " + redact.PanicText(e.value) }
