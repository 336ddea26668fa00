package idverify_test

import (
	"bytes"
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

// hostile is a service, or whoever took its place, that wants to exhaust who calls it.
type hostile struct {
	attack
	base     string
	http     *http.Client
	handlers sync.WaitGroup
	written  atomic.Int64 // the bytes of bodies and headers that its callers took, and what stood in the connection's buffers
}

// attack is what it answers.
type attack struct {
	token, answer, keySet http.HandlerFunc // nil: a good token
}

// newHostile serves a in memory.
func newHostile(t testing.TB, a attack) *hostile {
	t.Helper()
	h := &hostile{attack: a}
	t.Cleanup(h.handlers.Wait) // after the server, which does not wait for connections that were taken over
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	transport := srv.HTTPClient().Transport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = 1 * mib // as the client that is made where the caller gives none
	h.http = &http.Client{Transport: transport, Timeout: 30 * time.Second}
	h.base = srv.Handle("hostile.sandbox.test", h)
	return h
}

func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.handlers.Add(1)
	defer h.handlers.Done()
	w = &counted{w, h}
	switch {
	case r.URL.Path == tokenPath && h.token != nil:
		h.token(w, r)
	case r.URL.Path == tokenPath:
		io.WriteString(w, `{"access_token":"token-of-a-hostile-service","token_type":"bearer","expires_in":3600}`)
	case r.URL.Path == keySetPath:
		h.keySet(w, r)
	default:
		h.answer(w, r)
	}
}

const keySetPath = "/.well-known/jwks.json"

func (h *hostile) client(t testing.TB) *idverify.Client {
	t.Helper()
	return must(idverify.NewClient(h.base, credentials, idverify.WithHTTPClient(h.http), idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1})))(t)
}

// get reads a PhoneCheck.
func (h *hostile) get(ctx context.Context, t testing.TB) error {
	return second(h.client(t).PhoneChecks.Get(ctx, "a"))
}

// list reads a page of PhoneChecks.
func (h *hostile) list(ctx context.Context, t testing.TB) error {
	return second(h.client(t).PhoneChecks.List(ctx, idverify.ListOptions{}))
}

// reach looks an address up.
func (h *hostile) reach(ctx context.Context, t testing.TB) error {
	return second(h.client(t).Reachability.Lookup(ctx, netip.MustParseAddr("192.0.2.1")))
}

// key looks a signing key up.
func (h *hostile) key(ctx context.Context, t testing.TB) error {
	keys := must(signature.NewJWKS(h.base+keySetPath, &signature.JWKSOptions{HTTPClient: h.http}))(t)
	return second(keys.PublicKey(ctx, "key-1"))
}

// counted counts what a handler writes.
type counted struct {
	http.ResponseWriter
	h *hostile
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.h.written.Add(int64(n))
	return n, err
}

func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// The attacks.

// endless answers with a body that never ends.
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

// bomb answers with a body that unpacks to a thousand times its size, and never ends either.
func bomb(status int) http.HandlerFunc {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write(make([]byte, mib))
	z.Close()
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(status)
		for {
			if _, err := w.Write(packed.Bytes()); err != nil {
				return
			}
		}
	}
}

// raw takes the connection over and writes text once, and then repeats again until it is cut, with a pause before each.
func raw(text, again string, pause time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		for next := text; ; next = again {
			n, err := io.WriteString(conn, next)
			w.(*counted).h.written.Add(int64(n))
			if err != nil {
				return
			}
			if pause > 0 {
				time.Sleep(pause) // a bubble's time: only the tests of slow answers pause
			}
		}
	}
}

// answering answers with body.
func answering(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }
}

// packed answers with body, compressed.
func packed(body string) http.HandlerFunc {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, body)
	z.Close()
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(b.Bytes())
	}
}

// pageOf is a page of n items, and keysOf a set of n keys.
func pageOf(n int, item string) string {
	return `{"page":{"number":1,"total_pages":1},"_embedded":{"checks":[` + strings.Repeat(item+",", n) + item + `]}}`
}

func keysOf(n int, key string) string {
	return `{"keys":[` + strings.Repeat(key+",", n) + key + `]}`
}

const (
	kib = 1 << 10
	mib = 1 << 20
	// buffers is what a connection may hold of an answer that nobody reads any more, in net/http, in TLS and in memory.
	buffers = 256 * kib
)

