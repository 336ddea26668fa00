package idverify_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"mime/multipart"
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
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestClient_TokenRequest(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondWith(200, string(fixture(t, "phone_check.json"))))

	must(srv.client(t).PhoneChecks.Get(t.Context(), phoneCheckID))(t)

	r := srv.tokens()[0]
	if r.method != http.MethodPost {
		t.Errorf("method = %s, want POST", r.method)
	}
	if got, want := r.header.Get("Authorization"), "Basic "+base64.StdEncoding.EncodeToString([]byte("client-1:s3cret-of-client-1")); got != want {
		t.Errorf("Authorization = %q, want %q", got, want)
	}
	mediaType, params, err := mime.ParseMediaType(r.header.Get("Content-Type"))
	if err != nil || mediaType != "multipart/form-data" {
		t.Fatalf("Content-Type = %q, want multipart/form-data", r.header.Get("Content-Type"))
	}
	form := must(multipart.NewReader(bytes.NewReader(r.body), params["boundary"]).ReadForm(1 << 10))(t)
	if got := fmt.Sprint(form.Value); got != "map[grant_type:[client_credentials] scope:[phone_check]]" {
		t.Errorf("form = %s, want grant_type client_credentials and scope phone_check", got)
	}
	if got := srv.calls()[0].header.Get("Authorization"); got != "Bearer token-1" {
		t.Errorf("Authorization of the operation = %q, want the token", got)
	}
}

func TestClient_DoesNotRetryWrongSecret(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondWith(200, "{}"))
	srv.token = respondWith(401, string(fixture(t, "token_error.json")))

	_, err := srv.client(t).PhoneChecks.Create(t.Context(), createParams)

	if want := `idverify: get token for scope "phone_check": 401 invalid_client: the client ID or the client secret is wrong (check client ID and secret; project secrets cannot be reset: create new credentials if the secret is lost)`; err == nil || err.Error() != want {
		t.Errorf("error\n%v\nwant\n%s", err, want)
	}
	if strings.Contains(fmt.Sprintf("%+v %#v", err, err), "s3cret") {
		t.Error("the error contains the secret")
	}
	if n := len(srv.tokens()); n != 1 {
		t.Errorf("%d token requests, want 1: more could lock the account", n)
	}
	if n := len(srv.calls()); n != 0 {
		t.Errorf("%d requests sent without a token, want 0", n)
	}
}

func TestClient_SharesTokenFetch(t *testing.T) {
	t.Parallel()
	requested, release := make(chan struct{}), make(chan struct{})
	srv := newService(t, respondWith(200, string(fixture(t, "phone_check.json"))))
	srv.token = func(w http.ResponseWriter, _ *http.Request) {
		close(requested) // panics at a second token request
		<-release
		io.WriteString(w, `{"access_token":"late","expires_in":3600}`)
	}
	c := srv.client(t)

	ctx, cancel := context.WithCancel(t.Context())
	first, other := make(chan error, 1), make(chan error, 1)
	go func() { first <- errorOf(c.PhoneChecks.Get(ctx, phoneCheckID)) }()
	<-requested
	go func() { other <- errorOf(c.PhoneChecks.Get(t.Context(), phoneCheckID)) }()
	cancel()
	firstErr := <-first
	close(release)

	if !errors.Is(firstErr, context.Canceled) {
		t.Errorf("error of the canceled caller = %v, want context.Canceled", firstErr)
	}
	if err := <-other; err != nil {
		t.Errorf("error of the other caller = %v, want nil: the fetch must not use the canceled caller's context", err)
	}
}

func TestClient_CachesTokenPerScopes(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondWith(200, string(fixture(t, "phone_check.json"))))
	c := srv.client(t)
	ctx := t.Context()

	a := tokenFor(t, c, idverify.ScopeReachability)
	b := tokenFor(t, c, idverify.ScopePhoneCheck, idverify.ScopeReachability)
	if again := tokenFor(t, c, idverify.ScopeReachability, idverify.ScopePhoneCheck, idverify.ScopeReachability); again != b {
		t.Errorf("tokens for the same scopes in another order = %q and %q, want equal", b, again)
	}
	_, _ = c.PhoneChecks.Get(ctx, "a")
	_, _ = c.PhoneChecks.Get(ctx, "a")

	if a == b {
		t.Error("tokens for coverage, and for coverage and phone_check, are equal, want different tokens")
	}
	var scopes []string
	for _, r := range srv.tokens() {
		scopes = append(scopes, scopeOf(t, r))
	}
	if want := []string{"coverage", "coverage phone_check", "phone_check"}; !slices.Equal(scopes, want) {
		t.Errorf("scopes of the token requests = %q, want %q", scopes, want)
	}
}

