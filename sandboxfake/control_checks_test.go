package sandboxfake_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

const subscriberChecks02 = "/subscriber_check/v0.2/checks"

// checks returns a page of the checks in the control plane.
func (a *api) checks(query string) (checks []map[string]any, next string) {
	a.t.Helper()
	got := a.control(http.MethodGet, "checks?"+query, "").wantStatus(a.t, http.StatusOK)
	next, _ = got.json["next"].(string)
	return objects(got.json["checks"]), next
}

// ids returns the check IDs of a page.
func ids(checks []map[string]any) []string { return textsOf(checks, "check_id") }

func TestServer_ControlChecks(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))
	project := objects(a.state()["projects"])[0]["project_id"]
	a.create("/sim_check/v0.1/checks", `{"phone_number":"447700900016"}`)
	a.create("/sim_check/v0.1/checks", `{"phone_number":"447700900099"}`)
	a.open(phoneChecks, a.create(phoneChecks, `{"phone_number":"447700900013","reference_id":"order 7"}`))
	open := a.create(phoneChecks02, `{"phone_number":"447700900012","callback_url":"https://app.sandbox.test/callbacks","redirect_url":"https://app.sandbox.test/back"}`)

	checks, next := a.checks("")

	at := frozenAt.Format(time.RFC3339Nano)
	want := []map[string]any{
		{
			"check_id": open, "product": "phone_check", "version": "v0.2", "project_id": project, "phone_number": "447700900012",
			"status": "ACCEPTED", "created_at": at, "updated_at": at, "expires_at": frozenAt.Add(2 * time.Minute).Format(time.RFC3339Nano),
			"callback_url": "https://app.sandbox.test/callbacks", "redirect_url": "https://app.sandbox.test/back",
			"check_url": a.srv.URL() + phoneChecks02 + "/" + open + "/redirect", "deliveries": 0.0, "live": false,
		},
		{
			"check_id": checks[1]["check_id"], "product": "phone_check", "version": "v0.1", "project_id": project, "phone_number": "447700900013",
			"reference_id": "order 7", "status": "COMPLETED", "match": false, "created_at": at, "updated_at": at, "opened_at": at, "deliveries": 0.0, "live": false,
		},
		{
			"check_id": checks[2]["check_id"], "product": "sim_check", "version": "v0.1", "project_id": project, "phone_number": "447700900099",
			"status": "ERROR", "error_code": "mno_server_error", "created_at": at, "updated_at": at, "deliveries": 0.0, "live": false,
		},
		{
			"check_id": checks[3]["check_id"], "product": "sim_check", "version": "v0.1", "project_id": project, "phone_number": "447700900016",
			"status": "COMPLETED", "no_sim_change": false, "created_at": at, "updated_at": at, "deliveries": 0.0, "live": false,
		},
	}
	if diff := cmp.Diff(want, checks); diff != "" || next != "" {
		t.Errorf("checks, next %q (-want +got):\n%s", next, diff)
	}
}

// open opens a Check URL.
func (a *api) open(path, id string) response {
	a.t.Helper()
	got := a.get(path + "/" + id + "/redirect")
	if got.status >= 400 {
		a.t.Fatalf("open: %d %s", got.status, got.body)
	}
	return got
}

func TestServer_ControlChecksFilters(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	sim := a.create("/sim_check/v0.1/checks", `{"phone_number":"447700900012"}`)
	expired := a.create(phoneChecks, `{"phone_number":"447700900034","reference_id":"order <7>"}`)
	a.srv.Expire(expired)
	failed := a.create(subscriberChecks02, `{"phone_number":"447700900055"}`)
	a.open(subscriberChecks02, failed)
	pending := a.create(phoneChecks02, `{"phone_number":"447700900056"}`)
	a.open(phoneChecks02, pending)
	for _, row := range []struct {
		query string
		want  []string
	}{
		{"", []string{pending, failed, expired, sim}},
		{"product=sim_check", []string{sim}},
		{"product=phone_check", []string{pending, expired}},
		{"status=EXPIRED", []string{expired}},
		{"status=ERROR", []string{failed}},
		{"status=PENDING&product=subscriber_check", []string{}},
		{"search=" + failed[3:20], []string{failed}},
		{"search=90003", []string{expired}},
		{"search=" + url.QueryEscape("order <7"), []string{expired}},
		{"search=4477&status=COMPLETED", []string{sim}},
		{"search=none", []string{}},
		{"limit=1&search=90005", []string{pending}},
	} {
		checks, _ := a.checks(row.query)

		wantEqual(t, row.want, ids(checks), "%s", row.query)
	}
}

