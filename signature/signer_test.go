package signature_test

import (
	"bytes"
	"crypto/rsa"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/signature"
)

// callbackRequest returns an unsigned callback as a client request.
func callbackRequest(tb testing.TB, url string) *http.Request {
	tb.Helper()
	r := must(http.NewRequest(http.MethodPost, url, nil))(tb)
	r.Header.Set("x-service-callback", "subscriber_check")
	return r
}

func TestSigner_SignCallback(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		signer   signature.SignerOptions
		verifier signature.VerifierOptions
	}{
		"default options": {},
		"base64 digest":   {signer: signature.SignerOptions{Base64Digest: true}},
		"custom header":   {signature.SignerOptions{CallbackHeader: "X-Acme-Callback"}, signature.VerifierOptions{CallbackHeader: "x-acme-callback"}},
	} {
		for _, body := range []string{body, "", strings.Repeat("ä", 100_000)} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var got received
				srv := serve(t, func(host string) http.Handler {
					return verifierFor(t, serviceKeys(), tt.verifier, host).RequireCallback(recorder(&got))
				})
				r := callbackRequest(t, srv.URL+"/callbacks/a%2Fb?x=1&x=%20")
				if tt.signer.CallbackHeader != "" {
					r.Header.Set(tt.signer.CallbackHeader, "subscriber_check")
				}

				noError(t, newSigner(t, tt.signer).SignCallback(r, []byte(body)))
				status, _, _ := send(t, srv.Client(), r)

				if status != http.StatusNoContent || got.Body != body || got.Product != "subscriber_check" {
					t.Errorf("response = %d, want 204 and the signed callback", status)
				}
				if r.ContentLength != int64(len(body)) || r.Header.Get("Content-Type") != "application/json" {
					t.Errorf("Content-Length = %d, Content-Type = %q; want the length of the body and application/json", r.ContentLength, r.Header.Get("Content-Type"))
				}
			})
		}
	}
}

func TestSigner_SignsRequestTwice(t *testing.T) {
	t.Parallel()
	r := callbackRequest(t, "https://"+host+target)
	r.Header.Set("Content-Type", "application/vnd.acme+json")
	s := newSigner(t, signature.SignerOptions{})

	for range 2 {
		noError(t, s.SignCallback(r, []byte(body)))
	}

	again := must(r.GetBody())(t)
	if got, _ := io.ReadAll(again); string(got) != body {
		t.Errorf("GetBody returns %q, want the body", got)
	}
	if n := len(r.Header["Authorization"]) + len(r.Header["Date"]) + len(r.Header["Digest"]); n != 3 {
		t.Errorf("signed twice: %d values of Authorization, Date and Digest, want 3", n)
	}
	if r.Header.Get("Content-Type") != "application/vnd.acme+json" {
		t.Error("the existing Content-Type was overwritten")
	}
	if _, err := newVerifier(t, signature.VerifierOptions{}).VerifyCallback(r); err != nil {
		t.Error(err)
	}
}

