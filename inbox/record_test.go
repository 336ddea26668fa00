package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
)

func TestInbox_RecordComplete(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, &inbox.Options{OnResult: insertEffect})
		b.client = b.service.Client(idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}))
		redirects := make(chan *idverify.Redirect, 1)
		redirectURL := b.service.Handle("app.sandbox.test", idverify.RedirectHandler(b.service.Verifier([]string{"app.sandbox.test"}, nil),
			func(w http.ResponseWriter, _ *http.Request, r *idverify.Redirect) { redirects <- r })) + "/redirect"
		b.plan(t, idverify.ProductPhoneCheck, "r")
		check := must(b.client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{
			PhoneNumber: matching, ReferenceID: "r", CallbackURL: b.callbackURL, RedirectURL: redirectURL,
		}))(t)
		b.bind(t, "r", check)
		b.open(t, check)
		redirect := <-redirects
		completed := must(b.client.PhoneChecks.Complete(t.Context(), redirect.CheckID, redirect.Code))(t)

		recorded, firstErr := b.inbox.Record(t.Context(), inbox.ResultOf(completed))
		noError(t, b.service.WaitIdle(t.Context()))
		again, secondErr := b.inbox.Record(t.Context(), inbox.ResultOf(completed))

		noError(t, errors.Join(firstErr, secondErr))
		// The callback may arrive before Record.
		source := b.get(t, "r").Source
		if recorded != (source == inbox.SourceRecord) || again {
			t.Errorf("stored = %t and %t, source %s; want true only for the call that stored it", recorded, again, source)
		}
		if e := b.get(t, "r"); e.Match != idverify.VerdictYes || b.effects(t) != 1 {
			t.Errorf("entry = %+v with %d effects, want a match with 1", e, b.effects(t))
		}
	})
}

func TestInbox_RecordWait(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, &inbox.Options{OnResult: insertEffect})
		check := b.startSilent(t, "447700900013", "r")
		b.open(t, check)
		completed := must(b.client.PhoneChecks.Wait(t.Context(), check.CheckID))(t)

		first, firstErr := b.inbox.Record(t.Context(), inbox.ResultOf(completed))
		b.plan(t, idverify.ProductPhoneCheck, "unbound")
		again := inbox.ResultOf(completed)
		again.ReferenceID = "unbound" // the entry of the check ID counts
		second, secondErr := b.inbox.Record(t.Context(), again)
		events := b.outcomesOf("record")
		other := inbox.ResultOf(completed)
		other.CheckID = "other"
		_, otherErr := b.inbox.Record(t.Context(), other)

		if !errors.Is(otherErr, inbox.ErrConflict) {
			t.Errorf("other check with the reference of an ended entry: error = %v, want ErrConflict", otherErr)
		}
		if !first || second || firstErr != nil || secondErr != nil {
			t.Errorf("stored = %t and %t, errors = %v and %v; want true, then false", first, second, firstErr, secondErr)
		}
		if e := b.get(t, "r"); e.Match != idverify.VerdictNo || e.Source != inbox.SourceRecord || b.effects(t) != 1 {
			t.Errorf("entry = %+v with %d effects, want no match from Record with 1", e, b.effects(t))
		}
		wantEqual(t, "stored duplicate", events, "outcomes")
	})
}

// A crash between Create and Bind is simulated: Record finds the entry by its reference.
func TestInbox_RecordSIMCheck(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, &inbox.Options{OnResult: insertEffect})
		for reference, number := range map[string]string{"unchanged": "447700900010", "changed": "447700900015", "error": "447700900099"} {
			b.plan(t, idverify.ProductSIMCheck, reference)
			check := must(b.client.SIMChecks.Create(t.Context(), idverify.SIMCheckParams{PhoneNumber: number, ReferenceID: reference}))(t)

			if stored, err := b.inbox.Record(t.Context(), inbox.ResultOf(check)); !stored || err != nil {
				t.Errorf("%s: stored = %t, error = %v; want true", reference, stored, err)
			}

			if e := b.get(t, reference); e.CheckID != check.CheckID || e.Product != idverify.ProductSIMCheck || e.Status != inbox.Status(check.Status) {
				t.Errorf("entry = %+v, want the check ID and status of %s", e, check.CheckID)
			}
			if err := b.inbox.Bind(t.Context(), reference, check.CheckID, check.TTL); err != nil {
				t.Errorf("Bind after Record: %v", err)
			}
		}

		for reference, want := range map[string]idverify.Verdict{"unchanged": idverify.VerdictYes, "changed": idverify.VerdictNo, "error": idverify.VerdictUnknown} {
			if got := b.get(t, reference).NoSIMChange; got != want {
				t.Errorf("SIM of %s unchanged = %s, want %s", reference, got, want)
			}
		}
		b.wantEffects(t, "changed", "error", "unchanged")
	})
}

