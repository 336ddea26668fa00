package idverify_test

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	idverify "github.com/idverify/idverify-go"
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

func (s *service) requests(keep func(recordedRequest) bool) []recordedRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	var kept []recordedRequest
	for _, r := range s.recorded {
		if keep(r) {
			kept = append(kept, r)
		}
	}
	return kept
}

var credentials = idverify.Credentials{ClientID: "client-1", ClientSecret: idverify.NewSecret("s3cret-of-client-1")}

// client returns a Client of s whose retries hardly wait.
func (s *service) client(t testing.TB, opts ...idverify.Option) *idverify.Client {
	t.Helper()
	opts = append([]idverify.Option{idverify.WithHTTPClient(s.Client()), idverify.WithRetry(fastRetries)}, opts...)
	c, err := idverify.NewClient(s.URL, credentials, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fastRetries permits four attempts with waits of at most a microsecond.
var fastRetries = idverify.RetryPolicy{MaxAttempts: 4, MinWait: 1, MaxWait: 1000}

// fixture returns the contents of a file of internal/wire/testdata.
func fixture(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("internal", "wire", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
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
