package sandboxfake_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// verifyingShop is a receiver of callbacks and redirects that verifies each message.
type verifyingShop struct {
	verifier *signature.Verifier
	url      string

	mu        sync.Mutex // guards the following fields
	callbacks []*idverify.Callback
	redirects []*idverify.Redirect
	rejected  []error
}

// newShop returns a shop at https://shop.sandbox.test, with paths /callbacks and /back.
func newShop(srv *sandboxfake.Server) *verifyingShop {
	s := &verifyingShop{verifier: srv.Verifier([]string{"shop.sandbox.test"}, nil)}
	s.url = srv.Handle("shop.sandbox.test", s)
	return s
}

func (s *verifyingShop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var callback *idverify.Callback
	var redirect *idverify.Redirect
	var m *signature.Message
	var err error
	if r.URL.Path == "/callbacks" {
		if m, err = s.verifier.VerifyCallback(r); err == nil {
			callback, err = idverify.ParseCallback(m)
		}
	} else if m, err = s.verifier.VerifyRedirect(r); err == nil {
		redirect, err = idverify.ParseRedirect(m)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.rejected = append(s.rejected, err)
		w.WriteHeader(http.StatusBadRequest)
	case callback != nil:
		s.callbacks = append(s.callbacks, callback)
		w.WriteHeader(http.StatusNoContent)
	default:
		s.redirects = append(s.redirects, redirect)
	}
}

// received returns the callbacks and redirects so far. It fails the test if one was rejected.
func (s *verifyingShop) received(t testing.TB) ([]*idverify.Callback, []*idverify.Redirect) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, err := range s.rejected {
		t.Errorf("message rejected: %v", err)
	}
	return s.callbacks, s.redirects
}

// controlCreate creates a check by the control plane and returns its response.
func (a *api) controlCreate(body string) response {
	a.t.Helper()
	got := a.control(http.MethodPost, "checks", body)
	if got.status != http.StatusOK {
		a.t.Fatalf("create: %d %s", got.status, got.body)
	}
	return got
}

// controlOpen opens a Check URL by the control plane and returns its response.
func (a *api) controlOpen(id, as string, follow bool) response {
	a.t.Helper()
	got := a.control(http.MethodPost, "open", fmt.Sprintf(`{"check_id":%q,"as":%q,"follow":%v}`, id, as, follow))
	if got.status != http.StatusOK {
		a.t.Fatalf("open as %q: %d %s", as, got.status, got.body)
	}
	return got
}

// statusOf returns the status of the service's response in a response to POST checks or open.
func (r response) statusOf() any { return r.json["response"].(map[string]any)["status"] }

// checkID returns the ID of the check in a response to POST checks, or "".
func (r response) checkID() string {
	check, _ := r.json["check"].(map[string]any)
	id, _ := check["check_id"].(string)
	return id
}

