package sandboxfake_test

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/sandboxfake"
)

func TestACallbackAnsweredWith5XXIsTriedSixTimesOverVirtualMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := sandboxfake.New(t, sandboxfake.WithInMemory())
		a := newAPI(t, srv)
		began := time.Now()
		var at []time.Duration
		var dates []string
		host := srv.Handle("app.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			at = append(at, time.Since(began))
			dates = append(dates, r.Header.Get("Date"))
			w.WriteHeader(http.StatusServiceUnavailable)
		}))

		id := a.create("/phone_check/v0.1/checks", `{"phone_number":"447700900000","callback_url":"`+host+`"}`)
		a.get("/phone_check/v0.1/checks/" + id + "/redirect")
		delivery, err := srv.AwaitDelivery(t.Context(), func(d sandboxfake.Delivery) bool { return d.Done })

		if err != nil {
			t.Fatal(err)
		}
		// Six tries in all, with waits of 10, 20, 30, 40 and 50 s between them.
		want := []time.Duration{0, 10 * time.Second, 30 * time.Second, 60 * time.Second, 100 * time.Second, 150 * time.Second}
		if diff := cmp.Diff(want, at); diff != "" {
			t.Errorf("times of the tries (-want +got):\n%s", diff)
		}
		if slices.Sort(dates); len(slices.Compact(dates)) != len(want) {
			t.Errorf("dates %q, want a fresh one each try", dates)
		}
		if len(delivery.Attempts) != 6 || delivery.Acknowledged() {
			t.Errorf("the journal has %d attempts, acknowledged %v, want 6 and none", len(delivery.Attempts), delivery.Acknowledged())
		}
	})
}

func TestWhatTheReceiverAnswersDecidesAboutAnotherTry(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		status int
		tries  int
		result sandboxfake.Result
	}{
		{"2XX acknowledges", 200, 1, sandboxfake.ResultAcknowledged},
		{"2XX acknowledges", 204, 1, sandboxfake.ResultAcknowledged},
		{"3XX is not tried again, nor followed", 302, 1, sandboxfake.ResultRefused},
		{"4XX is not tried again", 400, 1, sandboxfake.ResultRefused},
		{"4XX is not tried again", 429, 1, sandboxfake.ResultRefused},
		{"5XX is tried six times", 500, 6, sandboxfake.ResultFailed},
		{"5XX is tried six times", 503, 6, sandboxfake.ResultFailed},
		{"a time-out is not tried again", timesOut, 1, sandboxfake.ResultTimedOut},
		{"a connection that breaks is not tried again", breaks, 1, sandboxfake.ResultUnreachable},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				srv := sandboxfake.New(t, sandboxfake.WithInMemory())
				a := newAPI(t, srv)
				var seen atomic.Int32
				host := srv.Handle("app.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					seen.Add(1)
					switch row.status {
					case timesOut:
						<-r.Context().Done()
					case breaks:
						panic(http.ErrAbortHandler)
					default:
						w.Header().Set("Location", "/elsewhere")
						w.WriteHeader(row.status)
					}
				}))

				id := a.create("/phone_check/v0.1/checks", `{"phone_number":"447700900000","callback_url":"`+host+`"}`)
				a.get("/phone_check/v0.1/checks/" + id + "/redirect")
				if err := srv.Advance(t.Context(), time.Hour); err != nil {
					t.Fatal(err)
				}

				delivery := srv.Deliveries()[0]
				if got := int(seen.Load()); got != row.tries || len(delivery.Attempts) != row.tries {
					t.Errorf("the receiver saw %d tries, the journal %d, want %d", got, len(delivery.Attempts), row.tries)
				}
				if last := delivery.Attempts[len(delivery.Attempts)-1]; last.Result != row.result {
					t.Errorf("the last try ended as %q (%s), want %q", last.Result, last.Error, row.result)
				}
				if !delivery.Done {
					t.Error("the delivery is not done")
				}
			})
		})
	}
}

// Ways of a receiver not to answer.
const (
	timesOut = -1
	breaks   = -2
)

func TestACheckThatIsNotOpenedExpiresAtItsTTLAndOnlyTheCallbackShowsIt(t *testing.T) {
	t.Parallel()
	for _, clock := range []struct {
		name string
		opts []sandboxfake.Option
	}{
		{"frozen", []sandboxfake.Option{sandboxfake.WithFrozenClock(frozenAt)}},
		{"running", nil},
		{"in memory", []sandboxfake.Option{sandboxfake.WithInMemory()}},
	} {
		t.Run(clock.name, func(t *testing.T) {
			t.Parallel()
			srv := sandboxfake.New(t, clock.opts...)
			a := newAPI(t, srv)
			var told bodies
			host := srv.Handle("app.sandbox.test", &told)
			path := "/phone_check/v0.1/checks"
			id := a.create(path, `{"phone_number":"447700900000","callback_url":"`+host+`"}`)

			if err := srv.Advance(t.Context(), 110*time.Second); err != nil {
				t.Fatal(err)
			}
			if r := a.get(path + "/" + id); r.json["status"] != "ACCEPTED" {
				t.Errorf("read before its ttl: %d %s, want ACCEPTED", r.status, r.body)
			}
			if err := srv.Advance(t.Context(), 10*time.Second); err != nil {
				t.Fatal(err)
			}

			a.get(path+"/"+id).wantProblem(t, 404, "check_not_found")
			a.get(path+"/"+id+"/redirect").wantProblem(t, 404, "check_not_found")
			if list := a.get(path); list.json["page"].(map[string]any)["total_elements"] != 0.0 {
				t.Errorf("the list still shows it: %s", list.body)
			}
			body := told.last(t)
			if got := outcome(body); got != "EXPIRED - -" || body["check_id"] != id {
				t.Errorf("the callback says %q of %v, want EXPIRED without a match", got, body["check_id"])
			}
		})
	}
}

func TestAwaitDeliveryEndsWithItsContext(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	_, err := srv.AwaitDelivery(ctx, func(sandboxfake.Delivery) bool { return false })

	if err == nil {
		t.Error("want the context's error")
	}
}
