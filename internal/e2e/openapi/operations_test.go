package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
)

// session sends requests to the program and validates them, and their responses, with the document.
type session struct {
	*program
	t         *testing.T
	validator validator.Validator
	succeeded map[string]bool // method and path of the operations that succeeded
}

func newSession(t *testing.T) *session {
	t.Helper()
	return &session{start(t), t, newValidator(t, controlDocument(t), config.WithRejectUndeclaredRequestBody()), map[string]bool{}}
}

// request returns a request with the control token. target is a path below /_sandbox/.
func (s *session) request(method, target, body string) *http.Request {
	s.t.Helper()
	request := must(http.NewRequestWithContext(s.t.Context(), method, s.URL+"/_sandbox/"+target, strings.NewReader(body)))(s.t)
	request.Header.Set("Authorization", "Bearer "+s.ControlToken)
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	return request
}

// rejected returns why the document does not permit a request, or "".
func (s *session) rejected(request *http.Request) string {
	if valid, errs := s.validator.ValidateHttpRequest(request); !valid {
		return describe(errs)
	}
	return ""
}

// send sends a request and validates the response. The body of an event stream is its first event.
func (s *session) send(request *http.Request) (status int, body []byte) {
	s.t.Helper()
	response := must(s.client.Do(request))(s.t)
	defer response.Body.Close()
	if response.Header.Get("Content-Type") == "text/event-stream" {
		body = make([]byte, 4<<10)
		n, _ := response.Body.Read(body)
		body = body[:n]
	} else {
		body = must(io.ReadAll(response.Body))(s.t)
	}
	name := request.Method + " " + request.URL.Path
	response.Body = io.NopCloser(bytes.NewReader(body))
	if valid, errs := s.validator.ValidateHttpResponse(request, response); !valid {
		s.t.Errorf("%s: the document does not describe the response %d %s:\n%s", name, response.StatusCode, body, describe(errs))
	}
	if response.StatusCode/100 == 2 {
		s.succeeded[name] = true
	}
	return response.StatusCode, body
}

// call sends a request that must succeed, and returns the decoded response.
func (s *session) call(method, target, body string) map[string]any {
	s.t.Helper()
	request := s.request(method, target, body)
	if reason := s.rejected(request); reason != "" {
		s.t.Errorf("%s %s %s: the document does not permit the request:\n%s", method, target, body, reason)
	}
	status, text := s.send(request)
	if status/100 != 2 {
		s.t.Errorf("%s %s %s = %d %s, want success", method, target, body, status, text)
	}
	got := map[string]any{}
	json.Unmarshal(text, &got) // not all responses are JSON
	return got
}

// createCheck creates a check and returns its ID.
func (s *session) createCheck(body string) string {
	s.t.Helper()
	check, _ := s.call(http.MethodPost, "checks", body)["check"].(map[string]any)
	id, _ := check["check_id"].(string)
	if id == "" {
		s.t.Errorf("no check was created with %s", body)
	}
	return id
}

