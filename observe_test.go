package idverify_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
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
		respond := inTurn(
			withHeader(response(503, nil), "X-Request-Id", "request-1", "Retry-After", "3"),
			withHeader(response(503, nil), "X-Request-Id", "request-2", "Retry-After", "4"),
			withHeader(response(200, fixture(t, "phone_check.json")), "X-Request-Id", "request-3",
				"X-RateLimit-Limit", "20", "X-RateLimit-Remaining", "19", "X-RateLimit-Reset", "7"))
		c := newTransportClient(t, func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Second) // the bubble's clock
			return respond(r)
		}, log.option(), idverify.WithRetry(idverify.RetryPolicy{MinWait: 1, MaxWait: time.Minute}))

		_, err := c.PhoneChecks.Get(t.Context(), phoneCheckID)

		if err != nil {
			t.Fatal(err)
		}
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
		if diff := cmp.Diff(want, attempts); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
	})
}

// inTurn returns a transport that returns the nth response for the nth request.
func inTurn(responses ...*http.Response) roundTripperFunc {
	var mu sync.Mutex
	return func(*http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		resp := responses[0]
		responses = responses[1:]
		return resp, nil
	}
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
		{"truncated response", create, truncateBody, nil, []string{token, "phone_check.create 1: 201, error"}},
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

			if diff := cmp.Diff(tt.want, log.lines(t)); diff != "" {
				t.Errorf("attempts (-want +got):\n%s", diff)
			}
			attempts := log.all(t)
			if last := attempts[len(attempts)-1]; last.Err != err {
				t.Errorf("error of the last attempt = %v, want that of the operation: %v", last.Err, err)
			}
		})
	}
}

func issueToken(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprint(w, `{"access_token":"token-1","token_type":"bearer","expires_in":3600}`)
}

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

func TestWithObserver_ClientToken(t *testing.T) {
	t.Parallel()
	log := new(attemptLog)
	srv := newService(t, nil)
	srv.token = respondInTurn(respondWith(503, ""), issueToken)
	c := srv.client(t, log.option())

	for range 2 { // the second token is from the cache
		tokenFor(t, c, idverify.ScopeReachability)
	}

	want := []string{"token.create 1: 503, error, retry", "token.create 2: 200"}
	if diff := cmp.Diff(want, log.lines(t)); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
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
	for _, m := range slices.Concat(productOperations, consoleOperations) {
		t.Run(m.op.Name, func(t *testing.T) {
			t.Parallel()
			log := new(attemptLog)
			s := &matrixTest{t: t, srv: sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithRateLimit(1000))}
			s.connect(s.srv.HTTPClient())
			if m.prepare != nil {
				s.ids = m.prepare(s)
			}
			v02 := idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2", SubscriberCheck: "v0.2"})
			s.client, s.console = s.srv.Client(log.option(), v02), s.srv.Console(log.option())

			if err := m.do(t.Context(), s); err != nil {
				t.Fatal(err)
			}

			attempts := log.all(t)
			want := idverify.Attempt{Operation: m.op.Name, Number: 1, Status: m.op.Success}
			last := attempts[len(attempts)-1]
			if last.RequestID == "" || last.RateLimit == nil || last.Duration <= 0 {
				t.Errorf("attempt = %+v, want request ID, rate limit and duration", last)
			}
			last.RequestID, last.RateLimit, last.Duration = "", nil, 0
			if diff := cmp.Diff(want, last); diff != "" {
				t.Errorf("attempt (-want +got):\n%s", diff)
			}
			if attempts[0].Operation != "token.create" || attempts[0].Status != 200 {
				t.Errorf("first attempt = %+v, want the token request", attempts[0])
			}
		})
	}
}
