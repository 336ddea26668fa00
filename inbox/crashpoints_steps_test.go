package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
)

// matchingNumber is a phone number whose checks match.
const matchingNumber = "447700900012"

func (p *point) migrate(t *testing.T) error {
	return inbox.Migrate(t.Context(), p.db, p.dialect)
}

// planSignUp inserts a row of the user and plans its check in one transaction.
func (p *point) planSignUp(t *testing.T) error {
	tx, err := p.db.BeginTx(t.Context(), nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(t.Context(), "INSERT INTO sign_ups (reference) VALUES ($1)", p.reference); err != nil {
		return err
	}
	if err := p.inbox.Plan(t.Context(), tx, idverify.ProductPhoneCheck, p.reference); err != nil {
		return err
	}
	return tx.Commit()
}

// start plans, creates and binds a check with a callback.
func (p *point) start(t *testing.T) {
	t.Helper()
	p.createUnbound(t)
	if err := p.bind(t); err != nil {
		t.Fatal(err)
	}
}

// createUnbound plans and creates a check with a callback.
func (p *point) createUnbound(t *testing.T) {
	t.Helper()
	p.plan(t, idverify.ProductPhoneCheck, p.reference)
	p.check = p.create(t, matchingNumber, p.reference)
}

// createWithoutCallback plans and creates a check that the service sends no callback of.
func (p *point) createWithoutCallback(t *testing.T) {
	t.Helper()
	p.plan(t, idverify.ProductPhoneCheck, p.reference)
	check, err := p.client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: matchingNumber, ReferenceID: p.reference})
	if err != nil {
		t.Fatal(err)
	}
	p.check = check
}

// completeUnbound completes a check without a callback, whose ID is not stored.
func (p *point) completeUnbound(t *testing.T) {
	t.Helper()
	p.createWithoutCallback(t)
	p.open(t, p.check)
}

// completeUnnoticed completes a check without a callback.
func (p *point) completeUnnoticed(t *testing.T) {
	t.Helper()
	p.createWithoutCallback(t)
	if err := p.bind(t); err != nil {
		t.Fatal(err)
	}
	p.open(t, p.check)
}

// store stores the result of a check for Work.
func (p *point) store(t *testing.T) {
	t.Helper()
	p.completeUnnoticed(t)
	if err := p.record(t); err != nil {
		t.Fatal(err)
	}
}

// createPlanned calls the create method of the planned product.
func (p *point) createPlanned(t *testing.T) error {
	t.Helper()
	checkID, err := createMethods[p.product](t.Context(), p.inbox, p.client, p.number, p.reference)
	if (checkID == "") == (err == nil) {
		t.Errorf("check %q and error %v, want one of them", checkID, err)
	}
	return err
}

// createAgain calls createPlanned again, as a user who retries after every error, and then
// Reconcile until the entry has ended.
func (p *point) createAgain(t *testing.T) {
	t.Helper()
	created := p.created(t, p.reference)
	if unknown := errors.Is(p.err, idverify.ErrOutcomeUnknown); p.err != nil && unknown != (created == 1) {
		t.Errorf("error = %v after %d checks, want ErrOutcomeUnknown only after one", p.err, created)
	}
	for range 2 {
		if err := p.createPlanned(t); err != nil && !errors.Is(err, inbox.ErrConflict) {
			t.Errorf("error of another call = %v, want none or ErrConflict", err)
		}
	}
	p.advance(t, 31*time.Second) // the check has not expired yet
	if err := p.reconcile(t); err != nil {
		t.Fatal(err)
	}
	p.reconcileUntilEnded(t)
}

// verifyCreatedOnce verifies that at most one check was created, and that Reconcile has found it.
func (p *point) verifyCreatedOnce(t *testing.T) {
	t.Helper()
	e := p.get(t, p.reference)
	created := p.created(t, p.reference)
	if created > 1 || created == 1 != (e.CheckID != "") {
		t.Errorf("%d checks created, check ID %q; want at most one, and its ID", created, e.CheckID)
	}
	p.verifyOnce(t, e.Status)
}

func (p *point) bind(t *testing.T) error {
	return p.inbox.Bind(t.Context(), p.reference, p.check.CheckID, p.check.TTL)
}

func (p *point) record(t *testing.T) error {
	check, err := p.client.PhoneChecks.Get(t.Context(), p.check.CheckID)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.inbox.Record(t.Context(), inbox.ResultOf(check))
	return err
}

func (p *point) retry(t *testing.T) error {
	return p.inbox.Retry(t.Context(), p.reference)
}

func (p *point) purge(t *testing.T) error {
	_, err := p.inbox.Purge(t.Context())
	return err
}