func TestOperations_ValidCalls(t *testing.T) {
	t.Parallel()
	s := newSession(t)

	s.call("GET", "", "")
	s.call("GET", "health", "")
	s.call("GET", "service.json", "")
	s.call("GET", "operations", "")
	s.call("GET", "outcomes", "")
	s.call("GET", "session", "")
	s.call("POST", "session", `{}`)
	s.call("DELETE", "session", "")
	s.call("GET", "events", "")
	s.call("GET", "time", "")
	s.call("GET", "dates", "")
	s.call("POST", "signup", `{"name":"Ada"}`)
	s.call("POST", "signup", `{"name":"Grace","invitation_ids":[]}`)
	completed := s.createCheck(`{"phone_number":"447700900012","callback_url":"http://127.0.0.1:9/callbacks","reference_id":"order 1"}`)
	s.call("POST", "open", `{"check_id":"`+completed+`"}`)
	deliveries := s.call("GET", "deliveries?wait_seconds=30.5&check_id="+completed, "")["deliveries"].([]any)
	s.call("POST", "redeliver", fmt.Sprintf(`{"delivery_id":%q}`, deliveries[0].(map[string]any)["delivery_id"]))
	s.call("POST", "callbacks", `{"url":"http://127.0.0.1:9/callbacks","body":"not JSON"}`)
	s.call("POST", "callbacks", `{"url":"http://127.0.0.1:9/callbacks","product":"subscriber_check","body":"{}","check_id":"`+completed+`"}`)
	s.call("POST", "idle", `{}`)
	s.call("POST", "idle", "")
	redirected := s.createCheck(`{"product":"subscriber_check","version":"v0.2","phone_number":"447700900013","redirect_url":"http://127.0.0.1:9/back","period":60}`)
	s.call("POST", "open", `{"check_id":"`+redirected+`","as":"other_sim","follow":true}`)
	failed := s.createCheck(`{"phone_number":"447700900099","callback_url":"http://127.0.0.1:9/callbacks"}`)
	s.call("POST", "open", `{"check_id":"`+failed+`","as":"not_mobile_ip"}`)
	unreachable := s.createCheck(`{"phone_number":"447700900012"}`)
	s.call("POST", "open", `{"check_id":"`+unreachable+`","as":"offline"}`)
	s.createCheck(`{"product":"sim_check","phone_number":"447700900012"}`)
	s.call("POST", "checks", `{"phone_number":"not a number"}`)
	expired := s.createCheck(`{"phone_number":"447700900012"}`)
	s.call("POST", "expire", `{"check_id":"`+expired+`"}`)
	for _, id := range []string{completed, redirected, failed, unreachable, expired} {
		s.call("GET", "timeline?check_id="+id, "")
	}
	s.call("POST", "faults", `{"match":{"operation":"phone_check.list","repeat":true},"faults":[{"status":429,"retry_after_seconds":3,"latency_seconds":0.01},{"drop":true},{"body":"x"},{}]}`)
	s.call("POST", "faults", `{"match":{"operation":"callback"},"faults":[{"status":503},{"wrong_key":true}]}`)
	s.call("GET", "faults", "")
	retried := s.createCheck(`{"phone_number":"447700900012","callback_url":"http://127.0.0.1:9/callbacks"}`)
	s.call("POST", "open", `{"check_id":"`+retried+`","as":"phone"}`)
	s.call("POST", "idle", `{}`)
	s.call("GET", "deliveries", "")
	s.call("GET", "timeline?check_id="+retried, "")
	s.call("POST", "keys", `{}`)
	s.call("GET", "state", "")
	s.call("POST", "advance", `{"seconds":120.5}`)
	s.call("POST", "dates", `{"clock":"sandbox"}`)
	s.call("DELETE", "faults", "")
	s.call("GET", "requests", "")
	s.call("GET", "requests?operation=phone_check.create&operation=phone_check.open", "")
	s.call("GET", "requests?limit=2&status=2xx&search=checks", "")
	s.call("GET", "checks", "")
	page := s.call("GET", "checks?limit=1&product=phone_check&status=COMPLETED&search=order", "")
	s.call("GET", fmt.Sprintf("checks?limit=1&before=%v", s.call("GET", "checks?limit=1", "")["next"]), "")
	s.call("POST", "reset", `{"seed":2}`)
	s.call("POST", "reset", "")
	s.call("GET", "state", "")

	if checks, _ := page["checks"].([]any); len(checks) != 1 {
		t.Errorf("%d checks match the search, want 1", len(checks))
	}
	for name := range operations(t) {
		if !s.succeeded[name] {
			t.Errorf("no valid call of %s", name)
		}
	}
}

// invalidCall is a call that the program rejects.
type invalidCall struct {
	method, target, body string
	status               int
}

// invalidBySchema are calls that the document does not permit either.
var invalidBySchema = []invalidCall{
	{"POST", "advance", `{}`, 400},
	{"POST", "advance", `{"seconds":"1"}`, 400},
	{"POST", "advance", `{"seconds":-1}`, 400},
	{"POST", "advance", `{"seconds":1e300}`, 400},
	{"POST", "advance", `{"seconds":1,"minutes":1}`, 400},
	{"POST", "advance", `[]`, 400},
	{"POST", "advance", `{"seconds":`, 400},
	{"POST", "dates", `{"clock":"other"}`, 400},
	{"POST", "dates", `{}`, 400},
	{"POST", "reset", `{"seed":-1}`, 400},
	{"POST", "reset", `{"seeds":1}`, 400},
	{"POST", "expire", `{"check":"x"}`, 400},
	{"POST", "redeliver", `{"delivery":"x"}`, 400},
	{"POST", "signup", `{}`, 400},
	{"POST", "signup", `{"name":""}`, 400},
	{"POST", "signup", `{"name":"Ada","invitation_ids":"x"}`, 400},
	{"POST", "faults", `{"match":{}}`, 400},
	{"POST", "faults", `{"faults":[]}`, 400},
	{"POST", "faults", `{"faults":[null]}`, 400},
	{"POST", "faults", `{"faults":[{"status":100}]}`, 400},
	{"POST", "faults", `{"faults":[{"status":"503"}]}`, 400},
	{"POST", "faults", `{"faults":[{"latency_seconds":-1}]}`, 400},
	{"POST", "faults", `{"faults":[{"code":"not_found"}]}`, 400},
	{"POST", "faults", `{"faults":[{"drops":true}]}`, 400},
	{"POST", "faults", `{"match":{"operation":1},"faults":[{}]}`, 400},
	{"POST", "checks", `{"product":"other"}`, 400},
	{"POST", "checks", `{"version":"v9"}`, 400},
	{"POST", "checks", `{"phone":"447700900012"}`, 400},
	{"POST", "open", `{"check_id":"x","as":"other"}`, 400},
	{"POST", "open", `{"check_id":"x","follow":"yes"}`, 400},
	{"GET", "deliveries?check_id=x&wait_seconds=soon", "", 400},
	{"GET", "deliveries?check_id=x&wait_seconds=601", "", 400},
	{"GET", "checks?limit=0", "", 400},
	{"GET", "checks?limit=201", "", 400},
	{"GET", "checks?limit=many", "", 400},
	{"GET", "checks?product=other", "", 400},
	{"GET", "checks?status=DONE", "", 400},
	{"GET", "timeline", "", 400},
	{"GET", "timeline?check_id=", "", 400},
	{"POST", "open", `{"check_id":""}`, 400},
	{"POST", "expire", `{"check_id":""}`, 400},
	{"POST", "redeliver", `{"delivery_id":""}`, 400},
	{"GET", "requests?limit=x", "", 400},
	{"GET", "requests?status=6xx", "", 400},
	{"POST", "callbacks", `{"url":"http://127.0.0.1:9/"}`, 400},
	{"POST", "callbacks", `{"body":""}`, 400},
	{"POST", "callbacks", `{"url":"http://127.0.0.1:9/","body":"","product":"other"}`, 400},
}

