package inbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/idverify/idverify-go"
)

// Result is the result of a check. Make one with [ResultOf].
type Result struct {
	Product     idverify.Product
	CheckID     string
	ReferenceID string
	Status      idverify.CheckStatus // COMPLETED, EXPIRED or ERROR
	Match       idverify.Verdict     // stored only if it can be known: see Entry
	NoSIMChange idverify.Verdict     // as Match

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

// verdicts returns the verdicts that a check of this product and status can have. ResultOf sets no
// others, but a Result that was made in another way may contain them.
func (r Result) verdicts() (match, noSIMChange idverify.Verdict) {
	switch {
	case r.Status != idverify.StatusCompleted:
	case r.Product == idverify.ProductSIMCheck:
		noSIMChange = r.NoSIMChange
	case r.Product == idverify.ProductSubscriberCheck && r.Match == idverify.VerdictYes:
		return r.Match, r.NoSIMChange
	default:
		match = r.Match
	}
	return match, noSIMChange
}

// Record stores the result of a check that your client returned: from Complete, Wait, Get, or
// Create of a SIMCheck. It reports whether this call stored it, and returns false and no error if a
// result was stored before, for example by the callback, or the entry has ended with
// [StatusLost]. It finds the entry by the check ID, or by the reference if the check ID is not
// stored yet, and then stores the check ID too.
//
// The error matches [ErrNotFound] if the check was not planned, [ErrConflict] if the entry has
// another product or check ID, and [idverify.ErrBadRequest] if the status is not final. It matches
// [ErrTransactionEnded] if the result is stored, but its entry has stopped: see [Options].OnResult.
// After any other error of the database or of OnResult, the outcome is unknown: call Record again.
// Do not record a result of the redirect itself or of an unverified callback.
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
	return i.store(ctx, func(ctx context.Context, q querier, column string) (*Entry, error) {
		e, err := i.update(ctx, q, byCheckID, r.CheckID, r, source, column)
		if err != nil || e != nil {
			return e, err
		}
		return i.updateByReference(ctx, q, r, source, column)
	})
}

// updateByReference binds the check ID of a result to the entry with its reference, and stores the
// result. It returns nil if a result was stored before.
func (i *Inbox) updateByReference(ctx context.Context, q querier, r Result, source Source, column string) (*Entry, error) {
	e, err := scanEntry(q.QueryRowContext(ctx, "SELECT "+columns+" FROM idverify_checks WHERE check_id = $1", r.CheckID))
	if errors.Is(err, sql.ErrNoRows) && validID(r.ReferenceID) {
		e, err = scanEntry(q.QueryRowContext(ctx, "SELECT "+columns+" FROM idverify_checks WHERE reference = $1", r.ReferenceID))
	}
	switch {
	case err != nil:
		return nil, notFound(err)
	case e.Product != r.Product, e.CheckID != "" && e.CheckID != r.CheckID:
		return nil, fmt.Errorf("%w: the entry has another product or check ID", ErrConflict)
	case e.Status != "":
		return nil, nil
	}
	if err := i.bind(ctx, q, e.Reference, r.CheckID, 0); err != nil {
		return nil, err
	}
	return i.update(ctx, q, byCheckID, r.CheckID, r, source, column)
}

// updateFunc stores a result with q and sets column, which is due_at, done_at or stopped_at, to the
// current time. It returns nil if a result was stored before.
type updateFunc func(ctx context.Context, q querier, column string) (*Entry, error)

// store stores a result and passes it to OnResult. It returns false if a result was stored before.
func (i *Inbox) store(ctx context.Context, update updateFunc) (stored bool, err error) {
	if i.opts.OnResult == nil {
		err = i.inTx(ctx, func(q querier) error {
			e, err := update(ctx, q, "due_at")
			stored = e != nil
			return err
		})
		i.wake()
		return stored && err == nil, err
	}
	mark := func(ctx context.Context, q querier) (*Entry, error) { return update(ctx, q, "done_at") }
	e, err := i.process(ctx, mark, func(ctx context.Context, tx *sql.Tx, e Entry) error {
		if err := call(func() error { return i.opts.OnResult(ctx, tx, e) }); err != nil {
			return fmt.Errorf("OnResult: %w", err)
		}
		return nil
	})
	ended, ok := errors.AsType[*endedError](err)
	if !ok {
		return e != nil && err == nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), i.endTimeout(ctx))
	defer cancel()
	ended.stopped, err = i.stop(ctx, stopping{reference: e.Reference, doneAt: e.DoneAt.UnixMicro()}) // if OnResult has committed it
	if err == nil && !ended.stopped && ended.wrote {
		// OnResult must not be called again, so the result is stored without it.
		stopped := false
		err = i.inTx(ctx, func(q querier) error {
			e, err := update(ctx, q, "stopped_at")
			stopped = e != nil
			return err
		})
		if err != nil { // also of the commit
			stopped, err = false, fmt.Errorf("stop an entry: %w", err)
		}
		ended.stopped = stopped
	}
	return false, i.settle(e.Reference, ended, err)
}

// byCheckID is the condition of update for the entry with a check ID.
const byCheckID = "check_id = $11"

// update stores a result in the entry that meets the condition, whose parameter $11 is value, and
// sets column, which is due_at, done_at or stopped_at, to the current time. It returns nil if there
// is no such entry without a result. It executes one statement, so it needs no transaction.
func (i *Inbox) update(ctx context.Context, q querier, condition, value string, r Result, source Source, column string) (*Entry, error) {
	now := i.now()
	match, noSIMChange := r.verdicts()
	e, err := scanEntry(q.QueryRowContext(ctx, "UPDATE idverify_checks SET status = $1, is_match = $2, no_sim_change = $3, network_id = $4, error_code = $5, "+
		"charge_amount = $6, charge_currency = $7, source = $8, ended_at = $9, "+column+" = $10, reconcile_at = NULL "+
		"WHERE "+condition+" AND product = $12 AND status IS NULL RETURNING "+columns,
		string(r.Status), verdictColumn(match), verdictColumn(noSIMChange), text(r.NetworkID), text(r.ErrorCode),
		text(string(r.ChargeAmount)), text(r.ChargeCurrency), string(source), now, now, value, string(r.Product)))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return e, err
}

// text returns s as PostgreSQL can store it, in at most 256 bytes.
func text(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s[:min(len(s), 256)], "\x00", ""), "")
}
