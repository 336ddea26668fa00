package idverify_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
)

// The rows contain the number of attempts for each kind of failure. The policy permits four.
func TestClient_AttemptsByFailure(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name             string
		fail             http.HandlerFunc
		get, post, patch int // attempts
	}{
		{"400", respondWith(400, ""), 1, 1, 1},
		{"401", respondWith(401, ""), 2, 2, 2}, // again with a new token
		{"402", respondWith(402, ""), 1, 1, 1},
		{"403", respondWith(403, ""), 1, 1, 1},
		{"404", respondWith(404, ""), 1, 1, 1},
		{"409", respondWith(409, ""), 1, 1, 1},
		{"412", respondWith(412, ""), 1, 1, 1},
		{"429", respondWith(429, ""), 4, 4, 4},
		{"500", respondWith(500, ""), 4, 1, 1},
		{"501", respondWith(501, ""), 1, 1, 1},
		{"502", respondWith(502, ""), 4, 1, 1},
		{"503", respondWith(503, ""), 4, 1, 1},
		{"504", respondWith(504, ""), 4, 1, 1},
		{"505", respondWith(505, ""), 1, 1, 1},
		{"connection closed after the request", drop, 4, 1, 1},
		{"truncated response", truncateBody, 4, 1, 1},
		{"response that is not a check", respondWith(200, "<html>"), 1, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v02 := idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"})
			for _, op := range []struct {
				name string
				want int
				do   func(*idverify.PhoneCheckService) error
			}{
				{"GET", tt.get, func(s *idverify.PhoneCheckService) error { return errorOf(s.Get(t.Context(), "a")) }},
				{"POST", tt.post, func(s *idverify.PhoneCheckService) error { return errorOf(s.Create(t.Context(), createParams)) }},
				{"PATCH", tt.patch, func(s *idverify.PhoneCheckService) error { return errorOf(s.Complete(t.Context(), "a", "code")) }},
			} {
				srv := newService(t, tt.fail)
				// net/http itself retries a GET when a reused connection fails.
				srv.Client().Transport.(*http.Transport).DisableKeepAlives = true

				err := op.do(srv.client(t, v02).PhoneChecks)

				if err == nil {
					t.Errorf("%s: error = nil, want an error", op.name)
				}
				got := len(srv.requests(func(r recordedRequest) bool { return r.uri != tokenPath && r.method == op.name }))
				if got != op.want {
					t.Errorf("%s: requests = %d, want %d (error %v)", op.name, got, op.want, err)
				}
			}
		})
	}
}

// truncateBody declares a longer body than it writes.
func truncateBody(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	w.WriteHeader(http.StatusCreated)
	io.WriteString(w, `{"check_id":`)
}

func TestClient_RetriesUntilSuccess(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondInTurn(respondWith(500, ""), drop, truncateBody, respondWith(200, string(fixture(t, "phone_check.json")))))

	check, err := srv.client(t).PhoneChecks.Get(t.Context(), phoneCheckID)

	if err != nil || check.Match != idverify.VerdictYes {
		t.Errorf("check = %+v, error = %v, want a match and no error", check, err)
	}
}

func TestClient_SendsCookiesOncePerAttempt(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondInTurn(respondWith(503, ""), respondWith(401, ""), respondWith(200, string(fixture(t, "phone_check.json")))))
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	base, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	jar.SetCookies(base, []*http.Cookie{{Name: "node", Value: "7"}})
	c := srv.client(t, idverify.WithHTTPClient(&http.Client{Transport: srv.Client().Transport, Jar: jar}))

	_, err = c.PhoneChecks.Get(t.Context(), phoneCheckID)

	if n := len(srv.calls()); err != nil || n != 3 {
		t.Errorf("attempts = %d, error = %v, want 3 and no error", n, err)
	}
	for i, call := range srv.calls() {
		if got := call.header.Values("Cookie"); !slices.Equal(got, []string{"node=7"}) {
			t.Errorf("attempt %d: cookies = %q, want only node=7", i+1, got)
		}
	}
}

// lateReader reads the header of a request after it has returned the response, as the write loop of
// http.Transport may do.
type lateReader struct {
	http.RoundTripper
	readers sync.WaitGroup
}

func (l *lateReader) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(r)
	l.readers.Go(func() {
		for range 1000 {
			r.Header.Write(io.Discard)
		}
	})
	return resp, err
}

