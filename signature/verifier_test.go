package signature_test

import (
	"context"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/internal/attack"
	"github.com/idverify/idverify-go/signature"
)

func TestVerifier_VerifyCallback(t *testing.T) {
	t.Parallel()
	r := request(t, signedCallback())

	m, err := newVerifier(t, signature.VerifierOptions{}).VerifyCallback(r)

	if err != nil {
		t.Fatal(err)
	}
	want := &signature.Message{KeyID: keyID, Date: now, Product: "phone_check", Body: []byte(body), Query: map[string][]string{"tenant": {"7"}}}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	again, err := io.ReadAll(r.Body)
	if err != nil || string(again) != body {
		t.Errorf("restored body = %q, error %v; want the original body", again, err)
	}
	if err := r.Body.Close(); err != nil {
		t.Error(err)
	}
}

// TestVerifier_AcceptsCallbackVariants checks harmless differences in messages of senders and
// proxies.
func TestVerifier_AcceptsCallbackVariants(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte(body))
	for _, tt := range []struct {
		name   string
		signed func(*attack.Message)
		sent   func(*attack.Message)
	}{
		{"base64 digest", set("Digest", "SHA-256="+base64.StdEncoding.EncodeToString(sum[:])), nil},
		{"upper-case digest", set("Digest", fmt.Sprintf("SHA-256=%X", sum)), nil},
		{"lower-case digest algorithm", edit("Digest", "SHA", "sha"), nil},
		{"unknown product", set("X-Service-Callback", "telepathy_check"), nil},
		{"covered names reordered", covering("digest date x-service-callback host (request-target)"), nil},
		{"more headers covered", covering(allCovered(" content-type content-length")), nil},
		{"duplicate header, not covered", nil, func(w *attack.Message) { w.Add("X-Trace", "1"); w.Add("X-Trace", "2") }},
		{"X-Date header", nil, add("X-Date", now.Add(-time.Hour).Format(http.TimeFormat))},
		{"parameters reordered", nil, reverseParameters},
		{"space around commas", nil, auth(",", " \t, ")},
		{"unknown parameters", nil, auth("Signature ", `Signature created=1402170695,opaque="",`)},
		{"parameter name in different case", nil, auth("keyId", "KeyID")},
		{"lower-case scheme", nil, auth("Signature keyId", "signature  keyId")},
		{"unquoted algorithm", nil, auth(`"rsa-sha256"`, `rsa-sha256`)},
		{"date exactly 5 s old", dated(-5 * time.Second), nil},
		{"date exactly 5 s ahead", dated(5 * time.Second), nil},
		{"upper-case host", toHost("API.example.com"), nil},
		{"port 443", toHost("api.example.com:443"), nil},
		{"port 80", toHost("api.example.com:80"), nil},
		{"escaped slash in path", toTarget("/callbacks%2Fphone?x=%2f"), nil},
		{"malformed query", toTarget("/callbacks?%zz&&=&;a=b"), nil},
		{"empty query", toTarget("/callbacks?"), nil},
		{"absolute target", nil, toTarget("https://api.example.com" + target)},
		{"absolute target without path", func(w *attack.Message) { w.Target = "/" }, toTarget("https://api.example.com")},
		{"absolute target with query only", func(w *attack.Message) { w.Target = "/?a=1" }, toTarget("https://api.example.com?a=1")},
		{"chunked body", nil, func(w *attack.Message) {
			w.Drop("Content-Length")
			w.Add("Transfer-Encoding", "chunked")
			w.Body = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(w.Body), w.Body)
		}},
		{"body of exactly MaxBody", func(w *attack.Message) {
			withBody(strings.Repeat("a", 1<<20))(w)
			w.Set("Digest", attack.Digest(w.Body))
		}, nil},
		{"empty body", func(w *attack.Message) { withBody("")(w); w.Set("Digest", attack.Digest("")) }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newCallback()
			if tt.signed != nil {
				tt.signed(w)
			}
			w.Sign()
			if tt.sent != nil {
				tt.sent(w)
			}

			_, err := newVerifier(t, signature.VerifierOptions{}).VerifyCallback(request(t, w))

			if err != nil {
				t.Errorf("error = %v, want none", err)
			}
		})
	}
}

