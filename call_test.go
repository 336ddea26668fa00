package idverify_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/internal/tooltest"
)

// In each test the first attempt fails, and the second one gets a response.
func TestClient_SecondAttemptResult(t *testing.T) {
	t.Parallel()
	get := func(ctx context.Context, c *idverify.Console) error { return errorOf(c.Projects.Get(ctx, "p")) }
	remove := func(ctx context.Context, c *idverify.Console) error { return c.Projects.Delete(ctx, "p") }
	put := func(ctx context.Context, c *idverify.Console) error {
		return errorOf(c.Billing.Update(ctx, idverify.BillingAccount{CompanyName: "n"}))
	}
	notFound := respondWithProblem(404, "not_found", "no such project")
	unsent := http.HandlerFunc(nil) // the dial fails
	for _, tt := range []struct {
		name   string
		do     func(context.Context, *idverify.Console) error
		first  http.HandlerFunc
		second http.HandlerFunc
		want   error
	}{
		// 404 means success only after an attempt that may have deleted the project.
		{"DELETE, 404", remove, notFound, notFound, idverify.ErrNotFound},
		{"DELETE, 500 then 404", remove, respondWith(500, ""), notFound, nil},
		{"DELETE, 502 then 404", remove, respondWith(502, ""), notFound, nil},
		{"DELETE, 503 then 404", remove, respondWith(503, ""), notFound, nil},
		{"DELETE, 503 then 204", remove, respondWith(503, ""), respondWith(204, ""), nil},
		{"DELETE, 503 then 403", remove, respondWith(503, ""), respondWithProblem(403, "forbidden", ""), idverify.ErrForbidden},
		{"DELETE, 503 then 400", remove, respondWith(503, ""), respondWithProblem(400, "bad_request", ""), idverify.ErrBadRequest},
		{"DELETE, 503 then 409", remove, respondWith(503, ""), respondWithProblem(409, "conflict", ""), idverify.ErrConflict},
		{"DELETE, lost then 404", remove, drop, notFound, nil},
		{"DELETE, lost then 403", remove, drop, respondWithProblem(403, "forbidden", ""), idverify.ErrForbidden},
		{"DELETE, 429 then 404", remove, respondWith(429, ""), notFound, idverify.ErrNotFound},
		{"DELETE, lost, 429 then 404", remove, drop, respondInTurn(respondWith(429, ""), notFound), nil},
		{"DELETE, unsent then 404", remove, unsent, notFound, idverify.ErrNotFound},
		{"DELETE, unsent then 204", remove, unsent, respondWith(204, ""), nil},
		{"GET, 503 then 404", get, respondWith(503, ""), notFound, idverify.ErrNotFound},
		{"GET, lost then 404", get, drop, notFound, idverify.ErrNotFound},
		{"GET, 503 then 403", get, respondWith(503, ""), respondWithProblem(403, "forbidden", ""), idverify.ErrForbidden},
		{"PUT, 503 then 404", put, respondWith(503, ""), notFound, idverify.ErrNotFound},
		{"PUT, 503 then 200", put, respondWith(503, ""), respondWith(200, `{"company_name":"n"}`), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			failedDial := 0
			if tt.first == nil {
				tt.first, failedDial = tt.second, 2 // the first connection is for the token
			}
			srv := newService(t, respondInTurn(tt.first, tt.second))
			transport := srv.Client().Transport.(*http.Transport).Clone()
			transport.DialContext = new(net.Dialer).DialContext
			transport = failDials(transport, func(n int) bool { return n == failedDial })
			console := must(idverify.NewConsole(srv.URL, credentials, idverify.WithHTTPClient(&http.Client{Transport: transport}), idverify.WithRetry(fastRetries)))(t)

			err := tt.do(t.Context(), console)

			if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
		})
	}
}

