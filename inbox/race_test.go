package inbox_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
)

// Everything that can learn a check ID or a result runs at the same time.
func TestInbox_ConcurrentSources(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		const checks = 30
		i := newIntake(t, d, addEffect)
		i.db.SetMaxOpenConns(20)
		created := make([]*idverify.PhoneCheck, checks)
		for n := range checks {
			reference := fmt.Sprint("sign-up ", n)
			i.plan(t, idverify.ProductPhoneCheck, reference)
			created[n] = i.create(t, "447700900012", reference)
		}
		advance(t, i.service, 31*time.Second) // Reconcile searches for the checks

		var all sync.WaitGroup
		for n, check := range created {
			reference := fmt.Sprint("sign-up ", n)
			all.Go(func() {
				if err := i.inbox.Bind(t.Context(), reference, check.CheckID, check.TTL); err != nil {
					t.Errorf("Bind: %v", err)
				}
			})
			all.Go(func() {
				if _, err := i.service.Device().Open(t.Context(), check.CheckURL); err != nil { // causes a callback
					t.Error(err)
				}
				completed, err := i.client.PhoneChecks.Get(t.Context(), check.CheckID)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := i.inbox.Record(t.Context(), inbox.ResultOf(completed)); err != nil {
					t.Errorf("Record: %v", err)
				}
			})
		}
		for range 4 {
			all.Go(func() {
				if err := i.inbox.Reconcile(t.Context(), i.client); err != nil {
					t.Errorf("Reconcile: %v", err)
				}
			})
		}
		all.Wait()
		advance(t, i.service, 3*time.Minute) // all delivery attempts

		for n, check := range created {
			if e := i.get(t, fmt.Sprint("sign-up ", n)); e.Match != idverify.VerdictYes || e.CheckID != check.CheckID {
				t.Errorf("entry = %+v, want a match of check %s", e, check.CheckID)
			}
		}
		if n := i.effects(t); n != checks {
			t.Errorf("%d effects, want %d", n, checks)
		}
		if n := i.number(t, "SELECT count(DISTINCT check_id) FROM effects"); n != checks {
			t.Errorf("effects of %d checks, want %d", n, checks)
		}
	}, serializable)
}

// Two entries cannot get the same check ID, not even at the same time.
func TestInbox_BindOneEntry(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		const entries = 20
		b := newBackend(t, d, nil)
		b.db.SetMaxOpenConns(20)
		for n := range entries {
			b.plan(t, idverify.ProductPhoneCheck, fmt.Sprint(n))
		}
		bound := make([]error, entries)

		var all sync.WaitGroup
		for n := range entries {
			all.Go(func() { bound[n] = b.inbox.Bind(t.Context(), fmt.Sprint(n), "check", 0) })
		}
		all.Wait()

		successes := 0
		for n, err := range bound {
			if err == nil {
				successes++
			}
			if err := b.inbox.Bind(t.Context(), fmt.Sprint(n), "check", 0); bound[n] != nil && !errors.Is(err, inbox.ErrConflict) {
				t.Errorf("error of a later Bind = %v, want ErrConflict", err)
			}
		}
		if n := b.number(t, "SELECT count(*) FROM idverify_checks WHERE check_id = 'check'"); successes != 1 || n != 1 {
			t.Errorf("%d calls of Bind and %d entries have the check ID, want 1", successes, n)
		}
	})
}
