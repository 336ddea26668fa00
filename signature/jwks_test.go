package signature_test

import (
	"bytes"
	"crypto/fips140"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/signature"
)

// TestJWKS_FetchesOnFirstLookup also checks that a second lookup does not fetch, and that the
// connection is closed.
func TestJWKS_FetchesOnFirstLookup(t *testing.T) {
	t.Parallel()
	s := newKeyServer(t, jwk("a", "service-1"), jwk("b", "service-2"))
	j := s.jwks(t, signature.JWKSOptions{})
	before := s.fetches()

	s.want(t, j, "a", "service-1")
	s.want(t, j, "b", "service-2")

	if before != 0 || s.fetches() != 1 {
		t.Errorf("%d fetches before the first lookup and %d in total, want 0 and 1", before, s.fetches())
	}
	if !s.closed.Load() {
		t.Error("request does not close the connection, want it closed until the next fetch")
	}
}

func TestJWKS_MaxAge(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cacheControl, age string        // headers of the response
		maxAge            time.Duration // JWKSOptions.MaxAge
		want              time.Duration
	}{
		{"", "", 0, 5 * time.Minute},
		{"max-age=600", "", 0, 10 * time.Minute},
		{"public, Max-Age=600, must-revalidate", "", 0, 10 * time.Minute},
		{`max-age="600"`, "", 0, 10 * time.Minute},
		{"s-maxage=600", "", 0, 5 * time.Minute},
		{"no-cache", "", 0, 5 * time.Minute},
		{"max-age=0", "", 0, time.Minute},
		{"max-age=59", "", 0, time.Minute},
		{"max-age=86400", "", 0, 24 * time.Hour},
		{"max-age=86401", "", 0, 24 * time.Hour},
		{"max-age=99999999999999999999", "", 0, 24 * time.Hour},
		{"max-age=-1", "", 0, 5 * time.Minute},
		{"max-age=soon", "", 0, 5 * time.Minute},
		{"max-age", "", 0, 5 * time.Minute},
		{"max-age=600", "", 2 * time.Minute, 2 * time.Minute},
		{"", "", 2 * time.Minute, 2 * time.Minute},
		{"max-age=1", "", 10 * time.Second, 10 * time.Second},
		{"max-age=600", "249", 0, 351 * time.Second},
		{"max-age=600", "540", 0, time.Minute},
		{"max-age=600", "541", 0, time.Minute}, // minLifetime
		{"max-age=600", "99999999999", 0, time.Minute},
		{"max-age=600", "0", 0, 10 * time.Minute},
		{"max-age=600", "-1", 0, 10 * time.Minute},
		{"max-age=600", "soon", 0, 10 * time.Minute},
	} {
		t.Run(fmt.Sprint(tt.cacheControl, " ", tt.age, " ", tt.maxAge), func(t *testing.T) {
			t.Parallel()
			s := newKeyServer(t)
			s.respond(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Age", tt.age)
				w.Header().Set("Cache-Control", tt.cacheControl)
				fmt.Fprint(w, keySet(jwk("a", "service-1")))
			})
			j := s.jwks(t, signature.JWKSOptions{MaxAge: tt.maxAge})

			s.want(t, j, "a", "service-1")
			s.advance(tt.want - time.Nanosecond)
			s.want(t, j, "a", "service-1")
			before := s.fetches()
			s.advance(time.Nanosecond)
			s.want(t, j, "a", "service-1")

			if before != 1 || s.fetches() != 2 {
				t.Errorf("%d fetches before the age of %v, %d after; want 1 and 2", before, tt.want, s.fetches())
			}
		})
	}
}

