package main

import (
	"net"
	"net/http"
	"strings"
	"testing"
)

// hangingAddress returns the address of a server that accepts connections and sends nothing.
func hangingAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String()
}

func TestDoctor_HangingTLS(t *testing.T) {
	t.Parallel()
	url := "https://" + hangingAddress(t)

	got := doctorJSON(t, map[string]string{baseURLVariable: url}, "-only", "base-url", "-only", "callback", "-callback-url", url, "-timeout", "500ms")

	got.wantOK(t, "base-url-connection")
	got.wantProblem(t, "base-url-tls", "timeout", "overloaded, or blocked by a firewall")
	got.wantSkipped(t, "base url tls failed", "base-url-response")
	got.wantProblem(t, "callback-tls", "timeout", "overloaded, or blocked by a firewall")
}

func TestDoctor_HangingProxy(t *testing.T) {
	t.Parallel()
	env := map[string]string{baseURLVariable: "https://service.example.com", "HTTPS_PROXY": "http://user:the-password@" + hangingAddress(t)}

	got := doctorJSON(t, env, "-only", "base-url", "-only", "callback", "-callback-url", "https://127.0.0.2/callbacks", "-timeout", "500ms")

	got.wantProblem(t, "base-url-proxy", "timeout", "no response to CONNECT")
	got.wantSkipped(t, "base url proxy failed", "base-url-connection", "base-url-tls", "base-url-response")
}

// A proxy that rejects the connection must not make a receiver look reachable.
func TestDoctor_ReceiverBehindProxy(t *testing.T) {
	t.Parallel()
	env := map[string]string{"HTTPS_PROXY": connectProxy(t, "", http.StatusBadGateway)}

	got := doctorJSON(t, env, "-only", "callback", "-callback-url", "https://203.0.113.5/callbacks")

	got.wantProblem(t, "callback-address", "unreachable", "through the proxy: Bad Gateway")
}

// The other checks must not depend on the key set.
func TestDoctor_HangingKeySet(t *testing.T) {
	t.Parallel()
	srv, env := newService(t)
	ca := newAuthority(t, "Test CA")
	next := front(t, srv, func(http.Header) {})
	env[baseURLVariable] = serveTLS(t, ca.issue(t, longValidity, "127.0.0.1"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/jwks.json"):
			<-r.Context().Done()
			return
		case r.Method == http.MethodGet && r.URL.Path == "/oauth2/v1/token" && r.Header.Get("Authorization") != "":
			t.Error("the GET request to the token endpoint contains credentials")
		}
		next.ServeHTTP(w, r)
	}))
	env[caFileVariable] = ca.file

	all := doctorJSON(t, env, "-timeout", "3s")
	clock := doctorJSON(t, env, "-only", "clock", "-timeout", "3s")

	all.wantOK(t, "base-url-tls", "base-url-response", "clock", "credentials-token", "credentials-scopes")
	all.wantProblem(t, "key-set", "unavailable", "no response before the timeout")
	clock.wantOK(t, "clock")
	if detail := all.row(t, "base-url-response").Detail; !strings.Contains(detail, "no response to the request for the key set") {
		t.Errorf("detail of base-url-response = %q, want the key set as the cause", detail)
	}
}
