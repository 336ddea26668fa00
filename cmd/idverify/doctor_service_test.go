package main

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

var discardLog = log.New(io.Discard, "", 0)

// unusedAddress rejects connections. Another test could already listen on a port that was free a
// moment ago.
const unusedAddress = "127.0.0.1:9"

// broadcastURL has an address to which TCP cannot connect.
const broadcastURL = "https://255.255.255.255"

// connectProxy starts a proxy that connects every host to one address. It responds to CONNECT with
// a status, or with 200 if that is 0.
func connectProxy(t *testing.T, target string, status int) (proxyURL string) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || status != 0 {
			http.Error(w, "", max(status, http.StatusMethodNotAllowed))
			return
		}
		upstream, err := new(net.Dialer).DialContext(r.Context(), "tcp", target)
		if err != nil {
			http.Error(w, "", http.StatusBadGateway)
			return
		}
		client, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			upstream.Close()
			return
		}
		io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n")
		splice(client, upstream)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// splice copies data between two connections until both have ended.
func splice(a, b net.Conn) {
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			io.Copy(pair[0], pair[1])
			pair[0].Close()
		})
	}
	both.Wait()
	b.Close()
}

func TestDoctor_Connection(t *testing.T) {
	t.Parallel()
	_, env := newService(t)
	for _, row := range []struct{ problem, baseURL, detail string }{
		{"unresolved", "https://service.invalid", "service.invalid"},
		{"closed-port", "https://" + unusedAddress, "connection refused"},
		{"unreachable", broadcastURL, ""},
	} {
		t.Run(row.problem, func(t *testing.T) {
			t.Parallel()

			got := doctorJSON(t, with(env, baseURLVariable, row.baseURL))

			got.wantProblem(t, "base-url-connection", row.problem, row.detail)
			got.wantSkipped(t, "base url connection failed", "base-url-tls", "base-url-response", "clock", "credentials-token", "credentials-scopes", "credentials-mode", "key-set")
		})
	}
}

func TestDoctor_Certificates(t *testing.T) {
	t.Parallel()
	trusted, unknown := newAuthority(t, "Trusted CA"), newAuthority(t, "Unknown CA")
	ok := func(http.ResponseWriter, *http.Request) {}
	serve := func(c tls.Certificate) string { return serveTLS(t, c, ok) }
	plain := httptest.NewServer(http.HandlerFunc(ok))
	t.Cleanup(plain.Close)
	for _, row := range []struct{ problem, url, detail string }{
		{"untrusted", serve(unknown.issue(t, longValidity, "127.0.0.1")), `the issuer "CN=Unknown CA" is not trusted`},
		{"expired", serve(trusted.issue(t, -time.Hour, "127.0.0.1")), "the certificate expired on "},
		{"wrong-host", serve(trusted.issue(t, longValidity, "other.example.com")), "valid for other.example.com, not for 127.0.0.1"},
		{"expires-soon", serve(trusted.issue(t, 3*24*time.Hour+time.Hour, "127.0.0.1")), "expires in 3 days"},
		{"handshake", "https" + strings.TrimPrefix(plain.URL, "http"), "HTTP response to HTTPS client"},
		{"", serve(trusted.issue(t, longValidity, "127.0.0.1")), "trusted by IDVERIFY_CA_FILE"},
	} {
		t.Run(row.problem, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{baseURLVariable: row.url, caFileVariable: trusted.file}

			service := doctorJSON(t, env, "-only", "base-url")
			receiver := doctorJSON(t, env, "-only", "callback", "-callback-url", row.url+"/callbacks")

			if row.problem == "" {
				service.wantOK(t, "base-url-tls")
				receiver.wantProblem(t, "callback-tls", "private-ca", `"CN=Trusted CA"`)
				return
			}
			receiver.wantProblem(t, "callback-tls", row.problem, row.detail)
			if row.problem == "untrusted" {
				row.problem, row.detail = "other-ca", `the root certificate of the server is "CN=Unknown CA", but IDVERIFY_CA_FILE contains "CN=Trusted CA" with SHA-256 `
				doctorJSON(t, map[string]string{baseURLVariable: row.url}, "-only", "base-url").wantProblem(t, "base-url-tls", "untrusted", `the issuer "CN=Unknown CA" is not trusted`)
			}
			service.wantProblem(t, "base-url-tls", row.problem, row.detail)
			if row.problem != "expires-soon" {
				service.wantSkipped(t, "base url tls failed", "base-url-response")
				receiver.wantSkipped(t, "callback tls failed", "callback-unsigned", "callback-forged", "callback-get")
			}
		})
	}
}

