package idverify_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
)

func TestClient_TokenRequest(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondWith(200, string(fixture(t, "phone_check.json"))))

	if _, err := srv.client(t).PhoneChecks.Get(t.Context(), phoneCheckID); err != nil {
		t.Fatal(err)
	}

	r := srv.tokens()[0]
	if r.method != http.MethodPost {
		t.Errorf("method = %s, want POST", r.method)
	}
	if got, want := r.header.Get("Authorization"), "Basic "+base64.StdEncoding.EncodeToString([]byte("client-1:s3cret-of-client-1")); got != want {
		t.Errorf("Authorization = %q, want %q", got, want)
	}
	mediaType, params, err := mime.ParseMediaType(r.header.Get("Content-Type"))
	if err != nil || mediaType != "multipart/form-data" {
		t.Fatalf("Content-Type = %q, want multipart/form-data", r.header.Get("Content-Type"))
	}
	form, err := multipart.NewReader(bytes.NewReader(r.body), params["boundary"]).ReadForm(1 << 10)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(form.Value); got != "map[grant_type:[client_credentials] scope:[phone_check]]" {
		t.Errorf("form = %s, want grant_type client_credentials and scope phone_check", got)
	}
	if got := srv.calls()[0].header.Get("Authorization"); got != "Bearer token-1" {
		t.Errorf("Authorization of the operation = %q, want the token", got)
	}
}

func TestClient_DoesNotRetryWrongSecret(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondWith(200, "{}"))
	srv.token = respondWith(401, string(fixture(t, "token_error.json")))

	_, err := srv.client(t).PhoneChecks.Create(t.Context(), createParams)

	e, ok := errors.AsType[*idverify.TokenError](err)
	if !ok || e.Status != 401 || e.Code != "invalid_client" || e.Scope != "phone_check" || !errors.Is(err, idverify.ErrUnauthorized) {
		t.Errorf("error = %#v, want a *TokenError with code invalid_client", err)
	}
	if n := len(srv.tokens()); n != 1 {
		t.Errorf("%d token requests, want 1: more could lock the account", n)
	}
	if n := len(srv.calls()); n != 0 {
		t.Errorf("%d requests sent without a token, want 0", n)
	}
}

func TestClient_SharesTokenFetch(t *testing.T) {
	t.Parallel()
	requested, release := make(chan struct{}), make(chan struct{})
	srv := newService(t, respondWith(200, string(fixture(t, "phone_check.json"))))
	srv.token = func(w http.ResponseWriter, _ *http.Request) {
		close(requested) // panics at a second token request
		<-release
		io.WriteString(w, `{"access_token":"late","expires_in":3600}`)
	}
	c := srv.client(t)

	ctx, cancel := context.WithCancel(t.Context())
	first, other := make(chan error, 1), make(chan error, 1)
	go func() { first <- errorOf(c.PhoneChecks.Get(ctx, phoneCheckID)) }()
	<-requested
	go func() { other <- errorOf(c.PhoneChecks.Get(t.Context(), phoneCheckID)) }()
	cancel()
	firstErr := <-first
	close(release)

	if !errors.Is(firstErr, context.Canceled) {
		t.Errorf("error of the canceled caller = %v, want context.Canceled", firstErr)
	}
	if err := <-other; err != nil {
		t.Errorf("error of the other caller = %v, want nil: the fetch must not use the canceled caller's context", err)
	}
}

func TestClient_CachesTokenPerScopes(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondWith(200, string(fixture(t, "phone_check.json"))))
	c := srv.client(t)
	ctx := t.Context()

	a := tokenFor(t, c, idverify.ScopeReachability)
	b := tokenFor(t, c, idverify.ScopePhoneCheck, idverify.ScopeReachability)
	if again := tokenFor(t, c, idverify.ScopeReachability, idverify.ScopePhoneCheck, idverify.ScopeReachability); again != b {
		t.Errorf("tokens for the same scopes in another order = %q and %q, want equal", b, again)
	}
	_, _ = c.PhoneChecks.Get(ctx, "a")
	_, _ = c.PhoneChecks.Get(ctx, "a")

	if a == b {
		t.Error("tokens for coverage, and for coverage and phone_check, are equal, want different tokens")
	}
	if n := len(srv.tokens()); n != 3 {
		t.Errorf("%d token requests for three sets of scopes, want 3", n)
	}
}

