package sandboxfake_test

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

func TestFault_Callback(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string
		fault    sandboxfake.Fault
		result   sandboxfake.AttemptResult
		seen     int32 // callbacks that reach the receiver, valid or not
		attempts int
	}{
		{"2XX", sandboxfake.Fault{Status: 202}, sandboxfake.ResultAcknowledged, 0, 1},
		{"4XX", sandboxfake.Fault{Status: 404}, sandboxfake.ResultRejected, 0, 1},
		{"5XX is retried", sandboxfake.Fault{Status: 502}, sandboxfake.ResultFailed, 1, 2},
		{"drop", sandboxfake.Fault{Drop: true}, sandboxfake.ResultUnreachable, 0, 1},
		{"latency", sandboxfake.Fault{Latency: 9 * time.Second}, sandboxfake.ResultAcknowledged, 1, 1},
		{"latency over the timeout", sandboxfake.Fault{Latency: 10 * time.Second}, sandboxfake.ResultTimedOut, 0, 1},
		{"status after the timeout", sandboxfake.Fault{Status: 500, Latency: time.Minute}, sandboxfake.ResultTimedOut, 0, 1},
		{"body", sandboxfake.Fault{Body: `{"match":true}`}, sandboxfake.ResultRejected, 1, 1},
		{"wrong key", sandboxfake.Fault{WrongKey: true}, sandboxfake.ResultRejected, 1, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				srv := sandboxfake.New(t, sandboxfake.WithInMemory())
				a := newAPI(t, srv)
				verifier := srv.Verifier([]string{"app.sandbox.test"}, nil)
				var seen atomic.Int32
				host := srv.Handle("app.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					seen.Add(1)
					if _, err := verifier.VerifyCallback(r); err != nil {
						w.WriteHeader(http.StatusBadRequest)
					}
				}))
				srv.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback}, row.fault)

				a.completeCheck(host)
				delivery, err := srv.AwaitDelivery(t.Context(), func(d sandboxfake.Delivery) bool { return d.Done })

				if err != nil {
					t.Fatal(err)
				}
				first := delivery.Attempts[0]
				if first.Result != row.result || first.Fault == nil || *first.Fault != row.fault {
					t.Errorf("first attempt = %q with fault %+v, want %q with the injected fault", first.Result, first.Fault, row.result)
				}
				if len(delivery.Attempts) != row.attempts || seen.Load() != row.seen {
					t.Errorf("%d attempts, %d received, want %d and %d", len(delivery.Attempts), seen.Load(), row.attempts, row.seen)
				}
			})
		})
	}
}

func TestFault_TruncatedCallback(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := sandboxfake.New(t, sandboxfake.WithInMemory())
		read := errors.New("no callback received")
		host := srv.Handle("app.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, read = io.ReadAll(r.Body)
		}))
		srv.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback}, sandboxfake.Fault{Truncate: true})

		newAPI(t, srv).completeCheck(host)
		synctest.Wait()

		if !errors.Is(read, io.ErrUnexpectedEOF) {
			t.Errorf("error of reading the body = %v, want io.ErrUnexpectedEOF", read)
		}
		if d := srv.Deliveries()[0]; !d.Done || d.Attempts[0].Result != sandboxfake.ResultUnreachable {
			t.Errorf("delivery attempts = %+v, want unreachable", d.Attempts)
		}
	})
}

func TestFault_RedirectWrongKey(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	a := newAPI(t, srv)
	verifier := srv.Verifier([]string{"app.sandbox.test"}, nil)
	var verifyErr error
	host := srv.Handle("app.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, verifyErr = verifier.VerifyRedirect(r)
	}))
	srv.Inject(sandboxfake.Match{Operation: "phone_check.open"}, sandboxfake.Fault{WrongKey: true})
	for _, want := range []error{signature.ErrSignature, nil} {
		id := a.create(phoneChecks02, `{"phone_number":"447700900012","redirect_url":"`+host+`"}`)

		if _, err := srv.Device().Open(t.Context(), srv.URL()+phoneChecks02+"/"+id+"/redirect"); err != nil {
			t.Fatal(err)
		}

		if !errors.Is(verifyErr, want) {
			t.Errorf("verifier error = %v, want %v", verifyErr, want)
		}
	}
}

// A fault for the callbacks of one check does not affect those of another.
func TestFault_CallbackOfCheck(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		inject func(a *api, checkID string)
	}{
		{"Inject", func(a *api, id string) {
			a.srv.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback, CheckID: id}, sandboxfake.Fault{WrongKey: true})
		}},
		{"control plane", func(a *api, id string) {
			got := a.control(http.MethodPost, "faults", `{"match":{"operation":"callback","check_id":"`+id+`"},"faults":[{"wrong_key":true}]}`)
			if got.status != http.StatusNoContent {
				a.t.Fatalf("inject: %d %s", got.status, got.body)
			}
			match := a.control(http.MethodGet, "faults", "").json["injections"].([]any)[0].(map[string]any)["match"]
			if match.(map[string]any)["check_id"] != id {
				a.t.Errorf("active fault matches %v, want check %s", match, id)
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := newControlAPI(t)
				var receiver recordingReceiver
				host := a.srv.Handle("app.sandbox.test", &receiver)
				id := a.create(phoneChecks, `{"phone_number":"447700900012","callback_url":"`+host+`"}`)
				row.inject(a, id)

				other := a.completeCheck(host)
				if err := a.srv.Idle(t.Context()); err != nil {
					t.Fatal(err)
				}
				a.get(phoneChecks + "/" + id + "/redirect")
				if err := a.srv.Idle(t.Context()); err != nil {
					t.Fatal(err)
				}

				for _, d := range a.srv.Deliveries() {
					if fault := d.Attempts[0].Fault; (fault != nil) != (d.CheckID == id) {
						t.Errorf("callback of %s has the fault %+v, want one only for %s, not for %s", d.CheckID, fault, id, other)
					}
				}
				if n := len(a.srv.Deliveries()); n != 2 {
					t.Errorf("%d deliveries, want 2", n)
				}
			})
		})
	}
}