// Waits double up to MaxWait, and their upper half is random.
func TestRetryPolicy_Backoff(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for _, tt := range []struct {
		policy idverify.RetryPolicy
		want   []time.Duration // the longest wait before each retry
	}{
		{idverify.RetryPolicy{MaxAttempts: 6, MinWait: s, MaxWait: 8 * s}, []time.Duration{s, 2 * s, 4 * s, 8 * s, 8 * s}},
		{idverify.RetryPolicy{MaxAttempts: 5, MinWait: 3 * s, MaxWait: 10 * s}, []time.Duration{3 * s, 6 * s, 10 * s, 10 * s}},
		{idverify.RetryPolicy{MaxAttempts: 4, MinWait: 5 * s, MaxWait: 5 * s}, []time.Duration{5 * s, 5 * s, 5 * s}},
		{idverify.RetryPolicy{}, []time.Duration{s / 4, s / 2, s}},
		{idverify.RetryPolicy{MaxAttempts: 3, MaxWait: 100 * time.Millisecond}, []time.Duration{s / 10, s / 10}},
		{idverify.RetryPolicy{MaxAttempts: 3, MinWait: 20 * s}, []time.Duration{20 * s, 20 * s}},
		{idverify.RetryPolicy{MaxAttempts: 3, MinWait: math.MaxInt64 / 3, MaxWait: math.MaxInt64 / 2}, []time.Duration{math.MaxInt64 / 3, math.MaxInt64 / 2}},
	} {
		t.Run(fmt.Sprintf("%v to %v", tt.policy.MinWait, tt.policy.MaxWait), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var last time.Time
				var waits []time.Duration
				c := newTransportClient(t, func(*http.Request) (*http.Response, error) {
					if now := time.Now(); !last.IsZero() {
						waits = append(waits, now.Sub(last))
					}
					last = time.Now()
					return response(503, nil), nil
				}, idverify.WithRetry(tt.policy))
				varied := false
				for range 20 {
					waits, last = nil, time.Time{}

					_, err := c.PhoneChecks.Get(t.Context(), "a")

					if err == nil || len(waits) != len(tt.want) {
						t.Fatalf("error = %v after waits %v, want an error after %d waits", err, waits, len(tt.want))
					}
					for i, wait := range waits {
						if most := tt.want[i]; wait > most || wait < most/2 {
							t.Errorf("wait %d = %v, want %v to %v", i+1, wait, most/2, most)
						}
						varied = varied || wait != tt.want[i] && wait != waits[0]
					}
					if tt.want[0] > time.Hour {
						return // 20 such waits overflow the clock of synctest
					}
				}
				if !varied {
					t.Error("waits never vary, want random waits: callers must not retry at the same time")
				}
			})
		})
	}
}

// A response body that is not closed leaks its connection.
func TestClient_ClosesResponseBodies(t *testing.T) {
	t.Parallel()
	for name, bodies := range map[string][2]string{
		"success":           {`{"access_token":"a"}`, `{"check_id":"a","status":"COMPLETED"}`},
		"not a check":       {`{"access_token":"a"}`, `<html>`},
		"too long":          {`{"access_token":"a"}`, strings.Repeat(" ", 11<<20)},
		"too many values":   {`{"access_token":"a"}`, strings.Repeat(",", 70_000)},
		"not a token":       {`<html>`, ``},
		"token too long":    {strings.Repeat(" ", 2<<20), ``},
		"token with status": {`401`, ``},
		"problem":           {`{"access_token":"a"}`, `403`},
		"transient problem": {`{"access_token":"a"}`, `503`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var opened, closed atomic.Int32
			c := clientOver(t, roundTripperFunc(func(r *http.Request) (*http.Response, error) {
				body := bodies[1]
				if r.URL.Path == tokenPath {
					body = bodies[0]
				}
				status, err := strconv.Atoi(body)
				if err != nil {
					status = 200
				}
				resp := response(status, nil)
				opened.Add(1)
				resp.Body = &closeCounter{strings.NewReader(body), &closed}
				return resp, nil
			}), idverify.WithRetry(fastRetries))

			_, _ = c.PhoneChecks.Get(t.Context(), "a")

			if opened.Load() == 0 || closed.Load() < opened.Load() {
				t.Errorf("bodies = %d, closed = %d, want every body closed", opened.Load(), closed.Load())
			}
		})
	}
}

type closeCounter struct {
	io.Reader
	closed *atomic.Int32
}

