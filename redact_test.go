package idverify_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
)

func TestError_RedactsEscapedSecrets(t *testing.T) {
	t.Parallel()
	const clientID = "client-1"
	everyByte := func(s string) string {
		var b strings.Builder
		for i := range len(s) {
			fmt.Fprintf(&b, "%%%02x", s[i])
		}
		return b.String()
	}
	asJSON := func(s string) string { b, _ := json.Marshal(s); return strings.Trim(string(b), `"`) }
	notations := map[string]func(string) string{
		"plain":              func(s string) string { return s },
		"query":              url.QueryEscape,
		"path":               url.PathEscape,
		"query, lowercase":   func(s string) string { return lowerEscapes(url.QueryEscape(s)) },
		"every byte":         everyByte,
		"encodeURIComponent": func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "%27", "'") },
		"HTML":               html.EscapeString,
		"HTML, named quotes": strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;").Replace,
		"HTML, hexadecimal":  strings.NewReplacer("&", "&#x26;", "<", "&#X3c;", ">", "&#x03E;", `"`, "&#x22;", "'", "&#x27;", "=", "&#x3d;", "+", "&#43;").Replace,
		"JSON":               asJSON,
		"JSON, slashes":      func(s string) string { return strings.ReplaceAll(asJSON(s), "/", `\/`) },
		"JSON, uppercase":    strings.NewReplacer(`"`, `\"`, "<", `\u003C`, "&", `\u0026`, "+", `\u002B`, "/", `\u002f`).Replace,
		"repeated":           func(s string) string { return s + "\n" + s },
	}
	const secret, token, code = `p<&"ss/+w'ord=1 2`, `tok/en+"with<all>&'of=it`, `c&o/d+e"<of>'a=check 1`
	basic := []byte(clientID + ":" + secret)
	values := map[string]string{
		"client secret":  secret,
		"token":          token,
		"code":           code,
		"base64":         base64.StdEncoding.EncodeToString(basic),
		"base64, raw":    base64.RawStdEncoding.EncodeToString(basic),
		"base64url":      base64.URLEncoding.EncodeToString(basic),
		"base64url, raw": base64.RawURLEncoding.EncodeToString(basic),
	}
	for name, escape := range notations {
		for what, value := range values {
			echo := escape(value)
			t.Run(what+"/"+name, func(t *testing.T) {
				t.Parallel()
				logs := new(syncBuffer)
				page := "<h1>401</h1> (" + echo + ") end"
				detail, _ := json.Marshal("seen (" + echo + ") end")
				srv := newService(t, respondInTurn(
					respondWith(403, page),
					respondWith(403, `{"type":"https://docs.example/#forbidden","detail":`+string(detail)+`}`),
					respondWith(200, page),
				))
				srv.token = func(w http.ResponseWriter, _ *http.Request) { // the token consists of VSCHAR (RFC 6749)
					body, _ := json.Marshal(map[string]any{"access_token": token, "expires_in": 3600})
					w.Write(body)
				}
				logger := slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
				c, err := idverify.NewClient(srv.URL, idverify.Credentials{ClientID: clientID, ClientSecret: idverify.NewSecret(secret)},
					idverify.WithHTTPClient(srv.Client()), idverify.WithLogger(logger), idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}))
				if err != nil {
					t.Fatal(err)
				}

				for range 3 {
					_, err := c.PhoneChecks.Get(t.Context(), "a")
					if what == "code" {
						_, err = c.PhoneChecks.Complete(t.Context(), "a", code)
					}

					text := fmt.Sprintf("%+v", err)
					if e, ok := errors.AsType[*idverify.Error](err); ok {
						text += e.Detail
					}
					if strings.Contains(text, echo) || strings.Contains(text, echo[:len(echo)/2]) || !strings.Contains(text, "([REDACTED]") {
						t.Errorf("%q echoed as %q: error = %s, want [REDACTED]", value, echo, text)
					}
				}
				if strings.Contains(logs.String(), echo) {
					t.Errorf("log contains %q:\n%s", echo, logs)
				}
			})
		}
	}
}

// lowerEscapes returns s with its percent escapes in lower case.
func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], strings.ToLower(string(b[i+1:i+3])))
		}
	}
	return string(b)
}

func TestError_RedactsShortSecretsAsWords(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ detail, want string }{
		{"the stream ended", "the stream ended"},
		{"tr: tray, str, tré and tr_1", "[REDACTED]: tray, str, tré and tr_1"},
		{"(tr) tr-1 =tr", "([REDACTED]) [REDACTED]-1 =[REDACTED]"},
		{"%22tr%22 \\ntr &quot;tr&quot;", `%22[REDACTED]%22 \n[REDACTED] &quot;[REDACTED]&quot;`},
		{"secret7 and xsecret7", "[REDACTED] and xsecret7"},
		{"the substr", "the substr"},
		{"tr", "[REDACTED]"},
	} {
		srv := newService(t, respondWith(400, fmt.Sprintf(`{"type":"https://docs.example/#bad_request","detail":%q}`, tt.detail)))
		srv.token = respondWith(200, `{"access_token":"tr","expires_in":3600}`)
		c, err := idverify.NewClient(srv.URL, idverify.Credentials{ClientID: "c", ClientSecret: idverify.NewSecret("secret7")}, idverify.WithHTTPClient(srv.Client()))
		if err != nil {
			t.Fatal(err)
		}

		_, err = c.PhoneChecks.Get(t.Context(), "a")

		if e, ok := errors.AsType[*idverify.Error](err); !ok || e.Detail != tt.want {
			t.Errorf("error = %v, want the detail %q", err, tt.want)
		}
	}
}

