package idverify_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// Limits of the code under test. The read bounds of TestClient_BoundsMemory are one byte larger:
// that byte shows that the limit was exceeded.
const (
	maxBody         = 10 * mib // of a successful response
	maxErrorBody    = 1 * mib  // of any other response, and of a token
	maxValues       = 65_536   // JSON values in a successful response
	maxKeySet       = 1 * mib  // of a key set
	maxKeySetValues = 4_096    // JSON values in a key set
)

// Bounds on allocations. They include the allocations of the hostile server and net/http, and a
// margin for the race detector and other Go releases.
const (
	// The buffer of a body grows by doubling, or by a quarter in io.ReadAll. It allocates up to 5
	// bytes for each byte read. The server and TLS copy each byte a few times more.
	forBody      = 16 * maxBody
	forErrorBody = 24 * maxErrorBody
	forKeySet    = 24 * maxKeySet
	// A small JSON value, such as {} or 0 in a list, costs up to 2 KiB in Go values and errors.
	forValues       = 2 * kib * maxValues
	forKeySetValues = 8 * kib * maxKeySetValues
	// The header limit is 1 MiB, and a header map of many small fields takes up to 25 bytes for each
	// byte received. With the default limit of net/http, 10 MiB, these tests exceed the bound.
	forHeaders = 48 * mib
	// A big.Int of the modulus, in several copies.
	forHugeKey = 64 * mib
	// A body that is rejected before it is decoded costs a few copies of its bytes.
	forRejected = 4 * mib
)

