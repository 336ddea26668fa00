package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
)

// TestCrashPoints makes each statement, each begin and each commit of each operation fail once, in
// every way of faults. The n-th run makes the n-th step fail, until a run has fewer steps. A new
// statement is therefore tested without a change here.
func TestCrashPoints(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		for _, op := range slices.Concat(storeOperations, createOperations, handlerOperations, workOperations, reconcileOperations) {
			t.Run(d.name+"/"+op.name, func(t *testing.T) {
				t.Parallel()
				s := newPoints(t, d, op)
				for _, f := range faults {
					n := 1
					for s.test(t, op, f, n) {
						n++
					}
					if n == 1 {
						t.Errorf("%s: the operation has no step that can fail", f.name)
					}
				}
				t.Logf("%d steps: %s", len(s.steps), strings.Join(s.steps, " · "))
			})
		}
	}
}

// operation is an operation of package inbox whose steps fail in turn.
type operation struct {
	name     string
	onResult bool // OnResult processes the results, instead of Work
	attempts int  // MaxAttempts

	arrange func(*point, *testing.T)
	act     func(*point, *testing.T) error // its steps fail
	recover func(*point, *testing.T)       // as a user recovers
	verify  func(*point, *testing.T)
}

// storeOperations are called again by the user after an error.
var storeOperations = []operation{
	{
		name: "Migrate",
		arrange: func(p *point, t *testing.T) {
			for _, table := range []string{"idverify_checks", "idverify_flows", "idverify_schema"} {
				p.exec(t, "DROP TABLE "+table)
			}
		},
		act:     (*point).migrate,
		recover: func(p *point, t *testing.T) { p.repeat(t, (*point).migrate) },
		verify: func(p *point, t *testing.T) {
			if _, err := inbox.New(t.Context(), p.db, p.dialect, nil); err != nil {
				t.Error(err)
			}
			if n := p.number(t, "SELECT count(*) - max(version) FROM idverify_schema"); n != 0 {
				t.Errorf("the schema has %d rows more than versions, want each migration once", n)
			}
			p.plan(t, idverify.ProductPhoneCheck, p.reference)
		},
	},
	{
		name:    "Plan",
		arrange: func(*point, *testing.T) {},
		act:     (*point).planSignUp,
		recover: func(p *point, t *testing.T) {
			p.repeat(t, func(p *point, t *testing.T) error {
				err := p.planSignUp(t)
				if errors.Is(err, inbox.ErrReferenceUsed) {
					return nil // the first commit took effect
				}
				return err
			})
		},
		verify: func(p *point, t *testing.T) {
			p.get(t, p.reference)
			if n := p.number(t, "SELECT count(*) FROM sign_ups WHERE reference = $1", p.reference); n != 1 {
				t.Errorf("%d sign-ups, want 1 with the planned check", n)
			}
		},
	},
	{
		name:     "Bind",
		onResult: true,
		arrange:  (*point).createUnbound,
		act:      (*point).bind,
		recover:  func(p *point, t *testing.T) { p.repeat(t, (*point).bind); p.open(t, p.check) },
		verify:   (*point).verifyCompleted,
	},
	{
		name:     "Record",
		onResult: true,
		arrange:  (*point).completeUnnoticed,
		act:      (*point).record,
		recover:  func(p *point, t *testing.T) { p.repeat(t, (*point).record) },
		verify:   (*point).verifyCompleted,
	},
	{
		name:     "Record by reference",
		onResult: true,
		arrange:  (*point).completeUnbound,
		act:      (*point).record,
		recover:  func(p *point, t *testing.T) { p.repeat(t, (*point).record) },
		verify:   (*point).verifyCompleted,
	},
	{
		name: "Purge",
		arrange: func(p *point, t *testing.T) {
			p.advance(t, 31*24*time.Hour) // the entries of earlier runs are not older than those of this run
			const done, stopped, recent = 30*24*time.Hour + time.Second, 300 * 24 * time.Hour, 29 * 24 * time.Hour
			p.insertEnded(t, "done "+p.reference, 600, "done_at", done)
			p.insertEnded(t, "stopped "+p.reference, 1, "stopped_at", stopped)
			p.insertEnded(t, "recent "+p.reference, 1, "done_at", recent)
		},
		act:     (*point).purge,
		recover: func(p *point, t *testing.T) { p.repeat(t, (*point).purge) },
		verify: func(p *point, t *testing.T) {
			for kind, want := range map[string]int{"done": 0, "stopped": 1, "recent": 1} {
				if n := p.number(t, "SELECT count(*) FROM idverify_checks WHERE reference LIKE $1", kind+" "+p.reference+" %"); n != want {
					t.Errorf("%d entries of kind %q, want %d", n, kind, want)
				}
			}
		},
	},
}

