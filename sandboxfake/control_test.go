package sandboxfake_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

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

// serveFrom passes a request from a remote address to the server's handler. local is the address
// that received it, or nil.
func serveFrom(t *testing.T, srv *sandboxfake.Server, from string, local net.Addr, method, path string, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	ctx := t.Context()
	if local != nil {
		ctx = context.WithValue(ctx, http.LocalAddrContextKey, local)
	}
	request := httptest.NewRequestWithContext(ctx, method, path, nil)
	request.RemoteAddr = from
	if header != nil {
		request.Header = header
	}
	recorder := httptest.NewRecorder()
	sandboxfake.Serve(srv, recorder, request)
	return recorder
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
	for name, a := range map[string]*api{"without page": newControlAPI(t), "with page": newPageAPI(t)} {
		help := a.do(a.request(http.MethodGet, "/_sandbox/", ""))

		if help.status != http.StatusOK || !strings.HasPrefix(help.header.Get("Content-Type"), "text/plain") {
			t.Fatalf("%s: help = %d %s, want 200 text/plain", name, help.status, help.header.Get("Content-Type"))
		}
		for _, path := range []string{"health", "operations", "state", "checks", "open", "timeline", "callbacks", "time", "advance", "expire", "dates", "idle", "faults", "deliveries", "redeliver", "requests", "signup", "keys", "reset"} {
			if !strings.Contains(string(help.body), "/_sandbox/"+path+"\n") {
				t.Errorf("%s: help does not list %s", name, path)
			}
		}
		start := "sandboxfake: the control plane of " + a.srv.URL() + "\n\nGET    /_sandbox/health\n       returns 200 as soon as the service is up; requires no token\nGET    /_sandbox/service.json\n"
		if name == "with page" {
			start = "Open " + a.srv.URL() + "/_sandbox/ in a browser for the inspector, with the fragment that the program prints.\n\n" + start
		}
		if !strings.HasPrefix(string(help.body), start) {
			t.Errorf("%s: help = %s\nwant it to begin with %s", name, help.body, start)
		}
		for _, want := range []string{"and returns when they are done\n       {\"seconds\": 120}\nPOST   /_sandbox/expire\n", "require the header Authorization: Bearer with"} {
			if !strings.Contains(string(help.body), want) {
				t.Errorf("%s: help = %s\nwant %q", name, help.body, want)
			}
		}
	}
}

// testPage responds to each request with its method and path, so that a test can identify it.
func testPage(*sandboxfake.Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Page", r.Method+" "+r.URL.Path)
	})
}

// newPageAPI returns an api of an in-memory server with testPage.
func newPageAPI(t testing.TB) *api {
	t.Helper()
	return newControlAPI(t, sandboxfake.WithControl(sandboxfake.ControlOptions{Page: testPage}))
}

// browserAccept is the Accept header of a browser that opens a page.
const browserAccept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

