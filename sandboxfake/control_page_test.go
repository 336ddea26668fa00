package sandboxfake_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/sandboxfake"
)

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
		request := httptest.NewRequestWithContext(t.Context(), row.method, row.path, nil)
		request.RemoteAddr = "192.0.2.1:5000"
		if row.header != nil {
			request.Header = row.header
		}
		recorder := httptest.NewRecorder()

		sandboxfake.Serve(srv, recorder, request)

		if recorder.Code != row.status {
			t.Errorf("%s from another machine: %d, want %d", row.name, recorder.Code, row.status)
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
		request := httptest.NewRequestWithContext(t.Context(), row.method, "/_sandbox/page/private/x", nil)
		request.RemoteAddr = row.from
		if row.token {
			request.Header = bearer(srv.ControlToken())
		}
		recorder := httptest.NewRecorder()

		sandboxfake.Serve(srv, recorder, request)

		page := recorder.Header().Get("X-Page") != ""
		if recorder.Code != row.status || page != (row.status == http.StatusOK) {
			t.Errorf("%s: %d from the page %t, want %d", row.name, recorder.Code, page, row.status)
		}
	}
}

func TestServer_ControlPageOff(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	for path, want := range map[string]int{"/_sandbox/": 200, "/_sandbox/page/main.js": 401, "/_sandbox/open/a-check": 401, "/_sandbox/ca": 401, "/": 401} {
		request := a.request(http.MethodGet, path, "")
		request.Header.Set("Accept", browserAccept)

		got := a.do(request)

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
		srv, err := sandboxfake.Start(append([]sandboxfake.Option{sandboxfake.WithInMemory()}, options...)...)

		if err == nil {
			srv.Close()
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
	open := func(path string, header http.Header) response {
		request := a.request(http.MethodGet, path, "")
		request.Header = header.Clone()
		return a.do(request)
	}
	for _, path := range []string{phoneChecks, phoneChecks02, "/subscriber_check/v0.1/checks"} {
		for _, client := range phoneClients {
			id := a.create(path, `{"phone_number":"447700900012"}`)
			before := len(a.srv.Requests())

			got := open(path+"/"+id+"/redirect", client.header)

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
		if got := open(path+"/x", phoneClients[0].header); got.status != http.StatusUnauthorized {
			t.Errorf("%s: browser reads a check: %d, want 401 as for other clients", path, got.status)
		}
	}
}

func TestServer_PhonePageOff(t *testing.T) {
	t.Parallel()
	a := newPageAPI(t)
	id := a.create(phoneChecks, `{"phone_number":"447700900012"}`)
	request := a.request(http.MethodGet, phoneChecks+"/"+id+"/redirect", "")
	request.Header = phoneClients[0].header

	a.do(request)

	if got := a.get(phoneChecks + "/" + id); got.json["status"] != "COMPLETED" {
		t.Errorf("check opened in a browser = %s, want COMPLETED: only PhonePage adds a page", got.body)
	}
}

func TestServer_RootRedirectsBrowsers(t *testing.T) {
	t.Parallel()
	a := newPageAPI(t)
	for accept, want := range map[string]int{browserAccept: 303, "*/*": 401} {
		request := a.request(http.MethodGet, "/", "")
		request.Header.Set("Accept", accept)

		got := a.do(request)

		if got.status != want || want == 303 && got.header.Get("Location") != "/_sandbox/" {
			t.Errorf("GET / of %q: %d to %q, want %d", accept, got.status, got.header.Get("Location"), want)
		}
	}
}
