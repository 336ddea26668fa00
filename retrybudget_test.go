package idverify_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	idverify "github.com/idverify/idverify-go"
)

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
				if err := get(); err != nil {
					t.Fatal(err)
				}
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
		if _, err := c.PhoneChecks.Get(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
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
	if want := "(not retried because the retry budget is empty) [3 attempts]"; !strings.HasSuffix(fmt.Sprint(failed), want) {
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
		{"status", func(*http.Request) (*http.Response, error) { return response(503, nil), nil },
			"empty body (not retried because the retry budget is empty)", "status=503"},
		{"status with a hint", func(*http.Request) (*http.Response, error) {
			resp := response(429, nil)
			resp.Header.Set("Retry-After", "7")
			resp.Header.Set("X-Request-Id", "req-7")
			return resp, nil
		}, "(retry after 7s; not retried because the retry budget is empty) [request req-7, 1 attempt]", "request_id=req-7"},
		{"no response", func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
			"truncated response (not retried because the retry budget is empty)", "truncated response"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			respond := func(*http.Request) (*http.Response, error) { return response(503, nil), nil }
			c := newTransportClient(t, func(r *http.Request) (*http.Response, error) { return respond(r) },
				idverify.WithRetry(idverify.RetryPolicy{MinWait: 1, Budget: 1}), idverify.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			_, _ = c.PhoneChecks.Get(t.Context(), "a")
			respond = tt.respond
			log.Reset()

			_, err := c.PhoneChecks.Get(t.Context(), "a")

			if !strings.HasSuffix(fmt.Sprint(err), tt.want) {
				t.Errorf("error = %v, want it to end with %s", err, tt.want)
			}
			got := log.String()
			for _, want := range []string{"level=WARN", `msg="idverify: retry budget empty"`, "operation=phone_check.get", "attempt=1", tt.record} {
				if strings.Count(got, "\n") != 1 || !strings.Contains(got, want) {
					t.Errorf("log = %s, want one record that contains %s", got, want)
				}
			}
		})
	}
}
