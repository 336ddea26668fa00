package sandboxfake_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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

		a.open(phoneChecks, a.create(phoneChecks, `{"phone_number":"447700900000","callback_url":"`+host+`"}`))
		delivery := must(srv.WaitDelivery(t.Context(), func(d sandboxfake.Delivery) bool { return d.Done }))(t)

		// Six attempts, with waits of 10, 20, 30, 40 and 50 s between them.
		want := []time.Duration{0, 10 * time.Second, 30 * time.Second, 60 * time.Second, 100 * time.Second, 150 * time.Second}
		wantEqual(t, want, at, "times of the attempts")
		if distinct(dates) != len(want) {
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

	noError(t, srv.Redeliver(t.Context(), srv.Deliveries()[0].ID))

	var got []string
	for _, d := range srv.Deliveries() {
		got = append(got, d.ReferenceID)
	}
	wantEqual(t, []string{"order <7>", "", "order <7>"}, got, "reference IDs")
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

				a.open(phoneChecks, a.create(phoneChecks, `{"phone_number":"447700900000","callback_url":"`+host+`"}`))
				advance(t, srv, time.Hour)

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
		waitIdle(t, srv)
		for _, d := range srv.Deliveries() {
			if !d.Acknowledged() || !d.Done || len(d.Attempts) != 1 {
				t.Errorf("delivery: %d attempts, acknowledged %v, want 1 and true", len(d.Attempts), d.Acknowledged())
			}
		}
	})
}

func TestServer_ResetAndCloseCancelDeliveries(t *testing.T) {
	onEachEnd(t, func(t *testing.T, srv *sandboxfake.Server, end func(), want error) {
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

		end()

		if synctest.Wait(); inflight.Err() == nil {
			t.Error("callback in flight was not canceled")
		}
		<-time.After(time.Hour)
		if want == sandboxfake.ErrReset {
			advance(t, srv, time.Hour)
			if n := len(srv.Deliveries()) + len(srv.Requests()); n != 0 {
				t.Errorf("journals have %d entries, want none", n)
			}
		}
		if n := attempts.Load(); n != 1 {
			t.Errorf("%d attempts afterwards, want none", n-1)
		}
	})
}

// The header and digest options apply to the callback and its signature.
func TestServer_CallbackHeaderAndDigest(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		opts   []sandboxfake.Option
		header string
		base64 bool
	}{
		"by default":           {nil, "X-Service-Callback", false},
		"WithBase64Digest":     {[]sandboxfake.Option{sandboxfake.WithBase64Digest()}, "X-Service-Callback", true},
		"WithCallbackHeader":   {[]sandboxfake.Option{sandboxfake.WithCallbackHeader("X-Acme-Callback")}, "X-Acme-Callback", false},
		"both, after a rotate": {[]sandboxfake.Option{sandboxfake.WithCallbackHeader("X-Acme-Callback"), sandboxfake.WithBase64Digest()}, "X-Acme-Callback", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := sandboxfake.New(t, append(row.opts, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))...)
			verifier := srv.Verifier([]string{"app.sandbox.test"}, nil)
			var header http.Header
			var body []byte
			verified := false
			host := srv.Handle("app.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				header = r.Header.Clone()
				body, _ = io.ReadAll(r.Body)
				r.Body = io.NopCloser(strings.NewReader(string(body)))
				verifier.RequireCallback(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { verified = true })).ServeHTTP(w, r)
			}))
			if strings.Contains(name, "rotate") {
				srv.RotateKeys()
			}

			newAPI(t, srv).completeCheck(host + "/callbacks")
			waitIdle(t, srv)

			if !verified {
				t.Error("callback does not verify")
			}
			if got := header.Values(row.header); len(got) != 1 || got[0] != "phone_check" {
				t.Errorf("%s = %q, want phone_check", row.header, got)
			}
			if other := "X-Service-Callback"; row.header != other && header.Get(other) != "" {
				t.Errorf("%s is also sent", other)
			}
			if got := header.Get("Authorization"); !strings.Contains(got, " "+strings.ToLower(row.header)+" ") {
				t.Errorf("Authorization = %q, want a signature over %s", got, row.header)
			}
			sum := sha256.Sum256(body)
			want := "SHA-256=" + hex.EncodeToString(sum[:])
			if row.base64 {
				want = "SHA-256=" + base64.StdEncoding.EncodeToString(sum[:])
			}
			if got := header.Get("Digest"); got != want {
				t.Errorf("Digest = %q, want %q", got, want)
			}
		})
	}
}

func TestAttempt_ErrorOmitsHost(t *testing.T) {
	t.Parallel()
	backend, ca := tlsReceiver(t, http.NotFoundHandler()) // its certificate is not valid for localhost
	a := newAPI(t, sandboxfake.New(t, sandboxfake.WithReceiverCA(ca)))

	a.completeCheck(strings.Replace(backend, "127.0.0.1", "localhost", 1) + "/callbacks")
	waitIdle(t, a.srv)

	const want = "the connection failed or was lost: the certificate is for another host"
	if got := a.srv.Deliveries()[0].Attempts[0].Error; got != want {
		t.Errorf("error of the attempt = %q, want %q", got, want)
	}
}
