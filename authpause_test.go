package idverify_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
)

// outage is an http.RoundTripper whose token requests fail until up is set. Other requests are
// successful. It is for tests in a synctest bubble.
type outage struct {
	status     int           // of failed token requests; 0: the connection fails
	retryAfter time.Duration // of failed token requests
	latency    time.Duration // of token requests

	mu       sync.Mutex // guards the fields below
	up       bool
	requests []time.Duration // since the start of the bubble, of token requests
	others   int             // other requests
}

func (o *outage) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path != tokenPath {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.others++
		return response(200, []byte(`{"check_id":"a","status":"PENDING"}`)), nil
	}
	o.mu.Lock()
	o.requests = append(o.requests, time.Since(bubbleStart))
	n := len(o.requests)
	o.mu.Unlock()
	time.Sleep(o.latency) // of the bubble's clock
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.up:
		return response(200, fmt.Appendf(nil, `{"access_token":"token-%d","expires_in":3600}`, n)), nil
	case o.status == 0:
		return nil, errors.New("connection reset by peer")
	}
	resp := response(o.status, nil)
	resp.Header.Set("X-Request-Id", fmt.Sprintf("token-request-%d", n))
	if o.retryAfter > 0 {
		resp.Header.Set("Retry-After", strconv.Itoa(int(o.retryAfter/time.Second)))
	}
	return resp, nil
}

// bubbleStart is the time at which the clock of each bubble starts.
var bubbleStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// fail starts the outage.
func (o *outage) fail() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.up = false
}

// end ends the outage.
func (o *outage) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.up = true
}

// times returns the times of the token requests.
func (o *outage) times() []time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]time.Duration(nil), o.requests...)
}

func (o *outage) client(t testing.TB, p idverify.RetryPolicy, opts ...idverify.Option) *idverify.Client {
	t.Helper()
	return newTransportClient(t, nil, append(opts, idverify.WithHTTPClient(&http.Client{Transport: o}), idverify.WithRetry(p))...)
}

// The pauses double from 1 s to MaxWait. Their upper half is random. A success resets them.
func TestClient_TokenPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			maxWait time.Duration
			want    []int // longest pauses in seconds; 0: MaxWait
		}{
			{0, []int{1, 2, 4, 8, 10, 10, 1}},
			{3 * time.Second, []int{1, 2, 3, 3, 3, 3, 1}},
			{500 * time.Millisecond, []int{0, 0, 0, 0, 0, 0, 0}},
		} {
			o := &outage{status: 503}
			c := o.client(t, idverify.RetryPolicy{MaxAttempts: 7, MaxWait: tt.maxWait})

			_, first := c.PhoneChecks.Get(t.Context(), "a")
			o.end()
			time.Sleep(tt.maxWait + 10*time.Second)
			_, recovered := c.PhoneChecks.Get(t.Context(), "a")
			o.up = false
			time.Sleep(2 * time.Hour) // until the token has expired
			_, last := c.PhoneChecks.Get(t.Context(), "a")

			if first == nil || recovered != nil || last == nil {
				t.Errorf("errors = %v, %v, %v, want only the second to be nil", first, recovered, last)
			}
			times := o.times()
			if len(times) != 7+1+7 {
				t.Fatalf("token requests = %d, want 7 failed, 1 successful and 7 failed", len(times))
			}
			gaps := append(gapsOf(times[:7]), gapsOf(times[8:])[0])
			for i, got := range gaps {
				most := max(time.Duration(tt.want[i])*time.Second, min(tt.maxWait, time.Second))
				if got < most/2 || got > most {
					t.Errorf("MaxWait %v: pause %d = %v, want %v to %v", tt.maxWait, i+1, got, most/2, most)
				}
			}
		}
	})
}

// gapsOf returns the differences between consecutive times.
func gapsOf(times []time.Duration) (gaps []time.Duration) {
	for i := range times[1:] {
		gaps = append(gaps, times[i+1]-times[i])
	}
	return gaps
}