func TestClient_TokenReturnsCopy(t *testing.T) {
	t.Parallel()
	srv := newService(t, nil)
	c := srv.client(t)

	token := must(c.Token(t.Context(), idverify.ScopeReachability))(t)
	token.AccessToken = "changed"

	if got := tokenFor(t, c, idverify.ScopeReachability); got != "token-1" {
		t.Errorf("cached token = %q, want token-1", got)
	}
}

func TestClient_RefreshesTokenInBackground(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := new(memoryService)
		e.delay = time.Second
		c := clientOver(t, e)
		tokenFor(t, c, idverify.ScopeReachability)

		time.Sleep(59*time.Minute - time.Nanosecond)
		tokenFor(t, c, idverify.ScopeReachability)
		synctest.Wait()
		early := e.count()
		time.Sleep(time.Nanosecond)
		for range 20 {
			if got := tokenFor(t, c, idverify.ScopeReachability); got != "token-1" {
				t.Fatalf("token during the refresh = %q, want the old one", got)
			}
		}
		time.Sleep(2 * time.Second)
		got := tokenFor(t, c, idverify.ScopeReachability)

		if early != 1 || got != "token-2" || e.count() != 2 {
			t.Errorf("%d token requests before the last minute, then token %q and %d requests; want 1, token-2 and 2", early, got, e.count())
		}
	})
}

func TestClient_DiscardsStaleTokenRefresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := new(memoryService)
		c := clientOver(t, e)
		tokenFor(t, c, idverify.ScopePhoneCheck)
		time.Sleep(59*time.Minute + time.Second)
		e.delay = 10 * time.Second
		tokenFor(t, c, idverify.ScopePhoneCheck) // starts a refresh
		synctest.Wait()
		e.delay = 0
		e.revoked = "token-1 token-2"
		start := time.Now()

		_, err := c.PhoneChecks.Get(t.Context(), "a") // 401 for token-1: fetches token-3
		took := time.Since(start)
		time.Sleep(time.Minute) // the refresh has finished

		if err != nil || took > 0 {
			t.Errorf("error = %[2]v after %[1]v, want a new token at once, not that of the refresh in progress", took, err)
		}
		if got := tokenFor(t, c, idverify.ScopePhoneCheck); got != "token-3" {
			t.Errorf("token = %q, want token-3: the token of a refresh started before the 401 was kept", got)
		}
	})
}

func TestClient_ReplacesTokenAfter401(t *testing.T) {
	t.Parallel()
	revoked := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer token-1" {
			respondWithProblem(401, "unauthorized", "token revoked")(w, r)
			return
		}
		w.WriteHeader(201)
		w.Write(fixture(t, "phone_check_created.json"))
	}
	srv := newService(t, revoked)

	check, err := srv.client(t).PhoneChecks.Create(t.Context(), createParams)

	if err != nil || check.Status != idverify.StatusAccepted {
		t.Fatalf("check = %v, error = %v, want an accepted check", check, err)
	}
	calls := srv.calls()
	if len(calls) != 2 || string(calls[0].body) != string(calls[1].body) || len(calls[1].body) == 0 {
		t.Errorf("%d requests with bodies %q, want the same body twice", len(calls), calls)
	}
	if n := len(srv.tokens()); n != 2 {
		t.Errorf("%d token requests, want 2", n)
	}
}

