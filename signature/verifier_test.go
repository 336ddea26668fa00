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
	"github.com/idverify/idverify-go/signature"
)

func TestACallbackOfTheServiceVerifies(t *testing.T) {
	t.Parallel()
	r := signedCallback().request(t)

	m, err := newVerifier(t, signature.VerifierOptions{}).VerifyCallback(r)

	if err != nil {
		t.Fatal(err)
	}
	want := &signature.Message{KeyID: keyID, Date: now, Kind: "phone_check", Body: []byte(body), Query: map[string][]string{"tenant": {"7"}}}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	again, err := io.ReadAll(r.Body)
	if err != nil || string(again) != body {
		t.Errorf("the handler behind reads the body %q, %v; want it as it was", again, err)
	}
	if err := r.Body.Close(); err != nil {
		t.Error(err)
	}
}

// TestGoodSpellingsOfACallbackVerify has what senders, servers and proxies may do without harm.
func TestGoodSpellingsOfACallbackVerify(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte(body))
	for _, tt := range []struct {
		name   string
		signed func(*wire)
		sent   func(*wire)
	}{
		{"the digest in base64", set("Digest", "SHA-256="+base64.StdEncoding.EncodeToString(sum[:])), nil},
		{"the digest in capitals", set("Digest", fmt.Sprintf("SHA-256=%X", sum)), nil},
		{"the name of the digest in small letters", edit("Digest", "SHA", "sha"), nil},
		{"an unknown kind", set("X-Service-Callback", "telepathy_check"), nil},
		{"another order of the covered names", covering("digest date x-service-callback host (request-target)"), nil},
		{"more headers covered", covering(allCovered(" content-type content-length")), nil},
		{"headers that are not covered, repeated", nil, func(w *wire) { w.add("X-Trace", "1"); w.add("X-Trace", "2") }},
		{"an x-date", nil, add("X-Date", now.Add(-time.Hour).Format(http.TimeFormat))},
		{"another order of the parameters", nil, reverseParameters},
		{"space around the commas", nil, auth(",", " \t, ")},
		{"unknown parameters", nil, auth("Signature ", `Signature created=1402170695,opaque="",`)},
		{"parameter names in other case", nil, auth("keyId", "KeyID")},
		{"the scheme in other case", nil, auth("Signature keyId", "signature  keyId")},
		{"the algorithm as a token", nil, auth(`"rsa-sha256"`, `rsa-sha256`)},
		{"exactly 5 s old", dated(-5 * time.Second), nil},
		{"exactly 5 s ahead", dated(5 * time.Second), nil},
		{"the host in capitals", toHost("API.example.com"), nil},
		{"the port 443", toHost("api.example.com:443"), nil},
		{"the port 80", toHost("api.example.com:80"), nil},
		{"an escaped slash in the path", toTarget("/callbacks%2Fphone?x=%2f"), nil},
		{"a query that is none", toTarget("/callbacks?%zz&&=&;a=b"), nil},
		{"a question mark alone", toTarget("/callbacks?"), nil},
		{"the absolute form", nil, toTarget("https://api.example.com" + target)},
		{"the absolute form without path", func(w *wire) { w.target = "/" }, toTarget("https://api.example.com")},
		{"the absolute form with a query only", func(w *wire) { w.target = "/?a=1" }, toTarget("https://api.example.com?a=1")},
		{"a body sent in chunks", nil, func(w *wire) {
			w.drop("Content-Length")
			w.add("Transfer-Encoding", "chunked")
			w.body = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(w.body), w.body)
		}},
		{"a body of exactly MaxBody", func(w *wire) { withBody(strings.Repeat("a", 1<<20))(w); w.set("Digest", digestOf(w.body)) }, nil},
		{"no body", func(w *wire) { withBody("")(w); w.set("Digest", digestOf("")) }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newCallback()
			if tt.signed != nil {
				tt.signed(w)
			}
			w.signCallback()
			if tt.sent != nil {
				tt.sent(w)
			}

			_, err := newVerifier(t, signature.VerifierOptions{}).VerifyCallback(w.request(t))

			if err != nil {
				t.Errorf("a good callback is lost: %v", err)
			}
		})
	}
}

