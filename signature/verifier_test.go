package signature_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/signature"
)

func TestVerifier_VerifyCallback(t *testing.T) {
	t.Parallel()
	r := request(t, signedCallback())

	m := must(newVerifier(t, signature.VerifierOptions{}).VerifyCallback(r))(t)
	want := &signature.Message{KeyID: keyID, Date: now, Product: "phone_check", Body: []byte(body), Query: map[string][]string{"tenant": {"7"}}}
	wantEqual(t, want, m, "message")
	again, err := io.ReadAll(r.Body)
	if err != nil || string(again) != body {
		t.Errorf("restored body = %q, error %v; want the original body", again, err)
	}
	if err := r.Body.Close(); err != nil {
		t.Error(err)
	}
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
		want          error
	}{
		{"api.example.com", "api.example.com", nil},
		{"API.Example.com", "api.example.com", nil},
		{"api.example.com:443", "api.example.com", nil},
		{"api.example.com", "api.example.com:80", nil},
		{"api.example.com", "api.example.com:8443", signature.ErrHost},
		{"api.example.com:8443", "api.example.com:8443", nil},
		{"api.example.com:8443", "api.example.com", signature.ErrHost},
		{"localhost:*", "localhost:49152", nil},
		{"localhost:*", "localhost", nil},
		{"localhost:*", "localhost:*", signature.ErrHost},
		{"localhost:*", "localhost:1:2", signature.ErrHost},
		{"localhost:*", "localhost:123456", signature.ErrHost},
		{"localhost:*", "notlocalhost:1", signature.ErrHost},
		{"[::1]:*", "[::1]:8443", nil},
		{"[::1]", "[::1]", nil},
		{"[::1]:8443", "[::1]", signature.ErrHost},
		{"127.0.0.1:8443", "127.0.0.1:8443", nil},
		{"api.example.com", "api.example.com:0443", signature.ErrHost},
		{"api.example.com", "", signature.ErrHost},
	} {
		t.Run(tt.allowed+" "+tt.host, func(t *testing.T) {
			t.Parallel()
			v := verifierFor(t, serviceKeys(), signature.VerifierOptions{}, "other.example.com", tt.allowed)
			w := newCallback()
			w.Host = tt.host
			w.Sign()

			_, err := v.VerifyCallback(request(t, w))

			if !errors.Is(err, tt.want) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
		})
	}
}

func TestNewVerifier_RejectsInvalidOptions(t *testing.T) {
	t.Parallel()
	for _, hosts := range [][]string{
		nil, {}, {""}, {"https://api.example.com"}, {"api.example.com/callbacks"}, {"user@api.example.com"}, {"api.example.com:"}, {"api.example.com:https"}, {":443"}, {"*"}, {"*.example.com"}, {"::1"}, {"[]"}, {"bücher.example"}, {" api.example.com"}, {host, ""},
		{"[::1"}, {"::1]"}, {"[zz]"}, {"[::1~]"}, {"[::1]x"}, {"api~example.com"}, {"api.example.com:8/"}, {"api.example.com:8a"}, {"api.example.com:123456"}, {"[]:80"}, {"api.example.com:8:8"},
	} {
		if _, err := signature.NewVerifier(serviceKeys(), hosts, nil); err == nil {
			t.Errorf("hosts %q: error = nil, want one: no message can have such a host", hosts)
		}
	}
	verifierFor(t, serviceKeys(), signature.VerifierOptions{}, "[::1]", "[2001:db8::a.1.2.3]:65535", "a-b_c.example", "LOCALHOST")
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
