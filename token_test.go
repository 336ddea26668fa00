package idverify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/synctest"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// If the token is not valid in a header, the error must not suggest that the operation was sent and
// charged.
func TestClient_RejectsInvalidToken(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"token\r\nX-Injected: 1", "token\n", "\rtoken", "to ken", "token ", "to\x00ken", "to\tken", "tok\u00e9n", "token\x7f", "\u2028token"} {
		srv := newService(t, respondWith(201, `{"check_id":"a","status":"ACCEPTED"}`))
		body, err := json.Marshal(map[string]any{"access_token": token, "expires_in": 3600})
		if err != nil {
			t.Fatal(err)
		}
		srv.token = withRequestID("req-7", respondWith(200, string(body)))

		_, err = srv.client(t).PhoneChecks.Create(t.Context(), createParams)

		e, ok := errors.AsType[*idverify.DecodeError](err)
		if !ok || e.RequestID != "req-7" || e.Operation != "token.create" || !strings.Contains(e.Reason, "access_token") {
			t.Errorf("%q: error = %v, want a *DecodeError of the token request", token, err)
		}
		if text := fmt.Sprint(err); strings.Contains(text, "charged") || strings.Contains(text, "unknown") || strings.Contains(text, "ken\"") || strings.Contains(text, "Injected") {
			t.Errorf("%q: error = %q, want no token and no unknown outcome: nothing was sent", token, text)
		}
		if calls, tokens := len(srv.calls()), len(srv.tokens()); calls != 0 || tokens != 1 {
			t.Errorf("%q: requests = %d, token requests = %d, want 0 and 1", token, calls, tokens)
		}
	}
}

func TestClient_TokenCharacters(t *testing.T) {
	t.Parallel()
	const token = "!\"#$%&'()*+,-./09:;<=>?@AZ[\\]^_`az{|}~"
	srv := newService(t, respondWith(200, `{"check_id":"a","status":"ACCEPTED"}`))
	srv.token = func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{"access_token": token})
	}

	_, err := srv.client(t).PhoneChecks.Get(t.Context(), "a")

	if err != nil {
		t.Fatal(err)
	}
	if got := srv.calls()[0].header.Get("Authorization"); got != "Bearer "+token {
		t.Errorf("Authorization = %q, want the token %q", got, token)
	}
}

// The client refreshes a short-lived token in the last tenth of its lifetime. After a failed
// refresh it pauses for five seconds.
func TestClient_RefreshesShortLivedToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var requests []time.Duration
		start := time.Now()
		failing := false
		c, err := idverify.NewClient("https://idverify.sandbox.test", credentials, withoutRetries, idverify.WithHTTPClient(&http.Client{
			Transport: roundTripperFunc(func(r *http.Request) (*http.Response, error) {
				requests = append(requests, time.Since(start))
				if failing {
					return response(503, nil), nil
				}
				return response(200, fmt.Appendf(nil, `{"access_token":"token-%d","expires_in":300}`, len(requests))), nil
			}),
		}))
		if err != nil {
			t.Fatal(err)
		}
		use := func(at time.Duration, want string) {
			t.Helper()
			time.Sleep(at - time.Since(start))
			if got := tokenFor(t, c, idverify.ScopeReachability); got != want {
				t.Errorf("at %v: token %q, want %q", at, got, want)
			}
			synctest.Wait()
		}

		use(0, "token-1")
		use(270*time.Second-1, "token-1")
		failing = true
		use(270*time.Second, "token-1") // the refresh fails
		use(275*time.Second-1, "token-1")
		failing = false
		use(275*time.Second, "token-1") // the refresh succeeds
		use(276*time.Second, "token-3")

		if want := []time.Duration{0, 270 * time.Second, 275 * time.Second}; !slices.Equal(requests, want) {
			t.Errorf("token requests at %v, want %v", requests, want)
		}
	})
}