// TestProgram_OtherRun uses the CA file of another run of the fake, whose certificate has the same
// subject.
func TestProgram_OtherRun(t *testing.T) {
	t.Parallel()
	srv, env := newService(t, sandboxfake.WithFreshKeys())
	other := sandboxfake.New(t, sandboxfake.WithFreshKeys())
	mixed := with(env, caFileVariable, writeFile(t, string(other.CACertPEM())))
	fingerprint := func(s *sandboxfake.Server) string {
		sum := sha256.Sum256(pemBytes(t, string(s.CACertPEM())))
		return fmt.Sprintf("%X:%X:", sum[0:1], sum[1:2])
	}
	const subject = `"CN=sandboxfake CA of one run" with SHA-256 `
	want := regexp.MustCompile("the root certificate of the server is " + subject + fingerprint(srv) + "[0-9A-F:]*…, but IDVERIFY_CA_FILE contains " + subject + fingerprint(other))

	checked := doctorJSON(t, mixed)
	listed := runProgram(t, mixed, "", "check", "list")
	explained := runProgram(t, mixed, rawHead(signedCallback(t), "", "\r\n")+capturedBody, "explain", "-host", "api.example.com")

	checked.wantProblem(t, "base-url-tls", "other-ca", "")
	for command, text := range map[string]string{"doctor": checked.row(t, "base-url-tls").Detail, "check list": listed.stderr, "explain": explained.stderr} {
		if !want.MatchString(text) {
			t.Errorf("%s: output does not match %s:\n%s", command, want, text)
		}
	}
	if listed.code != exitError || explained.code != exitError {
		t.Errorf("exit codes = %d and %d, want %d", listed.code, explained.code, exitError)
	}
}

func TestDoctor_Response(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "Test CA")
	for problem, row := range map[string]struct {
		handler http.HandlerFunc
		detail  string
	}{
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://new.example.com/path?token=1", http.StatusFound)
		}, "302 Found to the host new.example.com"},
		"none": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
	} {
		t.Run(problem, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{baseURLVariable: serveTLS(t, ca.issue(t, longValidity, "127.0.0.1"), row.handler), caFileVariable: ca.file}

			got := doctorJSON(t, env, "-only", "base-url", "-only", "key-set")

			got.wantProblem(t, "base-url-response", problem, row.detail)
			got.wantSkipped(t, "base url response failed", "key-set")
		})
	}
}

func TestDoctor_Proxy(t *testing.T) {
	t.Parallel()
	srv, env := newService(t)
	ca := newAuthority(t, "Test CA")
	target := serveTLS(t, ca.issue(t, longValidity, "service.example.com"), front(t, srv, func(http.Header) {}))
	env[baseURLVariable], env[caFileVariable] = "https://service.example.com", ca.file
	through := connectProxy(t, strings.TrimPrefix(target, "https://"), 0)
	withPassword := strings.Replace(connectProxy(t, "", http.StatusProxyAuthRequired), "http://", "http://user:proxy-password@", 1)
	for _, row := range []struct{ problem, proxy, detail string }{
		{"invalid", "http://%zz", "not the URL of a proxy"},
		{"unreachable", "http://" + unusedAddress, "connection refused"},
		{"rejected", withPassword, "responds to CONNECT with 407 Proxy Authentication Required"},
		{"", through, strings.TrimPrefix(through, "http://")},
	} {
		t.Run(row.problem, func(t *testing.T) {
			t.Parallel()

			got := doctorJSON(t, with(env, "HTTPS_PROXY", row.proxy))

			if strings.Contains(got.text, "proxy-password") {
				t.Errorf("the output contains the password of the proxy: %s", got.text)
			}
			if row.problem == "" {
				got.wantOK(t, "base-url-proxy", "base-url-connection", "base-url-tls", "base-url-response", "credentials-token", "key-set", "clock")
				return
			}
			got.wantProblem(t, "base-url-proxy", row.problem, row.detail)
			got.wantSkipped(t, "base url proxy failed", "base-url-tls", "key-set")
		})
	}
	t.Run("excluded", func(t *testing.T) {
		t.Parallel()
		direct := with(with(env, "HTTPS_PROXY", through), "NO_PROXY", "example.com")

		got := doctorJSON(t, direct, "-only", "base-url-proxy")

		got.wantOK(t, "base-url-proxy")
		if row := got.row(t, "base-url-proxy"); !strings.Contains(row.Detail, "none for service.example.com (NO_PROXY") {
			t.Errorf("detail = %q, want that no proxy is used", row.Detail)
		}
	})
	t.Run("replaces the certificate", func(t *testing.T) {
		t.Parallel()
		intercepting := with(with(env, "HTTPS_PROXY", through), caFileVariable, newAuthority(t, "Another CA").file)

		got := doctorJSON(t, intercepting, "-only", "base-url")

		got.wantProblem(t, "base-url-tls", "other-ca", `" with SHA-256 `)
		if row := got.row(t, "base-url-tls"); !strings.HasSuffix(row.Detail, "(the proxy may have replaced the certificate of the server)") {
			t.Errorf("detail = %q, want that the proxy may have replaced the certificate", row.Detail)
		}
	})
}

