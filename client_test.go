package idverify_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
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
		{"empty credentials", base, idverify.Credentials{}, nil, "the client ID and the client secret are missing (set both fields of Credentials: in JSON, client_id and client_secret)"},
		{"no client ID", base, idverify.Credentials{ClientSecret: idverify.NewSecret("pa55word")}, nil, "the client ID is missing"},
		{"no secret", base, idverify.Credentials{ClientID: "a"}, nil, "the client secret is missing"},
		{"space around the client ID", base, idverify.Credentials{ClientID: " a", ClientSecret: idverify.NewSecret("pa55word")}, nil, "the client ID begins or ends with white space"},
		{"newline after the secret", base, idverify.Credentials{ClientID: "a", ClientSecret: idverify.NewSecret("pa55word\n")}, nil, "the client secret begins or ends with white space"},
		{"placeholder as the secret", base, idverify.Credentials{ClientID: "a", ClientSecret: idverify.NewSecret("[REDACTED]")}, nil, "the client secret is the placeholder"},
		{"colon in the client ID", base, idverify.Credentials{ClientID: "a:b", ClientSecret: idverify.NewSecret("pa55word")}, nil, "colon"},
		{"negative retry policy", base, credentials, []idverify.Option{idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: -1})}, "negative"},
		{"negative minimum", base, credentials, []idverify.Option{idverify.WithRetry(idverify.RetryPolicy{MinWait: -1})}, "negative"},
		{"negative maximum", base, credentials, []idverify.Option{idverify.WithRetry(idverify.RetryPolicy{MaxWait: -1})}, "negative"},
		{"control character in the client ID", base, idverify.Credentials{ClientID: "a\x01b", ClientSecret: idverify.NewSecret("pa55word")}, nil, "control character"},
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

	c := must(idverify.NewClient("https://eu.api.example.com:8443/", credentials, nil))(t)

	if got, want := c.JWKSURL(), "https://eu.api.example.com:8443/.well-known/jwks.json"; got != want {
		t.Errorf("JWKSURL() = %q, want %q", got, want)
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
	before := *given
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
	if given.Transport != before.Transport || given.CheckRedirect != nil || given.Jar != before.Jar || given.Timeout != 1 {
		t.Error("the caller's HTTP client was modified, want it unchanged")
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

	for name, tt := range map[string]struct{ err, want error }{
		"invalid number":                   {errorOf(c.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: "call me"})), idverify.ErrPhoneFormat},
		"empty number":                     {errorOf(c.SIMChecks.Create(ctx, idverify.SIMCheckParams{})), idverify.ErrPhoneFormat},
		"redirect URL in v0.1":             {errorOf(c.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: testNumber, RedirectURL: "https://shop.example/"})), idverify.ErrBadRequest},
		"code exchange in v0.1":            {errorOf(c.SubscriberChecks.Complete(ctx, "a", "code")), idverify.ErrBadRequest},
		"empty code":                       {errorOf(srv.client(t, idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"})).PhoneChecks.Complete(ctx, "a", "")), idverify.ErrBadRequest},
		"address with a zone":              {errorOf(c.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: testNumber, PhoneIP: zoned})), idverify.ErrBadRequest},
		"negative period":                  {errorOf(c.SubscriberChecks.Create(ctx, idverify.SubscriberCheckParams{PhoneNumber: testNumber, Period: -time.Hour})), idverify.ErrBadRequest},
		"period with seconds":              {errorOf(c.SubscriberChecks.Create(ctx, idverify.SubscriberCheckParams{PhoneNumber: testNumber, Period: time.Hour + time.Second})), idverify.ErrBadRequest},
		"zero address":                     {errorOf(c.Reachability.Lookup(ctx, netip.Addr{})), idverify.ErrBadRequest},
		"lookup of an address with a zone": {errorOf(c.Reachability.Lookup(ctx, zoned)), idverify.ErrBadRequest},
		"token without a scope":            {errorOf(c.Token(ctx)), idverify.ErrBadRequest},
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

func TestWithUserAgent_AllRequests(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondWithProblem(404, "not_found", ""))

	_, _ = srv.client(t, idverify.WithUserAgent("shop/2.1")).PhoneChecks.Get(t.Context(), "a")

	for _, r := range append(srv.calls(), srv.tokens()...) {
		if got, want := r.header.Get("User-Agent"), "shop/2.1 idverify-go/"; !strings.HasPrefix(got, want) || len(got) == len(want) {
			t.Errorf("%s %s: User-Agent = %q", r.method, r.uri, got)
		}
	}
	if got, want := srv.calls()[0].header.Get("Accept"), "application/hal+json, application/problem+json, application/json"; got != want {
		t.Errorf("Accept = %q, want %q", got, want)
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
		{"other module of the repository", &debug.BuildInfo{Main: main, Deps: []*debug.Module{{Path: path + "/redisstore", Version: "v0.3.0"}}}, "devel"},
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

// versionCalls contains an operation of each product.
var versionCalls = []struct {
	product, path string // the path contains {v}
	call          func(context.Context, *idverify.Client) error
}{
	{"phone_check", "/phone_check/{v}/checks", func(ctx context.Context, c *idverify.Client) error {
		return errorOf(c.PhoneChecks.List(ctx, idverify.ListOptions{}))
	}},
	{"sim_check", "/sim_check/{v}/checks", func(ctx context.Context, c *idverify.Client) error {
		return errorOf(c.SIMChecks.List(ctx, idverify.ListOptions{}))
	}},
	{"subscriber_check", "/subscriber_check/{v}/checks", func(ctx context.Context, c *idverify.Client) error {
		return errorOf(c.SubscriberChecks.List(ctx, idverify.ListOptions{}))
	}},
	{"coverage", "/coverage/{v}/countries/44", func(ctx context.Context, c *idverify.Client) error {
		return errorOf(c.Reachability.LookupCountry(ctx, " +44 "))
	}},
}

// paths returns the paths of the operations that the fake received, without queries.
func paths(srv *sandboxfake.Server) []string {
	var paths []string
	for _, r := range srv.Requests() {
		if r.Operation != "token.create" {
			path, _, _ := strings.Cut(r.Path, "?")
			paths = append(paths, path)
		}
	}
	return paths
}

// TestClient_WithVersions derives clients and compares the versions on the wire. The service does
// not have some of them, and responds with 404.
func TestClient_WithVersions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		derive func(*idverify.Client) *idverify.Client
		want   []string // of phone_check, sim_check, subscriber_check and reachability
	}{
		{"base", func(c *idverify.Client) *idverify.Client { return c }, []string{"v0.1", "v0.9", "v0.2", "v7"}},
		{"empty", func(c *idverify.Client) *idverify.Client { return c.WithVersions(idverify.Versions{}) }, []string{"v0.1", "v0.9", "v0.2", "v7"}},
		{"one", func(c *idverify.Client) *idverify.Client {
			return c.WithVersions(idverify.Versions{PhoneCheck: "v0.2"})
		}, []string{"v0.2", "v0.9", "v0.2", "v7"}},
		{"all", func(c *idverify.Client) *idverify.Client {
			return c.WithVersions(idverify.Versions{PhoneCheck: "v1", SIMCheck: "v2", SubscriberCheck: "v3.1.4", Reachability: "v4", Console: "v5"})
		}, []string{"v1", "v2", "v3.1.4", "v4"}},
		{"derived twice", func(c *idverify.Client) *idverify.Client {
			return c.WithVersions(idverify.Versions{PhoneCheck: "v0.2", SubscriberCheck: "v0.1"}).WithVersions(idverify.Versions{SIMCheck: "v0.3", SubscriberCheck: "v0.2"})
		}, []string{"v0.2", "v0.3", "v0.2", "v7"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := sandboxfake.New(t, sandboxfake.WithInMemory())
			base := srv.Client(idverify.WithVersions(idverify.Versions{SIMCheck: "v0.9", SubscriberCheck: "v0.1"}),
				idverify.WithVersions(idverify.Versions{SubscriberCheck: "v0.2", Reachability: "v7"}))
			c := tt.derive(base)

			for i, call := range versionCalls {
				if err := call.call(t.Context(), c); err != nil && !errors.Is(err, idverify.ErrNotFound) {
					t.Errorf("%s %s: error = %v, want at most ErrNotFound", call.product, tt.want[i], err)
				}
			}
			_ = versionCalls[0].call(t.Context(), base) // the derived client does not change it

			want := make([]string, 0, len(versionCalls)+1)
			for i, call := range versionCalls {
				want = append(want, strings.Replace(call.path, "{v}", tt.want[i], 1))
			}
			want = append(want, "/phone_check/v0.1/checks")
			wantEqual(t, want, paths(srv), "paths")
		})
	}
}

