package signature_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go/signature"
)

// keyServer publishes a key set over TLS, and provides the clock of its JWKS.
type keyServer struct {
	srv          *httptest.Server
	cacheControl string // set before the first fetch
	closed       atomic.Bool

	mu      sync.Mutex // guards the fields below
	keys    []string
	handler http.HandlerFunc // responds instead of the key set, if not nil
	count   int
	now     time.Time
}

func newKeyServer(tb testing.TB, keys ...string) *keyServer {
	tb.Helper()
	s := &keyServer{keys: keys, now: now}
	s.srv = httptest.NewUnstartedServer(s)
	s.srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.srv.StartTLS()
	tb.Cleanup(s.srv.Close)
	return s
}

func (s *keyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.count++
	keys, handler := s.keys, s.handler
	s.mu.Unlock()
	s.closed.Store(r.Close)
	if handler != nil {
		handler(w, r)
		return
	}
	if s.cacheControl != "" {
		w.Header().Set("Cache-Control", s.cacheControl)
	}
	fmt.Fprint(w, keySet(keys...))
}

func (s *keyServer) publish(keys ...string) { s.mu.Lock(); defer s.mu.Unlock(); s.keys = keys }

func (s *keyServer) respond(h http.HandlerFunc) { s.mu.Lock(); defer s.mu.Unlock(); s.handler = h }

func (s *keyServer) fetches() int { s.mu.Lock(); defer s.mu.Unlock(); return s.count }

func (s *keyServer) advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

func (s *keyServer) set(now time.Time) { s.mu.Lock(); defer s.mu.Unlock(); s.now = now }

func (s *keyServer) clock() time.Time { s.mu.Lock(); defer s.mu.Unlock(); return s.now }

func (s *keyServer) jwks(tb testing.TB, opts signature.JWKSOptions) *signature.JWKS {
	tb.Helper()
	if opts.HTTPClient == nil {
		client := *s.srv.Client()
		transport := client.Transport
		client.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			// A busy machine may need longer than a fetch may take.
			return transport.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
		})
		opts.HTTPClient = &client
	}
	opts.Now = s.clock
	j, err := signature.NewJWKS(s.srv.URL+"/.well-known/jwks.json", &opts)
	if err != nil {
		tb.Fatal(err)
	}
	return j
}

func (s *keyServer) want(tb testing.TB, j *signature.JWKS, keyID, name string) {
	tb.Helper()
	key, err := j.PublicKey(tb.Context(), keyID)
	if err != nil || !key.Equal(&keys()[name].PublicKey) {
		tb.Errorf("key %q: found %v, error = %v; want that of %s", keyID, key != nil, err, name)
	}
}

func (s *keyServer) wantError(tb testing.TB, j *signature.JWKS, keyID string, want error) error {
	tb.Helper()
	key, err := j.PublicKey(tb.Context(), keyID)
	if key != nil || !errors.Is(err, want) {
		tb.Errorf("key %q: found %v, error = %v; want %v", keyID, key != nil, err, want)
	}
	return err
}

// wantRefetchAfter checks that the set with key "a" is fetched for the first lookup, and again at
// the given age.
func (s *keyServer) wantRefetchAfter(tb testing.TB, j *signature.JWKS, age time.Duration) {
	tb.Helper()
	s.want(tb, j, "a", "service-1")
	s.advance(age - time.Nanosecond)
	s.want(tb, j, "a", "service-1")
	before := s.fetches()
	s.advance(time.Nanosecond)
	s.want(tb, j, "a", "service-1")
	if before != 1 || s.fetches() != 2 {
		tb.Errorf("%d fetches before the age of %v, %d after; want 1 and 2", before, age, s.fetches())
	}
}

// jwk returns a public key as a JSON Web Key.
func jwk(kid, name string) string {
	n := base64.RawURLEncoding.EncodeToString(keys()[name].N.Bytes())
	return fmt.Sprintf(`{"kty":"RSA","e":"AQAB","use":"sig","kid":%q,"alg":"RS256","n":%q}`, kid, n)
}

func keySet(keys ...string) string { return `{"keys":[` + strings.Join(keys, ",") + `]}` }

// roundTrip implements http.RoundTripper without sockets, which synctest bubbles require.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
