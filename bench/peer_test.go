package bench

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-fed/httpsig"
	"github.com/idverify/idverify-go/signature"
)

// message is a signed callback of 300 bytes that both libraries verify again and again.
type message struct {
	key     *rsa.PrivateKey
	request *http.Request
	body    []byte
	reader  *bytes.Reader
	restore io.ReadCloser
}

func newMessage(b *testing.B) *message {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		b.Fatal(err)
	}
	signer, err := signature.NewSigner("key-1", key, &signature.SignerOptions{Base64Digest: true})
	if err != nil {
		b.Fatal(err)
	}
	m := &message{key: key, body: []byte(`{"check_id":"c1","pad":"` + strings.Repeat("a", 274) + `"}`), reader: bytes.NewReader(nil)}
	m.request = httptest.NewRequest(http.MethodPost, "/callbacks", nil)
	m.request.Host = "api.example.com"
	m.request.Header.Set("x-service-callback", "phone_check")
	if err := signer.SignCallback(m.request, m.body); err != nil {
		b.Fatal(err)
	}
	m.request.Header.Set("Host", m.request.Host) // where the peer looks for it
	m.restore = io.NopCloser(m.reader)
	return m
}

func (m *message) rewind() *http.Request {
	m.reader.Reset(m.body)
	m.request.Body = m.restore
	return m.request
}

// BenchmarkRawRSA is the one verification that cannot be saved.
func BenchmarkRawRSA(b *testing.B) {
	m := newMessage(b)
	sum := sha256.Sum256(m.body)
	sig, err := rsa.SignPKCS1v15(nil, m.key, crypto.SHA256, sum[:])
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := rsa.VerifyPKCS1v15(&m.key.PublicKey, crypto.SHA256, sum[:], sig); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSignature has every rule: coverage, host, skew, digest, body limit.
func BenchmarkSignature(b *testing.B) {
	m := newMessage(b)
	v, err := signature.NewVerifier(signature.StaticKeys{"key-1": &m.key.PublicKey}, []string{m.request.Host}, &signature.VerifierOptions{ClockSkew: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.VerifyCallback(m.rewind()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGoFedHTTPSig has the signature, and a digest check by hand; no rule about coverage, host, date or size.
func BenchmarkGoFedHTTPSig(b *testing.B) {
	m := newMessage(b)
	b.ReportAllocs()
	for b.Loop() {
		r := m.rewind()
		v, err := httpsig.NewVerifier(r)
		if err != nil {
			b.Fatal(err)
		}
		if v.KeyId() != "key-1" {
			b.Fatal("another key")
		}
		if err := v.Verify(&m.key.PublicKey, httpsig.RSA_SHA256); err != nil {
			b.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			b.Fatal(err)
		}
		sum := sha256.Sum256(body)
		want := "SHA-256=" + base64.StdEncoding.EncodeToString(sum[:])
		if subtle.ConstantTimeCompare([]byte(want), []byte(r.Header.Get("Digest"))) != 1 {
			b.Fatal("another body")
		}
	}
}
