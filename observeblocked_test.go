package idverify_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
)

// A function that is called at the end of a token request must not delay the callers.
func TestWithObserver_BlockedEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := newTransportClient(t, func(*http.Request) (*http.Response, error) {
			return response(200, fixture(t, "phone_check.json")), nil
		}, observing(func(string) {}, func(operation string) {
			if operation == "token.create" {
				<-release
			}
		}))

		_, err := c.PhoneChecks.Get(t.Context(), phoneCheckID)
		took := time.Since(bubbleStart)
		close(release)

		if err != nil || took > 0 {
			t.Errorf("error = %v after %v, want nil at once", err, took)
		}
	})
}

// An observer of token requests can use the client.
func TestWithObserver_Reentrant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c *idverify.Client
		inner := make(chan error, 1)
		c = newTransportClient(t, func(*http.Request) (*http.Response, error) {
			return response(200, fixture(t, "phone_check.json")), nil
		}, observing(func(string) {}, func(operation string) {
			if operation == "token.create" {
				inner <- errorOf(c.PhoneChecks.Get(context.Background(), phoneCheckID))
			}
		}))

		_, err := c.PhoneChecks.Get(t.Context(), phoneCheckID)
		innerErr := <-inner

		if took := time.Since(bubbleStart); err != nil || innerErr != nil || took > 0 {
			t.Errorf("errors = %v and %v after %v, want nil at once", err, innerErr, took)
		}
	})
}

// A logger that blocks on the record of a failed renewal must not keep the client without a token.
func TestWithLogger_Blocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release, failing := make(chan struct{}), false
		e := newMemoryService()
		handler := warnHandler{slog.DiscardHandler, func() { <-release }}
		c := must(idverify.NewClient("https://idverify.sandbox.test", credentials, idverify.WithLogger(slog.New(handler)),
			idverify.WithHTTPClient(&http.Client{Transport: roundTripperFunc(func(r *http.Request) (*http.Response, error) {
				if failing {
					return response(401, nil), nil
				}
				return e.RoundTrip(r)
			})})))(t)
		tokenFor(t, c, idverify.ScopeReachability)
		time.Sleep(59*time.Minute + time.Second) // the renewal is due
		failing = true
		tokenFor(t, c, idverify.ScopeReachability)
		synctest.Wait()
		failing = false
		time.Sleep(time.Hour) // until the token has expired
		start := time.Now()

		token := tokenFor(t, c, idverify.ScopeReachability)
		took := time.Since(start)
		close(release)

		if token != "token-2" || took > 0 {
			t.Errorf("token = %q after %v, want token-2 at once", token, took)
		}
	})
}

// warnHandler is a slog.Handler that calls block for each record of level warn.
type warnHandler struct {
	slog.Handler
	block func()
}

func (warnHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h warnHandler) Handle(_ context.Context, r slog.Record) error {
	if r.Level == slog.LevelWarn {
		h.block()
	}
	return nil
}

// A start function or an HTTP transport that never returns must not hold the callers longer than
// the timeout of a token request and a tenth of it.
func TestClient_TokenWaitIsBounded(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"start of an observer", "transport"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				defer close(release)
				c := newTransportClient(t, nil, idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1, AttemptTimeout: 10 * time.Second}),
					idverify.WithHTTPClient(&http.Client{Transport: roundTripperFunc(func(*http.Request) (*http.Response, error) {
						<-release // ignores the context
						return nil, errors.New("released")
					})}),
					observing(func(operation string) {
						if operation == "token.create" && place != "transport" {
							<-release
						}
					}, func(string) {}))

				_, err := c.PhoneChecks.Create(t.Context(), createParams)

				if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, idverify.ErrOutcomeUnknown) || !strings.HasPrefix(err.Error(), `idverify: get token for scope "phone_check": no response within the attempt timeout`) {
					t.Errorf("error = %v, want a timeout of the token request", err)
				}
				if took := time.Since(bubbleStart); took != 11*time.Second {
					t.Errorf("took %v, want 11s", took)
				}
			})
		})
	}
}