// createOperations recover as a user who calls the method again and then lets Reconcile run.
var createOperations = []operation{
	{name: "CreatePhoneCheck", onResult: true, arrange: func(p *point, t *testing.T) { p.plan(t, p.product, p.reference) }, act: (*point).createPlanned, recover: (*point).createAgain, verify: (*point).verifyCreatedOnce},
	{
		name:     "CreateSIMCheck",
		onResult: true,
		arrange:  func(p *point, t *testing.T) { p.product = idverify.ProductSIMCheck; p.plan(t, p.product, p.reference) },
		act:      (*point).createPlanned,
		recover:  (*point).createAgain,
		verify:   (*point).verifyCreatedOnce,
	},
	{
		name:     "CreatePhoneCheck without a reference",
		onResult: true,
		arrange:  func(p *point, _ *testing.T) { p.reference = "" },
		act:      (*point).createPlanned,
		recover:  (*point).findPlanned,
		verify: func(p *point, t *testing.T) {
			if checks, stored := p.created(t, "reference_id"), p.number(t, "SELECT count(*) FROM idverify_checks WHERE check_id IS NOT NULL"); checks != stored {
				t.Errorf("%d checks created, %d of them stored", checks, stored)
			}
			if p.reference != "" {
				p.verifyCreatedOnce(t)
			}
		},
	},
	{
		name:     "CreatePhoneCheck without a check",
		onResult: true,
		arrange: func(p *point, t *testing.T) {
			p.plan(t, p.product, p.reference)
			p.phone = "1"
		},
		act: (*point).createPlanned,
		recover: func(p *point, t *testing.T) {
			if errors.Is(p.err, idverify.ErrOutcomeUnknown) || p.err == nil {
				t.Errorf("error = %v, want one that excludes a check", p.err)
			}
		},
		verify: func(p *point, t *testing.T) {
			if n := p.created(t, p.reference); n != 0 {
				t.Errorf("%d checks created, want none", n)
			}
			if _, err := p.inbox.Get(t.Context(), p.reference); errors.Is(err, inbox.ErrNotFound) {
				return // discarded
			}
			p.reconcileUntilEnded(t)
			p.verifyOnce(t, inbox.StatusLost)
		},
	},
}

// handlerOperations recover with the service's next attempt.
var handlerOperations = []operation{
	{name: "Handler", arrange: (*point).start, act: (*point).openCheck, recover: (*point).redeliverAndWork, verify: (*point).verifyAcknowledged},
	{name: "Handler with OnResult", onResult: true, arrange: (*point).start, act: (*point).openCheck, recover: (*point).redeliver, verify: (*point).verifyAcknowledged},
	{
		name:     "Handler before Bind",
		onResult: true,
		arrange:  (*point).createUnbound,
		act:      (*point).openCheck,
		recover:  (*point).bindAndRedeliver,
		verify:   (*point).verifyAcknowledged,
	},
	{
		name:     "Handler of an old check before Bind",
		onResult: true,
		arrange:  func(p *point, t *testing.T) { p.createUnbound(t); p.advance(t, 61*time.Second) },
		act:      (*point).openCheck,
		recover:  (*point).bindAndRedeliver,
		verify:   (*point).verifyAcknowledged,
	},
	{
		name:     "Handler after Record",
		onResult: true,
		arrange: func(p *point, t *testing.T) {
			p.start(t)
			completed := inbox.Result{Product: idverify.ProductPhoneCheck, CheckID: p.check.CheckID, Status: idverify.StatusCompleted, Match: idverify.VerdictYes}
			must(p.inbox.Record(t.Context(), completed))(t)
		},
		act:     (*point).openCheck,
		recover: (*point).redeliver,
		verify:  (*point).verifyAcknowledged,
	},
}