func TestServer_ControlChecksPages(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	var all []string
	for i := range 7 {
		all = append([]string{a.create(phoneChecks, fmt.Sprintf(`{"phone_number":"44770090001%d"}`, i))}, all...)
	}
	for _, row := range []struct {
		query string
		pages [][]string
	}{
		{"limit=3", [][]string{all[:3], all[3:6], all[6:]}},
		{"limit=7", [][]string{all}},
		{"limit=200", [][]string{all}},
		{"", [][]string{all}},
		{"limit=1&search=900013", [][]string{all[3:4]}},
	} {
		var got [][]string
		for _, checks := range pages(a.checks, row.query) {
			got = append(got, ids(checks))
		}

		wantEqual(t, row.pages, got, "%s: pages", row.query)
	}
	if got := a.control(http.MethodGet, "checks?limit=3", ""); got.json["total"] != 7.0 || got.json["dropped"] != 0.0 {
		t.Errorf("checks: %s, want a total of 7", got.body)
	}
}

func TestServer_ControlChecksOldCursor(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	a.create(phoneChecks, `{"phone_number":"447700900012"}`)
	a.create(phoneChecks, `{"phone_number":"447700900012"}`)
	_, next := a.checks("limit=1")

	a.srv.Reset()
	got := a.control(http.MethodGet, "checks?before="+next, "")

	want := map[string]any{"type": "about:blank", "title": "Conflict", "status": 409.0, "detail": "the server was reset after the previous page: request the first page"}
	if diff := cmp.Diff(want, got.json); diff != "" || got.status != http.StatusConflict || got.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("cursor from before a reset: %d (-want +got):\n%s", got.status, diff)
	}
	a.token = a.tokenFor(a.srv.Credentials(), "phone_check")
	first := a.create(phoneChecks, `{"phone_number":"447700900012"}`)
	a.create(phoneChecks, `{"phone_number":"447700900012"}`)
	_, next = a.checks("limit=1")
	if checks, _ := a.checks("before=" + next); len(checks) != 1 || checks[0]["check_id"] != first {
		t.Errorf("second page after a reset = %v, want the first check", checks)
	}
}

// timeline returns a check and its events, as the control plane shows them.
func (a *api) timeline(id string) (check map[string]any, events []map[string]any) {
	a.t.Helper()
	got := a.control(http.MethodGet, "timeline?check_id="+id, "").wantStatus(a.t, http.StatusOK)
	return got.json["check"].(map[string]any), objects(got.json["events"])
}

// kinds returns the kinds of events.
func kinds(events []map[string]any) []string { return textsOf(events, "kind") }

func TestServer_ControlTimeline(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))
	host := a.srv.Handle("app.sandbox.test", new(recordingReceiver))
	id := a.create(phoneChecks02, fmt.Sprintf(`{"phone_number":"447700900012","callback_url":"%s/callbacks","redirect_url":"%s/back"}`, host, host))
	location := a.open(phoneChecks02, id).header.Get("Location")
	a.exchange(phoneChecks02, id, codeOf(t, location))
	waitIdle(t, a.srv)

	check, events := a.timeline(id)

	if diff := cmp.Diff([]string{"created", "opened", "redirected", "exchanged", "completed", "callback_queued", "attempt"}, kinds(events)); diff != "" {
		t.Fatalf("events (-want +got):\n%s", diff)
	}
	requests := a.srv.Requests()
	for i, operation := range map[int]string{0: "phone_check.create", 1: "phone_check.open", 3: "phone_check.complete"} {
		called := func(r sandboxfake.Request) bool { return r.ID == events[i]["request_id"] && r.Operation == operation }
		if !slices.ContainsFunc(requests, called) {
			t.Errorf("%s has the request ID %v, want that of %s", events[i]["kind"], events[i]["request_id"], operation)
		}
	}
	if events[2]["location"] != location {
		t.Errorf("redirected to %v, want %s", events[2]["location"], location)
	}
	if events[4]["status"] != "COMPLETED" || events[4]["match"] != true || check["status"] != "COMPLETED" || check["deliveries"] != 1.0 {
		t.Errorf("completed = %v, check %v, want a match and one delivery", events[4], check)
	}
	delivery := a.srv.Deliveries()[0]
	if events[5]["delivery_id"] != delivery.ID || events[5]["url"] != host+"/callbacks" || events[5]["body"] != string(delivery.Body) {
		t.Errorf("callback_queued = %v, want delivery %s", events[5], delivery.ID)
	}
	attempt := events[6]
	if attempt["number"] != 1.0 || attempt["status"] != 204.0 || attempt["result"] != "acknowledged" || attempt["body"] != string(delivery.Body) || attempt["header"].(map[string]any)["Digest"] == nil {
		t.Errorf("attempt = %v, want the first one with its signed header", attempt)
	}
	if seconds, ok := attempt["duration_seconds"].(float64); !ok || seconds != delivery.Attempts[0].Duration.Seconds() {
		t.Errorf("duration = %v s, want %v", attempt["duration_seconds"], delivery.Attempts[0].Duration)
	}
}

