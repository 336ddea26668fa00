package idverify_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// attemptLog records what the client reports to its observer. Operations do not wait for the end of
// a token request. The log makes them wait, unless they were canceled, so that the order of the
// attempts is that of the requests.
type attemptLog struct {
	mu       sync.Mutex // guards the fields below
	begun    int
	tokens   int // token requests that have not ended
	attempts []idverify.Attempt
	ended    *sync.Cond
}

func (l *attemptLog) option() idverify.Option {
	l.ended = sync.NewCond(&l.mu)
	return idverify.WithObserver(func(ctx context.Context, operation string) (context.Context, func(idverify.Attempt)) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.begun++
		if operation == "token.create" {
			l.tokens++
		}
		return ctx, l.add
	})
}

func (l *attemptLog) add(a idverify.Attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.ended.Broadcast()
	canceled := errors.Is(a.Err, context.Canceled) || errors.Is(a.Err, context.DeadlineExceeded)
	switch {
	case a.Operation == "token.create":
		l.tokens--
	case !canceled:
		for l.tokens > 0 {
			l.ended.Wait()
		}
	}
	l.attempts = append(l.attempts, a)
}

// all returns the attempts after each attempt that began has ended. It fails the test if one has
// ended twice.
func (l *attemptLog) all(t *testing.T) []idverify.Attempt {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.attempts) < l.begun {
		l.ended.Wait()
	}
	if l.begun != len(l.attempts) {
		t.Errorf("attempts begun = %d, ended = %d, want equal numbers", l.begun, len(l.attempts))
	}
	return slices.Clone(l.attempts)
}

// lines describes each attempt in a line, for example "phone_check.get 1: 503, error, retry".
func (l *attemptLog) lines(t *testing.T) []string {
	t.Helper()
	var lines []string
	for _, a := range l.all(t) {
		line := fmt.Sprintf("%s %d: %d", a.Operation, a.Number, a.Status)
		if a.Err != nil {
			line += ", error"
		}
		if a.Retry {
			line += ", retry"
		}
		lines = append(lines, line)
	}
	return lines
}

func TestWithObserver_Retries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := new(attemptLog)
		responses := []*http.Response{
			withHeader(response(503, nil), "X-Request-Id", "request-1", "Retry-After", "3"),
			withHeader(response(503, nil), "X-Request-Id", "request-2", "Retry-After", "4"),
			withHeader(response(200, fixture(t, "phone_check.json")), "X-Request-Id", "request-3",
				"X-RateLimit-Limit", "20", "X-RateLimit-Remaining", "19", "X-RateLimit-Reset", "7"),
		}
		c := newTransportClient(t, func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Second) // the bubble's clock
			resp := responses[0]
			responses = responses[1:]
			return resp, nil
		}, log.option(), idverify.WithRetry(idverify.RetryPolicy{MinWait: 1, MaxWait: time.Minute}))

		must(c.PhoneChecks.Get(t.Context(), phoneCheckID))(t)

		want := []idverify.Attempt{
			{Operation: "token.create", Number: 1, Status: 200},
			{Operation: "phone_check.get", Number: 1, Status: 503, Duration: time.Second, Wait: 3 * time.Second, Retry: true, RequestID: "request-1"},
			{Operation: "phone_check.get", Number: 2, Status: 503, Duration: time.Second, Wait: 4 * time.Second, Retry: true, RequestID: "request-2"},
			{Operation: "phone_check.get", Number: 3, Status: 200, Duration: time.Second, RequestID: "request-3",
				RateLimit: &idverify.RateLimit{Limit: 20, Remaining: 19, Reset: time.Now().Add(7 * time.Second)}},
		}
		attempts := log.all(t)
		for i, a := range attempts {
			attempts[i].Err = nil
			e, ok := errors.AsType[*idverify.Error](a.Err)
			switch {
			case a.Status == 200 && a.Err != nil:
				t.Errorf("attempt %d: error = %v, want nil", i, a.Err)
			case a.Status == 503 && (!ok || e.Status != 503 || !strings.Contains(e.Error(), a.RequestID)):
				t.Errorf("attempt %d: error = %v, want the *Error for the response", i, a.Err)
			}
		}
		wantEqual(t, want, attempts, "attempts")
	})
}

