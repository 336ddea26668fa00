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
	"github.com/idverify/idverify-go/receivertest"
	"github.com/idverify/idverify-go/signature"
)

// accepts returns a handler for callbacks that v verifies.
func accepts(v *signature.Verifier) http.Handler {
	return idverify.CallbackHandler(v, func(context.Context, *idverify.Callback) error { return nil })
}

// TestExamine_NamesTheCause examines receivers that reject valid messages.
func TestExamine_NamesTheCause(t *testing.T) {
	t.Parallel()
	const host = "api.example.com"
	always := func(status int, location string) func(*testing.T, *receivertest.Keys) http.Handler {
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
		codes   string // of all causes
		want    string // part of the text of one
	}{
		{"wrong path", func(t *testing.T, k *receivertest.Keys) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("POST /hooks", accepts(newVerifier(t, k, host, nil)))
			return mux
		}, "handler unknown_check", "The receiver has no handler for POST /callbacks. Compare the path with the examined URL."},
		{"wrong key set path", func(t *testing.T, k *receivertest.Keys) http.Handler {
			return accepts(verifierAt(t, strings.Replace(k.URL(), receivertest.KeySetPath, "/keys", 1), k, host, nil))
		}, "server_error key_set_path unknown_check", "The receiver requested \"/keys\" instead of the key set, whose path is /.well-known/jwks.json."},
		{"wrong key set host", func(t *testing.T, k *receivertest.Keys) http.Handler {
			return accepts(verifierAt(t, "https://other.invalid/.well-known/jwks.json", k, host, nil))
		}, "server_error key_set unknown_check", "The receiver has not requested the key set."},
		{"wrong host", func(t *testing.T, k *receivertest.Keys) http.Handler {
			return accepts(newVerifier(t, k, "www.example.com", nil))
		}, "key_set host clock callback_header unknown_check", `The message is signed for the host "api.example.com". The receiver must allow this host`},
		{"host localhost", func(t *testing.T, k *receivertest.Keys) http.Handler {
			return accepts(newVerifier(t, k, "localhost", nil))
		}, "host", `The receiver accepts messages for the host "localhost", but the examined URL has the host "api.example.com".`},
		{"wrong clock", func(t *testing.T, k *receivertest.Keys) http.Handler {
			late := func() time.Time { return time.Now().Add(7 * time.Minute) }
			h := accepts(newVerifier(t, k, host, &signature.VerifierOptions{Now: late}))
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Date", late().UTC().Format(http.TimeFormat))
				h.ServeHTTP(w, r)
			})
		}, "clock", "The clock of the receiver differs by 420 s: its response is dated"},
		{"wrong callback header", func(t *testing.T, k *receivertest.Keys) http.Handler {
			return accepts(newVerifier(t, k, host, &signature.VerifierOptions{CallbackHeader: "X-Other"}))
		}, "key_set host clock callback_header unknown_check", "The kind is in the header x-service-callback."},
		{"only base64 digests", func(t *testing.T, k *receivertest.Keys) http.Handler {
			h := accepts(newVerifier(t, k, host, nil))
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if len(r.Header.Get("Digest")) > 60 {
					w.WriteHeader(http.StatusBadRequest)
					return
				}
				h.ServeHTTP(w, r)
			})
		}, "digest", "The receiver accepts the message if its digest is in base64. The examination uses hexadecimal."},
		{"sign-in page", always(http.StatusFound, "/login?next=%2Fcallbacks"), "sign_in", "The receiver redirects to a page for signing in. Exempt the path /callbacks from authentication."},
		{"another URL", always(http.StatusMovedPermanently, "/callbacks/"), "redirect", "The service does not follow redirects."},
		{"unknown check", always(http.StatusNotFound, ""), "handler unknown_check", "use a probe with Created"},
		{"5XX", always(http.StatusBadGateway, ""), "server_error key_set unknown_check", "Look for the reason in the log of the receiver"},
		{"503 after verification", func(t *testing.T, k *receivertest.Keys) http.Handler {
			v := newVerifier(t, k, host, &signature.VerifierOptions{Replay: signature.NewMemoryReplayStore(0)})
			return v.RequireCallback(always(http.StatusServiceUnavailable, "")(t, k))
		}, "server_error unknown_check", "Look for the reason in the log of the receiver"},
		{"never ready", always(http.StatusServiceUnavailable, ""), "server_error key_set unknown_check", "Look for the reason in the log of the receiver"},
		{"rate limit", always(http.StatusTooManyRequests, ""), "rate_limit", "Raise the limit for the examination."},
	}
	for _, test := range tests {
		bubble(t, test.name, func(t *testing.T) {
			keys := newKeys(t)

			report := examine(t, receivertest.Receiver{Keys: keys, URL: callbackURL, Handler: test.handler(t, keys)})

			f := report.Findings[0]
			var codes []string
			for _, c := range f.Causes {
				codes = append(codes, string(c.Code))
			}
			if got := strings.Join(codes, " "); f.Result != receivertest.ResultFail || got != test.codes {
				t.Errorf("%s: %s, causes %q, want %q", f.Rule, f.Result, got, test.codes)
			}
			if !slices.ContainsFunc(f.Causes, func(c receivertest.Cause) bool { return strings.Contains(c.Text, test.want) }) {
				t.Errorf("causes = %q, want %q", f.Causes, test.want)
			}
			for _, f := range report.Findings[1:] {
				if f.Result != receivertest.ResultNotApplicable || f.Detail != "the receiver does not accept valid messages" {
					t.Errorf("%s: %s, %q, want not applicable", f.Rule, f.Result, f.Detail)
				}
			}
		})
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