// Callers that arrive during a pause wait for the next token request and get its result.
func TestClient_TokenPauseIsShared(t *testing.T) {
	t.Parallel()
	for _, up := range []bool{false, true} {
		t.Run(fmt.Sprint("next request succeeds: ", up), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const callers = 1000
				o := &outage{status: 503, latency: 20 * time.Millisecond}
				c := o.client(t, idverify.RetryPolicy{MaxAttempts: 1})
				if _, err := c.PhoneChecks.Get(t.Context(), "a"); err == nil {
					t.Fatal("error = nil, want status 503")
				}
				if up {
					o.end()
				}
				var i atomic.Int64

				for err := range concurrently(callers, func() error {
					// Half of the pause is not random, so all callers arrive before its end.
					time.Sleep(time.Duration(i.Add(1)) * 400 * time.Microsecond)
					return errorOf(c.PhoneChecks.Get(t.Context(), "a"))
				}) {
					if e, ok := errors.AsType[*idverify.TokenError](err); up && err != nil || !up && (!ok || e.RequestID != "token-request-2") {
						t.Errorf("error = %v, want the result of the second token request", err)
					}
				}

				if got := len(o.times()); got != 2 {
					t.Errorf("token requests = %d, want 2", got)
				}
			})
		})
	}
}

func TestClient_TokenPauseFailsFast(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		outage   *outage
		deadline time.Duration // of the caller; 0: none
		want     string
	}{
		{"deadline", &outage{status: 503}, 400 * time.Millisecond, "503 Service Unavailable: empty body (token requests are paused after a failure; retry after 1s) [request token-request-1]"},
		{"deadline, connection lost", &outage{}, 400 * time.Millisecond, "connection reset by peer (token requests are paused after a failure; retry after 1s)"},
		{"Retry-After longer than the deadline", &outage{status: 429, retryAfter: 8 * time.Second}, 7 * time.Second, "(token requests are paused after a failure; retry after 8s) [request token-request-1]"},
		{"Retry-After longer than MaxWait", &outage{status: 503, retryAfter: 11 * time.Second}, 0, "(token requests are paused after a failure; retry after 11s) [request token-request-1]"},
		{"Retry-After of an hour", &outage{status: 503, retryAfter: time.Hour}, 0, "(token requests are paused after a failure; retry after 1m0s) [request token-request-1]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := tt.outage.client(t, idverify.RetryPolicy{})
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				_, first := c.PhoneChecks.Get(ctx, "a")
				ctx = t.Context()
				if tt.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.deadline)
					defer cancel()
				}

				_, err := c.PhoneChecks.Create(ctx, createParams)
				_, tokenErr := c.Token(ctx, idverify.ScopePhoneCheck)

				if errors.Is(first, context.DeadlineExceeded) {
					t.Errorf("error of the first caller = %v, want that of the token request", first)
				}
				if took := time.Since(bubbleStart); took > 0 || len(tt.outage.times()) != 1 {
					t.Errorf("took %v and %d token requests, want 0 and 1", took, len(tt.outage.times()))
				}
				for _, err := range []error{err, tokenErr} {
					if !strings.HasSuffix(fmt.Sprint(err), tt.want) || errors.Is(err, idverify.ErrOutcomeUnknown) {
						t.Errorf("error = %v, want it to end with %s", err, tt.want)
					}
				}
				if _, ok := errors.AsType[*idverify.TokenError](err); ok != (tt.outage.status > 0) {
					t.Errorf("error = %#v, is a *TokenError = %v, want %v", err, ok, tt.outage.status > 0)
				}
			})
		})
	}
}

