package sandboxfake_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/sandboxfake"
)

// goIdentifier matches names that a caller in another language does not know: this package and its
// exported names, and terms of encoding/json and context.
var goIdentifier = regexp.MustCompile(`sandboxfake|json:|Go |struct|float64|context|\bnil\b|[a-z][A-Z]|\b[A-Z][a-z]+[A-Z]`)

// invalidControlCall is a call of the control plane that is rejected with the status.
type invalidControlCall struct {
	name, method, path, body string
	status                   int
}

func invalidControlCalls() []invalidControlCall {
	return []invalidControlCall{
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
		{"unknown project", http.MethodPost, "faults", `{"match":{"project":"x"},"faults":[{"drop":true}]}`, 400},
		{"unknown workspace", http.MethodPost, "faults", `{"match":{"workspace":"x"},"faults":[{"drop":true}]}`, 400},
		{"no faults", http.MethodPost, "faults", `{"match":{}}`, 400},
		{"null fault", http.MethodPost, "faults", `{"faults":[null]}`, 400},
		{"contradictory fault", http.MethodPost, "faults", `{"faults":[{"drop":true,"truncate":true}]}`, 400},
		{"fault with invalid status", http.MethodPost, "faults", `{"faults":[{"status":100}]}`, 400},
		{"negative latency", http.MethodPost, "faults", `{"faults":[{"latency_seconds":-1}]}`, 400},
		{"latency on a frozen clock", http.MethodPost, "faults", `{"faults":[{"latency_seconds":1}]}`, 400},
		{"code without status", http.MethodPost, "faults", `{"faults":[{"code":"not_found"}]}`, 400},
		{"match of the wrong type", http.MethodPost, "faults", `{"match":{"operation":1},"faults":[{}]}`, 400},
		{"unknown check", http.MethodPost, "expire", `{"check_id":"x"}`, 404},
		{"unknown delivery", http.MethodPost, "redeliver", `{"delivery_id":"x"}`, 404},
		{"missing delivery", http.MethodPost, "redeliver", `{}`, 400},
		{"missing check to expire", http.MethodPost, "expire", `{}`, 400},
		{"empty check to expire", http.MethodPost, "expire", `{"check_id":""}`, 400},
		{"missing check to open", http.MethodPost, "open", `{"as":"offline"}`, 400},
		{"empty check to open", http.MethodPost, "open", `{"check_id":""}`, 400},
		{"timeline of no check", http.MethodGet, "timeline", "", 400},
		{"timeline of an empty check", http.MethodGet, "timeline?check_id=", "", 400},
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
	}
}

// The detail does not depend on the version of Go.
func TestServer_ControlBodyProblems(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))
	for _, row := range []struct{ path, body, want string }{
		{"checks", `{"period":"x"}`, "the field period has the wrong type"},
		{"faults", `{"faults":[{"drop":true},{"status":"x"}]}`, "the field faults.status has the wrong type"},
		{"signup", `{"name":"Ada","invitation_ids":["x",7]}`, "the field invitation_ids has the wrong type"},
		{"advance", `{"seconds":"x"}`, "the field seconds has the wrong type"},
		{"advance", `{"seconds":1e400}`, "a value in the body is not valid"},
		{"advance", `[]`, "the body has the wrong JSON type"},
	} {
		if got := a.control(http.MethodPost, row.path, row.body); got.status != http.StatusBadRequest || got.json["detail"] != row.want {
			t.Errorf("%s %s: %d %s, want 400: %s", row.path, row.body, got.status, got.body, row.want)
		}
	}
}

func TestServer_ControlRejectsInvalidCalls(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))
	for _, row := range invalidControlCalls() {
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

func FuzzControlBody(f *testing.F) {
	for _, seed := range []string{`{"seconds":1}`, `{"match":{"operation":"callback"},"faults":[{"status":500}]}`, `{"faults":[null]}`, `[]`, `{"seconds":1e999}`, `{"phone_number":"447700900012","product":"subscriber_check","version":"v0.2","period":60}`, `{"check_id":"x","as":"phone","follow":true}`, `{"url":"https://app.sandbox.test","body":"{}","product":"phone_check"}`, "\x00", ``} {
		f.Add(seed)
	}
	srv := sandboxfake.New(f, sandboxfake.WithInMemory(), sandboxfake.WithControl(sandboxfake.ControlOptions{}))
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