// reversed turns the parameters of the Authorization round.
func reverseParameters(w *wire) {
	params := strings.Split(strings.TrimPrefix(w.get("Authorization"), "Signature "), ",")
	for i, j := 0, len(params)-1; i < j; i, j = i+1, j-1 {
		params[i], params[j] = params[j], params[i]
	}
	w.set("Authorization", "Signature "+strings.Join(params, ","))
}

// TestAChangeOfAnyCoveredByteIsRefused changes each byte of each covered part in turn.
func TestAChangeOfAnyCoveredByteIsRefused(t *testing.T) {
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
			value := good.get(name)
			r.Header.Set(name, flipped(value, i%len(value)))
			return i < len(value)
		}
	}
	for name, change := range parts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := 0; ; i++ {
				r := good.request(t)
				if !change(r, i) {
					return
				}
				if _, err := v.VerifyCallback(r); err == nil {
					t.Fatalf("byte %d can be changed on the way", i)
				}
			}
		})
	}
}

func TestHostsAreMatchedAsWholeNames(t *testing.T) {
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
			w.host = tt.host
			w.signCallback()
			r := w.request(t)

			_, err = v.VerifyCallback(r)

			if tt.want && err != nil {
				t.Errorf("a callback to our own host is lost: %v", err)
			}
			if !tt.want && !errors.Is(err, signature.ErrHost) {
				t.Errorf("got %v, want ErrHost: the message is for another host", err)
			}
		})
	}
}

func TestNewVerifierRefusesWhatCanNeverWork(t *testing.T) {
	t.Parallel()
	for _, hosts := range [][]string{nil, {}, {""}, {"https://api.example.com"}, {"api.example.com/callbacks"}, {"user@api.example.com"}, {"api.example.com:"}, {"api.example.com:https"}, {":443"}, {"*"}, {"*.example.com"}, {"::1"}, {"[]"}, {"bücher.example"}, {" api.example.com"}, {host, ""}} {
		if _, err := signature.NewVerifier(serviceKeys(), hosts, nil); err == nil {
			t.Errorf("the hosts %q are taken, though no message can be for them", hosts)
		}
	}
	for name, opts := range map[string]signature.VerifierOptions{
		"a negative skew":             {ClockSkew: -1},
		"a skew above a day":          {ClockSkew: 24*time.Hour + 1},
		"a negative MaxBody":          {MaxBody: -1},
		"a header that cannot be one": {CallbackHeader: "x callback"},
	} {
		if _, err := signature.NewVerifier(serviceKeys(), []string{host}, &opts); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := signature.NewVerifier(nil, []string{host}, nil); err == nil {
		t.Error("no keys are taken")
	}
}

func TestKeysThatProveNothingAreNotUsed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"weak", "oversized"} {
		w := newCallback()
		keyNamed(name, name)(w)
		w.signCallback()

		_, err := newVerifier(t, signature.VerifierOptions{}).VerifyCallback(w.request(t))

		if !errors.Is(err, signature.ErrAlgorithm) {
			t.Errorf("a message signed with a %s key: got %v, want ErrAlgorithm", name, err)
		}
	}
	good := &keys()["strong"].PublicKey
	if !signature.Usable(good) {
		t.Error("a key of 4096 bits is refused")
	}
	for _, e := range []int{-3, 0, 1, 2, 65536} {
		if signature.Usable(&rsa.PublicKey{N: good.N, E: e}) {
			t.Errorf("an exponent of %d is taken", e)
		}
	}
}

// keyFunc is a KeySource of a test.
type keyFunc func(ctx context.Context, id string) (*rsa.PublicKey, error)

func (f keyFunc) PublicKey(ctx context.Context, id string) (*rsa.PublicKey, error) { return f(ctx, id) }

func TestAMessageIsUndecidedWhileItsKeyIsOutOfReach(t *testing.T) {
	t.Parallel()
	outage := errors.New("vault sealed")
	for name, source := range map[string]keyFunc{
		"an error": func(context.Context, string) (*rsa.PublicKey, error) { return nil, outage },
		"an error of ErrKeySource": func(context.Context, string) (*rsa.PublicKey, error) {
			return nil, fmt.Errorf("%w: %w", signature.ErrKeySource, outage)
		},
		"neither key nor error": func(context.Context, string) (*rsa.PublicKey, error) { return nil, nil },
		"a context that ended":  func(ctx context.Context, _ string) (*rsa.PublicKey, error) { return nil, ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, err := signature.NewVerifier(source, []string{host}, &signature.VerifierOptions{Now: clock})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()

			_, err = v.VerifyCallback(signedCallback().request(t).WithContext(ctx))

			e, ok := errors.AsType[*signature.Error](err)
			if !ok || !e.Retryable() || !errors.Is(err, signature.ErrKeySource) {
				t.Errorf("got %v, want ErrKeySource: the message may be good and must be tried again", err)
			}
			if name == "an error" && !errors.Is(err, outage) {
				t.Errorf("%v hides its cause", err)
			}
			if name == "a context that ended" && !errors.Is(err, context.Canceled) {
				t.Errorf("%v hides that the caller left", err)
			}
		})
	}
}