func TestResultOf(t *testing.T) {
	t.Parallel()
	const completed, yes, no = idverify.StatusCompleted, idverify.VerdictYes, idverify.VerdictNo
	for _, test := range []struct{ got, want inbox.Result }{
		{
			inbox.ResultOf(&idverify.PhoneCheck{CheckID: "c", ReferenceID: "r", Status: completed, Match: yes, NetworkID: "n", ErrorCode: "e", ChargeAmount: "1", ChargeCurrency: "API"}),
			inbox.Result{Product: idverify.ProductPhoneCheck, CheckID: "c", ReferenceID: "r", Status: completed, Match: yes, NetworkID: "n", ErrorCode: "e", ChargeAmount: "1", ChargeCurrency: "API"},
		},
		{
			inbox.ResultOf(&idverify.SIMCheck{CheckID: "c", ReferenceID: "r", Status: completed, NoSIMChange: no, NetworkID: "n", ErrorCode: "e", ChargeAmount: "1", ChargeCurrency: "API"}),
			inbox.Result{Product: idverify.ProductSIMCheck, CheckID: "c", ReferenceID: "r", Status: completed, NoSIMChange: no, NetworkID: "n", ErrorCode: "e", ChargeAmount: "1", ChargeCurrency: "API"},
		},
		{
			inbox.ResultOf(&idverify.SubscriberCheck{CheckID: "c", ReferenceID: "r", Status: completed, Match: yes, NoSIMChange: no, NetworkID: "n", ErrorCode: "e", ChargeAmount: "1", ChargeCurrency: "API"}),
			inbox.Result{Product: idverify.ProductSubscriberCheck, CheckID: "c", ReferenceID: "r", Status: completed, Match: yes, NoSIMChange: no, NetworkID: "n", ErrorCode: "e", ChargeAmount: "1", ChargeCurrency: "API"},
		},
	} {
		wantEqual(t, test.want, test.got, "%s", test.want.Product)
	}
}

func TestInbox_RecordErrors(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, &inbox.Options{OnResult: insertEffect})
		b.planned(t, "bound", "check 1")
		b.plan(t, idverify.ProductPhoneCheck, "unbound")
		const phone, completed = idverify.ProductPhoneCheck, idverify.StatusCompleted
		long := strings.Repeat("x", 1025)

		for _, test := range []struct {
			name   string
			result inbox.Result
			want   error
		}{
			{"not planned", inbox.Result{Product: phone, CheckID: "c", ReferenceID: "r", Status: completed}, inbox.ErrNotFound},
			{"no reference", inbox.Result{Product: phone, CheckID: "c", Status: completed}, inbox.ErrNotFound},
			{"reference with NUL", inbox.Result{Product: phone, CheckID: "c", ReferenceID: "a\x00b", Status: completed}, inbox.ErrNotFound},
			{"reference with invalid UTF-8", inbox.Result{Product: phone, CheckID: "c", ReferenceID: "a\xffb", Status: completed}, inbox.ErrNotFound},
			{"reference too long", inbox.Result{Product: phone, CheckID: "c", ReferenceID: long, Status: completed}, inbox.ErrNotFound},
			{"other product", inbox.Result{Product: idverify.ProductSIMCheck, CheckID: "check 1", Status: completed}, inbox.ErrConflict},
			{"other product by reference", inbox.Result{Product: idverify.ProductSIMCheck, CheckID: "c", ReferenceID: "unbound", Status: completed}, inbox.ErrConflict},
			{"other check ID", inbox.Result{Product: phone, CheckID: "c", ReferenceID: "bound", Status: completed}, inbox.ErrConflict},
			{"nil check", inbox.ResultOf[*idverify.PhoneCheck](nil), idverify.ErrBadRequest},
			{"no product", inbox.Result{CheckID: "check 1", Status: completed}, idverify.ErrBadRequest},
			{"unknown product", inbox.Result{Product: "a\x00b", CheckID: "check 1", Status: completed}, idverify.ErrBadRequest},
			{"pending", inbox.Result{Product: phone, CheckID: "check 1", Status: idverify.StatusPending}, idverify.ErrBadRequest},
			{"unknown status", inbox.Result{Product: phone, CheckID: "check 1", Status: "REVOKED"}, idverify.ErrBadRequest},
			{"StatusLost", inbox.Result{Product: phone, CheckID: "check 1", Status: idverify.CheckStatus(inbox.StatusLost)}, idverify.ErrBadRequest},
			{"no check ID", inbox.Result{Product: phone, ReferenceID: "unbound", Status: completed}, idverify.ErrBadRequest},
			{"check ID with NUL", inbox.Result{Product: phone, CheckID: "a\x00b", ReferenceID: "unbound", Status: completed}, idverify.ErrBadRequest},
			{"check ID too long", inbox.Result{Product: phone, CheckID: long, ReferenceID: "unbound", Status: completed}, idverify.ErrBadRequest},
		} {
			stored, err := b.inbox.Record(t.Context(), test.result)

			if !errors.Is(err, test.want) || stored {
				t.Errorf("%s: stored = %t, error = %v; want %v", test.name, stored, err, test.want)
			}
			if events := b.eventsOf("record"); len(events) != 1 || events[0].Outcome != inbox.OutcomeFailed || events[0].Product != test.result.Product || !errors.Is(events[0].Err, test.want) {
				t.Errorf("%s: events = %+v, want one with outcome failed and %v", test.name, events, test.want)
			}
		}

		if n := b.number(t, "SELECT count(*) FROM idverify_checks WHERE status IS NOT NULL"); n != 0 || b.effects(t) != 0 {
			t.Errorf("%d results and %d effects, want none", n, b.effects(t))
		}
		if e := b.get(t, "unbound"); e.CheckID != "" {
			t.Errorf("check ID = %q, want none", e.CheckID)
		}
	})
}