// A Retry-After header sets the minimum of the pause, up to a minute.
func TestClient_TokenPauseRetryAfter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ retryAfter, maxWait, want time.Duration }{
		{7 * time.Second, 0, 7 * time.Second},
		{time.Minute, 0, time.Minute},
		{time.Hour, 0, time.Minute},
		{9e9 * time.Second, 0, time.Minute},
		{time.Hour, 2 * time.Minute, 2 * time.Minute},
	} {
		t.Run(tt.retryAfter.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := &outage{status: 503, retryAfter: tt.retryAfter}
				c := o.client(t, idverify.RetryPolicy{MaxAttempts: 1, MaxWait: tt.maxWait})

				for len(o.times()) < 2 {
					_, _ = c.Token(t.Context(), idverify.ScopeReachability)
					time.Sleep(100 * time.Millisecond)
				}

				if got := gapsOf(o.times())[0]; got < tt.want || got > tt.want+100*time.Millisecond {
					t.Errorf("pause = %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// Responses that a later request cannot change must reach each caller at once.
func TestClient_PermanentTokenErrors(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 401, 403, 404, 302, 501} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := &outage{status: status, retryAfter: 5 * time.Second}
				c := o.client(t, idverify.RetryPolicy{})

				for n := range 3 {
					_, err := c.PhoneChecks.Get(t.Context(), "a")

					if e, ok := errors.AsType[*idverify.TokenError](err); !ok || e.RequestID != fmt.Sprintf("token-request-%d", n+1) {
						t.Errorf("error = %v, want that of token request %d", err, n+1)
					}
				}

				if took := time.Since(bubbleStart); took > 0 {
					t.Errorf("took %v, want no pause", took)
				}
			})
		})
	}
}

func TestClient_CancelEndsTokenPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &outage{status: 503}
		c := o.client(t, idverify.RetryPolicy{MaxAttempts: 1})
		_, _ = c.PhoneChecks.Get(t.Context(), "a")
		o.end()
		other := make(chan error)
		go func() { other <- errorOf(c.PhoneChecks.Get(t.Context(), "a")) }()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(300*time.Millisecond, cancel)

		_, err := c.PhoneChecks.Create(ctx, createParams)

		if want := `idverify: get token for scope "phone_check": context canceled`; !errors.Is(err, context.Canceled) || err.Error() != want {
			t.Errorf("error = %v, want %s", err, want)
		}
		if took := time.Since(bubbleStart); took != 300*time.Millisecond {
			t.Errorf("took %v, want 300ms", took)
		}
		if err := <-other; err != nil {
			t.Errorf("error of the other caller = %v, want nil", err)
		}
	})
}

// The pause is between attempts, so a short AttemptTimeout does not end it.
func TestRetryPolicy_AttemptTimeoutInPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &outage{status: 503}
		c := o.client(t, idverify.RetryPolicy{AttemptTimeout: 100 * time.Millisecond})
		time.AfterFunc(2*time.Second, o.end)

		_, err := c.PhoneChecks.Create(t.Context(), createParams)

		if err != nil || o.others != 1 {
			t.Errorf("error = %v after %d creates, want nil after 1", err, o.others)
		}
	})
}

// A pause for one set of scopes does not delay another.
func TestClient_TokenPausePerScopes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &outage{status: 503}
		c := o.client(t, idverify.RetryPolicy{MaxAttempts: 1})
		_, _ = c.Token(t.Context(), idverify.ScopeReachability)
		o.end()

		_, err := c.Token(t.Context(), idverify.ScopePhoneCheck)

		if took := time.Since(bubbleStart); err != nil || took > 0 {
			t.Errorf("error = %v after %v, want nil at once", err, took)
		}
	})
}

// After 401, the pause applies to the request for a new token too.
func TestClient_TokenPauseAfter401(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &outage{status: 503}
		o.end()
		var revoked atomic.Bool
		c := newTransportClient(t, nil, idverify.WithRetry(idverify.RetryPolicy{}), idverify.WithHTTPClient(&http.Client{Transport: roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			if revoked.Load() && r.Header.Get("Authorization") == "Bearer token-1" {
				return response(401, nil), nil
			}
			return o.RoundTrip(r)
		})}))
		if _, err := c.PhoneChecks.Get(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		revoked.Store(true)
		o.up = false
		time.AfterFunc(2*time.Second, o.end)

		for err := range concurrently(100, func() error { return errorOf(c.PhoneChecks.Get(t.Context(), "a")) }) {
			if err != nil {
				t.Errorf("error = %v, want nil after the outage", err)
			}
		}

		if got := len(o.times()); got < 4 || got > 5 {
			t.Errorf("token requests = %d, want 1 before the outage and 3 or 4 with pauses of up to 1, 2 and 4 s", got)
		}
	})
}

