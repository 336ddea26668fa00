package inbox_test

import (
	"context"
	"database/sql"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
)

func TestInbox_Stats(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newWorkBackend(t, d, &inbox.Options{MaxAttempts: 1})
		b.wantStats(t, inbox.Stats{})
		b.result(t, "done")
		b.workOnce(t, insertEffect)
		b.result(t, "stopped")
		b.workOnce(t, func(context.Context, *sql.Tx, inbox.Entry) error { return errEffect })
		b.result(t, "pending 1")
		b.plan(t, idverify.ProductPhoneCheck, "overdue")
		b.advance(t, 30*time.Second)
		b.result(t, "pending 2")
		b.plan(t, idverify.ProductSIMCheck, "in progress")

		b.wantStats(t, inbox.Stats{Pending: 2, OldestAge: 30 * time.Second, Stopped: 1, InProgress: 2, Overdue: 1})
	})
}

func TestInbox_Events(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newWorkBackend(t, d, &inbox.Options{MaxAttempts: 2})
		b.result(t, "sign-up 1")
		b.advance(t, time.Second)
		fail := func(context.Context, *sql.Tx, inbox.Entry) error {
			b.advance(t, 2*time.Second)
			return errEffect
		}

		b.workOnce(t, fail)
		b.advance(t, time.Second)
		b.workOnce(t, fail)
		if err := b.inbox.Retry(t.Context(), "sign-up 1"); err != nil {
			t.Fatal(err)
		}
		b.workOnce(t, insertEffect)

		event := inbox.Event{Operation: "work", Outcome: inbox.OutcomeFailed, Product: idverify.ProductPhoneCheck, Duration: 2 * time.Second, Err: errEffect}
		want := []inbox.Event{event, event, event}
		want[1].Outcome = inbox.OutcomeStopped
		want[2].Outcome, want[2].Duration, want[2].Lag, want[2].Err = inbox.OutcomeDone, 0, 6*time.Second, nil
		if diff := cmp.Diff(want, b.events, cmpopts.EquateErrors()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestInbox_ObserverPanics(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		var log strings.Builder
		b := newBackend(t, d, &inbox.Options{
			Logger:  slog.New(slog.NewTextHandler(&log, nil)),
			Observe: func(context.Context, inbox.Event) { panic(matching) },
		})

		storeResult(t, b.db, b.inbox, "sign-up 1")

		if !strings.Contains(log.String(), "inbox: observer panicked") || strings.Contains(log.String(), matching) {
			t.Errorf("log = %q, want the panic without its value", &log)
		}
	})
}
