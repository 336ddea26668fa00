package sandboxfake_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

const subscriberChecks02 = "/subscriber_check/v0.2/checks"

// checks returns a page of the checks in the control plane.
func (a *api) checks(query string) (checks []map[string]any, next string) {
	a.t.Helper()
	got := a.control(http.MethodGet, "checks?"+query, "")
	if got.status != http.StatusOK {
		a.t.Fatalf("checks?%s: %d %s", query, got.status, got.body)
	}
	for _, check := range got.json["checks"].([]any) {
		checks = append(checks, check.(map[string]any))
	}
	next, _ = got.json["next"].(string)
	return checks, next
}

// ids returns the check IDs of a page.
func ids(checks []map[string]any) []string {
	found := []string{}
	for _, check := range checks {
		found = append(found, check["check_id"].(string))
	}
	return found
}

func TestServer_ControlChecks(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))
	project := a.state()["projects"].([]any)[0].(map[string]any)["project_id"]
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

		if diff := cmp.Diff(row.want, ids(checks)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.query, diff)
		}
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
		var pages [][]string
		for next := ""; ; {
			query := row.query
			if next != "" {
				query += "&before=" + next
			}
			checks, following := a.checks(query)
			pages = append(pages, ids(checks))
			if next = following; next == "" || len(pages) > 7 {
				break
			}
		}

		if diff := cmp.Diff(row.pages, pages); diff != "" {
			t.Errorf("%s: pages (-want +got):\n%s", row.query, diff)
		}
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

	if got.status != http.StatusConflict || got.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("cursor from before a reset: %d %s, want a problem with status 409", got.status, got.body)
	}
}

// timeline returns the timeline of a check as lines of kind and details.
func (a *api) timeline(id string) (check map[string]any, events []map[string]any) {
	a.t.Helper()
	got := a.control(http.MethodGet, "timeline?check_id="+id, "")
	if got.status != http.StatusOK {
		a.t.Fatalf("timeline: %d %s", got.status, got.body)
	}
	for _, e := range got.json["events"].([]any) {
		events = append(events, e.(map[string]any))
	}
	return got.json["check"].(map[string]any), events
}

// kinds returns the kinds of events.
func kinds(events []map[string]any) []string {
	var found []string
	for _, e := range events {
		found = append(found, e["kind"].(string))
	}
	return found
}

func TestServer_ControlTimeline(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))
	var receiver recordingReceiver
	host := a.srv.Handle("app.sandbox.test", &receiver)
	id := a.create(phoneChecks02, fmt.Sprintf(`{"phone_number":"447700900012","callback_url":"%s/callbacks","redirect_url":"%s/back"}`, host, host))
	location := a.open(phoneChecks02, id).header.Get("Location")
	a.exchange(phoneChecks02, id, codeOf(t, location))
	if err := a.srv.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}

	check, events := a.timeline(id)

	if diff := cmp.Diff([]string{"created", "opened", "redirected", "exchanged", "completed", "callback_queued", "attempt"}, kinds(events)); diff != "" {
		t.Fatalf("events (-want +got):\n%s", diff)
	}
	requests := a.srv.Requests()
	for i, operation := range map[int]string{0: "phone_check.create", 1: "phone_check.open", 3: "phone_check.complete"} {
		found := false
		for _, r := range requests {
			found = found || r.ID == events[i]["request_id"] && r.Operation == operation
		}
		if !found {
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
		a := newControlAPI(t)
		id := a.controlCreate(`{"version":"` + version + `","phone_number":"447700900012"}`).checkID()
		a.controlOpen(id, "", false)

		check, events := a.timeline(id)

		if created := events[0]; created["kind"] != "created" || created["time"] != check["created_at"] {
			t.Errorf("%s: created_at = %v, want the time of %v", version, check["created_at"], created)
		}
		if opened := events[1]; opened["kind"] != "opened" || opened["time"] != check["opened_at"] {
			t.Errorf("%s: opened_at = %v, want the time of %v", version, check["opened_at"], opened)
		}
		if last := events[len(events)-1]; last["time"] != check["updated_at"] {
			t.Errorf("%s: updated_at = %v, want the time of %v", version, check["updated_at"], last)
		}
	}
}

func TestServer_ControlTimelineUnknown(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)

	got := a.control(http.MethodGet, "timeline?check_id=x", "")

	got.wantProblem(t, http.StatusNotFound, "check_not_found")
}

func TestServer_ControlTimelineRemoved(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	project := a.srv.NewProject(idverify.ProjectParams{Name: "shop", Mode: idverify.ModeSandbox})
	created, err := project.Client().PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012"})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.srv.Console().Projects.Delete(t.Context(), project.ProjectID); err != nil {
		t.Fatal(err)
	}

	check, events := a.timeline(created.CheckID)

	if diff := cmp.Diff([]string{"created", "removed"}, kinds(events)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if check["check_url"] != nil || check["expires_at"] != nil {
		t.Errorf("check = %v, want no Check URL and no expiry: it can no longer be opened", check)
	}
}
