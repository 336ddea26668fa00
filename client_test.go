package idverify_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
)

func TestNewClient_InvalidArguments(t *testing.T) {
	t.Parallel()
	const base = "https://eu.api.example.com"
	for _, tt := range []struct {
		name    string
		baseURL string
		creds   idverify.Credentials
		opts    []idverify.Option
		want    string
	}{
		{"plain HTTP", "http://eu.api.example.com", credentials, nil, "begin with https://"},
		{"no scheme", "eu.api.example.com", credentials, nil, "https://"},
		{"empty", "", credentials, nil, "https://"},
		{"no host", "https://", credentials, nil, "no host"},
		{"port only", "https://:443", credentials, nil, "no host"},
		{"opaque", "https:eu.api.example.com", credentials, nil, "no host"},
		{"with a user", "https://me:pa55word@eu.api.example.com", credentials, nil, "user"},
		{"with a path", base + "/api", credentials, nil, "only scheme and host"},
		{"with a query", base + "?a=b", credentials, nil, "only scheme and host"},
		{"with an empty query", base + "?", credentials, nil, "only scheme and host"},
		{"with a fragment", base + "#a", credentials, nil, "only scheme and host"},
		{"port 0", "https://eu.api.example.com:0", credentials, nil, "port of the base URL must be 1 to 65535"},
		{"port too high", "https://eu.api.example.com:65536", credentials, nil, "port of the base URL must be 1 to 65535"},
		{"not a URL", "https://a b\x7f", credentials, nil, "malformed"},
		{"empty credentials", base, idverify.Credentials{}, nil, "the client ID and the client secret are missing"},
		{"no client ID", base, idverify.Credentials{ClientSecret: idverify.NewSecret("pa55word")}, nil, "the client ID is missing"},
		{"no secret", base, idverify.Credentials{ClientID: "a"}, nil, "the client secret is missing"},
		{"space around the client ID", base, idverify.Credentials{ClientID: " a", ClientSecret: idverify.NewSecret("pa55word")}, nil, "the client ID begins or ends with white space"},
		{"newline after the secret", base, idverify.Credentials{ClientID: "a", ClientSecret: idverify.NewSecret("pa55word\n")}, nil, "the client secret begins or ends with white space"},
		{"placeholder as the secret", base, idverify.Credentials{ClientID: "a", ClientSecret: idverify.NewSecret("[REDACTED]")}, nil, "the client secret is the placeholder"},
		{"colon in the client ID", base, idverify.Credentials{ClientID: "a:b", ClientSecret: idverify.NewSecret("pa55word")}, nil, "colon"},
		{"negative retry policy", base, credentials, []idverify.Option{idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: -1})}, "negative"},
		{"minimum above the maximum", base, credentials, []idverify.Option{idverify.WithRetry(idverify.RetryPolicy{MinWait: 2, MaxWait: 1})}, "MinWait"},
		{"version with a path", base, credentials, []idverify.Option{idverify.WithVersions(idverify.Versions{PhoneCheck: "../v0.1"})}, "phone_check"},
		{"user agent with a line break", base, credentials, []idverify.Option{idverify.WithUserAgent("a\r\nX: y")}, "user agent"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()

			client, err := idverify.NewClient(tt.baseURL, tt.creds, tt.opts...)
			_, consoleErr := idverify.NewConsole(tt.baseURL, tt.creds, tt.opts...)

			if err == nil || client != nil {
				t.Fatalf("NewClient: error = nil or client != nil, want only an error that contains %q", tt.want)
			}
			if consoleErr == nil {
				t.Error("NewConsole: error = nil, want an error")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %q, want it to contain %q", err, tt.want)
			}
			if strings.Contains(err.Error(), "pa55word") {
				t.Errorf("error = %q contains a password", err)
			}
		})
	}
}

func TestNewClient_BaseURLWithSlash(t *testing.T) {
	t.Parallel()

	c, err := idverify.NewClient("https://eu.api.example.com:8443/", credentials, nil)
	if err != nil {
		t.Fatal(err)
	}

	if got, want := c.JWKSURL(), "https://eu.api.example.com:8443/.well-known/jwks.json"; got != want {
		t.Errorf("JWKSURL() = %q, want %q", got, want)
	}
}