func TestClient_WithVersionsMalformed(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	base := srv.Client()
	for _, version := range []string{"0.1", "v", "V0.1", "v0.1/x", "v0.1 ", "../v0.1", "v0..1", "v0.1\n", "latest"} {
		all := idverify.Versions{PhoneCheck: version, SIMCheck: version, SubscriberCheck: version, Reachability: version}
		c := base.WithVersions(all).WithVersions(idverify.Versions{}) // keeps the malformed versions
		for _, call := range versionCalls {
			err := call.call(t.Context(), c)

			if !errors.Is(err, idverify.ErrBadRequest) || !strings.Contains(err.Error(), `not sent: bad request: version of `+call.product+` must have the form "v0.1"`) {
				t.Errorf("%s %q: error = %v, want ErrBadRequest with the product", call.product, version, err)
			}
		}
	}
	if requests := srv.Requests(); len(requests) > 0 {
		t.Errorf("%d requests, want none", len(requests))
	}

	one := base.WithVersions(idverify.Versions{SIMCheck: "latest"})
	repaired := one.WithVersions(idverify.Versions{SIMCheck: "v0.1"})

	if err := versionCalls[0].call(t.Context(), one); err != nil {
		t.Errorf("another product: error = %v, want none", err)
	}
	if err := versionCalls[1].call(t.Context(), repaired); err != nil {
		t.Errorf("malformed version replaced: error = %v, want none", err)
	}
}

