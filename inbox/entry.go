package inbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/idverify/idverify-go"
)

// Entry is a check with its result.
type Entry struct {
	Reference string // as passed to Plan
	Product   idverify.Product
	CheckID   string    // empty if it is not known
	PlannedAt time.Time // when Plan was called

	Status         Status           // how the check ended; empty until then
	Match          idverify.Verdict // known only for a COMPLETED PhoneCheck or SubscriberCheck
	NoSIMChange    idverify.Verdict // known only for a COMPLETED SIMCheck, or a SubscriberCheck whose Match is yes
	NetworkID      string           // only if COMPLETED
	ErrorCode      string           // only if ERROR, for example idverify.ErrorCodeMNOTimeout
	ChargeAmount   json.Number      // decimal; empty if it is not known
	ChargeCurrency string
	Source         Source    // where the result came from
	EndedAt        time.Time // when the result was stored; zero until then

	Attempts  int       // of Work, including the current one; 0 if the entry stopped because of ErrTransactionEnded
	DoneAt    time.Time // when the result was processed; zero until then
	StoppedAt time.Time // when the processing stopped; zero if it has not
}

// Status describes how the check of an entry ended. It is empty until the check has ended.
type Status string

// The statuses of entries.
const (
	StatusCompleted = Status(idverify.StatusCompleted) // ended with a result, see Entry.Match and Entry.NoSIMChange
	StatusExpired   = Status(idverify.StatusExpired)   // ended without a result after its TTL
	StatusError     = Status(idverify.StatusError)     // ended without a result, see Entry.ErrorCode

	// StatusLost means that the service did not find the check after its callback was overdue. The
	// check ended as EXPIRED or ERROR, or was never created. Do not treat it as either: verify in
	// another way.
	StatusLost Status = "LOST"
)

// Source is the way in which a result was learned.
type Source string

// The sources of results.
const (
	SourceCallback  Source = "callback"  // Handler
	SourceRecord    Source = "record"    // Record
	SourceReconcile Source = "reconcile" // Reconcile
)

// Get returns the entry with the given reference, for example to show the status of a sign-up. The
// error is [ErrNotFound] if there is none.
func (i *Inbox) Get(ctx context.Context, reference string) (*Entry, error) {
	return i.getBy(ctx, "reference", reference)
}

// GetByCheckID returns the entry with the given check ID, for example that of a redirect. The error
// is [ErrNotFound] if there is none.
func (i *Inbox) GetByCheckID(ctx context.Context, checkID string) (*Entry, error) {
	return i.getBy(ctx, "check_id", checkID)
}

func (i *Inbox) getBy(ctx context.Context, column, id string) (*Entry, error) {
	if !validID(id) {
		return nil, fmt.Errorf("inbox: get: %w", ErrNotFound)
	}
	e, err := scanEntry(i.queryRow(ctx, "SELECT "+columns+" FROM idverify_checks WHERE "+column+" = $1", id))
	if err != nil {
		return nil, fmt.Errorf("inbox: get: %w", notFound(err))
	}
	return e, nil
}

// maxID is the length of the longest reference or check ID, in bytes. The service rejects longer
// references, and an index of PostgreSQL rejects values of more than 2,704 bytes.
const maxID = 1024

// validID reports whether s can be stored as a reference or a check ID. Callers report any other
// string as not found and skip the query, which PostgreSQL would reject.
func validID(s string) bool {
	return s != "" && len(s) <= maxID && utf8.ValidString(s) && !strings.ContainsRune(s, 0)
}

// columns are the columns that scanEntry reads.
const columns = "reference, product, check_id, planned_at, status, is_match, no_sim_change, network_id, error_code, " +
	"charge_amount, charge_currency, source, ended_at, attempts, done_at, stopped_at"

// scanEntry reads the columns of an entry, and more columns into more.
func scanEntry(row interface{ Scan(...any) error }, more ...any) (*Entry, error) {
	var (
		e                        Entry
		checkID, status          sql.NullString
		match, noSIMChange       sql.NullBool
		planned                  int64
		ended, done, stopped     sql.NullInt64
		amount, currency, source string
	)
	dest := []any{
		&e.Reference, &e.Product, &checkID, &planned, &status, &match, &noSIMChange, &e.NetworkID, &e.ErrorCode,
		&amount, &currency, &source, &ended, &e.Attempts, &done, &stopped,
	}
	if err := row.Scan(append(dest, more...)...); err != nil {
		return nil, err
	}
	e.CheckID, e.Status = checkID.String, Status(status.String)
	e.Match, e.NoSIMChange = verdictOf(match), verdictOf(noSIMChange)
	e.ChargeAmount, e.ChargeCurrency, e.Source = json.Number(amount), currency, Source(source)
	e.PlannedAt = time.UnixMicro(planned).UTC()
	e.EndedAt, e.DoneAt, e.StoppedAt = timeOf(ended), timeOf(done), timeOf(stopped)
	return &e, nil
}

// collect reads the entries of rows and closes them.
func collect(rows *sql.Rows) ([]*Entry, error) {
	defer rows.Close()
	var entries []*Entry
	for rows.Next() {
		e, err := scanEntry(rows)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, rows.Err()
}

// verdictOf returns the verdict that verdictColumn stored.
func verdictOf(b sql.NullBool) idverify.Verdict {
	switch {
	case !b.Valid:
		return idverify.VerdictUnknown
	case b.Bool:
		return idverify.VerdictYes
	}
	return idverify.VerdictNo
}

// verdictColumn returns v as it is stored.
func verdictColumn(v idverify.Verdict) sql.NullInt16 {
	switch v {
	case idverify.VerdictYes:
		return sql.NullInt16{Int16: 1, Valid: true}
	case idverify.VerdictNo:
		return sql.NullInt16{Valid: true}
	}
	return sql.NullInt16{}
}

func timeOf(micros sql.NullInt64) time.Time {
	if !micros.Valid {
		return time.Time{}
	}
	return time.UnixMicro(micros.Int64).UTC()
}