// withHeader adds pairs of names and values to the header of resp.
func withHeader(resp *http.Response, pairs ...string) *http.Response {
	for pair := range slices.Chunk(pairs, 2) {
		resp.Header.Set(pair[0], pair[1])
	}
	return resp
}

// The rows contain the attempts of an operation and of its token requests. The error of the last
// attempt must be the error of the operation.
func TestWithObserver_Outcomes(t *testing.T) {
	t.Parallel()
	get := func(ctx context.Context, c *idverify.Client) error {
		return errorOf(c.PhoneChecks.Get(ctx, phoneCheckID))
	}
	create := func(ctx context.Context, c *idverify.Client) error {
		return errorOf(c.PhoneChecks.Create(ctx, createParams))
	}
	list := func(ctx context.Context, c *idverify.Client) error {
		return errorOf(c.PhoneChecks.List(ctx, idverify.ListOptions{}))
	}
	tokens := func(ctx context.Context, c *idverify.Client) error { // the second token is from the cache
		return errors.Join(errorOf(c.Token(ctx, idverify.ScopeReachability)), errorOf(c.Token(ctx, idverify.ScopeReachability)))
	}
	const token = "token.create 1: 200"
	ok := respondWith(200, string(fixture(t, "phone_check.json")))
	for _, tt := range []struct {
		name    string
		do      func(context.Context, *idverify.Client) error
		respond http.HandlerFunc
		token   http.HandlerFunc // nil: issue a token
		want    []string
	}{
		{"success", get, ok, nil, []string{token, "phone_check.get 1: 200"}},
		{"problem", get, respondWithProblem(404, "check_not_found", ""), nil, []string{token, "phone_check.get 1: 404, error"}},
		{"POST with 503", create, respondWith(503, ""), nil, []string{token, "phone_check.create 1: 503, error"}},
		{"POST with 429", create, respondInTurn(respondWith(429, ""), respondWith(402, "")), nil,
			[]string{token, "phone_check.create 1: 429, error, retry", "phone_check.create 2: 402, error"}},
		{"lost after a POST", create, drop, nil, []string{token, "phone_check.create 1: 0, error"}},
		{"lost after a GET", get, respondInTurn(drop, ok), nil, []string{token, "phone_check.get 1: 0, error, retry", "phone_check.get 2: 200"}},
		{"truncated response", create, respondTruncated(201, `{"check_id":`), nil, []string{token, "phone_check.create 1: 201, error"}},
		{"attempts used up", get, respondWith(500, ""), nil, []string{token, "phone_check.get 1: 500, error, retry",
			"phone_check.get 2: 500, error, retry", "phone_check.get 3: 500, error, retry", "phone_check.get 4: 500, error"}},
		{"not JSON", get, respondWith(200, "<html>"), nil, []string{token, "phone_check.get 1: 200, error"}},
		{"too many values", get, respondWith(200, strings.Repeat("[", 70_000)), nil, []string{token, "phone_check.get 1: 200, error"}},
		{"another check", get, respondWith(200, string(fixture(t, "sim_check.json"))), nil, []string{token, "phone_check.get 1: 200, error"}},
		{"another number", create, respondWith(201, `{"check_id":"a","status":"ACCEPTED","phone_number":"447700900013"}`), nil,
			[]string{token, "phone_check.create 1: 201, error"}},
		{"malformed page", list, respondWith(200, "{}"), nil, []string{token, "phone_check.list 1: 200, error"}},
		{"malformed item", list, respondWith(200, `{"page":{},"_embedded":{"checks":[{}]}}`), nil, []string{token, "phone_check.list 1: 200, error"}},
		{"401 once", create, respondInTurn(respondWith(401, ""), respondWith(201, string(fixture(t, "phone_check_created.json")))), nil,
			[]string{token, token, "phone_check.create 1: 201"}},
		{"401 twice", create, respondWith(401, ""), nil, []string{token, token, "phone_check.create 1: 401, error"}},
		{"Token", tokens, nil, respondInTurn(respondWith(503, ""), issueToken), []string{"token.create 1: 503, error, retry", "token.create 2: 200"}},
		{"token rejected", create, ok, respondWith(401, `{"error":"invalid_client"}`), []string{"token.create 1: 401, error", "phone_check.create 1: 0, error"}},
		{"token unusable", create, ok, respondWith(200, "{}"), []string{"token.create 1: 200, error", "phone_check.create 1: 0, error"}},
		{"token rejected after 401", create, respondWith(401, ""), respondInTurn(issueToken, respondWith(400, "")),
			[]string{token, "token.create 1: 400, error", "phone_check.create 1: 0, error"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			log := new(attemptLog)
			srv := newService(t, tt.respond)
			srv.token = tt.token
			srv.Client().Transport.(*http.Transport).DisableKeepAlives = true // net/http itself repeats requests on reused connections

			err := tt.do(t.Context(), srv.client(t, log.option()))

			wantEqual(t, tt.want, log.lines(t), "attempts")
			attempts := log.all(t)
			if last := attempts[len(attempts)-1]; last.Err != err {
				t.Errorf("error of the last attempt = %v, want that of the operation: %v", last.Err, err)
			}
		})
	}
}