func (c *closeCounter) Close() error { c.closed.Add(1); return nil }

func TestWithLogger_Attempts(t *testing.T) {
	t.Parallel()
	logs := new(tooltest.Buffer)
	srv := newService(t, respondInTurn(withRequestID("req-1", respondWith(503, "")), drop, withRequestID("req-3", respondWith(200, `{"check_id":"a","status":"COMPLETED"}`))))
	srv.Client().Transport.(*http.Transport).DisableKeepAlives = true
	c := srv.client(t, idverify.WithLogger(slog.New(slog.NewJSONHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))))

	must(c.PhoneChecks.Get(t.Context(), "a"))(t)

	var got []string
	for decoder := json.NewDecoder(bytes.NewReader([]byte(logs.String()))); decoder.More(); {
		var r struct {
			Level, Msg, Operation, Error string
			RequestID                    string `json:"request_id"`
			Attempt, Status              int
			Duration, Wait               *int64
		}
		noError(t, decoder.Decode(&r))
		_, cause, _ := strings.Cut(r.Error, "PhoneCheck: ")
		got = append(got, strings.Join(strings.Fields(fmt.Sprint(r.Level, " ", r.Operation, " ", r.Attempt, " ", r.Status, " ", r.RequestID, " ", cause)), " "))
		if r.Level == "WARN" && (r.Wait == nil || r.Msg != "idverify: retry") || r.Level == "DEBUG" && r.Duration == nil {
			t.Errorf("record = %+v, want a retry with a wait, or a duration", r)
		}
	}
	want := []string{
		"DEBUG token.create 1 200",
		"DEBUG phone_check.get 1 503 req-1", "WARN phone_check.get 1 503 req-1",
		"DEBUG phone_check.get 2 0 connection closed before the response [2 attempts]", "WARN phone_check.get 2 0 connection closed before the response [2 attempts]",
		"DEBUG phone_check.get 3 200 req-3",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("records =\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Proxies can send statuses outside 100 to 599. None of them is a success.
func TestClient_NonstandardStatus(t *testing.T) {
	t.Parallel()
	const check = `{"check_id":"c","status":"COMPLETED","match":true}`
	for status, success := range map[int]bool{0: false, 9: false, 199: false, 200: true, 299: true, 300: false, 600: false} {
		c := newTransportClient(t, always(status, []byte(check)))

		_, err := c.PhoneChecks.Get(t.Context(), "c")

		e, _ := errors.AsType[*idverify.Error](err)
		if success && err != nil || !success && (e == nil || e.Status != status) {
			t.Errorf("status %d: error = %v, want success: %t", status, err, success)
		}
	}
}

// Two calls in flight use the same token, and the service rejects both. The second call has no
// token to drop, because the first one has dropped it and obtained no other.
func TestClient_DiscardsTokenOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tokens := 0
		slow := make(chan struct{})
		c := clientOver(t, roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			switch {
			case r.URL.Path != tokenPath:
				if strings.HasSuffix(r.URL.Path, "/slow") {
					<-slow
				}
				return response(http.StatusUnauthorized, nil), nil
			case tokens > 0:
				return response(http.StatusUnauthorized, []byte(`{"error":"invalid_client"}`)), nil
			}
			tokens++
			return issuedToken(), nil
		}))
		slowErr := make(chan error)
		go func() { slowErr <- errorOf(c.PhoneChecks.Get(t.Context(), "slow")) }()
		synctest.Wait()

		_, fastErr := c.PhoneChecks.Get(t.Context(), "fast")
		close(slow)

		for _, err := range []error{fastErr, <-slowErr} {
			if e, ok := errors.AsType[*idverify.TokenError](err); !ok || e.Code != "invalid_client" {
				t.Errorf("error = %v, want a *TokenError with code invalid_client", err)
			}
		}
	})
}

