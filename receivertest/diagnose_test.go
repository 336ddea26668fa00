package receivertest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/receivertest"
	"github.com/idverify/idverify-go/signature"
)

// verifierWith returns a handler for valid callbacks.
func verifierWith(t *testing.T, keySetURL string, client *http.Client, host string, opts *signature.VerifierOptions) http.Handler {
	t.Helper()
	jwks, err := signature.NewJWKS(keySetURL, &signature.JWKSOptions{HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	v, err := signature.NewVerifier(jwks, []string{host}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return idverify.CallbackHandler(v, func(context.Context, *idverify.Callback) error { return nil })
}

// TestExamine_NamesTheCause examines receivers that reject valid messages.
func TestExamine_NamesTheCause(t *testing.T) {
	t.Parallel()
	respond := func(status int, location string) func(*testing.T, *receivertest.Keys) http.Handler {
		return func(*testing.T, *receivertest.Keys) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if location != "" {
					w.Header().Set("Location", location)
				}
				w.WriteHeader(status)
			})
		}
	}
	tests := []struct {
		name    string
		handler func(*testing.T, *receivertest.Keys) http.Handler
		code    receivertest.CauseCode
		want    string // part of the text
	}{
		{"wrong path", func(t *testing.T, k *receivertest.Keys) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("POST /hooks", verifierWith(t, k.URL(), k.Client(), "api.example.com", nil))
			return mux
		}, receivertest.CauseHandler, "The receiver has no handler for POST /callbacks. Compare the path with the examined URL."},
		{"wrong key set path", func(t *testing.T, k *receivertest.Keys) http.Handler {
			return verifierWith(t, strings.Replace(k.URL(), receivertest.KeySetPath, "/keys", 1), k.Client(), "api.example.com", nil)
		}, receivertest.CauseKeySetPath, "The receiver requested \"/keys\" instead of the key set, whose path is /.well-known/jwks.json."},
		{"wrong key set host", func(t *testing.T, k *receivertest.Keys) http.Handler {
			return verifierWith(t, "https://other.invalid/.well-known/jwks.json", k.Client(), "api.example.com", nil)
		}, receivertest.CauseKeySet, "The receiver has not requested the key set."},
		{"wrong host", func(t *testing.T, k *receivertest.Keys) http.Handler {
			return verifierWith(t, k.URL(), k.Client(), "www.example.com", nil)
		}, receivertest.CauseHost, `The message is signed for the host "api.example.com". The receiver must allow this host`},
		{"host localhost", func(t *testing.T, k *receivertest.Keys) http.Handler {
			return verifierWith(t, k.URL(), k.Client(), "localhost", nil)
		}, receivertest.CauseHost, `The receiver accepts messages for the host "localhost", but the examined URL has the host "api.example.com".`},
		{"wrong clock", func(t *testing.T, k *receivertest.Keys) http.Handler {
			late := func() time.Time { return time.Now().Add(7 * time.Minute) }
			h := verifierWith(t, k.URL(), k.Client(), "api.example.com", &signature.VerifierOptions{Now: late})
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Date", late().UTC().Format(http.TimeFormat))
				h.ServeHTTP(w, r)
			})
		}, receivertest.CauseClock, "The clock of the receiver differs by 420 s: its response is dated"},
		{"wrong callback header", func(t *testing.T, k *receivertest.Keys) http.Handler {
			return verifierWith(t, k.URL(), k.Client(), "api.example.com", &signature.VerifierOptions{CallbackHeader: "X-Other"})
		}, receivertest.CauseCallbackHeader, "The kind is in the header x-service-callback."},
		{"only base64 digests", func(t *testing.T, k *receivertest.Keys) http.Handler {
			h := verifierWith(t, k.URL(), k.Client(), "api.example.com", nil)
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if len(r.Header.Get("Digest")) > 60 {
					w.WriteHeader(http.StatusBadRequest)
					return
				}
				h.ServeHTTP(w, r)
			})
		}, receivertest.CauseDigest, "The receiver accepts the message if its digest is in base64. The examination uses hexadecimal."},
		{"sign-in page", respond(http.StatusFound, "/login?next=%2Fcallbacks"), receivertest.CauseSignIn, "The receiver redirects to a page for signing in. Exempt the path /callbacks from authentication."},
		{"another URL", respond(http.StatusMovedPermanently, "/callbacks/"), receivertest.CauseRedirect, "The service does not follow redirects."},
		{"unknown check", respond(http.StatusNotFound, ""), receivertest.CauseUnknownCheck, "use a probe with Created"},
		{"5XX", respond(http.StatusBadGateway, ""), receivertest.CauseServerError, "Look for the reason in the log of the receiver"},
		{"rate limit", respond(http.StatusTooManyRequests, ""), receivertest.CauseRateLimit, "Raise the limit for the examination."},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				keys := newKeys(t)

				report := examine(t, receivertest.Receiver{Keys: keys, URL: callbackURL, Handler: test.handler(t, keys)})

				named := func(c receivertest.Cause) bool { return c.Code == test.code && strings.Contains(c.Text, test.want) }
				if f := report.Findings[0]; f.Result != receivertest.ResultFail || !slices.ContainsFunc(f.Causes, named) {
					t.Errorf("%s: %s, causes %q, want %s: %q", f.Rule, f.Result, f.Causes, test.code, test.want)
				}
				for _, f := range report.Findings[1:] {
					if f.Result != receivertest.ResultNotApplicable || f.Detail != "the receiver does not accept valid messages" {
						t.Errorf("%s: %s, %q, want not applicable", f.Rule, f.Result, f.Detail)
					}
				}
			})
		})
	}
}

// TestExamine_KnownCauseOnly requires that a cause that an experiment confirms is the only one.
func TestExamine_KnownCauseOnly(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)

	report := examine(t, receivertest.Receiver{Keys: keys, URL: callbackURL, Handler: verifierWith(t, keys.URL(), keys.Client(), "localhost", nil)})

	if causes := report.Findings[0].Causes; len(causes) != 1 || causes[0].Code != receivertest.CauseHost {
		t.Errorf("causes = %q, want only the host", causes)
	}
}

func TestExamine_Unreachable(t *testing.T) {
	t.Parallel()

	report, err := receivertest.Examine(t.Context(), receivertest.Receiver{Keys: newKeys(t), URL: unusedURL + "/callbacks"})

	if err == nil || err.Error() != "receivertest: examine: cannot connect to the receiver: connection refused (is it running, and at this port?)" {
		t.Errorf("error = %v, want connection refused", err)
	}
	if len(report.Findings) != 1 || report.Findings[0].Result != receivertest.ResultFail {
		t.Errorf("findings = %v, want that of the first message", report.Findings)
	}
}

func TestExamine_WrongScheme(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	secure.Config.ErrorLog = discardLog()
	t.Cleanup(secure.Close)
	for _, test := range []struct{ name, addr, want string }{
		{"https to http", "https://" + plain.Listener.Addr().String(), "the receiver does not use TLS"},
		{"unknown authority", secure.URL, "TLS certificate is signed by an unknown authority"},
	} {
		_, err := receivertest.Examine(t.Context(), receivertest.Receiver{Keys: newKeys(t), URL: callbackURL, Addr: test.addr})

		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error = %v, want %q", test.name, err, test.want)
		}
	}
}
