package sandboxfake_test

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// bearer returns an Authorization header with a control token.
func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

func TestServer_ControlRequiresToken(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))
	token := a.srv.ControlToken()
	for _, row := range []struct {
		name, method, path string
		header             http.Header
		status             int
	}{
		{"help", http.MethodGet, "/_sandbox/", nil, 200},
		{"HEAD of help", http.MethodHead, "/_sandbox/", nil, 200},
		{"health", http.MethodGet, "/_sandbox/health", nil, 200},
		{"HEAD of health", http.MethodHead, "/_sandbox/health", nil, 200},
		{"description of the service", http.MethodGet, "/_sandbox/service.json", nil, 200},
		{"path without slash", http.MethodGet, "/_sandbox", nil, 307},
		{"POST to health", http.MethodPost, "/_sandbox/health", nil, 401},
		{"no token", http.MethodGet, "/_sandbox/requests", nil, 401},
		{"no token for a POST", http.MethodPost, "/_sandbox/reset", http.Header{"Content-Type": {"application/json"}}, 401},
		{"no token for an unknown path", http.MethodGet, "/_sandbox/nothing", nil, 401},
		{"no token with an escaped path", http.MethodGet, "/%5fsandbox/requests", nil, 401},
		{"no token with dot segments", http.MethodGet, "/_sandbox/health/../requests", nil, 401},
		{"token in lower case", http.MethodGet, "/_sandbox/requests", bearer(strings.ToLower(token)), 401},
		{"truncated token", http.MethodGet, "/_sandbox/requests", bearer(token[:len(token)-1]), 401},
		{"empty token", http.MethodGet, "/_sandbox/requests", bearer(""), 401},
		{"access token of the service", http.MethodGet, "/_sandbox/requests", bearer(a.token), 401},
		{"wrong scheme", http.MethodGet, "/_sandbox/requests", http.Header{"Authorization": {"Basic " + token}}, 401},
		{"two tokens", http.MethodGet, "/_sandbox/requests", http.Header{"Authorization": {"Bearer " + token, "Bearer " + token}}, 401},
		{"token in the query", http.MethodGet, "/_sandbox/requests?access_token=" + token, nil, 401},
		{"token", http.MethodGet, "/_sandbox/requests", bearer(token), 200},
		{"lower-case scheme", http.MethodGet, "/_sandbox/requests", http.Header{"Authorization": {"bearer " + token}}, 200},
	} {
		request := a.request(row.method, row.path, "")
		request.Header = row.header

		got := a.do(request)

		if got.status != row.status {
			t.Errorf("%s: %d %s, want %d", row.name, got.status, got.body, row.status)
		}
		if challenge := got.header.Get("WWW-Authenticate"); (row.status == 401) != strings.HasPrefix(challenge, "Bearer ") {
			t.Errorf("%s: %d with WWW-Authenticate %q, want a Bearer challenge with 401 only", row.name, got.status, challenge)
		}
		if row.status == 307 && got.header.Get("Location") != "/_sandbox/" {
			t.Errorf("%s: redirects to %q, want /_sandbox/", row.name, got.header.Get("Location"))
		}
	}
	if got := a.get(phoneChecks); got.status != http.StatusOK {
		t.Errorf("request to the service = %d, want 200: a reset without token took effect", got.status)
	}
}

func TestServer_ControlToken(t *testing.T) {
	t.Parallel()
	start := func(opts ...sandboxfake.Option) *sandboxfake.Server {
		return sandboxfake.New(t, append(opts, sandboxfake.WithInMemory())...)
	}

	first, second := start(sandboxfake.WithControl(sandboxfake.ControlOptions{})), start(sandboxfake.WithControl(sandboxfake.ControlOptions{Remote: true}))
	before := first.ControlToken()
	first.Reset()

	if before == "" || second.ControlToken() == "" || before == second.ControlToken() {
		t.Error("two servers of one seed share a control token or have none: anyone who knows the seed could control them")
	}
	if first.ControlToken() != before {
		t.Error("Reset changed the control token")
	}
	if got := start().ControlToken(); got != "" {
		t.Errorf("ControlToken() without control plane = %q, want none", got)
	}
	const fixed = "a.fixed-token_of~ours+/1234=="
	withToken := func(token string) sandboxfake.Option {
		return sandboxfake.WithControl(sandboxfake.ControlOptions{Token: idverify.NewSecret(token)})
	}
	if got := start(withToken(fixed)).ControlToken(); got != fixed {
		t.Errorf("ControlToken() = %q, want the token of the option", got)
	}
	for _, token := range []string{"tooshort", strings.Repeat("x", 257), "a token with spaces", "a-token-with-\n-in-it", `a-token-with-"quotes"`} {
		if srv, err := sandboxfake.Start(sandboxfake.WithInMemory(), withToken(token)); err == nil {
			srv.Close()
			t.Errorf("WithControl accepts the token %q, want an error", token)
		}
	}
}