func TestServer_ControlPage(t *testing.T) {
	t.Parallel()
	a := newPageAPI(t)
	for _, row := range []struct {
		method, path, accept string
		page                 bool
		status               int
	}{
		{http.MethodGet, "/_sandbox/", browserAccept, true, 200},
		{http.MethodHead, "/_sandbox/", browserAccept, true, 200},
		{http.MethodGet, "/_sandbox/", "image/png, TEXT/HTML; q=0.9", true, 200},
		{http.MethodGet, "/_sandbox/?x=y", browserAccept, true, 200},
		{http.MethodGet, "/_sandbox/", "*/*", false, 200},
		{http.MethodHead, "/_sandbox/", "*/*", false, 200},
		{http.MethodGet, "/_sandbox/", "", false, 200},
		{http.MethodGet, "/_sandbox/", "application/json, text/html;q=0.0", false, 200},
		{http.MethodGet, "/_sandbox/", "text/html-x", false, 200},
		{http.MethodGet, "/_sandbox/", "text/html; q", false, 200},
		{http.MethodPost, "/_sandbox/", browserAccept, false, 401},
		{http.MethodGet, "/_sandbox", browserAccept, false, 307},
		{http.MethodGet, "/_sandbox/health", browserAccept, false, 200},
		{http.MethodGet, "/_sandbox/requests", browserAccept, false, 401},

		{http.MethodGet, "/_sandbox/page/main.js", "*/*", true, 200},
		{http.MethodHead, "/_sandbox/page/main.js", "*/*", true, 200},
		{http.MethodGet, "/_sandbox/open/a-check", browserAccept, true, 200},
		{http.MethodPost, "/_sandbox/open/a-check", browserAccept, true, 200},
		{http.MethodGet, "/_sandbox/ca", browserAccept, true, 200},
		{http.MethodGet, "/_sandbox/ca/ca.pem", "*/*", true, 200},

		// Nothing else reaches the page, so that no two routers can interpret a path differently.
		{http.MethodGet, "/_sandbox/page", browserAccept, false, 401},
		{http.MethodGet, "/_sandbox/open", browserAccept, false, 401},
		{http.MethodGet, "/_sandbox/cat", browserAccept, false, 401},
		{http.MethodGet, "/_sandbox/page/private/x", browserAccept, false, 401},
		{http.MethodGet, "/_sandbox/page/PRIVATE/../private/x", browserAccept, false, 401},
		{http.MethodGet, "/_sandbox/page/../requests", browserAccept, false, 401},
		{http.MethodGet, "/_sandbox/page/./main.js", browserAccept, false, 401},
		{http.MethodGet, "/_sandbox/page//requests", browserAccept, false, 401},
		{http.MethodGet, "/_sandbox//page/main.js", browserAccept, false, 401},
		{http.MethodGet, "/_sandbox/page/..%2frequests", browserAccept, false, 401},
		{http.MethodGet, "/_sandbox/page%2f..%2frequests", browserAccept, false, 401},
		{http.MethodGet, "/_sandbox/page/%2e%2e/requests", browserAccept, false, 401},
		{http.MethodGet, "/_sandbox/page/main%2ejs", browserAccept, false, 401},
		{http.MethodGet, "/%5fsandbox/page/main.js", browserAccept, false, 401},
		{http.MethodPost, "/_sandbox/open/../reset", browserAccept, false, 401},
		{http.MethodGet, "/_sandbox/ca/../requests", browserAccept, false, 401},
	} {
		request := a.request(row.method, row.path, "")
		if row.accept != "" {
			request.Header.Set("Accept", row.accept)
		}

		got := a.do(request)

		name := fmt.Sprintf("%s %s of %q", row.method, row.path, row.accept)
		if page := got.header.Get("X-Page") != ""; got.status != row.status || page != row.page {
			t.Errorf("%s: %d from the page %t, want %d, %t", name, got.status, page, row.status, row.page)
		}
		root := strings.HasPrefix(row.path, "/_sandbox/?") || row.path == "/_sandbox/"
		if vary := got.header.Get("Vary"); root != (vary == "Accept") {
			t.Errorf("%s: Vary = %q, want Accept for /_sandbox/ only", name, vary)
		}
	}
	if requests := a.srv.Requests(); len(requests) != 1 {
		t.Errorf("the journal has %d requests, want only that for the token", len(requests))
	}
}

func TestServer_ControlPageOpen(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithControl(sandboxfake.ControlOptions{Page: testPage}))
	for _, row := range []struct {
		name, method, path string
		header             http.Header
		status             int
	}{
		{"page", http.MethodGet, "/_sandbox/", http.Header{"Accept": {"text/html"}}, 200},
		{"asset", http.MethodGet, "/_sandbox/page/main.js", nil, 200},
		{"phone page", http.MethodGet, "/_sandbox/open/a-check", nil, 200},
		{"form of the phone page", http.MethodPost, "/_sandbox/open/a-check", http.Header{"Sec-Fetch-Site": {"same-origin"}}, 200},
		{"form of another site", http.MethodPost, "/_sandbox/open/a-check", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		{"form of another port", http.MethodPost, "/_sandbox/open/a-check", http.Header{"Origin": {"https://example.com:1"}}, 403},
		{"control plane", http.MethodGet, "/_sandbox/time", bearer(srv.ControlToken()), 403},
	} {
		if got := serveFrom(t, srv, "192.0.2.1:5000", nil, row.method, row.path, row.header); got.Code != row.status {
			t.Errorf("%s from another machine: %d, want %d", row.name, got.Code, row.status)
		}
	}
}

