package sandboxfake_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// attempt sends a request and returns the response's status, and an error if the response is
// incomplete.
func (a *api) attempt(method, path, body string) (status int, err error) {
	a.t.Helper()
	request := a.request(method, path, body)
	request.Header.Set("Authorization", "Bearer "+a.token)
	request.Header.Set("Content-Type", "application/json")
	response, err := a.srv.HTTPClient().Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.ReadAll(response.Body)
	return response.StatusCode, err
}

func TestServer_InjectEachOperation(t *testing.T) {
	t.Parallel()
	for _, row := range operations(t) {
		if row.Scope == "projects" || row.Scope == "workspaces" {
			continue // the console tests cover these operations
		}
		t.Run(row.Method+" "+row.Path, func(t *testing.T) {
			t.Parallel()
			srv := sandboxfake.New(t, sandboxfake.WithInMemory())
			a := newAPI(t, srv)
			srv.Inject(sandboxfake.Match{Operation: row.Operation}, sandboxfake.Fault{Status: 503, RetryAfter: 1500 * time.Millisecond})

			broken, after := a.call(row.Method, row.unknownPath(), ""), a.call(row.Method, row.unknownPath(), "")

			broken.wantProblem(t, 503, "")
			if got := broken.header.Get("Retry-After"); got != "2" {
				t.Errorf("Retry-After = %q, want 2: whole seconds, rounded up", got)
			}
			if after.status == 503 {
				t.Error("second response = 503, want one fault for one request")
			}
		})
	}
}

func TestServer_InjectOrder(t *testing.T) {
	t.Parallel()
	get := sandboxfake.Match{Operation: "phone_check.list"}
	repeated := get
	repeated.Repeat = true
	for _, row := range []struct {
		name   string
		inject func(*sandboxfake.Server)
		want   []int
	}{
		{"none", func(*sandboxfake.Server) {}, []int{200, 200, 200, 200, 200}},
		{"first and third", func(srv *sandboxfake.Server) {
			srv.Inject(get, sandboxfake.Fault{Status: 500}, sandboxfake.Fault{}, sandboxfake.Fault{Status: 502})
		}, []int{500, 200, 502, 200, 200}},
		{"repeated", func(srv *sandboxfake.Server) {
			srv.Inject(repeated, sandboxfake.Fault{Status: 500}, sandboxfake.Fault{})
		}, []int{500, 200, 500, 200, 500}},
		{"two injections, last one first", func(srv *sandboxfake.Server) {
			srv.Inject(get, sandboxfake.Fault{Status: 500}, sandboxfake.Fault{Status: 501})
			srv.Inject(get, sandboxfake.Fault{Status: 503})
		}, []int{503, 501, 200, 200, 200}},
		{"any operation", func(srv *sandboxfake.Server) {
			srv.Inject(sandboxfake.Match{}, sandboxfake.Fault{Status: 500})
		}, []int{500, 200, 200, 200, 200}},
		{"another operation", func(srv *sandboxfake.Server) {
			srv.Inject(sandboxfake.Match{Operation: "sim_check.list"}, sandboxfake.Fault{Status: 500})
		}, []int{200, 200, 200, 200, 200}},
		{"another project", func(srv *sandboxfake.Server) {
			srv.Inject(sandboxfake.Match{Project: "another"}, sandboxfake.Fault{Status: 500})
		}, []int{200, 200, 200, 200, 200}},
		{"another workspace", func(srv *sandboxfake.Server) {
			srv.Inject(sandboxfake.Match{Workspace: "another"}, sandboxfake.Fault{Status: 500})
		}, []int{200, 200, 200, 200, 200}},
		{"this project", func(srv *sandboxfake.Server) {
			srv.Inject(sandboxfake.Match{Project: srv.Requests()[0].ProjectID}, sandboxfake.Fault{Status: 500})
		}, []int{500, 200, 200, 200, 200}},
		{"this workspace", func(srv *sandboxfake.Server) {
			srv.Inject(sandboxfake.Match{Workspace: srv.Requests()[0].WorkspaceID}, sandboxfake.Fault{Status: 500})
		}, []int{500, 200, 200, 200, 200}},
		{"removed", func(srv *sandboxfake.Server) {
			srv.Inject(repeated, sandboxfake.Fault{Status: 500})()
		}, []int{200, 200, 200, 200, 200}},
		{"callback", func(srv *sandboxfake.Server) {
			srv.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback}, sandboxfake.Fault{Status: 500})
		}, []int{200, 200, 200, 200, 200}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			srv := sandboxfake.New(t, sandboxfake.WithInMemory())
			a := newAPI(t, srv)
			row.inject(srv)

			var got []int
			for range row.want {
				got = append(got, a.get(phoneChecks).status)
			}

			wantEqual(t, row.want, got, "statuses")
		})
	}
}