// workOperations recover when Work is called again.
var workOperations = []operation{
	{name: "Work", arrange: (*point).store, act: (*point).work, recover: (*point).workUntilDone, verify: (*point).verifyCompleted},
	{
		name: "Work until its context ends",
		arrange: func(p *point, t *testing.T) {
			p.store(t)
			p.fn = func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
				p.stopWork()
				return errors.Join(applyEffect(context.WithoutCancel(ctx), tx, e), ctx.Err())
			}
		},
		act:     (*point).work,
		recover: func(p *point, t *testing.T) { p.fn = applyEffect; p.workUntilDone(t) },
		verify:  (*point).verifyCompleted,
	},
	{
		name:     "Work stops",
		attempts: 1,
		arrange:  func(p *point, t *testing.T) { p.store(t); p.fn = failAfterEffect },
		act:      (*point).work,
		recover:  func(p *point, t *testing.T) { p.workUntilDone(t) },
		verify: func(p *point, t *testing.T) {
			if e := p.get(t, p.reference); e.StoppedAt.IsZero() || e.Attempts != 1 {
				t.Errorf("stopped at %v after %d attempts, want a stop after 1", e.StoppedAt, e.Attempts)
			}
			p.verifyEffects(t, 0)
		},
	},
	{
		name:     "Retry",
		attempts: 1,
		arrange: func(p *point, t *testing.T) {
			p.store(t)
			p.fn = failAfterEffect
			p.workUntilDone(t)
		},
		act: (*point).retry,
		recover: func(p *point, t *testing.T) {
			p.repeat(t, func(p *point, t *testing.T) error {
				err := p.retry(t)
				if errors.Is(err, inbox.ErrNotFound) {
					return nil // the first call took effect
				}
				return err
			})
			p.fn = applyEffect
			p.workUntilDone(t)
		},
		verify: (*point).verifyCompleted,
	},
}

// reconcileOperations recover when Reconcile is called again.
var reconcileOperations = []operation{
	{
		name:     "Reconcile stores a completed check",
		onResult: true,
		arrange:  func(p *point, t *testing.T) { p.completeUnnoticed(t); p.advance(t, 3*time.Minute) },
		act:      (*point).reconcile,
		recover:  (*point).reconcileUntilEnded,
		verify:   (*point).verifyCompleted,
	},
	{
		name:     "Reconcile finds a completed check by reference",
		onResult: true,
		arrange:  func(p *point, t *testing.T) { p.completeUnbound(t); p.advance(t, time.Minute) },
		act:      (*point).reconcile,
		recover:  (*point).reconcileUntilEnded,
		verify:   (*point).verifyCompleted,
	},
	{
		name:     "Reconcile finds a check in progress by reference",
		onResult: true,
		arrange: func(p *point, t *testing.T) {
			p.createWithoutCallback(t)
			p.advance(t, 31*time.Second)
		},
		act: (*point).reconcile,
		recover: func(p *point, t *testing.T) {
			p.advance(t, time.Minute) // the check has not expired yet
			noError(t, p.reconcile(t))
			p.reconcileUntilEnded(t)
		},
		verify: func(p *point, t *testing.T) { p.verifyOnce(t, inbox.StatusLost) },
	},
	{
		name:     "Reconcile postpones a check in progress",
		onResult: true,
		arrange: func(p *point, t *testing.T) {
			p.createWithoutCallback(t)
			noError(t, p.inbox.Bind(t.Context(), p.reference, p.check.CheckID, time.Second))
			p.advance(t, time.Minute)
		},
		act:     (*point).reconcile,
		recover: (*point).reconcileUntilEnded,
		verify:  func(p *point, t *testing.T) { p.verifyOnce(t, inbox.StatusLost) },
	},
	{
		name:     "Reconcile ends a check that was not created",
		onResult: true,
		arrange: func(p *point, t *testing.T) {
			p.plan(t, idverify.ProductPhoneCheck, p.reference)
			p.advance(t, 16*time.Minute)
		},
		act:     (*point).reconcile,
		recover: (*point).reconcileUntilEnded,
		verify:  func(p *point, t *testing.T) { p.verifyOnce(t, inbox.StatusLost) },
	},
	{
		name:    "Reconcile without OnResult",
		arrange: func(p *point, t *testing.T) { p.completeUnnoticed(t); p.advance(t, 3*time.Minute) },
		act:     (*point).reconcile,
		recover: func(p *point, t *testing.T) { p.reconcileUntilEnded(t); p.workUntilDone(t) },
		verify:  (*point).verifyCompleted,
	},
}

