package idverify_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
)

// An error before the attempt timeout must not be reported as that timeout.
func TestClient_ReportsTimeoutOnlyAtDeadline(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		after    time.Duration // when the transport fails
		timeout  time.Duration // of the http.Client; 0 means none
		deadline time.Duration // of the caller's context; 0 means none
		want     error         // nil means the transport's error
		client   bool          // the error mentions the attempt timeout
	}{
		{"at once", 0, 10 * time.Second, 0, nil, false},
		{"at once, with a deadline", 0, 0, 10 * time.Second, nil, false},
		{"just before the timeout", 10*time.Second - 1, 10 * time.Second, 0, nil, false},
		{"just before the deadline", 10*time.Second - 1, 0, 10 * time.Second, nil, false},
		{"just before the default timeout", 30*time.Second - 1, 0, 0, nil, false},
		{"at the default timeout", time.Hour, 0, 0, context.DeadlineExceeded, true},
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
				c := newTransportClient(t, nil, oneAttempt, idverify.WithHTTPClient(&http.Client{Transport: transport, Timeout: tt.timeout}))
				for range 20 { // timers that are due at the same time run in any order
					_, err := c.PhoneChecks.Get(withDeadline(t, tt.deadline), "a")

					want := cmp.Or(tt.want, errReset)
					if !errors.Is(err, want) || errors.Is(err, context.DeadlineExceeded) != (tt.want != nil) {
						t.Errorf("error = %v, want %v", err, want)
					}
					if got := strings.Contains(fmt.Sprint(err), "see RetryPolicy.AttemptTimeout and WithHTTPClient"); got != tt.client {
						t.Errorf("error = %v, mentions the attempt timeout = %v, want %v", err, got, tt.client)
					}
				}
			})
		})
	}
}

// The attempt timeout applies to a request, its body, and the token request that precedes it.
func TestRetryPolicy_AttemptTimeout(t *testing.T) {
	t.Parallel()
	const slowToken, slowHeader, slowBody = "token", "header", "body"
	get := func(ctx context.Context, c *idverify.Client) error { return errorOf(c.PhoneChecks.Get(ctx, "a")) }
	token := func(ctx context.Context, c *idverify.Client) error {
		return errorOf(c.Token(ctx, idverify.ScopeReachability))
	}
	for _, tt := range []struct {
		name            string
		slow            string // what never ends
		do              func(context.Context, *idverify.Client) error
		client, attempt time.Duration // Timeout and AttemptTimeout
		want            time.Duration
		text            string
	}{
		{"response without any timeout", slowHeader, get, 0, 0, 30 * time.Second, "attempt timeout"},
		{"body without any timeout", slowBody, get, 0, 0, 30 * time.Second, "attempt timeout"},
		{"token without any timeout", slowToken, get, 0, 0, 30 * time.Second, "attempt timeout"},
		{"Token without any timeout", slowToken, token, 0, 0, 30 * time.Second, "attempt timeout"},
		{"Timeout of the HTTP client", slowHeader, get, time.Minute, 0, time.Minute, "attempt timeout"},
		{"token with Timeout of the HTTP client", slowToken, get, 5 * time.Second, 0, 5 * time.Second, "attempt timeout"},
		{"Token with Timeout of the HTTP client", slowToken, token, 5 * time.Second, 0, 5 * time.Second, "attempt timeout"},
		{"shorter than Timeout", slowHeader, get, time.Minute, 5 * time.Second, 5 * time.Second, "attempt timeout"},
		{"longer than Timeout", slowHeader, get, 5 * time.Second, time.Minute, time.Minute, "attempt timeout"},
		{"longer than Timeout, body", slowBody, get, 5 * time.Second, time.Minute, time.Minute, "attempt timeout"},
		{"token, shorter than Timeout", slowToken, get, time.Minute, 5 * time.Second, 5 * time.Second, "attempt timeout"},
		{"Token, shorter than Timeout", slowToken, token, time.Minute, 5 * time.Second, 5 * time.Second, "attempt timeout"},
		{"token, longer than a token request may take", slowToken, get, 0, time.Minute, 30 * time.Second, "timeout of a token request"},
		{"negative", slowHeader, get, 5 * time.Second, -1, time.Hour, "canceled"},
		{"negative, body", slowBody, get, 5 * time.Second, -1, time.Hour, "canceled"},
		{"negative, token", slowToken, get, 5 * time.Second, -1, 30 * time.Second, "timeout of a token request"},
		{"negative, Token", slowToken, token, 5 * time.Second, -1, 30 * time.Second, "timeout of a token request"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				transport := roundTripperFunc(func(r *http.Request) (*http.Response, error) {
					isToken := r.URL.Path == tokenPath
					switch {
					case isToken == (tt.slow == slowToken) && tt.slow != slowBody:
						<-r.Context().Done()
						return nil, r.Context().Err()
					case isToken:
						return issuedToken(), nil
					}
					resp := response(200, nil)
					resp.Body = io.NopCloser(readerFunc(func([]byte) (int, error) { <-r.Context().Done(); return 0, r.Context().Err() }))
					return resp, nil
				})
				c := newTransportClient(t, nil, idverify.WithHTTPClient(&http.Client{Transport: transport, Timeout: tt.client}),
					idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1, AttemptTimeout: tt.attempt}))
				ctx, cancel := context.WithCancel(t.Context())
				defer time.AfterFunc(time.Hour, cancel).Stop()
				start := time.Now()

				err := tt.do(ctx, c)

				if took := time.Since(start); took != tt.want {
					t.Errorf("took %v, want %v", took, tt.want)
				}
				if wantTimeout := tt.text != "canceled"; errors.Is(err, context.DeadlineExceeded) != wantTimeout || errors.Is(err, context.Canceled) == wantTimeout {
					t.Errorf("error = %v, want context.DeadlineExceeded: %v", err, wantTimeout)
				}
				if !strings.Contains(fmt.Sprint(err), tt.text) {
					t.Errorf("error = %v, want it to contain %q", err, tt.text)
				}
			})
		})
	}
}