func TestServer_InjectUndoAfterReset(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	list := sandboxfake.Match{Operation: "phone_check.list"}
	undo := srv.Inject(list, sandboxfake.Fault{Status: 500})
	srv.Reset()
	a := newAPI(t, srv)
	before := a.get(phoneChecks).status
	srv.Inject(list, sandboxfake.Fault{Status: 500})
	undo()
	undo()

	if after := a.get(phoneChecks).status; before != 200 || after != 500 {
		t.Errorf("statuses %d and %d, want 200 without the old fault, then 500 of the new one", before, after)
	}
}

// A create whose response is lost has still been processed and charged.
func TestFault_Kinds(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		fault  sandboxfake.Fault
		status int  // of the response
		lost   bool // the response is missing or incomplete
		checks int  // number of checks afterwards
	}{
		{"status", sandboxfake.Fault{Status: 402}, 402, false, 0},
		{"status that the service never returns", sandboxfake.Fault{Status: 418}, 418, false, 0},
		{"status with a body", sandboxfake.Fault{Status: 502, Body: "<html>"}, 502, false, 0},
		{"drop", sandboxfake.Fault{Drop: true}, 0, true, 1},
		{"truncate", sandboxfake.Fault{Truncate: true}, 201, true, 1},
		{"body", sandboxfake.Fault{Body: "not JSON"}, 201, false, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			srv := sandboxfake.New(t, sandboxfake.WithInMemory())
			a := newAPI(t, srv)
			srv.Inject(sandboxfake.Match{Operation: "phone_check.create"}, row.fault)

			status, err := a.attempt(http.MethodPost, phoneChecks, `{"phone_number":"447700900012"}`)

			if status != row.status || (err != nil) != row.lost {
				t.Errorf("response = %d, error %v, want %d, lost %v", status, err, row.status, row.lost)
			}
			if got := a.get(phoneChecks).at("page", "total_elements"); got != float64(row.checks) {
				t.Errorf("%v checks afterwards, want %d", got, row.checks)
			}
			requests := srv.Requests()
			entry := requests[len(requests)-2]
			if entry.Operation != "phone_check.create" || entry.Fault == nil || *entry.Fault != row.fault {
				t.Errorf("journal has %s with fault %+v, want the injected fault", entry.Operation, entry.Fault)
			}
		})
	}
}

