package inbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/idverify/idverify-go"
)

// The times of a check in Reconcile.
const (
	createTime      = 30 * time.Second // a Create has usually returned this long after it began
	maxCreateTime   = 15 * time.Minute // no Create is in progress this long after it began, or after Plan
	callbackTime    = 30 * time.Second // a callback has usually arrived this long after the TTL
	maxCallbackTime = 5 * time.Minute  // the service makes no more attempts this long after the TTL
	defaultTTL      = 2 * time.Minute  // of a check whose TTL is not known
	maxTTL          = 24 * time.Hour   // a longer TTL is not plausible

	lease    = time.Minute      // another process may read the check after this time
	readTime = 25 * time.Second // of a read: the lease also covers queryTimeout, to store its result
	interval = 5 * time.Minute  // between reads of a check that is still in progress

	maxReadPause = 10 * time.Minute // between failed reads of a check
	maxClockSkew = 10 * time.Minute // between the service, which dates checks, and this backend
)

// maxReconcileErrors is the number of reads that fail in a row before Reconcile leaves the product.
const maxReconcileErrors = 3

// Reconcile finds missing results. With client, it reads each check whose Create has not returned
// within 30 seconds, or whose callback is overdue by 30 seconds. [Inbox.Start] calls Reconcile
// regularly.
//
//   - An entry without a check ID is searched by its reference. If a check is found, its ID is
//     stored.
//   - The result of a COMPLETED check is stored.
//   - A check in progress is read again later.
//   - A check that is not found ends with [StatusLost] once no callback can arrive any more:
//     five minutes after its TTL or, if its ID is not known, 15 minutes after its Create began, or
//     after Plan. It is never assumed to be EXPIRED. If client has [idverify.WithLiveOnly], a check
//     of a sandbox project whose ID is not known counts as not found.
//
// Reconcile returns when it has read the entries that were due when it was called, or ctx ends. The
// product whose entries wait longest comes first. An entry whose read fails, or whose result cannot
// be stored, is read again after a pause that grows with its age from one to ten minutes. After
// three failures of the service in a row, Reconcile continues with the next product, and after
// [idverify.ErrRateLimited] it returns. The error contains the first failure of each product.
//
// Reconcile may be called concurrently and in several processes. client must have the credentials
// of the project that created the checks: with those of another one, they end with [StatusLost].
func (i *Inbox) Reconcile(ctx context.Context, client *idverify.Client) error {
	due := i.now() // entries that become due later do not prolong this call
	var failures []error
	products, err := i.overdueProducts(ctx, due)
	if err != nil {
		return fmt.Errorf("inbox: reconcile: %w", err)
	}
	for _, product := range products {
		first, err := i.reconcileProduct(ctx, client, product, due)
		if first != nil {
			failures = append(failures, first)
		}
		if err != nil {
			failures = append(failures, err)
			break
		}
	}
	if len(failures) > 0 {
		return fmt.Errorf("inbox: reconcile: %w", errors.Join(failures...))
	}
	return nil
}

// overdueProducts returns the products with entries that were due at the given time, in the order
// of their first entry. If a rate limit always ended Reconcile during the same product, it would
// never read the others.
func (i *Inbox) overdueProducts(ctx context.Context, due int64) ([]idverify.Product, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	first := make(map[idverify.Product]int64)
	for _, product := range []idverify.Product{idverify.ProductPhoneCheck, idverify.ProductSIMCheck, idverify.ProductSubscriberCheck} {
		var at sql.NullInt64
		err := i.queryRow(ctx, "SELECT min(reconcile_at) FROM idverify_checks WHERE product = $1 AND reconcile_at <= $2", string(product), due).Scan(&at)
		if err != nil {
			return nil, fmt.Errorf("find entries: %w", err)
		}
		if at.Valid {
			first[product] = at.Int64
		}
	}
	return slices.SortedFunc(maps.Keys(first), func(a, b idverify.Product) int { return cmp.Compare(first[a], first[b]) }), nil
}

