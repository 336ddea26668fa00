package signature_test

import (
	"bytes"
	"crypto/rsa"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/signature"
)

// callbackRequest is a client's request of a callback, not signed yet.
func callbackRequest(tb testing.TB, url string) *http.Request {
	tb.Helper()
	r, err := http.NewRequest(http.MethodPost, url, nil)
	if err != nil {
		tb.Fatal(err)
	}
	r.Header.Set("x-service-callback", "subscriber_check")
	return r
}

func TestSignedCallbacksVerifyOverTLS(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		signer   signature.SignerOptions
		verifier signature.VerifierOptions
	}{
		"by default":             {},
		"with a base64 digest":   {signer: signature.SignerOptions{Base64Digest: true}},
		"with a header of yours": {signature.SignerOptions{CallbackHeader: "X-Acme-Callback"}, signature.VerifierOptions{CallbackHeader: "x-acme-callback"}},
	} {
		for _, body := range []string{body, "", strings.Repeat("ä", 100_000)} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var got *signature.Message
				opts := tt.verifier
				opts.Now = clock
				srv := httptest.NewUnstartedServer(nil)
				v, err := signature.NewVerifier(serviceKeys(), []string{srv.Listener.Addr().String()}, &opts)
				if err != nil {
					t.Fatal(err)
				}
				srv.Config.Handler = v.CallbackHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					got, _ = signature.MessageFromContext(r.Context())
					w.WriteHeader(http.StatusNoContent)
				}))
				srv.StartTLS()
				defer srv.Close()
				r := callbackRequest(t, srv.URL+"/callbacks/a%2Fb?x=1&x=%20")
				if tt.signer.CallbackHeader != "" {
					r.Header.Set(tt.signer.CallbackHeader, "subscriber_check")
				}

				err = newSigner(t, tt.signer).SignCallback(r, []byte(body))
				if err != nil {
					t.Fatal(err)
				}
				response, err := srv.Client().Do(r)

				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				if response.StatusCode != http.StatusNoContent || got == nil || string(got.Body) != body || got.Kind != "subscriber_check" {
					t.Errorf("answered %d", response.StatusCode)
				}
				if r.ContentLength != int64(len(body)) || r.Header.Get("Content-Type") != "application/json" {
					t.Errorf("a callback has a Content-Length and a Content-Type, got %d and %q", r.ContentLength, r.Header.Get("Content-Type"))
				}
			})
		}
	}
}