// insertEnded inserts n entries that ended some time ago. The times of column are the same.
func (p *point) insertEnded(t *testing.T, reference string, n int, column string, ago time.Duration) {
	t.Helper()
	p.exec(t, "WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < $1) "+
		"INSERT INTO idverify_checks (reference, product, check_id, planned_at, give_up_at, status, ended_at, "+column+") "+
		"SELECT $2 || ' ' || i, 'phone_check', 'check of ' || $2 || ' ' || i, $3, $3, 'EXPIRED', $3, $3 FROM numbers",
		n, reference, p.service.Now().Add(-ago).UnixMicro())
}

// openCheck opens the Check URL. The service sends the callback once.
func (p *point) openCheck(t *testing.T) error {
	p.open(t, p.check)
	return nil
}

// redeliver makes the service send the callback again, if it was not acknowledged.
func (p *point) redeliver(t *testing.T) {
	t.Helper()
	p.advance(t, 5*time.Minute)
}

func (p *point) bindAndRedeliver(t *testing.T) {
	t.Helper()
	if err := p.bind(t); err != nil {
		t.Fatal(err)
	}
	p.redeliver(t)
}

func (p *point) redeliverAndWork(t *testing.T) {
	t.Helper()
	p.redeliver(t)
	p.workUntilDone(t)
}

// work calls Work until it has processed an entry or something has failed.
func (p *point) work(t *testing.T) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // only reached if no entry is due
	defer cancel()
	p.stop.Store(&cancel)
	return p.inbox.Work(ctx, p.fn)
}

// workUntilDone processes the entry as the next start of the process does.
func (p *point) workUntilDone(t *testing.T) {
	t.Helper()
	for range 3 {
		e := p.get(t, p.reference)
		if !e.DoneAt.IsZero() || !e.StoppedAt.IsZero() {
			return
		}
		p.advance(t, 11*time.Minute)
		stats, err := p.inbox.Stats(t.Context())
		if err != nil || stats.Pending == 0 {
			t.Fatalf("%d entries pending, error %v, want the entry that is not done", stats.Pending, err)
		}
		if err := p.work(t); err != nil {
			t.Fatal(err)
		}
	}
}

// reconcile calls Reconcile once.
func (p *point) reconcile(t *testing.T) error {
	return p.inbox.Reconcile(t.Context(), p.client)
}

// reconcileUntilEnded calls Reconcile as Run does later.
func (p *point) reconcileUntilEnded(t *testing.T) {
	t.Helper()
	for range 20 {
		if p.get(t, p.reference).Status != "" {
			return
		}
		p.advance(t, 2*time.Minute)
		if err := p.reconcile(t); err != nil {
			t.Fatal(err)
		}
	}
}

// applyEffect is the effect of a result in the database of the user. It has two statements.
func applyEffect(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
	var before int
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM effects WHERE reference = $1", e.Reference).Scan(&before); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO effects (reference) VALUES ($1)", e.Reference)
	return err
}

// failAfterEffect is a function of Work that always fails.
func failAfterEffect(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
	return errors.Join(applyEffect(ctx, tx, e), errors.New("permanent failure"))
}

func (p *point) verifyCompleted(t *testing.T) {
	t.Helper()
	p.verifyOnce(t, inbox.StatusCompleted)
}

// verifyAcknowledged verifies the result and that the service has stopped sending the callback.
func (p *point) verifyAcknowledged(t *testing.T) {
	t.Helper()
	p.verifyOnce(t, inbox.StatusCompleted)
	for _, d := range p.service.Deliveries() {
		if d.CheckID == p.check.CheckID && d.Acknowledged() {
			return
		}
	}
	t.Error("the callback was not acknowledged")
}

// verifyOnce verifies that the result is stored and took effect exactly once.
func (p *point) verifyOnce(t *testing.T, status inbox.Status) {
	t.Helper()
	e := p.get(t, p.reference)
	if e.Status != status || e.DoneAt.IsZero() || !e.StoppedAt.IsZero() {
		t.Errorf("status = %q, done at %v, stopped at %v, want %q, processed", e.Status, e.DoneAt, e.StoppedAt, status)
	}
	if p.check != nil && e.CheckID != p.check.CheckID {
		t.Errorf("check ID = %q, want %q", e.CheckID, p.check.CheckID)
	}
	p.verifyEffects(t, 1)
}

func (p *point) verifyEffects(t *testing.T, want int) {
	t.Helper()
	if got := p.count(t, "SELECT count(*) FROM effects WHERE reference = $1", p.reference); got != want {
		t.Errorf("the result took effect %d times, want %d", got, want)
	}
}

func (s *points) advance(t *testing.T, d time.Duration) {
	t.Helper()
	if err := s.service.Advance(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

func (s *points) exec(t testing.TB, query string, args ...any) {
	t.Helper()
	if _, err := s.db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", statement{query: query}, err))
	}
}

func (s *points) count(t testing.TB, query string, args ...any) (n int) {
	t.Helper()
	if err := s.db.QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", statement{query: query}, err))
	}
	return n
}