var issueToken = respondWith(200, `{"access_token":"token-1","token_type":"bearer","expires_in":3600}`)

func TestWithObserver_NotSent(t *testing.T) {
	t.Parallel()
	log := new(attemptLog)
	c := newTransportClient(t, nil, log.option())
	canceled, cancel := context.WithCancel(t.Context())
	cancel()

	_, invalid := c.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{})
	_, ended := c.PhoneChecks.Get(canceled, phoneCheckID)

	if attempts := log.all(t); invalid == nil || ended == nil || len(attempts) > 0 {
		t.Errorf("errors = %v and %v, attempts = %+v, want two errors and no attempts", invalid, ended, attempts)
	}
}

func TestWithObserver_DeleteAlreadyDone(t *testing.T) {
	t.Parallel()
	log := new(attemptLog)
	srv := newService(t, respondInTurn(respondWith(500, ""), respondWithProblem(404, "not_found", "")))
	console := must(idverify.NewConsole(srv.URL, credentials, idverify.WithHTTPClient(srv.Client()), idverify.WithRetry(fastRetries), log.option()))(t)

	err := console.ForWorkspace("w").Projects.Delete(t.Context(), "p")

	want := []string{"token.create 1: 200", "projects.delete 1: 500, error, retry", "projects.delete 2: 404"}
	if diff := cmp.Diff(want, log.lines(t)); err != nil || diff != "" {
		t.Errorf("error = %v, attempts (-want +got):\n%s", err, diff)
	}
}

func TestWithObserver_Canceled(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		latency map[string]time.Duration // by operation
		status  int
		want    []string
	}{
		{"during the token request", map[string]time.Duration{"token.create": time.Hour}, 0, []string{"phone_check.get 1: 0, error", "token.create 1: 0, error, retry"}},
		{"during the attempt", map[string]time.Duration{"phone_check.get": time.Hour}, 0, []string{"token.create 1: 200", "phone_check.get 1: 0, error"}},
		{"during the wait", nil, 503, []string{"token.create 1: 200", "phone_check.get 1: 503, error, retry"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				log := new(attemptLog)
				srv := sandboxfake.New(t, sandboxfake.WithInMemory())
				for operation, latency := range tt.latency {
					srv.Inject(sandboxfake.Match{Operation: operation}, sandboxfake.Fault{Latency: latency})
				}
				if tt.status != 0 {
					srv.Inject(sandboxfake.Match{Operation: "phone_check.get"}, sandboxfake.Fault{Status: tt.status})
				}
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)

				_, err := srv.Client(log.option(), idverify.WithRetry(idverify.RetryPolicy{MinWait: time.Minute})).PhoneChecks.Get(ctx, phoneCheckID)
				time.Sleep(time.Hour) // until the token request has ended
				synctest.Wait()

				if diff := cmp.Diff(tt.want, log.lines(t)); !errors.Is(err, context.Canceled) || diff != "" {
					t.Errorf("error = %v, want context.Canceled; attempts (-want +got):\n%s", err, diff)
				}
			})
		})
	}
}

