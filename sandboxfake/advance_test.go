package sandboxfake_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// clocks contains the options of servers with a running and with a frozen clock.
var clocks = []struct {
	name string
	opts []sandboxfake.Option
}{
	{"running", []sandboxfake.Option{sandboxfake.WithInMemory()}},
	{"frozen", []sandboxfake.Option{sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt)}},
}

// onEachClock runs a test for each kind of clock, in a bubble.
func onEachClock(t *testing.T, test func(*testing.T, *sandboxfake.Server)) {
	t.Helper()
	t.Parallel()
	for _, clock := range clocks {
		t.Run(clock.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, sandboxfake.New(t, clock.opts...)) })
		})
	}
}

// startAdvance calls Advance in a goroutine and returns a channel for its error.
func startAdvance(ctx context.Context, srv *sandboxfake.Server, d time.Duration) <-chan error {
	done := make(chan error, 1)
	go func() { done <- srv.Advance(ctx, d) }()
	return done
}

func TestServer_AdvanceWaitsForDelivery(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		app := newBlockingReceiver()
		newAPI(t, srv).completeCheck(srv.Handle("app.sandbox.test", app))
		<-app.received
		before := srv.Now()

		done := startAdvance(t.Context(), srv, time.Hour)
		synctest.Wait()
		if now := srv.Now(); !now.Equal(before) {
			t.Errorf("clock moved by %v while a delivery was in flight, want no change", now.Sub(before))
		}
		app.respond <- http.StatusNoContent

		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if got := srv.Now().Sub(before); got != time.Hour {
			t.Errorf("Advance moved the clock by %v, want 1h0m0s", got)
		}
	})
}

func TestServer_AdvanceRunsEventsInOrder(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		a := newAPI(t, srv)
		began := srv.Now()
		var mu sync.Mutex // guards the variables below
		var seen []string
		var at []time.Duration
		host := srv.Handle("app.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// Handling takes time of the bubble, but not of the server's clock during Advance.
			early := srv.Now()
			<-time.After(3 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			if late := srv.Now(); !late.Equal(early) {
				t.Errorf("clock moved by %v while the callback was handled, want no change", late.Sub(early))
			}
			seen, at = append(seen, r.URL.Path), append(at, early.Sub(began))
			w.WriteHeader(http.StatusInternalServerError)
		}))
		// Both expire at the same time. Callbacks keep the order of creation.
		for _, name := range []string{"/first", "/second"} {
			a.create(phoneChecks, `{"phone_number":"447700900012","callback_url":"`+host+name+`"}`)
		}

		if err := srv.Advance(t.Context(), 140*time.Second); err != nil {
			t.Fatal(err)
		}

		if diff := cmp.Diff([]string{"/first", "/second", "/first", "/second"}, seen); diff != "" {
			t.Errorf("order of the callbacks (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]time.Duration{120 * time.Second, 120 * time.Second, 130 * time.Second, 130 * time.Second}, at); diff != "" {
			t.Errorf("server's clock at the callbacks (-want +got):\n%s", diff)
		}
		if got := srv.Now().Sub(began); got != 140*time.Second {
			t.Errorf("Advance moved the clock by %v, want 140 s", got)
		}
		for _, d := range srv.Deliveries() {
			if d.Done || len(d.Attempts) != 2 || !d.NextAttempt.Equal(began.Add(150*time.Second)) {
				t.Errorf("delivery: done = %v, %d attempts, next after %v, want a third one at 150 s", d.Done, len(d.Attempts), d.NextAttempt.Sub(began))
			}
		}
	})
}

func TestServer_ClockAfterAdvance(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		began := srv.Now()
		if err := srv.Advance(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}

		<-time.After(time.Minute)

		want := time.Hour
		if !began.Equal(frozenAt) {
			want += time.Minute
		}
		if got := srv.Now().Sub(began); got != want {
			t.Errorf("clock moved by %v in an Advance of an hour and one minute, want %v", got, want)
		}
	})
}