// The request that is sent again after 401, and its token, share the timeout of the attempt.
func TestRetryPolicy_AttemptTimeoutAfter401(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name                  string
		first, token, request time.Duration // duration of the first request, and of the second token and request
	}{
		{"slow token", 3 * time.Second, time.Hour, 0},
		{"slow request", 3 * time.Second, time.Second, time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				requests := make(map[string]int)
				respond := func(r *http.Request, after time.Duration, status int, body string) (*http.Response, error) {
					select {
					case <-time.After(after):
						return response(status, []byte(body)), nil
					case <-r.Context().Done():
						return nil, r.Context().Err()
					}
				}
				transport := roundTripperFunc(func(r *http.Request) (*http.Response, error) {
					requests[r.URL.Path]++
					switch first := requests[r.URL.Path] == 1; {
					case r.URL.Path == tokenPath && first:
						return respond(r, 0, 200, `{"access_token":"token-1","expires_in":3600}`)
					case r.URL.Path == tokenPath:
						return respond(r, tt.token, 200, `{"access_token":"token-2","expires_in":3600}`)
					case first:
						return respond(r, tt.first, 401, "")
					}
					return respond(r, tt.request, 200, "")
				})
				c := clientOver(t, transport, idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1, AttemptTimeout: 5 * time.Second}))
				start := time.Now()

				_, err := c.PhoneChecks.Get(t.Context(), "a")

				if took := time.Since(start); took != 5*time.Second || !strings.Contains(fmt.Sprint(err), "attempt timeout") {
					t.Errorf("error = %v after %v, want the attempt timeout after 5s", err, took)
				}
				time.Sleep(time.Minute) // until the token request has ended
			})
		})
	}
}

// readerFunc is an io.Reader.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// The simulations of an outage: 100 replicas with 1,000 callers in total. Each caller reads a
// check, waits for a second and repeats that. The outage begins at once and ends after a minute,
// and all clients begin without a token.
const (
	simReplicas = 100
	simCallers  = 1000
	simOutage   = time.Minute
	simDuration = 75 * time.Second
	simMaxWait  = 10 * time.Second // the default of RetryPolicy.MaxWait
)

// TestClient_TokenEndpointOutage checks the numbers of docs/replicas.md.
func TestClient_TokenEndpointOutage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		fail func() (*http.Response, error)
	}{
		{"503", func() (*http.Response, error) { return response(503, nil), nil }},
		{"connections closed", func() (*http.Response, error) { return nil, errors.New("connection reset by peer") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &simulation{failToken: tt.fail}
				s.run(t, idverify.RetryPolicy{})

				// The shortest pauses are 0.5, 1, 2, 4 and then 5 s each.
				if got, want := sum(s.tokens[:60]), 15*simReplicas; got > want {
					t.Errorf("token requests in the outage = %d, want at most %d", got, want)
				}
				if got, want := slices.Max(s.tokens[15:60]), simReplicas/2; got > want {
					t.Errorf("token requests per second after 15 s = %d, want at most %d", got, want)
				}
				if got := sum(s.tokens[60:]); got != simReplicas {
					t.Errorf("token requests after the outage = %d, want one for each of %d replicas", got, simReplicas)
				}
				s.checkRecovery(t, simOutage+simMaxWait)
				s.log(t)
			})
		})
	}
}