func TestFault_Status(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	a := newAPI(t, srv)
	srv.Inject(sandboxfake.Match{Operation: "phone_check.list"},
		sandboxfake.Fault{Status: 402},
		sandboxfake.Fault{Status: 409, Code: "ip_msisdn_mismatch"},
		sandboxfake.Fault{Status: 501},
		sandboxfake.Fault{Status: 429, RetryAfter: time.Minute},
		sandboxfake.Fault{Status: 429})

	a.get(phoneChecks).wantProblem(t, 402, "insufficient_balance")
	a.get(phoneChecks).wantProblem(t, 409, "ip_msisdn_mismatch")
	a.get(phoneChecks).wantProblem(t, 501, "mno_redirect_unsupported")
	limited, bare := a.get(phoneChecks), a.get(phoneChecks)

	limited.wantProblem(t, 429, "too_many_requests")
	want := map[string]string{"Retry-After": "60", "X-Ratelimit-Limit": "1", "X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "1767323105"}
	wantEqual(t, want, rateHeaders(limited), "headers of a 429")
	wantEqual(t, map[string]string{}, rateHeaders(bare), "headers of a 429 without RetryAfter")
}

// rateHeaders returns the rate limit headers of a response.
func rateHeaders(r response) map[string]string {
	got := make(map[string]string)
	for name := range r.header {
		if name == "Retry-After" || strings.HasPrefix(name, "X-Ratelimit") {
			got[name] = r.header.Get(name)
		}
	}
	return got
}

func TestFault_TokenEndpoint(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	a := &api{t: t, srv: srv}
	srv.Inject(sandboxfake.Match{Operation: "token.create"}, sandboxfake.Fault{Status: 401, Code: "invalid_client"}, sandboxfake.Fault{Status: 400})
	form := map[string][]string{"grant_type": {"client_credentials"}, "scope": {"phone_check"}}

	first, second := a.tokenCall(srv.Credentials(), form), a.tokenCall(srv.Credentials(), form)

	if first.status != 401 || first.json["error"] != "invalid_client" || second.status != 400 || second.json["error"] != "invalid_request" {
		t.Errorf("responses = %d %s and %d %s, want errors of RFC 6749", first.status, first.body, second.status, second.body)
	}
}

func TestFault_Latency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := sandboxfake.New(t, sandboxfake.WithInMemory())
		a := newAPI(t, srv)
		srv.Inject(sandboxfake.Match{Operation: "phone_check.create"}, sandboxfake.Fault{Latency: 7 * time.Second})
		began := time.Now()
		created := make(chan response, 1)
		go func() { created <- a.post(phoneChecks, `{"phone_number":"447700900012"}`) }()
		synctest.Wait()

		others := a.get(phoneChecks)

		if time.Since(began) != 0 || others.at("page", "total_elements") != 0.0 {
			t.Errorf("other request took %v and returned %s, want no wait and no check yet", time.Since(began), others.body)
		}
		if r := <-created; r.status != 201 || time.Since(began) != 7*time.Second {
			t.Errorf("%d after %v, want 201 after 7 s", r.status, time.Since(began))
		}
	})
}

func TestServer_ResetDuringLatency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := sandboxfake.New(t, sandboxfake.WithInMemory())
		a := newAPI(t, srv)
		srv.Inject(sandboxfake.Match{Operation: "phone_check.create"}, sandboxfake.Fault{Latency: time.Hour})
		began := time.Now()
		done := make(chan error, 1)
		go func() {
			_, err := a.attempt(http.MethodPost, phoneChecks, `{"phone_number":"447700900012"}`)
			done <- err
		}()
		synctest.Wait()

		srv.Reset()

		if err := <-done; err == nil || time.Since(began) != 0 {
			t.Errorf("request returned %v after %v, want a lost connection immediately", err, time.Since(began))
		}
		if n := len(srv.Requests()); n != 0 {
			t.Errorf("journal has %d requests after Reset, want none", n)
		}
	})
}