func TestServer_CreateDuringAdvance(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		a := newAPI(t, srv)
		began := srv.Now()
		var at []time.Duration
		var host string
		host = srv.Handle("app.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if at = append(at, srv.Now().Sub(began)); len(at) == 1 {
				a.completeCheck(host)                                                                      // sends its callback immediately
				a.create(phoneChecks, `{"phone_number":"447700900012","callback_url":"`+host+`/expired"}`) // expires during the Advance
			}
		}))
		a.create(phoneChecks, `{"phone_number":"447700900012","callback_url":"`+host+`"}`)

		if err := srv.Advance(t.Context(), 240*time.Second); err != nil {
			t.Fatal(err)
		}

		if diff := cmp.Diff([]time.Duration{120 * time.Second, 120 * time.Second, 240 * time.Second}, at); diff != "" {
			t.Errorf("times of the callbacks (-want +got):\n%s", diff)
		}
	})
}

func TestServer_ConcurrentAdvance(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		app := newBlockingReceiver()
		newAPI(t, srv).completeCheck(srv.Handle("app.sandbox.test", app))
		<-app.received
		began := srv.Now()

		one, other := startAdvance(t.Context(), srv, time.Minute), startAdvance(t.Context(), srv, time.Hour)
		app.respond <- http.StatusNoContent

		if err := errors.Join(<-one, <-other); err != nil {
			t.Fatal(err)
		}
		if got := srv.Now().Sub(began); got != time.Hour+time.Minute {
			t.Errorf("clock moved by %v, want the sum of both", got)
		}
	})
}

func TestServer_AdvanceRejectsArguments(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		began := srv.Now()

		if err := srv.Advance(t.Context(), -1); err == nil {
			t.Error("Advance accepts a negative duration, want an error")
		}
		if err := srv.Advance(t.Context(), 0); err != nil {
			t.Errorf("Advance by 0 = %v, want nil", err)
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		if err := srv.Advance(canceled, time.Minute); !errors.Is(err, context.Canceled) {
			t.Errorf("Advance with a canceled context = %v, want context.Canceled", err)
		}

		if now := srv.Now(); !now.Equal(began) {
			t.Errorf("clock moved by %v, want no change", now.Sub(began))
		}
	})
}

// Advance is interrupted while the callback of an expired check is in flight.
func TestServer_AdvanceInterrupted(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		end  func(srv *sandboxfake.Server, cancel func())
		want error
		at   time.Duration // of the clock afterwards, relative to its start
	}{
		{"context canceled", func(_ *sandboxfake.Server, cancel func()) { cancel() }, context.Canceled, 120 * time.Second},
		{"Reset", func(srv *sandboxfake.Server, _ func()) { srv.Reset() }, sandboxfake.ErrReset, 0},
		{"Close", func(srv *sandboxfake.Server, _ func()) { srv.Close() }, sandboxfake.ErrClosed, 120 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
				app := newBlockingReceiver()
				host := srv.Handle("app.sandbox.test", app)
				newAPI(t, srv).create(phoneChecks, `{"phone_number":"447700900012","callback_url":"`+host+`"}`)
				began := srv.Now()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := startAdvance(ctx, srv, time.Hour)
				<-app.received

				row.end(srv, cancel)

				if err := <-done; !errors.Is(err, row.want) {
					t.Errorf("Advance returned %v, want %v", err, row.want)
				}
				if got := srv.Now().Sub(began); got != row.at {
					t.Errorf("clock moved by %v, want %v", got, row.at)
				}
				if row.want != context.Canceled {
					return
				}
				app.respond <- http.StatusNoContent
				if err := srv.Advance(t.Context(), time.Second); err != nil {
					t.Errorf("next Advance = %v, want nil", err)
				}
			})
		})
	}
}

