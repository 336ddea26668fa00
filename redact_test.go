package idverify_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/internal/tooltest"
)

func TestError_RedactsEscapedSecrets(t *testing.T) {
	t.Parallel()
	const clientID = "client-1"
	escapes := regexp.MustCompile("%[0-9A-F]{2}")
	asJSON := func(s string) string { b, _ := json.Marshal(s); return strings.Trim(string(b), `"`) }
	notations := map[string]func(string) string{
		"plain":              func(s string) string { return s },
		"query":              url.QueryEscape,
		"path":               url.PathEscape,
		"query, lowercase":   func(s string) string { return escapes.ReplaceAllStringFunc(url.QueryEscape(s), strings.ToLower) },
		"every byte":         func(s string) string { return strings.ReplaceAll(fmt.Sprintf(" % x", s), " ", "%") },
		"encodeURIComponent": func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "%27", "'") },
		"HTML":               html.EscapeString,
		"HTML, named quotes": strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;").Replace,
		"HTML, hexadecimal":  strings.NewReplacer("&", "&#x26;", "<", "&#X3c;", ">", "&#x03E;", `"`, "&#x22;", "'", "&#x27;", "=", "&#x3d;", "+", "&#43;").Replace,
		"JSON":               asJSON,
		"JSON, slashes":      func(s string) string { return strings.ReplaceAll(asJSON(s), "/", `\/`) },
		"JSON, uppercase":    strings.NewReplacer(`"`, `\"`, "<", `\u003C`, "&", `\u0026`, "+", `\u002B`, "/", `\u002f`).Replace,
		"repeated":           func(s string) string { return s + "\n" + s },
	}
	const secret, token, code = `p<&"ss/+w'ord=1 2`, `tok/en+"with<all>&'of=it`, `c&o/d+e"<of>'a=check 1`
	basic := []byte(clientID + ":" + secret)
	values := map[string]string{
		"client secret":  secret,
		"token":          token,
		"code":           code,
		"base64":         base64.StdEncoding.EncodeToString(basic),
		"base64, raw":    base64.RawStdEncoding.EncodeToString(basic),
		"base64url":      base64.URLEncoding.EncodeToString(basic),
		"base64url, raw": base64.RawURLEncoding.EncodeToString(basic),
	}
	for name, escape := range notations {
		for what, value := range values {
			echo := escape(value)
			t.Run(what+"/"+name, func(t *testing.T) {
				t.Parallel()
				logs := new(tooltest.Buffer)
				page := "<h1>401</h1> (" + echo + ") end"
				detail, _ := json.Marshal("seen (" + echo + ") end")
				srv := newService(t, respondInTurn(
					respondWith(403, page),
					respondWith(403, `{"type":"https://docs.example/#forbidden","detail":`+string(detail)+`}`),
					respondWith(200, page),
				))
				srv.token = func(w http.ResponseWriter, _ *http.Request) { // the token consists of VSCHAR (RFC 6749)
					body, _ := json.Marshal(map[string]any{"access_token": token, "expires_in": 3600})
					w.Write(body)
				}
				logger := slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
				c := must(idverify.NewClient(srv.URL, idverify.Credentials{ClientID: clientID, ClientSecret: idverify.NewSecret(secret)},
					idverify.WithHTTPClient(srv.Client()), idverify.WithLogger(logger), v02))(t)

				for range 3 {
					_, err := c.PhoneChecks.Get(t.Context(), "a")
					if what == "code" {
						_, err = c.PhoneChecks.Complete(t.Context(), "a", code)
					}

					text := fmt.Sprintf("%+v", err)
					if e, ok := errors.AsType[*idverify.Error](err); ok {
						text += e.Detail
					}
					if strings.Contains(text, echo) || strings.Contains(text, echo[:len(echo)/2]) || !strings.Contains(text, "([REDACTED]") {
						t.Errorf("%q echoed as %q: error = %s, want [REDACTED]", value, echo, text)
					}
				}
				if strings.Contains(logs.String(), echo) {
					t.Errorf("log contains %q:\n%s", echo, logs)
				}
			})
		}
	}
}

// The service, a proxy or the client's limits may truncate a body within a secret.
func TestError_RedactsTruncatedSecrets(t *testing.T) {
	t.Parallel()
	token := "begin-" + strings.Repeat("of-a-long-token-", 100)
	for name, body := range map[string]string{
		"at the end":               "the token was " + token[:40],
		"with another end":         "the token was " + token[:200] + "? no",
		"beyond the examined part": strings.Repeat(token+" ", 1000),
		"beyond the shown part":    strings.Repeat("z ", 140) + token,
	} {
		srv := newService(t, respondWith(403, body))
		srv.token = respondWith(200, `{"access_token":"`+token+`","expires_in":3600}`)

		_, err := srv.client(t).PhoneChecks.Get(t.Context(), "a")

		if err == nil || strings.Contains(err.Error(), "begin-of-a") || !strings.Contains(err.Error(), "[REDACTED]") {
			t.Errorf("%s: error = %v, want [REDACTED]", name, err)
		}
	}
}