// A reverse proxy on the same machine connects from loopback, as curl does. Only the token
// distinguishes their callers.
func TestServer_ControlBehindProxy(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithControl(sandboxfake.ControlOptions{}))
	backend, err := url.Parse(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name    string
		rewrite func(*httputil.ProxyRequest)
	}{
		{"Host of the backend, no other header", func(r *httputil.ProxyRequest) { r.SetURL(backend) }},
		{"Host of the client, X-Forwarded headers", func(r *httputil.ProxyRequest) {
			r.SetURL(backend)
			r.SetXForwarded()
			r.Out.Host = "sandbox.example"
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: exportedRoots(t, srv)}}
			t.Cleanup(transport.CloseIdleConnections)
			proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: row.rewrite, Transport: transport, ErrorLog: log.New(io.Discard, "", 0)})
			t.Cleanup(proxy.Close)
			get := func(header http.Header) int {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, proxy.URL+"/_sandbox/requests", nil)
				if err != nil {
					t.Fatal(err)
				}
				request.Header = header
				response, err := proxy.Client().Do(request)
				if err != nil {
					t.Fatal(err)
				}
				response.Body.Close()
				return response.StatusCode
			}

			without, with := get(http.Header{}), get(bearer(srv.ControlToken()))

			if without != http.StatusUnauthorized || with != http.StatusOK {
				t.Errorf("without token %d, with token %d, want 401 and 200", without, with)
			}
		})
	}
}

func TestServer_ControlCrossOrigin(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	for _, row := range []struct {
		name   string
		header http.Header
		status int
	}{
		{"form without preflight", http.Header{"Content-Type": {"text/plain"}}, 415},
		{"URL-encoded form", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, 415},
		{"no content type", http.Header{}, 415},
		{"other site by Sec-Fetch-Site", http.Header{"Content-Type": {"application/json"}, "Sec-Fetch-Site": {"cross-site"}}, 403},
		{"other site by Origin", http.Header{"Content-Type": {"application/json"}, "Origin": {"https://evil.example"}}, 403},
		{"JSON of a program", http.Header{"Content-Type": {"application/json; charset=utf-8"}}, 204},
	} {
		request := a.request(http.MethodPost, "/_sandbox/idle", "")
		request.Header = row.header
		request.Header.Set("Authorization", "Bearer "+a.srv.ControlToken())

		if got := a.do(request); got.status != row.status || got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d, allowed origin %q, want %d and none", row.name, got.status, got.header.Get("Access-Control-Allow-Origin"), row.status)
		}
	}
	preflight := a.request(http.MethodOptions, "/_sandbox/idle", "")
	preflight.Header = http.Header{"Origin": {"https://evil.example"}, "Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"authorization,content-type"}}
	if got := a.do(preflight); got.status/100 == 2 || got.header.Get("Access-Control-Allow-Headers") != "" {
		t.Errorf("preflight = %d %v, want it rejected", got.status, got.header)
	}
}

