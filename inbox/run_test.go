package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestInbox_Start(t *testing.T) {
	inBubbles(t, func(t *testing.T, d database) {
		service := sandboxfake.New(t, sandboxfake.WithInMemory())
		db := d.open(t)
		events := make(chan inbox.Event, 10)
		checks := newInbox(t, db, d.dialect, &inbox.Options{Observe: func(_ context.Context, e inbox.Event) { events <- e }})
		planTx(t, db, checks, idverify.ProductPhoneCheck, "sign-up 1")
		planned := time.Now()
		called, working := make(chan string, 1), false

		stop := checks.Start(t.Context(), service.Client(), func(ctx context.Context, _ *sql.Tx, e inbox.Entry) error {
			working = true
			called <- e.Reference
			<-ctx.Done()
			time.Sleep(time.Second) // only Work may wait for it
			working = false
			return ctx.Err()
		})
		e, processed := <-events, <-called
		elapsed := time.Since(planned)
		stop()

		if e.Operation != "reconcile" || e.Outcome != inbox.OutcomeLost || elapsed > 16*time.Minute+10*time.Second {
			t.Errorf("event %+v after %s, want the end of the planned check within 16 minutes", e, elapsed)
		}
		if processed != "sign-up 1" || working {
			t.Errorf("processed %q, still working %v; want the planned check, and a stop that waits", processed, working)
		}
		if n, err := checks.Stats(t.Context()); err != nil || n.Pending != 1 {
			t.Errorf("%+v, %v; want the canceled result pending", n, err)
		}
	})
}

// TestInbox_StartIntervals ends the context of Start while Reconcile is in progress.
func TestInbox_StartIntervals(t *testing.T) {
	inBubbles(t, func(t *testing.T, d database) {
		service := sandboxfake.New(t, sandboxfake.WithInMemory())
		db := d.open(t)
		ctx, shutDown := context.WithCancel(t.Context())
		var log strings.Builder
		checks := newInbox(t, db, d.dialect, &inbox.Options{
			Observe: func(_ context.Context, e inbox.Event) {
				if e.Product == idverify.ProductSIMCheck {
					shutDown()
				}
			},
			Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError})),
		})
		for _, reference := range []string{"old", "younger"} {
			storeResult(t, db, checks, reference)
			if found, err := checks.WorkOnce(t.Context(), func(context.Context, *sql.Tx, inbox.Entry) error { return nil }); !found || err != nil {
				t.Fatal(found, err)
			}
			time.Sleep(10 * time.Minute)
		}
		time.Sleep(30*24*time.Hour - 15*time.Minute) // "old" may be deleted now, and "younger" in five minutes
		planTx(t, db, checks, idverify.ProductPhoneCheck, "sign-up 1")
		started := time.Now()

		stop := checks.Start(ctx, service.Client(), nil)
		time.Sleep(59 * time.Minute)
		_, old := checks.Get(t.Context(), "old")
		_, younger := checks.Get(t.Context(), "younger")
		time.Sleep(time.Minute + time.Second)
		_, afterAnHour := checks.Get(t.Context(), "younger")
		planTx(t, db, checks, idverify.ProductSIMCheck, "payout 1")
		planTx(t, db, checks, idverify.ProductSIMCheck, "payout 2")
		<-ctx.Done()
		stop()
		checks.Start(ctx, service.Client(), nil)()

		for _, r := range service.Requests() {
			if r.Operation == "phone_check.list" {
				if after := r.Time.Sub(started); after < 30*time.Second || after >= 35*time.Second {
					t.Errorf("first search after %s, want 30 s: every ten seconds", after)
				}
				break
			}
		}
		if !errors.Is(old, inbox.ErrNotFound) || younger != nil || !errors.Is(afterAnHour, inbox.ErrNotFound) {
			t.Errorf("old entry: %v, younger entry: %v, after an hour: %v; want the old one deleted at once and the other an hour later", old, younger, afterAnHour)
		}
		if log.Len() > 0 {
			t.Errorf("log = %s, want no failure", &log)
		}
	})
}

// Start works without a function. Work and Start reject one that would never be called.
func TestInbox_StartWithOnResult(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		records := make(logRecords, 100)
		b := newBackend(t, d, &inbox.Options{OnResult: insertEffect, Logger: slog.New(slog.NewTextHandler(records, nil))})

		b.inbox.Start(t.Context(), b.client, nil)()
		silent := len(records)
		err := b.inbox.Work(t.Context(), insertEffect)
		stop := b.inbox.Start(t.Context(), b.client, insertEffect)
		record := <-records
		stop()

		if err == nil || !strings.Contains(err.Error(), "OnResult") {
			t.Errorf("error of Work = %v, want one that names OnResult", err)
		}
		if silent != 0 || !strings.Contains(record, `msg="inbox: work"`) || !strings.Contains(record, "OnResult") {
			t.Errorf("%d records without a function, and with one %s; want none and one that names OnResult", silent, record)
		}
	})
}

func TestInbox_Purge(t *testing.T) {
	const old = 1234 // entries, in three batches
	onDatabases(t, func(t *testing.T, d database) {
		for option, retention := range map[time.Duration]time.Duration{24 * time.Hour: 24 * time.Hour, 0: 30 * 24 * time.Hour} {
			b := newBackend(t, d, &inbox.Options{MaxAttempts: 1, Retention: option})
			b.result(t, "stopped")
			b.workOnce(t, failEffect)
			b.result(t, "pending")
			b.plan(t, idverify.ProductPhoneCheck, "in progress")
			b.insertEnded(t, "old", old, "done_at", 0)

			b.advance(t, retention)
			early := must(b.inbox.Purge(t.Context()))(t)
			b.insertEnded(t, "recent", 1, "done_at", 0)
			b.advance(t, time.Microsecond)
			deleted := must(b.inbox.Purge(t.Context()))(t)

			if early != 0 || deleted != old {
				t.Errorf("%d entries deleted within %s and %d after it, want 0 and %d", early, retention, deleted, old)
			}
			if n := b.number(t, "SELECT count(*) FROM idverify_checks"); n != 4 {
				t.Errorf("%d entries are left, want 4", n)
			}
			for _, reference := range []string{"stopped", "pending", "in progress"} {
				b.get(t, reference)
			}
		}
	})
}
