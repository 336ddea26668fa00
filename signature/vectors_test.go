package signature_test

import (
	"crypto"
	"crypto/fips140"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/signature"
)

// vectorKey is the public key of draft-cavage-http-signatures-12, appendix C. It has 1024 bits,
// which a Verifier rejects.
const vectorKey = `-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDCFENGw33yGihy92pDjZQhl0C3
6rPJj+CvfSC8+q28hxA161QFNUd13wuCTUcq0Qd2qsBe/2hFyc2DCJJg0h1L78+6
Z4UMR7EOcpfdUE9Hf3m/hs+FUR45uBJeDK1HSFHD8bHKD6kv8FPGfJTotc+2xjJw
oYi+1hqp1fIekaxsyQIDAQAB
-----END PUBLIC KEY-----`

// vectors are the test vectors of appendix C.1 to C.3. C.1 has no parameter headers, which means
// date; this package requires the parameter.
var vectors = []struct{ name, headers, signature string }{
	{"C.1 default", "date", "SjWJWbWN7i0wzBvtPl8rbASWz5xQW6mcJmn+ibttBqtifLN7Sazz6m79cNfwwb8DMJ5cou1s7uEGKKCs+FLEEaDV5lp7q25WqS+lavg7T8hc0GppauB6hbgEKTwblDHYGEtbGmtdHgVCk9SuS13F0hZ8FD0k/5OxEPXe5WozsbM="},
	{"C.2 basic", "(request-target) host date", "qdx+H7PHHDZgy4y/Ahn9Tny9V3GP6YgBPyUXMmoxWtLbHpUnXS2mg2+SbrQDMCJypxBLSPQR2aAjn7ndmw2iicw3HMbe8VfEdKFYRqzic+efkb3nndiv/x1xSHDJWeSWkx3ButlYSuBskLu6kd9Fswtemr3lgdDEmn04swr2Os0="},
	{"C.3 all headers", "(request-target) host date content-type digest content-length", "vSdrb+dS3EceC9bcwHSo4MlyKS59iFIrhgYkz8+oVLEEzmYZZvRs8rgOp+63LEM3v+MFHB32NfpB2bEKBIvB1q52LaEUHFv120V01IL+TAD48XaERZFukWgHoBTLMhYS2Gb51gWxpeIq8knRmPnYePbF5MOkR0Zkly4zKH7s1dE="},
}

func TestSigningString_DraftVectors(t *testing.T) {
	t.Parallel()
	block, _ := pem.Decode([]byte(vectorKey))
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	key := parsed.(*rsa.PublicKey)
	const (
		target = "/foo?param=value&pet=dog"
		date   = "Sun, 05 Jan 2014 21:31:40 GMT"
		body   = `{"hello": "world"}`
		digest = "SHA-256=X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE="
	)
	header := http.Header{"Content-Type": {"application/json"}, "Digest": {digest}, "Content-Length": {"18"}}
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()

			auth, err := signature.ParseAuthorization(`Signature keyId="Test",algorithm="rsa-sha256",headers="` + v.headers + `",signature="` + v.signature + `"`)
			if err != nil {
				t.Fatal(err)
			}
			text, err := signature.SigningString("post", target, "example.com", date, header, auth.Covered)
			if err != nil {
				t.Fatal(err)
			}

			sum := sha256.Sum256(text)
			// The key of the vectors has 1024 bits, which GODEBUG=fips140=only forbids.
			fips140.WithoutEnforcement(func() {
				err = rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], auth.Signature)
			})
			if err != nil {
				t.Errorf("signature does not verify for the signing string:\n%s", text)
			}
			if base64.StdEncoding.EncodeToString(auth.Signature) != v.signature || strings.Join(auth.Covered, " ") != v.headers || auth.KeyID != "Test" {
				t.Errorf("Authorization = %+v, want the values of the vector", auth)
			}
		})
	}
	if sum, ok := signature.ParseDigest(digest); !ok || sum != sha256.Sum256([]byte(body)) {
		t.Errorf("digest does not match the body of the vectors")
	}
}
