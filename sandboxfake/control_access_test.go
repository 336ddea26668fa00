package sandboxfake_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"io"
	"log"
	"maps"
	"net"
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
		got := a.sendHeader(row.method, row.path, row.header)

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
	withToken := func(token string) sandboxfake.Option {
		return sandboxfake.WithControl(sandboxfake.ControlOptions{Token: idverify.NewSecret(token)})
	}
	for _, token := range []string{"a.fixed-token_of~ours+/1234==", strings.Repeat("x", 16), strings.Repeat("x", 256)} {
		if got := start(withToken(token)).ControlToken(); got != token {
			t.Errorf("ControlToken() = %q, want the token of the option", got)
		}
	}
	for _, token := range []string{strings.Repeat("x", 15), strings.Repeat("x", 257), "a token with spaces", "a-token-with-\n-in-it", `a-token-with-"quotes"`} {
		err := startError(sandboxfake.WithInMemory(), withToken(token))
		if want := "sandboxfake: control token must have 16 to 256 letters, digits or characters of -._~+/="; err == nil || err.Error() != want {
			t.Errorf("WithControl with the token %q: error = %v, want %s", token, err, want)
		}
	}
}

// A reverse proxy on the same machine connects from loopback, as curl does. Only the token
// distinguishes their callers.
func TestServer_ControlBehindProxy(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithControl(sandboxfake.ControlOptions{}))
	backend := must(url.Parse(srv.URL()))(t)
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
				request := must(http.NewRequestWithContext(t.Context(), http.MethodGet, proxy.URL+"/_sandbox/requests", nil))(t)
				request.Header = header
				response := must(proxy.Client().Do(request))(t)
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
		row.header.Set("Authorization", "Bearer "+a.srv.ControlToken())

		if got := a.sendHeader(http.MethodPost, "/_sandbox/idle", row.header); got.status != row.status || got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d, allowed origin %q, want %d and none", row.name, got.status, got.header.Get("Access-Control-Allow-Origin"), row.status)
		}
	}
	preflight := http.Header{"Origin": {"https://evil.example"}, "Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"authorization,content-type"}}
	if got := a.sendHeader(http.MethodOptions, "/_sandbox/idle", preflight); got.status/100 == 2 || got.header.Get("Access-Control-Allow-Headers") != "" {
		t.Errorf("preflight = %d %v, want it rejected", got.status, got.header)
	}
}

// session opens a session and returns its cookie.
func (a *api) session() *http.Cookie {
	a.t.Helper()
	got := a.control(http.MethodPost, "session", "")
	cookies := (&http.Response{Header: got.header}).Cookies()
	if got.status != http.StatusNoContent || len(cookies) != 1 {
		a.t.Fatalf("open a session: %d with %d cookies, want 204 with one", got.status, len(cookies))
	}
	return cookies[0]
}

func TestServer_SessionCookie(t *testing.T) {
	t.Parallel()
	a, other := newControlAPI(t), newControlAPI(t)

	cookie := a.session()

	if !cookie.Secure || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/_sandbox/" || cookie.Domain != "" {
		t.Errorf("cookie = %v, want Secure, HttpOnly, SameSite=Strict for /_sandbox/ of the host", cookie)
	}
	if strings.Contains(cookie.String(), a.srv.ControlToken()) {
		t.Error("the cookie contains the control token")
	}
	value, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if suffix, ok := strings.CutPrefix(cookie.Name, "sandboxfake_"); err != nil || len(value) != 32 || !ok || len(suffix) != 8 || suffix == hex.EncodeToString(value[:4]) {
		t.Errorf("cookie = %s, want a name of eight digits that disclose no part of the value", cookie)
	}
	if another := other.session(); another.Name == cookie.Name || another.Value == cookie.Value {
		t.Error("two servers share a session: the pages of one would replace the cookie of the other")
	}
	a.srv.Reset()
	if again := a.session(); again.String() != cookie.String() {
		t.Error("Reset changed the cookie: the page would lose its session")
	}
	ended := (&http.Response{Header: a.control(http.MethodDelete, "session", "").header}).Cookies()
	if len(ended) != 1 || ended[0].Name != cookie.Name || ended[0].MaxAge >= 0 || ended[0].Value != "" || ended[0].Path != cookie.Path {
		t.Errorf("DELETE sets %v, want an expired cookie of the same name", ended)
	}
}