func TestASignedRequestCanBeSentAgain(t *testing.T) {
	t.Parallel()
	r := callbackRequest(t, "https://"+host+target)
	r.Header.Set("Content-Type", "application/vnd.acme+json")
	s := newSigner(t, signature.SignerOptions{})

	for range 2 {
		if err := s.SignCallback(r, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}

	again, err := r.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := io.ReadAll(again); string(got) != body {
		t.Errorf("GetBody gives %q", got)
	}
	if n := len(r.Header["Authorization"]) + len(r.Header["Date"]) + len(r.Header["Digest"]); n != 3 {
		t.Errorf("signing twice leaves %d headers where one each is right", n)
	}
	if r.Header.Get("Content-Type") != "application/vnd.acme+json" {
		t.Error("a Content-Type that was set is overwritten")
	}
	if _, err := newVerifier(t, signature.VerifierOptions{}).VerifyCallback(r); err != nil {
		t.Error(err)
	}
}

func TestSignedRedirectsVerifyAndKeepTheirQuery(t *testing.T) {
	t.Parallel()
	for _, query := range unusualQueries {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			u := &url.URL{Scheme: "https", Host: host, Path: "/back/a b", RawQuery: query}

			if err := newSigner(t, signature.SignerOptions{}).SignRedirect(u); err != nil {
				t.Fatal(err)
			}

			if !strings.HasPrefix(u.RawQuery, query+"&authorization=") || strings.Contains(u.RawQuery[len(query):], "+") {
				t.Errorf("query %q", u.RawQuery)
			}
			w := newRedirect()
			w.drop("Date")
			w.target = u.RequestURI()
			if _, err := newVerifier(t, signature.VerifierOptions{}).VerifyRedirect(w.request(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTheSignerRefusesWhatNoVerifierWouldTake(t *testing.T) {
	t.Parallel()
	s := newSigner(t, signature.SignerOptions{})
	for name, raw := range map[string]string{
		"no host":                   "/back?check_id=c1",
		"no check_id":               "https://" + host + "/back",
		"two check ids":             "https://" + host + "/back?check_id=c1&check_id=c2",
		"an authorization of yours": "https://" + host + "/back?check_id=c1&authorization=x",
		"a date of yours":           "https://" + host + "/back?check_id=c1&d%61te=x",
		"an opaque URL":             "mailto:me",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SignRedirect(u); err == nil || u.String() != raw {
			t.Errorf("%s: error %v, URL %s", name, err, u)
		}
	}
	for name, change := range map[string]func(*http.Request){
		"a GET":                 func(r *http.Request) { r.Method = http.MethodGet },
		"no kind":               func(r *http.Request) { r.Header.Del("x-service-callback") },
		"an empty kind":         func(r *http.Request) { r.Header.Set("x-service-callback", "") },
		"two kinds":             func(r *http.Request) { r.Header.Add("x-service-callback", "phone_check") },
		"a kind of two lines":   func(r *http.Request) { r.Header.Set("x-service-callback", "a\nb") },
		"no host":               func(r *http.Request) { r.Host, r.URL.Host = "", "" },
		"a target of two lines": func(r *http.Request) { r.RequestURI = "/a\nb" },
	} {
		r := callbackRequest(t, "https://"+host+target)
		change(r)
		if err := s.SignCallback(r, []byte(body)); err == nil || r.Header.Get("Authorization") != "" {
			t.Errorf("%s: error %v, Authorization %q", name, err, r.Header.Get("Authorization"))
		}
	}
}

func TestNewSignerRefusesKeysThatNoVerifierWouldTake(t *testing.T) {
	t.Parallel()
	good := keys()["service-1"]
	for _, id := range []string{"", `a"b`, `a\b`, "a\nb", "schlüssel", strings.Repeat("k", 257)} {
		if _, err := signature.NewSigner(id, good, nil); err == nil {
			t.Errorf("the key id %q is taken", id)
		}
	}
	for _, name := range []string{"none", "weak", "oversized"} {
		if _, err := signature.NewSigner(keyID, keys()[name], nil); err == nil {
			t.Errorf("the key %s is taken", name)
		}
	}
	if _, err := signature.NewSigner(keyID, good, &signature.SignerOptions{CallbackHeader: "a b"}); err == nil {
		t.Error("a header that cannot be one is taken")
	}
	if _, err := signature.NewSigner(strings.Repeat("k", 256), keys()["strong"], nil); err != nil {
		t.Errorf("a key of 4096 bits with a long id: %v", err)
	}
}

func TestAServersRequestIsSignedAsItCameIn(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/a%2Fb?x", bytes.NewReader(nil))
	r.Host = host
	r.Header.Set("x-service-callback", "phone_check")
	r.URL.Path, r.URL.RawPath = "/stripped", ""

	if err := newSigner(t, signature.SignerOptions{}).SignCallback(r, []byte(body)); err != nil {
		t.Fatal(err)
	}

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

		if err := newSigner(t, signature.SignerOptions{Base64Digest: inBase64}).SignCallback(r, nil); err != nil {
			t.Fatal(err)
		}

		if got := r.Header.Get("Digest"); got != want {
			t.Errorf("Base64Digest %v: digest %q, want %q", inBase64, got, want)
		}
	}
}

// TestSigner_FailureLeavesRequestUnchanged makes signing fail.
func TestSigner_FailureLeavesRequestUnchanged(t *testing.T) {
	t.Parallel()
	broken := *keys()["service-1"]
	broken.D = big.NewInt(3)
	broken.Precomputed = rsa.PrecomputedValues{}
	faulty, err := signature.NewSigner(keyID, &broken, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		signer *signature.Signer
		query  string
	}{
		"broken key":           {faulty, "check_id=c1"},
		"space in the query":   {newSigner(t, signature.SignerOptions{}), "check_id=c1&a=b c"},
		"newline in the query": {newSigner(t, signature.SignerOptions{}), "check_id=c1\n"},
	} {
		u := &url.URL{Scheme: "https", Host: host, Path: "/back", RawQuery: tt.query}

		if err := tt.signer.SignRedirect(u); err == nil || u.RawQuery != tt.query {
			t.Errorf("%s: error %v, query %q; want an error and the query as it was", name, err, u.RawQuery)
		}
	}
	r := callbackRequest(t, "https://"+host+target)
	if err := faulty.SignCallback(r, []byte(body)); err == nil || r.Header.Get("Authorization") != "" {
		t.Errorf("broken key: error %v, Authorization %q; want an error and none", err, r.Header.Get("Authorization"))
	}
}