// The page's private paths have the rules of the control plane, not those of the other assets.
func TestServer_ControlPagePrivate(t *testing.T) {
	t.Parallel()
	const here, elsewhere = "127.0.0.1:5000", "192.0.2.1:5000"
	for _, row := range []struct {
		name          string
		remoteControl bool
		from, method  string
		token         bool
		status        int
	}{
		{"no token", false, here, http.MethodGet, false, 401},
		{"token", false, here, http.MethodGet, true, 200},
		{"token on another machine", false, elsewhere, http.MethodGet, true, 403},
		{"remote control, no token", true, elsewhere, http.MethodGet, false, 401},
		{"remote control", true, elsewhere, http.MethodGet, true, 200},
		{"form", false, here, http.MethodPost, true, 415},
	} {
		srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithControl(sandboxfake.ControlOptions{Page: testPage, Remote: row.remoteControl}))
		header := make(http.Header)
		if row.token {
			header = bearer(srv.ControlToken())
		}

		got := serveFrom(t, srv, row.from, nil, row.method, "/_sandbox/page/private/x", header)

		page := got.Header().Get("X-Page") != ""
		if got.Code != row.status || page != (row.status == http.StatusOK) {
			t.Errorf("%s: %d from the page %t, want %d", row.name, got.Code, page, row.status)
		}
	}
}

func TestServer_ControlPageOff(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	for path, want := range map[string]int{"/_sandbox/": 200, "/_sandbox/page/main.js": 401, "/_sandbox/open/a-check": 401, "/_sandbox/ca": 401, "/": 401} {
		got := a.sendHeader(http.MethodGet, path, http.Header{"Accept": {browserAccept}})

		if got.status != want || strings.HasPrefix(got.header.Get("Content-Type"), "text/html") {
			t.Errorf("%s without control page: %d %s, want %d without HTML", path, got.status, got.header.Get("Content-Type"), want)
		}
	}
}

