package sandboxfake_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
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
	text, err := os.ReadFile(filepath.Join("..", "internal", "wire", "testdata", "operations.json"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []operationRow
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if row.Scope == "projects" || row.Scope == "workspaces" {
			continue // the console tests cover these operations
		}
		t.Run(row.Method+" "+row.Path, func(t *testing.T) {
			t.Parallel()
			srv := sandboxfake.New(t, sandboxfake.WithInMemory())
			a := newAPI(t, srv)
			path := strings.ReplaceAll(row.Path, "{v}", "v0.1")
			if strings.HasSuffix(row.Operation, ".complete") {
				path = strings.ReplaceAll(row.Path, "{v}", "v0.2")
			}
			for _, id := range []string{"check_id", "trace_id", "ip", "code"} {
				path = strings.ReplaceAll(path, "{"+id+"}", "unknown")
			}
			srv.Inject(sandboxfake.Match{Operation: row.Operation}, sandboxfake.Fault{Status: 503, RetryAfter: 1500 * time.Millisecond})

			broken, after := a.call(row.Method, path, ""), a.call(row.Method, path, "")

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

			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("statuses (-want +got):\n%s", diff)
			}
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
			if got := a.get(phoneChecks).json["page"].(map[string]any)["total_elements"]; got != float64(row.checks) {
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
	if diff := cmp.Diff(want, rateHeaders(limited)); diff != "" {
		t.Errorf("headers of a 429 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{}, rateHeaders(bare)); diff != "" {
		t.Errorf("headers of a 429 without RetryAfter (-want +got):\n%s", diff)
	}
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

		if time.Since(began) != 0 || others.json["page"].(map[string]any)["total_elements"] != 0.0 {
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
			tb := new(fatalTB)
			srv := sandboxfake.New(tb, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
			t.Cleanup(func() { srv.Close() })

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

// fatalTB is a TB whose Fatalf panics with the message, which catch returns.
type fatalTB struct{}

func (*fatalTB) Helper()                        {}
func (*fatalTB) Cleanup(func())                 {}
func (*fatalTB) Fatalf(format string, v ...any) { panic(fatal(fmt.Sprintf(format, v...))) }

type fatal string

func (*fatalTB) catch(f func()) (message string) {
	defer func() {
		if m, ok := recover().(fatal); ok {
			message = string(m)
		}
	}()
	f()
	return ""
}
