package signature_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	_ "embed"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/internal/attack"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/signature"
)

const (
	host   = "api.example.com"
	keyID  = "key-1"
	target = "/callbacks/phone?tenant=7"
)

// body is the body of newCallback.
var body = newCallback().Body

// now is the date of messages and the time of clock.
var now = time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)

func clock() time.Time { return now }

//go:embed testdata/keys.pem
var keysPEM []byte

// keys contains 2048-bit keys (service-1, service-2, unpublished), a 4096-bit key (strong) and two
// unusable keys: weak (1024 bits) and oversized (4352 bits).
var keys = sync.OnceValue(func() map[string]*rsa.PrivateKey {
	keys := make(map[string]*rsa.PrivateKey)
	names := []string{"service-1", "service-2", "unpublished", "strong", "weak", "oversized"}
	for rest := keysPEM; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return keys
		}
		key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
		if err != nil {
			panic(err)
		}
		keys[names[len(keys)]] = key
	}
})

// signers contains keys to sign messages with.
var signers = sync.OnceValue(func() map[string]crypto.Signer {
	signers := make(map[string]crypto.Signer)
	for name, key := range keys() {
		signers[name] = tooltest.CachingSigner(key)
	}
	return signers
})

// serviceKeys returns the published keys of the service.
func serviceKeys() signature.StaticKeys {
	return signature.StaticKeys{keyID: &keys()["service-1"].PublicKey, "weak": &keys()["weak"].PublicKey, "oversized": &keys()["oversized"].PublicKey}
}

func newVerifier(tb testing.TB, opts signature.VerifierOptions) *signature.Verifier {
	tb.Helper()
	return verifierFor(tb, serviceKeys(), opts, host)
}

// verifierFor returns a verifier for messages to hosts that are signed with keys of source.
func verifierFor(tb testing.TB, source signature.KeySource, opts signature.VerifierOptions, hosts ...string) *signature.Verifier {
	tb.Helper()
	if opts.Now == nil {
		opts.Now = clock
	}
	return must(signature.NewVerifier(source, hosts, &opts))(tb)
}

func newSigner(tb testing.TB, opts signature.SignerOptions) *signature.Signer {
	tb.Helper()
	if opts.Now == nil {
		opts.Now = clock
	}
	return must(signature.NewSigner(keyID, keys()["service-1"], &opts))(tb)
}

// sign signs r as a callback with the given body, and returns it.
func sign(tb testing.TB, r *http.Request, content string) *http.Request {
	tb.Helper()
	noError(tb, newSigner(tb, signature.SignerOptions{}).SignCallback(r, []byte(content)))
	return r
}

// callbackSetup and redirectSetup contain the values of newCallback and newRedirect.
var callbackSetup, redirectSetup = setupFor("/callbacks/phone", "tenant=7"), setupFor("/back", "")

// newCallback returns a valid callback that is not signed yet.
func newCallback() *attack.Message { return callbackSetup.Callback() }

// newRedirect returns a valid redirect that is not signed yet. Until then, its date is a header
// field.
func newRedirect() *attack.Message { return redirectSetup.Redirect() }

func signedCallback() *attack.Message { m := newCallback(); m.Sign(); return m }

func signedRedirect() *attack.Message { m := newRedirect(); m.Sign(); return m }

// setupFor returns the values of valid messages to a URL on host.
func setupFor(path, query string) attack.Setup {
	return attack.Setup{
		URL:   &url.URL{Scheme: "https", Host: host, Path: path, RawQuery: query},
		KeyID: keyID, Key: signers()["service-1"], Unpublished: signers()["unpublished"],
		Now: now, CheckID: "c1",
	}
}

// messageKind contains the functions for messages of one kind, callbacks or redirects.
type messageKind struct {
	name     string
	setup    attack.Setup
	make     func() *attack.Message
	attacks  func() []attack.Attack
	accepted func() []attack.Variant
	verify   func(*signature.Verifier, *http.Request) (*signature.Message, error)
	require  func(*signature.Verifier, http.Handler) http.Handler
}

var messageKinds = []messageKind{
	{
		"callback", callbackSetup, newCallback, attack.Callbacks, attack.AcceptedCallbacks,
		(*signature.Verifier).VerifyCallback, (*signature.Verifier).RequireCallback,
	},
	{
		"redirect", redirectSetup, newRedirect, attack.Redirects, attack.AcceptedRedirects,
		(*signature.Verifier).VerifyRedirect, (*signature.Verifier).RequireRedirect,
	},
}

// signedAt returns a signed message with the given date.
func (k messageKind) signedAt(date time.Time) *attack.Message {
	w := k.make()
	w.Set("Date", date.Format(http.TimeFormat))
	w.Sign()
	return w
}

// request returns the message as net/http's server parses it.
func request(tb testing.TB, m *attack.Message) *http.Request {
	tb.Helper()
	return must(m.Request())(tb)
}

// set, add, drop and edit return changes of a message.
func set(name, value string) func(*attack.Message) {
	return func(m *attack.Message) { m.Set(name, value) }
}

func add(name, value string) func(*attack.Message) {
	return func(m *attack.Message) { m.Add(name, value) }
}

func drop(name string) func(*attack.Message) { return func(m *attack.Message) { m.Drop(name) } }

func edit(name, old, new string) func(*attack.Message) {
	return func(m *attack.Message) { m.Edit(name, old, new) }
}

func auth(old, new string) func(*attack.Message) { return edit("Authorization", old, new) }