// reverseParameters reverses the order of the parameters of the Authorization.
func reverseParameters(w *attack.Message) {
	params := strings.Split(strings.TrimPrefix(w.Get("Authorization"), "Signature "), ",")
	for i, j := 0, len(params)-1; i < j; i, j = i+1, j-1 {
		params[i], params[j] = params[j], params[i]
	}
	w.Set("Authorization", "Signature "+strings.Join(params, ","))
}

// TestVerifier_RejectsChangedCallbackBytes changes each byte of each covered part in turn.
func TestVerifier_RejectsChangedCallbackBytes(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, signature.VerifierOptions{})
	flipped := func(s string, i int) string { return s[:i] + string(s[i]^1) + s[i+1:] }
	good := signedCallback()
	parts := map[string]func(r *http.Request, i int) bool{
		"request target": func(r *http.Request, i int) bool {
			r.RequestURI = flipped(target, i%len(target))
			return i < len(target)
		},
		"host": func(r *http.Request, i int) bool { r.Host = flipped(host, i%len(host)); return i < len(host) },
		"body": func(r *http.Request, i int) bool {
			r.Body = io.NopCloser(strings.NewReader(flipped(body, i%len(body))))
			return i < len(body)
		},
		"method": func(r *http.Request, i int) bool { r.Method = flipped("POST", i%4); return i < 4 },
	}
	for _, name := range []string{"Date", "X-Service-Callback", "Digest"} {
		parts[name] = func(r *http.Request, i int) bool {
			value := good.Get(name)
			r.Header.Set(name, flipped(value, i%len(value)))
			return i < len(value)
		}
	}
	for name, change := range parts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := 0; ; i++ {
				r := request(t, good)
				if !change(r, i) {
					return
				}
				if _, err := v.VerifyCallback(r); err == nil {
					t.Fatalf("byte %d changed: error = nil, want one", i)
				}
			}
		})
	}
}

func TestVerifier_MatchesHosts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		allowed, host string
		want          bool
	}{
		{"api.example.com", "api.example.com", true},
		{"API.Example.com", "api.example.com", true},
		{"api.example.com:443", "api.example.com", true},
		{"api.example.com", "api.example.com:8443", false},
		{"api.example.com:8443", "api.example.com:8443", true},
		{"api.example.com:8443", "api.example.com", false},
		{"localhost:*", "localhost:49152", true},
		{"localhost:*", "localhost", true},
		{"localhost:*", "localhost:*", false},
		{"localhost:*", "localhost:1:2", false},
		{"localhost:*", "localhost:123456", false},
		{"localhost:*", "notlocalhost:1", false},
		{"[::1]:*", "[::1]:8443", true},
		{"[::1]", "[::1]", true},
		{"[::1]:8443", "[::1]", false},
		{"127.0.0.1:8443", "127.0.0.1:8443", true},
		{"api.example.com", "api.example.com:0443", false},
		{"api.example.com", "", false},
	} {
		t.Run(tt.allowed+" "+tt.host, func(t *testing.T) {
			t.Parallel()
			v, err := signature.NewVerifier(serviceKeys(), []string{"other.example.com", tt.allowed}, &signature.VerifierOptions{Now: clock})
			if err != nil {
				t.Fatal(err)
			}
			w := newCallback()
			w.Host = tt.host
			w.Sign()
			r := request(t, w)

			_, err = v.VerifyCallback(r)

			if tt.want && err != nil {
				t.Errorf("error = %v, want none", err)
			}
			if !tt.want && !errors.Is(err, signature.ErrHost) {
				t.Errorf("error = %v, want ErrHost", err)
			}
		})
	}
}