func TestRateLimit_Reset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := time.Now() // 2000-01-01 in a synctest bubble
		for _, tt := range []struct {
			reset string
			want  time.Time
		}{
			{"0", now},
			{"30", now.Add(30 * time.Second)},
			{"3600", now.Add(time.Hour)},
			{"31622400", now.Add(366 * 24 * time.Hour)},
			{"31622401", time.Unix(31622401, 0)},
			{fmt.Sprint(now.Add(time.Hour).Unix()), now.Add(time.Hour)},
			{fmt.Sprint(now.Add(-time.Hour).Unix()), now.Add(-time.Hour)},
			{"999999999", time.Unix(999999999, 0)},
			{"1000000000", time.Unix(1000000000, 0)},
			{"1767323045", time.Unix(1767323045, 0)},
			{"-1", time.Time{}},
			{"soon", time.Time{}},
			{"", time.Time{}},
			{"99999999999999999999", time.Time{}},
		} {
			c := newTransportClient(t, func(*http.Request) (*http.Response, error) {
				resp := response(403, nil)
				resp.Header.Set("X-RateLimit-Limit", "10")
				resp.Header.Set("X-RateLimit-Remaining", "7")
				resp.Header.Set("X-RateLimit-Reset", tt.reset)
				return resp, nil
			})

			_, err := c.PhoneChecks.Get(t.Context(), "a")

			e, ok := errors.AsType[*idverify.Error](err)
			if !ok || e.RateLimit == nil || e.RateLimit.Limit != 10 || e.RateLimit.Remaining != 7 || !e.RateLimit.Reset.Equal(tt.want) {
				t.Errorf("X-RateLimit-Reset %q at %v: %+v, want %v", tt.reset, now, e.RateLimit, tt.want)
			}
		}
	})
}

func TestRateLimit_Malformed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, limit, remaining string }{
		{"no limit", "", "7"},
		{"malformed limit", "10, 10;w=60", "7"},
		{"no remaining", "10", ""},
		{"malformed remaining", "10", "7.5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			log := new(attemptLog)
			c := newTransportClient(t, func(*http.Request) (*http.Response, error) {
				return withHeader(response(403, nil), "X-RateLimit-Limit", tt.limit, "X-RateLimit-Remaining", tt.remaining), nil
			}, log.option())

			_, err := c.PhoneChecks.Get(t.Context(), "a")

			e, ok := errors.AsType[*idverify.Error](err)
			if !ok || e.RateLimit != nil {
				t.Errorf("error = %#v, want an *Error without RateLimit", err)
			}
			for _, a := range log.all(t) {
				if a.RateLimit != nil {
					t.Errorf("rate limit of %s = %+v, want nil", a.Operation, *a.RateLimit)
				}
			}
		})
	}
}

func TestClient_TokenErrorsNameScope(t *testing.T) {
	t.Parallel()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	srv := newService(t, nil)
	_, err := srv.client(t).Token(canceled, idverify.ScopeReachability, idverify.ScopePhoneCheck)
	if want := `idverify: get token for scope "coverage phone_check": context canceled`; err == nil || err.Error() != want || !errors.Is(err, context.Canceled) {
		t.Errorf("canceled context: error = %v, want %s", err, want)
	}

	srv.token = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		io.WriteString(w, `{"access_token":"secret-token`)
	}
	_, err = srv.client(t, withoutRetries).Token(t.Context(), idverify.ScopeReachability)
	if want := `idverify: get token for scope "coverage": truncated response`; err == nil || err.Error() != want {
		t.Errorf("truncated response: error = %v, want %s", err, want)
	}

	//nolint:staticcheck // users make this mistake
	if _, err := srv.client(t).Token(nil, idverify.ScopeReachability); !errors.Is(err, idverify.ErrBadRequest) {
		t.Errorf("nil context: error = %v, want ErrBadRequest", err)
	}
	for scope, valid := range map[idverify.Scope]bool{"": false, " ": false, "a b": false, "a\n": false, "a\x7f": false, "é": false, "!": true, "~": true, "a:b/c": true} {
		srv := newService(t, nil)
		_, err := srv.client(t).Token(t.Context(), scope)
		if valid != (err == nil) || !valid && (!errors.Is(err, idverify.ErrBadRequest) || len(srv.tokens()) > 0) {
			t.Errorf("scope %q: error = %v after %d requests, want success: %v", scope, err, len(srv.tokens()), valid)
		}
	}
}