// badResponses are responses without a valid key set.
var badResponses = map[string]http.HandlerFunc{
	"500":                      respondWith(500, "", ""),
	"503 with a valid body":    respondWith(503, "", keySet(jwk("b", "service-2"))),
	"404":                      respondWith(404, "", "not found"),
	"201":                      respondWith(201, "", keySet(jwk("b", "service-2"))),
	"304":                      respondWith(304, "", ""),
	"empty body":               respondWith(200, "", ""),
	"HTML":                     respondWith(200, "", "<html>"),
	"half a key set":           respondWith(200, "", keySet(jwk("b", "service-2"))[:300]),
	"no keys":                  respondWith(200, "", `{"keys":[]}`),
	"null keys":                respondWith(200, "", `{"keys":null}`),
	"keys of wrong type":       respondWith(200, "", `{"keys":"a"}`),
	"array":                    respondWith(200, "", `[`+jwk("b", "service-2")+`]`),
	"null":                     respondWith(200, "", `null`),
	"only unusable keys":       respondWith(200, "", keySet(jwk("b", "weak"))),
	"body above 1 MiB":         respondWith(200, "", keySet(jwk("b", "service-2"))+strings.Repeat(" ", 1<<20)),
	"redirect to another host": respondWith(302, "https://keys.example.net/", ""),
	"redirect to http": func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+r.Host+"/", http.StatusFound)
	},
	"redirect loop": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) },
	"truncated body": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, `{"keys":[`)
	},
	"connection lost":       func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	"second key set behind": respondWith(200, "", keySet(jwk("b", "service-2"))+keySet(jwk("b", "service-2"))),
	"HTML behind":           respondWith(200, "", keySet(jwk("b", "service-2"))+"<script>"),
	"bracket behind":        respondWith(200, "", keySet(jwk("b", "service-2"))+"}"),
	"NUL behind":            respondWith(200, "", keySet(jwk("b", "service-2"))+"\x00"),
	"null behind":           respondWith(200, "", keySet(jwk("b", "service-2"))+" null"),
}

func respondWith(status int, location, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if location != "" {
			w.Header().Set("Location", location)
		}
		w.WriteHeader(status)
		if body != "" {
			fmt.Fprint(w, body)
		}
	}
}

func TestJWKS_BadResponseKeepsKeySet(t *testing.T) {
	t.Parallel()
	for name, bad := range badResponses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newKeyServer(t, jwk("a", "service-1"))
			j := s.jwks(t, signature.JWKSOptions{MaxStale: time.Hour})
			s.want(t, j, "a", "service-1")

			s.respond(bad)
			s.advance(time.Hour)
			s.want(t, j, "a", "service-1") // exactly MaxStale old
			s.wantError(t, j, "b", signature.ErrKeySource)
			s.advance(time.Nanosecond)
			err := s.wantError(t, j, "a", signature.ErrKeySource)
			s.respond(nil)
			s.advance(time.Hour)
			s.want(t, j, "a", "service-1")

			if s := err.Error(); strings.Contains(s, "127.0.0.1") || strings.Contains(s, "://") {
				t.Errorf("error = %v contains an address", s)
			}
		})
	}
}

func TestJWKS_BadFirstResponse(t *testing.T) {
	t.Parallel()
	for name, bad := range badResponses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newKeyServer(t, jwk(keyID, "service-1"))
			s.respond(bad)
			v := verifierFor(t, s.jwks(t, signature.JWKSOptions{}), signature.VerifierOptions{}, host)

			_, err := v.VerifyCallback(request(t, signedCallback()))

			wantRetryable(t, err)
			if want := "signature: callback: verification unavailable: get key set: "; !strings.HasPrefix(fmt.Sprint(err), want) {
				t.Errorf("error = %v, want %q", err, want)
			}
			s.respond(nil)
			s.advance(time.Second)
			if _, err := v.VerifyCallback(request(t, signedCallback())); err != nil {
				t.Errorf("after the outage: error = %v, want none", err)
			}
		})
	}
}