func TestNewVerifier_RejectsInvalidOptions(t *testing.T) {
	t.Parallel()
	for _, hosts := range [][]string{nil, {}, {""}, {"https://api.example.com"}, {"api.example.com/callbacks"}, {"user@api.example.com"}, {"api.example.com:"}, {"api.example.com:https"}, {":443"}, {"*"}, {"*.example.com"}, {"::1"}, {"[]"}, {"bücher.example"}, {" api.example.com"}, {host, ""}} {
		if _, err := signature.NewVerifier(serviceKeys(), hosts, nil); err == nil {
			t.Errorf("hosts %q: error = nil, want one: no message can have such a host", hosts)
		}
	}
	for name, opts := range map[string]signature.VerifierOptions{
		"negative skew":       {ClockSkew: -1},
		"skew above 24 h":     {ClockSkew: 24*time.Hour + 1},
		"negative MaxBody":    {MaxBody: -1},
		"invalid header name": {CallbackHeader: "x callback"},
	} {
		if _, err := signature.NewVerifier(serviceKeys(), []string{host}, &opts); err == nil {
			t.Errorf("%s: error = nil, want one", name)
		}
	}
	if _, err := signature.NewVerifier(nil, []string{host}, nil); err == nil {
		t.Error("nil key source: error = nil, want one")
	}
}

func TestVerifier_RejectsUnusableKeys(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"weak", "oversized"} {
		w := newCallback()
		keyNamed(name, name)(w)
		w.Sign()

		_, err := newVerifier(t, signature.VerifierOptions{}).VerifyCallback(request(t, w))

		if !errors.Is(err, signature.ErrAlgorithm) {
			t.Errorf("%s key: error = %v, want ErrAlgorithm", name, err)
		}
	}
	good := &keys()["strong"].PublicKey
	if !signature.Usable(good) {
		t.Error("4096-bit key: usable = false, want true")
	}
	for _, e := range []int{-3, 0, 1, 2, 65536} {
		if signature.Usable(&rsa.PublicKey{N: good.N, E: e}) {
			t.Errorf("exponent %d: usable = true, want false", e)
		}
	}
}

// keyFunc implements KeySource.
type keyFunc func(ctx context.Context, id string) (*rsa.PublicKey, error)

func (f keyFunc) PublicKey(ctx context.Context, id string) (*rsa.PublicKey, error) { return f(ctx, id) }

func TestVerifier_KeySourceUnavailable(t *testing.T) {
	t.Parallel()
	outage := errors.New("vault sealed")
	for name, source := range map[string]keyFunc{
		"error": func(context.Context, string) (*rsa.PublicKey, error) { return nil, outage },
		"error that wraps ErrKeySource": func(context.Context, string) (*rsa.PublicKey, error) {
			return nil, fmt.Errorf("%w: %w", signature.ErrKeySource, outage)
		},
		"no key and no error": func(context.Context, string) (*rsa.PublicKey, error) { return nil, nil },
		"canceled context":    func(ctx context.Context, _ string) (*rsa.PublicKey, error) { return nil, ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, err := signature.NewVerifier(source, []string{host}, &signature.VerifierOptions{Now: clock})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()

			_, err = v.VerifyCallback(request(t, signedCallback()).WithContext(ctx))

			e, ok := errors.AsType[*signature.Error](err)
			if !ok || !e.Retryable() || !errors.Is(err, signature.ErrKeySource) {
				t.Errorf("error = %v, want ErrKeySource, which is retryable", err)
			}
			if name == "error" && !errors.Is(err, outage) {
				t.Errorf("error = %v does not wrap its cause", err)
			}
			if name == "canceled context" && !errors.Is(err, context.Canceled) {
				t.Errorf("error = %v does not wrap context.Canceled", err)
			}
		})
	}
}