func TestStart_ControlPageOptions(t *testing.T) {
	t.Parallel()
	noPage := sandboxfake.WithControl(sandboxfake.ControlOptions{Page: func(*sandboxfake.Server) http.Handler { return nil }})
	for name, options := range map[string][]sandboxfake.Option{
		"nil handler":           {noPage},
		"phone page only":       {sandboxfake.WithControl(sandboxfake.ControlOptions{PhonePage: true})},
		"nil handler on socket": {noPage, sandboxfake.WithAddr("127.0.0.1:0")},
	} {
		if startError(append([]sandboxfake.Option{sandboxfake.WithInMemory()}, options...)...) == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// ControlOptions.Page can use the server.
func TestServer_ControlPageUsesServer(t *testing.T) {
	t.Parallel()
	calls, url, token := 0, "", ""

	srv := sandboxfake.New(t, sandboxfake.WithControl(sandboxfake.ControlOptions{Page: func(s *sandboxfake.Server) http.Handler {
		calls, url, token = calls+1, s.URL(), s.ControlToken()
		return testPage(s)
	}}))

	if calls != 1 || url != srv.URL() || token != srv.ControlToken() || token == "" {
		t.Errorf("%d calls with URL %q, token of the server %t, want 1 with %q, true", calls, url, token == srv.ControlToken(), srv.URL())
	}
}

// phoneClients are the clients that open a Check URL, and whether they get the phone page.
var phoneClients = []struct {
	name   string
	header http.Header
	page   bool
}{
	{"browser", http.Header{"Accept": {browserAccept}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}}, true},
	{"browser without a destination", http.Header{"Accept": {"*/*"}, "Sec-Fetch-Mode": {"navigate"}}, true},
	{"prefetch", http.Header{"Accept": {browserAccept}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}, "Sec-Purpose": {"prefetch"}}, true},
	{"older browser", http.Header{"Accept": {browserAccept}, "Accept-Language": {"en-GB,en;q=0.9"}, "User-Agent": {oldSafari}}, true},

	{"iframe", http.Header{"Accept": {browserAccept}, "Accept-Language": {"en"}, "User-Agent": {oldSafari}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"iframe"}}, false},
	{"image", http.Header{"Accept": {"image/avif,*/*"}, "Accept-Language": {"en"}, "User-Agent": {oldSafari}, "Sec-Fetch-Mode": {"no-cors"}, "Sec-Fetch-Dest": {"image"}}, false},
	{"script", http.Header{"Accept": {browserAccept}, "Accept-Language": {"en"}, "User-Agent": {oldSafari}, "Sec-Fetch-Mode": {"cors"}, "Sec-Fetch-Dest": {"empty"}}, false},
	{"older browser, image", http.Header{"Accept": {"image/webp,*/*"}, "Accept-Language": {"en"}, "User-Agent": {oldSafari}}, false},
	{"native SDK", http.Header{"Accept": {"text/html,application/xhtml+xml,application/xml,*/*"}, "User-Agent": {"sdk-android/1.0 Android/14"}, "Connection": {"close"}}, false},
	{"native SDK with the agent of a browser", http.Header{"Accept": {browserAccept}, "User-Agent": {oldSafari}}, false},
	{"Java", http.Header{"Accept": {"text/html, image/gif, image/jpeg, */*; q=0.2"}, "User-Agent": {"Java/17.0.12"}}, false},
	{"iOS", http.Header{"Accept": {"*/*"}, "Accept-Language": {"en-GB,en;q=0.9"}, "User-Agent": {"App/1 CFNetwork/1568.100.1 Darwin/24.0.0"}}, false},
	{"Android", http.Header{"Accept": {"text/html"}, "Accept-Language": {"en"}, "User-Agent": {"Dalvik/2.1.0 (Linux; U; Android 14)"}}, false},
	{"curl", http.Header{"Accept": {"*/*"}, "User-Agent": {"curl/8.14.1"}}, false},
	{"none", http.Header{}, false},
}

// oldSafari is the User-Agent of a browser that sends no Sec-Fetch-Mode.
const oldSafari = "Mozilla/5.0 (iPhone; CPU iPhone OS 15_8 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/15.6 Mobile/15E148 Safari/604.1"

func TestServer_PhonePage(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithControl(sandboxfake.ControlOptions{Page: testPage, PhonePage: true}))
	for _, path := range []string{phoneChecks, phoneChecks02, "/subscriber_check/v0.1/checks"} {
		for _, client := range phoneClients {
			id := a.create(path, `{"phone_number":"447700900012"}`)
			before := len(a.srv.Requests())

			got := a.sendHeader(http.MethodGet, path+"/"+id+"/redirect", client.header)

			redirected := got.status == http.StatusSeeOther && got.header.Get("Location") == "/_sandbox/open/"+id
			if redirected != client.page {
				t.Errorf("%s, %s: %d to %q, want the phone page: %t", path, client.name, got.status, got.header.Get("Location"), client.page)
			}
			if n := len(a.srv.Requests()); (n == before) != client.page {
				t.Errorf("%s, %s: the journal has %d new requests, want only those that open the check", path, client.name, n-before)
			}
			if check := a.get(path + "/" + id); (check.json["status"] == "ACCEPTED") != client.page {
				t.Errorf("%s, %s: check = %s, want it unopened: %t", path, client.name, check.body, client.page)
			}
		}
		if got := a.sendHeader(http.MethodGet, path+"/x", phoneClients[0].header); got.status != http.StatusUnauthorized {
			t.Errorf("%s: browser reads a check: %d, want 401 as for other clients", path, got.status)
		}
	}
	if got := a.sendHeader(http.MethodGet, "/nothing", phoneClients[0].header); got.status != http.StatusUnauthorized {
		t.Errorf("browser opens an unknown path: %d, want 401 as for other clients", got.status)
	}
}

