package idverify_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
)

// spanKey is the key of a context value that contains the names of a span and its parents.
type spanKey struct{}

func span(ctx context.Context) string {
	s, _ := ctx.Value(spanKey{}).(string)
	return s
}

// withSpan returns an observer that adds name to the span of the context.
func withSpan(name string) idverify.Option {
	return idverify.WithObserver(func(ctx context.Context, operation string) (context.Context, func(idverify.Attempt)) {
		return context.WithValue(ctx, spanKey{}, span(ctx)+"/"+name+operation), nil
	})
}

func TestWithObserver_ContextReachesTransport(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondInTurn(respondWith(503, ""), respondWith(401, ""), respondWith(200, string(fixture(t, "phone_check.json")))))
	var sent []string // the requests of one caller follow each other
	transport := roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		kind := "check"
		if r.URL.Path == tokenPath {
			kind = "token"
		}
		sent = append(sent, kind+": "+span(r.Context()))
		return srv.Client().Transport.RoundTrip(r)
	})
	c := srv.client(t, idverify.WithHTTPClient(&http.Client{Transport: transport, Timeout: time.Minute}), withSpan(""))

	_, err := c.PhoneChecks.Get(context.WithValue(t.Context(), spanKey{}, "caller"), phoneCheckID)

	want := []string{
		"token: caller/phone_check.get/token.create",
		"check: caller/phone_check.get",
		"check: caller/phone_check.get", // the retry
		"token: caller/phone_check.get/token.create",
		"check: caller/phone_check.get", // again after 401
	}
	if diff := cmp.Diff(want, sent); err != nil || diff != "" {
		t.Errorf("error = %v, spans (-want +got):\n%s", err, diff)
	}
}

// sliceContext is a context type whose values cannot be compared.
type sliceContext struct {
	context.Context
	_ []int
}

// A comparison of contexts must not panic.
func TestWithObserver_UncomparableContext(t *testing.T) {
	t.Parallel()
	log := new(attemptLog)
	c := newTransportClient(t, func(*http.Request) (*http.Response, error) {
		return response(200, fixture(t, "phone_check.json")), nil
	}, log.option(), log.option())

	_, err := c.PhoneChecks.Get(sliceContext{Context: t.Context()}, phoneCheckID)

	if err != nil || len(log.all(t)) != 4 {
		t.Errorf("error = %v after %d attempts, want nil after 2 for each observer", err, len(log.all(t)))
	}
}

func TestWithObserver_Order(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var calls []string
	observer := func(name string, returns func(context.Context, func(idverify.Attempt)) (context.Context, func(idverify.Attempt))) idverify.Option {
		return idverify.WithObserver(func(ctx context.Context, operation string) (context.Context, func(idverify.Attempt)) {
			mu.Lock()
			defer mu.Unlock()
			if operation == "token.create" {
				return nil, nil
			}
			calls = append(calls, fmt.Sprintf("%s starts %s in %q", name, operation, span(ctx)))
			return returns(context.WithValue(ctx, spanKey{}, span(ctx)+name), func(a idverify.Attempt) {
				mu.Lock()
				defer mu.Unlock()
				calls = append(calls, fmt.Sprintf("%s ends %s", name, a.Operation))
			})
		})
	}
	both := func(ctx context.Context, end func(idverify.Attempt)) (context.Context, func(idverify.Attempt)) {
		return ctx, end
	}
	c := newTransportClient(t, func(*http.Request) (*http.Response, error) {
		return response(200, fixture(t, "phone_check.json")), nil
	},
		observer("a", both),
		idverify.WithObserver(nil),
		observer("b", func(_ context.Context, end func(idverify.Attempt)) (context.Context, func(idverify.Attempt)) {
			return nil, end
		}),
		observer("c", func(ctx context.Context, _ func(idverify.Attempt)) (context.Context, func(idverify.Attempt)) {
			return ctx, nil
		}),
		observer("d", both))

	_, err := c.PhoneChecks.Get(t.Context(), phoneCheckID)

	want := []string{
		`a starts phone_check.get in ""`,
		`b starts phone_check.get in "a"`,
		`c starts phone_check.get in "a"`, // b returned no context
		`d starts phone_check.get in "ac"`,
		"d ends phone_check.get", // c returned no function
		"b ends phone_check.get",
		"a ends phone_check.get",
	}
	if diff := cmp.Diff(want, calls); err != nil || diff != "" {
		t.Errorf("error = %v, calls (-want +got):\n%s", err, diff)
	}
}