func TestServer_InjectRejectsInvalidFaults(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		match sandboxfake.Match
		fault sandboxfake.Fault
		want  string
	}{
		{"unknown operation", sandboxfake.Match{Operation: "phone_check.creat"}, sandboxfake.Fault{Status: 500}, "unknown operation"},
		{"check ID for a call", sandboxfake.Match{Operation: "phone_check.open", CheckID: "another"}, sandboxfake.Fault{Status: 500}, "requires the operation"},
		{"check ID for all calls", sandboxfake.Match{CheckID: "another"}, sandboxfake.Fault{Status: 500}, "requires the operation"},
		{"two kinds in one fault", sandboxfake.Match{}, sandboxfake.Fault{Status: 500, Drop: true}, "only one of"},
		{"invalid HTTP status", sandboxfake.Match{}, sandboxfake.Fault{Status: 1000}, "status must be from 200 to 599"},
		{"informational status", sandboxfake.Match{}, sandboxfake.Fault{Status: 100}, "status must be from 200 to 599"},
		{"code without status", sandboxfake.Match{}, sandboxfake.Fault{Code: "bad_request"}, "require a status"},
		{"RetryAfter without status", sandboxfake.Match{}, sandboxfake.Fault{RetryAfter: 1}, "require a status"},
		{"negative latency", sandboxfake.Match{}, sandboxfake.Fault{Latency: -1}, "must not be negative"},
		{"latency on a frozen clock", sandboxfake.Match{}, sandboxfake.Fault{Latency: 1}, "requires a running clock"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			tb := fatalTB{t}
			srv := sandboxfake.New(tb, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))

			message := tb.catch(func() { srv.Inject(row.match, row.fault) })

			if !strings.Contains(message, row.want) {
				t.Errorf("failure message = %q, want it to contain %q", message, row.want)
			}
			if r := newAPI(t, srv).get(phoneChecks); r.status != 200 {
				t.Errorf("status after the rejected fault = %d, want 200", r.status)
			}
		})
	}
}

// fatalTB is a TB whose Fatalf panics with the message, which catch returns. The cleanup functions
// are those of t.
type fatalTB struct{ t *testing.T }

func (fatalTB) Helper()                        {}
func (b fatalTB) Cleanup(f func())             { b.t.Cleanup(f) }
func (fatalTB) Fatalf(format string, v ...any) { panic(fatal(fmt.Sprintf(format, v...))) }

type fatal string

func (fatalTB) catch(f func()) (message string) {
	defer func() {
		if m, ok := recover().(fatal); ok {
			message = string(m)
		}
	}()
	f()
	return ""
}

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
				delivery := must(srv.WaitDelivery(t.Context(), func(d sandboxfake.Delivery) bool { return d.Done }))(t)

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

// A message with a wrong key has the ID of the published key.
func TestFault_WrongKey(t *testing.T) {
	t.Parallel()
	a := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt)))
	verifier := a.srv.Verifier([]string{"app.sandbox.test"}, nil)
	var verifyErr error
	var signed string // with the key ID
	host := a.srv.Handle("app.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			text, _ := base64.StdEncoding.DecodeString(r.URL.Query().Get("authorization"))
			signed = string(text)
			_, verifyErr = verifier.VerifyRedirect(r)
			return
		}
		signed = r.Header.Get("Authorization")
		_, verifyErr = verifier.VerifyCallback(r)
	}))
	for operation, send := range map[string]func(){
		sandboxfake.OperationCallback: func() { a.completeCheck(host) },
		"phone_check.open": func() {
			id := a.create(phoneChecks02, `{"phone_number":"447700900012","redirect_url":"`+host+`"}`)
			must(a.srv.Device().Open(t.Context(), a.srv.URL()+phoneChecks02+"/"+id+"/redirect"))(t)
		},
	} {
		a.srv.Inject(sandboxfake.Match{Operation: operation}, sandboxfake.Fault{WrongKey: true})
		for _, want := range []error{signature.ErrSignature, nil} {
			send()
			waitIdle(t, a.srv)

			if !errors.Is(verifyErr, want) {
				t.Errorf("%s: verifier error = %v, want %v", operation, verifyErr, want)
			}
			if !strings.Contains(signed, `keyId="`+a.keyIDs()[0]+`"`) {
				t.Errorf("%s: authorization = %s, want the published key ID", operation, signed)
			}
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
			a.control(http.MethodPost, "faults", `{"match":{"operation":"callback","check_id":"`+id+`"},"faults":[{"wrong_key":true}]}`).wantStatus(a.t, http.StatusNoContent)
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
				host := a.srv.Handle("app.sandbox.test", new(recordingReceiver))
				id := a.create(phoneChecks, `{"phone_number":"447700900012","callback_url":"`+host+`"}`)
				row.inject(a, id)

				other := a.completeCheck(host)
				waitIdle(t, a.srv)
				a.get(phoneChecks + "/" + id + "/redirect")
				waitIdle(t, a.srv)

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
