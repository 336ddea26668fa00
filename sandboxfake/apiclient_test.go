package sandboxfake_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// frozenAt is the time of the frozen clocks in these tests.
var frozenAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// api is a plain HTTP client of a server, so that tests check the wire format without the SDK's
// client.
type api struct {
	t      testing.TB
	srv    *sandboxfake.Server
	client *http.Client // if nil, the server's HTTP client
	token  string
}

// response is a response with its decoded JSON.
type response struct {
	status int
	header http.Header
	body   []byte
	json   map[string]any
}

// newAPI returns an api with a token of the server's project for all products.
func newAPI(t testing.TB, srv *sandboxfake.Server) *api {
	t.Helper()
	a := &api{t: t, srv: srv}
	a.token = a.tokenFor(srv.Credentials(), "phone_check sim_check subscriber_check coverage")
	return a
}

func (a *api) tokenFor(c idverify.Credentials, scope string) string {
	a.t.Helper()
	r := a.tokenCall(c, url.Values{"grant_type": {"client_credentials"}, "scope": {scope}})
	if r.status != http.StatusOK {
		a.t.Fatalf("token for %q: %d %s", scope, r.status, r.body)
	}
	return r.json["access_token"].(string)
}

func (a *api) tokenCall(c idverify.Credentials, form url.Values) response {
	a.t.Helper()
	request := a.request(http.MethodPost, "/oauth2/v1/token", form.Encode())
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.SetBasicAuth(c.ClientID, c.ClientSecret.Reveal())
	return a.do(request)
}

// call sends body as JSON, or as a JSON Patch if the method is PATCH.
func (a *api) call(method, path, body string) response {
	a.t.Helper()
	request := a.request(method, path, body)
	if a.token != "" {
		request.Header.Set("Authorization", "Bearer "+a.token)
	}
	switch method {
	case http.MethodPatch:
		request.Header.Set("Content-Type", "application/json-patch+json")
	case http.MethodPost, http.MethodPut:
		request.Header.Set("Content-Type", "application/json")
	}
	return a.do(request)
}

func (a *api) get(path string) response { a.t.Helper(); return a.call(http.MethodGet, path, "") }

func (a *api) post(path, body string) response {
	a.t.Helper()
	return a.call(http.MethodPost, path, body)
}

// create creates a check and returns its ID.
func (a *api) create(path, body string) string {
	a.t.Helper()
	r := a.post(path, body)
	if r.status != http.StatusCreated {
		a.t.Fatalf("create: %d %s", r.status, r.body)
	}
	return r.json["check_id"].(string)
}

func (a *api) request(method, path, body string) *http.Request {
	a.t.Helper()
	target := path
	if strings.HasPrefix(path, "/") {
		target = a.srv.URL() + path
	}
	request, err := http.NewRequestWithContext(a.t.Context(), method, target, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	return request
}

// do sends a request without following redirects. It checks that OpenAPI describes the response.
func (a *api) do(request *http.Request) response {
	a.t.Helper()
	client := a.srv.HTTPClient()
	if a.client != nil {
		client = new(*a.client)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	httpResponse, err := client.Do(request)
	if err != nil {
		a.t.Fatal(err)
	}
	defer httpResponse.Body.Close()
	body, err := io.ReadAll(httpResponse.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	r := response{status: httpResponse.StatusCode, header: httpResponse.Header, body: body}
	if len(body) > 0 && bytes.Contains([]byte(httpResponse.Header.Get("Content-Type")), []byte("json")) {
		if err := json.Unmarshal(body, &r.json); err != nil {
			a.t.Fatalf("response body is not JSON: %v: %s", err, body)
		}
	}
	wantDescribed(a.t, request, r)
	return r
}

// fragment returns the fragment of a problem's type, which identifies the problem.
func (r response) fragment() string {
	text, _ := r.json["type"].(string)
	_, fragment, _ := strings.Cut(text, "#")
	return fragment
}

// wantProblem checks that r is a complete problem document with that status and fragment.
func (r response) wantProblem(t testing.TB, status int, fragment string) {
	t.Helper()
	if r.status != status || r.fragment() != fragment {
		t.Fatalf("response = %d %s, want %d #%s", r.status, r.body, status, fragment)
	}
	if got := r.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type = %q, want application/problem+json", got)
	}
	if r.json["title"] != http.StatusText(status) || r.json["status"] != float64(status) || r.json["detail"] == "" {
		t.Errorf("problem = %s, want a title, status and detail", r.body)
	}
}
