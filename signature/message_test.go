package signature_test

import (
	"crypto"
	"crypto/fips140"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/internal/attack"
	"github.com/idverify/idverify-go/signature"
)

// TestVerifier_CoveredValueBytes checks every byte in a covered header. A value must not contain a
// line break, which would add a line to the signing string.
func TestVerifier_CoveredValueBytes(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, signature.VerifierOptions{})
	for i := range 256 {
		if i > '0' && i < 'z' {
			continue // signing is slow
		}
		kind := "phone" + string([]byte{byte(i)}) + "check"
		w := newCallback()
		w.Set("X-Service-Callback", kind)
		w.Sign()
		w.Set("X-Service-Callback", "phone_check")
		r := request(t, w)
		r.Header.Set("X-Service-Callback", kind) // net/http would reject some bytes

		m, err := v.VerifyCallback(r)

		if valid := i >= ' ' && i != 0x7f || i == '\t'; valid && (err != nil || m.Product != kind) {
			t.Errorf("byte %#x: error = %v, want none", i, err)
		} else if !valid && !errors.Is(err, signature.ErrMalformed) {
			t.Errorf("byte %#x: error = %v, want ErrMalformed", i, err)
		}
	}
}

// TestVerifier_TargetBytes checks every byte in a signed request target.
func TestVerifier_TargetBytes(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, signature.VerifierOptions{})
	for i := range 256 {
		if i > '0' && i < 'z' {
			continue // signing is slow
		}
		w := newCallback()
		w.Target = "/a" + string([]byte{byte(i)}) + "b"
		w.Sign()
		target := w.Target
		w.Target = "/"
		r := request(t, w)
		r.RequestURI = target // net/http would reject some bytes

		_, err := v.VerifyCallback(r)

		if valid := i > ' ' && i != 0x7f; valid && err != nil {
			t.Errorf("byte %#x: error = %v, want none", i, err)
		} else if !valid && !errors.Is(err, signature.ErrMalformed) {
			t.Errorf("byte %#x: error = %v, want ErrMalformed", i, err)
		}
	}
}

func TestVerifier_TargetForms(t *testing.T) {
	t.Parallel()
	const max = 64 << 10
	for _, tt := range []struct {
		name, signed, sent string
		want               error
	}{
		{"64 KiB", "/" + strings.Repeat("a", max-1), "", nil},
		{"64 KiB and 1 byte", "/" + strings.Repeat("a", max), "", signature.ErrMalformed},
		{"absolute form, http", target, "http://" + host + target, nil},
		{"absolute form, upper case", target, "HTTPS://API.EXAMPLE.COM:443" + target, nil},
		{"absolute form without path", "/", "https://" + host, nil},
		{"absolute form with query only", "/?a=/b", "https://" + host + "?a=/b", nil},
		{"escaped slash", "/callbacks%2Fphone?x=%2f", "", nil},
		{"malformed query", "/callbacks?%zz&&=&;a=b", "", nil},
		{"empty query", "/callbacks?", "", nil},
		{"absolute form without host", target, "https://" + target, signature.ErrHost},
		{"scheme alone", "https", "", signature.ErrMalformed},
		{"authority form", host + ":443", "", signature.ErrMalformed},
		{"relative path", "callbacks", "", signature.ErrMalformed},
		{"unsupported scheme", target, "ws://" + host + target, signature.ErrMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newCallback()
			w.Target = tt.signed
			w.Sign()
			w.Target = "/"
			r := request(t, w)
			r.RequestURI = tt.sent
			if tt.sent == "" {
				r.RequestURI = tt.signed
			}

			_, err := newVerifier(t, signature.VerifierOptions{}).VerifyCallback(r)

			if !errors.Is(err, tt.want) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
		})
	}
}

// TestVerifier_ClientRequest verifies client requests, which contain the host and the target in
// URL.
func TestVerifier_ClientRequest(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, signature.VerifierOptions{})
	fromURL := callbackRequest(t, "https://"+host+target)
	sign(t, fromURL, body)
	fromURL.Host = ""
	if _, err := v.VerifyCallback(fromURL); err != nil {
		t.Errorf("host only in URL: error = %v, want none", err)
	}

	bare := request(t, signedCallback())
	bare.Host, bare.URL = "", nil
	if _, err := v.VerifyCallback(bare); !errors.Is(err, signature.ErrHost) {
		t.Errorf("no Host and no URL: error = %v, want ErrHost", err)
	}
}

// TestVerifier_NamesRequiredHeader checks that the error contains the name of a required header,
// but no name that the sender chose.
func TestVerifier_NamesRequiredHeader(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		header string // default if empty
		signed func(*attack.Message)
		sent   func(*attack.Message)
		want   string
	}{
		{"no date", "", nil, drop("Date"), "required header date must occur exactly once (does a proxy remove or repeat it?)"},
		{"two digests", "", nil, add("Digest", attack.Digest("other")), "required header digest must occur exactly once (does a proxy remove or repeat it?)"},
		{"no kind", "", nil, drop("X-Service-Callback"), "required header x-service-callback must occur exactly once (check VerifierOptions.CallbackHeader and your proxy)"},
		{"another callback header", "X-Acme-Callback", nil, nil, "required header x-acme-callback must occur exactly once (check VerifierOptions.CallbackHeader and your proxy)"},
		{"missing covered header", "", covering(allCovered(" x-absent")), nil, "covered header must occur exactly once"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := newVerifier(t, signature.VerifierOptions{CallbackHeader: tt.header})
			w := newCallback()
			if tt.signed != nil {
				tt.signed(w)
			}
			w.Sign()
			if tt.sent != nil {
				tt.sent(w)
			}

			_, err := v.VerifyCallback(request(t, w))

			if want := "signature: callback rejected: " + tt.want; err == nil || err.Error() != want {
				t.Errorf("error = %v, want %q", err, want)
			}
		})
	}
}

// TestVerifier_CallbackHeaderBytes checks every byte in the name of the callback header.
func TestVerifier_CallbackHeaderBytes(t *testing.T) {
	t.Parallel()
	const token = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for i := range 256 {
		name := "x-a" + string([]byte{byte(i)})

		_, err := signature.NewVerifier(serviceKeys(), []string{host}, &signature.VerifierOptions{CallbackHeader: name})

		if valid := strings.IndexByte(token, byte(i)) >= 0; (err == nil) != valid {
			t.Errorf("byte %#x: error = %v, want valid: %v", i, err, valid)
		}
	}
}

// TestDecodeParameter checks every byte in a decoded parameter, an empty one, and the character of
// base64 that means a space in a query.
func TestDecodeParameter(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{"": "", "fn5+": "~~~", "fn5%2B": "~~~", "fn5%2b": "~~~"} {
		if got, ok := signature.DecodeParameter(value); got != want || ok != (want != "") {
			t.Errorf("%q: got %q, %v; want %q", value, got, ok, want)
		}
	}
	for i := range 256 {
		text := "a" + string([]byte{byte(i)})

		got, ok := signature.DecodeParameter(base64.StdEncoding.EncodeToString([]byte(text)))

		if valid := ' ' <= i && i <= '~'; ok != valid || ok && got != text {
			t.Errorf("byte %#x: %q, %v; want valid: %v", i, got, ok, valid)
		}
	}
}

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
	parsed := must(x509.ParsePKIXPublicKey(block.Bytes))(t)
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

			auth := must(signature.ParseAuthorization(`Signature keyId="Test",algorithm="rsa-sha256",headers="` + v.headers + `",signature="` + v.signature + `"`))(t)
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