// The race detector reports an attempt that writes to the header of the previous one.
func TestClient_NewHeaderPerAttempt(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondInTurn(respondWith(429, ""), respondWith(401, ""), respondWith(429, ""), respondWith(201, string(fixture(t, "phone_check_created.json")))))
	late := &lateReader{RoundTripper: srv.Client().Transport}
	defer late.readers.Wait()

	_, err := srv.client(t, idverify.WithHTTPClient(&http.Client{Transport: late})).PhoneChecks.Create(t.Context(), createParams)

	if n := len(srv.calls()); err != nil || n != 4 {
		t.Errorf("requests = %d, error = %v, want 4 and no error", n, err)
	}
}

func TestPhoneCheckService_CreateRetriesFailedDial(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondWith(201, string(fixture(t, "phone_check_created.json"))))
	transport := srv.Client().Transport.(*http.Transport).Clone()
	var dials atomic.Int32
	transport.DisableKeepAlives = true
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if n := dials.Add(1); n == 2 || n == 3 { // the first is for the token
			return nil, errors.New("no route")
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}

	check, err := srv.client(t, idverify.WithHTTPClient(&http.Client{Transport: transport})).PhoneChecks.Create(t.Context(), createParams)

	if err != nil || check == nil {
		t.Fatalf("error = %v, want none: the client can retry a failed dial", err)
	}
	if n := len(srv.calls()); n != 1 {
		t.Errorf("creates = %d, want 1", n)
	}
}

func TestPhoneCheckService_CreateTransportError(t *testing.T) {
	t.Parallel()
	var creates atomic.Int32
	c := newTransportClient(t, func(r *http.Request) (*http.Response, error) {
		creates.Add(1)
		io.Copy(io.Discard, r.Body)
		return nil, errors.New("lost")
	})

	_, err := c.PhoneChecks.Create(t.Context(), createParams)

	if n := creates.Load(); n != 1 {
		t.Errorf("creates = %d, want 1: the first may have been accepted", n)
	}
	if err == nil || !strings.Contains(err.Error(), "outcome unknown: lost; the check may exist") {
		t.Errorf("error = %v, want an unknown outcome", err)
	}
}

func TestRetryPolicy_RetryAfter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		retryAfter   string
		deadline     time.Duration // 0: none
		wantAttempts int32
		min, max     time.Duration // duration of the call
	}{
		{"absent", "", 0, 4, 350 * time.Millisecond, 2 * time.Second},
		{"shorter than the backoff", "0", 0, 4, 350 * time.Millisecond, 2 * time.Second},
		{"seconds", "7", 0, 4, 21 * time.Second, 21 * time.Second},
		{"date", "Sat, 01 Jan 2000 00:00:05 GMT", 0, 4, 5 * time.Second, 8 * time.Second},
		{"past date", "Fri, 31 Dec 1999 00:00:00 GMT", 0, 4, 350 * time.Millisecond, 2 * time.Second},
		{"invalid", "soon", 0, 4, 350 * time.Millisecond, 2 * time.Second},
		{"negative", "-5", 0, 4, 350 * time.Millisecond, 2 * time.Second},
		{"equal to MaxWait", "10", 0, 4, 30 * time.Second, 30 * time.Second},
		{"longer than MaxWait", "11", 0, 1, 0, 0},
		{"one hour", "3600", 0, 1, 0, 0},
		{"overflow", "99999999999999999999", 0, 1, 0, 0},
		{"longer than the deadline", "7", 6 * time.Second, 1, 0, 0},
		{"deadline before the third attempt", "7", 10 * time.Second, 2, 7 * time.Second, 7 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var attempts atomic.Int32
				c := newTransportClient(t, func(*http.Request) (*http.Response, error) {
					attempts.Add(1)
					w := httptest.NewRecorder()
					if tt.retryAfter != "" {
						w.Header().Set("Retry-After", tt.retryAfter)
					}
					respondWithProblem(429, "too_many_requests", "slow down")(w, nil)
					return w.Result(), nil
				}, idverify.WithRetry(idverify.RetryPolicy{}))
				ctx := t.Context()
				if tt.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.deadline)
					defer cancel()
				}
				start := time.Now()

				_, err := c.PhoneChecks.Create(ctx, createParams)

				took := time.Since(start)
				if !errors.Is(err, idverify.ErrRateLimited) {
					t.Errorf("error = %v, want ErrRateLimited", err)
				}
				if attempts.Load() != tt.wantAttempts {
					t.Errorf("attempts = %d, want %d", attempts.Load(), tt.wantAttempts)
				}
				if took < tt.min || took > tt.max {
					t.Errorf("Create took %v, want %v to %v", took, tt.min, tt.max)
				}
			})
		})
	}
}