// This test is not parallel: it measures the allocations of the process.
func TestClient_BoundsMemory(t *testing.T) {
	hugeKey := `{"keys":[{"kty":"RSA","kid":"key-1","e":"AQAB","n":"` + strings.Repeat("A", mib-100) + `"}]}`
	for _, tt := range []struct {
		name            string
		attack          attack
		do              func(*hostileServer, context.Context, testing.TB) error
		read, allocated int64 // maximum, in bytes
	}{
		{"endless body", attack{respond: endless(200)}, (*hostileServer).get, maxBody + 1, forBody},
		{"endless error body", attack{respond: endless(500)}, (*hostileServer).get, maxErrorBody + 1, forErrorBody},
		{"compression bomb", attack{respond: bomb(200)}, (*hostileServer).get, maxBody + 1, forBody},
		{"compression bomb as error", attack{respond: bomb(403)}, (*hostileServer).get, maxErrorBody + 1, forErrorBody},
		{"endless token", attack{token: endless(200)}, (*hostileServer).get, maxErrorBody + 1, forErrorBody},
		{"endless token error", attack{token: endless(401)}, (*hostileServer).get, maxErrorBody + 1, forErrorBody},
		{"compression bomb as token", attack{token: bomb(200)}, (*hostileServer).get, maxErrorBody + 1, forErrorBody},
		{"endless redirect", attack{respond: endless(302)}, (*hostileServer).get, maxErrorBody + 1, forErrorBody},
		{"endless header", attack{respond: rawResponse("HTTP/1.1 200 OK\r\nX-A: ", strings.Repeat("a", 32*kib), 0)}, (*hostileServer).get, 0, forHeaders},
		{"endless headers", attack{respond: rawResponse("HTTP/1.1 200 OK\r\n", strings.Repeat("X-A: a\r\n", 4*kib), 0)}, (*hostileServer).get, 0, forHeaders},
		{"endless early hints", attack{respond: rawResponse("", "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n", 0)}, (*hostileServer).get, 0, forHeaders},

		{"deep JSON", attack{respond: respondWith(200, strings.Repeat(`{"a":`, mib))}, (*hostileServer).get, maxBody + 1, forBody},
		{"long number", attack{respond: respondWith(200, `{"check_id":"a","status":"PENDING","ttl":`+strings.Repeat("9", mib)+`}`)}, (*hostileServer).get, maxBody + 1, forBody},
		{"page of three million items", attack{respond: respondWith(200, pageOf(3*mib, "{}"))}, (*hostileServer).list, maxBody + 1, forBody},
		{"compressed page of three million items", attack{respond: gzipped(pageOf(3*mib, "{}"))}, (*hostileServer).list, maxBody + 1, forBody},
		{"three million products", attack{respond: respondWith(200, `{"products":[`+strings.Repeat("{},", 3*mib)+`{}]}`)}, (*hostileServer).reach, maxBody + 1, forBody},
		{"page of the permitted number of items", attack{respond: respondWith(200, pageOf(maxValues/2-10, "{}"))}, (*hostileServer).list, maxBody + 1, forValues},
		{"page of the permitted number of numbers", attack{respond: respondWith(200, pageOf(maxValues-10, "0"))}, (*hostileServer).list, maxBody + 1, forValues},
		{"page with one number too many", attack{respond: respondWith(200, pageOf(maxValues, "0"))}, (*hostileServer).list, maxBody + 1, forRejected},

		{"endless key set", attack{keySet: endless(200)}, (*hostileServer).key, maxKeySet + 1, forKeySet},
		{"endless key set error", attack{keySet: endless(500)}, (*hostileServer).key, 0, forRejected},
		{"compression bomb as key set", attack{keySet: bomb(200)}, (*hostileServer).key, maxKeySet + 1, forKeySet},
		{"endless redirect of the key set", attack{keySet: endless(302)}, (*hostileServer).key, 0, forRejected},
		{"deep key set", attack{keySet: respondWith(200, `{"keys":`+strings.Repeat("[", mib-10))}, (*hostileServer).key, maxKeySet + 1, forKeySet},
		{"half a million numbers as keys", attack{keySet: respondWith(200, keysOf(mib/2-kib, "0"))}, (*hostileServer).key, maxKeySet + 1, forKeySet},
		{"18,000 malformed keys", attack{keySet: respondWith(200, keysOf(18_000, `{"kty":"RSA"}`))}, (*hostileServer).key, maxKeySet + 1, forKeySet},
		{"permitted number of malformed keys", attack{keySet: respondWith(200, keysOf(maxKeySetValues/2-10, `{"kty":"RSA"}`))}, (*hostileServer).key, maxKeySet + 1, forKeySetValues},
		{"permitted number of numbers as keys", attack{keySet: respondWith(200, keysOf(maxKeySetValues-10, "0"))}, (*hostileServer).key, maxKeySet + 1, forKeySetValues},
		{"one number too many as keys", attack{keySet: respondWith(200, keysOf(maxKeySetValues, "0"))}, (*hostileServer).key, maxKeySet + 1, forRejected},
		{"key of six million bits", attack{keySet: respondWith(200, hugeKey)}, (*hostileServer).key, maxKeySet + 1, forHugeKey},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHostileServer(t, tt.attack)
			allocated := allocatedBytes()

			err := tt.do(h, t.Context(), t)

			allocated = allocatedBytes() - allocated
			if err == nil {
				t.Error("error = nil, want an error")
			}
			if n := len(fmt.Sprint(err)); n > 2*kib {
				t.Errorf("length of the error = %d bytes, want at most 2 KiB: logs contain it", n)
			}
			// The token response, which precedes most attacks, is read too.
			if read := h.bodies.read.Load(); read > tt.read+int64(len(validToken)) {
				t.Errorf("%d bytes of bodies read, want at most %d", read, tt.read)
			}
			if allocated > tt.allocated {
				t.Errorf("%d bytes allocated, want at most %d", allocated, tt.allocated)
			}
			t.Logf("%d KiB read, %d KiB allocated: %v", h.bodies.read.Load()/kib, allocated/kib, err)
		})
	}
}

func TestClient_BoundsResponseHeaders(t *testing.T) {
	t.Parallel()
	const check = `{"check_id":"a","status":"PENDING"}`
	for _, tt := range []struct {
		size int
		ok   bool
	}{
		{mib / 2, true},
		{2 * mib, false},
	} {
		t.Run(fmt.Sprint(tt.size/kib, " KiB"), func(t *testing.T) {
			t.Parallel()
			h := newHostileServer(t, attack{respond: manyHeaders(tt.size, check)})

			err := h.get(t.Context(), t)

			if ok := err == nil; ok != tt.ok {
				t.Errorf("response with %d KiB of headers: error = %v, want success: %v", tt.size/kib, err, tt.ok)
			}
		})
	}
}