func TestClient_TokenReturnsCopy(t *testing.T) {
	t.Parallel()
	srv := newService(t, nil)
	c := srv.client(t)

	token, err := c.Token(t.Context(), idverify.ScopeReachability)
	if err != nil {
		t.Fatal(err)
	}
	token.AccessToken = "changed"

	if got := tokenFor(t, c, idverify.ScopeReachability); got != "token-1" {
		t.Errorf("cached token = %q, want token-1", got)
	}
}

func TestClient_TokenExpiry(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		expiresIn string
		used      time.Duration // still used after this time
		replaced  time.Duration // replaced after this time
	}{
		{"an hour", `3600`, 58 * time.Minute, time.Hour},
		{"number as text", `"3600"`, 58 * time.Minute, time.Hour},
		{"missing", `null`, 4 * time.Minute, 5 * time.Minute},
		{"zero", `0`, 4 * time.Minute, 5 * time.Minute},
		{"negative", `-1`, 4 * time.Minute, 5 * time.Minute},
		{"very long", `1e300`, 29 * 24 * time.Hour, 30 * 24 * time.Hour},
		{"a second", `1`, 800 * time.Millisecond, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var grant atomic.Int32
			srv := newService(t, nil)
			srv.token = func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"access_token":"token-%d","expires_in":%s}`, grant.Add(1), tt.expiresIn)
			}
			clock := newClock()
			c := srv.client(t, idverify.WithClock(clock.now))
			first := tokenFor(t, c, idverify.ScopeReachability)

			clock.advance(tt.used)
			if got := tokenFor(t, c, idverify.ScopeReachability); got != first {
				t.Errorf("token after %v = %q, want still %q", tt.used, got, first)
			}
			clock.advance(tt.replaced - tt.used)
			if got := tokenFor(t, c, idverify.ScopeReachability); got == first {
				t.Errorf("expired token still used after %v, want a new one", tt.replaced)
			}
		})
	}
}

func TestClient_RefreshesTokenInBackground(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newMemoryService()
		e.delay = time.Second
		c := e.client(t)
		tokenFor(t, c, idverify.ScopeReachability)

		time.Sleep(59*time.Minute - time.Nanosecond)
		tokenFor(t, c, idverify.ScopeReachability)
		synctest.Wait()
		early := e.count()
		time.Sleep(time.Nanosecond)
		for range 20 {
			if got := tokenFor(t, c, idverify.ScopeReachability); got != "token-1" {
				t.Fatalf("token during the refresh = %q, want the old one", got)
			}
		}
		time.Sleep(2 * time.Second)
		got := tokenFor(t, c, idverify.ScopeReachability)

		if early != 1 || got != "token-2" || e.count() != 2 {
			t.Errorf("%d token requests before the last minute, then token %q and %d requests; want 1, token-2 and 2", early, got, e.count())
		}
	})
}

func TestClient_PausesAfterFailedRefresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newMemoryService()
		e.fail = map[int]bool{2: true}
		c := e.client(t)
		tokenFor(t, c, idverify.ScopeReachability)

		time.Sleep(59*time.Minute + 10*time.Second)
		for range 20 {
			if got := tokenFor(t, c, idverify.ScopeReachability); got != "token-1" {
				t.Fatalf("token = %q, want the old one, which is still valid", got)
			}
			synctest.Wait()
		}
		refreshes := e.count()
		time.Sleep(10 * time.Second)
		tokenFor(t, c, idverify.ScopeReachability)
		synctest.Wait()

		if got := tokenFor(t, c, idverify.ScopeReachability); refreshes != 2 || got != "token-3" {
			t.Errorf("%d token requests, then token %q; want 2 and token-3", refreshes, got)
		}
	})
}

func TestClient_DiscardsStaleTokenRefresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newMemoryService()
		c := e.client(t)
		tokenFor(t, c, idverify.ScopePhoneCheck)
		time.Sleep(59*time.Minute + time.Second)
		e.delay = 10 * time.Second
		tokenFor(t, c, idverify.ScopePhoneCheck) // starts a refresh
		synctest.Wait()
		e.delay = 0
		e.revoked = "token-1 token-2"
		start := time.Now()

		_, err := c.PhoneChecks.Get(t.Context(), "a") // 401 for token-1: fetches token-3
		took := time.Since(start)
		time.Sleep(time.Minute) // the refresh has finished

		if err != nil || took > 0 {
			t.Errorf("error = %[2]v after %[1]v, want a new token at once, not that of the refresh in progress", took, err)
		}
		if got := tokenFor(t, c, idverify.ScopePhoneCheck); got != "token-3" {
			t.Errorf("token = %q, want token-3: the token of a refresh started before the 401 was kept", got)
		}
	})
}

func TestClient_ReplacesTokenAfter401(t *testing.T) {
	t.Parallel()
	revoked := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer token-1" {
			respondWithProblem(401, "unauthorized", "token revoked")(w, r)
			return
		}
		w.WriteHeader(201)
		w.Write(fixture(t, "phone_check_created.json"))
	}
	srv := newService(t, revoked)

	check, err := srv.client(t).PhoneChecks.Create(t.Context(), createParams)

	if err != nil || check.Status != idverify.StatusAccepted {
		t.Fatalf("check = %v, error = %v, want an accepted check", check, err)
	}
	calls := srv.calls()
	if len(calls) != 2 || string(calls[0].body) != string(calls[1].body) || len(calls[1].body) == 0 {
		t.Errorf("%d requests with bodies %q, want the same body twice", len(calls), calls)
	}
	if n := len(srv.tokens()); n != 2 {
		t.Errorf("%d token requests, want 2", n)
	}
}

func TestClient_NewTokenRejected(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondWithProblem(401, "unauthorized", "no"))

	_, err := srv.client(t).PhoneChecks.Get(t.Context(), "a")

	if !errors.Is(err, idverify.ErrUnauthorized) {
		t.Errorf("error = %v, want ErrUnauthorized", err)
	}
	if calls, tokens := len(srv.calls()), len(srv.tokens()); calls != 2 || tokens != 2 {
		t.Errorf("%d requests and %d token requests, want 2 and 2", calls, tokens)
	}
}

func TestClient_SharesTokenFetchAfter401(t *testing.T) {
	t.Parallel()
	const callers = 40
	var revoked atomic.Bool
	srv := newService(t, func(w http.ResponseWriter, r *http.Request) {
		if revoked.Load() && r.Header.Get("Authorization") == "Bearer token-1" {
			respondWithProblem(401, "unauthorized", "revoked")(w, r)
			return
		}
		w.Write(fixture(t, "phone_check.json"))
	})
	c := srv.client(t)
	if _, err := c.PhoneChecks.Get(t.Context(), phoneCheckID); err != nil {
		t.Fatal(err)
	}
	revoked.Store(true)

	for err := range concurrently(callers, func() error { return errorOf(c.PhoneChecks.Get(t.Context(), phoneCheckID)) }) {
		if err != nil {
			t.Error(err)
		}
	}

	if n := len(srv.tokens()); n != 2 {
		t.Errorf("%d token requests, want 2: one before the revocation and one after it", n)
	}
}

// A renewal can store a token that was issued before its credentials were deleted, while a call
// with the previous token is rejected.
func TestClient_ReplacesRenewedTokenAfter401(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newMemoryService()
		slow := slowOperations(e, "token-1")
		c := slow.client(t)
		tokenFor(t, c, idverify.ScopePhoneCheck)
		time.Sleep(59*time.Minute + time.Second)
		failed := make(chan error, 1)
		go func() { failed <- errorOf(c.PhoneChecks.Get(t.Context(), "a")) }() // starts a renewal
		synctest.Wait()
		e.revoke("token-1 token-2")

		err := <-failed

		if err != nil {
			t.Errorf("error = %v, want nil: token-2 was fetched before the rejection of token-1", err)
		}
		if got := tokenFor(t, c, idverify.ScopePhoneCheck); got != "token-3" {
			t.Errorf("token = %q, want token-3", got)
		}
	})
}

func TestClient_KeepsTokenAfterLate401(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newMemoryService()
		c := slowOperations(e, "token-1").client(t)
		tokenFor(t, c, idverify.ScopePhoneCheck)
		e.revoked = "token-1"
		const callers = 20
		errs := make(chan error, callers)

		for range callers { // rejected one second after another
			go func() { errs <- errorOf(c.PhoneChecks.Get(t.Context(), "a")) }()
			time.Sleep(time.Second)
		}
		for range callers {
			if err := <-errs; err != nil {
				t.Errorf("error = %v, want nil", err)
			}
		}

		if n := e.count(); n != 2 {
			t.Errorf("%d token requests, want 2: token-2 was fetched after the first rejection of token-1", n)
		}
	})
}

func TestClient_RetriesTokenRequest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		respond http.HandlerFunc
		want    int
	}{
		{"400", respondWith(400, `{"error":"invalid_scope"}`), 1},
		{"401", respondWith(401, `{"error":"invalid_client"}`), 1},
		{"403", respondWith(403, ``), 1},
		{"429", respondWith(429, ``), 2},
		{"500", respondWith(500, ``), 2},
		{"503", respondWith(503, ``), 2},
		{"501", respondWith(501, ``), 1},
		{"connection lost", drop, 2},
		{"malformed response", respondWith(200, `<html>`), 1},
		{"response without a token", respondWith(200, `{"token_type":"bearer"}`), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := newService(t, respondWith(201, string(fixture(t, "phone_check_created.json"))))
			srv.token = respondInTurn(tt.respond, respondWith(200, `{"access_token":"a"}`))

			_, err := srv.client(t).PhoneChecks.Create(t.Context(), createParams)

			if got := len(srv.tokens()); got != tt.want {
				t.Errorf("%d token requests, want %d (error %v)", got, tt.want, err)
			}
			if (err == nil) != (tt.want == 2) {
				t.Errorf("error = %v after %d token requests", err, tt.want)
			}
			if n := len(srv.calls()); n > 1 {
				t.Errorf("%d creates, want at most 1", n)
			}
		})
	}
}

func TestClient_TokenAfterRetries(t *testing.T) {
	t.Parallel()
	srv := newService(t, nil)
	srv.token = respondInTurn(respondWith(503, ""), drop, respondWith(200, `{"access_token":"third"}`))

	if got := tokenFor(t, srv.client(t), idverify.ScopeReachability); got != "third" {
		t.Errorf("token = %q, want third", got)
	}
}

func TestTokenError_Text(t *testing.T) {
	t.Parallel()
	srv := newService(t, nil)
	srv.token = respondWith(401, string(fixture(t, "token_error.json")))

	_, err := srv.client(t).Token(t.Context(), idverify.ScopePhoneCheck)

	want := `idverify: get token for scope "phone_check": 401 invalid_client: the client ID or the client secret is wrong (check client ID and secret; project secrets cannot be reset: create new credentials if the secret is lost)`
	if err == nil || err.Error() != want {
		t.Errorf("error\n%v\nwant\n%s", err, want)
	}
	if strings.Contains(fmt.Sprintf("%+v %#v", err, err), "s3cret") {
		t.Error("the error contains the secret")
	}
}