func TestClient_EndedContext(t *testing.T) {
	t.Parallel()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	srv := newService(t, nil)
	c := srv.client(t)

	for _, tt := range []struct {
		ctx  context.Context
		want error
	}{
		{canceled, context.Canceled},
		{expired, context.DeadlineExceeded},
	} {
		_, err := c.PhoneChecks.Create(tt.ctx, createParams)

		if text := "idverify: create PhoneCheck: not sent: " + tt.want.Error(); !errors.Is(err, tt.want) || err.Error() != text {
			t.Errorf("error = %v, want %s", err, text)
		}
	}
	if n := len(srv.calls()) + len(srv.tokens()); n != 0 {
		t.Errorf("service received %d requests, want 0", n)
	}
}

// respondTruncated declares a longer body than it writes.
func respondTruncated(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "9999")
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

func TestClient_SendsCookiesOncePerAttempt(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondInTurn(respondWith(503, ""), respondWith(401, ""), respondWith(200, string(fixture(t, "phone_check.json")))))
	jar := must(cookiejar.New(nil))(t)
	base := must(url.Parse(srv.URL))(t)
	jar.SetCookies(base, []*http.Cookie{{Name: "node", Value: "7"}})
	c := srv.client(t, idverify.WithHTTPClient(&http.Client{Transport: srv.Client().Transport, Jar: jar}))

	_, err := c.PhoneChecks.Get(t.Context(), phoneCheckID)

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

func TestRetryPolicy_RetryAfter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		retryAfter   string
		deadline     time.Duration // 0 means none
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
				ctx := withDeadline(t, tt.deadline)
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
		c := newTransportClient(t, always(429, nil, "Retry-After", "9"), idverify.WithRetry(idverify.RetryPolicy{}))
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
	c := clientOver(t, transport, withoutRetries)

	_, err := c.PhoneChecks.Get(t.Context(), "a")

	if want := "Proxy Authentication Required (set the user and the password of the proxy in its URL)"; !strings.HasSuffix(fmt.Sprint(err), want) {
		t.Errorf("error = %v, want it to end with %s", err, want)
	}
}

// withBudget permits four attempts with waits of at most a microsecond.
func withBudget(budget int) idverify.Option {
	return idverify.WithRetry(idverify.RetryPolicy{MinWait: 1, MaxWait: 1000, Budget: budget})
}

func TestRetryPolicy_Budget(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		budget, calls int
		want          int // requests
	}{
		{"one retry", 1, 10, 10 + 1},
		{"ends within an operation", 5, 10, 10 + 5},
		{"default", 0, 50, 50 + 100},
		{"not exhausted", 100, 10, 40},
		{"unlimited", -1, 50, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := newService(t, respondWith(503, ""))
			c := srv.client(t, withBudget(tt.budget))

			for range tt.calls {
				if _, err := c.PhoneChecks.Get(t.Context(), "a"); err == nil {
					t.Fatal("error = nil, want status 503")
				}
			}

			if got := len(srv.calls()); got != tt.want {
				t.Errorf("requests of %d operations = %d, want %d", tt.calls, got, tt.want)
			}
		})
	}
}

// Concurrent operations must not take a retry twice.
func TestRetryPolicy_BudgetIsShared(t *testing.T) {
	t.Parallel()
	const callers, budget = 500, 37
	var requests atomic.Int64
	c := newTransportClient(t, func(*http.Request) (*http.Response, error) {
		requests.Add(1)
		return response(503, nil), nil
	}, withBudget(budget))

	for err := range concurrently(callers, func() error { return errorOf(c.SIMChecks.Get(t.Context(), "a")) }) {
		if err == nil {
			t.Error("error = nil, want status 503")
		}
	}

	if got := requests.Load(); got != callers+budget {
		t.Errorf("requests = %d, want %d and %d retries", got, callers, budget)
	}
}

func TestRetryPolicy_BudgetRefund(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		budget    int
		successes int // after the budget is empty, at the first attempt
		want      int // attempts of the operation that fails afterwards
	}{
		{"no success", 2, 0, 1},
		{"nine successes", 2, 9, 1},
		{"ten successes", 2, 10, 2},
		{"up to the budget", 2, 100, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			status, requests := 503, 0
			c := newTransportClient(t, func(*http.Request) (*http.Response, error) {
				requests++
				return response(status, []byte(`{"check_id":"a","status":"PENDING"}`)), nil
			}, withBudget(tt.budget))
			get := func() error { return errorOf(c.PhoneChecks.Get(t.Context(), "a")) }
			_ = get()
			status = 200
			for range tt.successes {
				noError(t, get())
			}
			status, requests = 503, 0

			_ = get()

			if requests != tt.want {
				t.Errorf("attempts after %d successes = %d, want %d", tt.successes, requests, tt.want)
			}
		})
	}
}