// A renewal can store a token that was issued before its credentials were deleted, while a call
// with the previous token is rejected.
func TestClient_ReplacesRenewedTokenAfter401(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := new(memoryService)
		c := clientOver(t, slowOperations(e, "token-1"))
		tokenFor(t, c, idverify.ScopePhoneCheck)
		time.Sleep(59*time.Minute + time.Second)
		failed := make(chan error, 1)
		go func() { failed <- errorOf(c.PhoneChecks.Get(t.Context(), "a")) }() // starts a renewal
		synctest.Wait()
		e.revoke("token-1 token-2")

		err := <-failed

		if err != nil {
			t.Errorf("error = %v, want nil: token-2 was fetched before the rejection of token-1", err)
		}
		if got := tokenFor(t, c, idverify.ScopePhoneCheck); got != "token-3" {
			t.Errorf("token = %q, want token-3", got)
		}
	})
}

func TestClient_KeepsTokenAfterLate401(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := new(memoryService)
		c := clientOver(t, slowOperations(e, "token-1"))
		tokenFor(t, c, idverify.ScopePhoneCheck)
		e.revoked = "token-1"
		const callers = 20
		errs := make(chan error, callers)

		for range callers { // rejected one second after another
			go func() { errs <- errorOf(c.PhoneChecks.Get(t.Context(), "a")) }()
			time.Sleep(time.Second)
		}
		for range callers {
			if err := <-errs; err != nil {
				t.Errorf("error = %v, want nil", err)
			}
		}

		if n := e.count(); n != 2 {
			t.Errorf("%d token requests, want 2: token-2 was fetched after the first rejection of token-1", n)
		}
	})
}

// outage is an http.RoundTripper whose token requests fail until up is set. Other requests are
// successful. It is for tests in a synctest bubble.
type outage struct {
	status     int           // of failed token requests; 0 means that the connection fails
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
	return clientOver(t, o, append(opts, idverify.WithRetry(p))...)
}

// The pauses double from 1 s to MaxWait. Their upper half is random. A success resets them.
func TestClient_TokenPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			maxWait time.Duration
			want    []int // longest pauses in seconds; 0 means MaxWait
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
		deadline time.Duration // of the caller; 0 means none
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
				_, first := c.PhoneChecks.Get(withDeadline(t, time.Millisecond), "a")
				ctx := withDeadline(t, tt.deadline)

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
				c := o.client(t, idverify.RetryPolicy{MaxAttempts: 2, MaxWait: tt.maxWait})

				_, _ = c.Token(t.Context(), idverify.ScopeReachability)
				if took := time.Since(bubbleStart); took > 0 && tt.retryAfter > max(tt.maxWait, 10*time.Second) {
					t.Errorf("error after %v, want it at once: the service asks to wait longer than MaxWait", took)
				}
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
		_, err = c.Token(t.Context(), idverify.ScopeReachability)
		if took := time.Since(bubbleStart); err != nil || took == 0 {
			t.Errorf("error = %v after %v, want nil after the pause: another scope's token does not end it", err, took)
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
		c := clientOver(t, roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			if revoked.Load() && r.Header.Get("Authorization") == "Bearer token-1" {
				return response(401, nil), nil
			}
			return o.RoundTrip(r)
		}))
		must(c.PhoneChecks.Get(t.Context(), "a"))(t)
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

// Calls that fail because of a pause are reported although they send nothing.
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

// If the token is not valid in a header, the error must not suggest that the operation was sent and
// charged.
func TestClient_RejectsInvalidToken(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"token\r\nX-Injected: 1", "token\n", "\rtoken", "to ken", "token ", "to\x00ken", "to\tken", "tok\u00e9n", "token\x7f", "\u2028token"} {
		srv := newService(t, respondWith(201, `{"check_id":"a","status":"ACCEPTED"}`))
		body := must(json.Marshal(map[string]any{"access_token": token, "expires_in": 3600}))(t)
		srv.token = withRequestID("req-7", respondWith(200, string(body)))

		_, err := srv.client(t).PhoneChecks.Create(t.Context(), createParams)

		e, ok := errors.AsType[*idverify.DecodeError](err)
		if !ok || e.RequestID != "req-7" || e.Operation != "token.create" || !strings.Contains(e.Reason, "access_token") {
			t.Errorf("%q: error = %v, want a *DecodeError of the token request", token, err)
		}
		if text := fmt.Sprint(err); strings.Contains(text, "charged") || strings.Contains(text, "unknown") || strings.Contains(text, "ken\"") || strings.Contains(text, "Injected") {
			t.Errorf("%q: error = %q, want no token and no unknown outcome: nothing was sent", token, text)
		}
		if calls, tokens := len(srv.calls()), len(srv.tokens()); calls != 0 || tokens != 1 {
			t.Errorf("%q: requests = %d, token requests = %d, want 0 and 1", token, calls, tokens)
		}
	}
}