func TestJWKS_IgnoresUnusableKeys(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]string{
		"for encryption":          strings.Replace(jwk("bad", "service-2"), `"use":"sig"`, `"use":"enc"`, 1),
		"for another algorithm":   strings.Replace(jwk("bad", "service-2"), "RS256", "PS256", 1),
		"for HMAC":                strings.Replace(jwk("bad", "service-2"), "RS256", "HS256", 1),
		"for signing only":        withMembers(jwk("bad", "service-2"), `"key_ops":["sign"]`),
		"private key parameters":  withMembers(jwk("bad", "strong"), `"d":"AQAB"`),
		"1024 bits":               jwk("bad", "weak"),
		"4352 bits":               jwk("bad", "oversized"),
		"exponent 1":              strings.Replace(jwk("bad", "service-2"), "AQAB", "AQ", 1),
		"exponent 2":              strings.Replace(jwk("bad", "service-2"), "AQAB", "Ag", 1),
		"exponent of 5 bytes":     strings.Replace(jwk("bad", "service-2"), "AQAB", "AQAAAAE", 1),
		"65537 in 7 bytes":        strings.Replace(jwk("bad", "service-2"), "AQAB", "AAAAAAEAAQ", 1),
		"long exponent":           strings.Replace(jwk("bad", "service-2"), "AQAB", "AQAAAAAAAQAB", 1),
		"no exponent":             strings.Replace(jwk("bad", "service-2"), `"e":"AQAB",`, "", 1),
		"invalid base64":          strings.Replace(jwk("bad", "service-2"), `"n":"`, `"n":"!`, 1),
		"symmetric":               `{"kty":"oct","kid":"bad","k":"AQAB","alg":"RS256"}`,
		"elliptic":                `{"kty":"EC","kid":"bad","crv":"P-256","x":"gI0GAILBdu7T53akrFmMyGcsF3n5dO7MmwNBHKW5SV0","y":"SLW_xSffzlPWrHEVI30DHM_4egVwt3NQqeUD7nMFpps"}`,
		"no kid":                  strings.Replace(jwk("bad", "service-2"), `"kid":"bad",`, "", 1),
		"no type":                 `{"kid":"bad"}`,
		"numeric kid":             strings.Replace(jwk("bad", "service-2"), `"kid":"bad"`, `"kid":1`, 1),
		"two keys with one kid":   jwk("bad", "service-1") + "," + jwk("bad", "service-2"),
		"three keys with one kid": jwk("bad", "service-1") + "," + jwk("bad", "service-2") + "," + jwk("bad", "service-1"),
		"null":                    `null`,
		"number":                  `7`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newKeyServer(t, jwk("before", "service-1"), bad, jwk("after", "service-2"))
			j := s.jwks(t, signature.JWKSOptions{})

			s.wantError(t, j, "bad", signature.ErrUnknownKey)
			s.wantError(t, j, "", signature.ErrUnknownKey)
			s.want(t, j, "before", "service-1")
			s.want(t, j, "after", "service-2")
		})
	}
}

func TestJWKS_OptionalMembers(t *testing.T) {
	t.Parallel()
	s := newKeyServer(t,
		strings.NewReplacer(`"use":"sig",`, "", `"alg":"RS256",`, "").Replace(jwk("bare", "service-1")),
		withMembers(jwk("ops", "service-2"), `"key_ops":["verify"],"x":{"unknown":[1]}`),
		strings.Replace(jwk("3", "service-1"), "AQAB", "Aw", 1),
		strings.Replace(jwk("4 bytes", "service-1"), "AQAB", "AQAAAQ", 1), // jwx truncates longer exponents
		jwk("strong", "strong"))
	j := s.jwks(t, signature.JWKSOptions{})
	for id, e := range map[string]int{"3": 3, "4 bytes": 1<<24 + 1} {
		if key, err := j.PublicKey(t.Context(), id); err != nil || key.E != e {
			t.Errorf("key %s: %v, error = %v; want exponent %d", id, key, err, e)
		}
	}

	s.want(t, j, "bare", "service-1")
	s.want(t, j, "ops", "service-2")
	s.want(t, j, "strong", "strong")
}