// TestHostileAnswersCostBoundedMemory is not parallel: it measures what this process allocates, and must be alone in it.
func TestHostileAnswersCostBoundedMemory(t *testing.T) {
	hugeKey := `{"keys":[{"kty":"RSA","kid":"key-1","e":"AQAB","n":"` + strings.Repeat("A", mib-100) + `"}]}`
	for _, tt := range []struct {
		name             string
		attack           attack
		do               func(*hostile, context.Context, testing.TB) error
		taken, allocated int64 // bytes, at most
	}{
		{"an answer without end", attack{answer: endless(200)}, (*hostile).get, 10*mib + buffers, 128 * mib},
		{"a refusal without end", attack{answer: endless(500)}, (*hostile).get, 1*mib + buffers, 16 * mib},
		{"a compressed bomb", attack{answer: bomb(200)}, (*hostile).get, buffers, 128 * mib},
		{"a compressed bomb as refusal", attack{answer: bomb(403)}, (*hostile).get, buffers, 16 * mib},
		{"a token without end", attack{token: endless(200)}, (*hostile).get, 1*mib + buffers, 16 * mib},
		{"a refused token without end", attack{token: endless(401)}, (*hostile).get, 1*mib + buffers, 16 * mib},
		{"a compressed bomb as token", attack{token: bomb(200)}, (*hostile).get, buffers, 16 * mib},
		{"a header without end", attack{answer: raw("HTTP/1.1 200 OK\r\nX-A: ", strings.Repeat("a", 32*kib), 0)}, (*hostile).get, 1*mib + buffers, 32 * mib},
		{"headers without end", attack{answer: raw("HTTP/1.1 200 OK\r\n", strings.Repeat("X-A: a\r\n", 4*kib), 0)}, (*hostile).get, 1*mib + buffers, 32 * mib},
		{"early hints without end", attack{answer: raw("", "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n", 0)}, (*hostile).get, 1*mib + buffers, 32 * mib},
		{"JSON of great depth", attack{answer: answering(strings.Repeat(`{"a":`, mib))}, (*hostile).get, 6 * mib, 80 * mib},
		{"a number of great length", attack{answer: answering(`{"check_id":"a","status":"PENDING","ttl":` + strings.Repeat("9", mib) + `}`)}, (*hostile).get, 2 * mib, 40 * mib},
		{"a redirect without end", attack{answer: endless(302)}, (*hostile).get, 1*mib + buffers, 16 * mib},
		{"a page of three million things", attack{answer: answering(pageOf(3*mib, "{}"))}, (*hostile).list, 10 * mib, 160 * mib},
		{"a page of three million things, compressed", attack{answer: packed(pageOf(3*mib, "{}"))}, (*hostile).list, buffers, 128 * mib},
		{"a page of as many things as may be", attack{answer: answering(pageOf(32_000, "{}"))}, (*hostile).list, 1 * mib, 64 * mib},
		{"a page of as many numbers as may be", attack{answer: answering(pageOf(65_000, "0"))}, (*hostile).list, 1 * mib, 128 * mib},
		{"three million products", attack{answer: answering(`{"products":[` + strings.Repeat("{},", 3*mib) + `{}]}`)}, (*hostile).reach, 10 * mib, 160 * mib},

		{"a key set without end", attack{keySet: endless(200)}, (*hostile).key, 1*mib + buffers, 16 * mib},
		{"a refused key set without end", attack{keySet: endless(500)}, (*hostile).key, buffers, 4 * mib},
		{"a compressed bomb as key set", attack{keySet: bomb(200)}, (*hostile).key, buffers, 16 * mib},
		{"a key set of great depth", attack{keySet: answering(`{"keys":` + strings.Repeat("[", mib-10))}, (*hostile).key, 1 * mib, 32 * mib},
		{"a redirect of the key set without end", attack{keySet: endless(302)}, (*hostile).key, buffers, 4 * mib},
		{"half a million numbers as keys", attack{keySet: answering(keysOf(mib/2-kib, "0"))}, (*hostile).key, 1 * mib, 16 * mib},
		{"18,000 keys that are none", attack{keySet: answering(keysOf(18_000, `{"kty":"RSA"}`))}, (*hostile).key, 1 * mib, 16 * mib},
		{"as many keys that are none as may be", attack{keySet: answering(keysOf(2_000, `{"kty":"RSA"}`))}, (*hostile).key, 1 * mib, 32 * mib},
		{"as many numbers as keys as may be", attack{keySet: answering(keysOf(4_000, "0"))}, (*hostile).key, 1 * mib, 32 * mib},
		{"a key of six million bits", attack{keySet: answering(hugeKey)}, (*hostile).key, 1 * mib, 64 * mib},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHostile(t, tt.attack)
			allocated := allocatedBytes()

			err := tt.do(h, t.Context(), t)

			allocated = allocatedBytes() - allocated
			if err == nil {
				t.Error("no error")
			}
			if len(fmt.Sprint(err)) > 2*kib {
				t.Errorf("the error is %d bytes long: nobody wants the attack in the log", len(fmt.Sprint(err)))
			}
			if written := h.written.Load(); written > tt.taken {
				t.Errorf("%d bytes were taken, want %d at most", written, tt.taken)
			}
			if allocated > tt.allocated {
				t.Errorf("%d bytes were allocated, want %d at most", allocated, tt.allocated)
			}
			t.Logf("%d KiB taken, %d KiB allocated: %v", h.written.Load()/kib, allocated/kib, err)
		})
	}
}