func TestClient_TokenCharacters(t *testing.T) {
	t.Parallel()
	const token = "!\"#$%&'()*+,-./09:;<=>?@AZ[\\]^_`az{|}~"
	srv := newService(t, respondWith(200, `{"check_id":"a","status":"ACCEPTED"}`))
	srv.token = func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{"access_token": token})
	}

	must(srv.client(t).PhoneChecks.Get(t.Context(), "a"))(t)

	if got := srv.calls()[0].header.Get("Authorization"); got != "Bearer "+token {
		t.Errorf("Authorization = %q, want the token %q", got, token)
	}
}

// The client refreshes a short-lived token in the last tenth of its lifetime. After a failed
// refresh it pauses for five seconds.
func TestClient_RefreshesShortLivedToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var requests []time.Duration
		start := time.Now()
		failing := false
		c := clientOver(t, roundTripperFunc(func(*http.Request) (*http.Response, error) {
			requests = append(requests, time.Since(start))
			if failing {
				return response(503, nil), nil
			}
			return response(200, fmt.Appendf(nil, `{"access_token":"token-%d","expires_in":300}`, len(requests))), nil
		}), withoutRetries)
		use := func(at time.Duration, want string) {
			t.Helper()
			time.Sleep(at - time.Since(start))
			if got := tokenFor(t, c, idverify.ScopeReachability); got != want {
				t.Errorf("at %v: token %q, want %q", at, got, want)
			}
			synctest.Wait()
		}

		use(0, "token-1")
		use(270*time.Second-1, "token-1")
		failing = true
		use(270*time.Second, "token-1") // the refresh fails
		use(275*time.Second-1, "token-1")
		failing = false
		use(275*time.Second, "token-1") // the refresh succeeds
		use(276*time.Second, "token-3")

		if want := []time.Duration{0, 270 * time.Second, 275 * time.Second}; !slices.Equal(requests, want) {
			t.Errorf("token requests at %v, want %v", requests, want)
		}
	})
}

func TestRateLimit_Reset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := time.Now() // 2000-01-01 in a synctest bubble
		for remaining, tt := range []struct {
			reset string
			want  time.Time
		}{
			{"0", now},
			{"30", now.Add(30 * time.Second)},
			{"3600", now.Add(time.Hour)},
			{"31622400", now.Add(366 * 24 * time.Hour)},
			{"31622401", time.Unix(31622401, 0)},
			{fmt.Sprint(now.Add(time.Hour).Unix()), now.Add(time.Hour)},
			{fmt.Sprint(now.Add(-time.Hour).Unix()), now.Add(-time.Hour)},
			{"999999999", time.Unix(999999999, 0)},
			{"1000000000", time.Unix(1000000000, 0)},
			{"1767323045", time.Unix(1767323045, 0)},
			{"-1", time.Time{}},
			{"soon", time.Time{}},
			{"", time.Time{}},
			{"99999999999999999999", time.Time{}},
		} {
			c := newTransportClient(t, always(403, nil, "X-RateLimit-Limit", "10", "X-RateLimit-Remaining", fmt.Sprint(remaining), "X-RateLimit-Reset", tt.reset))

			_, err := c.PhoneChecks.Get(t.Context(), "a")

			e, ok := errors.AsType[*idverify.Error](err)
			if !ok || e.RateLimit == nil || e.RateLimit.Limit != 10 || e.RateLimit.Remaining != remaining || !e.RateLimit.Reset.Equal(tt.want) {
				t.Errorf("X-RateLimit-Reset %q at %v: %+v, want %v", tt.reset, now, e.RateLimit, tt.want)
			}
		}
	})
}