func TestClient_WithVersionsSharesToken(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	base := srv.Client()
	const callers = 50

	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			c := base
			if i%2 == 0 {
				c = base.WithVersions(idverify.Versions{PhoneCheck: "v0.2"})
			}
			if err := versionCalls[0].call(t.Context(), c); err != nil {
				t.Errorf("error = %v, want none", err)
			}
		})
	}
	wg.Wait()

	if n := countRequests(srv, "token.create"); n != 1 {
		t.Errorf("%d token requests by %d derived clients, want 1", n, callers/2)
	}
	sent := make(map[string]int)
	for _, path := range paths(srv) {
		sent[path]++
	}
	wantEqual(t, map[string]int{"/phone_check/v0.1/checks": callers / 2, "/phone_check/v0.2/checks": callers / 2}, sent, "requests")
}

// TestClient_WithVersionsSharesBudget uses up the retry budget with one client. The derived one
// must not retry then, and the options apply to both.
func TestClient_WithVersionsSharesBudget(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	base := srv.Client(idverify.WithRetry(idverify.RetryPolicy{Budget: 1, MinWait: time.Nanosecond, MaxWait: time.Nanosecond}))
	derived := base.WithVersions(idverify.Versions{PhoneCheck: "v0.2"})
	srv.Inject(sandboxfake.Match{Operation: "phone_check.list", Repeat: true}, sandboxfake.Fault{Status: http.StatusServiceUnavailable})

	first := versionCalls[0].call(t.Context(), base)
	second := versionCalls[0].call(t.Context(), derived)

	if first == nil || second == nil {
		t.Errorf("errors = %v and %v, want one each", first, second)
	}
	want := []string{"/phone_check/v0.1/checks", "/phone_check/v0.1/checks", "/phone_check/v0.2/checks"}
	wantEqual(t, want, paths(srv), "attempts")
}

// keySetServer serves the key set of a fake over TLS, behind a redirect on the same host.
type keySetServer struct {
	URL       string
	transport http.RoundTripper // trusts the certificate
	header    http.Header       // of the last request for the key set
	down      bool
}

// newKeySetServer starts a server for a bubble: a fetch takes at most 3 s of its clock.
func newKeySetServer(t *testing.T) *keySetServer {
	t.Helper()
	fake := sandboxfake.New(t, sandboxfake.WithInMemory())
	resp := must(fake.HTTPClient().Get(fake.URL() + keySetPath))(t)
	defer resp.Body.Close()
	body := must(io.ReadAll(resp.Body))(t)

	s := &keySetServer{transport: fake.HTTPClient().Transport}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+keySetPath, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/moved", http.StatusFound)
	})
	mux.HandleFunc("GET /moved", func(w http.ResponseWriter, r *http.Request) {
		s.header = r.Header
		if s.down {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Write(body)
	})
	s.URL = fake.Handle("keys.sandbox.test", mux)
	return s
}

func (s *keySetServer) client(t *testing.T, opts ...idverify.Option) *idverify.Client {
	t.Helper()
	return must(idverify.NewClient(s.URL, credentials, opts...))(t)
}