func TestJWKS_MinRefetch(t *testing.T) {
	t.Parallel()
	for option, pause := range map[time.Duration]time.Duration{0: 30 * time.Second, 10 * time.Second: 10 * time.Second} {
		s := newKeyServer(t, jwk("a", "service-1"))
		j := s.jwks(t, signature.JWKSOptions{MinRefetch: option})
		s.want(t, j, "a", "service-1")

		s.wantError(t, j, "x", signature.ErrUnknownKey) // causes a fetch
		s.publish(jwk("new", "service-2"))
		for i := range 100 {
			s.wantError(t, j, fmt.Sprint("x", i), signature.ErrKeySource)
		}
		s.want(t, j, "a", "service-1")
		s.advance(pause - time.Nanosecond)
		s.wantError(t, j, "new", signature.ErrKeySource)
		within := s.fetches()
		s.advance(time.Nanosecond)
		s.want(t, j, "new", "service-2")
		s.wantError(t, j, "a", signature.ErrKeySource) // removed

		if within != 2 || s.fetches() != 3 {
			t.Errorf("%v: %d fetches within MinRefetch and %d after, want 2 and 3: senders must not cause more", pause, within, s.fetches())
		}
	}
}

func TestJWKS_UnknownKeyInCachedResponse(t *testing.T) {
	t.Parallel()
	s := newKeyServer(t)
	var noCache atomic.Bool
	s.respond(func(w http.ResponseWriter, r *http.Request) {
		noCache.Store(r.Header.Get("Cache-Control") == "no-cache")
		w.Header().Set("Age", "240")
		fmt.Fprint(w, keySet(jwk("a", "service-1")))
	})
	j := s.jwks(t, signature.JWKSOptions{})

	err := s.wantError(t, j, "b", signature.ErrKeySource)

	if errors.Is(err, signature.ErrUnknownKey) {
		t.Errorf("error = %v, want only ErrKeySource: the key may be newer than the cached set", err)
	}
	if !noCache.Load() {
		t.Error("request has no Cache-Control: no-cache")
	}
}

func TestJWKS_RetryPauses(t *testing.T) {
	t.Parallel()
	s := newKeyServer(t, jwk("a", "service-1"))
	s.respond(respondWith(500, "", ""))
	j := s.jwks(t, signature.JWKSOptions{MinRefetch: 3 * time.Second})
	for i, wait := range []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
		if wait > 0 {
			s.advance(wait - time.Nanosecond)
			s.wantError(t, j, "a", signature.ErrKeySource)
			if s.fetches() != i {
				t.Fatalf("fetched again before %v", wait)
			}
			s.advance(time.Nanosecond)
		}

		s.wantError(t, j, "a", signature.ErrKeySource)

		if s.fetches() != i+1 {
			t.Fatalf("%d fetches, want %d", s.fetches(), i+1)
		}
	}
}

func TestJWKS_RotationUnderLoad(t *testing.T) {
	t.Parallel()
	s := newKeyServer(t, jwk("a", "service-1"), jwk("b", "service-2"))
	j := s.jwks(t, signature.JWKSOptions{MaxAge: time.Nanosecond})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				s.advance(time.Nanosecond)
				key, err := j.PublicKey(t.Context(), "b")
				if err != nil || !key.Equal(&keys()["service-2"].PublicKey) {
					t.Errorf("key found: %v, error = %v; want the key", key != nil, err)
					return
				}
			}
		})
	}
	for i := range 50 {
		s.publish(jwk("b", "service-2"), jwk(fmt.Sprint("c", i), "service-1"))
	}
	wg.Wait()
}