// TestClient_ServiceOutage checks the numbers of docs/replicas.md.
func TestClient_ServiceOutage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name             string
		budget           int
		minimum, maximum int // retries in the outage
	}{
		{"with a budget", 0, 100 * simReplicas, 100 * simReplicas},
		{"without a budget", -1, 50_000, simCallers * 60 * 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &simulation{failProduct: func() (*http.Response, error) { return response(503, nil), nil }}
				s.run(t, idverify.RetryPolicy{Budget: tt.budget})

				retries := sum(s.products[:60]) - sum(s.failed)
				if retries < tt.minimum || retries > tt.maximum {
					t.Errorf("retries in the outage = %d, want %d to %d", retries, tt.minimum, tt.maximum)
				}
				if got := sum(s.tokens); got != simReplicas {
					t.Errorf("token requests = %d, want %d", got, simReplicas)
				}
				s.checkRecovery(t, simOutage+2*time.Second)
				s.log(t)
			})
		})
	}
}

// simulation is the service in a simulated outage, and an http.RoundTripper.
type simulation struct {
	failToken, failProduct func() (*http.Response, error) // nil: no failures

	start time.Time

	mu               sync.Mutex // guards the fields below
	tokens, products []int      // requests in each second
	failed, ok       []int      // operations, by the second in which they began
}

// run runs the callers until the end of the simulation.
func (s *simulation) run(t *testing.T, p idverify.RetryPolicy) {
	t.Helper()
	s.start = time.Now()
	for _, counts := range []*[]int{&s.tokens, &s.products, &s.failed, &s.ok} {
		*counts = make([]int, 2*simDuration/time.Second)
	}
	var callers sync.WaitGroup
	for range simReplicas {
		c := clientOver(t, s, idverify.WithRetry(p))
		for i := range simCallers / simReplicas {
			callers.Go(func() {
				time.Sleep(time.Duration(i) * time.Second * simReplicas / simCallers)
				for time.Since(s.start) < simDuration {
					began := time.Now()
					_, err := c.PhoneChecks.Get(t.Context(), "a")
					if err == nil {
						s.count(s.ok, began)
					} else {
						s.count(s.failed, began)
					}
					time.Sleep(time.Second)
				}
			})
		}
	}
	callers.Wait()
}

func (s *simulation) count(counts []int, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts[at.Sub(s.start)/time.Second]++
}

func (s *simulation) RoundTrip(r *http.Request) (*http.Response, error) {
	now := time.Now()
	body, counts, fail := `{"check_id":"a","status":"PENDING"}`, s.products, s.failProduct
	if r.URL.Path == tokenPath {
		body, counts, fail = `{"access_token":"token-1","expires_in":3600}`, s.tokens, s.failToken
	}
	s.count(counts, now)
	time.Sleep(20 * time.Millisecond) // of the bubble's clock
	if fail != nil && now.Sub(s.start) < simOutage {
		return fail()
	}
	return response(200, []byte(body)), nil
}

// checkRecovery checks that every operation that began after the given time was successful.
func (s *simulation) checkRecovery(t *testing.T, after time.Duration) {
	t.Helper()
	if got := sum(s.failed[after/time.Second:]); got != 0 {
		t.Errorf("failed operations that began after %v = %d, want 0", after, got)
	}
	if got := sum(s.ok[after/time.Second:]); got < simCallers*3 {
		t.Errorf("successful operations after %v = %d, want at least %d", after, got, simCallers*3)
	}
}

// log logs the figures for docs/replicas.md.
func (s *simulation) log(t *testing.T) {
	t.Helper()
	for name, counts := range map[string][]int{"token": s.tokens, "product": s.products} {
		t.Logf("%s requests: %d in the outage, most in a second %d, then %.0f per second and at most %d in its second half; %d after it",
			name, sum(counts[:60]), slices.Max(counts[:60]), float64(sum(counts[30:60]))/30, slices.Max(counts[30:60]), sum(counts[60:]))
	}
	t.Logf("operations that began in the outage: %d failed, %d succeeded; after it: %d failed, %d succeeded",
		sum(s.failed[:60]), sum(s.ok[:60]), sum(s.failed[60:]), sum(s.ok[60:]))
}

func sum(counts []int) (total int) {
	for _, n := range counts {
		total += n
	}
	return total
}
