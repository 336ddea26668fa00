package sandboxfake

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/sandboxfake/internal/memnet"
)

// Fuzz targets for the parsers of untrusted input. No input causes a panic or a 5XX response.

// fuzzServer returns a server with one check, and a token for it.
func fuzzServer(f *testing.F) (s *Server, token string, ck *check) {
	f.Helper()
	s = New(f, WithInMemory(), WithFrozenClock(memnet.NotBefore.AddDate(50, 0, 0)))
	svc := s.lock()
	defer svc.mu.Unlock()
	credential := svc.accounts.credentials[svc.initial.project.ClientID]
	ck = &check{product: &products[0], version: wire.V02, project: credential.project, id: "c1", phone: "447700900012", status: wire.StatusPending, code: "the code"}
	svc.checks[ck.id] = ck
	ck.project.checks[wire.PhoneCheck] = append(ck.project.checks[wire.PhoneCheck], ck)
	return s, svc.issueToken(credential, projectScopes).text, ck
}

// serveRequest passes a request to the server's handler and returns the response.
func serveRequest(t *testing.T, s *Server, request *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	s.serve(w, request)
	if w.Code >= 500 {
		t.Errorf("response = %d %s, want a status below 500", w.Code, w.Body)
	}
	if w.Code >= 400 && !json.Valid(w.Body.Bytes()) {
		t.Errorf("error response is not JSON: %s", w.Body)
	}
	return w
}

func FuzzTokenForm(f *testing.F) {
	f.Add("application/x-www-form-urlencoded", []byte("grant_type=client_credentials&scope=phone_check"))
	f.Add("multipart/form-data; boundary=b", []byte("--b\r\nContent-Disposition: form-data; name=\"grant_type\"\r\n\r\nclient_credentials\r\n--b\r\nContent-Disposition: form-data; name=\"scope\"\r\n\r\nphone_check\r\n--b--\r\n"))
	f.Add("multipart/form-data", []byte("--"))
	f.Add("multipart/form-data; boundary=b", []byte("--b\r\nContent-Disposition: form-data; name=\"scope"))
	f.Add("application/x-www-form-urlencoded", []byte("scope=%zz&scope;"))
	f.Add("application/json", []byte("{}"))
	s, _, _ := fuzzServer(f)
	credentials := s.Credentials()
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		request := httptest.NewRequest(http.MethodPost, wire.Token.Path, bytes.NewReader(body))
		request.Header.Set("Content-Type", contentType)
		request.SetBasicAuth(credentials.ClientID, credentials.ClientSecret.Reveal())

		w := serveRequest(t, s, request)

		form, err := parseForm(contentType, body)
		if w.Code == http.StatusOK && (err != nil || form.Get("grant_type") != "client_credentials" || form.Get("scope") == "") {
			t.Errorf("token issued for the form %v, %v", form, err)
		}
	})
}