// Every operation has its own name, which contains no ID. A new operation requires a row of the
// fault matrix and is then included.
func TestWithObserver_OperationNames(t *testing.T) {
	t.Parallel()
	for _, m := range matrixOperations {
		t.Run(m.op.Name, func(t *testing.T) {
			t.Parallel()
			log := new(attemptLog)
			s := &matrixTest{t: t, srv: sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithRateLimit(1000))}
			s.connect(s.srv.HTTPClient())
			if m.prepare != nil {
				s.id = m.prepare(s).get
			}
			s.client, s.console = s.srv.Client(log.option(), v02), s.srv.Console(log.option())

			noError(t, m.do(t.Context(), s))

			attempts := log.all(t)
			want := idverify.Attempt{Operation: m.op.Name, Number: 1, Status: m.op.Success}
			last := attempts[len(attempts)-1]
			if last.RequestID == "" || last.RateLimit == nil || last.Duration <= 0 {
				t.Errorf("attempt = %+v, want request ID, rate limit and duration", last)
			}
			last.RequestID, last.RateLimit, last.Duration = "", nil, 0
			wantEqual(t, want, last, "attempt")
			if attempts[0].Operation != "token.create" || attempts[0].Status != 200 {
				t.Errorf("first attempt = %+v, want the token request", attempts[0])
			}
		})
	}
}

// A function that is called at the end of a token request can use the client, and must not delay
// the callers.
func TestWithObserver_BlockedEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release, inner := make(chan struct{}), make(chan error, 1)
		var c *idverify.Client
		c = newTransportClient(t, always(200, fixture(t, "phone_check.json")), observing(func(string) {}, func(operation string) {
			if operation == "token.create" {
				inner <- errorOf(c.PhoneChecks.Get(context.Background(), phoneCheckID))
				<-release
			}
		}))

		_, err := c.PhoneChecks.Get(t.Context(), phoneCheckID)
		innerErr := <-inner
		took := time.Since(bubbleStart)
		close(release)

		if err != nil || innerErr != nil || took > 0 {
			t.Errorf("errors = %v and %v after %v, want nil at once", err, innerErr, took)
		}
	})
}

// A logger that blocks on the record of a failed renewal must not keep the client without a token.
func TestWithLogger_Blocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		e := new(memoryService)
		handler := recordHandler(func(r slog.Record) {
			if r.Level == slog.LevelWarn {
				<-release
			}
		})
		c := clientOver(t, e, idverify.WithLogger(slog.New(handler)))
		tokenFor(t, c, idverify.ScopeReachability)
		time.Sleep(59*time.Minute + time.Second) // the renewal is due
		e.reject = func() *http.Response { return response(401, nil) }
		tokenFor(t, c, idverify.ScopeReachability)
		synctest.Wait()
		e.reject = nil
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

// recordHandler is a slog.Handler that calls the function with each record.
type recordHandler func(slog.Record)

func (recordHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h recordHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h recordHandler) WithGroup(string) slog.Handler { return h }

func (h recordHandler) Handle(_ context.Context, r slog.Record) error { h(r); return nil }

