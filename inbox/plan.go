package inbox

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/idverify/idverify-go"
)

// Plan stores that a check of product will be created with reference as its ReferenceID. Commit tx,
// then call [Inbox.CreatePhoneCheck], [Inbox.CreateSubscriberCheck] or [Inbox.CreateSIMCheck]. A
// crash loses nothing, because Reconcile finds the check by its reference.
//
// reference is unique for each Create, for example the output of [crypto/rand.Text], and stored
// instead of the phone number. Store it in a row of yours in the same transaction. If it was
// planned before, the error is [ErrReferenceUsed], and tx can still be used. After any other error
// of tx, do not commit it, and do not create the check.
//
// If no check is created, the entry ends with [StatusLost] a quarter of an hour after Plan.
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
	return databaseError(i.insert(ctx, tx, product, reference, sql.NullInt64{}))
}

// insert stores a planned entry. If createStarted is valid, the entry is marked as by markCreate.
func (i *Inbox) insert(ctx context.Context, q querier, product idverify.Product, reference string, createStarted sql.NullInt64) error {
	now := i.now()
	result, err := q.ExecContext(ctx, "INSERT INTO idverify_checks (reference, product, planned_at, reconcile_at, give_up_at, create_started_at) "+
		"VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (reference) DO NOTHING",
		reference, string(product), now, now+createTime.Microseconds(), now+maxCreateTime.Microseconds(), createStarted)
	if err != nil {
		return err
	}
	return expectRow(result, ErrReferenceUsed)
}

// CreatePhoneCheck creates the PhoneCheck that was planned with p.ReferenceID, and stores its check
// ID. If ctx ends after the check was created, it is stored nevertheless. For each planned
// reference, at most one check is created, also if several processes call CreatePhoneCheck.
//
// If p.ReferenceID is empty, CreatePhoneCheck plans a random reference itself, so that each call
// creates a check. Use this if you store no row of your own with the plan: as Create of
// [checkflow.Config], for example. [Inbox.GetByCheckID] returns the entry.
//
// Before the request to the service, the error matches [ErrNotFound] if no committed transaction
// has planned the reference, and [ErrConflict] if a check of this reference was created before, is
// being created, or is of another product.
//
// If the error matches [idverify.ErrOutcomeUnknown], the check may exist and may have been charged,
// or the database failed after the check was created. Do not create another: Reconcile finds the
// check, and its result is stored. [Options].Logger receives its reference. After any other error
// of Create, such as [idverify.ErrPhoneFormat] or [idverify.ErrSandbox], the entry is deleted.
// After an error of the database there is no check, and the entry may end with [StatusLost]. After
// every error, another attempt needs another Plan with another reference.
func (i *Inbox) CreatePhoneCheck(ctx context.Context, client *idverify.Client, p idverify.PhoneCheckParams) (*idverify.PhoneCheck, error) {
	return create(ctx, i, idverify.ProductPhoneCheck, &p.ReferenceID, func() (*idverify.PhoneCheck, error) {
		return client.PhoneChecks.Create(ctx, p)
	}, func(ctx context.Context, c *idverify.PhoneCheck) error {
		return i.Bind(ctx, p.ReferenceID, c.CheckID, c.TTL)
	})
}

// CreateSubscriberCheck creates a planned SubscriberCheck as [Inbox.CreatePhoneCheck] does a
// PhoneCheck.
func (i *Inbox) CreateSubscriberCheck(ctx context.Context, client *idverify.Client, p idverify.SubscriberCheckParams) (*idverify.SubscriberCheck, error) {
	return create(ctx, i, idverify.ProductSubscriberCheck, &p.ReferenceID, func() (*idverify.SubscriberCheck, error) {
		return client.SubscriberChecks.Create(ctx, p)
	}, func(ctx context.Context, c *idverify.SubscriberCheck) error {
		return i.Bind(ctx, p.ReferenceID, c.CheckID, c.TTL)
	})
}

// CreateSIMCheck creates a planned SIMCheck as [Inbox.CreatePhoneCheck] does a PhoneCheck. It
// returns the check only if its result is stored. If the error matches [ErrTransactionEnded], the
// result is stored, but its entry has stopped: see [Options].OnResult.
func (i *Inbox) CreateSIMCheck(ctx context.Context, client *idverify.Client, p idverify.SIMCheckParams) (*idverify.SIMCheck, error) {
	return create(ctx, i, idverify.ProductSIMCheck, &p.ReferenceID, func() (*idverify.SIMCheck, error) {
		return client.SIMChecks.Create(ctx, p)
	}, func(ctx context.Context, c *idverify.SIMCheck) error {
		result := ResultOf(c)
		result.ReferenceID = p.ReferenceID
		_, err := i.Record(ctx, result)
		return err
	})
}