func TestServer_PhonePageOff(t *testing.T) {
	t.Parallel()
	a := newPageAPI(t)
	id := a.create(phoneChecks, `{"phone_number":"447700900012"}`)
	if checks, _ := a.checks(""); checks[0]["open_url"] != a.srv.URL()+"/_sandbox/open/"+id {
		t.Errorf("open_url = %v, want that of the page", checks[0]["open_url"])
	}

	a.sendHeader(http.MethodGet, phoneChecks+"/"+id+"/redirect", phoneClients[0].header)

	if checks, _ := a.checks(""); checks[0]["open_url"] != nil {
		t.Errorf("open_url of an opened check = %v, want none", checks[0]["open_url"])
	}
	if got := a.get(phoneChecks + "/" + id); got.json["status"] != "COMPLETED" {
		t.Errorf("check opened in a browser = %s, want COMPLETED: only PhonePage adds a page", got.body)
	}
}

func TestServer_RootRedirectsBrowsers(t *testing.T) {
	t.Parallel()
	a := newPageAPI(t)
	for _, row := range []struct {
		method, accept string
		status         int
	}{{http.MethodGet, browserAccept, 303}, {http.MethodGet, "*/*", 401}, {http.MethodPost, browserAccept, 401}} {
		got := a.sendHeader(row.method, "/", http.Header{"Accept": {row.accept}})

		if got.status != row.status || got.status == 303 && (got.header.Get("Location") != "/_sandbox/" || got.header.Get("Cache-Control") != "no-store") {
			t.Errorf("%s / of %q: %d with %v, want %d", row.method, row.accept, got.status, got.header, row.status)
		}
	}
}

// goIdentifier matches names that a caller in another language does not know: this package and its
// exported names, and terms of encoding/json and context.
var goIdentifier = regexp.MustCompile(`sandboxfake|json:|Go |struct|float64|context|\bnil\b|[a-z][A-Z]|\b[A-Z][a-z]+[A-Z]`)