// TestClient_NewJWKSInheritsOptions checks that a key set uses the client's transport, clock and
// logger, but not its cookies and redirect policy.
func TestClient_NewJWKSInheritsOptions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newKeySetServer(t)
		jar := must(cookiejar.New(nil))(t)
		jar.SetCookies(must(url.Parse(s.URL))(t), []*http.Cookie{{Name: "session", Value: "secret"}})
		httpClient := &http.Client{
			Transport:     s.transport,
			Jar:           jar,
			CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("no redirects") },
		}
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		var log strings.Builder
		client := s.client(t, idverify.WithHTTPClient(httpClient), idverify.WithClock(func() time.Time { return now }), idverify.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		keys := must(client.NewJWKS(nil))(t)

		fetchErr := keys.Refresh(t.Context())
		now = now.Add(time.Hour)
		age, fetched := keys.Age()
		s.down = true
		outageErr := keys.Refresh(t.Context())
		synctest.Wait() // until the fetch is logged

		if fetchErr != nil {
			t.Errorf("error = %v, want none: the HTTP client trusts the certificate", fetchErr)
		}
		if s.header.Get("Cookie") != "" || s.header.Get("Authorization") != "" {
			t.Errorf("request for the key set has cookies or credentials: %v", s.header)
		}
		if httpClient.Jar == nil || httpClient.CheckRedirect == nil {
			t.Error("the HTTP client of the caller was modified")
		}
		if age != time.Hour || !fetched {
			t.Errorf("Age() = %v, %v; want 1h by the client's clock", age, fetched)
		}
		if !errors.Is(outageErr, signature.ErrKeySource) || !strings.Contains(log.String(), `msg="signature: key set not fetched"`) {
			t.Errorf("error = %v, log = %q; want a record of the failed fetch", outageErr, log.String())
		}
	})
}

func TestClient_NewJWKSWithoutHTTPClient(t *testing.T) {
	t.Parallel()
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(srv.Close)
	client := must(idverify.NewClient(srv.URL, credentials))(t)

	err := must(client.NewJWKS(nil))(t).Refresh(t.Context())
	for strings.Contains(fmt.Sprint(err), "no response within 3 s") { // a handshake on a busy machine
		err = must(client.NewJWKS(nil))(t).Refresh(t.Context())
	}

	if !errors.Is(err, signature.ErrKeySource) || !strings.Contains(fmt.Sprint(err), "certificate") {
		t.Errorf("error = %v, want one about the certificate", err)
	}
}

func TestClient_NewJWKSInheritsTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		transport := roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		httpClient := &http.Client{Transport: transport, Timeout: 2 * time.Second}
		client := must(idverify.NewClient("https://eu.api.example.com", credentials, idverify.WithHTTPClient(httpClient)))(t)

		err := must(client.NewJWKS(nil))(t).Refresh(t.Context())

		if !errors.Is(err, signature.ErrKeySource) || strings.Contains(err.Error(), "within 3 s") {
			t.Errorf("error = %v, want that of the client's timeout", err)
		}
	})
}

func TestClient_NewJWKSOptions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newKeySetServer(t)
		var used atomic.Int32
		transport := roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			used.Add(1)
			return s.transport.RoundTrip(r)
		})
		var log strings.Builder
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		opts := signature.JWKSOptions{
			HTTPClient: &http.Client{Transport: transport},
			MaxStale:   time.Minute,
			MinRefetch: time.Second,
			Now:        func() time.Time { return now },
			Logger:     slog.New(slog.NewTextHandler(&log, nil)),
		}
		logger, httpClient := opts.Logger, opts.HTTPClient
		client := s.client(t) // does not trust the certificate

		keys := must(client.NewJWKS(&opts))(t)
		first := keys.Refresh(t.Context())
		now = now.Add(time.Second)
		s.down = true
		second := keys.Refresh(t.Context())
		synctest.Wait() // until the fetch is logged
		_, invalid := client.NewJWKS(&signature.JWKSOptions{MaxAge: -1})
		empty := new(signature.JWKSOptions)
		must(client.NewJWKS(empty))(t)

		if first != nil || second == nil || used.Load() != 4 {
			t.Errorf("errors = %v and %v after %d requests; want none, one, and 4 with the HTTP client of the options", first, second, used.Load())
		}
		if !strings.Contains(log.String(), "old_set_usable=true") {
			t.Errorf("log = %q, want the failed fetch in the logger of the options", log.String())
		}
		if age, _ := keys.Age(); age != time.Second {
			t.Errorf("Age() = %v, want 1s by the clock of the options", age)
		}
		if invalid == nil {
			t.Error("negative MaxAge: error = nil, want one")
		}
		if opts.Logger != logger || opts.HTTPClient != httpClient || empty.HTTPClient != nil || empty.Now != nil || empty.Logger != nil {
			t.Error("the options were modified")
		}
	})
}