func TestServer_SessionAuthorizes(t *testing.T) {
	t.Parallel()
	a, another := newControlAPI(t), newControlAPI(t)
	cookie, fromAnother := a.session(), another.session()
	right, token := cookie.Name+"="+cookie.Value, a.srv.ControlToken()
	origin := strings.TrimPrefix(a.srv.URL(), "https://")
	for _, row := range []struct {
		name      string
		header    http.Header
		get, post int
	}{
		{"no cookie", http.Header{}, 401, 401},
		{"cookie", http.Header{"Cookie": {right}}, 204, 204},
		{"cookie among others", http.Header{"Cookie": {"a=b; " + right + "; c=d"}}, 204, 204},
		{"wrong and right cookie", http.Header{"Cookie": {cookie.Name + "=x; " + right}}, 204, 204},
		{"wrong value", http.Header{"Cookie": {cookie.Name + "=" + strings.ToLower(cookie.Value)}}, 401, 401},
		{"truncated value", http.Header{"Cookie": {right[:len(right)-1]}}, 401, 401},
		{"empty value", http.Header{"Cookie": {cookie.Name + "="}}, 401, 401},
		{"token as the value", http.Header{"Cookie": {cookie.Name + "=" + token}}, 401, 401},
		{"cookie of another run", http.Header{"Cookie": {fromAnother.Name + "=" + fromAnother.Value}}, 401, 401},
		{"value of another run", http.Header{"Cookie": {cookie.Name + "=" + fromAnother.Value}}, 401, 401},
		{"value under another name", http.Header{"Cookie": {fromAnother.Name + "=" + cookie.Value}}, 401, 401},
		{"value as a bearer token", bearer(cookie.Value), 401, 401},
		{"cookie and wrong token", http.Header{"Cookie": {right}, "Authorization": {"Bearer wrong"}}, 401, 401},
		{"cookie and other scheme", http.Header{"Cookie": {right}, "Authorization": {"Basic eDp5"}}, 401, 401},
		{"cookie and empty header", http.Header{"Cookie": {right}, "Authorization": {""}}, 401, 401},
		{"wrong cookie and token", http.Header{"Cookie": {cookie.Name + "=x"}, "Authorization": {"Bearer " + token}}, 204, 204},

		// Browsers send the cookie to all ports of the host, and for pages of all its ports.
		{"page of the same origin", http.Header{"Cookie": {right}, "Sec-Fetch-Site": {"same-origin"}, "Origin": {"https://" + origin}}, 204, 204},
		{"address bar", http.Header{"Cookie": {right}, "Sec-Fetch-Site": {"none"}}, 204, 204},
		{"page of another port", http.Header{"Cookie": {right}, "Sec-Fetch-Site": {"same-site"}}, 401, 403},
		{"page of another site", http.Header{"Cookie": {right}, "Sec-Fetch-Site": {"cross-site"}}, 401, 403},
		{"origin without Sec-Fetch-Site", http.Header{"Cookie": {right}, "Origin": {"https://" + origin}}, 204, 204},
		{"origin of another port", http.Header{"Cookie": {right}, "Origin": {"https://" + origin + ":1"}}, 401, 403},
		{"origin of a sandboxed frame", http.Header{"Cookie": {right}, "Origin": {"null"}}, 401, 403},
		{"malformed origin", http.Header{"Cookie": {right}, "Origin": {"https://%zz"}}, 401, 403},

		{"form", http.Header{"Cookie": {right}, "Content-Type": {"application/x-www-form-urlencoded"}}, 204, 415},
		{"form with files", http.Header{"Cookie": {right}, "Content-Type": {"multipart/form-data; boundary=x"}}, 204, 415},
		{"plain text", http.Header{"Cookie": {right}, "Content-Type": {"text/plain"}}, 204, 415},
		{"malformed type", http.Header{"Cookie": {right}, "Content-Type": {"application/json/x"}}, 204, 415},
	} {
		if row.header["Content-Type"] == nil {
			row.header.Set("Content-Type", "application/json")
		}
		send := func(method string) response { return a.sendHeader(method, "/_sandbox/session", row.header) }

		get, post, del := send(http.MethodGet), send(http.MethodPost), send(http.MethodDelete)

		wantDelete := row.post
		if wantDelete == http.StatusUnsupportedMediaType {
			wantDelete = http.StatusNoContent
		}
		if get.status != row.get || post.status != row.post || del.status != wantDelete {
			t.Errorf("%s: GET %d, POST %d, DELETE %d, want %d, %d, %d", row.name, get.status, post.status, del.status, row.get, row.post, wantDelete)
		}
		for _, got := range []response{get, post, del} {
			if got.status >= 400 && got.header.Get("Set-Cookie") != "" {
				t.Errorf("%s: a response with %d sets a cookie", row.name, got.status)
			}
		}
	}
}

