package inbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/idverify/idverify-go"
)

// Result is the result of a check. Make one with [ResultOf].
type Result struct {
	Product     idverify.Product
	CheckID     string
	ReferenceID string
	Status      idverify.CheckStatus // COMPLETED, EXPIRED or ERROR
	Match       *bool
	NoSIMChange *bool

	NetworkID      string
	ErrorCode      string
	ChargeAmount   json.Number
	ChargeCurrency string
}

// ResultOf returns the result of a check that your client returned, or the zero Result if check is
// nil.
func ResultOf[C *idverify.PhoneCheck | *idverify.SIMCheck | *idverify.SubscriberCheck](check C) Result {
	if check == nil {
		return Result{}
	}
	switch c := any(check).(type) {
	case *idverify.PhoneCheck:
		return Result{Product: idverify.ProductPhoneCheck, CheckID: c.CheckID, ReferenceID: c.ReferenceID, Status: c.Status, Match: c.Match,
			NetworkID: c.NetworkID, ErrorCode: c.ErrorCode, ChargeAmount: c.ChargeAmount, ChargeCurrency: c.ChargeCurrency}
	case *idverify.SIMCheck:
		return Result{Product: idverify.ProductSIMCheck, CheckID: c.CheckID, ReferenceID: c.ReferenceID, Status: c.Status, NoSIMChange: c.NoSIMChange,
			NetworkID: c.NetworkID, ErrorCode: c.ErrorCode, ChargeAmount: c.ChargeAmount, ChargeCurrency: c.ChargeCurrency}
	case *idverify.SubscriberCheck:
		return Result{Product: idverify.ProductSubscriberCheck, CheckID: c.CheckID, ReferenceID: c.ReferenceID, Status: c.Status, Match: c.Match, NoSIMChange: c.NoSIMChange,
			NetworkID: c.NetworkID, ErrorCode: c.ErrorCode, ChargeAmount: c.ChargeAmount, ChargeCurrency: c.ChargeCurrency}
	}
	return Result{}
}

// Record stores the result of a check that your client returned: from Complete, Wait, Get, or
// Create of a SIMCheck. It reports whether this call stored it, and returns false and no error if a
// result was stored before, for example by the callback, or the entry has ended with
// [StatusUnknown]. It finds the entry by the check ID, or by the reference if the check ID is not
// stored yet, and then stores the check ID too.
//
// The error matches [ErrNotFound] if the check was not planned, [ErrConflict] if the entry has
// another product or check ID, and [idverify.ErrBadRequest] if the status is not final. If the
// error comes from the database, the outcome is unknown: call Record again. Do not record a result
// of the redirect itself or of an unverified callback.
func (i *Inbox) Record(ctx context.Context, r Result) (stored bool, err error) {
	begin := i.opts.Now()
	stored, err = i.record(ctx, r, SourceRecord)
	i.observe(ctx, Event{Operation: "record", Outcome: outcomeOf(stored, err), Product: r.Product, Duration: i.opts.Now().Sub(begin), Err: err})
	if err != nil {
		return false, fmt.Errorf("inbox: record: %w", err)
	}
	return stored, nil
}

func (i *Inbox) record(ctx context.Context, r Result, source Source) (stored bool, err error) {
	if !isCheck(r.Product) || !r.Status.Final() || !validID(r.CheckID) {
		return false, fmt.Errorf("%w: the result has no product, no final status or no valid check ID", idverify.ErrBadRequest)
	}
	err = i.inTx(ctx, func(tx *sql.Tx) error {
		stored, err = i.store(ctx, tx, byCheckID, r.CheckID, r, source)
		if err == nil && !stored {
			stored, err = i.storeByReference(ctx, tx, r, source)
		}
		return err
	})
	return stored && err == nil, err
}