func TestServer_IdleIgnoresRetries(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		app := newBlockingReceiver()
		newAPI(t, srv).completeCheck(srv.Handle("app.sandbox.test", app))
		<-app.received
		began := srv.Now()
		done := make(chan error, 1)
		go func() { done <- srv.Idle(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("Idle returned %v while a delivery was in flight", err)
		default:
		}

		app.respond <- http.StatusServiceUnavailable

		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if d := srv.Deliveries()[0]; d.Done || len(d.Attempts) != 1 || !d.NextAttempt.Equal(began.Add(10*time.Second)) {
			t.Errorf("after Idle: %d attempts, done = %v, want 1 and a retry in 10 s", len(d.Attempts), d.Done)
		}
	})
}

func TestServer_IdleWaitsForExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := sandboxfake.New(t, sandboxfake.WithInMemory())
		a := newAPI(t, srv)
		// The test and the expiry wake at the same time. In 25 rounds each of them is sometimes first.
		for range 25 {
			woken := time.After(2 * time.Minute)
			id := a.create(phoneChecks, `{"phone_number":"447700900012"}`)

			<-woken
			if err := srv.Idle(t.Context()); err != nil {
				t.Fatal(err)
			}

			a.get(phoneChecks+"/"+id).wantProblem(t, 404, "check_not_found")
		}
	})
}

func TestServer_RunningClockExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := sandboxfake.New(t, sandboxfake.WithInMemory())
		a := newAPI(t, srv)
		var receiver recordingReceiver
		host := srv.Handle("app.sandbox.test", &receiver)
		a.create(phoneChecks, `{"phone_number":"447700900012","callback_url":"`+host+`"}`)
		// Time added by Advance counts for the expiry.
		if err := srv.Advance(t.Context(), 100*time.Second); err != nil {
			t.Fatal(err)
		}
		began := time.Now()

		delivery, err := srv.AwaitDelivery(t.Context(), sandboxfake.Delivery.Acknowledged)

		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited != 20*time.Second || delivery.Status != "EXPIRED" {
			t.Errorf("callback after %v with status %s, want EXPIRED after the remaining 20 s", waited, delivery.Status)
		}
	})
}

func TestServer_ResetAndCloseEndWaits(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		end  func(*sandboxfake.Server)
		want error
	}{
		{"Reset", (*sandboxfake.Server).Reset, sandboxfake.ErrReset},
		{"Close", func(srv *sandboxfake.Server) { srv.Close() }, sandboxfake.ErrClosed},
	} {
		t.Run(row.name, func(t *testing.T) {
			onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
				app := newBlockingReceiver()
				newAPI(t, srv).completeCheck(srv.Handle("app.sandbox.test", app))
				<-app.received
				idle, delivered := make(chan error, 1), make(chan error, 1)
				go func() { idle <- srv.Idle(t.Context()) }()
				go func() {
					_, err := srv.AwaitDelivery(t.Context(), sandboxfake.Delivery.Acknowledged)
					delivered <- err
				}()
				synctest.Wait()

				row.end(srv)

				if err := <-idle; !errors.Is(err, row.want) {
					t.Errorf("Idle returned %v, want %v", err, row.want)
				}
				if err := <-delivered; !errors.Is(err, row.want) {
					t.Errorf("AwaitDelivery returned %v, want %v", err, row.want)
				}
			})
		})
	}
}

func TestServer_MethodsAfterClose(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	srv.Close()
	srv.Close()
	srv.Reset()

	_, awaited := srv.AwaitDelivery(t.Context(), sandboxfake.Delivery.Acknowledged)
	for name, err := range map[string]error{
		"Advance":       srv.Advance(t.Context(), time.Second),
		"Idle":          srv.Idle(t.Context()),
		"Redeliver":     srv.Redeliver(t.Context(), "any"),
		"AwaitDelivery": awaited,
	} {
		if !errors.Is(err, sandboxfake.ErrClosed) {
			t.Errorf("%s returned %v, want ErrClosed", name, err)
		}
	}
}