// TestJWKS_Redirects serves a valid key set at the target of each redirect.
func TestJWKS_Redirects(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		to   func(from string) string
		want int // requests
		ok   bool
	}{
		"same host":  {func(string) string { return "/moved" }, 2, true},
		"other host": {func(string) string { return "https://eu.example.net/moved" }, 1, false},
		"subdomain":  {func(string) string { return "https://keys.eu.example.com/moved" }, 1, false},
		"other port": {func(string) string { return "https://eu.example.com:8443/moved" }, 1, false},
		"http":       {func(string) string { return "http://eu.example.com/moved" }, 1, false},
		"endless":    {func(from string) string { return from + "x" }, 6, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests int
			transport := roundTrip(func(r *http.Request) (*http.Response, error) {
				requests++
				if r.URL.Path == "/moved" {
					return oneKey(r)
				}
				return inMemory(respondWith(http.StatusFound, tt.to(r.URL.Path), ""))(r)
			})
			j := jwksOver(t, transport, signature.JWKSOptions{})

			_, err := j.PublicKey(t.Context(), "a")

			if errors.Is(err, signature.ErrKeySource) == tt.ok || (err == nil) != tt.ok || requests != tt.want {
				t.Errorf("error = %v after %d requests, want a key: %v, after %d", err, requests, tt.ok, tt.want)
			}
		})
	}
}

func TestNewJWKS_KeepsCheckRedirect(t *testing.T) {
	t.Parallel()
	noRedirects := errors.New("no redirects")
	client := &http.Client{
		Transport:     inMemory(respondWith(http.StatusFound, "/moved", "")),
		CheckRedirect: func(*http.Request, []*http.Request) error { return noRedirects },
	}
	synctest.Test(t, func(t *testing.T) { // whose clock does not advance during the request
		j := must(signature.NewJWKS("https://eu.example.com/.well-known/jwks.json", &signature.JWKSOptions{HTTPClient: client}))(t)

		key, err := j.PublicKey(t.Context(), "a")

		if key != nil || !errors.Is(err, signature.ErrKeySource) || !errors.Is(err, noRedirects) || client.CheckRedirect(nil, nil) != noRedirects {
			t.Errorf("found %v, error = %v, want that of the caller's CheckRedirect, which must not be replaced", key != nil, err)
		}
	})
}

func TestNewJWKS_RejectsInvalidArguments(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "http://eu.example.com/.well-known/jwks.json", "eu.example.com", "https://", "https://:443/", "https://u:p@eu.example.com/", "https://eu.example.com/#a", "file:///etc/keys", "https://eu.example.com/%zz", "\x00"} {
		if _, err := signature.NewJWKS(url, nil); err == nil {
			t.Errorf("URL %q: error = nil, want one", url)
		}
	}
	for _, opts := range []signature.JWKSOptions{{MaxAge: -1}, {MinRefetch: -1}, {MaxStale: -1}} {
		if _, err := signature.NewJWKS("https://eu.example.com/", &opts); err == nil {
			t.Errorf("options %+v: error = nil, want one", opts)
		}
	}
	if _, err := signature.NewJWKS("HTTPS://eu.example.com:8443/keys?a=b", nil); err != nil {
		t.Error(err)
	}
}

// Environment variables of the process that TestJWKS_DefaultClient starts. It needs its own
// process, because certificates and proxies are read once per process, and all tests share
// http.DefaultTransport.
const (
	childURL      = "IDVERIFY_TEST_KEY_SET_URL"
	childReplaced = "IDVERIFY_TEST_REPLACED_TRANSPORT"
)