func TestServer_ControlResponseHeaders(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	for want, got := range map[[2]string]response{
		{"application/json", ""}:                                     a.control(http.MethodGet, "health", ""),
		{"application/problem+json", `Bearer realm="control plane"`}: a.do(a.request(http.MethodGet, "/_sandbox/time", "")),
	} {
		for name, want := range map[string]string{
			"Content-Type": want[0], "Www-Authenticate": want[1],
			"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin", "Access-Control-Allow-Origin": "",
		} {
			if value := got.header.Get(name); value != want {
				t.Errorf("%d with %s %q, want %q", got.status, name, value, want)
			}
		}
		if got.status == http.StatusOK && string(got.body) != `{"status":"ok"}` {
			t.Errorf("health = %s", got.body)
		}
	}
}

func TestServer_ControlAddresses(t *testing.T) {
	t.Parallel()
	local := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443}
	const path, neighbor = "/_sandbox/time", "192.0.2.2:5000"
	for _, row := range []struct {
		name, path, from string
		local            net.Addr
		header           http.Header
		remote           bool // ControlOptions.Remote
		status           int
	}{
		{"loopback", path, "127.0.0.1:5000", nil, nil, false, 200},
		{"IPv6 loopback", path, "[::1]:5000", nil, nil, false, 200},
		{"mapped loopback", path, "[::ffff:127.0.0.1]:5000", nil, nil, false, 200},
		{"other machine", path, "192.0.2.1:5000", nil, nil, false, 403},
		{"other machine over IPv6", path, "[2001:db8::1]:5000", nil, nil, false, 403},
		{"no address", path, "", nil, nil, false, 403},
		{"health from another machine", "/_sandbox/health", "192.0.2.1:5000", nil, nil, false, 200},
		{"other machine with remote control", path, "192.0.2.1:5000", nil, nil, true, 200},

		{"address of this machine", path, "192.0.2.1:5000", local, nil, false, 200},
		{"mapped address of this machine", path, "[::ffff:192.0.2.1]:5000", local, nil, false, 200},
		{"IPv6 address of this machine", path, "[2001:db8::1]:5000", &net.TCPAddr{IP: net.ParseIP("2001:db8::1")}, nil, false, 200},
		{"neighbor", path, neighbor, local, nil, false, 403},
		{"local address without port", path, "192.0.2.1:5000", &net.UnixAddr{Name: "192.0.2.1"}, nil, false, 403},
		{"no remote address", path, "", &net.TCPAddr{}, nil, false, 403},
		{"X-Forwarded-For", path, neighbor, local, http.Header{"X-Forwarded-For": {"127.0.0.1"}}, false, 403},
		{"Forwarded", path, neighbor, local, http.Header{"Forwarded": {"for=127.0.0.1;host=localhost"}}, false, 403},
		{"X-Real-IP", path, neighbor, local, http.Header{"X-Real-Ip": {"127.0.0.1"}}, false, 403},
		{"True-Client-IP", path, neighbor, local, http.Header{"True-Client-Ip": {"::1"}}, false, 403},
		{"Host", "http://127.0.0.1" + path, neighbor, local, nil, false, 403},
		{"forwarded for another machine", path, "127.0.0.1:5000", local, http.Header{"X-Forwarded-For": {"192.0.2.2"}}, false, 200},
	} {
		srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithControl(sandboxfake.ControlOptions{Remote: row.remote}))
		header := bearer(srv.ControlToken())
		maps.Copy(header, row.header)

		if got := serveFrom(t, srv, row.from, row.local, http.MethodGet, row.path, header); got.Code != row.status {
			t.Errorf("%s: %d, want %d", row.name, got.Code, row.status)
		}
	}
}

func TestServer_ControlOwnAddress(t *testing.T) {
	t.Parallel()
	addresses := must(net.InterfaceAddrs())(t)
	var own net.IP
	for _, address := range addresses {
		if n, ok := address.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			own = n.IP
		}
	}
	if own == nil {
		t.Skip("this machine has only loopback addresses")
	}
	srv := sandboxfake.New(t, sandboxfake.WithFreshKeys(), sandboxfake.WithControl(sandboxfake.ControlOptions{}), sandboxfake.WithAddr(net.JoinHostPort(own.String(), "0")))
	a := &api{t: t, srv: srv}

	got := a.control(http.MethodGet, "time", "")

	if got.status != http.StatusOK {
		t.Errorf("request to this machine's own address: %d %s, want 200", got.status, got.body)
	}
}
