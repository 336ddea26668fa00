package sandboxfake_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestServer_ControlFaults(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	a.control(http.MethodPost, "faults", `{"match":{"operation":"phone_check.list","repeat":true},"faults":[{"status":429,"retry_after_seconds":7},{}]}`).wantStatus(t, http.StatusNoContent)

	first, second := a.get(phoneChecks), a.get(phoneChecks)
	inForce := a.control(http.MethodGet, "faults", "")
	a.control(http.MethodDelete, "faults", "")
	third := a.get(phoneChecks)

	if first.status != http.StatusTooManyRequests || first.header.Get("Retry-After") != "7" || second.status != http.StatusOK || third.status != http.StatusOK {
		t.Errorf("statuses %d (Retry-After %s), %d, %d, want 429 (7), then 200, then 200 after the faults were removed", first.status, first.header.Get("Retry-After"), second.status, third.status)
	}
	want := map[string]any{"injections": []any{map[string]any{
		"match":  map[string]any{"operation": "phone_check.list", "repeat": true},
		"faults": []any{map[string]any{"status": 429.0, "retry_after_seconds": 7.0}, map[string]any{}},
		"left":   2.0,
	}}}
	wantEqual(t, want, inForce.json, "active faults")
}

// A fault has the fields with which it was injected.
func TestServer_ControlFaultFields(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	const faults = `[{"status":503,"code":"unavailable","retry_after_seconds":1.5,"latency_seconds":0.001},{"body":"[]"},{"drop":true},{"truncate":true},{"wrong_key":true}]`
	var want []any
	noError(t, json.Unmarshal([]byte(faults), &want))

	a.control(http.MethodPost, "faults", `{"match":{"operation":"phone_check.list"},"faults":`+faults+`}`).wantStatus(t, http.StatusNoContent)
	a.get(phoneChecks)
	got := a.control(http.MethodGet, "faults", "")

	injection := objects(got.json["injections"])[0]
	if diff := cmp.Diff(want, injection["faults"]); diff != "" || injection["left"] != 4.0 {
		t.Errorf("%v left of the faults, want 4 (-want +got):\n%s", injection["left"], diff)
	}
}

func TestServer_ControlFaultsOfOwner(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	state := a.state()
	project := objects(state["projects"])[0]["project_id"].(string)
	workspace := objects(state["workspaces"])[0]["workspace_id"].(string)

	got := a.control(http.MethodPost, "faults", `{"match":{"project":"`+project+`","workspace":"`+workspace+`"},"faults":[{"status":503}]}`)

	if failed := a.get(phoneChecks); got.status != http.StatusNoContent || failed.status != http.StatusServiceUnavailable {
		t.Errorf("injection %d %s, call %d, want 204 and 503", got.status, got.body, failed.status)
	}
}

func TestServer_ControlOperations(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)

	names := textsOf(objects(a.control(http.MethodGet, "operations", "").json["operations"]), "operation")

	for _, name := range names {
		// Faults accept each name.
		if got := a.control(http.MethodPost, "faults", `{"match":{"operation":"`+name+`"},"faults":[{}]}`); got.status != http.StatusNoContent {
			t.Errorf("inject a fault for %s: %d %s, want 204", name, got.status, got.body)
		}
	}
	for _, want := range []string{"phone_check.create", "token.create", "callback"} {
		if !slices.Contains(names, want) {
			t.Errorf("operation %s is not listed", want)
		}
	}
}
