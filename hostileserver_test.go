package idverify_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// hostileServer acts as the service, or as an attacker in its place, and attempts to exhaust its
// callers.
type hostileServer struct {
	attack
	base     string
	http     *http.Client
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
	h := &hostileServer{attack: a}
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
	return must(idverify.NewClient(h.base, credentials, idverify.WithHTTPClient(h.http), idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1})))(t)
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

// respondWithBody responds with body.
func respondWithBody(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }
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

// pageOf returns a page of n items, and keysOf a set of n keys.
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
