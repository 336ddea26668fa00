package idverify_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
)

// brokenService serves the failures of TestClient_RedactsErrorChain.
type brokenService struct {
	*service
	closed, resetting, silent string // addresses that reject, reset and ignore connections
	resolver                  string // address of a name server without names
}

func newBrokenService(t *testing.T) *brokenService {
	t.Helper()
	listen := func(serve func(net.Conn)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
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

	names, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
	dialing := func(op *net.OpError) bool { return op.Op == "dial" && op.Addr == nil }
	notTimeout := func(e net.Error) bool { return !e.Timeout() }
	timeout := func(e net.Error) bool { return e.Timeout() }

	for _, tt := range []struct {
		name      string
		transport http.RoundTripper
		is        error                                  // nil: not examined
		as        func(b *strings.Builder, e error) bool // nil: not examined
	}{
		{"unknown host", with("", func(transport *http.Transport) {
			transport.DialContext = (&net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "udp", s.resolver)
			}}}).DialContext
		}), nil, func(b *strings.Builder, err error) bool {
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
			return matches(b, err, func(e x509.UnknownAuthorityError) bool { return e.Cert.Equal(s.Certificate()) }) &&
				matches(b, err, func(e *tls.CertificateVerificationError) bool {
					return e.UnverifiedCertificates[0].Equal(s.Certificate())
				})
		}},
		{"certificate of another host", with(addr, func(transport *http.Transport) { transport.TLSClientConfig.ServerName = host }), nil, func(b *strings.Builder, err error) bool {
			return matches(b, err, func(e x509.HostnameError) bool { return e.Host == "[REDACTED]" }) &&
				matches(b, err, func(e *tls.CertificateVerificationError) bool {
					return e.UnverifiedCertificates[0].Equal(s.Certificate())
				})
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
			transport.DialContext = (&net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "udp", s.resolver)
			}}}).DialContext
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
				logs := new(syncBuffer)
				transport := tt.transport
				if at == "operation" {
					transport = tokenTransport(transport.RoundTrip)
				}
				c, err := idverify.NewClient("https://"+host, credentials, withoutRetries,
					idverify.WithHTTPClient(&http.Client{Transport: transport}),
					idverify.WithLogger(slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))),
					idverify.WithObserver(func(ctx context.Context, _ string) (context.Context, func(idverify.Attempt)) {
						return ctx, func(a idverify.Attempt) { fmt.Fprintf(logs, "%+v %#v\n", a, a.Err) }
					}))
				if err != nil {
					t.Fatal(err)
				}

				_, err = c.PhoneChecks.Create(t.Context(), createParams)

				formatAll(&printed, err)
				if err == nil || tt.is != nil && !errors.Is(err, tt.is) || tt.as != nil && !tt.as(&printed, err) {
					t.Errorf("error = %v does not match as the original does", err)
				}
				for _, leak := range []string{host, proxyHost, "127.0.0.1", "://", "s3cret", testNumber, "Basic ", "token-1"} {
					for name, text := range map[string]string{"error": printed.String(), "log": logs.String()} {
						if strings.Contains(text, leak) {
							t.Errorf("the %s contains %q:\n%s", name, leak, lineContaining(text, leak))
						}
					}
				}
			})
		}
	}
}
