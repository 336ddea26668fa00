package idverify_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/tooltest"
)

// service is a TLS server whose responses a test controls, for cases that the fake does not
// support. It issues the tokens token-1, token-2, … and records every request.
type service struct {
	*httptest.Server
	token   http.HandlerFunc // nil: issue the next token
	respond http.HandlerFunc

	mu       sync.Mutex // guards the fields below
	recorded []recordedRequest
	grant    int
}

// recordedRequest is a request that the service received.
type recordedRequest struct {
	method, uri string
	header      http.Header
	body        []byte
}

// newService starts a service that passes every request except token requests to respond.
func newService(t testing.TB, respond http.HandlerFunc) *service {
	t.Helper()
	s := &service{respond: respond}
	s.Server = httptest.NewUnstartedServer(s)
	s.Server.Config.ErrorLog = log.New(io.Discard, "", 0) // do not log connections that a test closes
	s.TLS = tooltest.TLSConfig(t)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.mu.Lock()
	s.recorded = append(s.recorded, recordedRequest{r.Method, r.RequestURI, r.Header.Clone(), body})
	if r.URL.Path == tokenPath && s.token == nil {
		s.grant++
	}
	grant := s.grant
	s.mu.Unlock()

	switch {
	case r.URL.Path != tokenPath:
		s.respond(w, r)
	case s.token != nil:
		s.token(w, r)
	default:
		fmt.Fprintf(w, `{"access_token":"token-%d","token_type":"bearer","expires_in":3600}`, grant)
	}
}

const tokenPath = "/oauth2/v1/token"

// calls returns the recorded requests, without token requests.
func (s *service) calls() []recordedRequest {
	return s.requests(func(r recordedRequest) bool { return r.uri != tokenPath })
}

// tokens returns the recorded token requests.
func (s *service) tokens() []recordedRequest {
	return s.requests(func(r recordedRequest) bool { return r.uri == tokenPath })
}

// requests returns the recorded requests for which keep reports true.
func (s *service) requests(keep func(recordedRequest) bool) []recordedRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.recorded), func(r recordedRequest) bool { return !keep(r) })
}

var credentials = idverify.Credentials{ClientID: "client-1", ClientSecret: idverify.NewSecret("s3cret-of-client-1")}

// client returns a Client of s whose retries hardly wait.
func (s *service) client(t testing.TB, opts ...idverify.Option) *idverify.Client {
	t.Helper()
	opts = append([]idverify.Option{idverify.WithHTTPClient(s.Client()), idverify.WithRetry(fastRetries)}, opts...)
	return must(idverify.NewClient(s.URL, credentials, opts...))(t)
}

// patience is the attempt timeout of tests: on a busy machine, huge bodies take minutes.
const patience = time.Hour

// fastRetries permits four attempts with waits of at most a microsecond.
var fastRetries = idverify.RetryPolicy{MaxAttempts: 4, MinWait: 1, MaxWait: 1000, AttemptTimeout: patience}

// fixture returns the contents of a file of internal/wire/testdata.
func fixture(t testing.TB, name string) []byte {
	t.Helper()
	return must(os.ReadFile(filepath.Join("internal", "wire", "testdata", name)))(t)
}

// respondWith responds to every request with status and body.
func respondWith(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// respondInTurn passes the n-th request to the n-th handler, and later requests to the last one.
func respondInTurn(handlers ...http.HandlerFunc) http.HandlerFunc {
	var mu sync.Mutex
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		h := handlers[0]
		if len(handlers) > 1 {
			handlers = handlers[1:]
		}
		mu.Unlock()
		h(w, r)
	}
}

