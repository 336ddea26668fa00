package signature_test

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/signature"
)

// benchBody is a callback's body of 300 bytes.
var benchBody = `{"check_id":"c1","status":"COMPLETED","match":true,"pad":"` + strings.Repeat("a", 300-60) + `"}`

// benchCallback returns a request that can be verified again and again, and the function that puts its body back.
func benchCallback(b *testing.B) (r *http.Request, rewind func()) {
	w := newCallback()
	w.target = "/callbacks"
	withBody(benchBody)(w)
	w.set("Digest", digestOf(benchBody))
	w.signCallback()
	r = w.request(b)
	content := []byte(benchBody)
	reader := bytes.NewReader(nil)
	body := io.NopCloser(reader)
	return r, func() {
		reader.Reset(content)
		r.Body = body
	}
}

// BenchmarkRawRSA is what all the others are measured against: the one RSA verification that cannot be saved.
func BenchmarkRawRSA(b *testing.B) {
	raw := rawRSA(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := raw(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOverRawRSA takes turns between the raw verification and each of the others and reports the medians' ratio, which a busy machine changes little.
func BenchmarkOverRawRSA(b *testing.B) {
	v := newVerifier(b, signature.VerifierOptions{})
	callback, rewind := benchCallback(b)
	redirect := signedRedirect().request(b)
	h := v.CallbackHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	w := discard{http.Header{}}
	raw := rawRSA(b)
	for _, bm := range []struct {
		name string
		run  func() error
	}{
		{"callback", func() error { rewind(); _, err := v.VerifyCallback(callback); return err }},
		{"handler", func() error { rewind(); h.ServeHTTP(w, callback); return nil }},
		{"redirect", func() error { _, err := v.VerifyRedirect(redirect); return err }},
	} {
		b.Run(bm.name, func(b *testing.B) {
			var raws, runs []time.Duration
			for b.Loop() {
				began := time.Now()
				if err := raw(); err != nil {
					b.Fatal(err)
				}
				between := time.Now()
				if err := bm.run(); err != nil {
					b.Fatal(err)
				}
				raws, runs = append(raws, between.Sub(began)), append(runs, time.Since(between))
			}
			slices.Sort(raws)
			slices.Sort(runs)
			b.ReportMetric(float64(runs[len(runs)/2])/float64(raws[len(raws)/2]), "x-raw")
		})
	}
}

// rawRSA is one verification and nothing else.
func rawRSA(b *testing.B) func() error {
	key := keys()["service-1"]
	sum := sha256.Sum256([]byte(benchBody))
	sig, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
	if err != nil {
		b.Fatal(err)
	}
	return func() error { return rsa.VerifyPKCS1v15(&key.PublicKey, crypto.SHA256, sum[:], sig) }
}

func BenchmarkVerifyCallback(b *testing.B) {
	v := newVerifier(b, signature.VerifierOptions{})
	r, rewind := benchCallback(b)
	b.ReportAllocs()
	for b.Loop() {
		rewind()
		if _, err := v.VerifyCallback(r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerifyCallbackParallel(b *testing.B) {
	v := newVerifier(b, signature.VerifierOptions{})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		r, rewind := benchCallback(b)
		for pb.Next() {
			rewind()
			if _, err := v.VerifyCallback(r); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkReplayClaim has a store in which claims run out as fast as they come.
func BenchmarkReplayClaim(b *testing.B) {
	store := signature.NewMemoryReplayStore(1 << 30)
	var id [32]byte
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		id[0], id[1], id[2], id[3] = byte(i), byte(i>>8), byte(i>>16), byte(i>>24)
		if _, err := store.Claim(b.Context(), id, 10*time.Millisecond); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerifyRedirect(b *testing.B) {
	v := newVerifier(b, signature.VerifierOptions{})
	r := signedRedirect().request(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.VerifyRedirect(r); err != nil {
			b.Fatal(err)
		}
	}
}

// discard is a ResponseWriter that keeps nothing.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

func BenchmarkCallbackHandler(b *testing.B) {
	v := newVerifier(b, signature.VerifierOptions{})
	h := v.CallbackHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m, ok := signature.MessageFromContext(r.Context()); !ok || len(m.Body) != len(benchBody) {
			b.Error("not verified")
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	r, rewind := benchCallback(b)
	w := discard{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		rewind()
		h.ServeHTTP(w, r)
	}
}

func BenchmarkJWKSKeyLookup(b *testing.B) {
	s := newKeyServer(b, jwk("a", "service-1"), jwk("b", "service-2"))
	j, err := signature.NewJWKS(s.srv.URL, &signature.JWKSOptions{HTTPClient: s.srv.Client()})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := j.PublicKey(b.Context(), "a"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRefuse(b *testing.B) {
	for _, bm := range []struct {
		name   string
		attack func(*wire)
	}{
		{"grammar", auth(`keyId="key-1",`, "")},
		{"host", toHost("api.example.net")},
		{"old date", dated(-time.Hour)},
		{"forged signature", func(w *wire) { w.setSignature(bytes.Repeat([]byte{1}, 256)) }},
	} {
		b.Run(bm.name, func(b *testing.B) {
			v := newVerifier(b, signature.VerifierOptions{})
			w := signedCallback()
			bm.attack(w)
			r := w.request(b)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := v.VerifyCallback(r); err == nil {
					b.Fatal("verified")
				}
			}
		})
	}
}

func BenchmarkSignCallback(b *testing.B) {
	s := newSigner(b, signature.SignerOptions{})
	r := callbackRequest(b, "https://"+host+target)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.SignCallback(r, []byte(benchBody)); err != nil {
			b.Fatal(err)
		}
	}
}
