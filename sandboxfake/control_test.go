package sandboxfake_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// control sends a request with the control token to the control plane, and body as JSON.
func (a *api) control(method, path, body string) response {
	a.t.Helper()
	request := a.request(method, "/_sandbox/"+path, body)
	request.Header.Set("Authorization", "Bearer "+a.srv.ControlToken())
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	return a.do(request)
}

// newControlAPI returns an api of an in-memory server with a control plane.
func newControlAPI(t testing.TB, opts ...sandboxfake.Option) *api {
	t.Helper()
	return newAPI(t, sandboxfake.New(t, append([]sandboxfake.Option{sandboxfake.WithInMemory(), sandboxfake.WithControl(sandboxfake.ControlOptions{})}, opts...)...))
}

func TestServer_ControlOffByDefault(t *testing.T) {
	t.Parallel()
	a := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory()))

	got := a.call(http.MethodGet, "/_sandbox/time", "")

	if got.status != http.StatusNotFound {
		t.Errorf("/_sandbox/time without WithControl = %d, want 404", got.status)
	}
}

func TestServer_ControlHelp(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)

	help := a.do(a.request(http.MethodGet, "/_sandbox/", ""))

	if help.status != http.StatusOK || !strings.HasPrefix(help.header.Get("Content-Type"), "text/plain") {
		t.Fatalf("help = %d %s, want 200 text/plain", help.status, help.header.Get("Content-Type"))
	}
	for _, path := range []string{"health", "operations", "state", "checks", "open", "timeline", "callbacks", "time", "advance", "expire", "dates", "idle", "faults", "deliveries", "redeliver", "requests", "signup", "keys", "reset"} {
		if !strings.Contains(string(help.body), "/_sandbox/"+path+"\n") {
			t.Errorf("help does not list %s", path)
		}
	}
}

func TestServer_ControlAdvance(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))
	id := a.create(phoneChecks, `{"phone_number":"447700900012"}`)

	advanced := a.control(http.MethodPost, "advance", `{"seconds":120.5}`)

	want := frozenAt.Add(120500 * time.Millisecond).Format(time.RFC3339Nano)
	if advanced.status != http.StatusOK || advanced.json["now"] != want {
		t.Errorf("advance: %d %s, want now %s", advanced.status, advanced.body, want)
	}
	if now := a.control(http.MethodGet, "time", ""); now.json["now"] != want {
		t.Errorf("time: %s, want %s", now.body, want)
	}
	if got := a.get(phoneChecks + "/" + id); got.status != http.StatusNotFound {
		t.Errorf("check after 120 s = %d, want 404 because it has expired", got.status)
	}
}

func TestServer_ControlFaults(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	injected := a.control(http.MethodPost, "faults", `{"match":{"operation":"phone_check.list","repeat":true},"faults":[{"status":429,"retry_after_seconds":7},{}]}`)
	if injected.status != http.StatusNoContent {
		t.Fatalf("inject: %d %s", injected.status, injected.body)
	}

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
	if diff := cmp.Diff(want, inForce.json); diff != "" {
		t.Errorf("active faults (-want +got):\n%s", diff)
	}
}

func TestServer_ControlDeliveries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newControlAPI(t)
		var receiver recordingReceiver
		target := a.srv.Handle("app.sandbox.test", &receiver)
		id := a.completeCheck(target + "/callbacks")

		delivered := a.control(http.MethodGet, "deliveries?wait_seconds=60&check_id="+id, "")
		delivery := delivered.json["deliveries"].([]any)[0].(map[string]any)
		again := a.control(http.MethodPost, "redeliver", `{"delivery_id":"`+delivery["delivery_id"].(string)+`"}`)
		idle := a.control(http.MethodPost, "idle", "")

		if delivery["check_id"] != id || delivery["done"] != true || delivery["acknowledged"] != true || delivery["product"] != "phone_check" || delivery["status"] != "COMPLETED" {
			t.Errorf("delivery = %v, want the check's, acknowledged", delivery)
		}
		if attempts := delivery["attempts"].([]any); len(attempts) != 1 || attempts[0].(map[string]any)["status"] != 204.0 {
			t.Errorf("attempts = %v, want one with status 204", attempts)
		}
		deliveries := a.srv.Deliveries()
		if len(deliveries) != 2 || again.json["delivery_id"] != deliveries[1].ID {
			t.Errorf("redeliver = %s, want the ID of the second of %d deliveries", again.body, len(deliveries))
		}
		if again.status != http.StatusOK || idle.status != http.StatusNoContent || receiver.count() != 2 {
			t.Errorf("redeliver %d, idle %d, receiver got %d callbacks, want 200, 204 and 2", again.status, idle.status, receiver.count())
		}
	})
}

func TestServer_ControlDeliveryTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newControlAPI(t)

		got := a.control(http.MethodGet, "deliveries?wait_seconds=30&check_id=none", "")

		if diff := cmp.Diff(map[string]any{"deliveries": []any{}, "dropped": 0.0}, got.json); got.status != http.StatusOK || diff != "" {
			t.Errorf("%d (-want +got):\n%s", got.status, diff)
		}
	})
}