func allocatedBytes() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.TotalAlloc)
}

// The server sends one byte per second. Without a deadline, the http.Client's timeout ends the
// request, and token and key requests have limits of their own.
func TestClient_SlowResponses(t *testing.T) {
	t.Parallel()
	const body = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n{"
	silence := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for _, tt := range []struct {
		name            string
		attack          attack
		do              func(*hostileServer, context.Context, testing.TB) error
		withoutDeadline time.Duration // maximum duration without a deadline of the caller
	}{
		{"silence", attack{respond: silence}, (*hostileServer).get, 30 * time.Second},
		{"slow header", attack{respond: rawResponse("HTTP/1.1 200 OK\r\nX-A: ", "a", time.Second)}, (*hostileServer).get, 30 * time.Second},
		{"slow early hints", attack{respond: rawResponse("", "HTTP/1.1 103 Early Hints\r\n\r\n", time.Second)}, (*hostileServer).get, 30 * time.Second},
		{"slow body", attack{respond: rawResponse(body, " ", time.Second)}, (*hostileServer).get, 30 * time.Second},
		{"slow error body", attack{respond: rawResponse(strings.Replace(body, "200", "500", 1), " ", time.Second)}, (*hostileServer).get, 30 * time.Second},
		{"silent token endpoint", attack{token: silence}, (*hostileServer).get, 30 * time.Second},
		{"slow token", attack{token: rawResponse(body, " ", time.Second)}, (*hostileServer).get, 30 * time.Second},
		{"silent key set", attack{keySet: silence}, (*hostileServer).key, 3 * time.Second},
		{"slow key set", attack{keySet: rawResponse(body, " ", time.Second)}, (*hostileServer).key, 3 * time.Second},
	} {
		for _, deadline := range []time.Duration{2 * time.Second, 0} {
			t.Run(fmt.Sprint(tt.name, ", deadline ", deadline), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					h := newHostileServer(t, tt.attack)
					h.retry = oneAttempt
					ctx, want := withDeadline(t, deadline), cmp.Or(deadline, tt.withoutDeadline)
					start := time.Now()

					err := tt.do(h, ctx, t)

					if took := time.Since(start); took > want {
						t.Errorf("took %v, want at most %v", took, want)
					}
					// The status of an error response is more useful than the fact that its body is late.
					if _, refused := errors.AsType[*idverify.Error](err); err == nil || deadline > 0 && !refused && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("error = %v, want context.DeadlineExceeded", err)
					}
				})
			})
		}
	}
}

// Credentials and tokens must be sent to the requested path only.
func TestClient_HostileRedirects(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, location := range []string{"https://elsewhere.sandbox.test/", "http://hostile.sandbox.test/", "/again", "//elsewhere.sandbox.test", "javascript:alert(1)", "", "\x00"} {
			t.Run(fmt.Sprint(status, " to ", location), func(t *testing.T) {
				t.Parallel()
				var elsewhere atomic.Int32
				redirect := func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/again" || r.TLS == nil {
						elsewhere.Add(1)
					}
					w.Header().Set("Location", location)
					w.WriteHeader(status)
				}
				srv := sandboxfake.New(t, sandboxfake.WithInMemory())
				srv.Handle("elsewhere.sandbox.test", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
				base := srv.Handle("hostile.sandbox.test", http.HandlerFunc(redirect))
				good := newHostileServer(t, attack{respond: redirect})
				toToken := &hostileServer{base: base, http: srv.HTTPClient(), retry: withoutRetries}
				keys := must(signature.NewJWKS(base+keySetPath, &signature.JWKSOptions{HTTPClient: srv.HTTPClient()}))(t)

				getErr := good.get(t.Context(), t)
				createErr := errorOf(good.client(t).PhoneChecks.Create(t.Context(), createParams))
				tokenErr := toToken.get(t.Context(), t)
				_, keyErr := keys.PublicKey(t.Context(), "key-1")

				want := fmt.Sprintf("%[1]d, %[1]d, token %[1]d", status)
				if location == "\x00" {
					want = "lost, lost, lost" // net/http rejects the header
				}
				if got := classify(getErr) + ", " + classify(createErr) + ", " + classify(tokenErr); got != want || !errors.Is(keyErr, signature.ErrKeySource) {
					t.Errorf("errors of get, create, token = %s, of the key = %v, want %s and ErrKeySource", got, keyErr, want)
				}
				if text := fmt.Sprint(getErr, createErr, tokenErr, keyErr); strings.Contains(text, "sandbox.test") {
					t.Errorf("errors = %q, want them without the location", text)
				}
				most := int32(0)
				if location == "/again" {
					most = 5 // a key set may redirect on its own host; it receives no credentials
				}
				if n := elsewhere.Load(); n > most {
					t.Errorf("%d requests to the redirect's target, want at most %d", n, most)
				}
			})
		}
	}
}