func TestTheTargetOptionSaysWhatTheServiceWrote(t *testing.T) {
	t.Parallel()
	behindProxy := func(change func(*http.Request)) *http.Request {
		r := signedCallback().request(t)
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
	_, direct := v.VerifyCallback(signedCallback().request(t))

	if right != nil || direct != nil {
		t.Errorf("behind the proxy %v, past it %v; want both to verify", right, direct)
	}
	if !errors.Is(absent, signature.ErrHost) || !errors.Is(other, signature.ErrHost) {
		t.Errorf("got %v and %v, want ErrHost: what Target says is checked like a request's own", absent, other)
	}
}

func TestRequestsMadeByHandVerifyOrFailButNeverPanic(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, signature.VerifierOptions{})
	recorded := httptest.NewRequest(http.MethodPost, "https://"+host+target, strings.NewReader(body))
	for _, f := range signedCallback().fields {
		recorded.Header.Set(f.name, f.value)
	}
	if _, err := v.VerifyCallback(recorded); err != nil {
		t.Errorf("a request of httptest.NewRequest: %v", err)
	}
	for name, change := range map[string]func(*http.Request){
		"empty":                      func(r *http.Request) { *r = http.Request{} },
		"a POST and nothing else":    func(r *http.Request) { *r = http.Request{Method: "POST"} },
		"no target":                  func(r *http.Request) { r.RequestURI, r.URL = "", nil },
		"no body":                    func(r *http.Request) { r.Body = nil },
		"a line break in the target": func(r *http.Request) { r.RequestURI += "\nhost: " + host },
		"a line break in a header":   func(r *http.Request) { r.Header["X-Service-Callback"] = []string{"a\ndigest: b"} },
		"a header in small letters":  func(r *http.Request) { r.Header["date"] = r.Header["Date"]; delete(r.Header, "Date") },
		"an asterisk":                func(r *http.Request) { r.RequestURI = "*" },
	} {
		r := signedCallback().request(t)
		change(r)
		_, callbackErr := v.VerifyCallback(r)
		_, redirectErr := v.VerifyRedirect(r)
		if callbackErr == nil || redirectErr == nil {
			t.Errorf("%s: verified", name)
		}
	}
}

// TestASpecialNameIsNoHeader has a header that no server would let through, in a request made by hand.
func TestASpecialNameIsNoHeader(t *testing.T) {
	t.Parallel()
	w := newCallback()
	w.covered = allCovered(" (created)")
	w.add("(created)", "1767323045")
	w.signCallback()
	w.drop("(created)")
	r := w.request(t)
	r.Header["(created)"] = []string{"1767323045"}

	_, err := newVerifier(t, signature.VerifierOptions{}).VerifyCallback(r)

	if !errors.Is(err, signature.ErrCoverage) {
		t.Errorf("got %v, want ErrCoverage: other versions of the draft mean something else by it", err)
	}
}

func TestErrorsTellTheReasonAndNothingOfTheMessage(t *testing.T) {
	t.Parallel()
	w := signedCallback()
	withBody(`{"phone_number":"447700900000"}`)(w)

	_, err := newVerifier(t, signature.VerifierOptions{}).VerifyCallback(w.request(t))

	if want := "signature: callback rejected: digest does not match the body (was it changed in transit, or rewritten by middleware in front of the verifier?)"; err == nil || err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	for _, a := range append(callbackAttacks, redirectAttacks...) {
		e := signature.Error{Operation: "callback", Reason: a.want}
		if !errors.Is(&e, a.want) || e.Retryable() {
			t.Errorf("%s: %v", a.name, a.want)
		}
	}
}
