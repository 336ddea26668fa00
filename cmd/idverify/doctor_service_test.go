package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idverify/idverify-go/sandboxfake"
)

var discardLog = log.New(io.Discard, "", 0)

func contextWithCancel(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithCancel(t.Context())
}

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
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	serve := func(c tls.Certificate) string { return serveTLS(t, c, ok) }
	plain := httptest.NewServer(ok)
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
	for _, row := range []struct {
		problem string
		offset  time.Duration
		detail  string
	}{
		{"wrong", 30 * time.Second, "behind the service"},
		{"wrong", -30 * time.Second, "ahead of the service"},
		{"skewed", 3 * time.Second, "behind the service"},
		{"skewed", -3 * time.Second, "ahead of the service"},
	} {
		t.Run(row.problem+" "+row.detail, func(t *testing.T) {
			t.Parallel()
			_, env := behind(t, func(h http.Header) { h.Set("Date", time.Now().Add(row.offset).UTC().Format(http.TimeFormat)) })

			got := doctorJSON(t, env, "-only", "clock")

			got.wantProblem(t, "clock", row.problem, row.detail)
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
		"private part":  {`{"keys":[` + rsaKey("a", "") + `,` + rsaKey("b", `,"d":"AQAB"`) + `]}`, "ignored", "1 key, 1 ignored"},
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