// TestJWKS_DefaultClient fetches key sets without an HTTPClient, in a separate process.
func TestJWKS_DefaultClient(t *testing.T) {
	t.Parallel()
	if url := os.Getenv(childURL); url != "" {
		fetchInChild(t, url)
		return
	}
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		t.Skip("SSL_CERT_FILE has no effect on this system")
	}
	for _, tt := range []struct {
		name   string
		http2  bool
		env    string
		header int // size of the response headers
		want   string
	}{
		{"HTTP/1.1", false, "", 0, "found HTTP/1.1"},
		{"HTTP/2", true, "", 0, "found HTTP/2.0"},
		{"through a proxy", true, "HTTPS_PROXY", 0, "found HTTP/2.0"},
		{"HTTP/1.1 with large headers", false, "", 60 << 10, "found HTTP/1.1"},
		{"HTTP/2 with large headers", true, "", 60 << 10, "found HTTP/2.0"},
		{"HTTP/1.1 with headers above 64 KiB", false, "", 70 << 10, "exceeded 65536 bytes"},
		{"HTTP/2 with headers above 64 KiB", true, "", 70 << 10, "get key set: "},
		{"replaced default transport", true, childReplaced, 0, "replaced transport used\nfound HTTP/2.0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			closed := make(chan struct{}, 1)
			var protocol string
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				protocol = r.Proto
				w.Header().Set("X-Pad", strings.Repeat("a", tt.header))
				fmt.Fprint(w, keySet(jwk("a", "service-1")))
			}))
			srv.EnableHTTP2 = tt.http2
			srv.Config.ErrorLog = log.New(io.Discard, "", 0)
			srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateClosed {
					select {
					case closed <- struct{}{}:
					default:
					}
				}
			}
			srv.StartTLS()
			defer srv.Close()
			certificate := filepath.Join(t.TempDir(), "ca.pem")
			noError(t, os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600))
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestJWKS_DefaultClient$")
			child.Env = append(os.Environ(), "SSL_CERT_FILE="+certificate, "SSL_CERT_DIR="+t.TempDir(), childURL+"="+srv.URL)
			switch tt.env {
			case childReplaced:
				child.Env = append(child.Env, childReplaced+"=1")
			case "HTTPS_PROXY":
				proxy := httptest.NewServer(connectTo(srv.Listener.Addr().String()))
				defer proxy.Close()
				// Loopback addresses are never proxied, and example.com is in the test certificate.
				child.Env = append(child.Env, "HTTPS_PROXY="+proxy.URL, "NO_PROXY=", "no_proxy=", childURL+"=https://example.com/")
			}
			var output bytes.Buffer
			child.Stdout, child.Stderr = &output, &output
			stdin := must(child.StdinPipe())(t)
			noError(t, child.Start())

			<-closed // before the process ends: the client must not keep the connection
			stdin.Close()
			err := child.Wait()

			if got := strings.ReplaceAll(output.String(), "found", "found "+protocol); err != nil || !strings.Contains(got, tt.want) {
				t.Errorf("child error = %v, output = %q, want %q", err, got, tt.want)
			}
		})
	}
}

// fetchInChild prints the result of a key lookup and waits until standard input is closed.
func fetchInChild(t *testing.T, url string) {
	original := http.DefaultTransport.(*http.Transport)
	if os.Getenv(childReplaced) != "" {
		http.DefaultTransport = roundTrip(func(r *http.Request) (*http.Response, error) {
			fmt.Println("replaced transport used")
			return original.RoundTrip(r)
		})
	}
	fetch := func(t *testing.T) {
		var err error
		for range 100 {
			_, err = must(signature.NewJWKS(url, nil))(t).PublicKey(t.Context(), "a")
			if err == nil {
				fmt.Println("found")
				return
			}
			// On a busy machine, the first frames of HTTP/2 may take more than the 2 s after which the
			// server closes the connection, and without a bubble a response more than 3 s.
			if !strings.Contains(err.Error(), "EOF") && !strings.Contains(err.Error(), "no response within 3 s") {
				break
			}
		}
		fmt.Println(err)
	}
	if fips140.Enabled() {
		fetch(t)
	} else {
		synctest.Test(t, fetch) // whose clock does not advance during the request
	}
	if original.MaxResponseHeaderBytes != 0 {
		t.Error("http.DefaultTransport was modified")
	}
	io.Copy(io.Discard, os.Stdin)
}

// connectTo returns a proxy that connects every CONNECT request to the given address.
func connectTo(address string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		to, err := net.Dial("tcp", address)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer to.Close()
		w.WriteHeader(http.StatusOK)
		from, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer from.Close()
		go func() {
			io.Copy(to, buffered)
			to.Close()
		}()
		io.Copy(from, to)
	}
}