// Anyone who knows the redirect URL can open it with their own query, and net/http accepts a query
// of 1 MiB. This test is not parallel: it measures the allocations of the process.
func TestVerifier_BoundsMemoryOfRedirect(t *testing.T) {
	const authorization = "U2lnbmF0dXJlIGtleUlkPSJhIg"
	verifier := must(signature.NewVerifier(signature.StaticKeys{}, []string{"shop.example.com"}, nil))(t)
	for _, tt := range []struct{ name, query string }{
		{"a million empty parameters", strings.Repeat("&", mib)},
		{"half a million parameters", strings.Repeat("a&", mib/2)},
		{"as many signatures", strings.Repeat("authorization="+authorization+"&", mib/len("authorization="+authorization+"&"))},
		{"one long name", strings.Repeat("a", mib)},
		{"one long escaped name", strings.Repeat("%61", mib/3) + "=a"},
		{"one long signature", "check_id=a&date=a&authorization=" + strings.Repeat("QUFB", mib/4)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "https://shop.example.com/back", nil)
			r.RequestURI = "/back?" + tt.query
			allocated := allocatedBytes()

			_, err := verifier.VerifyRedirect(r)

			if !errors.Is(err, signature.ErrMalformed) {
				t.Errorf("error = %v, want ErrMalformed", err)
			}
			if allocated = allocatedBytes() - allocated; allocated > 8*mib {
				t.Errorf("%d bytes allocated for a query of 1 MiB, want at most 8 MiB", allocated)
			}
		})
	}
}

// hostileServer acts as the service, or as an attacker in its place, and attempts to exhaust its
// callers.
type hostileServer struct {
	attack
	base     string
	http     *http.Client
	retry    idverify.Option // of the client
	bodies   *bodyCounter
	handlers sync.WaitGroup
}

// attack contains the handlers of a hostile server.
type attack struct {
	token, respond, keySet http.HandlerFunc // a nil token handler issues validToken
}

// newHostileServer serves a in memory. Its client is the default one of NewClient, except that it
// dials the in-memory network and uses HTTP/1.1, because some attacks hijack the connection.
func newHostileServer(t testing.TB, a attack) *hostileServer {
	t.Helper()
	h := &hostileServer{attack: a, retry: withoutRetries}
	t.Cleanup(h.handlers.Wait) // after the server, which does not wait for hijacked connections
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	fake := srv.HTTPClient().Transport.(*http.Transport)
	h.http = idverify.DefaultHTTPClient()
	transport := h.http.Transport.(*http.Transport)
	transport.Proxy, transport.ForceAttemptHTTP2 = nil, false
	transport.DialContext, transport.TLSClientConfig = fake.DialContext, fake.TLSClientConfig.Clone()
	t.Cleanup(transport.CloseIdleConnections)
	h.bodies = &bodyCounter{next: transport}
	h.http.Transport = h.bodies
	h.base = srv.Handle("hostile.sandbox.test", h)
	return h
}