func TestRateLimit_Malformed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, limit, remaining string }{
		{"no limit", "", "7"},
		{"malformed limit", "10, 10;w=60", "7"},
		{"no remaining", "10", ""},
		{"malformed remaining", "10", "7.5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			log := new(attemptLog)
			c := newTransportClient(t, always(403, nil, "X-RateLimit-Limit", tt.limit, "X-RateLimit-Remaining", tt.remaining), log.option())

			_, err := c.PhoneChecks.Get(t.Context(), "a")

			e, ok := errors.AsType[*idverify.Error](err)
			if !ok || e.RateLimit != nil {
				t.Errorf("error = %#v, want an *Error without RateLimit", err)
			}
			for _, a := range log.all(t) {
				if a.RateLimit != nil {
					t.Errorf("rate limit of %s = %+v, want nil", a.Operation, *a.RateLimit)
				}
			}
		})
	}
}

func TestClient_TokenErrorsNameScope(t *testing.T) {
	t.Parallel()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	srv := newService(t, nil)
	_, err := srv.client(t).Token(canceled, idverify.ScopeReachability, idverify.ScopePhoneCheck)
	if want := `idverify: get token for scope "coverage phone_check": context canceled`; err == nil || err.Error() != want || !errors.Is(err, context.Canceled) {
		t.Errorf("canceled context: error = %v, want %s", err, want)
	}

	srv.token = respondTruncated(200, `{"access_token":"secret-token`)
	_, err = srv.client(t, withoutRetries).Token(t.Context(), idverify.ScopeReachability)
	if want := `idverify: get token for scope "coverage": truncated response`; err == nil || err.Error() != want {
		t.Errorf("truncated response: error = %v, want %s", err, want)
	}

	//nolint:staticcheck // users make this mistake
	if _, err := srv.client(t).Token(nil, idverify.ScopeReachability); !errors.Is(err, idverify.ErrBadRequest) {
		t.Errorf("nil context: error = %v, want ErrBadRequest", err)
	}
	for scope, valid := range map[idverify.Scope]bool{"": false, " ": false, "a b": false, "a\n": false, "a\x7f": false, "é": false, "!": true, "~": true, "a:b/c": true} {
		srv := newService(t, nil)
		_, err := srv.client(t).Token(t.Context(), scope)
		if valid != (err == nil) || !valid && (!errors.Is(err, idverify.ErrBadRequest) || len(srv.tokens()) > 0) {
			t.Errorf("scope %q: error = %v after %d requests, want success: %v", scope, err, len(srv.tokens()), valid)
		}
	}
}

// The client reads at most 1 MiB of a token response.
func TestClient_LimitsTokenBody(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1<<20 - 1, 1 << 20, 1<<20 + 1} {
		srv := newService(t, nil)
		body, _ := json.Marshal(map[string]string{"access_token": "a", "new": ""})
		padded := strings.Replace(string(body), `""`, `"`+strings.Repeat("a", size-len(body))+`"`, 1)
		srv.token = respondWith(200, padded)

		_, err := srv.client(t).Token(t.Context(), idverify.ScopeReachability)

		if (err == nil) != (size <= 1<<20) {
			t.Errorf("token response of %d bytes: error = %v, want success: %v", len(padded), err, size <= 1<<20)
		}
	}
}

func TestClient_CheckCredentials(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	c := srv.Client()

	for range 2 { // the second call finds the tokens in the cache
		if err := c.CheckCredentials(t.Context()); err != nil {
			t.Errorf("error = %v, want nil", err)
		}
	}
	checkTokens := countRequests(srv, "token.create")
	_, listErr := c.SIMChecks.List(t.Context(), idverify.ListOptions{})
	err := c.CheckCredentials(t.Context(), idverify.ScopePhoneCheck)

	if got := countRequests(srv, "token.create"); checkTokens != 3 || got != 3 || listErr != nil || err != nil {
		t.Errorf("%d token requests, then %d, errors = %v and %v, want 3 for the three checks, which operations use", checkTokens, got, listErr, err)
	}
	for _, tt := range []struct {
		name        string
		credentials idverify.Credentials
		want        error
		code, text  string
	}{
		{"unknown", idverify.Credentials{ClientID: "unknown", ClientSecret: idverify.NewSecret("secret")}, idverify.ErrUnauthorized, "invalid_client", "client ID and secret"},
		{"wrong secret", idverify.Credentials{ClientID: srv.Credentials().ClientID, ClientSecret: idverify.NewSecret("wrong")}, idverify.ErrUnauthorized, "invalid_client", "client ID and secret"},
		{"workspace", srv.ConsoleCredentials(), idverify.ErrForbidden, "invalid_scope", "NewConsole"},
	} {
		wrong := must(idverify.NewClient(srv.URL(), tt.credentials, idverify.WithHTTPClient(srv.HTTPClient())))(t)
		for _, err := range []error{wrong.CheckCredentials(t.Context()), errorOf(wrong.PhoneChecks.Get(t.Context(), "a"))} {
			if e, ok := errors.AsType[*idverify.TokenError](err); !ok || e.Code != tt.code || !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%s credentials: error = %v, want %s with the text %q", tt.name, err, tt.code, tt.text)
			}
		}
	}
}

