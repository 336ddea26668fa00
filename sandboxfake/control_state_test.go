package sandboxfake_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// state returns the state of the server, as the control plane shows it.
func (a *api) state() map[string]any {
	a.t.Helper()
	got := a.control(http.MethodGet, "state", "")
	if got.status != http.StatusOK {
		a.t.Fatalf("state: %d %s", got.status, got.body)
	}
	return got.json
}

func TestServer_ControlState(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))
	project, owner := a.srv.Credentials(), a.srv.ConsoleCredentials()

	got := a.state()

	rfc := func(at time.Time) string { return at.Format(time.RFC3339Nano) }
	workspace := got["workspaces"].([]any)[0].(map[string]any)["workspace_id"]
	shown := got["projects"].([]any)[0].(map[string]any)["project_id"]
	want := map[string]any{
		"url": a.srv.URL(), "generation": 0.0, "revision": got["revision"], "now": rfc(frozenAt), "frozen": true, "dates": "sandbox",
		"callback_header": "x-service-callback",
		"keys":            []any{map[string]any{"key_id": a.keyIDs()[0], "signing": true}},
		"workspaces":      []any{map[string]any{"workspace_id": workspace, "name": "Sandbox workspace", "currency": "API", "balance": 100.0}},
		"projects": []any{map[string]any{
			"project_id": shown, "workspace_id": workspace, "name": "Sandbox project", "mode": "sandbox",
			"phone_check": map[string]any{}, "subscriber_check": map[string]any{},
		}},
		"workspaces_total": 1.0, "projects_total": 1.0,
		"credentials": map[string]any{
			"project":   map[string]any{"client_id": project.ClientID, "client_secret": project.ClientSecret.Reveal(), "project_id": shown},
			"workspace": map[string]any{"client_id": owner.ClientID, "client_secret": owner.ClientSecret.Reveal(), "workspace_id": workspace},
		},
		"checks":     map[string]any{"total": 0.0, "dropped": 0.0},
		"requests":   map[string]any{"total": 1.0, "dropped": 0.0},
		"deliveries": map[string]any{"total": 0.0, "dropped": 0.0},
		"in_flight":  0.0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}

func TestServer_ControlStateChanges(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))
	before := a.state()

	a.create(phoneChecks, `{"phone_number":"447700900012"}`)
	a.srv.RotateKeys()
	a.srv.NewProject(idverify.ProjectParams{Name: "shop", Mode: idverify.ModeLive, CallbackURL: "https://shop.sandbox.test/all", PhoneCheck: idverify.ProductURLs{RedirectURL: "https://shop.sandbox.test/back"}})
	after := a.state()

	if before["revision"].(float64) >= after["revision"].(float64) {
		t.Errorf("revision %v after the changes, %v before, want it to increase", after["revision"], before["revision"])
	}
	if diff := cmp.Diff(map[string]any{"total": 1.0, "dropped": 0.0}, after["checks"]); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
	if want := frozenAt.Add(2 * time.Minute).Format(time.RFC3339Nano); after["next_event"] != want {
		t.Errorf("next event = %v, want the expiry of the check at %s", after["next_event"], want)
	}
	keys := after["keys"].([]any)
	if len(keys) != 2 || keys[0].(map[string]any)["signing"] != false || keys[0].(map[string]any)["expires_at"] != frozenAt.Add(5*time.Minute).Format(time.RFC3339Nano) || keys[1].(map[string]any)["signing"] != true || keys[1].(map[string]any)["expires_at"] != nil {
		t.Errorf("keys = %v, want the retired one, which expires in 5 minutes, and the signing one", keys)
	}
	project := after["projects"].([]any)[1].(map[string]any)
	if diff := cmp.Diff(map[string]any{"redirect_url": "https://shop.sandbox.test/back"}, project["phone_check"]); diff != "" || project["mode"] != "live" || project["callback_url"] != "https://shop.sandbox.test/all" {
		t.Errorf("second project = %v, want the live one with its URLs", project)
	}
}

func TestServer_ControlStateReset(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	a.create(phoneChecks, `{"phone_number":"447700900012"}`)

	a.srv.Reset()
	got := a.state()

	if got["generation"] != 1.0 || got["checks"].(map[string]any)["total"] != 0.0 {
		t.Errorf("generation %v with checks %v after a reset, want 1 without checks", got["generation"], got["checks"])
	}
}

func TestServer_ControlStateLimit(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	for range 110 {
		a.srv.NewWorkspace("Shop").NewProject(idverify.ProjectParams{Name: "shop", Mode: idverify.ModeSandbox})
	}

	got := a.state()

	if w, p := len(got["workspaces"].([]any)), len(got["projects"].([]any)); w != 100 || p != 100 {
		t.Errorf("%d workspaces and %d projects, want 100 of each", w, p)
	}
	if got["workspaces_total"] != 111.0 || got["projects_total"] != 111.0 {
		t.Errorf("totals %v and %v, want 111", got["workspaces_total"], got["projects_total"])
	}
}

func TestServer_ControlStateCredentials(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	credentials := a.state()["credentials"].(map[string]any)
	projectID := credentials["project"].(map[string]any)["project_id"].(string)

	if err := a.srv.Console().Projects.Delete(t.Context(), projectID); err != nil {
		t.Fatal(err)
	}
	credentials = a.state()["credentials"].(map[string]any)

	if credentials["project"] != nil || credentials["workspace"] == nil {
		t.Errorf("credentials = %v, want those of the workspace only: the project was deleted", credentials)
	}
}