func TestClient_CancelEndsWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTransportClient(t, func(*http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			w.Header().Set("Retry-After", "9")
			w.WriteHeader(429)
			return w.Result(), nil
		}, idverify.WithRetry(idverify.RetryPolicy{}))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		start := time.Now()

		_, err := c.PhoneChecks.Create(ctx, createParams)

		if !errors.Is(err, context.Canceled) || strings.Contains(fmt.Sprint(err), "unknown") {
			t.Errorf("error = %v, want context.Canceled without an unknown outcome: the service rejected the request", err)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("Create took %v, want 3s", took)
		}
	})
}

func TestRetryPolicy_OneAttempt(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondWith(503, ""))

	_, err := srv.client(t, idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1})).PhoneChecks.Get(t.Context(), "a")

	if n := len(srv.calls()); n != 1 {
		t.Errorf("attempts = %d, want 1 (error %v)", n, err)
	}
}

func TestClient_UntrustedCertificate(t *testing.T) {
	t.Parallel()
	srv := newService(t, nil)
	var dials atomic.Int32
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials.Add(1)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	t.Cleanup(transport.CloseIdleConnections)

	_, err := srv.client(t, idverify.WithHTTPClient(&http.Client{Transport: transport})).PhoneChecks.Get(t.Context(), "a")

	if want := "(to trust another CA, set the HTTP client: see WithHTTPClient)"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error = %v, want %s", err, want)
	}
	if n := dials.Load(); n != 1 {
		t.Errorf("connections = %d, want 1: a retry cannot succeed", n)
	}
}

// A custom TLS dialer may return an error of package x509 that package tls has not wrapped.
func TestClient_CertificateErrorOfDialer(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{x509.UnknownAuthorityError{}, x509.HostnameError{Certificate: new(x509.Certificate)}, x509.CertificateInvalidError{Reason: x509.Expired}} {
		attempts := 0
		c := newTransportClient(t, func(*http.Request) (*http.Response, error) {
			attempts++
			return nil, cause
		})

		_, err := c.PhoneChecks.Get(t.Context(), "a")

		if err == nil || attempts != 1 {
			t.Errorf("error = %v after %d attempts, want an error after 1: a retry cannot succeed", err, attempts)
		}
	}
}

func TestClient_ProxyAuthentication(t *testing.T) {
	t.Parallel()
	proxy := httptest.NewServer(respondWith(http.StatusProxyAuthRequired, ""))
	defer proxy.Close()
	transport := &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { return url.Parse(proxy.URL) }}
	c := newTransportClient(t, nil, withoutRetries, idverify.WithHTTPClient(&http.Client{Transport: transport}))

	_, err := c.PhoneChecks.Get(t.Context(), "a")

	if want := "Proxy Authentication Required (set the user and the password of the proxy in its URL)"; !strings.HasSuffix(fmt.Sprint(err), want) {
		t.Errorf("error = %v, want it to end with %s", err, want)
	}
}

func TestClient_TransportErrorWithoutAddress(t *testing.T) {
	t.Parallel()
	c, err := idverify.NewClient("https://127.0.0.1:9", credentials, idverify.WithRetry(fastRetries)) // nothing listens on port 9
	if err != nil {
		t.Fatal(err)
	}

	_, err = c.Reachability.Lookup(t.Context(), netip.MustParseAddr("192.0.2.7"))

	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("error = %v, want the cause", err)
	}
	for _, address := range []string{"192.0.2.7", "127.0.0.1", "https://"} {
		if strings.Contains(fmt.Sprintf("%+v", err), address) {
			t.Errorf("error = %q, want it without %s", err, address)
		}
	}
	if _, ok := errors.AsType[*net.OpError](err); !ok {
		t.Error("errors.As finds no *net.OpError")
	}
}