// A background refresh that fails has no caller to return its error to, so the client logs it.
func TestWithLogger_FailedTokenRefresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := new(memoryService)
		var log bytes.Buffer
		c := clientOver(t, e, idverify.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		tokenFor(t, c, idverify.ScopeReachability)
		time.Sleep(59*time.Minute + time.Second) // until the refresh is due
		e.reject = func() *http.Response {
			return response(http.StatusUnauthorized, []byte(`{"error":"invalid_client"}`))
		}

		for range 20 {
			tokenFor(t, c, idverify.ScopeReachability)
			synctest.Wait()
		}

		got := log.String()
		if strings.Count(got, "\n") != 1 {
			t.Errorf("log =\n%swant 1 record for 1 failed refresh", got)
		}
		wantContains(t, "record", got, "level=WARN", `msg="idverify: token not renewed"`, "operation=token.create", "scope=coverage", "expires=2000-01-01T01:00:00.000Z", "invalid_client")

		log.Reset()
		time.Sleep(time.Hour) // until the token has expired
		if _, err := c.Token(t.Context(), idverify.ScopeReachability); !errors.Is(err, idverify.ErrUnauthorized) {
			t.Errorf("error = %v, want ErrUnauthorized after the token has expired", err)
		}
		synctest.Wait() // Token may return before the record is written
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `msg="idverify: token not obtained"`) {
			t.Errorf("log =\n%swant 1 record: no token is left", got)
		}
	})
}

// Operations do not pause after the credentials were rejected, so each one causes a token request.
func TestWithLogger_RejectedCredentials(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := new(memoryService)
		var log tooltest.Buffer
		c := clientOver(t, e, idverify.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		must(c.PhoneChecks.Get(t.Context(), "a"))(t)
		e.revoke("token-1")
		e.reject = func() *http.Response {
			return response(http.StatusUnauthorized, []byte(`{"error":"invalid_client","error_description":"wrong secret `+credentials.ClientSecret.Reveal()+`"}`))
		}
		get := func() {
			for range 20 {
				if _, err := c.PhoneChecks.Get(t.Context(), "a"); !errors.Is(err, idverify.ErrUnauthorized) {
					t.Errorf("error = %v, want ErrUnauthorized", err)
				}
			}
		}

		get()
		synctest.Wait() // an operation may return before the record is written
		_, _ = c.Token(t.Context(), idverify.ScopeReachability)
		time.Sleep(time.Minute)
		get()
		synctest.Wait()

		records := slices.Collect(strings.Lines(log.String()))
		if len(records) != 3 {
			t.Fatalf("log =\n%swant a record a minute for one scope, and one for the other", log.String())
		}
		for n, scope := range []string{"phone_check", "coverage", "phone_check"} {
			wantContains(t, "record", records[n], "level=WARN", `msg="idverify: token not obtained"`, "operation=token.create", "scope="+scope, "401 invalid_client")
			if strings.Contains(records[n], credentials.ClientSecret.Reveal()) {
				t.Errorf("record = %s, want it without the secret", records[n])
			}
		}
	})
}

