// Package failing_test contains tests that fail, for the tests of timelines.
package failing_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// create creates a check of the server.
func create(t testing.TB, srv *sandboxfake.Server, callbackURL string) *idverify.PhoneCheck {
	t.Helper()
	check, err := srv.Client().PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012", CallbackURL: callbackURL})
	if err != nil {
		t.Fatal(err)
	}
	return check
}

// TestAcknowledged is the example of docs/testing.md.
func TestAcknowledged(t *testing.T) {
	srv := sandboxfake.New(t, sandboxfake.WithFrozenClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
	url := srv.Handle("shop.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	srv.Inject(sandboxfake.Match{Operation: "phone_check.get"}, sandboxfake.Fault{Status: http.StatusBadGateway})
	check := create(t, srv, url+"/callbacks")
	if _, err := srv.Device().Open(t.Context(), check.CheckURL); err != nil {
		t.Fatal(err)
	}
	if err := srv.WaitIdle(t.Context()); err != nil { // the first attempt has ended
		t.Fatal(err)
	}
	if err := srv.Advance(t.Context(), 15*time.Second); err != nil {
		t.Fatal(err)
	}

	if d := srv.Deliveries()[0]; !d.Acknowledged() {
		t.Errorf("the callback is not acknowledged after %d attempts", len(d.Attempts))
	}
}

func TestParent(t *testing.T) {
	srv := sandboxfake.New(t)
	t.Run("child", func(t *testing.T) {
		create(t, srv, "")
		t.Error("failed")
	})
}

func TestParallel(t *testing.T) {
	for _, name := range []string{"first", "second"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			create(t, sandboxfake.New(t, sandboxfake.WithInMemory()), "")
			if name == "first" {
				t.Error("failed")
			}
		})
	}
}

func TestClosed(t *testing.T) {
	srv := sandboxfake.New(t)
	create(t, srv, "")
	srv.Close()
	t.Error("failed")
}

func TestReset(t *testing.T) {
	srv := sandboxfake.New(t)
	create(t, srv, "")
	srv.RotateKeys()
	srv.Reset()
	create(t, srv, "")
	t.Error("failed")
}

func TestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := sandboxfake.New(t, sandboxfake.WithInMemory())
		create(t, srv, "")
		time.Sleep(3 * time.Second)
		create(t, srv, "")
		t.Error("failed")
	})
}

// TestFailNow ends while the mutex of the service is locked.
func TestFailNow(t *testing.T) {
	srv := sandboxfake.New(t)
	// The receiver does not respond, so the attempt is in flight when the test ends.
	url := srv.Handle("shop.sandbox.test", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	check := create(t, srv, url)
	if _, err := srv.Device().Open(t.Context(), check.CheckURL); err != nil {
		t.Fatal(err)
	}
	_, err := srv.WaitDelivery(t.Context(), func(sandboxfake.Delivery) bool {
		t.FailNow()
		return true
	})
	t.Errorf("WaitDelivery returned %v, want FailNow to end the test", err)
}

func TestTwoServers(t *testing.T) {
	create(t, sandboxfake.New(t), "")
	create(t, sandboxfake.New(t), "")
	t.Error("failed")
}

func TestUnused(t *testing.T) {
	sandboxfake.New(t)
	t.Error("failed")
}

func TestWithout(t *testing.T) {
	create(t, sandboxfake.New(t, sandboxfake.WithoutTimeline()), "")
	t.Error("failed")
}

func TestPasses(t *testing.T) {
	create(t, sandboxfake.New(t), "")
}

func BenchmarkFails(b *testing.B) {
	create(b, sandboxfake.New(b), "")
	b.Error("failed")
}

func FuzzFails(f *testing.F) {
	srv := sandboxfake.New(f)
	f.Add(1)
	f.Fuzz(func(t *testing.T, _ int) {
		create(t, srv, "")
		t.Error("failed")
	})
}

// TestPanic is not part of the other runs, because it ends the process.
func TestPanic(t *testing.T) {
	create(t, sandboxfake.New(t), "")
	panic("failed")
}