func TestClient_TokenResponse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		expiresIn string
		want      int64 // seconds
	}{
		{`3600`, 3600}, {`"3600"`, 3600}, {`1.5`, 1}, {`null`, 300}, {`0`, 300}, {`-1`, 300}, {`1e300`, 30 * 24 * 3600}, {`2592000`, 2592000}, {`2592001`, 2592000},
	} {
		srv := newService(t, nil)
		srv.token = respondWith(200, `{"access_token":"a","token_type":"Bearer","expires_in":`+tt.expiresIn+`}`)
		clock := newClock()

		token, err := srv.client(t, idverify.WithClock(clock.now)).Token(t.Context(), idverify.ScopeReachability)

		if err != nil {
			t.Fatal(err)
		}
		left := token.Expiry.Sub(clock.now())
		if token.TokenType != "Bearer" || token.ExpiresIn != tt.want || left < time.Duration(tt.want)*time.Second || left >= time.Duration(tt.want+1)*time.Second {
			t.Errorf("expires_in %s: TokenType = %q, ExpiresIn = %d, Expiry in %v, want Bearer and %d seconds", tt.expiresIn, token.TokenType, token.ExpiresIn, left, tt.want)
		}
		if r := srv.tokens()[0]; r.header.Get("Accept") != "application/json" || !strings.HasPrefix(r.header.Get("User-Agent"), "idverify-go") {
			t.Errorf("token request header = %v, want Accept and User-Agent", r.header)
		}
	}
	for _, expiresIn := range []string{`"the-token"`, `""`, `[]`, `true`} {
		srv := newService(t, nil)
		srv.token = respondWith(200, `{"access_token":"the-token-itself","expires_in":`+expiresIn+`}`)

		_, err := srv.client(t).Token(t.Context(), idverify.ScopeReachability)

		if _, ok := errors.AsType[*idverify.DecodeError](err); !ok || strings.Contains(err.Error(), "the-token") {
			t.Errorf("expires_in %s: error = %v, want a *DecodeError without the token", expiresIn, err)
		}
	}
}

// The client reads at most 1 MiB of a token response.
func TestClient_LimitsTokenBody(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1<<20 - 1, 1 << 20, 1<<20 + 1} {
		srv := newService(t, nil)
		body, _ := json.Marshal(map[string]string{"access_token": "a", "new": ""})
		padded := strings.Replace(string(body), `""`, `"`+strings.Repeat("a", size-len(body))+`"`, 1)
		srv.token = respondWith(200, padded)

		_, err := srv.client(t).Token(t.Context(), idverify.ScopeReachability)

		if (err == nil) != (size <= 1<<20) {
			t.Errorf("token response of %d bytes: error = %v, want success: %v", len(padded), err, size <= 1<<20)
		}
	}
}

func TestClient_CheckCredentials(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	tokens := func() (n int) {
		for _, r := range srv.Requests() {
			if r.Operation == "token.create" {
				n++
			}
		}
		return n
	}
	c := srv.Client()

	for range 2 { // the second call finds the tokens in the cache
		if err := c.CheckCredentials(t.Context()); err != nil {
			t.Errorf("error = %v, want nil", err)
		}
	}
	checkTokens := tokens()
	_, listErr := c.SIMChecks.List(t.Context(), idverify.ListOptions{})
	err := c.CheckCredentials(t.Context(), idverify.ScopePhoneCheck)

	if got := tokens(); checkTokens != 3 || got != 3 || listErr != nil || err != nil {
		t.Errorf("%d token requests, then %d, errors = %v and %v, want 3 for the three checks, which operations use", checkTokens, got, listErr, err)
	}
	wrong := must(idverify.NewClient(srv.URL(), idverify.Credentials{ClientID: "unknown", ClientSecret: idverify.NewSecret("secret")}, idverify.WithHTTPClient(srv.HTTPClient())))(t)
	if err := wrong.CheckCredentials(t.Context()); !errors.Is(err, idverify.ErrUnauthorized) {
		t.Errorf("wrong credentials: error = %v, want ErrUnauthorized", err)
	}
	workspace := must(idverify.NewClient(srv.URL(), srv.ConsoleCredentials(), idverify.WithHTTPClient(srv.HTTPClient())))(t)
	if e, ok := errors.AsType[*idverify.TokenError](workspace.CheckCredentials(t.Context())); !ok || e.Code != idverify.CodeInvalidScope {
		t.Errorf("workspace credentials: error = %v, want code invalid_scope", e)
	}
}