// reconcileProduct reads the checks of a product that were due at the given time. It returns the
// first failed read, and another error if Reconcile has to return.
func (i *Inbox) reconcileProduct(ctx context.Context, client *idverify.Client, product idverify.Product, due int64) (first, err error) {
	for failed := 0; failed < maxReconcileErrors; {
		e, err := i.claimOverdue(ctx, product, due)
		if err != nil || e == nil {
			return first, err
		}
		begin := i.opts.Now()
		outcome, err := i.reconcile(ctx, client, e)
		if ctx.Err() != nil && err != nil {
			return first, ctx.Err()
		}
		if outcome != "" {
			i.observe(ctx, Event{Operation: "reconcile", Outcome: outcome, Product: e.Product, Duration: i.opts.Now().Sub(begin), Err: err})
		}
		if err == nil {
			failed = 0
			continue
		}
		i.log(ctx, slog.LevelError, "inbox: check not reconciled", err, slog.String("outcome", string(outcome)), slog.String("check_id", e.CheckID), slog.String("reference", e.Reference))
		if errors.Is(err, idverify.ErrRateLimited) {
			return first, err
		}
		if first == nil {
			first = err
		}
		if isServiceFailure(err) {
			failed++
		}
		// If this fails too, the entry is read again after the lease.
		_ = i.readAgain(ctx, e, min(max(lease, i.age(e)/4), maxReadPause))
	}
	return first, nil
}

// errRead marks failures to read a check.
var errRead = errors.New("read the check")

// isServiceFailure reports whether the next read will probably fail for the same reason as err.
func isServiceFailure(err error) bool {
	return errors.Is(err, errRead) && !errors.Is(err, idverify.ErrBadRequest) && !errors.Is(err, idverify.ErrConflict)
}

// overdue is an entry that Reconcile has to read.
type overdue struct {
	*Entry

	giveUpAt int64
}

// claimOverdue returns the entry of a product that was due first, or nil if none was due at the
// given time. Other calls do not get it during the lease.
func (i *Inbox) claimOverdue(ctx context.Context, product idverify.Product, due int64) (*overdue, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	var o overdue
	var err error
	o.Entry, err = scanEntry(i.queryRow(ctx, "UPDATE idverify_checks SET reconcile_at = $1 WHERE reference = "+
		"(SELECT reference FROM idverify_checks WHERE product = $2 AND reconcile_at <= $3 ORDER BY reconcile_at LIMIT 1"+i.dialect.skipLocked()+") "+
		"RETURNING "+columns+", give_up_at", i.now()+lease.Microseconds(), string(product), due), &o.giveUpAt)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("claim an entry: %w", err)
	}
	return &o, nil
}