// Only the first attempt of an operation returns a part of a retry, so that retries that succeed do
// not pay for each other.
func TestRetryPolicy_BudgetWithoutRefund(t *testing.T) {
	t.Parallel()
	requests, failing := 0, 0
	c := newTransportClient(t, func(*http.Request) (*http.Response, error) {
		requests++
		if failing--; failing >= 0 {
			return response(429, nil), nil
		}
		return response(200, []byte(`{"check_id":"a","status":"PENDING"}`)), nil
	}, withBudget(20))
	for range 20 {
		failing = 1
		must(c.PhoneChecks.Get(t.Context(), "a"))(t)
	}
	failing, requests = 1, 0

	_, err := c.PhoneChecks.Get(t.Context(), "a")

	if !errors.Is(err, idverify.ErrRateLimited) || requests != 1 {
		t.Errorf("error = %v after %d attempts, want ErrRateLimited after 1: the budget is empty", err, requests)
	}
}

// A new token after 401 and a failed token request do not use the budget.
func TestRetryPolicy_BudgetExemptions(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondInTurn(respondWith(401, ""), respondWith(200, `{"check_id":"a","status":"PENDING"}`), respondWith(401, ""), respondWith(503, "")))
	var tokens atomic.Int64
	srv.token = func(w http.ResponseWriter, _ *http.Request) {
		n := tokens.Add(1)
		if n%2 == 1 {
			w.WriteHeader(503)
			return
		}
		fmt.Fprintf(w, `{"access_token":"token-%d"}`, n)
	}
	c := srv.client(t, withBudget(1))

	_, err := c.PhoneChecks.Get(t.Context(), "a")    // 503; token-2, 401, 503; token-4, 200
	_, failed := c.PhoneChecks.Get(t.Context(), "a") // 401, 503; token-6, 503; 503

	if err != nil {
		t.Errorf("error after 401 and failed token requests = %v, want nil", err)
	}
	if n := tokens.Load(); n != 6 {
		t.Errorf("token requests = %d, want 6: they do not use the budget", n)
	}
	if want := "(retry later; not retried because the retry budget is empty) [3 attempts]"; !strings.HasSuffix(fmt.Sprint(failed), want) {
		t.Errorf("error of the operation with 503 = %v, want %s: the budget still had one retry", failed, want)
	}
}

func TestRetryPolicy_BudgetEmpty(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		respond func(*http.Request) (*http.Response, error)
		want    string
		record  string
	}{
		{"status", always(503, nil),
			"empty body (retry later; not retried because the retry budget is empty)", "status=503"},
		{"status with a hint", always(429, nil, "Retry-After", "7", "X-Request-Id", "req-7"),
			"(retry after 7s; not retried because the retry budget is empty) [request req-7, 1 attempt]", "request_id=req-7"},
		{"no response", func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
			"truncated response (not retried because the retry budget is empty)", "truncated response"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			respond := always(503, nil)
			c := newTransportClient(t, func(r *http.Request) (*http.Response, error) { return respond(r) },
				idverify.WithRetry(idverify.RetryPolicy{MinWait: 1, Budget: 1}), idverify.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))))
			_, _ = c.PhoneChecks.Get(t.Context(), "a")
			respond = tt.respond
			log.Reset()

			_, err := c.PhoneChecks.Get(t.Context(), "a")

			if !strings.HasSuffix(fmt.Sprint(err), tt.want) {
				t.Errorf("error = %v, want it to end with %s", err, tt.want)
			}
			got := log.String()
			if strings.Count(got, "\n") != 1 {
				t.Errorf("log = %s, want one record", got)
			}
			wantContains(t, "log", got, "level=WARN", `msg="idverify: retry budget empty"`, "operation=phone_check.get", "attempt=1", tt.record)
		})
	}
}
