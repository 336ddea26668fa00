package sandboxfake_test

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestServer_CallbackRetrySchedule(t *testing.T) {
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
		// Six attempts, with waits of 10, 20, 30, 40 and 50 s between them.
		want := []time.Duration{0, 10 * time.Second, 30 * time.Second, 60 * time.Second, 100 * time.Second, 150 * time.Second}
		if diff := cmp.Diff(want, at); diff != "" {
			t.Errorf("times of the attempts (-want +got):\n%s", diff)
		}
		if slices.Sort(dates); len(slices.Compact(dates)) != len(want) {
			t.Errorf("dates = %q, want a different one for each attempt", dates)
		}
		if len(delivery.Attempts) != 6 || delivery.Acknowledged() {
			t.Errorf("journal has %d attempts, acknowledged %v, want 6 and false", len(delivery.Attempts), delivery.Acknowledged())
		}
	})
}

func TestServer_DeliveryReferenceID(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	a := newAPI(t, srv)
	host := srv.Handle("app.sandbox.test", http.NotFoundHandler())
	for _, reference := range []string{`,"reference_id":"order <7>"`, ""} {
		a.open(phoneChecks, a.create(phoneChecks, `{"phone_number":"447700900012","callback_url":"`+host+`"`+reference+`}`))
	}

	if err := srv.Redeliver(t.Context(), srv.Deliveries()[0].ID); err != nil {
		t.Fatal(err)
	}

	var got []string
	for _, d := range srv.Deliveries() {
		got = append(got, d.ReferenceID)
	}
	if diff := cmp.Diff([]string{"order <7>", "", "order <7>"}, got); diff != "" {
		t.Errorf("reference IDs (-want +got):\n%s", diff)
	}
}

func TestServer_CallbackRetryByResponse(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string
		status   int
		attempts int
		result   sandboxfake.AttemptResult
	}{
		{"2XX acknowledges", 200, 1, sandboxfake.ResultAcknowledged},
		{"2XX acknowledges", 204, 1, sandboxfake.ResultAcknowledged},
		{"2XX acknowledges", 299, 1, sandboxfake.ResultAcknowledged},
		{"3XX is not retried or followed", 300, 1, sandboxfake.ResultRejected},
		{"3XX is not retried or followed", 302, 1, sandboxfake.ResultRejected},
		{"3XX is not retried or followed", 399, 1, sandboxfake.ResultRejected},
		{"4XX is not retried", 400, 1, sandboxfake.ResultRejected},
		{"4XX is not retried", 429, 1, sandboxfake.ResultRejected},
		{"4XX is not retried", 499, 1, sandboxfake.ResultRejected},
		{"5XX gets six attempts", 500, 6, sandboxfake.ResultFailed},
		{"5XX gets six attempts", 503, 6, sandboxfake.ResultFailed},
		{"5XX gets six attempts", 599, 6, sandboxfake.ResultFailed},
		{"other status is not retried", 600, 1, sandboxfake.ResultRejected},
		{"timeout is not retried", timesOut, 1, sandboxfake.ResultTimedOut},
		{"lost connection is not retried", breaks, 1, sandboxfake.ResultUnreachable},
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
				if got := int(seen.Load()); got != row.attempts || len(delivery.Attempts) != row.attempts {
					t.Errorf("receiver got %d attempts, journal has %d, want %d", got, len(delivery.Attempts), row.attempts)
				}
				if last := delivery.Attempts[len(delivery.Attempts)-1]; last.Result != row.result {
					t.Errorf("result of the last attempt = %q (%s), want %q", last.Result, last.Error, row.result)
				}
				if !delivery.Done {
					t.Error("delivery is not done")
				}
				if delivery.ProjectID == "" || delivery.ProjectID != srv.Requests()[0].ProjectID {
					t.Errorf("delivery has project %q, want the project of the check", delivery.ProjectID)
				}
				want := map[int]string{timesOut: "no response within 10s", breaks: "closed by the receiver before the response"}[row.status]
				if last := delivery.Attempts[len(delivery.Attempts)-1]; (want == "") != (last.Error == "") || !strings.Contains(last.Error, want) {
					t.Errorf("error of the last attempt = %q, want it to contain %q", last.Error, want)
				}
			})
		})
	}
}

// Receivers that do not respond.
const (
	timesOut = -1
	breaks   = -2
)

