package inbox_test

import (
	"context"
	"database/sql"
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
		b := newBackend(t, d, &inbox.Options{MaxAttempts: 1})
		b.wantStats(t, inbox.Stats{})
		b.result(t, "done")
		b.workOnce(t, insertEffect)
		b.result(t, "stopped")
		b.workOnce(t, failEffect)
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
		b := newBackend(t, d, &inbox.Options{MaxAttempts: 2})
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
		if diff := cmp.Diff(want, b.eventsOf("work"), cmpopts.EquateErrors()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestInbox_ObserverPanics(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, &inbox.Options{
			Observe: func(context.Context, inbox.Event) { panic(matching) },
			OnResult: func(_ context.Context, _ *sql.Tx, e inbox.Entry) error {
				if e.Reference == "failing" {
					return errEffect
				}
				return nil
			},
		})

		b.result(t, "sign-up 1")
		b.open(t, b.start(t, matching, "failing"))

		if got := b.responses(); got != "500" {
			t.Errorf("responses = %s, want 500: the service does not retry after a closed connection", got)
		}
		log := b.logged()
		for _, operation := range []string{"record", "callback"} {
			if want := `level=ERROR msg="inbox: observer panicked" operation=` + operation + " type=string\n"; !strings.Contains(log, want) {
				t.Errorf("log = %s, want %s", log, want)
			}
		}
		if strings.Contains(log, matching) {
			t.Errorf("log = %s, want it without the value of the panic", log)
		}
	})
}
