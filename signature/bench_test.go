package signature_test

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/attack"
	"github.com/idverify/idverify-go/signature"
)

// benchBody is the body of a callback, about 300 bytes.
var benchBody = `{"check_id":"c1","status":"COMPLETED","match":true,"pad":"` + strings.Repeat("a", 300-60) + `"}`

// benchCallback returns a callback to path, changed by change unless that is nil, and a function
// that restores its body so that it can be verified again.
func benchCallback(tb testing.TB, path string, change func(*attack.Message)) (r *http.Request, rewind func()) {
	w := newCallback()
	w.Target = path
	withBody(benchBody)(w)
	w.Set("Digest", attack.Digest(benchBody))
	w.Sign()
	if change != nil {
		change(w)
	}
	r = request(tb, w)
	content := []byte(benchBody)
	reader := bytes.NewReader(nil)
	body := io.NopCloser(reader)
	return r, func() {
		reader.Reset(content)
		r.Body = body
	}
}

// BenchmarkOverRawRSA compares each operation with one RSA verification, which is the minimum. The
// two run alternately, and the ratio is that of their medians, which a busy machine affects little.
func BenchmarkOverRawRSA(b *testing.B) {
	v := newVerifier(b, signature.VerifierOptions{})
	verify := func(path string) func() error {
		r, rewind := benchCallback(b, path, nil)
		return func() error {
			rewind()
			_, err := v.VerifyCallback(r)
			return err
		}
	}
	reject := func(want error, change func(*attack.Message)) func() error {
		r, rewind := benchCallback(b, "/callbacks", change)
		return func() error {
			rewind()
			if _, err := v.VerifyCallback(r); !errors.Is(err, want) {
				return fmt.Errorf("error = %v, want %v", err, want)
			}
			return nil
		}
	}
	raw := rawRSA(b)
	for _, bm := range []struct {
		name  string
		times int // repetitions, so that fast operations are measurable
		run   func() error
	}{
		{"raw", 1, raw},
		{"callback", 1, verify("/callbacks")},
		{"callback-with-query", 1, verify(target)},
		{"handler", 1, handleCallback(b, v)},
		{"redirect", 1, verifyRedirect(b, v)},
		{"key-lookup", 500, lookUpKey(b)},
		{"replay-claim", 50, claim(b)},
		{"reject-grammar", 50, reject(signature.ErrMalformed, auth(`keyId="key-1",`, ""))},
		{"reject-host", 20, reject(signature.ErrHost, toHost("api.example.net"))},
		{"reject-old-date", 10, reject(signature.ErrSkew, dated(-time.Hour))},
		{"reject-forged", 1, reject(signature.ErrSignature, func(w *attack.Message) { w.SetSignature(bytes.Repeat([]byte{1}, 256)) })},
		{"sign-callback", 1, signCallback(b)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			takeTurns(b, raw, bm.run, bm.times)
			b.ReportMetric(allocations(b, bm.run), "allocs")
		})
	}
}

// takeTurns runs base once and other the given number of times, alternately. It reports the median
// time of other divided by that of base.
func takeTurns(b *testing.B, base, other func() error, times int) {
	b.Helper()
	turn := func() (forBase, forOther time.Duration) {
		began := time.Now()
		err := base()
		between := time.Now()
		for i := 0; err == nil && i < times; i++ {
			err = other()
		}
		ended := time.Now()
		if err != nil {
			b.Fatal(err)
		}
		return between.Sub(began), ended.Sub(between)
	}
	// The first use of a page of memory costs as much as the operation. While the heap grows, this
	// affects most turns of the operation that allocates more, and so its median.
	for range warmUp {
		turn()
	}
	var bases, others []time.Duration
	for b.Loop() {
		forBase, forOther := turn()
		bases, others = append(bases, forBase), append(others, forOther)
	}
	slices.Sort(bases)
	slices.Sort(others)
	b.ReportMetric(float64(others[len(others)/2])/float64(bases[len(bases)/2])/float64(times), "x-raw")
}

// warmUp is the number of turns after which the heap has reached its size.
const warmUp = 2000

func allocations(tb testing.TB, run func() error) float64 {
	tb.Helper()
	return testing.AllocsPerRun(100, func() { noError(tb, run()) })
}

// rawRSA returns a function that verifies one RSA signature.
func rawRSA(tb testing.TB) func() error {
	key := keys()["service-1"]
	sum := sha256.Sum256([]byte(benchBody))
	sig := must(rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:]))(tb)
	return func() error { return rsa.VerifyPKCS1v15(&key.PublicKey, crypto.SHA256, sum[:], sig) }
}

func handleCallback(b *testing.B, v *signature.Verifier) func() error {
	verified := 0
	h := v.RequireCallback(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m, ok := signature.MessageFromContext(r.Context()); ok && len(m.Body) == len(benchBody) {
			verified++
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	r, rewind := benchCallback(b, "/callbacks", nil)
	w := discard{http.Header{}}
	return func() error {
		rewind()
		before := verified
		h.ServeHTTP(w, r)
		if verified == before {
			return errors.New("not verified")
		}
		return nil
	}
}

// discard is an http.ResponseWriter that discards the response.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

func verifyRedirect(b *testing.B, v *signature.Verifier) func() error {
	r := request(b, signedRedirect())
	return func() error { _, err := v.VerifyRedirect(r); return err }
}

func lookUpKey(b *testing.B) func() error {
	s := newKeyServer(b, jwk("a", "service-1"), jwk("b", "service-2"))
	j := s.jwks(b, signature.JWKSOptions{Now: time.Now}) // as in production
	ctx := b.Context()
	return func() error { _, err := j.PublicKey(ctx, "a"); return err }
}

// claim returns a function that makes a claim. Claims expire as fast as they are made.
func claim(b *testing.B) func() error {
	store := signature.NewMemoryReplayStore(1 << 30)
	var id [32]byte
	i := 0
	ctx := b.Context()
	return func() error {
		i++
		id[0], id[1], id[2], id[3] = byte(i), byte(i>>8), byte(i>>16), byte(i>>24)
		if fresh, err := store.Claim(ctx, id, 10*time.Millisecond); err != nil || !fresh {
			return fmt.Errorf("claim: fresh = %v, error = %w", fresh, err)
		}
		return nil
	}
}

func signCallback(b *testing.B) func() error {
	s := newSigner(b, signature.SignerOptions{})
	r := callbackRequest(b, "https://"+host+target)
	content := []byte(benchBody)
	return func() error { return s.SignCallback(r, content) }
}

// BenchmarkVerifier_VerifyCallback is for profiles.
func BenchmarkVerifier_VerifyCallback(b *testing.B) {
	v := newVerifier(b, signature.VerifierOptions{})
	r, rewind := benchCallback(b, "/callbacks", nil)
	b.ReportAllocs()
	for b.Loop() {
		rewind()
		must(v.VerifyCallback(r))(b)
	}
}