// Only the values of an observer's context are used. It changes neither the cancellation nor the
// deadline of an attempt.
func TestWithObserver_KeepsCancellation(t *testing.T) {
	t.Parallel()
	for name, derive := range map[string]func(context.Context) context.Context{
		"with a value": func(ctx context.Context) context.Context { return ctx },
		"not derived":  func(context.Context) context.Context { return context.Background() },
		"without cancel": func(ctx context.Context) context.Context {
			return context.WithoutCancel(ctx)
		},
		"canceled": func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx
		},
		"with another Err": func(ctx context.Context) context.Context { return endedContext{ctx} },
		"past its deadline": func(ctx context.Context) context.Context {
			ctx, cancel := context.WithTimeout(ctx, -1)
			t.Cleanup(cancel)
			return ctx
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var spans []string
				client := func(timeout time.Duration) *idverify.Client {
					transport := roundTripperFunc(func(r *http.Request) (*http.Response, error) {
						if r.URL.Path == tokenPath {
							return issuedToken(), nil
						}
						spans = append(spans, span(r.Context()))
						// A context that is derived from that of the request is canceled with it.
						ctx, cancel := context.WithCancel(r.Context())
						defer cancel()
						select {
						case <-ctx.Done():
							return nil, ctx.Err()
						case <-time.After(10 * time.Second): // of the bubble
							return response(200, fixture(t, "phone_check.json")), nil
						}
					})
					observer := idverify.WithObserver(func(ctx context.Context, operation string) (context.Context, func(idverify.Attempt)) {
						return context.WithValue(derive(ctx), spanKey{}, operation), nil
					})
					return must(idverify.NewClient("https://idverify.sandbox.test", credentials, withoutRetries, observer,
						idverify.WithHTTPClient(&http.Client{Transport: transport, Timeout: timeout})))(t)
				}
				get := func(ctx context.Context, timeout time.Duration) (time.Duration, error) {
					began := time.Now()
					_, err := client(timeout).PhoneChecks.Get(ctx, phoneCheckID)
					return time.Since(began), err
				}
				canceled, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)

				tookCanceled, errCanceled := get(canceled, time.Minute)
				deadline, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				tookDeadline, errDeadline := get(deadline, time.Minute)
				tookTimeout, errTimeout := get(t.Context(), 3*time.Second)
				tookSuccess, errSuccess := get(t.Context(), time.Minute)

				if !errors.Is(errCanceled, context.Canceled) || tookCanceled != time.Second {
					t.Errorf("canceled: error = %v after %v, want context.Canceled after 1s", errCanceled, tookCanceled)
				}
				if !errors.Is(errDeadline, context.DeadlineExceeded) || tookDeadline != 2*time.Second {
					t.Errorf("deadline: error = %v after %v, want context.DeadlineExceeded after 2s", errDeadline, tookDeadline)
				}
				if classify(errTimeout) != "lost" || !errors.Is(errTimeout, context.DeadlineExceeded) || tookTimeout != 3*time.Second {
					t.Errorf("timeout of the HTTP client: error = %v after %v, want it to name the timeout, after 3s", errTimeout, tookTimeout)
				}
				if errSuccess != nil || tookSuccess != 10*time.Second {
					t.Errorf("success: error = %v after %v, want none after 10s", errSuccess, tookSuccess)
				}
				if want := slices.Repeat([]string{"phone_check.get"}, 4); !slices.Equal(spans, want) {
					t.Errorf("spans of the requests = %q, want %q", spans, want)
				}
			})
		})
	}
}

// endedContext has ended although its Done channel is that of another context.
type endedContext struct{ context.Context }

func (endedContext) Err() error                  { return context.Canceled }
func (endedContext) Deadline() (time.Time, bool) { return bubbleStart, true }

func issuedToken() *http.Response {
	return response(200, []byte(`{"access_token":"token-1","expires_in":3600}`))
}

// A token request has the values of the attempt that started it, but not its cancellation.
func TestWithObserver_TokenOutlivesCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := new(attemptLog)
		var spans []string
		transport := roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			spans = append(spans, span(r.Context()))
			select {
			case <-r.Context().Done():
				return nil, r.Context().Err()
			case <-time.After(5 * time.Second):
				return issuedToken(), nil
			}
		})
		c := must(idverify.NewClient("https://idverify.sandbox.test", credentials, idverify.WithHTTPClient(&http.Client{Transport: transport}), withSpan(""), log.option()))(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()

		_, err := c.PhoneChecks.Get(ctx, phoneCheckID)
		time.Sleep(10 * time.Second)

		want := []string{"phone_check.get 1: 0, error", "token.create 1: 200"}
		if diff := cmp.Diff(want, log.lines(t)); !errors.Is(err, context.DeadlineExceeded) || diff != "" {
			t.Errorf("error = %v, attempts (-want +got):\n%s", err, diff)
		}
		if want := []string{"/phone_check.get/token.create"}; !slices.Equal(spans, want) {
			t.Errorf("spans = %q, want %q", spans, want)
		}
	})
}
