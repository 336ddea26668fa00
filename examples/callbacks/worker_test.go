package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
)

func TestWork_RetriesAfterFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, "first", "second")
		ctx, stop := context.WithCancel(t.Context())
		var worked []string
		attempts := 0

		work(ctx, store, slog.New(slog.DiscardHandler), func(_ context.Context, _ string, c *idverify.Callback) error {
			if attempts++; attempts < 20 {
				return errors.New("database unavailable")
			}
			if worked = append(worked, c.CheckID); len(worked) == 2 {
				stop()
			}
			return nil
		})

		if slices.Sort(worked); !slices.Equal(worked, []string{"first", "second"}) {
			t.Errorf("processed = %v, want each once", worked)
		}
	})
}

func TestWork_FailureDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, "bad", "good", "good too")
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		var worked []string
		bad := 0

		work(ctx, store, slog.New(slog.DiscardHandler), func(_ context.Context, _ string, c *idverify.Callback) error {
			if c.CheckID == "bad" {
				bad++
				return errors.New("invalid customer record")
			}
			worked = append(worked, c.CheckID)
			return nil
		})

		if !slices.Equal(worked, []string{"good", "good too"}) {
			t.Errorf("processed = %v, want the callbacks after the failing one", worked)
		}
		if bad < 60 || bad > 70 {
			t.Errorf("the failing callback was processed %d times in an hour, want about once a minute", bad)
		}
	})
}

func TestWork_WakesForNewCallback(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		worked := make(chan string, 1)
		go work(ctx, store, slog.New(slog.DiscardHandler), func(_ context.Context, customer string, _ *idverify.Callback) error {
			worked <- customer
			return nil
		})
		synctest.Wait()

		addCallback(t, store, "late")
		synctest.Wait()

		select {
		case customer := <-worked:
			if customer != "customer of late" {
				t.Errorf("customer = %q, want the stored one", customer)
			}
		default:
			t.Error("the new callback was not processed")
		}
	})
}

// newStore returns checks with pending callbacks.
func newStore(t *testing.T, ids ...string) *checks {
	t.Helper()
	store := newChecks()
	for _, id := range ids {
		addCallback(t, store, id)
	}
	return store
}

func addCallback(t *testing.T, store *checks, id string) {
	t.Helper()
	if err := store.add(t.Context(), id, idverify.ProductPhoneCheck, "customer of "+id); err != nil {
		t.Fatal(err)
	}
	if _, err := store.put(t.Context(), &idverify.Callback{Product: idverify.ProductPhoneCheck, CheckID: id, Status: idverify.StatusCompleted}); err != nil {
		t.Fatal(err)
	}
}