// reconcile reads the check of an entry and stores what it finds. The outcome is empty if the entry
// has to be read again.
func (i *Inbox) reconcile(ctx context.Context, client *idverify.Client, e *overdue) (Outcome, error) {
	found, err := find(ctx, client, e.Entry)
	if err != nil {
		return OutcomeFailed, fmt.Errorf("%w: %w", errRead, err)
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	switch {
	case found == nil && i.now() >= e.giveUpAt:
		return i.endLost(ctx, e.Entry)
	case found == nil && e.CheckID == "":
		// The intervals double: most of these checks do not exist.
		err = i.readAgain(ctx, e, min(max(lease, i.age(e)), time.Duration(e.giveUpAt-i.now())*time.Microsecond))
	case found == nil:
		// The callback may still arrive: read it again after the lease.
	case found.Status.Final():
		stored, err := i.record(ctx, found.Result, SourceReconcile)
		return outcomeOf(stored, err), err
	case e.CheckID == "":
		err = i.run(ctx, func(q querier) error { return i.bind(ctx, q, e.Reference, found.CheckID, found.ttl) })
		if errors.Is(err, ErrConflict) {
			err = nil // Bind or Record was faster
		}
	default:
		err = i.readAgain(ctx, e, interval)
	}
	if err != nil {
		return OutcomeFailed, err
	}
	return "", nil
}

// age returns the time since Plan.
func (i *Inbox) age(e *overdue) time.Duration { return i.opts.Now().Sub(e.PlannedAt) }

// readAgain sets when to read a check next, unless Bind has set it in the meantime.
func (i *Inbox) readAgain(ctx context.Context, e *overdue, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	_, err := i.exec(ctx, "UPDATE idverify_checks SET reconcile_at = $1 WHERE reference = $2 AND give_up_at = $3 AND status IS NULL",
		i.now()+wait.Microseconds(), e.Reference, e.giveUpAt)
	return err
}

// endLost stores that the check of an entry has ended and that its result is not known.
func (i *Inbox) endLost(ctx context.Context, e *Entry) (Outcome, error) {
	result := Result{Product: e.Product, Status: idverify.CheckStatus(StatusLost)}
	ended, err := i.store(ctx, func(ctx context.Context, q querier, column string) (*Entry, error) {
		// Bind may have stored the check ID in the meantime, and a later time to give up.
		return i.update(ctx, q, "reference = $11 AND give_up_at <= $9", e.Reference, result, SourceReconcile, column)
	})
	switch {
	case err != nil:
		return outcomeOf(false, err), err
	case !ended:
		return "", nil
	}
	i.log(ctx, slog.LevelWarn, "inbox: check not found, ended as LOST", nil, slog.String("check_id", e.CheckID), slog.String("reference", e.Reference))
	return OutcomeLost, nil
}

// foundCheck is a check that the service has stored.
type foundCheck struct {
	Result

	ttl       time.Duration
	createdAt time.Time
}

// find reads the check of an entry. It returns nil if the service does not find it.
func find(ctx context.Context, client *idverify.Client, e *Entry) (*foundCheck, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	switch e.Product {
	case idverify.ProductPhoneCheck:
		s := client.PhoneChecks
		return findWith(ctx, e, s.Get, s.FindByReferenceID, func(c *idverify.PhoneCheck) *foundCheck { return &foundCheck{ResultOf(c), c.TTL, c.CreatedAt} })
	case idverify.ProductSIMCheck:
		s := client.SIMChecks
		return findWith(ctx, e, s.Get, s.FindByReferenceID, func(c *idverify.SIMCheck) *foundCheck { return &foundCheck{ResultOf(c), 0, c.CreatedAt} })
	case idverify.ProductSubscriberCheck:
		s := client.SubscriberChecks
		return findWith(ctx, e, s.Get, s.FindByReferenceID, func(c *idverify.SubscriberCheck) *foundCheck { return &foundCheck{ResultOf(c), c.TTL, c.CreatedAt} })
	}
	return nil, fmt.Errorf("%w: the product of the entry is not a check", idverify.ErrBadRequest)
}

// findWith reads the check of an entry with the methods of its service.
func findWith[T any](ctx context.Context, e *Entry, get func(context.Context, string) (*T, error), search func(context.Context, string) ([]*T, error), convert func(*T) *foundCheck) (*foundCheck, error) {
	if e.CheckID != "" {
		check, err := get(ctx, e.CheckID)
		if isCheckNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return convert(check), nil
	}
	checks, err := search(ctx, e.Reference)
	if errors.Is(err, idverify.ErrSandbox) {
		return nil, nil // the client accepts only live checks: the check ends as LOST
	}
	if err != nil {
		return nil, err
	}
	// A reference is unique for each Create. If it was used again nevertheless, the first check since
	// Plan is the one that was planned: an older one has the result of another day.
	for _, check := range checks {
		if found := convert(check); !found.createdAt.Before(e.PlannedAt.Add(-maxClockSkew)) {
			return found, nil
		}
	}
	return nil, nil
}

// isCheckNotFound reports whether the service did not find the check. Any other 404 comes from a
// wrong version or a proxy and says nothing about the check.
func isCheckNotFound(err error) bool {
	e, ok := errors.AsType[*idverify.Error](err)
	return ok && errors.Is(e, idverify.ErrNotFound) && e.Code() == idverify.CodeCheckNotFound
}
