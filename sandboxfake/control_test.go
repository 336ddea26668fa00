package sandboxfake_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
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
	return newAPI(t, sandboxfake.New(t, append([]sandboxfake.Option{sandboxfake.WithInMemory(), sandboxfake.WithControlPlane()}, opts...)...))
}

func TestServer_ControlOffByDefault(t *testing.T) {
	t.Parallel()
	a := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory()))

	got := a.call(http.MethodGet, "/_sandbox/time", "")

	if got.status != http.StatusNotFound {
		t.Errorf("/_sandbox/time without WithControlPlane = %d, want 404", got.status)
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
		if again.status != http.StatusNoContent || idle.status != http.StatusNoContent || receiver.count() != 2 {
			t.Errorf("redeliver %d, idle %d, receiver got %d callbacks, want 204, 204 and 2", again.status, idle.status, receiver.count())
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

// goIdentifier matches names that a caller in another language does not know: this package and its
// exported names, and terms of encoding/json and context.
var goIdentifier = regexp.MustCompile(`sandboxfake|json:|Go |struct|float64|context|\bnil\b|[a-z][A-Z]|\b[A-Z][a-z]+[A-Z]`)

func TestServer_ControlRejectsInvalidCalls(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))
	for _, row := range []struct {
		name, method, path, body string
		status                   int
	}{
		{"unknown path", http.MethodGet, "nothing", "", 404},
		{"wrong method", http.MethodGet, "reset", "", 405},
		{"empty body", http.MethodPost, "advance", "", 400},
		{"truncated body", http.MethodPost, "advance", `{"seconds":`, 400},
		{"two bodies", http.MethodPost, "advance", `{"seconds":1}{"seconds":1}`, 400},
		{"not JSON", http.MethodPost, "advance", `seconds`, 400},
		{"another JSON type", http.MethodPost, "advance", `[]`, 400},
		{"missing seconds", http.MethodPost, "advance", `{}`, 400},
		{"seconds as string", http.MethodPost, "advance", `{"seconds":"1"}`, 400},
		{"negative seconds", http.MethodPost, "advance", `{"seconds":-1}`, 400},
		{"infinite seconds", http.MethodPost, "advance", `{"seconds":1e300}`, 400},
		{"unknown field", http.MethodPost, "advance", `{"seconds":1,"minutes":1}`, 400},
		{"unknown operation", http.MethodPost, "faults", `{"match":{"operation":"phone_check.crate"},"faults":[{"drop":true}]}`, 400},
		{"check ID for a call", http.MethodPost, "faults", `{"match":{"operation":"phone_check.open","check_id":"x"},"faults":[{"drop":true}]}`, 400},
		{"no faults", http.MethodPost, "faults", `{"match":{}}`, 400},
		{"null fault", http.MethodPost, "faults", `{"faults":[null]}`, 400},
		{"contradictory fault", http.MethodPost, "faults", `{"faults":[{"drop":true,"truncate":true}]}`, 400},
		{"fault with invalid status", http.MethodPost, "faults", `{"faults":[{"status":100}]}`, 400},
		{"negative latency", http.MethodPost, "faults", `{"faults":[{"latency_seconds":-1}]}`, 400},
		{"latency on a frozen clock", http.MethodPost, "faults", `{"faults":[{"latency_seconds":1}]}`, 400},
		{"fragment without status", http.MethodPost, "faults", `{"faults":[{"fragment":"not_found"}]}`, 400},
		{"match of the wrong type", http.MethodPost, "faults", `{"match":{"operation":1},"faults":[{}]}`, 400},
		{"unknown check", http.MethodPost, "expire", `{"check_id":"x"}`, 404},
		{"unknown delivery", http.MethodPost, "redeliver", `{"delivery_id":"x"}`, 400},
		{"sign-up without a name", http.MethodPost, "signup", `{}`, 400},
		{"sign-up with unknown invitation", http.MethodPost, "signup", `{"name":"Ada","invitation_ids":["x"]}`, 400},
		{"wait that is not a number", http.MethodGet, "deliveries?check_id=x&wait_seconds=soon", "", 400},
		{"wait of NaN", http.MethodGet, "deliveries?check_id=x&wait_seconds=NaN", "", 400},
		{"wait without check ID", http.MethodGet, "deliveries?wait_seconds=1", "", 400},
		{"empty wait", http.MethodGet, "deliveries?check_id=x&wait_seconds=", "", 400},
		{"wait over the limit", http.MethodGet, "deliveries?check_id=x&wait_seconds=601", "", 400},
		{"unknown query parameter", http.MethodGet, "deliveries?check_id=x&wait_second=10", "", 400},
		{"query parameter of another operation", http.MethodGet, "requests?check_id=x", "", 400},
		{"query of an operation without parameters", http.MethodPost, "idle?wait_seconds=1", "", 400},
		{"malformed query", http.MethodGet, "requests?operation=%zz", "", 400},
		{"body too large", http.MethodPost, "advance", `{"seconds":1` + strings.Repeat(" ", 64<<10) + `}`, 400},
	} {
		got := a.control(row.method, row.path, row.body)

		if got.status != row.status {
			t.Errorf("%s: %d %s, want %d", row.name, got.status, got.body, row.status)
		}
		if got.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: Content-Type = %s, want application/problem+json", row.name, got.header.Get("Content-Type"))
		}
		if found := goIdentifier.FindString(fmt.Sprint(got.json["detail"])); found != "" {
			t.Errorf("%s: detail %q contains %q, which a caller in another language does not know", row.name, got.json["detail"], found)
		}
	}
	if !a.srv.Now().Equal(frozenAt) {
		t.Error("a rejected advance moved the clock")
	}
	if got := a.control(http.MethodGet, "faults", ""); len(got.json["injections"].([]any)) != 0 {
		t.Errorf("a rejected fault was injected: %s", got.body)
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

func FuzzControlBody(f *testing.F) {
	for _, seed := range []string{`{"seconds":1}`, `{"match":{"operation":"callback"},"faults":[{"status":500}]}`, `{"faults":[null]}`, `[]`, `{"seconds":1e999}`, `{"phone_number":"447700900012","product":"subscriber_check","version":"v0.2","period":60}`, `{"check_id":"x","as":"phone","follow":true}`, `{"url":"https://app.sandbox.test","body":"{}","product":"phone_check"}`, "\x00", ``} {
		f.Add(seed)
	}
	srv := sandboxfake.New(f, sandboxfake.WithInMemory(), sandboxfake.WithControlPlane())
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range []string{"advance", "callbacks", "checks", "dates", "expire", "faults", "open", "redeliver", "reset", "signup"} {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/_sandbox/"+path, strings.NewReader(body))
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Authorization", "Bearer "+srv.ControlToken())
			request.RemoteAddr = "127.0.0.1:5000"
			recorder := httptest.NewRecorder()

			sandboxfake.Serve(srv, recorder, request)

			if recorder.Code >= 500 {
				t.Errorf("%s with %q = %d, want a status below 500", path, body, recorder.Code)
			}
			if recorder.Code >= 400 && !json.Valid(recorder.Body.Bytes()) {
				t.Errorf("%s with %q: response = %q, want a problem document", path, body, recorder.Body)
			}
		}
	})
}