func TestClient_DoesNotFollowRedirects(t *testing.T) {
	t.Parallel()
	other := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another host received a request with Authorization %q, want no request", r.Header.Get("Authorization"))
	}))
	t.Cleanup(other.Close)
	redirect := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/?code=1", http.StatusTemporaryRedirect)
	}

	t.Run("operation", func(t *testing.T) {
		t.Parallel()
		srv := newService(t, redirect)

		_, err := srv.client(t).PhoneChecks.Get(t.Context(), "a")

		if e, ok := errors.AsType[*idverify.Error](err); !ok || e.Status != http.StatusTemporaryRedirect {
			t.Errorf("error = %v, want an *Error with status 307", err)
		}
		if strings.Contains(fmt.Sprint(err), other.URL) {
			t.Errorf("error = %q contains a URL", err)
		}
	})
	t.Run("token request", func(t *testing.T) {
		t.Parallel()
		srv := newService(t, nil)
		srv.token = redirect

		_, err := srv.client(t).PhoneChecks.Get(t.Context(), "a")

		if e, ok := errors.AsType[*idverify.TokenError](err); !ok || e.Status != http.StatusTemporaryRedirect {
			t.Errorf("error = %v, want a *TokenError with status 307", err)
		}
	})
}

func TestWithHTTPClient_LeavesOriginalUnchanged(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondWith(200, string(fixture(t, "phone_check.json"))))
	given := srv.Client()
	before := *given

	if _, err := srv.client(t, idverify.WithHTTPClient(given)).PhoneChecks.Get(t.Context(), phoneCheckID); err != nil {
		t.Fatal(err)
	}

	if given.Transport != before.Transport || given.CheckRedirect != nil || given.Jar != before.Jar || given.Timeout != before.Timeout {
		t.Error("the caller's HTTP client was modified, want it unchanged")
	}
}

func TestWithHTTPClient_CopiesClient(t *testing.T) {
	t.Parallel()
	srv := newService(t, func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "route", Value: "b"})
		respondWithProblem(404, "not_found", "")(w, r)
	})
	given := srv.Client()
	given.Jar, _ = cookiejar.New(nil)
	c := srv.client(t, idverify.WithHTTPClient(given))
	given.Timeout = 1 // has no effect on the client's copy

	_, _ = c.PhoneChecks.Get(t.Context(), "a")
	_, err := c.PhoneChecks.Get(t.Context(), "a")

	if !errors.Is(err, idverify.ErrNotFound) {
		t.Errorf("error = %v, want ErrNotFound: later changes must have no effect", err)
	}
	if calls := srv.calls(); len(calls) != 2 || calls[1].header.Get("Cookie") != "route=b" {
		t.Errorf("requests = %v, want two, the second with the cookie", calls)
	}
}

func TestClient_ReusesConnections(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondWith(500, ""))
	addresses := make(chan string, 100)
	srv.respond = func(w http.ResponseWriter, r *http.Request) {
		addresses <- r.RemoteAddr
		w.WriteHeader(http.StatusInternalServerError)
	}
	c := srv.client(t)

	for range 3 {
		_, _ = c.PhoneChecks.Get(t.Context(), "a")
	}

	close(addresses)
	used := make(map[string]bool)
	for a := range addresses {
		used[a] = true
	}
	if len(used) != 1 {
		t.Errorf("12 failed attempts used %d connections, want 1", len(used))
	}
}

