package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/sandboxfake"
)

// A planned check that was never created must not cost many searches.
func TestInbox_ReconcileSearchesLessOften(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			b := newWorkBackend(t, d, nil)
			b.plan(t, idverify.ProductPhoneCheck, "sign-up 1")

			for range 16 * 6 {
				b.advance(t, 10*time.Second)
				b.reconcile(t)
			}

			if n := b.count("phone_check.list"); n != 6 {
				t.Errorf("%d searches, want 6: after 30 s, 1½, 3, 6 and 12 minutes, and at the end", n)
			}
			if e := b.get(t, "sign-up 1"); e.Status != inbox.StatusLost {
				t.Errorf("status = %q, want LOST", e.Status)
			}
		})
	}
}

// A backlog of one product that exceeds the rate limit must not keep the others waiting.
func TestInbox_ReconcileOldestProductFirst(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			b := newWorkBackend(t, d, nil)
			b.plan(t, idverify.ProductSubscriberCheck, "sign-up 1")
			checkID := b.createAny(t, idverify.ProductSubscriberCheck, "sign-up 1")
			b.advance(t, time.Second)
			b.plan(t, idverify.ProductPhoneCheck, "sign-in 1")
			b.service.Inject(sandboxfake.Match{Operation: "phone_check.list", Repeat: true}, sandboxfake.Fault{Status: http.StatusTooManyRequests})
			b.advance(t, time.Minute)

			err := b.inbox.Reconcile(t.Context(), b.client)

			if !errors.Is(err, idverify.ErrRateLimited) {
				t.Errorf("error = %v, want ErrRateLimited", err)
			}
			if e := b.get(t, "sign-up 1"); e.CheckID != checkID {
				t.Errorf("entry = %+v, want the check that waits longest to be found", e)
			}
		})
	}
}

// Entries whose result your function rejects must not delay the others.
func TestInbox_ReconcilePoison(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			b := newWorkBackend(t, d, &inbox.Options{OnResult: func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
				if strings.HasPrefix(e.Reference, "poison") {
					return errors.New("invalid customer record")
				}
				return insertEffect(ctx, tx, e)
			}})
			for n := range 5 {
				b.open(t, b.startSilent(t, matching, fmt.Sprint("poison ", n)))
			}
			b.open(t, b.startSilent(t, matching, "sign-up 1"))
			b.advance(t, time.Hour)

			err := b.inbox.Reconcile(t.Context(), b.client)

			if err == nil || !strings.Contains(err.Error(), "invalid customer record") {
				t.Errorf("error = %v, want that of OnResult", err)
			}
			b.wantEffects(t, "sign-up 1")
			before := b.count("phone_check.get")
			b.advance(t, 9*time.Minute)
			b.reconcile(t)
			if n := b.count("phone_check.get") - before; n != 0 {
				t.Errorf("%d reads within ten minutes of a failure, want none", n)
			}
		})
	}
}