func TestDoctor_Clock(t *testing.T) {
	t.Parallel()
	second := time.Now().Truncate(time.Second)
	const ms = time.Millisecond
	for _, row := range []struct {
		clock   time.Duration // of the program, after second
		date    time.Duration // of the response, after second
		took    time.Duration // until the response
		problem string
		detail  string
	}{
		{999 * ms, 0, 0, "", "agrees with the service within 0.6 s"},
		{900 * ms, time.Second, 0, "", "agrees with the service within 0.6 s"},
		{899 * ms, time.Second, 0, "", "0.6 s behind the service (± 0.6 s)"},
		{100 * ms, -time.Second, 0, "", "agrees with the service within 0.6 s"},
		{500 * ms, -time.Second, 0, "", "1 s ahead of the service (± 0.6 s)"},
		{500*ms + 1, -time.Second, 0, "skewed", "1 s ahead of the service (± 0.6 s)"},
		{500 * ms, 3 * time.Second, 0, "skewed", "3 s behind the service (± 0.6 s)"},
		{500 * ms, 5 * time.Second, 0, "skewed", "5 s behind the service (± 0.6 s)"},
		{500*ms - 1, 5 * time.Second, 0, "wrong", "5 s behind the service (± 0.6 s)"},
		{500 * ms, -5 * time.Second, 0, "skewed", "5 s ahead of the service (± 0.6 s)"},
		{500 * ms, 30 * time.Second, 0, "wrong", "30 s behind the service (± 0.6 s)"},
		{500 * ms, -30 * time.Second, 0, "wrong", "30 s ahead of the service (± 0.6 s)"},
		// The service has dated the response in the middle of the round trip.
		{500 * ms, time.Second, 2 * time.Second, "", "agrees with the service within 1.6 s"},
		{500 * ms, 3 * time.Second, 2 * time.Second, "skewed", "2 s behind the service (± 1.6 s)"},
		{500 * ms, time.Second, 100 * ms, "", "1 s behind the service (± 0.6 s)"},
		{500 * ms, time.Second, 200 * ms, "", "0.9 s behind the service (± 0.7 s)"},
	} {
		t.Run(fmt.Sprint(row.clock, " ", row.date, " ", row.took), func(t *testing.T) {
			t.Parallel()
			p := newProgram(nil)
			clock := stopClock(p, second.Add(row.clock))
			_, env := behind(t, func(h http.Header) {
				clock.move(row.took)
				h.Set("Date", second.Add(row.date).UTC().Format(http.TimeFormat))
			})
			p.getenv = func(name string) string { return env[name] }

			got := p.doctorJSON(t, t.Context(), "-only", "clock")

			got.wantProblem(t, "clock", row.problem, "")
			if detail := got.row(t, "clock").Detail; detail != row.detail {
				t.Errorf("detail = %q, want %q", detail, row.detail)
			}
		})
	}
	t.Run("from a cache", func(t *testing.T) {
		t.Parallel()
		_, env := behind(t, func(h http.Header) {
			h.Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
			h.Set("Age", "3600")
		})

		got := doctorJSON(t, env, "-only", "clock")

		got.wantOK(t, "clock")
	})
}