// storeByReference stores a result that has no entry with its check ID and without a result. It
// returns false if a result was stored before.
func (i *Inbox) storeByReference(ctx context.Context, tx *sql.Tx, r Result, source Source) (stored bool, err error) {
	e, err := scanEntry(tx.QueryRowContext(ctx, "SELECT "+columns+" FROM idverify_checks WHERE check_id = $1", r.CheckID))
	if errors.Is(err, sql.ErrNoRows) && validID(r.ReferenceID) {
		e, err = scanEntry(tx.QueryRowContext(ctx, "SELECT "+columns+" FROM idverify_checks WHERE reference = $1", r.ReferenceID))
	}
	switch {
	case err != nil:
		return false, notFound(err)
	case e.Product != r.Product, e.CheckID != "" && e.CheckID != r.CheckID:
		return false, fmt.Errorf("%w: the entry has another product or check ID", ErrConflict)
	case e.Status != "":
		return false, nil
	}
	if err := i.bind(ctx, tx, e.Reference, r.CheckID, 0); err != nil {
		return false, err
	}
	return i.store(ctx, tx, byCheckID, r.CheckID, r, source)
}

// byCheckID is the condition of store for the entry with a check ID.
const byCheckID = "check_id = $11"

// store stores the result of the entry that meets the condition, whose parameter $11 is value, and
// passes it to OnResult. It returns false if there is no such entry without a result.
func (i *Inbox) store(ctx context.Context, tx *sql.Tx, condition, value string, r Result, source Source) (stored bool, err error) {
	if i.opts.OnResult == nil {
		return i.update(ctx, tx, condition, value, r, source)
	}
	statement, args := i.statement(condition, value, r, source)
	e, err := scanEntry(tx.QueryRowContext(ctx, statement+" RETURNING "+columns, args...))
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := call(func() error { return i.opts.OnResult(ctx, tx, *e) }); err != nil {
		return false, fmt.Errorf("OnResult: %w", err)
	}
	return true, nil
}

// update is store without OnResult. It executes one statement, so it needs no transaction.
func (i *Inbox) update(ctx context.Context, q querier, condition, value string, r Result, source Source) (stored bool, err error) {
	statement, args := i.statement(condition, value, r, source)
	result, err := q.ExecContext(ctx, statement, args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// statement returns the statement that stores a result. If OnResult is set, it also marks the entry
// as processed.
func (i *Inbox) statement(condition, value string, r Result, source Source) (statement string, args []any) {
	processed := "due_at" // by Work
	if i.opts.OnResult != nil {
		processed = "done_at"
	}
	now := i.now()
	return "UPDATE idverify_checks SET status = $1, is_match = $2, no_sim_change = $3, network_id = $4, error_code = $5, " +
			"charge_amount = $6, charge_currency = $7, source = $8, ended_at = $9, " + processed + " = $10, reconcile_at = NULL " +
			"WHERE " + condition + " AND product = $12 AND status IS NULL",
		[]any{string(r.Status), smallint(r.Match), smallint(r.NoSIMChange), text(r.NetworkID), text(r.ErrorCode),
			text(string(r.ChargeAmount)), text(r.ChargeCurrency), string(source), now, now, value, string(r.Product)}
}

// inTx runs do in a transaction and wakes Work after the commit.
func (i *Inbox) inTx(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := i.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := do(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	i.wake()
	return nil
}

// wake makes Work look for entries.
func (i *Inbox) wake() {
	select {
	case i.arrived <- struct{}{}:
	default: // already signaled
	}
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
func (e *panicError) Error() string {
	if err, ok := e.value.(interface{ RuntimeError() }); ok {
		return fmt.Sprintf("panic: %v", err)
	}
	return fmt.Sprintf("panic of type %T", e.value)
}

// text returns s as PostgreSQL can store it, in at most 256 bytes.
func text(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s[:min(len(s), 256)], "\x00", ""), "")
}

// smallint returns b as it is stored.
func smallint(b *bool) sql.NullInt16 {
	if b == nil {
		return sql.NullInt16{}
	}
	v := sql.NullInt16{Valid: true}
	if *b {
		v.Int16 = 1
	}
	return v
}
