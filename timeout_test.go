package idverify_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
)

// An error before the timeout of the http.Client must not be reported as that timeout.
func TestClient_ReportsTimeoutOnlyAtDeadline(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		after    time.Duration // when the transport fails
		timeout  time.Duration // of the http.Client; 0: none
		deadline time.Duration // of the caller's context; 0: none
		want     error         // nil: the transport's error
		client   bool          // the error mentions the timeout of the http.Client
	}{
		{"at once", 0, 10 * time.Second, 0, nil, false},
		{"at once, with a deadline", 0, 0, 10 * time.Second, nil, false},
		{"just before the timeout", 10*time.Second - 1, 10 * time.Second, 0, nil, false},
		{"just before the deadline", 10*time.Second - 1, 0, 10 * time.Second, nil, false},
		{"without either", time.Hour, 0, 0, nil, false},
		{"at the timeout", time.Hour, 10 * time.Second, 0, context.DeadlineExceeded, true},
		{"at the timeout, before the deadline", time.Hour, 10 * time.Second, 20 * time.Second, context.DeadlineExceeded, true},
		{"at the deadline", time.Hour, 0, 10 * time.Second, context.DeadlineExceeded, false},
		{"at the deadline, before the timeout", time.Hour, 20 * time.Second, 10 * time.Second, context.DeadlineExceeded, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				errReset := errors.New("connection reset by peer")
				transport := tokenTransport(func(r *http.Request) (*http.Response, error) {
					select {
					case <-time.After(tt.after):
						return nil, errReset
					case <-r.Context().Done():
						return nil, errors.New("net/http: request canceled")
					}
				})
				c := newTransportClient(t, nil, withoutRetries, idverify.WithHTTPClient(&http.Client{Transport: transport, Timeout: tt.timeout}))
				ctx := t.Context()
				if tt.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.deadline)
					defer cancel()
				}

				_, err := c.PhoneChecks.Get(ctx, "a")

				want := tt.want
				if want == nil {
					want = errReset
				}
				if !errors.Is(err, want) || errors.Is(err, context.DeadlineExceeded) != (tt.want != nil) {
					t.Errorf("error = %v, want %v", err, want)
				}
				if got := strings.Contains(fmt.Sprint(err), "WithHTTPClient"); got != tt.client {
					t.Errorf("error = %v, mentions WithHTTPClient = %v, want %v", err, got, tt.client)
				}
			})
		})
	}
}

func TestWithHTTPClient_TokenTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, err := idverify.NewClient("https://idverify.sandbox.test", credentials, idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1}), idverify.WithHTTPClient(&http.Client{
			Timeout:   5 * time.Second,
			Transport: roundTripperFunc(func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() }),
		}))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()

		_, err = c.Token(t.Context(), idverify.ScopeCoverage)

		if took := time.Since(start); err == nil || took != 5*time.Second {
			t.Errorf("error = %v after %v, want an error after 5s", err, took)
		}
	})
}

func TestClient_ReportsHTTPClientTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// It issues tokens and never responds to other requests.
		silent := roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == tokenPath {
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"access_token":"token-1","token_type":"bearer","expires_in":36000}`)), Request: r}, nil
			}
			<-r.Context().Done()
			return nil, errors.New("net/http: request canceled")
		})
		c, err := idverify.NewClient("https://eu.example.com", credentials,
			idverify.WithHTTPClient(&http.Client{Transport: silent, Timeout: time.Second}), idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1}))
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			_, err := c.PhoneChecks.Get(t.Context(), "a")

			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "WithHTTPClient") {
				t.Fatalf("error = %v, want context.DeadlineExceeded and a mention of WithHTTPClient", err)
			}
		}
	})
}

// A token request times out even if neither the transport nor the caller has a deadline.
func TestClient_TokenRequestTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, err := idverify.NewClient("https://idverify.sandbox.test", credentials, withoutRetries, idverify.WithHTTPClient(&http.Client{
			Transport: roundTripperFunc(func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}),
		}))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()

		_, err = c.PhoneChecks.Get(t.Context(), "a")

		if took := time.Since(start); took != 30*time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error after %v = %v, want context.DeadlineExceeded after 30s", took, err)
		}
	})
}

func TestWithHTTPClient_TimeoutPerAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var attempts atomic.Int32
		stuck := func(r *http.Request) (*http.Response, error) {
			attempts.Add(1)
			if r.Body != nil {
				io.Copy(io.Discard, r.Body)
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		c := newTransportClient(t, stuck, idverify.WithHTTPClient(&http.Client{Timeout: 5 * time.Second, Transport: tokenTransport(stuck)}))

		_, getErr := c.PhoneChecks.Get(t.Context(), "a")
		gets := attempts.Swap(0)
		_, createErr := c.PhoneChecks.Create(t.Context(), createParams)

		if !errors.Is(getErr, context.DeadlineExceeded) || gets != 4 {
			t.Errorf("Get: attempts = %d, error = %v, want 4 and context.DeadlineExceeded", gets, getErr)
		}
		if !errors.Is(createErr, context.DeadlineExceeded) || attempts.Load() != 1 {
			t.Errorf("Create: attempts = %d, error = %v, want 1 and context.DeadlineExceeded: it may have been accepted", attempts.Load(), createErr)
		}
	})
}
