package sandboxfake_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestServer_AwaitDelivery(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		a := newAPI(t, srv)
		app := newBlockingReceiver()
		host := srv.Handle("app.sandbox.test", app)
		type change struct {
			attempts      int
			waits, isDone bool
		}
		var seen []change
		var found sandboxfake.Delivery
		awaited := make(chan error, 1)
		go func() {
			var err error
			found, err = srv.AwaitDelivery(t.Context(), func(d sandboxfake.Delivery) bool {
				if now := (change{len(d.Attempts), !d.NextAttempt.IsZero(), d.Done}); len(seen) == 0 || seen[len(seen)-1] != now {
					seen = append(seen, now)
				}
				return d.Done
			})
			awaited <- err
		}()
		a.completeCheck(host)
		synctest.Wait()
		app.respond <- http.StatusServiceUnavailable
		synctest.Wait()
		advanced := startAdvance(t.Context(), srv, 10*time.Second)
		synctest.Wait()
		app.respond <- http.StatusNoContent

		if err := errors.Join(<-awaited, <-advanced); err != nil {
			t.Fatal(err)
		}
		want := []change{{0, false, false}, {1, true, false}, {1, false, false}, {2, false, true}}
		if diff := cmp.Diff(want, seen, cmp.AllowUnexported(change{})); diff != "" {
			t.Errorf("states of the delivery (-want +got):\n%s", diff)
		}
		past, err := srv.AwaitDelivery(t.Context(), sandboxfake.Delivery.Acknowledged)
		if err != nil || past.ID != found.ID {
			t.Errorf("AwaitDelivery of a past delivery = %q, %v, want the same delivery", past.ID, err)
		}
	})
}

func TestServer_AwaitDeliveryCanceled(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	_, err := srv.AwaitDelivery(ctx, func(sandboxfake.Delivery) bool { return false })

	if !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want context.Canceled", err)
	}
}

func TestServer_AwaitDeliveryLastAttempt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		receive http.HandlerFunc // nil: no check
		want    string
	}{
		{"no callback", nil, "no match among 0 callbacks (check that the check or its project has a callback URL)"},
		{"rejected", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }, "no match among 1 callbacks (last attempt: rejected, status 400)"},
		{"unreachable", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "no match among 1 callbacks (last attempt: unreachable, no response)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := sandboxfake.New(t, sandboxfake.WithInMemory())
			if tt.receive != nil {
				newAPI(t, srv).completeCheck(srv.Handle("app.sandbox.test", tt.receive))
			}
			if err := srv.Idle(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()

			_, err := srv.AwaitDelivery(ctx, sandboxfake.Delivery.Acknowledged)

			if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want context.Canceled with %q", err, tt.want)
			}
		})
	}
}

func TestServer_AwaitDeliveryInFlight(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	app := newBlockingReceiver()
	newAPI(t, srv).completeCheck(srv.Handle("app.sandbox.test", app))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	_, err := srv.AwaitDelivery(ctx, sandboxfake.Delivery.Acknowledged)
	app.respond <- http.StatusNoContent

	if want := "no match among 1 callbacks (no attempt has ended)"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error = %v, want %q", err, want)
	}
}

func TestServer_Redeliver(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	a := newAPI(t, srv)
	var receiver recordingReceiver
	a.completeCheck(srv.Handle("app.sandbox.test", &receiver))
	if err := srv.Advance(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	first := srv.Deliveries()[0]

	if err := srv.Redeliver(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	again, err := srv.AwaitDelivery(t.Context(), func(d sandboxfake.Delivery) bool { return d.ID != first.ID && d.Done })

	if err != nil {
		t.Fatal(err)
	}
	if !cmp.Equal(again.Body, first.Body) || again.CheckID != first.CheckID || len(again.Attempts) != 1 || receiver.count() != 2 {
		t.Errorf("redelivery = %+v, want the same body in one attempt", again)
	}
	if again.Attempts[0].Header.Get("Authorization") == first.Attempts[0].Header.Get("Authorization") || again.Attempts[0].Header.Get("Date") == first.Attempts[0].Header.Get("Date") {
		t.Error("redelivery has the date or signature of the first delivery: receivers reject it as a replay")
	}
	if cmp.Diff(first, srv.Deliveries()[0]) != "" {
		t.Error("first delivery in the journal changed")
	}
	if err := srv.Redeliver(t.Context(), "unknown"); err == nil {
		t.Error("Redeliver of an unknown delivery succeeded, want an error")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := srv.Redeliver(ended, first.ID); !errors.Is(err, context.Canceled) {
		t.Errorf("Redeliver with a canceled context = %v, want context.Canceled", err)
	}
}