func TestDoctor_KeySet(t *testing.T) {
	t.Parallel()
	t.Run("unavailable", func(t *testing.T) {
		t.Parallel()
		srv, env := newService(t)
		srv.Inject(sandboxfake.Match{Operation: "jwks.get", Repeat: true}, sandboxfake.Fault{Status: 503})

		got := doctorJSON(t, env)

		got.wantProblem(t, "key-set", "unavailable", "503 Service Unavailable")
		got.wantOK(t, "credentials-token", "clock")
	})
	t.Run("rotated", func(t *testing.T) {
		t.Parallel()
		srv, env := newService(t)
		srv.RotateKeys()

		got := doctorJSON(t, env, "-only", "key-set")

		got.wantOK(t, "key-set")
		if row := got.row(t, "key-set"); !strings.HasPrefix(row.Detail, "2 keys, fetched in ") || !strings.HasSuffix(row.Detail, ", valid for 300 s") {
			t.Errorf("detail = %q, want 2 keys", row.Detail)
		}
	})
	for name, row := range map[string]struct{ body, problem, detail string }{
		"not a key set": {"<html>", "unusable", "none of 0 keys in the response is usable"},
		"other keys":    {`{"keys":[{"kty":"EC","kid":"a"}]}`, "unusable", "none of 1 key in the response is usable"},
		"private part":  {`{"keys":[` + jwk(testKeys()[0], "a", "") + `,` + jwk(testKeys()[1], "b", `,"d":"AQAB"`) + `]}`, "ignored", "1 key, 1 ignored"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, env := newService(t)
			srv.Inject(sandboxfake.Match{Operation: "jwks.get", Repeat: true}, sandboxfake.Fault{Status: 200, Body: row.body})

			got := doctorJSON(t, env, "-only", "key-set")

			got.wantProblem(t, "key-set", row.problem, row.detail)
		})
	}
	t.Run("cached", func(t *testing.T) {
		t.Parallel()
		_, env := behind(t, func(h http.Header) { h.Set("Age", "120") })

		got := doctorJSON(t, env, "-only", "key-set")

		got.wantProblem(t, "key-set", "cached", "from a cache that fetched them 120 s ago")
	})
}

func TestDoctor_Configuration(t *testing.T) {
	t.Parallel()
	secret := "the-secret-value"
	variables := map[string]string{clientIDVariable: "id", clientSecretVariable: secret}
	file := writeFile(t, `{"client_id": "id", "client_secret": "`+secret+`"}`)
	readable := writeFile(t, `{"client_id": "id", "client_secret": "`+secret+`"}`)
	noError(t, os.Chmod(readable, 0o644))
	for _, row := range []struct {
		check, problem string
		env            map[string]string
		detail         string
	}{
		{"config-base-url", "missing", nil, "IDVERIFY_BASE_URL is not set"},
		{"config-base-url", "invalid", map[string]string{baseURLVariable: "http://api.example.com"}, "must begin with https://"},
		{"config-base-url", "invalid", map[string]string{baseURLVariable: "https://api.example.com/v1"}, "only scheme and host"},
		{"config-base-url", "invalid", map[string]string{baseURLVariable: " https://api.example.com"}, "malformed"},
		{"config-base-url", "invalid", map[string]string{baseURLVariable: "https://u:the-password@api.example.com"}, "must not contain a user"},
		{"config-credentials", "missing", nil, "neither IDVERIFY_CLIENT_ID and IDVERIFY_CLIENT_SECRET nor IDVERIFY_CREDENTIALS_FILE is set"},
		{"config-credentials", "missing", map[string]string{clientIDVariable: "id"}, "IDVERIFY_CLIENT_SECRET is not set"},
		{"config-credentials", "missing", map[string]string{clientSecretVariable: secret}, "IDVERIFY_CLIENT_ID is not set"},
		{"config-credentials", "invalid", map[string]string{clientIDVariable: "id", clientSecretVariable: secret + "\n"}, "white space"},
		{"config-credentials", "invalid", map[string]string{credentialsFileVariable: writeFile(t, "not JSON "+secret)}, "not JSON"},
		{"config-credentials", "unreadable", map[string]string{credentialsFileVariable: file + "-missing"}, "no such file"},
		{"config-credentials", "ambiguous", with(variables, credentialsFileVariable, file), "are set"},
		{"config-credentials", "readable", map[string]string{credentialsFileVariable: readable}, "permissions 0644"},
		{"config-ca-file", "invalid", map[string]string{caFileVariable: file}, "no PEM certificate"},
		{"config-ca-file", "invalid", map[string]string{caFileVariable: file + "-missing"}, "no such file"},
		{"config-base-url", "", map[string]string{baseURLVariable: "https://api.example.com"}, "https://api.example.com"},
		{"config-credentials", "", variables, "in the environment"},
		{"config-credentials", "", map[string]string{credentialsFileVariable: file}, "in a file"},
		{"config-ca-file", "", nil, "not set"},
	} {
		t.Run(row.check+" "+row.problem, func(t *testing.T) {
			t.Parallel()

			got := doctorJSON(t, row.env, "-only", row.check)

			got.wantProblem(t, row.check, row.problem, row.detail)
			if strings.Contains(got.text, secret) || strings.Contains(got.text, "the-password") {
				t.Errorf("output = %s, want no secret", got.text)
			}
		})
	}
}