// The times of a check are those of its events.
func TestServer_ControlCheckTimes(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v0.1", "v0.2"} {
		for _, as := range []string{"", "mno_timeout", "offline"} {
			a := newControlAPI(t)
			id := a.controlCreate(`{"version":"` + version + `","phone_number":"447700900012"}`).checkID()
			a.controlOpen(id, as, false)

			check, events := a.timeline(id)

			if created := events[0]; created["kind"] != "created" || created["time"] != check["created_at"] {
				t.Errorf("%s %s: created_at = %v, want the time of %v", version, as, check["created_at"], created)
			}
			if opened := events[1]; as != "offline" && (opened["kind"] != "opened" || opened["time"] != check["opened_at"]) {
				t.Errorf("%s %s: opened_at = %v, want the time of %v", version, as, check["opened_at"], opened)
			}
			if last := events[len(events)-1]; last["time"] != check["updated_at"] {
				t.Errorf("%s %s: updated_at = %v, want the time of %v", version, as, check["updated_at"], last)
			}
		}
	}
}

func TestServer_ControlTimelineRemoved(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	project := a.srv.NewProject(idverify.ProjectParams{Name: "shop", Mode: idverify.ModeSandbox})
	created := must(project.Client().PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012"}))(t)
	noError(t, a.srv.Console().Projects.Delete(t.Context(), project.ProjectID))

	check, events := a.timeline(created.CheckID)

	wantEqual(t, []string{"created", "removed"}, kinds(events), "events")
	if check["check_url"] != nil || check["expires_at"] != nil {
		t.Errorf("check = %v, want no Check URL and no expiry: it can no longer be opened", check)
	}
	a.control(http.MethodGet, "timeline?check_id=x", "").wantProblem(t, http.StatusNotFound, "check_not_found")
}

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
	return a.control(http.MethodPost, "checks", body).wantStatus(a.t, http.StatusOK)
}

// controlOpen opens a Check URL by the control plane and returns its response.
func (a *api) controlOpen(id, as string, follow bool) response {
	a.t.Helper()
	return a.control(http.MethodPost, "open", fmt.Sprintf(`{"check_id":%q,"as":%q,"follow":%v}`, id, as, follow)).wantStatus(a.t, http.StatusOK)
}

// statusOf returns the status of the service's response in a response to POST checks or open.
func (r response) statusOf() any { return r.json["response"].(map[string]any)["status"] }

// checkID returns the ID of the check in a response to POST checks, or "".
func (r response) checkID() string { return r.text("check", "check_id") }