// A start function or an HTTP transport that never returns must not hold the callers longer than
// 1.1 times the timeout of a token request.
func TestClient_TokenWaitIsBounded(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"start of an observer", "transport"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				defer close(release)
				c := clientOver(t, roundTripperFunc(func(*http.Request) (*http.Response, error) {
					<-release // ignores the context
					return nil, errors.New("released")
				}), idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1, AttemptTimeout: 10 * time.Second}), observing(func(operation string) {
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
	c := newTransportClient(t, always(200, fixture(t, "phone_check.json")), log.option(), log.option())

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
	c := newTransportClient(t, always(200, fixture(t, "phone_check.json")),
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
		"with a value":   func(ctx context.Context) context.Context { return ctx },
		"not derived":    func(context.Context) context.Context { return context.Background() },
		"without cancel": func(ctx context.Context) context.Context { return context.WithoutCancel(ctx) },
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
					transport := tokenTransport(func(r *http.Request) (*http.Response, error) {
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
					return must(idverify.NewClient("https://idverify.sandbox.test", credentials, oneAttempt, observer,
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
				tookDeadline, errDeadline := get(withDeadline(t, 2*time.Second), time.Minute)
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

func (endedContext) Err() error { return context.Canceled }

func (endedContext) Deadline() (time.Time, bool) { return bubbleStart, true }

func issuedToken() *http.Response {
	return response(200, []byte(`{"access_token":"token-1","expires_in":3600}`))
}

// failOnce calls end at the first call of fail.
type failOnce struct {
	end    func()
	failed atomic.Bool
}

func (f *failOnce) fail() {
	if f.failed.CompareAndSwap(false, true) {
		f.end()
	}
}

// observing returns an observer that calls start and end with the name of the operation.
func observing(start, end func(operation string)) idverify.Option {
	return idverify.WithObserver(func(ctx context.Context, operation string) (context.Context, func(idverify.Attempt)) {
		start(operation)
		return ctx, func(a idverify.Attempt) { end(a.Operation) }
	})
}

// A panic in an attempt reaches the caller. All observers that were called learn the end of the
// attempt.
func TestWithObserver_PanicInAttempt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		place  string
		before int  // attempts of the observer before the one that may fail
		after  int  // attempts of the observer after it
		failed bool // the attempt was not successful
		text   string
	}{
		{"transport before the body", 1, 1, true, "create PhoneCheck: ended by a panic"},
		{"transport after the body", 1, 1, true, "create PhoneCheck: outcome unknown: ended by a panic"},
		{"start of an observer", 1, 0, true, "create PhoneCheck: ended by a panic"},
		{"end of an observer", 1, 1, false, ""},
	} {
		for name, end := range map[string]func(){"panic": func() { panic("a bug of the caller") }, "Goexit": runtime.Goexit} {
			t.Run(name+" in "+tt.place, func(t *testing.T) {
				t.Parallel()
				before, after := new(attemptLog), new(attemptLog)
				once := &failOnce{end: end}
				failAt := func(place string) {
					if place == tt.place {
						once.fail()
					}
				}
				ifCreate := func(place string) func(string) {
					return func(operation string) {
						if operation == "phone_check.create" {
							failAt(place)
						}
					}
				}
				c := newTransportClient(t, func(r *http.Request) (*http.Response, error) {
					failAt("transport before the body")
					if _, err := io.Copy(io.Discard, r.Body); err != nil {
						return nil, err
					}
					failAt("transport after the body")
					return response(201, fixture(t, "phone_check_created.json")), nil
				}, before.option(), observing(ifCreate("start of an observer"), ifCreate("end of an observer")), after.option())
				tokenFor(t, c, idverify.ScopePhoneCheck)

				got := make(chan any, 1)
				go func() {
					defer func() { got <- recover() }()
					_, err := c.PhoneChecks.Create(t.Context(), createParams)
					t.Errorf("Create returned %v, want it to end", err)
				}()

				if p := <-got; name == "panic" && p != "a bug of the caller" || name == "Goexit" && p != nil {
					t.Errorf("panic = %v, want the caller's", p)
				}
				for _, observer := range []struct {
					log  *attemptLog
					want int
				}{{before, tt.before}, {after, tt.after}} {
					attempts := observer.log.all(t)[1:] // without the token request
					if len(attempts) != observer.want {
						t.Fatalf("attempts = %+v, want %d", attempts, observer.want)
					}
					for _, a := range attempts {
						if failed := a.Err != nil; failed != tt.failed || a.Number != 1 || a.Retry {
							t.Errorf("attempt = %+v, failed: %v, want %v", a, failed, tt.failed)
						}
						if a.Err != nil && !strings.Contains(a.Err.Error(), tt.text) {
							t.Errorf("error = %v, want it to contain %q", a.Err, tt.text)
						}
					}
				}
				if _, err := c.PhoneChecks.Create(t.Context(), createParams); err != nil {
					t.Errorf("next call: error = %v, want nil", err)
				}
			})
		}
	}
}

// A panic in a token request becomes its error, because it would otherwise end the process.
func TestWithObserver_PanicInTokenRequest(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"transport", "start of an observer", "end of an observer"} {
		for name, end := range map[string]func(){"panic": func() { panic("a bug of 447700900000") }, "Goexit": runtime.Goexit} {
			t.Run(name+" in "+place, func(t *testing.T) {
				t.Parallel()
				log := new(attemptLog)
				once := &failOnce{end: end}
				ifToken := func(here string) func(string) {
					return func(operation string) {
						if operation == "token.create" && here == place {
							once.fail()
						}
					}
				}
				transport := roundTripperFunc(func(*http.Request) (*http.Response, error) {
					ifToken("transport")("token.create")
					return issuedToken(), nil
				})
				c := clientOver(t, transport, withoutRetries,
					log.option(), observing(ifToken("start of an observer"), ifToken("end of an observer")))

				_, err := c.Token(t.Context(), idverify.ScopeReachability)

				dropped := place == "end of an observer" // the token has been obtained by then
				if dropped && err != nil || !dropped && (err == nil || !strings.HasPrefix(err.Error(), `idverify: get token for scope "coverage": failed: `) || strings.Contains(err.Error(), testNumber)) {
					t.Errorf("error = %v, want nil if it occurred at the end, or else an error that names the token request", err)
				}
				attempts := log.all(t)
				if len(attempts) != 1 {
					t.Fatalf("attempts = %+v, want 1", attempts)
				}
				if got := attempts[0].Err; got != err {
					t.Errorf("error of the attempt = %v, want %v", got, err)
				}
				if _, err := c.Token(t.Context(), idverify.ScopeReachability); err != nil {
					t.Errorf("next call: error = %v, want nil", err)
				}
			})
		}
	}
}

// Responses of the service must not put personal data or secrets into an Attempt.
func TestAttempt_Redacted(t *testing.T) {
	t.Parallel()
	const everything = "number " + testNumber + " or +44 7700 900-000 at 192.0.2.77, Bearer token-1, token-1, s3cret-of-client-1, https://user.example/?a=" + testNumber
	headers := []string{testNumber, "192.0.2.77", "token-1", "id-of-token-1", "s3cret-of-client-1", "https://user.example/", everything}
	hide := []string{testNumber, "7700 900", "192.0.2", "token-1", "s3cret", "user.example", phoneCheckID}
	for i, header := range headers {
		for _, tt := range []struct {
			name    string
			respond http.HandlerFunc
		}{
			{"success", respondWith(200, string(fixture(t, "phone_check.json")))},
			{"problem", respondWithProblem(400, "bad_request", everything)},
			{"fragment", respondWithProblem(429, testNumber, everything)},
			{"page of a proxy", respondWith(502, everything)},
			{"unusable", respondWith(200, everything)},
			{"another check", respondWith(200, `{"check_id":"`+testNumber+`","status":"COMPLETED"}`)},
			{"lost", drop},
		} {
			t.Run(fmt.Sprint(tt.name, " ", i), func(t *testing.T) {
				t.Parallel()
				hostile := func(respond http.HandlerFunc) http.HandlerFunc {
					return func(w http.ResponseWriter, r *http.Request) {
						w.Header().Set("X-RateLimit-Limit", header)
						w.Header().Set("Retry-After", header)
						withRequestID(header, respond)(w, r)
					}
				}
				log := new(attemptLog)
				srv := newService(t, hostile(tt.respond))
				srv.token = hostile(issueToken)
				c := srv.client(t, log.option())
				first := errorOf(c.PhoneChecks.Get(t.Context(), phoneCheckID))
				srv.token = hostile(respondWith(400, everything))
				second := errorOf(c.Reachability.LookupCountry(t.Context(), "GB"))

				attempts := log.all(t)

				if len(attempts) < 4 || second == nil {
					t.Errorf("attempts = %d, errors = %v and %v, want the token requests and the operations", len(attempts), first, second)
				}
				for _, a := range attempts {
					for _, text := range []string{fmt.Sprintf("%+v", a), fmt.Sprintf("%+v", errors.Unwrap(a.Err)), a.RequestID} {
						for _, secret := range hide {
							if strings.Contains(text, secret) && !strings.Contains(srv.URL, secret) {
								t.Errorf("an attempt contains %q: %s", secret, text)
							}
						}
					}
				}
			})
		}
	}
}

func TestWithObserver_Concurrent(t *testing.T) {
	t.Parallel()
	const callers = 1000
	log := new(attemptLog)
	var n atomic.Int32
	c := newTransportClient(t, func(*http.Request) (*http.Response, error) {
		if n.Add(1)%3 == 0 {
			return response(503, nil), nil
		}
		return response(200, fixture(t, "phone_check.json")), nil
	}, log.option(), withSpan("a"), idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 100, MinWait: 1, MaxWait: 1000, Budget: -1}))

	for err := range concurrently(callers, func() error { return errorOf(c.PhoneChecks.Get(t.Context(), phoneCheckID)) }) {
		noError(t, err)
	}

	succeeded, retried := 0, 0
	for _, a := range log.all(t) {
		switch {
		case a.Operation != "phone_check.get":
		case a.Err == nil && !a.Retry && a.Status == 200:
			succeeded++
		case a.Err != nil && a.Retry && a.Status == 503:
			retried++
		default:
			t.Fatalf("attempt = %+v, want a success or a retry", a)
		}
	}
	if want := int(n.Load()) - callers; succeeded != callers || retried != want {
		t.Errorf("successes = %d, retries = %d, want %d and %d", succeeded, retried, callers, want)
	}
}