func liveProject() idverify.ProjectParams {
	return idverify.ProjectParams{Name: "shop", Mode: idverify.ModeLive}
}

func countRequests(srv *sandboxfake.Server, operation string) int {
	n := 0
	for _, r := range srv.Requests() {
		if r.Operation == operation {
			n++
		}
	}
	return n
}

func TestDoctor_Credentials(t *testing.T) {
	t.Parallel()
	token := func(faults ...sandboxfake.Fault) func(*testing.T, *sandboxfake.Server, map[string]string) {
		return func(_ *testing.T, srv *sandboxfake.Server, _ map[string]string) {
			srv.Inject(sandboxfake.Match{Operation: "token.create"}, faults...)
		}
	}
	noScope := sandboxfake.Fault{Status: 400, Code: "invalid_scope"}
	for _, row := range []struct {
		check, problem string
		arrange        func(*testing.T, *sandboxfake.Server, map[string]string)
		detail         string
	}{
		{"credentials-token", "rejected", func(_ *testing.T, _ *sandboxfake.Server, env map[string]string) {
			env[clientSecretVariable] = "another-secret"
		}, "invalid_client"},
		{"credentials-token", "unavailable", token(sandboxfake.Fault{Status: 503}), "503"},
		{"credentials-scopes", "none", func(_ *testing.T, srv *sandboxfake.Server, env map[string]string) {
			workspace := srv.ConsoleCredentials()
			env[clientIDVariable], env[clientSecretVariable] = workspace.ClientID, workspace.ClientSecret.Reveal()
		}, "no scope of a product"},
		{"credentials-scopes", "missing", token(sandboxfake.Fault{}, noScope, sandboxfake.Fault{}, noScope), "no sim_check, coverage"},
		{"credentials-scopes", "unavailable", token(sandboxfake.Fault{}, sandboxfake.Fault{Status: 503}), "503"},
		{"credentials-mode", "free", func(t *testing.T, srv *sandboxfake.Server, _ map[string]string) {
			createChecks(t, srv.Client(), 1)
		}, "was not charged"},
		{"credentials-mode", "unavailable", func(_ *testing.T, srv *sandboxfake.Server, _ map[string]string) {
			srv.Inject(sandboxfake.Match{Operation: "sim_check.list"}, sandboxfake.Fault{Status: 500})
		}, "500"},
	} {
		t.Run(row.check+" "+row.problem, func(t *testing.T) {
			t.Parallel()
			srv, env := newService(t)
			row.arrange(t, srv, env)

			got := doctorJSON(t, env)

			got.wantProblem(t, row.check, row.problem, row.detail)
			got.wantOK(t, "key-set")
			if row.check == "credentials-token" {
				got.wantSkipped(t, "credentials token failed", "credentials-scopes", "credentials-mode")
			}
		})
	}
}

// The mode of a project must not be guessed.
func TestDoctor_UnknownMode(t *testing.T) {
	t.Parallel()
	srv, env := newService(t)

	got := doctorJSON(t, env)

	got.wantSkipped(t, "the project has no stored check", "credentials-mode")
	got.wantOK(t, "credentials-token", "credentials-scopes")
	if row := got.row(t, "credentials-scopes"); row.Detail != "phone_check, sim_check, subscriber_check, coverage" {
		t.Errorf("scopes = %q, want all", row.Detail)
	}
	if n := countRequests(srv, "token.create"); n != len(productScopes) {
		t.Errorf("%d token requests, want one for each scope", n)
	}
}

// TestDoctor_OnlyMode checks that credentials-mode runs the checks whose results it uses.
func TestDoctor_OnlyMode(t *testing.T) {
	t.Parallel()
	srv, env := newService(t)
	createChecks(t, srv.Client(), 1)

	got := doctorJSON(t, env, "-only", "credentials-mode")

	got.wantProblem(t, "credentials-mode", "free", "was not charged")
	got.wantOK(t, "credentials-token", "credentials-scopes")
}