func TestServer_ControlCreateCheck(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, body, path, sent string }{
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
			if last.ClientID != a.srv.Credentials().ClientID || last.Header.Get("Authorization") != "[REDACTED]" || last.Header.Get("User-Agent") != "sandboxfake" {
				t.Errorf("request of client %q with %v, want the initial project's, redacted", last.ClientID, last.Header)
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
	balances := make(map[any]any)
	for _, w := range objects(a.state()["workspaces"]) {
		balances[w["workspace_id"]] = w["balance"]
	}
	if got := balances[account.WorkspaceID]; got != 99.0 {
		t.Errorf("balance = %v, want 99: a live check costs 1", got)
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

	wantEqual(t, []any{201.0, 201.0, 429.0}, statuses, "statuses")
}

func TestServer_ControlDeletedProject(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	project := objects(a.state()["projects"])[0]["project_id"].(string)
	noError(t, a.srv.Console().Projects.Delete(t.Context(), project))

	if credentials := a.state()["credentials"].(map[string]any); credentials["project"] != nil || credentials["workspace"] == nil {
		t.Errorf("credentials = %v, want those of the workspace only", credentials)
	}
	for path, body := range map[string]string{"checks": `{"phone_number":"447700900012"}`, "callbacks": `{"url":"https://app.sandbox.test","body":""}`} {
		got := a.control(http.MethodPost, path, body)

		got.wantProblem(t, http.StatusBadRequest, "bad_request")
		if detail := fmt.Sprint(got.json["detail"]); !strings.HasPrefix(detail, "the initial project was deleted: set ") {
			t.Errorf("%s: detail = %q, want the deleted project", path, detail)
		}
	}
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

// outcomeText returns the result in the body of a callback: status, match, SIM change, and error
// code.
func outcomeText(c *idverify.Callback) string {
	var body struct {
		Match       *bool `json:"match"`
		NoSIMChange *bool `json:"no_sim_change"`
	}
	if err := json.Unmarshal(c.Body, &body); err != nil {
		return err.Error()
	}
	show := func(b *bool) string {
		if b == nil {
			return "-"
		}
		return fmt.Sprint(*b)
	}
	return fmt.Sprintf("%s %s %s %s", c.Status, show(body.Match), show(body.NoSIMChange), c.ErrorCode)
}

// errorCodes are the error codes of checks.
var errorCodes = []string{
	"not_mobile_ip", "mno_not_supported", "mno_timeout", "mno_user_not_found", "mno_response_error",
	"mno_server_error", "mno_no_data_available", "ip_mismatch", "ip_msisdn_mismatch",
}

func TestServer_ControlOutcomes(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)

	got := a.control(http.MethodGet, "outcomes", "")

	want := []any{
		map[string]any{"as": "phone", "status": "COMPLETED", "match": true},
		map[string]any{"as": "other_sim", "status": "COMPLETED", "match": false},
		map[string]any{"as": "offline", "status": "EXPIRED"},
	}
	for _, code := range errorCodes {
		want = append(want, map[string]any{"as": code, "status": "ERROR", "match": false, "error_code": code})
	}
	outcomes, _ := got.json["outcomes"].([]any)
	for _, outcome := range outcomes {
		for _, text := range []string{"title", "description"} {
			if outcome.(map[string]any)[text] == "" {
				t.Errorf("%v has no %s", outcome, text)
			}
			delete(outcome.(map[string]any), text)
		}
	}
	wantEqual(t, want, outcomes, "outcomes")
}

// Every choice, for both products and versions: the callback and the redirect verify, and have the
// chosen result whatever the number.
func TestServer_ControlOpenAs(t *testing.T) {
	t.Parallel()
	type row struct {
		product, number, as string
		want                string // result in the callback
	}
	rows := []row{
		{"phone_check", "447700900012", "", "COMPLETED true - "},
		{"phone_check", "447700900013", "", "COMPLETED false - "},
		{"phone_check", "447700900099", "", "ERROR false - mno_server_error"},
		{"phone_check", "447700900013", "phone", "COMPLETED true - "},
		{"phone_check", "447700900099", "phone", "COMPLETED true - "},
		{"phone_check", "447700900012", "other_sim", "COMPLETED false - "},
		{"phone_check", "447700900012", "offline", "EXPIRED - - "},
		{"subscriber_check", "447700900018", "", "COMPLETED true false "},
		{"subscriber_check", "447700900018", "phone", "COMPLETED true false "},
		{"subscriber_check", "447700900012", "phone", "COMPLETED true true "},
		{"subscriber_check", "447700900013", "phone", "COMPLETED true true "},
		{"subscriber_check", "447700900055", "phone", "COMPLETED true true "},
		{"subscriber_check", "447700900012", "other_sim", "COMPLETED false - "},
		{"subscriber_check", "447700900012", "offline", "EXPIRED - - "},
	}
	for _, code := range errorCodes {
		for _, product := range []string{"phone_check", "subscriber_check"} {
			rows = append(rows, row{product, "447700900012", code, "ERROR false - " + code})
		}
	}
	for _, row := range rows {
		for _, version := range []string{"v0.1", "v0.2"} {
			t.Run(strings.Join([]string{row.product, version, row.number, row.as}, " "), func(t *testing.T) {
				t.Parallel()
				a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))
				a.token = a.tokenFor(a.srv.Credentials(), "phone_check subscriber_check")
				shop := newShop(a.srv)
				id := a.controlCreate(fmt.Sprintf(`{"product":%q,"version":%q,"phone_number":%q,"callback_url":"%s/callbacks","redirect_url":"%s/back"}`, row.product, version, row.number, shop.url, shop.url)).checkID()

				opened := a.controlOpen(id, row.as, true)

				_, redirects := shop.received(t)
				failed := strings.HasPrefix(row.want, "ERROR")
				redirected := version == "v0.2" && row.as != "offline"
				if redirected != (len(redirects) == 1) {
					t.Fatalf("%d redirects verified, want %v", len(redirects), redirected)
				}
				if redirected {
					r := redirects[0]
					if r.CheckID != id || (r.Code == "") != failed || failed && (!strings.HasSuffix(row.want, " "+r.ErrorCode) || r.ErrorDescription == "") {
						t.Errorf("redirect %v, want check %s with a code or the error of %q", r, id, row.want)
					}
					if !failed {
						a.exchange("/"+row.product+"/v0.2/checks", id, r.Code)
					}
				}
				waitIdle(t, a.srv)
				callbacks, _ := shop.received(t)
				if len(callbacks) != 1 || callbacks[0].CheckID != id || string(callbacks[0].Product) != row.product || outcomeText(callbacks[0]) != row.want {
					t.Errorf("%d callbacks, want one with %q", len(callbacks), row.want)
					for _, c := range callbacks {
						t.Logf("got %q", outcomeText(c))
					}
				}
				wantStatus := 200.0
				switch {
				case redirected:
					wantStatus = 302
				case row.as == "not_mobile_ip":
					wantStatus = 412
				case row.as == "offline":
					wantStatus = 0
				}
				if opened.statusOf() != wantStatus {
					t.Errorf("open = %s, want status %v", opened.body, wantStatus)
				}
				_, events := a.timeline(id)
				if as := fmt.Sprint(events[1]["as"]); row.as != "offline" && row.as != "" && as != row.as {
					t.Errorf("timeline shows %v, want as %q", events[1], row.as)
				}
			})
		}
	}
}