func FuzzCreateBody(f *testing.F) {
	for _, seed := range []string{`{"phone_number":"447700900012"}`, `{"phone_number":"447700900012","callback_url":"https://app.sandbox.test/?a=b","redirect_url":"http://app.sandbox.test","reference_id":"r","phone_ip":"2001:db8::1"}`, `{"phone_number":7}`, `{"Phone_Number":"447700900012"}`, `{"phone_number":"447700900012"} {}`, `[`, ``, "\xff"} {
		f.Add([]byte(seed))
	}
	s, token, _ := fuzzServer(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		request := httptest.NewRequest(http.MethodPost, "/phone_check/v0.2/checks", bytes.NewReader(body))
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Content-Type", wire.MediaJSON)

		w := serveRequest(t, s, request)

		if w.Code != http.StatusCreated {
			return
		}
		var view struct {
			PhoneNumber string `json:"phone_number"`
			CallbackURL string `json:"callback_url"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &view); err != nil || !validPhoneNumber(view.PhoneNumber) {
			t.Errorf("check created for the number %q, %v", view.PhoneNumber, err)
		}
		if u, err := url.Parse(view.CallbackURL); view.CallbackURL != "" && (err != nil || u.Host == "" || u.User != nil) {
			t.Errorf("check created with the callback URL %q", view.CallbackURL)
		}
	})
}

func FuzzCompleteBody(f *testing.F) {
	for _, seed := range []string{`[{"op":"add","path":"/code","value":"the code"}]`, `[{"op":"add","path":"/code","value":"another"}]`, `[{"OP":"add","path":"/code","value":"the code"}]`, `[]`, `{}`, `null`, `[{"op":"add","path":"/code","value":["the code"]}]`, `[{"op":"add"`} {
		f.Add([]byte(seed))
	}
	s, token, ck := fuzzServer(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		ck.status, ck.code = wire.StatusPending, "the code"
		request := httptest.NewRequest(http.MethodPatch, "/phone_check/v0.2/checks/c1", bytes.NewReader(body))
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Content-Type", wire.MediaJSONPatch)

		w := serveRequest(t, s, request)

		done := ck.status == wire.StatusCompleted
		if done != (w.Code == http.StatusOK) {
			t.Errorf("status %d, but the check is %s", w.Code, ck.status)
		}
		if done && !bytes.Contains(body, []byte("code")) && !bytes.Contains(body, []byte(`\u`)) {
			t.Errorf("completed with %q, which has no code", body)
		}
	})
}

func FuzzPath(f *testing.F) {
	for _, seed := range []string{"/phone_check/v0.1/checks", "/phone_check/v0.2/checks/c1/traces/t1", "/phone_check/v0.1/checks/a%2Fb", "/phone_check/v9/checks", "//", "", "/console/v0.1/workspaces/default/members/m/credentials/c/reset", "/coverage/v0.1/device_ips/%zz", "/.well-known/jwks.json", "/phone_check/v0.1/checks/../checks"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		found := routes().find(path)

		if found == nil {
			return
		}
		for method, endpoint := range found.methods {
			if endpoint.op.Method != method {
				t.Errorf("%q is routed to %s %s for method %s", path, endpoint.op.Method, endpoint.op.Path, method)
			}
			// The operation's path with the same IDs has the same route.
			var ids []string
			for segment := range strings.SplitSeq(endpoint.op.Path, "/") {
				if name := strings.Trim(segment, "{}"); name != segment && name != "v" {
					ids = append(ids, found.ids[name])
				}
			}
			built, err := endpoint.op.URL("", found.version, ids...)
			if err != nil {
				continue // a dot segment, which a client does not send
			}
			if again := routes().find(built); again == nil || again.methods[method].op != endpoint.op {
				t.Errorf("%q is routed to %s, but %q is not", path, endpoint.op.Name, built)
			}
		}
	})
}

// Browsers change nothing in a redirect URL that browserURL returns, and net/url parses it with the
// same query.
func FuzzRedirectURL(f *testing.F) {
	for _, seed := range []string{
		"https://app.test", `HTTPS://APP.test:0443/a"b/../%2e/c d?e'f&g#`, "http://0x7f.1:80\\a", "http://[::ffff:192.0.2.1]:81/|^`{}", "https://bücher.test?ä", "https://xn--a.test", "https://1.2.3.08/", "https://user@app.test", "//app.test", "https://?a;b=%zz",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if redirectDefect(text) != "" {
			return
		}
		u := browserURL(text)
		again := browserURL(u.String())
		parsed, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u.String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if again == nil || again.String() != u.String() || redirectDefect(u.String()) != "" {
			t.Errorf("%q is written as %q, and that as %v, want it unchanged", text, u, again)
		}
		if parsed.Host != u.Host || parsed.URL.Scheme != u.Scheme || parsed.URL.RawQuery != u.RawQuery || strings.Contains(parsed.URL.EscapedPath()+"/", "/../") {
			t.Errorf("%q is written as %q, which net/url parses as %+v", text, u, parsed.URL)
		}
		_, rawQuery, _ := strings.Cut(text, "?")
		given, err := url.ParseQuery(rawQuery)
		if err != nil || given.Encode() != parsed.URL.Query().Encode() {
			t.Errorf("%q is written as %q: query = %v, want %v (error %v)", text, u, parsed.URL.Query(), given, err)
		}
	})
}