// drop closes the connection after it has read the request.
func drop(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// respondWithProblem responds with a problem document like those of the service.
func respondWithProblem(status int, fragment, detail string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"type":"https://docs.sandbox.test/reference/api-errors#%s","title":%q,"status":%d,"detail":%q}`, fragment, http.StatusText(status), status, detail)
	}
}

// The IDs of the checks in the fixtures.
const (
	phoneCheckID      = "0c8b1f7e-5a43-4d0e-9b62-7f1d3a5c9e21"
	simCheckID        = "a3d5c7e9-1b2f-4a6c-8d0e-2f4b6d8a0c1e"
	subscriberCheckID = "d2f4a6c8-3e5b-4d7f-9a1c-4e6b8d0f2a3c"
)

const testNumber = "447700900000"

var createParams = idverify.PhoneCheckParams{PhoneNumber: testNumber}

// newTransportClient returns a Client whose transport is respond, except for token requests.
func newTransportClient(t testing.TB, respond func(*http.Request) (*http.Response, error), opts ...idverify.Option) *idverify.Client {
	t.Helper()
	return clientOver(t, tokenTransport(respond), append([]idverify.Option{idverify.WithRetry(fastRetries)}, opts...)...)
}

// clientOver returns a Client with a transport, and otherwise the default options.
func clientOver(t testing.TB, transport http.RoundTripper, opts ...idverify.Option) *idverify.Client {
	t.Helper()
	opts = append([]idverify.Option{idverify.WithHTTPClient(&http.Client{Transport: transport})}, opts...)
	return must(idverify.NewClient("https://idverify.sandbox.test", credentials, opts...))(t)
}

// response returns a response with status and body.
func response(status int, body []byte) *http.Response {
	return &http.Response{StatusCode: status, Header: make(http.Header), Body: io.NopCloser(bytes.NewReader(body))}
}

// always returns a function that responds to each request with status, body, and pairs of header
// names and values.
func always(status int, body []byte, header ...string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		return withHeader(response(status, body), header...), nil
	}
}

type tokenTransport func(*http.Request) (*http.Response, error)

func (f tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == tokenPath {
		return issuedToken(), nil
	}
	return f(r)
}

type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestClient_ResponseWithoutBody(t *testing.T) {
	t.Parallel()
	c := newTransportClient(t, func(r *http.Request) (*http.Response, error) {
		io.Copy(io.Discard, r.Body)
		return &http.Response{StatusCode: http.StatusCreated}, nil
	})

	_, err := c.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012"})

	if _, ok := errors.AsType[*idverify.DecodeError](err); !ok {
		t.Errorf("error = %v, want a DecodeError", err)
	}
}

// memoryService is an http.RoundTripper that acts as the service, for tests in a synctest bubble.
// Its nth token is token-n, valid for an hour.
type memoryService struct {
	mu      sync.Mutex // guards n and revoked; set the others only while no request is in flight
	n       int
	reject  func() *http.Response // responds to token requests; nil means that they succeed
	delay   time.Duration         // of token requests after the first
	revoked string                // tokens that the service rejects
}

func (s *memoryService) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

func (s *memoryService) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path != tokenPath {
		s.mu.Lock()
		revoked := s.revoked
		s.mu.Unlock()
		if token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "); strings.Contains(revoked, token) {
			return response(401, nil), nil
		}
		return response(200, []byte(`{"check_id":"a","status":"COMPLETED"}`)), nil
	}
	if s.reject != nil {
		return s.reject(), nil
	}
	s.mu.Lock()
	s.n++
	n, delay := s.n, s.delay
	s.mu.Unlock()
	if n > 1 {
		time.Sleep(delay) // synctest's clock
	}
	return response(200, fmt.Appendf(nil, `{"access_token":"token-%d","expires_in":3600}`, n)), nil
}

// revoke sets the tokens that the service rejects. Requests may be in flight.
func (s *memoryService) revoke(tokens string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked = tokens
}

// slowOperations returns a transport that passes requests to s. Operations with token arrive after
// ten seconds.
func slowOperations(s *memoryService, token string) roundTripperFunc {
	return func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("Authorization") == "Bearer "+token {
			time.Sleep(10 * time.Second)
		}
		return s.RoundTrip(r)
	}
}

// tokenFor returns a token for scopes.
func tokenFor(t testing.TB, c *idverify.Client, scopes ...idverify.Scope) string {
	t.Helper()
	token := must(c.Token(t.Context(), scopes...))(t)
	return token.AccessToken
}

// withDeadline returns the context of t, with a deadline after d unless d is 0.
func withDeadline(t testing.TB, d time.Duration) context.Context {
	if d == 0 {
		return t.Context()
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// concurrently calls f from n goroutines and yields the errors.
func concurrently(n int, f func() error) func(func(error) bool) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	errs := make(chan error, n)
	for range n {
		wg.Go(func() {
			<-start
			errs <- f()
		})
	}
	close(start)
	wg.Wait()
	close(errs)
	return func(yield func(error) bool) {
		for err := range errs {
			if !yield(err) {
				return
			}
		}
	}
}

// clock is a manual clock.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}