func TestSigner_SignRedirect(t *testing.T) {
	t.Parallel()
	for _, query := range unusualQueries {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			u := &url.URL{Scheme: "https", Host: host, Path: "/back/a b", RawQuery: query}

			noError(t, newSigner(t, signature.SignerOptions{}).SignRedirect(u))

			if !strings.HasPrefix(u.RawQuery, query+"&authorization=") || strings.Contains(u.RawQuery[len(query):], "+") {
				t.Errorf("query = %q, want the original one with escaped parameters appended", u.RawQuery)
			}
			w := newRedirect()
			w.Drop("Date")
			w.Target = u.RequestURI()
			if _, err := newVerifier(t, signature.VerifierOptions{}).VerifyRedirect(request(t, w)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSigner_RejectsInvalidMessages also checks that a failure leaves a message unchanged.
func TestSigner_RejectsInvalidMessages(t *testing.T) {
	t.Parallel()
	s := newSigner(t, signature.SignerOptions{})
	rejects := func(name string, s *signature.Signer, u *url.URL) {
		before := *u
		if err := s.SignRedirect(u); !isSignError(err, "redirect") || *u != before {
			t.Errorf("%q: error = %v, URL = %s; want an error and an unchanged URL", name, err, u)
		}
	}
	for name, raw := range map[string]string{
		"no host":                "/back?check_id=c1",
		"no check_id":            "https://" + host + "/back",
		"two check_ids":          "https://" + host + "/back?check_id=c1&check_id=c2",
		"existing authorization": "https://" + host + "/back?check_id=c1&authorization=x",
		"existing date":          "https://" + host + "/back?check_id=c1&d%61te=x",
		"opaque URL":             "mailto:me",
	} {
		u := must(url.Parse(raw))(t)
		rejects(name, s, u)
	}
	for _, query := range []string{"check_id=c1&a=b c", "check_id=c1\n"} {
		rejects(query, s, &url.URL{Scheme: "https", Host: host, Path: "/back", RawQuery: query})
	}
	broken := *keys()["service-1"]
	broken.D = big.NewInt(3)
	broken.Precomputed = rsa.PrecomputedValues{}
	faulty := must(signature.NewSigner(keyID, &broken, nil))(t)
	rejects("broken key", faulty, &url.URL{Scheme: "https", Host: host, Path: "/back", RawQuery: "check_id=c1"})
	for name, change := range map[string]func(*http.Request){
		"GET":                 func(r *http.Request) { r.Method = http.MethodGet },
		"no kind":             func(r *http.Request) { r.Header.Del("x-service-callback") },
		"empty kind":          func(r *http.Request) { r.Header.Set("x-service-callback", "") },
		"two kinds":           func(r *http.Request) { r.Header.Add("x-service-callback", "phone_check") },
		"kind of two lines":   func(r *http.Request) { r.Header.Set("x-service-callback", "a\nb") },
		"no host":             func(r *http.Request) { r.Host, r.URL.Host = "", "" },
		"target of two lines": func(r *http.Request) { r.RequestURI = "/a\nb" },
		"broken key":          func(*http.Request) {},
	} {
		signer := s
		if name == "broken key" {
			signer = faulty
		}
		r := callbackRequest(t, "https://"+host+target)
		change(r)
		if err := signer.SignCallback(r, []byte(body)); !isSignError(err, "callback") || r.Header.Get("Authorization") != "" {
			t.Errorf("%s: error = %v, Authorization = %q; want an error and none", name, err, r.Header.Get("Authorization"))
		}
	}
}

// isSignError reports whether the text of err names the package and the operation once.
func isSignError(err error, kind string) bool {
	text, ok := strings.CutPrefix(fmt.Sprint(err), "signature: sign "+kind+": ")
	return ok && text != "" && !strings.HasPrefix(text, ":") && !strings.Contains(text, "signature: ")
}

func TestNewSigner_RejectsInvalidKeys(t *testing.T) {
	t.Parallel()
	good := keys()["service-1"]
	for _, id := range []string{"", `a"b`, `a\b`, "a\nb", "schlüssel", strings.Repeat("k", 257)} {
		if _, err := signature.NewSigner(id, good, nil); err == nil {
			t.Errorf("key ID %q: error = nil, want one", id)
		}
	}
	for _, name := range []string{"none", "weak", "oversized"} {
		if _, err := signature.NewSigner(keyID, keys()[name], nil); err == nil {
			t.Errorf("key %s: error = nil, want one", name)
		}
	}
	if _, err := signature.NewSigner(keyID, good, &signature.SignerOptions{CallbackHeader: "a b"}); err == nil {
		t.Error("invalid header name: error = nil, want one")
	}
	if _, err := signature.NewSigner(strings.Repeat("k", 256), keys()["strong"], nil); err != nil {
		t.Errorf("4096-bit key with a 256-byte ID: error = %v, want none", err)
	}
}

func TestSigner_SignsRequestURI(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/a%2Fb?x", bytes.NewReader(nil))
	r.Host = host
	r.Header.Set("x-service-callback", "phone_check")
	r.URL.Path, r.URL.RawPath = "/stripped", ""

	sign(t, r, body)

	if _, err := newVerifier(t, signature.VerifierOptions{}).VerifyCallback(r); err != nil {
		t.Error(err)
	}
}

func TestSigner_DigestForms(t *testing.T) {
	t.Parallel()
	for inBase64, want := range map[bool]string{
		false: "SHA-256=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		true:  "SHA-256=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
	} {
		r := callbackRequest(t, "https://"+host+target)

		noError(t, newSigner(t, signature.SignerOptions{Base64Digest: inBase64}).SignCallback(r, nil))

		if got := r.Header.Get("Digest"); got != want {
			t.Errorf("Base64Digest %v: digest = %q, want %q", inBase64, got, want)
		}
	}
}
