package inbox_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
)

func TestInbox_PlanInTransaction(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		b.exec(t, "CREATE TABLE sign_ups (reference text)")
		signUp := func(reference string, commit bool) {
			tx, err := b.db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO sign_ups VALUES ($1)", reference); err != nil {
				t.Fatal(err)
			}
			if err := b.inbox.Plan(t.Context(), tx, idverify.ProductSubscriberCheck, reference); err != nil {
				t.Fatal(err)
			}
			if commit {
				if err := tx.Commit(); err != nil {
					t.Fatal(err)
				}
			}
		}

		signUp("kept", true)
		signUp("rolled back", false)

		e := b.get(t, "kept")
		if want := (inbox.Entry{Reference: "kept", Product: idverify.ProductSubscriberCheck, PlannedAt: b.service.Now()}); *e != want {
			t.Errorf("entry = %+v, want %+v", *e, want)
		}
		if _, err := b.inbox.Get(t.Context(), "rolled back"); !errors.Is(err, inbox.ErrNotFound) {
			t.Errorf("error = %v, want ErrNotFound: the transaction was rolled back", err)
		}
		if n := b.number(t, "SELECT count(*) FROM sign_ups"); n != 1 {
			t.Errorf("%d sign-ups, want 1", n)
		}
	})
}

func TestInbox_PlanUsedReference(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		b.plan(t, idverify.ProductPhoneCheck, "committed")
		tx, err := b.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()

		committed := b.inbox.Plan(t.Context(), tx, idverify.ProductSIMCheck, "committed")
		first := b.inbox.Plan(t.Context(), tx, idverify.ProductPhoneCheck, "same transaction")
		second := b.inbox.Plan(t.Context(), tx, idverify.ProductPhoneCheck, "same transaction")
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}

		for name, err := range map[string]error{"committed": committed, "same transaction": second} {
			if !errors.Is(err, inbox.ErrReferenceUsed) {
				t.Errorf("%s: error = %v, want ErrReferenceUsed", name, err)
			}
		}
		if first != nil {
			t.Errorf("error = %v after ErrReferenceUsed, want a usable transaction", first)
		}
		if e := b.get(t, "committed"); e.Product != idverify.ProductPhoneCheck {
			t.Errorf("product = %s, want that of the first Plan", e.Product)
		}
		b.get(t, "same transaction")
	})
}

// invalidIDs are references and check IDs that cannot be stored.
var invalidIDs = map[string]string{
	"empty":         "",
	"NUL":           "a\x00b",
	"invalid UTF-8": "a\xffb",
	"too long":      strings.Repeat("x", 1025),
}

func TestInbox_PlanInvalid(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		tx, err := b.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()

		failures := map[string]error{"nil transaction": b.inbox.Plan(t.Context(), nil, idverify.ProductPhoneCheck, "r")}
		for name, reference := range invalidIDs {
			failures[name] = b.inbox.Plan(t.Context(), tx, idverify.ProductPhoneCheck, reference)
		}
		for _, product := range []idverify.Product{"", "reachability", "PHONE_CHECK", "phone_check\x00"} {
			failures[fmt.Sprintf("product %q", product)] = b.inbox.Plan(t.Context(), tx, product, "r")
		}
		longest := b.inbox.Plan(t.Context(), tx, idverify.ProductPhoneCheck, strings.Repeat("ü", 512))
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}

		for name, err := range failures {
			if !errors.Is(err, idverify.ErrBadRequest) {
				t.Errorf("%s: error = %v, want ErrBadRequest", name, err)
			}
		}
		if longest != nil {
			t.Errorf("reference of 1024 bytes: error = %v, want none", longest)
		}
		if n := b.number(t, "SELECT count(*) FROM idverify_checks"); n != 1 {
			t.Errorf("%d entries, want 1", n)
		}
	})
}

