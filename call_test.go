package idverify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/synctest"

	idverify "github.com/idverify/idverify-go"
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
			failDials := 0
			if tt.first == nil {
				tt.first, failDials = tt.second, 1
			}
			srv := newService(t, respondInTurn(tt.first, tt.second))
			transport := srv.Client().Transport.(*http.Transport).Clone()
			transport.DisableKeepAlives = true
			var dials atomic.Int32
			transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if n := int(dials.Add(1)); n > 1 && n <= 1+failDials { // the first connection is for the token
					return nil, errors.New("no route")
				}
				return new(net.Dialer).DialContext(ctx, network, addr)
			}
			console, err := idverify.NewConsole(srv.URL, credentials, idverify.WithHTTPClient(&http.Client{Transport: transport}), idverify.WithRetry(fastRetries))
			if err != nil {
				t.Fatal(err)
			}

			err = tt.do(t.Context(), console)

			if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
		})
	}
}

func TestClient_RetriesRateLimitWithoutHeaders(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondWith(429, ""))
	recovering := newService(t, respondInTurn(respondWith(429, ""), respondWith(201, `{"check_id":"a","status":"ACCEPTED"}`)))

	_, err := srv.client(t).PhoneChecks.Create(t.Context(), createParams)
	check, recovered := recovering.client(t).PhoneChecks.Create(t.Context(), createParams)

	e, ok := errors.AsType[*idverify.Error](err)
	if !ok || !errors.Is(err, idverify.ErrRateLimited) || e.RateLimit != nil || e.RetryAfter != 0 || len(srv.calls()) != 4 {
		t.Errorf("error = %#v after %d attempts, want ErrRateLimited after 4", err, len(srv.calls()))
	}
	if text := fmt.Sprint(err); strings.Contains(text, "charged") || strings.Contains(text, "unknown") || strings.Contains(text, "retry") {
		t.Errorf("error = %q, want neither an unknown outcome nor a retry time: the service rejected the request without Retry-After", text)
	}
	if recovered != nil || check.CheckID != "a" || len(recovering.calls()) != 2 {
		t.Errorf("check = %+v, error = %v after %d attempts, want a check after 2", check, recovered, len(recovering.calls()))
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
			c, err := idverify.NewClient("https://idverify.sandbox.test", credentials, idverify.WithRetry(fastRetries), idverify.WithHTTPClient(&http.Client{
				Transport: roundTripperFunc(func(r *http.Request) (*http.Response, error) {
					body := bodies[1]
					if r.URL.Path == tokenPath {
						body = bodies[0]
					}
					status := 200
					fmt.Sscan(body, &status)
					resp := response(status, nil)
					opened.Add(1)
					resp.Body = &closeCounter{strings.NewReader(body), &closed}
					return resp, nil
				}),
			}))
			if err != nil {
				t.Fatal(err)
			}

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
	logs := new(syncBuffer)
	srv := newService(t, respondInTurn(withRequestID("req-1", respondWith(503, "")), drop, withRequestID("req-3", respondWith(200, `{"check_id":"a","status":"COMPLETED"}`))))
	srv.Client().Transport.(*http.Transport).DisableKeepAlives = true
	c := srv.client(t, idverify.WithLogger(slog.New(slog.NewJSONHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))))

	if _, err := c.PhoneChecks.Get(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}

	var got []string
	for decoder := json.NewDecoder(bytes.NewReader([]byte(logs.String()))); decoder.More(); {
		var r struct {
			Level, Operation, Error string
			RequestID               string `json:"request_id"`
			Attempt, Status         int
			Duration, Wait          *int64
		}
		if err := decoder.Decode(&r); err != nil {
			t.Fatal(err)
		}
		failed := ""
		if r.Error != "" {
			failed = "failed"
		}
		got = append(got, strings.Join(strings.Fields(fmt.Sprint(r.Level, " ", r.Operation, " ", r.Attempt, " ", r.Status, " ", r.RequestID, " ", failed)), " "))
		if r.Level == "WARN" && (r.Wait == nil) || r.Level == "DEBUG" && r.Duration == nil {
			t.Errorf("record = %+v, want a wait or a duration", r)
		}
	}
	want := []string{
		"DEBUG token.create 1 200",
		"DEBUG phone_check.get 1 503 req-1", "WARN phone_check.get 1 503 req-1",
		"DEBUG phone_check.get 2 0 failed", "WARN phone_check.get 2 0 failed",
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
		c := newTransportClient(t, func(*http.Request) (*http.Response, error) { return response(status, []byte(check)), nil })

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
		c, err := idverify.NewClient("https://idverify.sandbox.test", credentials, idverify.WithHTTPClient(&http.Client{Transport: roundTripperFunc(func(r *http.Request) (*http.Response, error) {
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
			return response(http.StatusOK, []byte(`{"access_token":"token-1","expires_in":3600}`)), nil
		})}))
		if err != nil {
			t.Fatal(err)
		}
		slowErr := make(chan error)
		go func() {
			_, err := c.PhoneChecks.Get(t.Context(), "slow")
			slowErr <- err
		}()
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