func TestInbox_RecordRollsBack(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		failure := errors.New("queue is full")
		b := newBackend(t, d, &inbox.Options{OnResult: func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
			if err := insertEffect(ctx, tx, e); err != nil {
				return err
			}
			return failure
		}})
		b.plan(t, idverify.ProductPhoneCheck, "r")

		stored, err := b.inbox.Record(t.Context(), inbox.Result{Product: idverify.ProductPhoneCheck, CheckID: "check", ReferenceID: "r", Status: idverify.StatusCompleted})

		if !errors.Is(err, failure) || stored {
			t.Errorf("stored = %t, error = %v; want that of OnResult", stored, err)
		}
		if e := b.get(t, "r"); e.CheckID != "" || e.Status != "" || b.effects(t) != 0 {
			t.Errorf("entry = %+v with %d effects, want a rollback", e, b.effects(t))
		}
	})
}

func TestInbox_RecordConcurrently(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, &inbox.Options{OnResult: insertEffect})
		b.db.SetMaxOpenConns(20)
		b.plan(t, idverify.ProductPhoneCheck, "r")
		var stored atomic.Int64

		var all sync.WaitGroup
		for range 40 {
			all.Go(func() {
				// The entry has no check ID: the calls also bind concurrently.
				first, err := b.inbox.Record(t.Context(), inbox.Result{Product: idverify.ProductPhoneCheck, CheckID: "check", ReferenceID: "r", Status: idverify.StatusCompleted})
				if err != nil {
					t.Error(err)
				}
				if first {
					stored.Add(1)
				}
			})
			all.Go(func() {
				if err := b.inbox.Bind(t.Context(), "r", "check", 0); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()

		if stored.Load() != 1 || b.effects(t) != 1 {
			t.Errorf("%d calls stored the result, with %d effects; want 1 and 1", stored.Load(), b.effects(t))
		}
	})
}

// Everything that can learn a check ID or a result runs at the same time.
func TestInbox_ConcurrentSources(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		const checks = 30
		b := newBackend(t, d, &inbox.Options{OnResult: insertEffect})
		b.db.SetMaxOpenConns(20)
		created := make(map[string]*idverify.PhoneCheck)
		for n := range checks {
			reference := fmt.Sprint("sign-up ", n)
			b.plan(t, idverify.ProductPhoneCheck, reference)
			created[reference] = b.create(t, matching, reference)
		}
		b.advance(t, 31*time.Second) // Reconcile searches for the checks

		var all sync.WaitGroup
		for reference, check := range created {
			all.Go(func() {
				if err := b.inbox.Bind(t.Context(), reference, check.CheckID, check.TTL); err != nil {
					t.Errorf("Bind: %v", err)
				}
			})
			all.Go(func() {
				if _, err := b.service.Device().Open(t.Context(), check.CheckURL); err != nil { // causes a callback
					t.Error(err)
				}
				completed, err := b.client.PhoneChecks.Get(t.Context(), check.CheckID)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := b.inbox.Record(t.Context(), inbox.ResultOf(completed)); err != nil {
					t.Errorf("Record: %v", err)
				}
			})
		}
		for range 4 {
			all.Go(func() {
				if err := b.inbox.Reconcile(t.Context(), b.client); err != nil {
					t.Errorf("Reconcile: %v", err)
				}
			})
		}
		all.Wait()
		b.advance(t, 3*time.Minute) // all delivery attempts

		for reference, check := range created {
			if e := b.get(t, reference); e.Match != idverify.VerdictYes || e.CheckID != check.CheckID {
				t.Errorf("entry = %+v, want a match of check %s", e, check.CheckID)
			}
		}
		b.wantEffects(t, slices.Sorted(maps.Keys(created))...)
	}, serializable)
}