func TestServer_ControlRequests(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	a.create(phoneChecks, `{"phone_number":"447700900012"}`)

	got := a.control(http.MethodGet, "requests?operation=phone_check.create", "")

	requests := got.json["requests"].([]any)
	if len(requests) != 1 {
		t.Fatalf("journal has %d creates, want 1: %s", len(requests), got.body)
	}
	if r := requests[0].(map[string]any); r["status"] != 201.0 || r["path"] != phoneChecks || r["body"] != `{"phone_number":"447700900012"}` || r["client_id"] != a.srv.Credentials().ClientID {
		t.Errorf("request in the journal = %v, want the create", r)
	}
	if strings.Contains(string(got.body), a.token) || strings.Contains(string(got.body), a.srv.Credentials().ClientSecret.Reveal()) {
		t.Error("the journal contains a token or a secret")
	}
}

func TestServer_ControlRotateKeys(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		opts []sandboxfake.Option
	}{
		{"fixed keys", nil},
		{"fresh keys", []sandboxfake.Option{sandboxfake.WithFreshKeys()}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			a := newControlAPI(t, row.opts...)

			rotated := a.control(http.MethodPost, "keys", "")

			keys := a.get("/.well-known/jwks.json").json["keys"].([]any)
			if len(keys) != 2 || keys[1].(map[string]any)["kid"] != rotated.json["key_id"] || keys[0].(map[string]any)["n"] == keys[1].(map[string]any)["n"] {
				t.Errorf("key set = %v, want the old key and %v", keys, rotated.json["key_id"])
			}
		})
	}
}

func TestServer_ControlSignUp(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	invitation, err := a.srv.Console().Invitations.Create(t.Context(), idverify.InvitationParams{Name: "Ada", Role: idverify.RoleViewer})
	if err != nil {
		t.Fatal(err)
	}

	account := a.control(http.MethodPost, "signup", `{"name":"Ada","invitation_ids":["`+invitation.InvitationID+`"]}`)

	credentials, _ := account.json["credentials"].(map[string]any)
	joined, _ := account.json["joined"].([]any)
	if account.status != http.StatusOK || account.json["role"] != "OWNER" || len(joined) != 1 || joined[0].(map[string]any)["role"] != "VIEWER" {
		t.Fatalf("sign-up: %d %s, want an owner who joined as viewer", account.status, account.body)
	}
	a.token = a.tokenFor(idverify.Credentials{ClientID: credentials["client_id"].(string), ClientSecret: idverify.NewSecret(credentials["client_secret"].(string))}, "workspaces")
	if got := a.get("/console/v0.1/workspaces"); got.status != http.StatusOK || got.json["page"].(map[string]any)["total_elements"] != 2.0 {
		t.Errorf("Ada's workspaces: %d %s, want two", got.status, got.body)
	}
}

func TestServer_ControlReset(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	a.create(phoneChecks, `{"phone_number":"447700900012"}`)

	reset := a.control(http.MethodPost, "reset", "")

	if reset.status != http.StatusNoContent || len(a.srv.Requests()) != 0 {
		t.Errorf("reset = %d with %d requests left, want 204 and none", reset.status, len(a.srv.Requests()))
	}
	if got := a.get(phoneChecks); got.status != http.StatusUnauthorized {
		t.Errorf("status with a token from before the reset = %d, want 401", got.status)
	}
}

func TestServer_ControlIdleCanceled(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	received := make(chan struct{})
	release := make(chan struct{})
	target := a.srv.Handle("app.sandbox.test", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(received)
		<-release
	}))
	defer close(release)
	a.completeCheck(target)
	<-received
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	request := a.request(http.MethodPost, "/_sandbox/idle", "").WithContext(ctx)
	request.Header.Set("Authorization", "Bearer "+a.srv.ControlToken())
	request.Header.Set("Content-Type", "application/json")

	go func() {
		response, err := a.srv.HTTPClient().Do(request)
		if err == nil {
			io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
		done <- err
	}()
	cancel()

	if err := <-done; err == nil {
		t.Error("idle returned while a callback was in flight, want the context's error")
	}
}

func TestServer_ControlFaultsOfOwner(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	state := a.state()
	project := state["projects"].([]any)[0].(map[string]any)["project_id"].(string)
	workspace := state["workspaces"].([]any)[0].(map[string]any)["workspace_id"].(string)

	got := a.control(http.MethodPost, "faults", `{"match":{"project":"`+project+`","workspace":"`+workspace+`"},"faults":[{"status":503}]}`)

	if failed := a.get(phoneChecks); got.status != http.StatusNoContent || failed.status != http.StatusServiceUnavailable {
		t.Errorf("injection %d %s, call %d, want 204 and 503", got.status, got.body, failed.status)
	}
}