func TestWithObserver_TokenPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &outage{status: 503}
		log := new(attemptLog)
		c := o.client(t, idverify.RetryPolicy{}, log.option())
		time.AfterFunc(2*time.Second, o.end)

		_, err := c.PhoneChecks.Get(t.Context(), "a")

		attempts := slices.DeleteFunc(log.all(t), func(a idverify.Attempt) bool { return a.Operation != "token.create" })
		if n := len(attempts); err != nil || n < 3 || n > 4 {
			t.Fatalf("error = %v after %d token requests, want nil after 3 or 4", err, n)
		}
		gaps := gapsOf(o.times())
		for i, a := range attempts {
			last := i == len(attempts)-1
			if a.Number != i+1 || a.Retry == last || (a.Err == nil) != last || !last && a.Wait != gaps[i] || last && a.Wait != 0 {
				t.Errorf("attempt %d = %+v, want number %d, and a pause unless it was successful", i+1, a, i+1)
			}
		}
	})
}

// A failed renewal delays nobody, not even after the token has expired.
func TestClient_NoTokenPauseAfterRenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &outage{status: 503, up: true}
		c := o.client(t, idverify.RetryPolicy{})
		tokenFor(t, c, idverify.ScopeReachability)
		o.up = false
		time.Sleep(time.Hour - 200*time.Millisecond)
		tokenFor(t, c, idverify.ScopeReachability) // its renewal fails
		synctest.Wait()
		o.end()
		time.Sleep(200 * time.Millisecond)
		start := time.Now()

		token := tokenFor(t, c, idverify.ScopeReachability)

		if took := time.Since(start); took > 0 || token != "token-3" {
			t.Errorf("token = %q after %v, want token-3 at once", token, took)
		}
	})
}

// Calls that fail because of a pause are reported although they send nothing.
func TestClient_RenewalHonorsRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &outage{status: http.StatusTooManyRequests, retryAfter: 50 * time.Second, up: true}
		c := o.client(t, idverify.RetryPolicy{})

		var failed error
		for range 3599 { // seconds, until the token expires
			_, err := c.PhoneChecks.Get(t.Context(), "a")
			failed = errors.Join(failed, err)
			o.fail()
			time.Sleep(time.Second)
		}

		if failed != nil {
			t.Errorf("error = %v, want nil: the token is valid", failed)
		}
		if got := len(o.times()); got != 3 {
			t.Errorf("token requests = %d, want 3: the first, the renewal and one after 50 s", got)
		}
	})
}

func TestWithObserver_FailsInTokenPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, log := &outage{status: 503, retryAfter: time.Minute}, new(attemptLog)
		c := o.client(t, idverify.RetryPolicy{}, log.option())
		_, _ = c.PhoneChecks.Get(t.Context(), "a")
		before := len(log.all(t))

		_, createErr := c.PhoneChecks.Create(t.Context(), createParams)
		_, tokenErr := c.Token(t.Context(), idverify.ScopePhoneCheck)

		attempts := log.all(t)[before:]
		if len(attempts) != 2 || len(o.times()) != 1 {
			t.Fatalf("attempts = %+v after %d token requests, want 2 after 1", attempts, len(o.times()))
		}
		for i, want := range []idverify.Attempt{
			{Operation: "phone_check.create", Number: 1, Err: createErr},
			{Operation: "token.create", Err: tokenErr},
		} {
			if got := attempts[i]; got.Err == nil || got.Err != want.Err || got.Operation != want.Operation || got.Number != want.Number || got.Status != 0 || got.Retry || got.Wait != 0 {
				t.Errorf("attempt = %+v, want %+v", got, want)
			}
		}
	})
}