// The client replaces a rejected or expired token. Responses may contain it, or the first token.
func TestError_RedactsPreviousTokens(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]error{http.StatusUnauthorized: idverify.ErrUnauthorized, http.StatusForbidden: idverify.ErrForbidden} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			srv := newService(t, nil)
			srv.respond = func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Request-Id", "id-of-token-of-this-test-1")
				w.WriteHeader(status)
				fmt.Fprintf(w, "not token-of-this-test-%d, nor token-of-this-test-1.", len(srv.tokens()))
			}
			srv.token = func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"access_token":"token-of-this-test-%d","expires_in":3600}`, len(srv.tokens()))
			}
			clock := newClock()
			c := srv.client(t, idverify.WithClock(clock.now))

			for i := range 4 {
				_, err := c.PhoneChecks.Get(t.Context(), "a")
				clock.advance(2 * time.Hour) // until the token has expired

				if got := len(srv.tokens()); got <= i || !errors.Is(err, want) || strings.Contains(err.Error(), "of-this-test") || !strings.Contains(err.Error(), "not [REDACTED], nor [REDACTED]") {
					t.Errorf("error = %v after %d tokens, want %v with redacted tokens", err, got, want)
				}
			}
		})
	}
}

// Redaction must be fast for any token.
func TestError_RedactsLongTokens(t *testing.T) {
	t.Parallel()
	for name, char := range map[string]string{"letters": "a", "backslashes": `\`, "percent signs": "%", "ampersands": "&"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := newService(t, respondWith(500, strings.Repeat(strings.Repeat(char, 60)+"!", 17_000)))
			token, _ := json.Marshal(strings.Repeat(char, 500_000))
			srv.token = respondWith(200, `{"access_token":`+string(token)+`}`)
			srv.Client().Transport.(*http.Transport).MaxResponseHeaderBytes = 2 << 20
			srv.Config.MaxHeaderBytes = 2 << 20

			_, err := srv.client(t, withoutRetries).PhoneChecks.Get(t.Context(), "a")

			if err == nil || len(err.Error()) > 1000 {
				t.Errorf("length of the error = %d, want an error of at most 1000 bytes", len(fmt.Sprint(err)))
			}
		})
	}
}

// During a long attempt other callers may fetch and drop many tokens.
func TestError_RedactsTokenOfAttempt(t *testing.T) {
	t.Parallel()
	const token = "1-token-of-the-attempt"
	for name, finish := range map[string]func() (*http.Response, error){
		"problem":         func() (*http.Response, error) { return response(403, []byte("<html>"+token)), nil },
		"not a check":     func() (*http.Response, error) { return response(200, []byte("<html>"+token)), nil },
		"transport error": func() (*http.Response, error) { return nil, errors.New("lost " + token) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var c *idverify.Client
			tokens := 0
			c = clientOver(t, roundTripperFunc(func(r *http.Request) (*http.Response, error) {
				switch {
				case r.URL.Path == tokenPath:
					tokens++
					return response(200, fmt.Appendf(nil, `{"access_token":"%d-token-of-the-attempt"}`, tokens)), nil
				case strings.HasSuffix(r.URL.Path, "/other"):
					return response(401, nil), nil
				}
				for range 20 {
					_, _ = c.PhoneChecks.Get(t.Context(), "other")
				}
				return finish()
			}), withoutRetries)

			_, err := c.PhoneChecks.Get(t.Context(), "a")

			if err == nil || tokens < 20 || strings.Contains(err.Error(), token) || !strings.Contains(err.Error(), "[REDACTED]") {
				t.Errorf("error = %v after %d tokens, want [REDACTED] after at least 20", err, tokens)
			}
		})
	}
}

// An error while the client reads a token response comes from the caller's transport.
func TestError_RedactsTokenResponseError(t *testing.T) {
	t.Parallel()
	secret := credentials.ClientSecret.Reveal()
	c := clientOver(t, roundTripperFunc(func(*http.Request) (*http.Response, error) {
		resp := response(http.StatusOK, nil)
		resp.Body = io.NopCloser(iotest.ErrReader(errors.New("lost " + secret)))
		return resp, nil
	}), withoutRetries)

	_, err := c.Token(t.Context(), idverify.ScopeReachability)

	if text := fmt.Sprint(err); !strings.Contains(text, "lost [REDACTED]") || strings.Contains(text, secret) {
		t.Errorf("error = %v, want it without the client secret", err)
	}
}

// The service may echo a token in the field status.
func TestWait_ErrorRedactsSecrets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTransportClient(t, always(http.StatusOK, []byte(`{"check_id":"a","status":"token-1","ttl":10}`)))

		_, ended := c.PhoneChecks.Wait(t.Context(), "a")
		_, canceled := c.PhoneChecks.Wait(withDeadline(t, time.Second), "a")

		for _, err := range []error{ended, canceled} {
			if text := fmt.Sprint(err); !strings.Contains(text, "still [REDACTED]") {
				t.Errorf("error = %v, want it without the token", err)
			}
		}
	})
}

// The service, a proxy or the transport may echo the request of Complete.
func TestComplete_RedactsCode(t *testing.T) {
	t.Parallel()
	problem := func(status int) func(http.ResponseWriter, string, string) {
		return func(w http.ResponseWriter, code, body string) {
			w.Header().Set("X-Request-Id", "for-"+code)
			w.WriteHeader(status)
			b, _ := json.Marshal(map[string]any{"type": "https://docs.example/" + code + "#" + code, "title": "no " + code, "detail": "received " + body})
			w.Write(b)
		}
	}
	for name, echo := range map[string]func(w http.ResponseWriter, code, body string){
		"problem":           problem(http.StatusForbidden),
		"retried problem":   problem(http.StatusTooManyRequests),
		"unknown outcome":   problem(http.StatusServiceUnavailable),
		"unexpected status": problem(http.StatusFound),
		"page":              func(w http.ResponseWriter, _, body string) { w.WriteHeader(403); io.WriteString(w, "<h1>"+body) },
		"escaped for a URL": func(w http.ResponseWriter, _, body string) {
			w.WriteHeader(403)
			io.WriteString(w, url.QueryEscape(body))
		},
		"escaped for JSON":     func(w http.ResponseWriter, _, body string) { w.WriteHeader(403); fmt.Fprintf(w, "received %q", body) },
		"unusable response":    func(w http.ResponseWriter, _, body string) { fmt.Fprintf(w, "%q", body) },
		"truncated response":   func(w http.ResponseWriter, _, body string) { respondTruncated(403, body)(w, nil) },
		"error of the body":    func(w http.ResponseWriter, _, body string) { w.Header().Set("X-Error", body) },
		"error of a transport": func(w http.ResponseWriter, _, body string) { w.Header().Set("X-Error", body); w.WriteHeader(500) },
	} {
		for _, code := range []string{"7c1e0b52-8f7d-4b0e-a9c3-code", "K9X2"} {
			t.Run(name+"/"+code, func(t *testing.T) {
				t.Parallel()
				var printed strings.Builder
				logs := new(tooltest.Buffer)
				exchanges := 0
				srv := newService(t, func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					exchanges++
					echo(w, code, string(body))
				})
				transport := srv.Client().Transport
				fails := roundTripperFunc(func(r *http.Request) (*http.Response, error) {
					resp, err := transport.RoundTrip(r)
					if err != nil || resp.Header.Get("X-Error") == "" {
						return resp, err
					}
					defer resp.Body.Close()
					failure := errors.New("lost " + resp.Header.Get("X-Error"))
					if resp.StatusCode == http.StatusInternalServerError {
						return nil, failure
					}
					resp.Body = io.NopCloser(iotest.ErrReader(failure))
					return resp, nil
				})
				c := srv.client(t, v02,
					idverify.WithHTTPClient(&http.Client{Transport: fails}),
					idverify.WithLogger(slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))),
					idverify.WithObserver(func(ctx context.Context, _ string) (context.Context, func(idverify.Attempt)) {
						return ctx, func(a idverify.Attempt) { fmt.Fprintf(logs, "%+v %#v\n", a, a.Err) }
					}))

				_, err := c.PhoneChecks.Complete(t.Context(), "a", code)

				formatAll(&printed, err)
				if err == nil || exchanges == 0 || !strings.Contains(printed.String(), "[REDACTED]") {
					t.Errorf("error = %v after %d echoes, want a redacted one", err, exchanges)
				}
				wantHidden(t, printed.String(), logs.String(), code)
			})
		}
	}
}

// brokenService serves the failures of TestClient_RedactsErrorChain.
type brokenService struct {
	*service
	closed, resetting, silent string // addresses that reject, reset and ignore connections
	resolver                  string // address of a name server without names
}

func newBrokenService(t *testing.T) *brokenService {
	t.Helper()
	listen := func(serve func(net.Conn)) string {
		l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				serve(conn)
			}
		}()
		t.Cleanup(func() { l.Close(); <-done })
		return l.Addr().String()
	}
	s := &brokenService{service: newService(t, nil), closed: "127.0.0.1:9"} // nothing listens on port 9
	s.resetting = listen(func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1))
		_ = c.(*net.TCPConn).SetLinger(0)
		c.Close()
	})
	s.silent = listen(func(c net.Conn) { t.Cleanup(func() { c.Close() }) })

	names := must(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { names.Close() })
	s.resolver = names.LocalAddr().String()
	go func() {
		query := make([]byte, 512)
		for {
			n, from, err := names.ReadFrom(query)
			if err != nil {
				return
			}
			query[2], query[3] = 0x84, 0x03 // an authoritative response: no such name
			_, _ = names.WriteTo(query[:n], from)
		}
	}()
	return s
}

// transport returns a transport that trusts the certificate of s and connects to addr.
func (s *brokenService) transport(addr string) *http.Transport {
	roots := s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	return &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "example.com"},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}
}

// matches reports whether errors.As finds an error of type E for which the condition holds, and
// prints what it finds.
func matches[E error](b *strings.Builder, err error, condition func(E) bool) bool {
	e, ok := errors.AsType[E](err)
	if ok {
		formatAll(b, e)
	}
	return ok && condition(e)
}

// traced is implemented by errors of packages that record a stack trace.
type traced interface {
	error
	StackTrace() string
}

// tracedError is a traced error.
type tracedError string

func (e tracedError) Error() string      { return string(e) }
func (e tracedError) StackTrace() string { return string(e) }

// convertibleError is found as a traced error.
type convertibleError string

func (e convertibleError) Error() string { return string(e) }
func (e convertibleError) As(target any) bool {
	t, ok := target.(*traced)
	if ok {
		*t = tracedError(e)
	}
	return ok
}

// A tool that logs the chain of an error must not print what the text of the error omits. The chain
// still matches the errors of the standard library.
func TestClient_RedactsErrorChain(t *testing.T) {
	t.Parallel()
	const host, proxyHost = "eu.api.internal.example", "proxy.corp.example"
	s := newBrokenService(t)
	addr := s.Listener.Addr().String()
	secret := credentials.ClientSecret.Reveal()
	everything := fmt.Sprintf("no %s of %s via https://%s:443/path at 127.0.0.1:443", secret, testNumber, host)
	with := func(addr string, change func(*http.Transport)) http.RoundTripper {
		transport := s.transport(addr)
		change(transport)
		t.Cleanup(transport.CloseIdleConnections)
		return transport
	}
	unchanged := func(*http.Transport) {}
	proxy := func(scheme, addr string) func(*http.Transport) {
		return func(transport *http.Transport) {
			transport.Proxy = http.ProxyURL(&url.URL{Scheme: scheme, User: url.UserPassword("user", "s3cret-of-the-proxy"), Host: addr})
			transport.DialContext = nil
		}
	}
	denyingProxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 502 %s for %s denied\r\n\r\n", everything, r.Host)
	}))
	t.Cleanup(denyingProxy.Close)
	plain := httptest.NewServer(respondWith(http.StatusOK, everything))
	t.Cleanup(plain.Close)
	errCustom := errors.New(everything)
	fails := func(err error) http.RoundTripper {
		return roundTripperFunc(func(*http.Request) (*http.Response, error) { return nil, err })
	}
	resolvingNothing := func(transport *http.Transport) {
		transport.DialContext = (&net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "udp", s.resolver)
		}}}).DialContext
	}
	dialing := func(op *net.OpError) bool { return op.Op == "dial" && op.Addr == nil }
	notTimeout := func(e net.Error) bool { return !e.Timeout() }
	timeout := func(e net.Error) bool { return e.Timeout() }
	unverified := func(e *tls.CertificateVerificationError) bool {
		return e.UnverifiedCertificates[0].Equal(s.Certificate())
	}

	for _, tt := range []struct {
		name      string
		transport http.RoundTripper
		is        error                                  // nil: not examined
		as        func(b *strings.Builder, e error) bool // nil: not examined
	}{
		{"unknown host", with("", resolvingNothing), nil, func(b *strings.Builder, err error) bool {
			return matches(b, err, dialing) && matches(b, err, notTimeout) &&
				matches(b, err, func(e *net.DNSError) bool { return e.IsNotFound && e.Err == "no such host" })
		}},
		{"connection refused", with(s.closed, unchanged), syscall.ECONNREFUSED, func(b *strings.Builder, err error) bool {
			return matches(b, err, dialing) && matches(b, err, notTimeout) &&
				matches(b, err, func(e *os.SyscallError) bool { return e.Syscall == "connect" }) &&
				matches(b, err, func(e syscall.Errno) bool { return e == syscall.ECONNREFUSED })
		}},
		{"connection reset", with(s.resetting, unchanged), syscall.ECONNRESET, func(b *strings.Builder, err error) bool {
			return matches(b, err, func(op *net.OpError) bool { return op.Op == "read" && op.Source == nil && op.Addr == nil })
		}},
		{"dial timeout", with("", func(transport *http.Transport) {
			transport.DialContext = (&net.Dialer{Deadline: time.Unix(1, 0)}).DialContext
		}), nil, func(b *strings.Builder, err error) bool {
			return matches(b, err, timeout) && matches(b, err, func(op *net.OpError) bool { return op.Timeout() })
		}},
		{"handshake timeout", with(s.silent, func(transport *http.Transport) { transport.TLSHandshakeTimeout = 1 }), nil, func(b *strings.Builder, err error) bool {
			return matches(b, err, timeout)
		}},
		{"unknown authority", with(addr, func(transport *http.Transport) { transport.TLSClientConfig.RootCAs = x509.NewCertPool() }), nil, func(b *strings.Builder, err error) bool {
			return matches(b, err, func(e x509.UnknownAuthorityError) bool { return e.Cert.Equal(s.Certificate()) }) && matches(b, err, unverified)
		}},
		{"certificate of another host", with(addr, func(transport *http.Transport) { transport.TLSClientConfig.ServerName = host }), nil, func(b *strings.Builder, err error) bool {
			return matches(b, err, func(e x509.HostnameError) bool { return e.Host == "[REDACTED]" }) && matches(b, err, unverified)
		}},
		{"expired certificate", with(addr, func(transport *http.Transport) {
			transport.TLSClientConfig.Time = func() time.Time { return s.Certificate().NotAfter.Add(time.Hour) }
		}), nil, func(b *strings.Builder, err error) bool {
			return matches(b, err, func(e x509.CertificateInvalidError) bool { return e.Reason == x509.Expired && e.Detail != "" })
		}},
		{"not TLS", with(plain.Listener.Addr().String(), unchanged), nil, nil},
		{"malformed response", with("", func(transport *http.Transport) {
			transport.DialTLSContext = func(context.Context, string, string) (net.Conn, error) {
				client, server := net.Pipe()
				go func() {
					defer server.Close()
					_, _ = server.Read(make([]byte, 64<<10))
					_, _ = io.WriteString(server, everything+"\r\n\r\n")
				}()
				return client, nil
			}
		}), nil, nil},
		{"proxy unreachable", with("", proxy("http", s.closed)), syscall.ECONNREFUSED, func(b *strings.Builder, err error) bool {
			return matches(b, err, func(op *net.OpError) bool { return op.Op == "proxyconnect" && op.Addr == nil })
		}},
		{"proxy unknown", with("", func(transport *http.Transport) {
			proxy("http", proxyHost+":3128")(transport)
			resolvingNothing(transport)
		}), nil, func(b *strings.Builder, err error) bool {
			return matches(b, err, func(e *net.DNSError) bool { return e.IsNotFound })
		}},
		{"proxy denies", with("", proxy("http", denyingProxy.Listener.Addr().String())), nil, nil},
		{"SOCKS proxy reset", with("", proxy("socks5", s.resetting)), syscall.ECONNRESET, func(b *strings.Builder, err error) bool {
			return matches(b, err, func(op *net.OpError) bool { return op.Addr == nil })
		}},
		{"custom error", fails(errCustom), errCustom, nil},
		{"wrapped custom error", fails(fmt.Errorf("tunnel to %s:443: %w", host, errCustom)), errCustom, nil},
		{"joined errors", fails(errors.Join(errCustom, &url.Error{Op: "Get", URL: "https://" + host, Err: os.ErrDeadlineExceeded})), os.ErrDeadlineExceeded, func(b *strings.Builder, err error) bool {
			return matches(b, err, timeout) && matches(b, err, func(e *url.Error) bool { return e.Op == "Get" && e.Timeout() })
		}},
		{"error with methods", fails(fmt.Errorf("sign: %w", tracedError(everything))), tracedError(everything), func(b *strings.Builder, err error) bool {
			return !matches(b, err, func(traced) bool { return true })
		}},
		{"error with a method As", fails(convertibleError(everything)), convertibleError(everything), func(b *strings.Builder, err error) bool {
			return !matches(b, err, func(traced) bool { return true })
		}},
		{"address", fails(fmt.Errorf("dial: %w", &net.AddrError{Err: "missing port in address", Addr: host})), nil, func(b *strings.Builder, err error) bool {
			return matches(b, err, func(e *net.AddrError) bool { return e.Err == "missing port in address" })
		}},
		{"name constraint", fails(x509.CertificateInvalidError{Cert: s.Certificate(), Reason: x509.CANotAuthorizedForThisName, Detail: `DNS name "` + host + `" is excluded`}), nil, func(b *strings.Builder, err error) bool {
			return matches(b, err, func(e x509.CertificateInvalidError) bool { return e.Reason == x509.CANotAuthorizedForThisName })
		}},
		{"errors without a cause", fails(&url.Error{Op: "Get", URL: "https://" + host}), nil, nil},
	} {
		for _, at := range []string{"operation", "token"} {
			t.Run(tt.name+"/"+at, func(t *testing.T) {
				t.Parallel()
				var printed strings.Builder
				logs := new(tooltest.Buffer)
				transport := tt.transport
				if at == "operation" {
					transport = tokenTransport(transport.RoundTrip)
				}
				c := must(idverify.NewClient("https://"+host, credentials, withoutRetries,
					idverify.WithHTTPClient(&http.Client{Transport: transport}),
					idverify.WithLogger(slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))),
					idverify.WithObserver(func(ctx context.Context, _ string) (context.Context, func(idverify.Attempt)) {
						return ctx, func(a idverify.Attempt) { fmt.Fprintf(logs, "%+v %#v\n", a, a.Err) }
					})))(t)

				_, err := c.PhoneChecks.Create(t.Context(), createParams)

				formatAll(&printed, err)
				if err == nil || tt.is != nil && !errors.Is(err, tt.is) || tt.as != nil && !tt.as(&printed, err) {
					t.Errorf("error = %v does not match as the original does", err)
				}
				matches(&printed, err, func(interface {
					error
					Unwrap() []error
				}) bool {
					return true
				})
				wantHidden(t, printed.String(), logs.String(), host, proxyHost, "127.0.0.1", "://", "s3cret", testNumber, "Basic ", "token-1")
			})
		}
	}
}

func TestClient_RedactsErrorsAndLogs(t *testing.T) {
	t.Parallel()
	logs := new(tooltest.Buffer)
	var printed strings.Builder
	const ip = "192.0.2.77"
	everything := "number " + testNumber + " or +44 7700 900-000 at " + ip + " and [2001:db8::77]:443, Bearer token-1, Basic Y2xpZW50, token-1, s3cret-of-client-1, https://user.example/?a=" + testNumber
	srv := newService(t, nil)
	logger := slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c := srv.client(t, idverify.WithLogger(logger))
	console := srv.console(t)

	for _, respond := range []http.HandlerFunc{
		respondWithProblem(400, "bad_request", everything),
		respondWithProblem(429, "too_many_requests", everything),
		respondWithProblem(400, testNumber, "the fragment itself"),
		respondWith(502, everything),
		respondWith(200, everything),
		respondWith(200, `{"check_id":`+testNumber+`}`),
		withRequestID(everything, respondWith(500, "")),
		withRequestID("s3cret-of-client-1", respondWith(500, "")),
		withRequestID("id-of-token-1", respondWith(403, "")),
		withRequestID("id-of-token-1", respondWith(200, "{}")),
		drop,
	} {
		srv.respond = respond
		formatAll(&printed, errorOf(c.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: testNumber, PhoneIP: netip.MustParseAddr(ip)})))
		formatAll(&printed, errorOf(c.Reachability.Lookup(t.Context(), netip.MustParseAddr(ip))))
	}
	formatAll(&printed, errorOf(c.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: testNumber + "000000"})))
	srv.Close()
	formatAll(&printed, errorOf(c.Reachability.Lookup(t.Context(), netip.MustParseAddr(ip))))
	fmt.Fprintf(&printed, "%+v %#v %+v %#v %v %s %q %x\n", *c, *c, *console, *console, credentials, credentials, credentials, credentials)

	wantHidden(t, printed.String(), logs.String(), testNumber, "7700 900", ip, "2001:db8::77", "token-1", "Y2xpZW50", "s3cret", "user.example", srv.URL)
	wantContains(t, "log", logs.String(), "level=DEBUG", "level=WARN", "operation=token.create", "scope=phone_check")
}

func TestError_RedactsDetail(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ detail, want string }{
		{"ip:10.1.2.3", "ip:[REDACTED]"},
		{"client IP:203.0.113.9", "client IP:[REDACTED]"},
		{"addr 203.0.113.9:denied", "addr [REDACTED]:denied"},
		{"IP 203.0.113.9.Bad", "IP [REDACTED].Bad"},
		{"203.0.113.9:99999", "[REDACTED]"},
		{"ip:2001:db8::7", "ip[REDACTED]"},
		{"at [2001:db8::7]:443", "at [[REDACTED]]:443"},
		{"/login?next=%2Fdevice_ips%2F2001%3Adb8%3A%3a7", "/login?next=%2Fdevice_ips%[REDACTED]"},
		{"44 7700 900 012", "[REDACTED]"},
		{"07700-900-012", "[REDACTED]"},
		{"(07700) 900012 is taken", "[REDACTED] is taken"},
		{"44\u00a07700\u2009900\u202f012", "[REDACTED]"},
		{"44\u20107700\u2011900\u2013012", "[REDACTED]"},
		{"44\t7700\t900012", "[REDACTED]"},
		{"no 44/7700/900012 or 44_7700_900012", "no [REDACTED] or [REDACTED]"},
		{"?number=%2B4477%20009%2000012", "?number=%2B[REDACTED]"},
		{"<b>44&nbsp;7700&nbsp;900012</b>", "<b>[REDACTED]</b>"},
		{"４４７７００９０００１２ is taken", "[REDACTED] is taken"},
		{"basic:abcdef==", "[REDACTED]"},
		{"Bearer aaaaaaaaaaaaaaaaaaaaaaaaaaaa", "[REDACTED]"},
		// The token tr and the secret secret7 are redacted as words.
		{"tr: tray, str, tré and tr_1", "[REDACTED]: tray, str, tré and tr_1"},
		{"(tr) tr-1 =tr", "([REDACTED]) [REDACTED]-1 =[REDACTED]"},
		{"%22tr%22 \\ntr &quot;tr&quot;", `%22[REDACTED]%22 \n[REDACTED] &quot;[REDACTED]&quot;`},
		{"secret7 and xsecret7", "[REDACTED] and xsecret7"},
		{"tr", "[REDACTED]"},
		// These texts remain unchanged.
		{"the stream ended", "the stream ended"},
		{"the substr", "the substr"},
		{"Bearer token expired", "Bearer token expired"},
		{"the Basic header is missing", "the Basic header is missing"},
		{"since 03:04:05", "since 03:04:05"},
		{"valid until 2026-11-21T03:04:05Z", "valid until 2026-11-21T03:04:05Z"},
		{"between 60 and 540000 minutes", "between 60 and 540000 minutes"},
		{"use v0.2", "use v0.2"},
		{"since 2026/11/21", "since 2026/11/21"},
		{"periods [60,540000] of sim_check/v0.2/checks_2", "periods [60,540000] of sim_check/v0.2/checks_2"},
	} {
		t.Run(tt.detail, func(t *testing.T) {
			t.Parallel()
			srv := newService(t, respondWith(400, fmt.Sprintf(`{"type":"https://docs.example/#bad_request","detail":%q}`, tt.detail)))
			srv.token = respondWith(200, `{"access_token":"tr","expires_in":3600}`)
			c := must(idverify.NewClient(srv.URL, idverify.Credentials{ClientID: "c", ClientSecret: idverify.NewSecret("secret7")}, idverify.WithHTTPClient(srv.Client())))(t)

			_, err := c.PhoneChecks.Get(t.Context(), "a")

			if e, ok := errors.AsType[*idverify.Error](err); !ok || e.Detail != tt.want {
				t.Errorf("error = %v, want the detail %q", err, tt.want)
			}
		})
	}
}

// formatAll prints err and all errors that it wraps, as tools do that log the chain of an error.
func formatAll(b *strings.Builder, err error) {
	if err == nil {
		return
	}
	fmt.Fprintf(b, "%v\n%+v\n%#v\n%q\n", err, err, err, err)
	switch e := err.(type) {
	case *idverify.Error:
		fmt.Fprintf(b, "%+v\n", *e)
	case interface{ Unwrap() error }:
		formatAll(b, e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, wrapped := range e.Unwrap() {
			formatAll(b, wrapped)
		}
	}
}

// wantHidden reports each line of printed values and of a log that contains one of the secrets.
func wantHidden(t testing.TB, printed, log string, secrets ...string) {
	t.Helper()
	for name, text := range map[string]string{"printed value": printed, "log": log} {
		for line := range strings.Lines(text) {
			for _, secret := range secrets {
				if strings.Contains(line, secret) {
					t.Errorf("the %s contains %q:\n%s", name, secret, line)
				}
			}
		}
	}
}

func TestSecret_HiddenFromReflection(t *testing.T) {
	t.Parallel()
	const text = "s3cret-of-client-1"
	credentials := idverify.Credentials{ClientID: "client-1", ClientSecret: idverify.NewSecret(text)}
	client := must(idverify.NewClient("https://eu.api.example.com", credentials))(t)
	console := must(idverify.NewConsole("https://eu.api.example.com", credentials))(t)
	type config struct {
		Exported idverify.Secret
		hidden   idverify.Secret
		pointer  *idverify.Secret
		any      any
		list     []idverify.Credentials
		byName   map[string]idverify.Secret
	}
	secret := credentials.ClientSecret
	for name, value := range map[string]any{
		"Secret":              secret,
		"Credentials":         credentials,
		"IssuedCredentials":   &idverify.IssuedCredentials{Credentials: credentials},
		"PaymentMethodParams": idverify.PaymentMethodParams{CardNumber: secret},
		"Client":              client,
		"Console":             console,
		"a user's struct":     config{secret, secret, &secret, secret, []idverify.Credentials{credentials}, map[string]idverify.Secret{"a": secret}},
	} {
		w := newWalker()

		w.walk(addressable(value))

		if len(w.visited) == 0 {
			t.Errorf("%s: the walker visited nothing, want at least one value", name)
		}
		found := strings.Join(w.texts, "\n")
		for _, forbidden := range []string{text, base64.RawStdEncoding.EncodeToString([]byte("client-1:" + text))} {
			if strings.Contains(found, forbidden) {
				t.Errorf("%s: reflection finds %q, want no secret", name, forbidden)
			}
		}
		if notations := tooltest.Notations(value, text); len(notations) > 0 {
			t.Errorf("%s: the secret is printed by %q", name, notations)
		}
	}

	// Check the walker: it finds unprotected text in the same kinds of fields.
	type open struct {
		hidden  string
		pointer *string
		any     any
		byName  map[string][]byte
	}
	shown := "shown"
	w := newWalker()
	w.walk(addressable(open{shown, &shown, shown, map[string][]byte{"a": []byte(shown)}}))
	if n := strings.Count(strings.Join(w.texts, "\n"), shown); n != 4 {
		t.Errorf("the walker found %d texts in %q, want 4", n, w.texts)
	}
}

func TestSecret_Equal(t *testing.T) {
	t.Parallel()
	a, same, other := idverify.NewSecret("text-1"), idverify.NewSecret("text-1"), idverify.NewSecret("text-2")
	copied := a
	var zero, otherZero idverify.Secret

	if copied != a || a == other || zero != otherZero {
		t.Error("== must report copies of one Secret as equal, and other secrets as different")
	}
	for _, tt := range []struct {
		name string
		x, y idverify.Secret
		want bool
	}{
		{"copy", a, copied, true},
		{"same text", a, same, true},
		{"other text", a, other, false},
		{"prefix", a, idverify.NewSecret("text"), false},
		{"zero", idverify.Secret{}, idverify.Secret{}, true},
		{"zero and empty", idverify.Secret{}, idverify.NewSecret(""), true},
		{"zero and text", idverify.Secret{}, a, false},
	} {
		if got := tt.x.Equal(tt.y); got != tt.want {
			t.Errorf("%s: Equal = %v, want %v", tt.name, got, tt.want)
		}
		x, y := idverify.Credentials{ClientID: "a", ClientSecret: tt.x}, idverify.Credentials{ClientID: "a", ClientSecret: tt.y}
		for _, opts := range [][]cmp.Option{nil, {cmp.Exporter(func(reflect.Type) bool { return true })}} {
			diff := cmp.Diff(x, y, opts...)
			if (diff == "") != tt.want || strings.Contains(diff, "text-") {
				t.Errorf("%s: cmp.Diff = %q, want equal: %v", tt.name, diff, tt.want)
			}
		}
	}
	if !reflect.DeepEqual(a, copied) {
		t.Error("reflect.DeepEqual = false for a copy, want true")
	}
}

func TestSecret_UnmarshalText(t *testing.T) {
	t.Parallel()
	var v struct{ A, B idverify.Secret }

	err := json.Unmarshal([]byte(`{"A":"text-1","B":null}`), &v)

	if err != nil || v.A.Reveal() != "text-1" || v.B.Reveal() != "" {
		t.Errorf("secrets = %q and %q, error = %v, want text-1 and an empty secret", v.A.Reveal(), v.B.Reveal(), err)
	}
	printed, err := json.Marshal(v)
	if err != nil || string(printed) != `{"A":"[REDACTED]","B":"[REDACTED]"}` {
		t.Errorf("JSON = %s, error = %v, want redacted secrets", printed, err)
	}
	if err := json.Unmarshal(printed, &v); err == nil || !strings.Contains(err.Error(), "placeholder") || v.A.Reveal() != "text-1" {
		t.Errorf("the placeholder: secret = %q, error = %v, want an error that names it and the secret unchanged", v.A.Reveal(), err)
	}
}

// walker collects every text that reflection can reach, including unexported fields.
type walker struct {
	texts   []string
	visited map[visit]bool
}

type visit struct {
	at unsafe.Pointer
	of reflect.Type
}

func newWalker() *walker { return &walker{visited: make(map[visit]bool)} }

// addressable returns an addressable copy of v.
func addressable(v any) reflect.Value {
	value := reflect.New(reflect.TypeOf(v)).Elem()
	value.Set(reflect.ValueOf(v))
	return value
}

// walk visits v, which must be addressable.
func (w *walker) walk(v reflect.Value) {
	// A value made from its address has no read-only flag, so unexported fields can be read.
	at := v.Addr().UnsafePointer()
	v = reflect.NewAt(v.Type(), at).Elem()
	if w.visited[visit{at, v.Type()}] {
		return
	}
	w.visited[visit{at, v.Type()}] = true
	switch v.Kind() {
	case reflect.String:
		w.texts = append(w.texts, v.String())
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			w.texts = append(w.texts, string(v.Bytes()))
			return
		}
		for i := range v.Len() {
			w.walk(v.Index(i))
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			w.walk(field)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			w.walk(v.Elem())
		}
	case reflect.Interface:
		if !v.IsNil() {
			w.walk(addressable(v.Elem().Interface()))
		}
	case reflect.Map:
		for entry := v.MapRange(); entry.Next(); {
			w.walk(addressable(entry.Key().Interface()))
			w.walk(addressable(entry.Value().Interface()))
		}
	}
}