func TestServer_ControlCreateCheck(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, body, path, sent string
	}{
		{"phone number only", `{"phone_number":"447700900012"}`, phoneChecks, `{"phone_number":"447700900012"}`},
		{"all fields", `{"product":"subscriber_check","version":"v0.2","phone_number":"447700900012","callback_url":"https://a.test/c","redirect_url":"https://a.test/r","reference_id":"order <7>","period":60}`, subscriberChecks02,
			`{"phone_number":"447700900012","callback_url":"https://a.test/c","redirect_url":"https://a.test/r","reference_id":"order \u003c7\u003e","period":60}`},
		{"SIMCheck", `{"product":"sim_check","phone_number":"447700900012"}`, "/sim_check/v0.1/checks", `{"phone_number":"447700900012"}`},
		{"PhoneCheck v0.2", `{"version":"v0.2","phone_number":"447700900012"}`, phoneChecks02, `{"phone_number":"447700900012"}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))

			got := a.controlCreate(row.body)

			requests := a.srv.Requests()
			last := requests[len(requests)-1]
			if got.statusOf() != 201.0 || last.Path != row.path || last.Method != http.MethodPost || last.Status != http.StatusCreated || string(last.Body) != row.sent {
				t.Errorf("response %v; last request %s %s %s = %d, want %s %s = 201", got.statusOf(), last.Method, last.Path, last.Body, last.Status, row.path, row.sent)
			}
			if last.ClientID != a.srv.Credentials().ClientID || last.Header.Get("Authorization") != "[redacted]" {
				t.Errorf("request of client %q with Authorization %q, want the initial project's, redacted", last.ClientID, last.Header.Get("Authorization"))
			}
			body := got.json["response"].(map[string]any)["body"].(map[string]any)
			if read := a.get(row.path + "/" + got.checkID()); read.status != http.StatusOK || body["check_id"] != got.checkID() {
				t.Errorf("check %q in the response %v: reading it = %d, want 200", got.checkID(), body, read.status)
			}
		})
	}
}

// The same calls give the same IDs, whether a client or the control plane creates the check.
func TestServer_ControlCreateCheckIDs(t *testing.T) {
	t.Parallel()
	client := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))
	first := client.create(phoneChecks, `{"phone_number":"447700900012"}`)
	second := client.create(phoneChecks, `{"phone_number":"447700900012"}`)
	a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))

	created := a.controlCreate(`{"phone_number":"447700900012"}`).checkID()
	next := a.create(phoneChecks, `{"phone_number":"447700900012"}`)
	token := a.tokenFor(a.srv.Credentials(), "phone_check")

	if created != first || next != second {
		t.Errorf("check IDs %s and %s, want %s and %s as with a client", created, next, first, second)
	}
	if want := client.tokenFor(client.srv.Credentials(), "phone_check"); token != want {
		t.Error("the control plane took the ID of an access token")
	}
	requests, others := a.srv.Requests(), client.srv.Requests()
	for i := range requests {
		if requests[i].ID != others[i].ID {
			t.Errorf("request %d has ID %s, want %s as with a client", i, requests[i].ID, others[i].ID)
		}
	}
}

func TestServer_ControlCreateCheckProject(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	account := a.srv.NewWorkspace("Shop")
	project := account.NewProject(idverify.ProjectParams{Name: "shop", Mode: idverify.ModeLive})

	got := a.controlCreate(`{"phone_number":"447700900012","project_id":"` + project.ProjectID + `"}`)

	if check := got.json["check"].(map[string]any); check["project_id"] != project.ProjectID || check["live"] != true {
		t.Errorf("check = %v, want a live one of project %s", check, project.ProjectID)
	}
	for _, w := range a.state()["workspaces"].([]any) {
		if w := w.(map[string]any); w["workspace_id"] == account.WorkspaceID && w["balance"] != 99.0 {
			t.Errorf("balance = %v, want 99: a live check costs 1", w["balance"])
		}
	}
	a.control(http.MethodPost, "checks", `{"phone_number":"447700900012","project_id":"x"}`).wantProblem(t, http.StatusNotFound, "not_found")
}

func TestServer_ControlCreateCheckErrors(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, body string
		fault      *sandboxfake.Fault
		status     float64
		text       string // in the JSON of the response
		created    bool
	}{
		{"invalid phone number", `{"phone_number":"+44 7700"}`, nil, 400, "phone_format_invalid", false},
		{"no phone number", `{}`, nil, 400, "bad_request", false},
		{"invalid callback URL", `{"phone_number":"447700900012","callback_url":"ftp://a.test"}`, nil, 400, "callback_url must have the scheme", false},
		{"fault with status", `{"phone_number":"447700900012"}`, &sandboxfake.Fault{Status: 503}, 503, `"status":503`, false},
		{"fault with text", `{"phone_number":"447700900012"}`, &sandboxfake.Fault{Status: 502, Body: "<h1>Bad Gateway"}, 502, `"body":"\u003ch1\u003eBad Gateway"`, false},
		{"fault with another body", `{"phone_number":"447700900012"}`, &sandboxfake.Fault{Body: "{}"}, 201, `"body":{}`, true},
		{"dropped response", `{"phone_number":"447700900012"}`, &sandboxfake.Fault{Drop: true}, 0, "closed without a response", true},
		{"truncated response", `{"phone_number":"447700900012"}`, &sandboxfake.Fault{Truncate: true}, 201, "closed before the end", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			a := newControlAPI(t)
			if row.fault != nil {
				a.srv.Inject(sandboxfake.Match{Operation: "phone_check.create"}, *row.fault)
			}

			got := a.controlCreate(row.body)

			if got.statusOf() != row.status || !strings.Contains(string(got.body), row.text) || (got.checkID() != "") != row.created {
				t.Errorf("%s, want status %v with %q, created %v", got.body, row.status, row.text, row.created)
			}
			if checks, _ := a.checks(""); (len(checks) == 1) != row.created {
				t.Errorf("%d checks exist, want one only if created", len(checks))
			}
		})
	}
}

func TestServer_ControlCreateCheckRateLimit(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithRateLimit(2))

	var statuses []any
	for range 3 {
		statuses = append(statuses, a.controlCreate(`{"phone_number":"447700900012"}`).statusOf())
	}

	if diff := cmp.Diff([]any{201.0, 201.0, 429.0}, statuses); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
}

func TestServer_ControlCreateCheckDeletedProject(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	project := a.state()["projects"].([]any)[0].(map[string]any)["project_id"].(string)
	if err := a.srv.Console().Projects.Delete(t.Context(), project); err != nil {
		t.Fatal(err)
	}

	got := a.control(http.MethodPost, "checks", `{"phone_number":"447700900012"}`)

	got.wantProblem(t, http.StatusBadRequest, "bad_request")
}

// The token of the call must not be used in the state after a reset.
func TestServer_ControlCreateCheckDuringReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newControlAPI(t)
		a.srv.Inject(sandboxfake.Match{Operation: "phone_check.create"}, sandboxfake.Fault{Latency: 1e9})
		created := make(chan response)

		go func() {
			created <- a.control(http.MethodPost, "checks", `{"phone_number":"447700900012"}`)
		}()
		synctest.Wait()
		a.srv.Reset()

		if got := <-created; got.status != http.StatusConflict {
			t.Errorf("create during a reset: %d %s, want 409", got.status, got.body)
		}
		if checks, _ := a.checks(""); len(checks) != 0 {
			t.Errorf("%d checks after the reset, want none", len(checks))
		}
	})
}
