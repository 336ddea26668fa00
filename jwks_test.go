package idverify_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// keySetServer serves the key set of a fake over TLS, behind a redirect on the same host.
type keySetServer struct {
	*httptest.Server
	header http.Header // of the last request for the key set
	down   bool
}

func newKeySetServer(t *testing.T) *keySetServer {
	t.Helper()
	fake := sandboxfake.New(t, sandboxfake.WithInMemory())
	resp, err := fake.HTTPClient().Get(fake.URL() + keySetPath)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body := must(io.ReadAll(resp.Body))(t)

	s := new(keySetServer)
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
	s.Server = httptest.NewTLSServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *keySetServer) client(t *testing.T, opts ...idverify.Option) *idverify.Client {
	t.Helper()
	return must(idverify.NewClient(s.URL, credentials, opts...))(t)
}

// TestClient_NewJWKSInheritsHTTPClient uses an HTTP client that trusts the certificate of the
// server, and that has a cookie and rejects redirects.
func TestClient_NewJWKSInheritsHTTPClient(t *testing.T) {
	t.Parallel()
	s := newKeySetServer(t)
	base := must(url.Parse(s.URL))(t)
	jar := must(cookiejar.New(nil))(t)
	jar.SetCookies(base, []*http.Cookie{{Name: "session", Value: "secret"}})
	httpClient := &http.Client{
		Transport:     s.Client().Transport,
		Jar:           jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("no redirects") },
	}
	client := s.client(t, idverify.WithHTTPClient(httpClient))

	trusted := must(client.NewJWKS(nil))(t).Refresh(t.Context())
	untrusted := must(s.client(t).NewJWKS(nil))(t).Refresh(t.Context())

	if trusted != nil {
		t.Errorf("error = %v, want none: the HTTP client trusts the certificate", trusted)
	}
	if !errors.Is(untrusted, signature.ErrKeySource) || !strings.Contains(fmt.Sprint(untrusted), "certificate") {
		t.Errorf("without an HTTP client: error = %v, want one about the certificate", untrusted)
	}
	if s.header.Get("Cookie") != "" || s.header.Get("Authorization") != "" {
		t.Errorf("request for the key set has cookies or credentials: %v", s.header)
	}
	if httpClient.Jar == nil || httpClient.CheckRedirect == nil {
		t.Error("the HTTP client of the caller was modified")
	}
}

func TestClient_NewJWKSInheritsTimeout(t *testing.T) {
	t.Parallel()
	transport := roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	httpClient := &http.Client{Transport: transport, Timeout: time.Nanosecond}
	client := must(idverify.NewClient("https://eu.api.example.com", credentials, idverify.WithHTTPClient(httpClient)))(t)

	err := must(client.NewJWKS(nil))(t).Refresh(t.Context())

	if !errors.Is(err, signature.ErrKeySource) || strings.Contains(err.Error(), "within 3 s") {
		t.Errorf("error = %v, want that of the client's timeout", err)
	}
}

func TestClient_NewJWKSInheritsClock(t *testing.T) {
	t.Parallel()
	s := newKeySetServer(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	client := s.client(t, idverify.WithHTTPClient(s.Client()), idverify.WithClock(func() time.Time { return now }))
	keys := must(client.NewJWKS(nil))(t)
	if err := keys.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}

	now = now.Add(time.Hour)
	age, fetched := keys.Age()

	if age != time.Hour || !fetched {
		t.Errorf("Age() = %v, %v; want 1h by the client's clock", age, fetched)
	}
}

func TestClient_NewJWKSInheritsLogger(t *testing.T) {
	t.Parallel()
	s := newKeySetServer(t)
	s.down = true
	var log strings.Builder
	client := s.client(t, idverify.WithHTTPClient(s.Client()), idverify.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))

	err := must(client.NewJWKS(nil))(t).Refresh(t.Context())

	if !errors.Is(err, signature.ErrKeySource) || !strings.Contains(log.String(), `msg="signature: key set not fetched"`) {
		t.Errorf("error = %v, log = %q; want a record of the failed fetch", err, log.String())
	}
}

func TestClient_NewJWKSOptions(t *testing.T) {
	t.Parallel()
	s := newKeySetServer(t)
	var used atomic.Int32
	transport := roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		used.Add(1)
		return s.Client().Transport.RoundTrip(r)
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
}