func TestClient_InvalidArguments(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondWith(500, ""))
	c := srv.client(t)
	ctx := t.Context()
	zoned := netip.MustParseAddr("fe80::1%eth0")

	for name, tt := range map[string]struct {
		err  error
		want error
	}{
		"invalid number":                   {errorOf(c.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: "call me"})), idverify.ErrPhoneFormat},
		"empty number":                     {errorOf(c.SIMChecks.Create(ctx, idverify.SIMCheckParams{})), idverify.ErrPhoneFormat},
		"redirect URL in v0.1":             {errorOf(c.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: testNumber, RedirectURL: "https://shop.example/"})), idverify.ErrBadRequest},
		"code exchange in v0.1":            {errorOf(c.SubscriberChecks.Complete(ctx, "a", "code")), idverify.ErrBadRequest},
		"empty code":                       {errorOf(srv.client(t, idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"})).PhoneChecks.Complete(ctx, "a", "")), idverify.ErrBadRequest},
		"address with a zone":              {errorOf(c.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: testNumber, PhoneIP: zoned})), idverify.ErrBadRequest},
		"period below an hour":             {errorOf(c.SIMChecks.Create(ctx, idverify.SIMCheckParams{PhoneNumber: testNumber, Period: 59 * time.Minute})), idverify.ErrBadRequest},
		"period above 540000 minutes":      {errorOf(c.SIMChecks.Create(ctx, idverify.SIMCheckParams{PhoneNumber: testNumber, Period: 540001 * time.Minute})), idverify.ErrBadRequest},
		"negative period":                  {errorOf(c.SubscriberChecks.Create(ctx, idverify.SubscriberCheckParams{PhoneNumber: testNumber, Period: -time.Hour})), idverify.ErrBadRequest},
		"period with seconds":              {errorOf(c.SubscriberChecks.Create(ctx, idverify.SubscriberCheckParams{PhoneNumber: testNumber, Period: time.Hour + time.Second})), idverify.ErrBadRequest},
		"zero address":                     {errorOf(c.Reachability.Lookup(ctx, netip.Addr{})), idverify.ErrBadRequest},
		"lookup of an address with a zone": {errorOf(c.Reachability.Lookup(ctx, zoned)), idverify.ErrBadRequest},
		"token without a scope":            {errorOf(c.Token(ctx)), idverify.ErrBadRequest},
		"token with two scopes in one":     {errorOf(c.Token(ctx, "coverage phone_check")), idverify.ErrBadRequest},
		//nolint:staticcheck // the test passes a nil context on purpose
		"nil context": {errorOf(c.PhoneChecks.Get(nil, "a")), idverify.ErrBadRequest},
	} {
		if !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: error = %v, want %v", name, tt.err, tt.want)
		}
	}
	if n := len(srv.calls()) + len(srv.tokens()); n != 0 {
		t.Errorf("%d requests sent, want 0", n)
	}
}

func TestWithVersions_PerProduct(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondWithProblem(404, "not_found", ""))
	c := srv.client(t, idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2", Reachability: "v7"}))

	_, _ = c.PhoneChecks.Get(t.Context(), "a")
	_, _ = c.SubscriberChecks.Get(t.Context(), "a")
	_, _ = c.Reachability.Country(t.Context(), "+44")

	var got []string
	for _, r := range srv.calls() {
		got = append(got, r.uri)
	}
	want := "/phone_check/v0.2/checks/a /subscriber_check/v0.1/checks/a /coverage/v7/countries/44"
	if strings.Join(got, " ") != want {
		t.Errorf("paths = %q, want %q", got, want)
	}
}

func TestWithUserAgent_AllRequests(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondWithProblem(404, "not_found", ""))

	_, _ = srv.client(t, idverify.WithUserAgent("shop/2.1")).PhoneChecks.Get(t.Context(), "a")

	for _, r := range append(srv.calls(), srv.tokens()...) {
		if got, want := r.header.Get("User-Agent"), "shop/2.1 idverify-go/"; !strings.HasPrefix(got, want) || len(got) == len(want) {
			t.Errorf("%s %s: User-Agent = %q", r.method, r.uri, got)
		}
	}
}

// errorOf returns the error of a call.
func errorOf[T any](_ T, err error) error { return err }

func TestWithUserAgent_ModuleVersion(t *testing.T) {
	t.Parallel()
	const path = "github.com/idverify/idverify-go"
	main := debug.Module{Path: "example.com/shop", Version: "v2.1.0"}
	for _, tt := range []struct {
		name  string
		build *debug.BuildInfo
		want  string
	}{
		{"dependency", &debug.BuildInfo{Main: main, Deps: []*debug.Module{{Path: "golang.org/x/net", Version: "v0.1.0"}, {Path: path, Version: "v1.2.0"}}}, "1.2.0"},
		{"other module of the repository", &debug.BuildInfo{Main: main, Deps: []*debug.Module{{Path: path + "/replaystore/redis", Version: "v0.3.0"}}}, "devel"},
		{"replaced by a fork", &debug.BuildInfo{Main: main, Deps: []*debug.Module{{Path: path, Version: "v1.2.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v1.2.1-fork"}}}}, "1.2.1-fork"},
		{"replaced by a directory", &debug.BuildInfo{Main: main, Deps: []*debug.Module{{Path: path, Version: "v1.2.0", Replace: &debug.Module{Path: "../idverify-go"}}}}, "devel"},
		{"main module", &debug.BuildInfo{Main: debug.Module{Path: path, Version: "(devel)"}}, "devel"},
		{"released program", &debug.BuildInfo{Main: debug.Module{Path: path, Version: "v1.2.0"}}, "1.2.0"},
		{"no build information", nil, "devel"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()

			if got := idverify.ModuleVersion(tt.build, tt.build != nil); got != tt.want {
				t.Errorf("version = %q, want %q", got, tt.want)
			}
		})
	}
}