func TestServer_ControlOpenHops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, controlOpenHops)
}

func controlOpenHops(t *testing.T) {
	a := newControlAPI(t)
	host := a.srv.Handle("app.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/back":
			http.SetCookie(w, &http.Cookie{Name: "seen", Value: "1"})
			http.Redirect(w, r, "/welcome", http.StatusSeeOther)
		case "/welcome":
			if _, err := r.Cookie("seen"); err != nil {
				w.WriteHeader(http.StatusForbidden)
			}
		case "/loop":
			http.Redirect(w, r, r.URL.String(), http.StatusFound)
		case "/created":
			w.Header().Set("Location", "/welcome")
			w.WriteHeader(http.StatusCreated)
		case "/slow":
			<-r.Context().Done()
		case "/gone":
			http.Redirect(w, r, "https://nowhere.sandbox.test/", http.StatusFound)
		}
	}))
	for _, row := range []struct {
		path   string
		follow bool
		want   []string // path and status
		err    string   // of the last hop
	}{
		{"/back", true, []string{"/redirect 302", "/back 303", "/welcome 200"}, ""},
		{"/back", false, []string{"/redirect 302"}, ""},
		{"/created", true, []string{"/redirect 302", "/created 201"}, ""},
		{"/slow", true, []string{"/redirect 302", "/slow 0"}, "no response in time"},
		{"/gone", true, []string{"/redirect 302", "/gone 302", "/ 0"}, "connection failed"},
		{"/loop", true, append([]string{"/redirect 302"}, slices.Repeat([]string{"/loop 302"}, 20)...), "too many redirects"},
	} {
		id := a.controlCreate(`{"version":"v0.2","phone_number":"447700900012","redirect_url":"` + host + row.path + `"}`).checkID()
		began := time.Now()

		got := a.controlOpen(id, "", row.follow)

		var hops []string
		last := map[string]any{}
		for _, last = range objects(got.json["hops"]) {
			u := must(url.Parse(last["url"].(string)))(t)
			hops = append(hops, fmt.Sprint(u.Path[strings.LastIndex(u.Path, "/"):], " ", last["status"]))
		}
		wantEqual(t, row.want, hops, "%s, follow %v: hops", row.path, row.follow)
		if text, _ := last["error"].(string); row.err == "" && text != "" || !strings.Contains(text, row.err) {
			t.Errorf("%s: error = %q, want %q", row.path, text, row.err)
		}
		if waited := time.Since(began); row.path == "/slow" && waited != 30*time.Second {
			t.Errorf("%s: response after %v, want 30 s", row.path, waited)
		}
		if got.statusOf() != 302.0 || !strings.HasPrefix(fmt.Sprint(got.json["response"].(map[string]any)["location"]), host+row.path+"?check_id="+id) {
			t.Errorf("%s: %s, want status 302 and the redirect URL", row.path, got.body)
		}
	}
	id := a.controlCreate(`{"phone_number":"447700900012"}`).checkID()
	if hops := a.controlOpen(id, "", true).json["hops"].([]any); len(hops) != 1 {
		t.Errorf("hops of a Check URL that does not redirect = %v, want one", hops)
	}
}