func TestServer_ControlRemoteAddresses(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		option sandboxfake.Option
		path   string
		from   string
		status int
	}{
		{"this machine", sandboxfake.WithControl(sandboxfake.ControlOptions{}), "time", "127.0.0.1:5000", 200},
		{"this machine over IPv6", sandboxfake.WithControl(sandboxfake.ControlOptions{}), "time", "[::1]:5000", 200},
		{"this machine over mapped IPv4", sandboxfake.WithControl(sandboxfake.ControlOptions{}), "time", "[::ffff:127.0.0.1]:5000", 200},
		{"other machine", sandboxfake.WithControl(sandboxfake.ControlOptions{}), "time", "192.0.2.1:5000", 403},
		{"other machine over IPv6", sandboxfake.WithControl(sandboxfake.ControlOptions{}), "time", "[2001:db8::1]:5000", 403},
		{"no address", sandboxfake.WithControl(sandboxfake.ControlOptions{}), "time", "", 403},
		{"health from another machine", sandboxfake.WithControl(sandboxfake.ControlOptions{}), "health", "192.0.2.1:5000", 200},
		{"other machine with remote control", sandboxfake.WithControl(sandboxfake.ControlOptions{Remote: true}), "time", "192.0.2.1:5000", 200},
	} {
		srv := sandboxfake.New(t, sandboxfake.WithInMemory(), row.option)
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/_sandbox/"+row.path, nil)
		request.RemoteAddr = row.from
		request.Header = bearer(srv.ControlToken())
		recorder := httptest.NewRecorder()

		sandboxfake.Serve(srv, recorder, request)

		if recorder.Code != row.status {
			t.Errorf("%s: %d, want %d", row.name, recorder.Code, row.status)
		}
	}
}

func TestServer_ControlOperations(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)

	listed := a.control(http.MethodGet, "operations", "").json["operations"].([]any)

	names := make(map[string]bool)
	for _, row := range listed {
		name := row.(map[string]any)["operation"].(string)
		names[name] = true
		// Faults accept each name.
		if got := a.control(http.MethodPost, "faults", `{"match":{"operation":"`+name+`"},"faults":[{}]}`); got.status != http.StatusNoContent {
			t.Errorf("inject a fault for %s: %d %s, want 204", name, got.status, got.body)
		}
	}
	for _, want := range []string{"phone_check.create", "token.create", "callback"} {
		if !names[want] {
			t.Errorf("operation %s is not listed", want)
		}
	}
}

func TestServer_Expire(t *testing.T) {
	t.Parallel()
	expirers := map[string]func(*api, string){
		"Go": func(a *api, id string) { a.srv.Expire(id) },
		"control plane": func(a *api, id string) {
			if got := a.control(http.MethodPost, "expire", `{"check_id":"`+id+`"}`); got.status != http.StatusNoContent {
				a.t.Errorf("expire: %d %s", got.status, got.body)
			}
		},
	}
	for name, expire := range expirers {
		for _, path := range []string{phoneChecks, phoneChecks02} {
			t.Run(name+path, func(t *testing.T) {
				t.Parallel()
				a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))
				var receiver recordingReceiver
				id := a.create(path, `{"phone_number":"447700900012","callback_url":"`+a.srv.Handle("app.sandbox.test", &receiver)+`"}`)
				other := a.create(path, `{"phone_number":"447700900012"}`)
				if path == phoneChecks02 {
					a.get(path + "/" + id + "/redirect") // PENDING expires too
				}

				expire(a, id)

				if err := a.srv.Idle(t.Context()); err != nil {
					t.Fatal(err)
				}
				if !a.srv.Now().Equal(frozenAt) {
					t.Errorf("clock = %v, want it unchanged", a.srv.Now())
				}
				a.get(path+"/"+id).wantProblem(t, 404, "check_not_found")
				if got := a.get(path + "/" + other); got.status != http.StatusOK {
					t.Errorf("other check = %d, want 200", got.status)
				}
				if body := receiver.last(t); body["check_id"] != id || body["status"] != "EXPIRED" || body["match"] != nil {
					t.Errorf("callback = %v, want EXPIRED without match", body)
				}
			})
		}
	}
}

func TestServer_ExpireEndedCheck(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	id := a.create(phoneChecks, `{"phone_number":"447700900012"}`)
	a.get(phoneChecks + "/" + id + "/redirect")

	got := a.control(http.MethodPost, "expire", `{"check_id":"`+id+`"}`)

	got.wantProblem(t, http.StatusBadRequest, "bad_request")
	if check := a.get(phoneChecks + "/" + id); check.json["status"] != "COMPLETED" {
		t.Errorf("check = %s, want COMPLETED as before", check.body)
	}
}

func TestServer_ExpireUnknownCheck(t *testing.T) {
	t.Parallel()
	tb := new(fatalTB)
	srv := sandboxfake.New(tb, sandboxfake.WithInMemory())
	t.Cleanup(func() { srv.Close() })

	message := tb.catch(func() { srv.Expire("unknown") })

	if !strings.Contains(message, "expire") {
		t.Errorf("failure of the test = %q, want one that names Expire", message)
	}
}
