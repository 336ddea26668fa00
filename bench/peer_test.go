package bench

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-fed/httpsig"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/signature"
)

// message is a signed callback with a body of 300 bytes, which both libraries verify repeatedly.
type message struct {
	key     *rsa.PrivateKey
	request *http.Request
	body    []byte
	reader  *bytes.Reader
	restore io.ReadCloser
}

func newMessage(b *testing.B) *message {
	key := must(rsa.GenerateKey(rand.Reader, 2048))(b)
	signer := must(signature.NewSigner("key-1", key, &signature.SignerOptions{Base64Digest: true}))(b)
	m := &message{key: key, body: []byte(`{"check_id":"c1","pad":"` + strings.Repeat("a", 274) + `"}`), reader: bytes.NewReader(nil)}
	m.request = httptest.NewRequest(http.MethodPost, "/callbacks", nil)
	m.request.Host = "api.example.com"
	m.request.Header.Set("x-service-callback", "phone_check")
	noError(b, signer.SignCallback(m.request, m.body))
	m.request.Header.Set("Host", m.request.Host) // go-fed/httpsig reads the host from this field
	m.restore = io.NopCloser(m.reader)
	return m
}

func (m *message) rewind() *http.Request {
	m.reader.Reset(m.body)
	m.request.Body = m.restore
	return m.request
}

// BenchmarkOverRawRSA compares each library with the RSA verification alone. It reports the ratio
// of their medians.
func BenchmarkOverRawRSA(b *testing.B) {
	m := newMessage(b)
	raw := m.rawRSA(b)
	for _, bm := range []struct {
		name string
		run  func() error
	}{
		{"signature", m.verifySignature(b)},
		{"go-fed-httpsig", m.verifyGoFed},
	} {
		b.Run(bm.name, func(b *testing.B) {
			// While the heap grows, most runs of the operation that allocates more use new memory, which
			// changes its median.
			for range 2000 {
				noError(b, cmp.Or(raw(), bm.run()))
			}
			tooltest.CompareTimes(b, "x-raw", raw, bm.run)
			b.ReportMetric(testing.AllocsPerRun(100, func() {
				noError(b, bm.run())
			}), "allocs")
		})
	}
}

// rawRSA returns a function that verifies one RSA signature.
func (m *message) rawRSA(b *testing.B) func() error {
	sum := sha256.Sum256(m.body)
	sig := must(rsa.SignPKCS1v15(nil, m.key, crypto.SHA256, sum[:]))(b)
	return func() error { return rsa.VerifyPKCS1v15(&m.key.PublicKey, crypto.SHA256, sum[:], sig) }
}

// verifySignature returns a function that applies all rules of package signature: coverage, host,
// clock skew, digest, body limit.
func (m *message) verifySignature(b *testing.B) func() error {
	v := must(signature.NewVerifier(signature.StaticKeys{"key-1": &m.key.PublicKey}, []string{m.request.Host}, &signature.VerifierOptions{ClockSkew: time.Hour}))(b)
	return func() error { _, err := v.VerifyCallback(m.rewind()); return err }
}

// verifyGoFed verifies the signature with go-fed/httpsig, and compares the digest itself. It does
// not check coverage, host, date or size.
func (m *message) verifyGoFed() error {
	r := m.rewind()
	v, err := httpsig.NewVerifier(r)
	if err != nil {
		return err
	}
	if v.KeyId() != "key-1" {
		return errors.New("unexpected key ID")
	}
	if err := v.Verify(&m.key.PublicKey, httpsig.RSA_SHA256); err != nil {
		return err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	want := "SHA-256=" + base64.StdEncoding.EncodeToString(sum[:])
	if subtle.ConstantTimeCompare([]byte(want), []byte(r.Header.Get("Digest"))) != 1 {
		return errors.New("digest does not match the body")
	}
	return nil
}