// The output must not contain what a server sends to control a terminal, and no phone number.
func TestDoctor_SanitizesServerText(t *testing.T) {
	t.Parallel()
	srv, env := newService(t)
	srv.Inject(sandboxfake.Match{Operation: "token.create"}, sandboxfake.Fault{Status: 400, Body: "{\"error\":\"server_error\",\"error_description\":\"\\u001b[31mred +447700900012\\u202e" + strings.Repeat("x", 1000) + "\"}"})

	got := runProgram(t, env, "", "doctor")

	got.expect(t, exitProblem, []string{"!\x1b", "!\u202e", "!447700900012", "!" + strings.Repeat("x", 400)}, nil)
}

// hangingAddress returns the address of a server that responds nothing. It calls received when a
// connection has sent something.
func hangingAddress(t *testing.T, received func()) string {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	var connections sync.WaitGroup
	connections.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Go(func() {
				conn.Read(make([]byte, 1))
				received()
				io.Copy(io.Discard, conn) // until the program disconnects
				conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		connections.Wait()
	})
	return listener.Addr().String()
}

func TestDoctor_HangingTLS(t *testing.T) {
	t.Parallel()
	p := newProgram(nil)
	clock := stopClock(p, time.Now())
	url := "https://" + hangingAddress(t, func() { clock.move(500 * time.Millisecond) })
	p.getenv = func(name string) string { return map[string]string{baseURLVariable: url}[name] }

	got := p.doctorJSON(t, t.Context(), "-only", "base-url", "-only", "callback", "-callback-url", url, "-timeout", "500ms")

	got.wantOK(t, "base-url-connection")
	got.wantProblem(t, "base-url-tls", "timeout", "overloaded, or blocked by a firewall")
	got.wantSkipped(t, "base url tls failed", "base-url-response")
	got.wantProblem(t, "callback-tls", "timeout", "overloaded, or blocked by a firewall")
}

func TestDoctor_HangingProxy(t *testing.T) {
	t.Parallel()
	var clock *stoppedClock
	address := hangingAddress(t, func() { clock.move(500 * time.Millisecond) })
	p := newProgram(map[string]string{baseURLVariable: "https://service.example.com", "HTTPS_PROXY": "http://user:the-password@" + address})
	clock = stopClock(p, time.Now())

	got := p.doctorJSON(t, t.Context(), "-only", "base-url", "-only", "callback", "-callback-url", "https://127.0.0.2/callbacks", "-timeout", "500ms")

	got.wantProblem(t, "base-url-proxy", "timeout", "no response to CONNECT")
	got.wantSkipped(t, "base url proxy failed", "base-url-connection", "base-url-tls", "base-url-response")
}

// The other checks must not depend on the key set.
func TestDoctor_HangingKeySet(t *testing.T) {
	t.Parallel()
	srv, env := newService(t)
	ca := newAuthority(t, "Test CA")
	p := newProgram(env)
	clock := stopClock(p, time.Now())
	next := front(t, srv, func(h http.Header) { h.Set("Date", clock.now().UTC().Format(http.TimeFormat)) })
	env[baseURLVariable] = serveTLS(t, ca.issue(t, longValidity, "127.0.0.1"), func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/jwks.json"):
			clock.move(3 * time.Second)
			<-r.Context().Done()
			return
		case r.Method == http.MethodGet && r.URL.Path == "/oauth2/v1/token" && r.Header.Get("Authorization") != "":
			t.Error("the GET request to the token endpoint contains credentials")
		}
		next(w, r)
	})
	env[caFileVariable] = ca.file

	all := p.doctorJSON(t, t.Context(), "-timeout", "3s")
	only := p.doctorJSON(t, t.Context(), "-only", "clock", "-timeout", "3s")

	all.wantOK(t, "base-url-tls", "base-url-response", "clock", "credentials-token", "credentials-scopes")
	all.wantProblem(t, "key-set", "unavailable", "no response before the timeout")
	only.wantOK(t, "clock")
	if detail := all.row(t, "base-url-response").Detail; !strings.Contains(detail, "no response to the request for the key set") {
		t.Errorf("detail of base-url-response = %q, want the key set as the cause", detail)
	}
}