// invalidByState are calls that only the program can reject.
var invalidByState = []invalidCall{
	{"POST", "expire", `{"check_id":"x"}`, 404},
	{"POST", "open", `{"check_id":"x"}`, 404},
	{"GET", "timeline?check_id=x", "", 404},
	{"POST", "redeliver", `{"delivery_id":"x"}`, 404},
	{"POST", "faults", `{"match":{"project":"x"},"faults":[{"drop":true}]}`, 400},
	{"POST", "faults", `{"match":{"workspace":"x"},"faults":[{"drop":true}]}`, 400},
	{"POST", "faults", `{"match":{"operation":"phone_check.crate"},"faults":[{"drop":true}]}`, 400},
	{"POST", "faults", `{"faults":[{"drop":true,"truncate":true}]}`, 400},
	{"POST", "signup", `{"name":"Ada","invitation_ids":["x"]}`, 400},
	{"POST", "checks", `{"phone_number":"447700900012","project_id":"x"}`, 404},
	{"POST", "checks", `{"product":"sim_check","version":"v0.2","phone_number":"447700900012"}`, 400},
	{"POST", "callbacks", `{"url":"ftp://127.0.0.1:9/","body":""}`, 400},
	{"POST", "callbacks", `{"url":"http://127.0.0.1:9/","body":"","check_id":"x"}`, 404},
	{"GET", "requests?before=x", "", 400},
	{"GET", "deliveries?wait_seconds=1", "", 400},
	{"GET", "checks?before=x", "", 400},
	{"GET", "checks?before=9-9", "", 409},
}

func TestOperations_InvalidCalls(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	for i, row := range slices.Concat(invalidBySchema, invalidByState) {
		described := i < len(invalidBySchema)
		request := s.request(row.method, row.target, row.body)
		reason := s.rejected(request)
		status, body := s.send(request)
		if status != row.status {
			t.Errorf("%s %s %s = %d %s, want %d", row.method, row.target, row.body, status, body, row.status)
		}
		if described && reason == "" {
			t.Errorf("%s %s %s: the document permits the request, which the program rejects", row.method, row.target, row.body)
		}
		if !described && reason != "" {
			t.Errorf("%s %s %s: the document does not permit the request:\n%s", row.method, row.target, row.body, reason)
		}
	}
}

func TestOperations_RejectedRequests(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	for name, o := range operations(t) {
		target := strings.TrimPrefix(o.Path, "/_sandbox/")
		for _, row := range []struct {
			name   string
			skip   bool
			change func(*http.Request)
			status int
		}{
			{"no token", o.open(), func(r *http.Request) { r.Header.Del("Authorization") }, 401},
			{"wrong token", o.open(), func(r *http.Request) { r.Header.Set("Authorization", "Bearer wrong") }, 401},
			{"unknown parameter", target == "", func(r *http.Request) { r.URL.RawQuery = "unknown=1" }, 400},
			{"form", o.Method != http.MethodPost, func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }, 415},
			{"page of another origin", o.Method == http.MethodGet, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		} {
			if row.skip {
				continue
			}
			request := s.request(o.Method, target, "")
			row.change(request)

			status, body := s.send(request)

			if status != row.status {
				t.Errorf("%s with %s = %d %s, want %d", name, row.name, status, body, row.status)
			}
		}
	}
}