func TestClient_TokenRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		var log tooltest.Buffer
		c := clientOver(t, roundTripperFunc(func(*http.Request) (*http.Response, error) {
			requests++
			return response(http.StatusServiceUnavailable, nil), nil
		}), idverify.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))

		_, err := c.Token(t.Context(), idverify.ScopeReachability)

		if e, ok := errors.AsType[*idverify.TokenError](err); !ok || e.Status != http.StatusServiceUnavailable || e.Scope != "coverage" || requests != 4 {
			t.Errorf("error = %v after %d requests, want a *TokenError with status 503 after 4", err, requests)
		}
		synctest.Wait()
		var records, pauses []string
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, `msg="idverify: token requests paused"`) {
				pauses = append(pauses, line)
			} else {
				records = append(records, line)
			}
		}
		if len(records) != 3 || len(pauses) != 4 {
			t.Fatalf("log =\n%s\nwant a record for each of 3 retries and 4 pauses", log.String())
		}
		wantContains(t, "record", pauses[0], "level=WARN", "operation=token.create", "scope=coverage", "wait=", "503")
		wantContains(t, "record", records[0], "level=WARN", `msg="idverify: retry"`, "operation=token.create", "attempt=1", "wait=", "503", "scope=coverage")

		// The context ends while the client waits for the next attempt.
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		requests = 0

		_, err = c.Token(ctx, idverify.ScopePhoneCheck) // coverage is paused

		if want := `idverify: get token for scope "phone_check": context canceled`; !errors.Is(err, context.Canceled) || err.Error() != want || requests != 1 {
			t.Errorf("error = %v after %d requests, want %s after 1", err, requests, want)
		}
	})
}

func TestClient_TokenResponse(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, tt := range []struct {
		expiresIn string
		want      int64         // seconds
		used      time.Duration // still used after this time
	}{
		{`3600`, 3600, 58 * time.Minute},
		{`"3600"`, 3600, 58 * time.Minute},
		{`1`, 1, 800 * time.Millisecond},
		{`1.5`, 1, 800 * time.Millisecond},
		{`null`, 300, 4 * time.Minute},
		{`0`, 300, 4 * time.Minute},
		{`-1`, 300, 4 * time.Minute},
		{`1e300`, 30 * 24 * 3600, 29 * day},
		{`2592000`, 2592000, 29 * day},
		{`2592001`, 2592000, 29 * day},
	} {
		t.Run(tt.expiresIn, func(t *testing.T) {
			t.Parallel()
			var grant atomic.Int32
			srv := newService(t, nil)
			srv.token = func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"access_token":"token-%d","token_type":"Bearer","expires_in":%s}`, grant.Add(1), tt.expiresIn)
			}
			clock := newClock()
			c := srv.client(t, idverify.WithClock(clock.now))

			token := must(c.Token(t.Context(), idverify.ScopeReachability))(t)

			left := token.Expiry.Sub(clock.now())
			if token.TokenType != "Bearer" || token.ExpiresIn != tt.want || left < time.Duration(tt.want)*time.Second || left >= time.Duration(tt.want+1)*time.Second {
				t.Errorf("TokenType = %q, ExpiresIn = %d, Expiry in %v, want Bearer and %d seconds", token.TokenType, token.ExpiresIn, left, tt.want)
			}
			if r := srv.tokens()[0]; r.header.Get("Accept") != "application/json" || !strings.HasPrefix(r.header.Get("User-Agent"), "idverify-go") {
				t.Errorf("token request header = %v, want Accept and User-Agent", r.header)
			}
			clock.advance(tt.used)
			if got := tokenFor(t, c, idverify.ScopeReachability); got != "token-1" {
				t.Errorf("token after %v = %q, want still token-1", tt.used, got)
			}
			clock.advance(left - tt.used)
			if got := tokenFor(t, c, idverify.ScopeReachability); got == "token-1" {
				t.Errorf("expired token still used after %v, want a new one", left)
			}
		})
	}
	for _, expiresIn := range []string{`"the-token"`, `""`, `[]`, `true`} {
		srv := newService(t, nil)
		srv.token = respondWith(200, `{"access_token":"the-token-itself","expires_in":`+expiresIn+`}`)

		_, err := srv.client(t).Token(t.Context(), idverify.ScopeReachability)

		if _, ok := errors.AsType[*idverify.DecodeError](err); !ok || strings.Contains(err.Error(), "the-token") {
			t.Errorf("expires_in %s: error = %v, want a *DecodeError without the token", expiresIn, err)
		}
	}
}
