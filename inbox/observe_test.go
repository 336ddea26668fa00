package inbox_test

import (
	"context"
	"database/sql"
	"errors"
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
		noError(t, b.inbox.Retry(t.Context(), "sign-up 1"))
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

// TestEvent_LogValue also verifies the names that package otelidverify uses.
func TestEvent_LogValue(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		value slog.LogValuer
		want  string
	}{
		"done": {
			inbox.Event{Operation: "work", Outcome: inbox.OutcomeDone, Product: idverify.ProductSIMCheck, Duration: time.Second, Lag: time.Minute},
			"inbox.operation=work inbox.outcome=done inbox.duration=1s inbox.product=sim_check inbox.lag=1m0s",
		},
		"done at once": {
			inbox.Event{Operation: "work", Outcome: inbox.OutcomeDone, Product: idverify.ProductSIMCheck},
			"inbox.operation=work inbox.outcome=done inbox.duration=0s inbox.product=sim_check inbox.lag=0s",
		},
		"failed": {
			inbox.Event{Operation: "callback", Outcome: inbox.OutcomeFailed, Lag: time.Minute, Err: errors.New(matching)},
			"inbox.operation=callback inbox.outcome=failed inbox.duration=0s",
		},
		"stats": {
			inbox.Stats{Pending: 1, OldestAge: 2 * time.Second, Stopped: 3, InProgress: 4, Overdue: 5},
			"inbox.pending=1 inbox.oldest_age=2s inbox.stopped=3 inbox.in_progress=4 inbox.overdue=5",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log strings.Builder

			slog.New(slog.NewTextHandler(&log, nil)).Info("message", "inbox", test.value)

			_, got, _ := strings.Cut(log.String(), "msg=message ")
			wantEqual(t, test.want+"\n", got, "record")
		})
	}
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

		// The service does not retry after a closed connection.
		wantEqual(t, "500", b.responses(), "responses")
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