func TestInbox_PlanConcurrently(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		const goroutines, references = 1000, 500
		b := newBackend(t, d, nil)
		b.db.SetMaxOpenConns(20)
		var planned, used atomic.Int64

		var all sync.WaitGroup
		for n := range goroutines {
			all.Go(func() {
				tx, err := b.db.BeginTx(t.Context(), nil)
				if err != nil {
					t.Error(err)
					return
				}
				defer tx.Rollback()
				switch err := b.inbox.Plan(t.Context(), tx, idverify.ProductPhoneCheck, fmt.Sprint("reference ", n%references)); {
				case errors.Is(err, inbox.ErrReferenceUsed):
					used.Add(1)
				case err != nil:
					t.Error(err)
				default:
					planned.Add(1)
				}
				if err := tx.Commit(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()

		if planned.Load() != references || used.Load() != goroutines-references {
			t.Errorf("%d planned and %d used, want %d and %d", planned.Load(), used.Load(), references, goroutines-references)
		}
		if n := b.number(t, "SELECT count(*) FROM idverify_checks"); n != references {
			t.Errorf("%d entries, want %d", n, references)
		}
	})
}

func TestInbox_Bind(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		for _, reference := range []string{"bound", "unbound", "unknown", "recorded"} {
			b.plan(t, idverify.ProductPhoneCheck, reference)
		}
		if err := b.inbox.Bind(t.Context(), "bound", "check 1", time.Minute); err != nil {
			t.Fatal(err)
		}
		result := inbox.Result{Product: idverify.ProductPhoneCheck, CheckID: "check 3", ReferenceID: "recorded", Status: idverify.StatusCompleted}
		if _, err := b.inbox.Record(t.Context(), result); err != nil {
			t.Fatal(err)
		}
		b.exec(t, "UPDATE idverify_checks SET status = 'LOST' WHERE reference = 'unknown'")

		for _, test := range []struct {
			name, reference, checkID string
			want                     error
		}{
			{"same check ID", "bound", "check 1", nil},
			{"after Record", "recorded", "check 3", nil},
			{"another check ID", "bound", "check 2", inbox.ErrConflict},
			{"another check ID after Record", "recorded", "check 2", inbox.ErrConflict},
			{"check ID of another entry", "unbound", "check 1", inbox.ErrConflict},
			{"ended without a check ID", "unknown", "check 2", inbox.ErrConflict},
			{"reference not planned", "missing", "check 2", inbox.ErrNotFound},
			{"invalid reference", "a\x00b", "check 2", inbox.ErrNotFound},
			{"empty check ID", "unbound", "", idverify.ErrBadRequest},
			{"check ID with NUL", "unbound", "a\x00b", idverify.ErrBadRequest},
			{"check ID with invalid UTF-8", "unbound", "a\xffb", idverify.ErrBadRequest},
			{"check ID too long", "unbound", strings.Repeat("x", 1025), idverify.ErrBadRequest},
		} {
			err := b.inbox.Bind(t.Context(), test.reference, test.checkID, time.Minute)

			if !errors.Is(err, test.want) {
				t.Errorf("%s: error = %v, want %v", test.name, err, test.want)
			}
		}

		for reference, want := range map[string]string{"bound": "check 1", "unbound": "", "unknown": "", "recorded": "check 3"} {
			if got := b.get(t, reference).CheckID; got != want {
				t.Errorf("check ID of %s = %q, want %q", reference, got, want)
			}
		}
	})
}

func TestInbox_BindAfterReconcile(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		b.plan(t, idverify.ProductPhoneCheck, "created")
		check := b.create(t, "447700900012", "created")
		b.plan(t, idverify.ProductPhoneCheck, "not created")
		advance(t, b.service, 31*time.Second)
		if err := b.inbox.Reconcile(t.Context(), b.client); err != nil {
			t.Fatal(err)
		}
		found := b.get(t, "created")
		advance(t, b.service, 16*time.Minute)
		if err := b.inbox.Reconcile(t.Context(), b.client); err != nil {
			t.Fatal(err)
		}

		created := b.inbox.Bind(t.Context(), "created", check.CheckID, check.TTL)
		late := b.inbox.Bind(t.Context(), "not created", "late check", time.Minute)

		if found.CheckID != check.CheckID || created != nil {
			t.Errorf("check ID = %q, error = %v; want that of Reconcile and no error", found.CheckID, created)
		}
		if !errors.Is(late, inbox.ErrConflict) || b.get(t, "not created").Status != inbox.StatusLost {
			t.Errorf("error = %v, want ErrConflict: the entry has ended as LOST", late)
		}
	})
}

func TestInbox_BindTTL(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		for _, test := range []struct{ ttl, overdue time.Duration }{
			{0, 150 * time.Second},
			{-time.Hour, 150 * time.Second},
			{math.MinInt64, 150 * time.Second},
			{math.MaxInt64, 150 * time.Second},
			{time.Minute, 90 * time.Second},
			{24 * time.Hour, 24*time.Hour + 30*time.Second},
		} {
			b := newBackend(t, d, nil)
			b.plan(t, idverify.ProductPhoneCheck, "r")
			overdue := func() int {
				s, err := b.inbox.Stats(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return s.Overdue
			}

			if err := b.inbox.Bind(t.Context(), "r", "check", test.ttl); err != nil {
				t.Fatal(err)
			}

			advance(t, b.service, test.overdue-time.Microsecond)
			before := overdue()
			advance(t, b.service, time.Microsecond)
			if after := overdue(); before != 0 || after != 1 {
				t.Errorf("ttl %v: overdue before and after %v = %d and %d, want 0 and 1", test.ttl, test.overdue, before, after)
			}
		}
	})
}

func TestInbox_GetInvalid(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)

		for name, reference := range invalidIDs {
			if _, err := b.inbox.Get(t.Context(), reference); !errors.Is(err, inbox.ErrNotFound) {
				t.Errorf("%s: error = %v, want ErrNotFound", name, err)
			}
		}
	})
}

func TestInbox_Discard(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, d, nil)
			b.plan(t, idverify.ProductPhoneCheck, "not created")
			b.start(t, "447700900012", "created")

			if err := b.inbox.Discard(t.Context(), "not created"); err != nil {
				t.Errorf("error = %v, want none", err)
			}

			if _, err := b.inbox.Get(t.Context(), "not created"); !errors.Is(err, inbox.ErrNotFound) {
				t.Errorf("error of Get = %v, want ErrNotFound", err)
			}
			for reference, want := range map[string]error{"not created": inbox.ErrNotFound, "": inbox.ErrNotFound, "a\x00b": inbox.ErrNotFound, "created": inbox.ErrConflict} {
				if err := b.inbox.Discard(t.Context(), reference); !errors.Is(err, want) {
					t.Errorf("Discard(%q) = %v, want %v", reference, err, want)
				}
			}
			if e := b.get(t, "created"); e.CheckID == "" {
				t.Errorf("entry = %+v, want the check", e)
			}
		})
	}
}