// The service, a proxy or the client's limits may truncate a body within a secret.
func TestError_RedactsTruncatedSecrets(t *testing.T) {
	t.Parallel()
	token := "begin-" + strings.Repeat("of-a-long-token-", 100)
	for name, body := range map[string]string{
		"at the end":               "the token was " + token[:40],
		"with another end":         "the token was " + token[:200] + "? no",
		"beyond the examined part": strings.Repeat(token+" ", 1000),
		"beyond the shown part":    strings.Repeat("z ", 140) + token,
	} {
		srv := newService(t, respondWith(403, body))
		srv.token = respondWith(200, `{"access_token":"`+token+`","expires_in":3600}`)

		_, err := srv.client(t).PhoneChecks.Get(t.Context(), "a")

		if err == nil || strings.Contains(err.Error(), "begin-of-a") || !strings.Contains(err.Error(), "[REDACTED]") {
			t.Errorf("%s: error = %v, want [REDACTED]", name, err)
		}
	}
}

// The client drops a rejected token. The response may echo this token or the previous one.
func TestError_RedactsPreviousTokens(t *testing.T) {
	t.Parallel()
	srv := newService(t, nil)
	srv.respond = func(w http.ResponseWriter, r *http.Request) {
		n := len(srv.tokens())
		w.Header().Set("X-Request-Id", "id-of-token-of-this-test-1")
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, "not token-of-this-test-%d, nor token-of-this-test-1.", n)
	}
	srv.token = func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"access_token":"token-of-this-test-%d","expires_in":3600}`, len(srv.tokens()))
	}
	c := srv.client(t)

	for range 4 {
		_, err := c.PhoneChecks.Get(t.Context(), "a")

		if !errors.Is(err, idverify.ErrUnauthorized) || strings.Contains(err.Error(), "of-this-test") || !strings.Contains(err.Error(), "not [REDACTED], nor [REDACTED]") {
			t.Errorf("error = %v after %d tokens, want ErrUnauthorized with redacted tokens", err, len(srv.tokens()))
		}
	}
}

// Redaction must be fast for any token.
func TestError_RedactsLongTokens(t *testing.T) {
	t.Parallel()
	for name, char := range map[string]string{"letters": "a", "backslashes": `\`, "percent signs": "%", "ampersands": "&"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := newService(t, respondWith(500, strings.Repeat(strings.Repeat(char, 60)+"!", 17_000)))
			token, _ := json.Marshal(strings.Repeat(char, 500_000))
			srv.token = respondWith(200, `{"access_token":`+string(token)+`}`)
			srv.Client().Transport.(*http.Transport).MaxResponseHeaderBytes = 2 << 20
			srv.Config.MaxHeaderBytes = 2 << 20

			_, err := srv.client(t, withoutRetries).PhoneChecks.Get(t.Context(), "a")

			if err == nil || len(err.Error()) > 1000 {
				t.Errorf("length of the error = %d, want an error of at most 1000 bytes", len(fmt.Sprint(err)))
			}
		})
	}
}

// During a long attempt other callers may fetch and drop many tokens.
func TestError_RedactsTokenOfAttempt(t *testing.T) {
	t.Parallel()
	const token = "1-token-of-the-attempt"
	for name, finish := range map[string]func() (*http.Response, error){
		"problem":         func() (*http.Response, error) { return response(403, []byte("<html>"+token)), nil },
		"not a check":     func() (*http.Response, error) { return response(200, []byte("<html>"+token)), nil },
		"transport error": func() (*http.Response, error) { return nil, errors.New("lost " + token) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var c *idverify.Client
			tokens := 0
			c, err := idverify.NewClient("https://idverify.sandbox.test", credentials, withoutRetries, idverify.WithHTTPClient(&http.Client{
				Transport: roundTripperFunc(func(r *http.Request) (*http.Response, error) {
					switch {
					case r.URL.Path == tokenPath:
						tokens++
						return response(200, fmt.Appendf(nil, `{"access_token":"%d-token-of-the-attempt"}`, tokens)), nil
					case strings.HasSuffix(r.URL.Path, "/other"):
						return response(401, nil), nil
					}
					for range 20 {
						_, _ = c.PhoneChecks.Get(t.Context(), "other")
					}
					return finish()
				}),
			}))
			if err != nil {
				t.Fatal(err)
			}

			_, err = c.PhoneChecks.Get(t.Context(), "a")

			if err == nil || tokens < 20 || strings.Contains(err.Error(), token) || !strings.Contains(err.Error(), "[REDACTED]") {
				t.Errorf("error = %v after %d tokens, want [REDACTED] after at least 20", err, tokens)
			}
		})
	}
}

// An error while the client reads a token response comes from the caller's transport.
func TestError_RedactsTokenResponseError(t *testing.T) {
	t.Parallel()
	secret := credentials.ClientSecret.Reveal()
	c := newTokenClient(t, func() *http.Response {
		resp := response(http.StatusOK, nil)
		resp.Body = io.NopCloser(iotest.ErrReader(errors.New("lost " + secret)))
		return resp
	})

	_, err := c.Token(t.Context(), idverify.ScopeReachability)

	if text := fmt.Sprint(err); !strings.Contains(text, "lost [REDACTED]") || strings.Contains(text, secret) {
		t.Errorf("error = %v, want it without the client secret", err)
	}
}

// The service may echo a token in the field status.
func TestCheckEndedError_RedactsSecrets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTransportClient(t, func(*http.Request) (*http.Response, error) {
			return response(http.StatusOK, []byte(`{"check_id":"a","status":"token-1","ttl":10}`)), nil
		})

		_, ended := c.PhoneChecks.Wait(t.Context(), "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, canceled := c.PhoneChecks.Wait(ctx, "a")

		for _, err := range []error{ended, canceled} {
			if text := fmt.Sprint(err); !strings.Contains(text, "still [REDACTED]") {
				t.Errorf("error = %v, want it without the token", err)
			}
		}
	})
}

// The service, a proxy or the transport may echo the request of Complete.
func TestComplete_RedactsCode(t *testing.T) {
	t.Parallel()
	problem := func(status int) func(http.ResponseWriter, string, string) {
		return func(w http.ResponseWriter, code, body string) {
			w.Header().Set("X-Request-Id", "for-"+code)
			w.WriteHeader(status)
			b, _ := json.Marshal(map[string]any{"type": "https://docs.example/" + code + "#" + code, "title": "no " + code, "detail": "received " + body})
			w.Write(b)
		}
	}
	for name, echo := range map[string]func(w http.ResponseWriter, code, body string){
		"problem":           problem(http.StatusForbidden),
		"retried problem":   problem(http.StatusTooManyRequests),
		"unknown outcome":   problem(http.StatusServiceUnavailable),
		"unexpected status": problem(http.StatusFound),
		"page":              func(w http.ResponseWriter, _, body string) { w.WriteHeader(403); io.WriteString(w, "<h1>"+body) },
		"escaped for a URL": func(w http.ResponseWriter, _, body string) {
			w.WriteHeader(403)
			io.WriteString(w, url.QueryEscape(body))
		},
		"escaped for JSON":  func(w http.ResponseWriter, _, body string) { w.WriteHeader(403); fmt.Fprintf(w, "received %q", body) },
		"unusable response": func(w http.ResponseWriter, _, body string) { fmt.Fprintf(w, "%q", body) },
		"truncated response": func(w http.ResponseWriter, _, body string) {
			w.Header().Set("Content-Length", "9999")
			w.WriteHeader(403)
			io.WriteString(w, body)
		},
		"error of the body":    func(w http.ResponseWriter, _, body string) { w.Header().Set("X-Error", body) },
		"error of a transport": func(w http.ResponseWriter, _, body string) { w.Header().Set("X-Error", body); w.WriteHeader(500) },
	} {
		for _, code := range []string{"7c1e0b52-8f7d-4b0e-a9c3-code", "K9X2"} {
			t.Run(name+"/"+code, func(t *testing.T) {
				t.Parallel()
				var printed strings.Builder
				logs := new(syncBuffer)
				exchanges := 0
				srv := newService(t, func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					exchanges++
					echo(w, code, string(body))
				})
				transport := srv.Client().Transport
				fails := roundTripperFunc(func(r *http.Request) (*http.Response, error) {
					resp, err := transport.RoundTrip(r)
					if err != nil || resp.Header.Get("X-Error") == "" {
						return resp, err
					}
					defer resp.Body.Close()
					failure := errors.New("lost " + resp.Header.Get("X-Error"))
					if resp.StatusCode == http.StatusInternalServerError {
						return nil, failure
					}
					resp.Body = io.NopCloser(iotest.ErrReader(failure))
					return resp, nil
				})
				c := srv.client(t, idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}),
					idverify.WithHTTPClient(&http.Client{Transport: fails}),
					idverify.WithLogger(slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))),
					idverify.WithObserver(func(ctx context.Context, _ string) (context.Context, func(idverify.Attempt)) {
						return ctx, func(a idverify.Attempt) { fmt.Fprintf(logs, "%+v %#v\n", a, a.Err) }
					}))

				_, err := c.PhoneChecks.Complete(t.Context(), "a", code)

				formatAll(&printed, err)
				if err == nil || exchanges == 0 || !strings.Contains(printed.String(), "[REDACTED]") {
					t.Errorf("error = %v after %d echoes, want a redacted one", err, exchanges)
				}
				for name, text := range map[string]string{"error": printed.String(), "log": logs.String()} {
					if strings.Contains(text, code) {
						t.Errorf("the %s contains the code:\n%s", name, lineContaining(text, code))
					}
				}
			})
		}
	}
}