// points is a backend whose database can fail.
type points struct {
	*backend

	dialect inbox.Dialect
	faults  *faultyConnector
	stop    atomic.Pointer[context.CancelFunc] // ends Work
	steps   []string                           // of the operation without a fault
}

// point is one run of an operation.
type point struct {
	*points

	reference string
	product   idverify.Product // of the check, with the phone number
	phone     string
	check     *idverify.PhoneCheck
	fn        func(context.Context, *sql.Tx, inbox.Entry) error // the function of Work
	err       error                                             // of act
}

func newPoints(t *testing.T, d database, op operation) *points {
	t.Helper()
	db, connector := openFaulty(t, d)
	s := &points{dialect: d.dialect, faults: connector}
	opts := &inbox.Options{MaxAttempts: op.attempts, Logger: slog.New(stopHandler{s}), Observe: func(_ context.Context, e inbox.Event) {
		if e.Operation == "work" {
			s.stopWork()
		}
	}}
	if op.onResult {
		opts.OnResult = applyEffect
	}
	s.backend = newBackendOn(t, db, d.dialect, opts)
	s.exec(t, "CREATE TABLE sign_ups (reference text NOT NULL)")
	return s
}

// test runs the operation and makes its n-th step fail. It reports whether there was such a step.
func (s *points) test(t *testing.T, op operation, f fault, n int) bool {
	t.Helper()
	p := &point{points: s, reference: fmt.Sprintf("%s %d", f.name, n), product: idverify.ProductPhoneCheck, phone: matching, fn: applyEffect}
	op.arrange(p, t)

	s.faults.arm(n, f)
	p.err = op.act(p, t)
	steps, failed := s.faults.disarm()

	op.recover(p, t)
	op.verify(p, t)
	s.verifyConsistent(t)
	if t.Failed() {
		t.Fatalf("%s, step %d of %v, error %v", f.name, n, steps, p.err)
	}
	if !failed {
		s.steps = nil
		for _, step := range steps {
			s.steps = append(s.steps, step.String())
		}
	}
	return failed
}

// verifyConsistent verifies that no entry waits for something that will not happen.
func (s *points) verifyConsistent(t *testing.T) {
	t.Helper()
	if n := s.number(t, "SELECT count(*) FROM idverify_checks WHERE status IS NULL AND "+
		"(reconcile_at IS NULL OR due_at IS NOT NULL OR done_at IS NOT NULL OR stopped_at IS NOT NULL OR ended_at IS NOT NULL)"); n > 0 {
		t.Errorf("%d entries in progress are inconsistent", n)
	}
	if n := s.number(t, "SELECT count(*) FROM idverify_checks WHERE status IS NOT NULL AND (reconcile_at IS NOT NULL OR ended_at IS NULL OR "+
		"CASE WHEN due_at IS NULL THEN 0 ELSE 1 END + CASE WHEN done_at IS NULL THEN 0 ELSE 1 END + CASE WHEN stopped_at IS NULL THEN 0 ELSE 1 END <> 1)"); n > 0 {
		t.Errorf("%d ended entries are not exactly one of due, done and stopped", n)
	}
}

// stopWork ends the current Work.
func (s *points) stopWork() {
	if cancel := s.stop.Load(); cancel != nil {
		(*cancel)()
	}
}

// stopHandler ends Work when the database has failed, so that a test does not wait for the next
// poll.
type stopHandler struct{ s *points }

func (h stopHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }
func (h stopHandler) WithAttrs([]slog.Attr) slog.Handler           { return h }
func (h stopHandler) WithGroup(string) slog.Handler                { return h }
func (h stopHandler) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "inbox: work" {
		h.s.stopWork()
	}
	return nil
}