func allocatedBytes() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.TotalAlloc)
}

// TestSlowAnswersTakeTheCallersTimeAtMost drips answers at a byte a second. Without a deadline the caller's http.Client ends them, and for tokens and keys bounds of our own.
func TestSlowAnswersTakeTheCallersTimeAtMost(t *testing.T) {
	t.Parallel()
	const body = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n{"
	silence := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for _, tt := range []struct {
		name    string
		attack  attack
		do      func(*hostile, context.Context, testing.TB) error
		unasked time.Duration // how long it takes at most when the caller sets no deadline
	}{
		{"silence", attack{answer: silence}, (*hostile).get, 30 * time.Second},
		{"a dripping header", attack{answer: raw("HTTP/1.1 200 OK\r\nX-A: ", "a", time.Second)}, (*hostile).get, 30 * time.Second},
		{"dripping early hints", attack{answer: raw("", "HTTP/1.1 103 Early Hints\r\n\r\n", time.Second)}, (*hostile).get, 30 * time.Second},
		{"a dripping body", attack{answer: raw(body, " ", time.Second)}, (*hostile).get, 30 * time.Second},
		{"a dripping refusal", attack{answer: raw(strings.Replace(body, "200", "500", 1), " ", time.Second)}, (*hostile).get, 30 * time.Second},
		{"a silent token", attack{token: silence}, (*hostile).get, 30 * time.Second},
		{"a dripping token", attack{token: raw(body, " ", time.Second)}, (*hostile).get, 30 * time.Second},
		{"a silent key set", attack{keySet: silence}, (*hostile).key, 3 * time.Second},
		{"a dripping key set", attack{keySet: raw(body, " ", time.Second)}, (*hostile).key, 3 * time.Second},
	} {
		for _, deadline := range []time.Duration{2 * time.Second, 0} {
			t.Run(fmt.Sprint(tt.name, ", deadline ", deadline), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					h := newHostile(t, tt.attack)
					ctx, cancel, want := t.Context(), func() {}, tt.unasked
					if deadline > 0 {
						ctx, cancel = context.WithTimeout(ctx, deadline)
						want = deadline
					}
					defer cancel()
					begun := time.Now()

					err := tt.do(h, ctx, t)

					if took := time.Since(begun); took > want {
						t.Errorf("it took %v, want %v at most", took, want)
					}
					// Of a refusal the status is there, which is worth more than the news that its reasons are late.
					if _, refused := errors.AsType[*idverify.Error](err); err == nil || deadline > 0 && !refused && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("error %v, want context.DeadlineExceeded", err)
					}
				})
			})
		}
	}
}

// TestNothingFollowsARedirect: credentials and tokens stay with the path that was asked for, wherever an answer points.
func TestNothingFollowsARedirect(t *testing.T) {
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
				good := newHostile(t, attack{answer: redirect})
				toToken := &hostile{base: base, http: srv.HTTPClient()}
				keys := must(signature.NewJWKS(base+keySetPath, &signature.JWKSOptions{HTTPClient: srv.HTTPClient()}))(t)

				getErr := good.get(t.Context(), t)
				createErr := second(good.client(t).PhoneChecks.Create(t.Context(), aCheck))
				tokenErr := toToken.get(t.Context(), t)
				_, keyErr := keys.PublicKey(t.Context(), "key-1")

				if getErr == nil || createErr == nil || tokenErr == nil || !errors.Is(keyErr, signature.ErrKeySource) {
					t.Errorf("get: %v; create: %v; token: %v; key: %v; want errors", getErr, createErr, tokenErr, keyErr)
				}
				most := int32(0)
				if location == "/again" {
					most = 5 // a key set may move on its own host, and no credentials go with it
				}
				if n := elsewhere.Load(); n > most {
					t.Errorf("%d requests went where the redirect points, want %d at most", n, most)
				}
			})
		}
	}
}

// TestHostileRedirectsOfADeviceCostBoundedMemory is not parallel, like the test of answers. Whoever knows the redirect URL can open it with a query of their own; net/http lets a megabyte of it through.
func TestHostileRedirectsOfADeviceCostBoundedMemory(t *testing.T) {
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
				t.Errorf("error %v, want ErrMalformed", err)
			}
			if allocated = allocatedBytes() - allocated; allocated > 8*mib {
				t.Errorf("%d bytes were allocated for a query of 1 MiB, want 8 MiB at most", allocated)
			}
		})
	}
}