// The detail does not depend on the version of Go.
func TestServer_ControlProblemDetails(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))
	const seconds, products = " must be from 0 to 3153600000", "product must be phone_check, sim_check or subscriber_check"
	for _, row := range []struct{ path, body, want string }{ // without a body: GET
		{"checks", `{"period":"x"}`, "the field period has the wrong type"},
		{"faults", `{"faults":[{"drop":true},{"status":"x"}]}`, "the field faults.status has the wrong type"},
		{"signup", `{"name":"Ada","invitation_ids":["x",7]}`, "the field invitation_ids has the wrong type"},
		{"advance", `{"seconds":"x"}`, "the field seconds has the wrong type"},
		{"advance", `{"seconds":1e400}`, "a value in the body is not valid"},
		{"advance", `[]`, "the body has the wrong JSON type"},
		{"advance", `{"minutes":1}`, `unknown field "minutes"`},
		{"advance", `{"seconds":1} {}`, "unexpected text after the JSON value in the body"},
		{"advance", `{"seconds":1` + strings.Repeat(" ", 64<<10) + `}`, "the body is too large"},
		{"advance", `{}`, "seconds is missing"},
		{"advance", `{"seconds":-1}`, "seconds" + seconds},
		{"advance", `{"seconds":3153600001}`, "seconds" + seconds},
		{"checks", `{"product":"coverage"}`, products},
		{"checks", `{"version":"v0.3"}`, "version of phone_check must be v0.1 or v0.2"},
		{"checks", `{"product":"sim_check","version":"v0.2"}`, "version of sim_check must be v0.1"},
		{"open", `{"check_id":"x","as":"wifi"}`, "as must be empty or one of those that GET /_sandbox/outcomes lists"},
		{"open", `{"as":"offline"}`, "check_id is missing"},
		{"expire", `{}`, "check_id is missing"},
		{"timeline", "", "check_id is missing"},
		{"redeliver", `{}`, "delivery_id is missing"},
		{"dates", `{"clock":"utc"}`, "clock must be system or sandbox"},
		{"faults", `{"match":{}}`, "faults must not be empty"},
		{"faults", `{"faults":[null]}`, "a fault must not be null (use {} to let a request pass)"},
		{"faults", `{"match":{"project":"x"},"faults":[{}]}`, "the project of the match does not exist"},
		{"faults", `{"match":{"workspace":"x"},"faults":[{}]}`, "the workspace of the match does not exist"},
		{"faults", `{"faults":[{"status":429,"retry_after_seconds":-1}]}`, "retry_after_seconds" + seconds},
		{"faults", `{"faults":[{"latency_seconds":3153600001}]}`, "latency_seconds" + seconds},
		{"callbacks", `{"url":"https://app.sandbox.test"}`, "body is missing"},
		{"callbacks", `{"url":"/callbacks","body":"{}"}`, "url must be absolute: begin with https:// or http://"},
		{"callbacks", `{"url":"https://app.sandbox.test","body":"","product":"coverage"}`, products},
		{"callbacks", `{"url":"https://app.sandbox.test","body":"` + strings.Repeat("b", 64<<10+1) + `"}`, "body must have at most 65536 bytes"},
		{"deliveries?check_id=x&wait_seconds=soon", "", "wait_seconds must be a number"},
		{"deliveries?check_id=x&wait_seconds=601", "", "wait_seconds must be from 0 to 600"},
		{"deliveries?wait_seconds=1", "", "wait_seconds requires a check_id"},
		{"requests?status=600", "", "status must be a status such as 404, or a class such as 4xx"},
		{"requests?limit=201", "", "limit must be from 1 to 200"},
		{"requests?before=x", "", "before must be the value of next in the previous page"},
		{"checks?limit=1&limit=2", "", `duplicate query parameter "limit"`},
		{"checks?search=" + strings.Repeat("x", 4097), "", "search must have at most 4096 bytes"},
		{"checks?product=coverage", "", products},
		{"checks?status=DONE", "", "status must be one of ACCEPTED, PENDING, COMPLETED, EXPIRED, ERROR"},
		{"checks?%zz", "", "the query is malformed"},
		{"state?x=1", "", `unknown query parameter "x"`},
	} {
		method := http.MethodPost
		if row.body == "" {
			method = http.MethodGet
		}

		got := a.control(method, row.path, row.body)

		got.wantProblem(t, http.StatusBadRequest, "bad_request")
		if got.json["detail"] != row.want {
			t.Errorf("%.60s %.60s: detail = %q, want %q", row.path, row.body, got.json["detail"], row.want)
		}
	}
	for _, path := range []string{"advance", "callbacks", "checks", "dates", "expire", "faults", "open", "redeliver", "reset", "signup"} {
		a.control(http.MethodPost, path, "[").wantProblem(t, http.StatusBadRequest, "bad_request")
	}
	a.wantUnchanged()
}

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
		{"not JSON", http.MethodPost, "advance", `seconds`, 400},
		{"infinite seconds", http.MethodPost, "advance", `{"seconds":1e300}`, 400},
		{"unknown operation", http.MethodPost, "faults", `{"match":{"operation":"phone_check.crate"},"faults":[{"drop":true}]}`, 400},
		{"check ID for a call", http.MethodPost, "faults", `{"match":{"operation":"phone_check.open","check_id":"x"},"faults":[{"drop":true}]}`, 400},
		{"contradictory fault", http.MethodPost, "faults", `{"faults":[{"drop":true,"truncate":true}]}`, 400},
		{"fault with invalid status", http.MethodPost, "faults", `{"faults":[{"status":100}]}`, 400},
		{"negative latency", http.MethodPost, "faults", `{"faults":[{"latency_seconds":-1}]}`, 400},
		{"latency on a frozen clock", http.MethodPost, "faults", `{"faults":[{"latency_seconds":1}]}`, 400},
		{"code without status", http.MethodPost, "faults", `{"faults":[{"code":"not_found"}]}`, 400},
		{"match of the wrong type", http.MethodPost, "faults", `{"match":{"operation":1},"faults":[{}]}`, 400},
		{"unknown check", http.MethodPost, "expire", `{"check_id":"x"}`, 404},
		{"unknown delivery", http.MethodPost, "redeliver", `{"delivery_id":"x"}`, 404},
		{"empty check to expire", http.MethodPost, "expire", `{"check_id":""}`, 400},
		{"empty check to open", http.MethodPost, "open", `{"check_id":""}`, 400},
		{"timeline of an empty check", http.MethodGet, "timeline?check_id=", "", 400},
		{"sign-up without a name", http.MethodPost, "signup", `{}`, 400},
		{"sign-up with unknown invitation", http.MethodPost, "signup", `{"name":"Ada","invitation_ids":["x"]}`, 400},
		{"wait of NaN", http.MethodGet, "deliveries?check_id=x&wait_seconds=NaN", "", 400},
		{"empty wait", http.MethodGet, "deliveries?check_id=x&wait_seconds=", "", 400},
		{"unknown query parameter", http.MethodGet, "deliveries?check_id=x&wait_second=10", "", 400},
		{"query parameter of another operation", http.MethodGet, "requests?check_id=x", "", 400},
		{"query of an operation without parameters", http.MethodPost, "idle?wait_seconds=1", "", 400},
		{"callback: no URL", http.MethodPost, "callbacks", `{"body":"{}"}`, 400},
		{"callback: URL with userinfo", http.MethodPost, "callbacks", `{"url":"https://u:p@app.sandbox.test","body":"{}"}`, 400},
		{"callback: body as JSON", http.MethodPost, "callbacks", `{"url":"https://app.sandbox.test","body":{}}`, 400},
		{"callback: request too large", http.MethodPost, "callbacks", `{"url":"https://app.sandbox.test","body":"` + strings.Repeat("b", 500<<10) + `"}`, 400},
		{"callback: unknown check", http.MethodPost, "callbacks", `{"url":"https://app.sandbox.test","body":"","check_id":"x"}`, 404},
		{"callback: unknown field", http.MethodPost, "callbacks", `{"url":"https://app.sandbox.test","body":"","key":"x"}`, 400},
	} {
		got := a.control(row.method, row.path, row.body)

		if got.status != row.status {
			t.Errorf("%s: %d %s, want %d", row.name, got.status, got.body, row.status)
		}
		if got.header.Get("Content-Type") != "application/problem+json" || (row.status == 405) != (got.header.Get("Allow") == "POST") {
			t.Errorf("%s: header = %v, want application/problem+json, and Allow with 405", row.name, got.header)
		}
		if found := goIdentifier.FindString(fmt.Sprint(got.json["detail"])); found != "" {
			t.Errorf("%s: detail %q contains %q, which a caller in another language does not know", row.name, got.json["detail"], found)
		}
	}
	a.wantUnchanged()
}

// wantUnchanged checks that rejected calls had no effect on a server with a frozen clock.
func (a *api) wantUnchanged() {
	a.t.Helper()
	if !a.srv.Now().Equal(frozenAt) {
		a.t.Error("a rejected advance moved the clock")
	}
	if got := a.control(http.MethodGet, "faults", ""); len(got.json["injections"].([]any)) != 0 {
		a.t.Errorf("a rejected fault was injected: %s", got.body)
	}
	if n := len(a.srv.Deliveries()); n != 0 {
		a.t.Errorf("%d callbacks were queued, want none", n)
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
