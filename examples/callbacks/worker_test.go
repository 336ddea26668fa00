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

func TestWorkThatFailsIsDoneAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours := ended(t, "first", "second")
		ctx, stop := context.WithCancel(t.Context())
		var done []string
		tries := 0

		work(ctx, ours, slog.New(slog.DiscardHandler), func(_ context.Context, _ string, c *idverify.Callback) error {
			if tries++; tries < 20 {
				return errors.New("the database is away")
			}
			if done = append(done, c.CheckID); len(done) == 2 {
				stop()
			}
			return nil
		})

		if slices.Sort(done); !slices.Equal(done, []string{"first", "second"}) {
			t.Errorf("worked off %v, want each once", done)
		}
	})
}

func TestWorkThatFailsForEverHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours := ended(t, "bad", "good", "good too")
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		var done []string
		bad := 0

		work(ctx, ours, slog.New(slog.DiscardHandler), func(_ context.Context, _ string, c *idverify.Callback) error {
			if c.CheckID == "bad" {
				bad++
				return errors.New("the customer's record is broken")
			}
			done = append(done, c.CheckID)
			return nil
		})

		if !slices.Equal(done, []string{"good", "good too"}) {
			t.Errorf("worked off %v, want what is behind the bad one", done)
		}
		if bad < 60 || bad > 70 {
			t.Errorf("the bad one was tried %d times in an hour, want about once a minute", bad)
		}
	})
}

func TestWorkBeginsWhenACallbackArrives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours := ended(t)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		worked := make(chan string, 1)
		go work(ctx, ours, slog.New(slog.DiscardHandler), func(_ context.Context, customer string, _ *idverify.Callback) error {
			worked <- customer
			return nil
		})
		synctest.Wait()

		end(t, ours, "late")
		synctest.Wait()

		select {
		case customer := <-worked:
			if customer != "customer of late" {
				t.Errorf("worked off for %q, want the customer that the check was stored for", customer)
			}
		default:
			t.Error("the worker sleeps on: a verdict waits for nobody")
		}
	})
}

// ended returns checks whose callbacks wait.
func ended(t *testing.T, ids ...string) *checks {
	t.Helper()
	ours := newChecks()
	for _, id := range ids {
		end(t, ours, id)
	}
	return ours
}

func end(t *testing.T, ours *checks, id string) {
	t.Helper()
	if err := ours.add(t.Context(), id, idverify.ProductPhoneCheck, "customer of "+id); err != nil {
		t.Fatal(err)
	}
	if _, err := ours.put(t.Context(), &idverify.Callback{Product: idverify.ProductPhoneCheck, CheckID: id, Status: idverify.StatusCompleted}); err != nil {
		t.Fatal(err)
	}
}