// repeat calls f until it returns nil, as a user does after an error.
func (p *point) repeat(t *testing.T, f func(*point, *testing.T) error) {
	t.Helper()
	for range 3 {
		if p.err == nil {
			return
		}
		p.err = f(p, t)
	}
	if p.err != nil {
		t.Fatalf("error without a fault: %v", p.err)
	}
}

func (p *point) migrate(t *testing.T) error { return inbox.Migrate(t.Context(), p.db, p.dialect) }

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
func (p *point) start(t *testing.T) { t.Helper(); p.check = p.backend.start(t, p.phone, p.reference) }

// createUnbound plans and creates a check with a callback.
func (p *point) createUnbound(t *testing.T) {
	t.Helper()
	p.plan(t, p.product, p.reference)
	p.check = p.create(t, p.phone, p.reference)
}

// createWithoutCallback plans and creates a check that the service sends no callback of.
func (p *point) createWithoutCallback(t *testing.T) {
	t.Helper()
	p.plan(t, p.product, p.reference)
	p.check = p.createSilent(t, p.phone, p.reference)
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
	p.check = p.startSilent(t, p.phone, p.reference)
	p.open(t, p.check)
}

// store stores the result of a check for Work.
func (p *point) store(t *testing.T) {
	t.Helper()
	p.completeUnnoticed(t)
	noError(t, p.record(t))
}

// createPlanned calls the create method of the planned product.
func (p *point) createPlanned(t *testing.T) error {
	t.Helper()
	checkID, err := createMethods[p.product](t.Context(), p.inbox, p.client, p.phone, p.reference)
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
	noError(t, p.reconcile(t))
	p.reconcileUntilEnded(t)
}

// findPlanned finds the reference that CreatePhoneCheck has planned, if any, and calls Reconcile
// until its entry has ended.
func (p *point) findPlanned(t *testing.T) {
	t.Helper()
	err := p.db.QueryRowContext(t.Context(), "SELECT reference FROM idverify_checks WHERE status IS NULL").Scan(&p.reference)
	switch {
	case errors.Is(err, sql.ErrNoRows) && p.err != nil:
		return
	case err != nil:
		t.Fatal(err)
	}
	created := p.created(t, p.reference)
	if unknown := errors.Is(p.err, idverify.ErrOutcomeUnknown); p.err != nil && unknown != (created == 1) {
		t.Errorf("error = %v after %d checks, want ErrOutcomeUnknown only after one", p.err, created)
	}
	p.advance(t, 31*time.Second) // the check has not expired yet
	noError(t, p.reconcile(t))
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
	check := must(p.client.PhoneChecks.Get(t.Context(), p.check.CheckID))(t)
	_, err := p.inbox.Record(t.Context(), inbox.ResultOf(check))
	return err
}

func (p *point) retry(t *testing.T) error { return p.inbox.Retry(t.Context(), p.reference) }

func (p *point) purge(t *testing.T) error {
	_, err := p.inbox.Purge(t.Context())
	return err
}

// openCheck opens the Check URL. The service sends the callback once.
func (p *point) openCheck(t *testing.T) error {
	p.open(t, p.check)
	return nil
}

// redeliver makes the service send the callback again, if it was not acknowledged.
func (p *point) redeliver(t *testing.T) { t.Helper(); p.advance(t, 5*time.Minute) }

func (p *point) bindAndRedeliver(t *testing.T) {
	t.Helper()
	noError(t, p.bind(t))
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
		noError(t, p.work(t))
	}
}

// reconcile calls Reconcile once.
func (p *point) reconcile(t *testing.T) error { return p.inbox.Reconcile(t.Context(), p.client) }

// reconcileUntilEnded calls Reconcile at intervals of two minutes, until the entry has ended.
func (p *point) reconcileUntilEnded(t *testing.T) {
	t.Helper()
	for range 20 {
		if p.get(t, p.reference).Status != "" {
			return
		}
		p.advance(t, 2*time.Minute)
		noError(t, p.reconcile(t))
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

func (p *point) verifyCompleted(t *testing.T) { t.Helper(); p.verifyOnce(t, inbox.StatusCompleted) }

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
	if got := p.number(t, "SELECT count(*) FROM effects WHERE reference = $1", p.reference); got != want {
		t.Errorf("the result took effect %d times, want %d", got, want)
	}
}