func covering(names string) func(*attack.Message) {
	return func(m *attack.Message) { m.Covered = names }
}

func method(name string) func(*attack.Message)   { return func(m *attack.Message) { m.Method = name } }
func toHost(name string) func(*attack.Message)   { return func(m *attack.Message) { m.Host = name } }
func toTarget(uri string) func(*attack.Message)  { return func(m *attack.Message) { m.Target = uri } }
func withBody(body string) func(*attack.Message) { return func(m *attack.Message) { m.SetBody(body) } }

func dated(d time.Duration) func(*attack.Message) {
	return set("Date", now.Add(d).Format(http.TimeFormat))
}

func keyNamed(id, key string) func(*attack.Message) {
	return func(m *attack.Message) { m.KeyID, m.Key = id, signers()[key] }
}

func hashed(algorithm string, hash crypto.Hash) func(*attack.Message) {
	return func(m *attack.Message) { m.Algorithm, m.Hash = algorithm, hash }
}

// allCovered returns the names that a callback must cover, with more names appended.
func allCovered(names string) string {
	return "(request-target) host date x-service-callback digest" + names
}

// restored returns a request body with the given content.
func restored(content []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(content)) }

// keyFunc implements KeySource.
type keyFunc func(ctx context.Context, id string) (*rsa.PublicKey, error)

func (f keyFunc) PublicKey(ctx context.Context, id string) (*rsa.PublicKey, error) { return f(ctx, id) }

func failingKeys(err error) keyFunc {
	return func(context.Context, string) (*rsa.PublicKey, error) { return nil, err }
}

// storeFunc implements ReplayStore.
type storeFunc func(ctx context.Context, id [32]byte, ttl time.Duration) (bool, error)

func (f storeFunc) Claim(ctx context.Context, id [32]byte, ttl time.Duration) (bool, error) {
	return f(ctx, id, ttl)
}

func failingStore(err error) storeFunc {
	return func(context.Context, [32]byte, time.Duration) (bool, error) { return false, err }
}

// wantRetryable checks that err is retryable and matches want. After a response 400, the callback
// would be lost.
func wantRetryable(tb testing.TB, err error, want ...error) {
	tb.Helper()
	if e, ok := errors.AsType[*signature.Error](err); !ok || !e.Retryable() {
		tb.Errorf("error = %v, want a retryable one", err)
	}
	for _, w := range want {
		if !errors.Is(err, w) {
			tb.Errorf("error = %v, want %v", err, w)
		}
	}
}

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
	s.srv.TLS = tooltest.TLSConfig(tb)
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

// inMemory returns a client whose requests need no sockets.
func (s *keyServer) inMemory() *http.Client { return &http.Client{Transport: inMemory(s.ServeHTTP)} }

func (s *keyServer) publish(keys ...string) { s.mu.Lock(); defer s.mu.Unlock(); s.keys = keys }

func (s *keyServer) respond(h http.HandlerFunc) { s.mu.Lock(); defer s.mu.Unlock(); s.handler = h }

func (s *keyServer) fetches() int { s.mu.Lock(); defer s.mu.Unlock(); return s.count }

func (s *keyServer) advance(d time.Duration) { s.mu.Lock(); defer s.mu.Unlock(); s.now = s.now.Add(d) }

func (s *keyServer) set(now time.Time) { s.mu.Lock(); defer s.mu.Unlock(); s.now = now }

func (s *keyServer) clock() time.Time { s.mu.Lock(); defer s.mu.Unlock(); return s.now }

func (s *keyServer) jwks(tb testing.TB, opts signature.JWKSOptions) *signature.JWKS {
	tb.Helper()
	if opts.HTTPClient == nil {
		opts.HTTPClient = tooltest.WithoutDeadlines(s.srv.Client())
	}
	if opts.Now == nil {
		opts.Now = s.clock
	}
	return must(signature.NewJWKS(s.srv.URL+"/.well-known/jwks.json", &opts))(tb)
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

// jwk returns a public key as a JSON Web Key.
func jwk(kid, name string) string {
	n := base64.RawURLEncoding.EncodeToString(keys()[name].N.Bytes())
	return fmt.Sprintf(`{"kty":"RSA","e":"AQAB","use":"sig","kid":%q,"alg":"RS256","n":%q}`, kid, n)
}

func keySet(keys ...string) string { return `{"keys":[` + strings.Join(keys, ",") + `]}` }

// jwksOver returns a JWKS that sends its requests to transport.
func jwksOver(tb testing.TB, transport http.RoundTripper, opts signature.JWKSOptions) *signature.JWKS {
	tb.Helper()
	opts.HTTPClient = &http.Client{Transport: transport}
	return must(signature.NewJWKS("https://eu.example.com/jwks.json", &opts))(tb)
}

// roundTrip implements http.RoundTripper without sockets, which synctest bubbles require.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// inMemory returns a transport that passes all requests to h.
func inMemory(h http.HandlerFunc) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		h(w, r)
		return w.Result(), nil
	}
}

// oneKey is a transport whose responses contain the set with key "a".
var oneKey = inMemory(respondWith(200, "", keySet(jwk("a", "service-1"))))

// noError and must fail the test if err is not nil. must returns v.
var noError = tooltest.NoError

func must[T any](v T, err error) func(testing.TB) T { return tooltest.Must(v, err) }

// wantEqual reports the difference between want and got, if any.
func wantEqual(t testing.TB, want, got any, format string, args ...any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", fmt.Sprintf(format, args...), diff)
	}
}
