package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
)

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
			if n := p.count(t, "SELECT count(*) - max(version) FROM idverify_schema"); n != 0 {
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
			if n := p.count(t, "SELECT count(*) FROM sign_ups WHERE reference = $1", p.reference); n != 1 {
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
				if n := p.count(t, "SELECT count(*) FROM idverify_checks WHERE reference LIKE $1", kind+" "+p.reference+" %"); n != want {
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
		name:     "CreatePhoneCheck without a check",
		onResult: true,
		arrange: func(p *point, t *testing.T) {
			p.plan(t, p.product, p.reference)
			p.number = "1"
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
			if _, err := p.inbox.Record(t.Context(), completed); err != nil {
				t.Fatal(err)
			}
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
			if err := p.reconcile(t); err != nil {
				t.Fatal(err)
			}
			p.reconcileUntilEnded(t)
		},
		verify: func(p *point, t *testing.T) { p.verifyOnce(t, inbox.StatusLost) },
	},
	{
		name:     "Reconcile postpones a check in progress",
		onResult: true,
		arrange: func(p *point, t *testing.T) {
			p.createWithoutCallback(t)
			if err := p.inbox.Bind(t.Context(), p.reference, p.check.CheckID, time.Second); err != nil {
				t.Fatal(err)
			}
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