func TestServer_ControlOpenIsACall(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	id := a.controlCreate(`{"phone_number":"447700900012"}`).checkID()
	a.srv.Inject(sandboxfake.Match{Operation: "phone_check.open"}, sandboxfake.Fault{Status: 503})

	failed := a.controlOpen(id, "other_sim", false)
	opened := a.controlOpen(id, "", false)
	again := a.controlOpen(id, "", false)

	if failed.statusOf() != 503.0 || opened.statusOf() != 200.0 || again.statusOf() != 404.0 {
		t.Errorf("statuses %v, %v, %v, want 503 of the fault, 200, and 404 because it was opened", failed.statusOf(), opened.statusOf(), again.statusOf())
	}
	if check := a.get(phoneChecks + "/" + id); check.json["match"] != true {
		t.Errorf("check = %s, want a match: the choice of a call that failed must have no effect", check.body)
	}
	if n := len(a.srv.Requests()); n != 6 { // token, create, open three times, read
		t.Errorf("journal has %d requests, want 6", n)
	}
}

func TestServer_ControlOpenTakesPrecedence(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithOutcomeFunc(func(idverify.Product, string) sandboxfake.Outcome {
		return sandboxfake.Outcome{Status: idverify.StatusError, ErrorCode: "mno_timeout"}
	}))
	project := a.srv.NewProject(idverify.ProjectParams{Name: "live", Mode: idverify.ModeLive})
	create := func() string {
		return a.controlCreate(`{"phone_number":"447700900013","project_id":"` + project.ProjectID + `"}`).checkID()
	}
	byFunc, chosen := create(), create()

	a.controlOpen(byFunc, "", false)
	a.controlOpen(chosen, "phone", false)

	checks, _ := a.checks("")
	if checks[0]["status"] != "COMPLETED" || checks[0]["match"] != true || checks[1]["status"] != "ERROR" || checks[1]["error_code"] != "mno_timeout" {
		t.Errorf("checks = %v, want the chosen result, and that of WithOutcomeFunc", checks)
	}
}

func TestServer_ControlOpenInvalid(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	sim := a.controlCreate(`{"product":"sim_check","phone_number":"447700900012"}`).checkID()
	expired := a.controlCreate(`{"phone_number":"447700900012"}`).checkID()
	a.srv.Expire(expired)

	a.control(http.MethodPost, "open", `{"check_id":"x"}`).wantProblem(t, http.StatusNotFound, "check_not_found")
	a.control(http.MethodPost, "open", `{"check_id":"`+sim+`"}`).wantProblem(t, http.StatusBadRequest, "bad_request")
	a.control(http.MethodPost, "open", `{"check_id":"`+expired+`","as":"offline"}`).wantProblem(t, http.StatusNotFound, "check_not_found")
	if got := a.controlOpen(expired, "phone", true); got.statusOf() != 404.0 {
		t.Errorf("opening an expired check = %s, want the service's 404", got.body)
	}
}