func (h *hostileServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.handlers.Add(1)
	defer h.handlers.Done()
	switch {
	case r.URL.Path == tokenPath && h.token != nil:
		h.token(w, r)
	case r.URL.Path == tokenPath:
		io.WriteString(w, validToken)
	case r.URL.Path == keySetPath:
		h.keySet(w, r)
	default:
		h.respond(w, r)
	}
}

const validToken = `{"access_token":"token-of-a-hostile-service","token_type":"bearer","expires_in":3600}`

// bodyCounter counts the bytes read from response bodies after decompression. It does not count
// what the transport reads itself: its buffers, and how much of a closed body it discards to reuse
// the connection, differ between Go releases.
type bodyCounter struct {
	next http.RoundTripper
	read atomic.Int64
}

func (c *bodyCounter) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(r)
	if err == nil {
		response.Body = &countedBody{response.Body, c}
	}
	return response, err
}

type countedBody struct {
	io.ReadCloser
	counter *bodyCounter
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.counter.read.Add(int64(n))
	return n, err
}

const keySetPath = "/.well-known/jwks.json"

func (h *hostileServer) client(t testing.TB) *idverify.Client {
	t.Helper()
	return must(idverify.NewClient(h.base, credentials, idverify.WithHTTPClient(h.http), h.retry))(t)
}

// get reads a PhoneCheck.
func (h *hostileServer) get(ctx context.Context, t testing.TB) error {
	return errorOf(h.client(t).PhoneChecks.Get(ctx, "a"))
}

// list reads a page of PhoneChecks.
func (h *hostileServer) list(ctx context.Context, t testing.TB) error {
	return errorOf(h.client(t).PhoneChecks.List(ctx, idverify.ListOptions{}))
}

// reach looks up an address.
func (h *hostileServer) reach(ctx context.Context, t testing.TB) error {
	return errorOf(h.client(t).Reachability.Lookup(ctx, netip.MustParseAddr("192.0.2.1")))
}

// key looks up a signing key.
func (h *hostileServer) key(ctx context.Context, t testing.TB) error {
	keys := must(signature.NewJWKS(h.base+keySetPath, &signature.JWKSOptions{HTTPClient: h.http}))(t)
	return errorOf(keys.PublicKey(ctx, "key-1"))
}

// Attacks.

// endless responds with a body that never ends.
func endless(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		for chunk := []byte(`{"a":"` + strings.Repeat("a", 32<<10)); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
}

// bomb responds with an endless body that expands to a thousand times its compressed size.
func bomb(status int) http.HandlerFunc {
	var gzipped bytes.Buffer
	z := gzip.NewWriter(&gzipped)
	z.Write(make([]byte, mib))
	z.Close()
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(status)
		for {
			if _, err := w.Write(gzipped.Bytes()); err != nil {
				return
			}
		}
	}
}

// rawResponse hijacks the connection and writes text once. It then writes again repeatedly, with a
// pause before each, until the connection is closed.
func rawResponse(text, again string, pause time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		for next := text; ; next = again {
			if _, err := io.WriteString(conn, next); err != nil {
				return
			}
			if pause > 0 {
				time.Sleep(pause) // synctest's clock: only the tests of slow responses pause
			}
		}
	}
}

// gzipped responds with the compressed body.
func gzipped(body string) http.HandlerFunc {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, body)
	z.Close()
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(b.Bytes())
	}
}

// pageOf returns a page of n+1 items, and keysOf a set of n+1 keys.
func pageOf(n int, item string) string {
	return `{"page":{"number":1,"total_pages":1},"_embedded":{"checks":[` + strings.Repeat(item+",", n) + item + `]}}`
}

func keysOf(n int, key string) string {
	return `{"keys":[` + strings.Repeat(key+",", n) + key + `]}`
}

// manyHeaders responds with about size bytes of header lines of 1 KiB each, followed by body.
func manyHeaders(size int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for range size / kib {
			w.Header().Add("X-A", strings.Repeat("a", kib-len("X-A: \r\n")))
		}
		io.WriteString(w, body)
	}
}