func TestClient_ReadyHandler(t *testing.T) {
	t.Parallel()
	down, hangs := sandboxfake.Fault{Status: http.StatusServiceUnavailable}, sandboxfake.Fault{Latency: time.Minute}
	for _, tt := range []struct {
		name  string
		token *sandboxfake.Fault // of each token request
		jwks  *sandboxfake.Fault // of each request for the key set
		age   time.Duration      // of the key set; 0 if it was not fetched
		check func(context.Context) error
		fails string        // what the log names
		log   string        // "" if the process is ready
		took  time.Duration // the time until the response
	}{
		{name: "ready"},
		{name: "token endpoint down", token: &down},
		{name: "token endpoint hangs", token: &hangs, took: 500 * time.Millisecond},
		{name: "credentials rejected", token: &sandboxfake.Fault{Status: 401, Code: "invalid_client"}, fails: "credentials", log: "invalid_client"},
		{name: "scope rejected", token: &sandboxfake.Fault{Status: 400, Code: "invalid_scope"}, fails: "credentials", log: "invalid_scope"},
		{name: "no key set", jwks: &down, fails: "checks[0]", log: "signature: key lookup: verification unavailable"},
		{name: "no key set yet", jwks: &hangs, fails: "checks[0]", log: "signature: key lookup", took: 500 * time.Millisecond},
		{name: "old key set", jwks: &hangs, age: 23 * time.Hour},
		{name: "key set too old", jwks: &down, age: 25 * time.Hour, fails: "checks[0]", log: "signature: key lookup"},
		{name: "check fails", fails: "checks[1]", check: func(context.Context) error { return errors.New("no room for 447700900012") }, log: "no room for"},
		{name: "check cannot connect", fails: "checks[1]", check: func(context.Context) error { return &net.OpError{Op: "dial", Err: errors.New("connection refused")} }, log: "dial: connection refused"},
		{name: "check panics", fails: "checks[1]", check: func(context.Context) error { panic(http.ErrAbortHandler) }, log: "panic in"},
		{name: "check waits", fails: "checks[1]", check: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, log: "deadline exceeded", took: 500 * time.Millisecond},
		{name: "outage of everything but the check", token: &hangs, jwks: &hangs, age: 23 * time.Hour, check: context.Context.Err, took: 500 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				srv := sandboxfake.New(t, sandboxfake.WithInMemory())
				var log tooltest.Buffer // a token fetch that outlives the probe logs, too
				client := srv.Client(idverify.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
				keys := must(client.NewJWKS(nil))(t)
				if tt.age > 0 {
					noError(t, keys.Ready(t.Context()))
					time.Sleep(tt.age)
				}
				for operation, fault := range map[string]*sandboxfake.Fault{"token.create": tt.token, "jwks.get": tt.jwks} {
					if fault != nil {
						srv.Inject(sandboxfake.Match{Operation: operation, Repeat: true}, *fault)
					}
				}
				checks := []func(context.Context) error{keys.Ready}
				if tt.check != nil {
					checks = append(checks, tt.check)
				}
				w, began := httptest.NewRecorder(), time.Now()

				client.ReadyHandler(nil, checks...).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))

				if took := time.Since(began); took != tt.took {
					t.Errorf("response after %s, want %s", took, tt.took)
				}
				if tt.log == "" {
					if w.Code != http.StatusNoContent || strings.Contains(log.String(), "idverify: not ready") {
						t.Errorf("response %d, want 204; log:\n%s", w.Code, log.String())
					}
					return
				}
				if w.Code != http.StatusServiceUnavailable || w.Body.String() != "not ready\n" {
					t.Errorf("response %d %q, want 503 without details", w.Code, w.Body)
				}
				if !strings.Contains(log.String(), `level=WARN msg="idverify: not ready" error="`+tt.fails+": ") || !strings.Contains(log.String(), tt.log) || strings.Contains(log.String(), "447700900012") {
					t.Errorf("log = %s, want the reason %q of %s, without the number", log.String(), tt.log, tt.fails)
				}
			})
		})
	}
}

// A ready process sends no request for a probe.
func TestClient_ReadyHandlerScopes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // on the real clock, the probe can take longer than its 500 ms
		srv := sandboxfake.New(t, sandboxfake.WithInMemory())
		client := srv.Client()
		ready := client.ReadyHandler([]idverify.Scope{idverify.ScopePhoneCheck}, must(client.NewJWKS(nil))(t).Ready)

		for range 3 {
			w := httptest.NewRecorder()
			ready.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
			if w.Code != http.StatusNoContent {
				t.Errorf("response %d, want 204", w.Code)
			}
		}

		if n := len(srv.Requests()); n != 2 {
			t.Errorf("%d requests, want 2: a token and the key set", n)
		}
	})
}
