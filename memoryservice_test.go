package idverify_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
)

// memoryService is an http.RoundTripper that acts as the service, for tests in a synctest bubble.
// Its nth token is token-n, valid for an hour.
type memoryService struct {
	mu      sync.Mutex // guards n and revoked; set the others only while no request is in flight
	n       int
	fail    map[int]bool  // token requests that fail
	delay   time.Duration // of token requests after the first
	revoked string        // tokens that the service rejects
}

func newMemoryService() *memoryService { return new(memoryService) }

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
	s.mu.Lock()
	s.n++
	n, delay := s.n, s.delay
	s.mu.Unlock()
	if n > 1 {
		time.Sleep(delay) // synctest's clock
	}
	if s.fail[n] {
		return response(503, nil), nil
	}
	return response(200, fmt.Appendf(nil, `{"access_token":"token-%d","expires_in":3600}`, n)), nil
}

func (s *memoryService) client(t testing.TB) *idverify.Client {
	t.Helper()
	return roundTripperFunc(s.RoundTrip).client(t)
}

// client returns a client that sends its requests to f.
func (f roundTripperFunc) client(t testing.TB) *idverify.Client {
	t.Helper()
	c, err := idverify.NewClient("https://idverify.sandbox.test", credentials, idverify.WithHTTPClient(&http.Client{Transport: f}), idverify.WithRetry(fastRetries))
	if err != nil {
		t.Fatal(err)
	}
	return c
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
	token, err := c.Token(t.Context(), scopes...)
	if err != nil {
		t.Fatal(err)
	}
	return token.AccessToken
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
