package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/idverify/idverify-go"
)

// Plan stores that a check of product will be created with reference as its ReferenceID. Commit tx
// before you call Create: then a crash loses nothing, because Reconcile finds the check by its
// reference.
//
// reference is unique for each Create, for example the output of [crypto/rand.Text], and stored
// instead of the phone number. Store it in a row of yours in the same transaction. If it was
// planned before, the error is [ErrReferenceUsed], and tx can still be used. After any other error
// of tx, do not commit it, and do not call Create.
//
// If Create fails and its error does not match [idverify.ErrOutcomeUnknown], there is no check, and
// you may call Create again with the same reference within ten minutes of Plan. Otherwise call
// [Inbox.Discard]. After ErrOutcomeUnknown, do neither: Reconcile finds the check. Without a check,
// the entry ends with [StatusUnknown] a quarter of an hour after Plan.
func (i *Inbox) Plan(ctx context.Context, tx *sql.Tx, product idverify.Product, reference string) error {
	if err := i.plan(ctx, tx, product, reference); err != nil {
		return fmt.Errorf("inbox: plan: %w", err)
	}
	return nil
}

func (i *Inbox) plan(ctx context.Context, tx *sql.Tx, product idverify.Product, reference string) error {
	switch {
	case !isCheck(product):
		return fmt.Errorf("%w: the product is not a check", idverify.ErrBadRequest)
	case !validID(reference):
		return fmt.Errorf("%w: a reference has 1 to %d bytes of UTF-8 without NUL", idverify.ErrBadRequest, maxID)
	case tx == nil:
		return fmt.Errorf("%w: tx is nil", idverify.ErrBadRequest)
	}
	now := i.now()
	result, err := tx.ExecContext(ctx, "INSERT INTO idverify_checks (reference, product, planned_at, reconcile_at, give_up_at) "+
		"VALUES ($1, $2, $3, $4, $5) ON CONFLICT (reference) DO NOTHING",
		reference, string(product), now, now+createTime.Microseconds(), now+maxCreateTime.Microseconds())
	if err != nil {
		return databaseError(err)
	}
	return expectRow(result, ErrReferenceUsed)
}

// Discard deletes a planned entry without a check. Call it if Create failed and its error does not
// match [idverify.ErrOutcomeUnknown]: then there is no check, and Reconcile would search for it and
// end the entry with [StatusUnknown]. After ErrOutcomeUnknown, do not: the check may exist.
//
// The error is [ErrNotFound] if the reference is not stored, and [ErrConflict] if its entry has a
// check ID or has ended.
func (i *Inbox) Discard(ctx context.Context, reference string) error {
	if err := i.discard(ctx, reference); err != nil {
		return fmt.Errorf("inbox: discard: %w", err)
	}
	return nil
}

func (i *Inbox) discard(ctx context.Context, reference string) error {
	if !validID(reference) {
		return ErrNotFound
	}
	result, err := i.exec(ctx, "DELETE FROM idverify_checks WHERE reference = $1 AND check_id IS NULL AND status IS NULL", reference)
	if err != nil {
		return err
	}
	if err := expectRow(result, ErrConflict); !errors.Is(err, ErrConflict) {
		return err
	}
	var n int
	if err := i.queryRow(ctx, "SELECT 1 FROM idverify_checks WHERE reference = $1", reference).Scan(&n); err != nil {
		return notFound(err)
	}
	return fmt.Errorf("%w: it has a check ID or has ended", ErrConflict)
}

// Bind stores the ID and the TTL of the check that Create returned. Call it before anyone gets the
// Check URL. If Bind fails, do not send the Check URL, or call Bind again.
//
// Bind does nothing if the check ID is already stored, for example by Reconcile. The error is
// [ErrNotFound] if the reference was not planned, and [ErrConflict] if its entry has another check
// ID or has ended without one, or if the check ID has another entry. If ttl is not positive, or
// more than 24 hours, two minutes are used.
func (i *Inbox) Bind(ctx context.Context, reference, checkID string, ttl time.Duration) error {
	err := i.run(ctx, func(q querier) error { return i.bind(ctx, q, reference, checkID, ttl) })
	if err != nil {
		return fmt.Errorf("inbox: bind: %w", err)
	}
	return nil
}

func (i *Inbox) bind(ctx context.Context, q querier, reference, checkID string, ttl time.Duration) error {
	switch {
	case !validID(checkID):
		return fmt.Errorf("%w: a check ID has 1 to %d bytes of UTF-8 without NUL", idverify.ErrBadRequest, maxID)
	case !validID(reference):
		return ErrNotFound
	}
	if ttl <= 0 || ttl > maxTTL {
		ttl = defaultTTL
	}
	end := i.now() + ttl.Microseconds()
	result, err := q.ExecContext(ctx, "UPDATE idverify_checks SET check_id = $1, reconcile_at = $2, give_up_at = $3 "+
		"WHERE reference = $4 AND check_id IS NULL AND status IS NULL "+
		"AND NOT EXISTS (SELECT 1 FROM idverify_checks WHERE check_id = $1)",
		checkID, end+callbackTime.Microseconds(), end+maxCallbackTime.Microseconds(), reference)
	if err != nil {
		return err
	}
	if err := expectRow(result, ErrConflict); err == nil || !errors.Is(err, ErrConflict) {
		return err
	}
	var stored sql.NullString
	err = q.QueryRowContext(ctx, "SELECT check_id FROM idverify_checks WHERE reference = $1", reference).Scan(&stored)
	switch {
	case err != nil:
		return notFound(err)
	case stored.String == checkID:
		return nil
	}
	return fmt.Errorf("%w: it has another check ID or has ended without one, or the check ID has another entry", ErrConflict)
}

// maxID is the length of the longest reference or check ID, in bytes. The service rejects longer
// references, and an index of PostgreSQL rejects values of more than 2,704 bytes.
const maxID = 1024

// validID reports whether s can be stored as a reference or a check ID. Callers report any other
// string as not found and skip the query, which PostgreSQL would reject.
func validID(s string) bool {
	return s != "" && len(s) <= maxID && utf8.ValidString(s) && !strings.ContainsRune(s, 0)
}

// isCheck reports whether product is a check.
func isCheck(product idverify.Product) bool {
	return hasCallback(product) || product == idverify.ProductSIMCheck
}

// hasCallback reports whether the service sends callbacks of product.
func hasCallback(product idverify.Product) bool {
	return product == idverify.ProductPhoneCheck || product == idverify.ProductSubscriberCheck
}

// querier is implemented by *sql.DB, *sql.Conn and *sql.Tx.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// expectRow returns otherwise if the statement did not change a row.
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