func TestVerifier_TargetOption(t *testing.T) {
	t.Parallel()
	behindProxy := func(change func(*http.Request)) *http.Request {
		r := request(t, signedCallback())
		r.Host, r.RequestURI = "10.0.0.7:8080", "/internal"
		change(r)
		return r
	}
	v := newVerifier(t, signature.VerifierOptions{Target: func(r *http.Request) (string, string) {
		return r.Header.Get("X-Forwarded-Host"), r.Header.Get("X-Forwarded-Uri")
	}})

	_, right := v.VerifyCallback(behindProxy(func(r *http.Request) { r.Header.Set("X-Forwarded-Host", host); r.Header.Set("X-Forwarded-Uri", target) }))
	_, absent := v.VerifyCallback(behindProxy(func(*http.Request) {}))
	_, other := v.VerifyCallback(behindProxy(func(r *http.Request) {
		r.Header.Set("X-Forwarded-Host", "api.example.net")
		r.Header.Set("X-Forwarded-Uri", target)
	}))
	_, direct := v.VerifyCallback(request(t, signedCallback()))

	if right != nil || direct != nil {
		t.Errorf("through the proxy: error = %v, direct: error = %v; want none", right, direct)
	}
	if !errors.Is(absent, signature.ErrHost) || !errors.Is(other, signature.ErrHost) {
		t.Errorf("no headers: error = %v, other host: error = %v; want ErrHost: the result of Target must be checked", absent, other)
	}
}

func TestVerifier_IncompleteRequests(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, signature.VerifierOptions{})
	recorded := httptest.NewRequest(http.MethodPost, "https://"+host+target, strings.NewReader(body))
	for _, f := range signedCallback().Fields {
		recorded.Header.Set(f.Name, f.Value)
	}
	if _, err := v.VerifyCallback(recorded); err != nil {
		t.Errorf("httptest.NewRequest: error = %v, want none", err)
	}
	for name, change := range map[string]func(*http.Request){
		"empty":                 func(r *http.Request) { *r = http.Request{} },
		"only a method":         func(r *http.Request) { *r = http.Request{Method: "POST"} },
		"no target":             func(r *http.Request) { r.RequestURI, r.URL = "", nil },
		"nil body":              func(r *http.Request) { r.Body = nil },
		"line break in target":  func(r *http.Request) { r.RequestURI += "\nhost: " + host },
		"line break in header":  func(r *http.Request) { r.Header["X-Service-Callback"] = []string{"a\ndigest: b"} },
		"lower-case header key": func(r *http.Request) { r.Header["date"] = r.Header["Date"]; delete(r.Header, "Date") },
		"asterisk target":       func(r *http.Request) { r.RequestURI = "*" },
	} {
		r := request(t, signedCallback())
		change(r)
		_, callbackErr := v.VerifyCallback(r)
		_, redirectErr := v.VerifyRedirect(r)
		if callbackErr == nil || redirectErr == nil {
			t.Errorf("%s: VerifyCallback error = nil or VerifyRedirect error = nil, want errors", name)
		}
	}
}

// TestVerifier_RejectsSpecialNameAsHeader uses a header name that net/http's server rejects.
func TestVerifier_RejectsSpecialNameAsHeader(t *testing.T) {
	t.Parallel()
	w := newCallback()
	w.Covered = allCovered(" (created)")
	w.Add("(created)", "1767323045")
	w.Sign()
	w.Drop("(created)")
	r := request(t, w)
	r.Header["(created)"] = []string{"1767323045"}

	_, err := newVerifier(t, signature.VerifierOptions{}).VerifyCallback(r)

	if !errors.Is(err, signature.ErrCoverage) {
		t.Errorf("error = %v, want ErrCoverage: other versions of the draft define this name differently", err)
	}
}

func TestVerifier_AcceptsHost(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, signature.VerifierOptions{})
	for name, want := range map[string]bool{host: true, strings.ToUpper(host): true, host + ":443": true, host + ":8443": false, "other.example.com": false, "": false} {
		if got := v.AcceptsHost(name); got != want {
			t.Errorf("AcceptsHost(%q) = %v, want %v", name, got, want)
		}
	}
}