func TestServer_UnopenedCheckExpires(t *testing.T) {
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
			var receiver recordingReceiver
			host := srv.Handle("app.sandbox.test", &receiver)
			path := "/phone_check/v0.1/checks"
			id := a.create(path, `{"phone_number":"447700900000","callback_url":"`+host+`"}`)

			if err := srv.Advance(t.Context(), 110*time.Second); err != nil {
				t.Fatal(err)
			}
			if r := a.get(path + "/" + id); r.json["status"] != "ACCEPTED" {
				t.Errorf("read before the TTL: %d %s, want ACCEPTED", r.status, r.body)
			}
			if err := srv.Advance(t.Context(), 10*time.Second); err != nil {
				t.Fatal(err)
			}

			a.get(path+"/"+id).wantProblem(t, 404, "check_not_found")
			a.get(path+"/"+id+"/redirect").wantProblem(t, 404, "check_not_found")
			if list := a.get(path); list.json["page"].(map[string]any)["total_elements"] != 0.0 {
				t.Errorf("list contains the expired check: %s", list.body)
			}
			body := receiver.last(t)
			if got := outcome(body); got != "EXPIRED - -" || body["check_id"] != id {
				t.Errorf("callback = %q for check %v, want EXPIRED without match", got, body["check_id"])
			}
		})
	}
}

func TestServer_DeliveriesDoNotBlockCalls(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		a := newAPI(t, srv)
		app := newBlockingReceiver()
		host := srv.Handle("app.sandbox.test", app)
		began := time.Now()
		// More than the limit of concurrent deliveries.
		for range 100 {
			a.completeCheck(host)
		}

		if waited := time.Since(began); waited != 0 {
			t.Errorf("requests took %v with a receiver that does not respond, want no wait", waited)
		}
		synctest.Wait()
		if n := len(app.received); n != 64 {
			t.Errorf("%d callbacks in flight, want 64", n)
		}
		for range 100 {
			app.respond <- http.StatusNoContent
		}
		if err := srv.Idle(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, d := range srv.Deliveries() {
			if !d.Acknowledged() || !d.Done || len(d.Attempts) != 1 {
				t.Errorf("delivery: %d attempts, acknowledged %v, want 1 and true", len(d.Attempts), d.Acknowledged())
			}
		}
	})
}

func TestServer_ResetAndCloseCancelDeliveries(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		end  func(*sandboxfake.Server)
	}{
		{"Reset", (*sandboxfake.Server).Reset},
		{"Close", func(srv *sandboxfake.Server) { srv.Close() }},
	} {
		t.Run(row.name, func(t *testing.T) {
			onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
				a := newAPI(t, srv)
				app := newBlockingReceiver()
				var attempts atomic.Int32
				a.completeCheck(srv.Handle("held.sandbox.test", app))
				inflight := (<-app.received).Context()
				failing := srv.Handle("failing.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					attempts.Add(1)
					w.WriteHeader(http.StatusServiceUnavailable)
				}))
				a.completeCheck(failing)
				a.create(phoneChecks, `{"phone_number":"447700900012","callback_url":"`+failing+`"}`) // not opened: would expire
				synctest.Wait()

				row.end(srv)

				if synctest.Wait(); inflight.Err() == nil {
					t.Error("callback in flight was not canceled")
				}
				<-time.After(time.Hour)
				if row.name == "Reset" {
					if err := srv.Advance(t.Context(), time.Hour); err != nil {
						t.Fatal(err)
					}
					if n := len(srv.Deliveries()) + len(srv.Requests()); n != 0 {
						t.Errorf("journals have %d entries, want none", n)
					}
				}
				if n := attempts.Load(); n != 1 {
					t.Errorf("%d attempts afterwards, want none", n-1)
				}
			})
		})
	}
}

func TestServer_ResetRepeatsIDs(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	run := func() []string {
		a := newAPI(t, srv)
		host := srv.Handle("app.sandbox.test", new(recordingReceiver))
		ids := []string{a.token, a.completeCheck(host), a.keyIDs()[0], srv.Credentials().ClientID}
		if err := srv.Advance(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		return append(ids, srv.Deliveries()[0].ID)
	}
	before := run()
	srv.RotateKeys()

	srv.Reset()

	if !srv.Now().Equal(frozenAt) {
		t.Errorf("frozen clock = %v, want its initial time", srv.Now())
	}
	if diff := cmp.Diff(before, run()); diff != "" {
		t.Errorf("IDs (-before +after Reset):\n%s", diff)
	}
}