// create marks a planned entry, creates its check with send and stores the check with store. If
// *reference is empty, create sets it and plans the entry.
func create[C any](ctx context.Context, i *Inbox, product idverify.Product, reference *string, send func() (*C, error), store func(context.Context, *C) error) (check *C, err error) {
	defer func() {
		if errors.Is(err, idverify.ErrOutcomeUnknown) { // the error has no reference
			i.log(ctx, slog.LevelWarn, "inbox: outcome of the create unknown", err, slog.String("reference", *reference))
		}
	}()
	if *reference == "" {
		*reference = rand.Text()
		err = i.run(ctx, func(q querier) error {
			return i.insert(ctx, q, product, *reference, sql.NullInt64{Int64: i.now(), Valid: true})
		})
	} else {
		err = i.markCreate(ctx, product, *reference)
	}
	if err != nil {
		return nil, fmt.Errorf("inbox: create %s: %w", product, err)
	}
	check, err = send()
	if errors.Is(err, idverify.ErrOutcomeUnknown) {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err != nil {
		if discardErr := i.discard(ctx, *reference, ""); discardErr != nil {
			// Its sentinels would mean that no request was sent.
			err = fmt.Errorf("%w; discard entry: %v", err, discardErr) //nolint:errorlint // see above
		}
		return nil, err
	}
	if err := store(ctx, check); err != nil {
		return nil, fmt.Errorf("inbox: create %s: %w", product, &createdError{err})
	}
	return check, nil
}

// markCreate marks the planned entry whose check is about to be created. It succeeds once for each
// entry, because one statement tests and sets the mark. The times of Reconcile now count from the
// mark.
func (i *Inbox) markCreate(ctx context.Context, product idverify.Product, reference string) error {
	if !validID(reference) {
		return ErrNotFound
	}
	now := i.now()
	result, err := i.exec(ctx, "UPDATE idverify_checks SET create_started_at = $1, reconcile_at = $2, give_up_at = $3 "+
		"WHERE reference = $4 AND product = $5 AND create_started_at IS NULL AND check_id IS NULL AND status IS NULL",
		now, now+createTime.Microseconds(), now+maxCreateTime.Microseconds(), reference, string(product))
	if err == nil {
		err = expectRow(result, fmt.Errorf("%w: its check was created before or is being created, it has ended, or it has another product (plan another reference)", ErrConflict))
	}
	if err == nil {
		return nil
	}
	// On SQLite, a transaction that has planned the entry and is still open also makes the statement
	// fail.
	if exists := i.exists(ctx, reference); errors.Is(exists, ErrNotFound) {
		return fmt.Errorf("%w: not planned (call Plan and commit its transaction before)", ErrNotFound)
	}
	return err
}

// createdError means that a check was created and that storing it failed with err.
type createdError struct{ err error }

// Error implements error.
func (e *createdError) Error() string {
	return "created and charged; do not create again; Reconcile finds it: " + e.err.Error()
}

// Is reports whether target is ErrOutcomeUnknown, after which a caller has to do the same.
func (e *createdError) Is(target error) bool { return target == idverify.ErrOutcomeUnknown }

// Unwrap returns the error of the database. It returns nil for the errors that would mean that no
// request was sent.
func (e *createdError) Unwrap() error {
	for _, notSent := range []error{ErrNotFound, ErrConflict, idverify.ErrBadRequest} {
		if errors.Is(e.err, notSent) {
			return nil
		}
	}
	return e.err
}

// Discard deletes a planned entry whose check will not be created, so that Reconcile does not
// search for it. The create methods of Inbox discard entries themselves. If you create checks in
// another way, call Discard unless the error of Create matches [idverify.ErrOutcomeUnknown], after
// which the check may exist.
//
// The error is [ErrNotFound] if the reference is not stored, and [ErrConflict] if its entry has a
// check ID, has ended, or was passed to a create method.
func (i *Inbox) Discard(ctx context.Context, reference string) error {
	if err := i.discard(ctx, reference, " AND create_started_at IS NULL"); err != nil {
		return fmt.Errorf("inbox: discard: %w", err)
	}
	return nil
}

// discard deletes an entry without a check ID and without a result that meets the condition.
func (i *Inbox) discard(ctx context.Context, reference, condition string) error {
	if !validID(reference) {
		return ErrNotFound
	}
	result, err := i.exec(ctx, "DELETE FROM idverify_checks WHERE reference = $1 AND check_id IS NULL AND status IS NULL"+condition, reference)
	if err != nil {
		return err
	}
	if err := expectRow(result, ErrConflict); !errors.Is(err, ErrConflict) {
		return err
	}
	if err := i.exists(ctx, reference); err != nil {
		return err
	}
	return fmt.Errorf("%w: it has a check ID, has ended, or its check is being created", ErrConflict)
}

// exists returns ErrNotFound if no entry has the reference.
func (i *Inbox) exists(ctx context.Context, reference string) error {
	var n int
	return notFound(i.queryRow(ctx, "SELECT 1 FROM idverify_checks WHERE reference = $1", reference).Scan(&n))
}

// Bind stores the ID and the TTL of a check that was created in another way than by
// [Inbox.CreatePhoneCheck] or [Inbox.CreateSubscriberCheck], which call Bind themselves. Call it
// before anyone gets the Check URL. If Bind fails, do not send the Check URL, or call Bind again.
//
// Bind does nothing if the check ID is already stored, for example by Reconcile. The error is
// [ErrNotFound] if the reference was not planned, and [ErrConflict] if its entry has another check
// ID or has ended without one, or if the check ID belongs to another entry. If ttl is not positive,
// or more than 24 hours, two minutes are used.
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
	if err := expectRow(result, ErrConflict); !errors.Is(err, ErrConflict) {
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

// isCheck reports whether product is a check.
func isCheck(product idverify.Product) bool {
	return hasCallback(product) || product == idverify.ProductSIMCheck
}

// hasCallback reports whether the service sends callbacks of product.
func hasCallback(product idverify.Product) bool {
	return product == idverify.ProductPhoneCheck || product == idverify.ProductSubscriberCheck
}
