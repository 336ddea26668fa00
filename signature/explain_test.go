package signature_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/attack"
	"github.com/idverify/idverify-go/signature"
)

const explainBody = `{"check_id":"c1","status":"COMPLETED","match":true,"note":"Zoë & <co>"}`

// received returns a signed callback for the target, as a server receives it.
func receivedCallback(tb testing.TB, target, content string, opts signature.SignerOptions) *http.Request {
	tb.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("POST " + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n")))
	if err != nil {
		tb.Fatal(err)
	}
	name := opts.CallbackHeader
	if name == "" {
		name = "x-service-callback"
	}
	r.Header.Set(name, "phone_check")
	if err := newSigner(tb, opts).SignCallback(r, []byte(content)); err != nil {
		tb.Fatal(err)
	}
	return r
}

// receivedRedirect returns a signed redirect for the target, as a server receives it.
func receivedRedirect(tb testing.TB, target string) *http.Request {
	tb.Helper()
	u, err := url.Parse("https://" + host + target)
	if err != nil {
		tb.Fatal(err)
	}
	if err := newSigner(tb, signature.SignerOptions{}).SignRedirect(u); err != nil {
		tb.Fatal(err)
	}
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + u.RequestURI() + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n")))
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// setBody replaces the body, as middleware does.
func setBody(r *http.Request, content string) {
	r.Body, r.ContentLength = restored([]byte(content)), int64(len(content))
}

// explainRow is a change on the way from the service to the verifier.
type explainRow struct {
	name   string
	change func(*http.Request)
	want   []string // parts of the lines, in order
}

func replaceURI(old, new string) func(*http.Request) {
	return func(r *http.Request) { r.RequestURI = strings.Replace(r.RequestURI, old, new, 1) }
}

func setHeader(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func changes(all ...func(*http.Request)) func(*http.Request) {
	return func(r *http.Request) {
		for _, change := range all {
			change(r)
		}
	}
}

func content(s string) func(*http.Request) { return func(r *http.Request) { setBody(r, s) } }

func atHost(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

// callbackTarget contains what proxies rewrite.
const callbackTarget = "/hooks/v1/a%2Fb~/phone?tenant=7&q=a%20b"

var explainCallbackRows = []explainRow{
	{"unchanged", changes(), []string{"verified"}},

	// Host.
	{"own host", atHost("10.0.0.7:8080"), []string{"host: signed for api.example.com, one of the verifier's hosts"}},
	{"X-Forwarded-Host", changes(atHost("app"), setHeader("X-Forwarded-Host", "api.example.com, edge.example.com")), []string{"the host in X-Forwarded-Host"}},
	{"Forwarded", changes(atHost("app"), setHeader("Forwarded", `for=192.0.2.1;host="api.example.com";proto=https`)), []string{"the host in Forwarded"}},
	{"X-Original-Host", changes(atHost("app"), setHeader("X-Original-Host", "api.example.com")), []string{"the host in X-Original-Host"}},
	{"port", atHost("api.example.com:8443"), []string{"host: signed for api.example.com"}},

	// Path.
	{"stripped prefix in a header", changes(replaceURI("/hooks", ""), setHeader("X-Forwarded-Prefix", "/hooks/")), []string{"path: signed with the prefix in X-Forwarded-Prefix"}},
	{"added prefix", replaceURI("/hooks", "/internal/app/hooks"), []string{"path: signed without the first 2 segments"}},
	{"registered path", replaceURI("/hooks/v1", ""), []string{"path: signed for the registered path /hooks/v1/a%2Fb~/phone"}},
	{"X-Original-URI", changes(replaceURI("/hooks/v1/a%2Fb~/phone?tenant=7&q=a%20b", "/x"), setHeader("X-Original-URI", callbackTarget)), []string{"path: signed as in X-Original-Uri", "query: signed as in X-Original-Uri"}},
	{"absolute X-Original-URL", changes(replaceURI("/hooks/v1/a%2Fb~/phone?tenant=7&q=a%20b", "/x"), setHeader("X-Original-URL", "https://other.example"+callbackTarget)), []string{"path: signed as in X-Original-Url", "query: signed as in X-Original-Url"}},
	{"X-Envoy-Original-Path", changes(replaceURI("/hooks", "/x"), setHeader("X-Envoy-Original-Path", callbackTarget)), []string{"path: signed as in X-Envoy-Original-Path"}},
	{"X-Rewrite-URL", changes(replaceURI("/hooks", "/x"), setHeader("X-Rewrite-URL", callbackTarget)), []string{"path: signed as in X-Rewrite-Url"}},
	{"decoded slash", replaceURI("%2F", "/"), []string{"path: signed with %2F"}},
	{"escape in lower case", replaceURI("%2F", "%2f"), []string{"path: signed with escapes in upper case"}},
	{"escaped again", replaceURI("~", "%7E"), []string{"path: "}},
	{"slash doubled", replaceURI("/hooks/", "//hooks/"), []string{"path: signed with a single slash"}},
	{"slashes merged", replaceURI("/v1/", "/v1//"), []string{"path: signed with a single slash"}},
	{"slash at the end", replaceURI("/phone", "/phone/"), []string{"path: signed without the slash at its end"}},
	{"host and path", changes(atHost("app:80"), setHeader("X-Forwarded-Host", "api.example.com"), replaceURI("/hooks", "/internal/hooks")), []string{"host: signed for api.example.com", "path: signed without the first segment"}},

	// Query.
	{"no query", replaceURI("?tenant=7&q=a%20b", ""), []string{"query: signed with the query of a registered path"}},
	{"plus for space", replaceURI("%20", "+"), []string{"query: signed with %20"}},
	{"added parameter", replaceURI("tenant=7", "tenant=7&trace=1"), []string{"query: signed without one of its parameters"}},
	{"sorted", replaceURI("tenant=7&q=a%20b", "q=a%20b&tenant=7"), []string{"query: signed"}},
	{"HTML escape", replaceURI("&", "&amp;"), []string{"query: "}},

	// Body.
	{"line break", content(explainBody + "\n"), []string{"body: signed without the line break"}},
	{"CR LF", content(explainBody + "\r\n"), []string{"body: signed without the line break"}},
	{"byte order mark", content("\uFEFF" + explainBody), []string{"body: signed without the byte order mark"}},
	{"white space", content("  " + explainBody + " "), []string{"body: signed without the white space"}},
	{"indented", content(strings.ReplaceAll(explainBody, ",", ",\n  ")), []string{"body: re-serialized on the way"}},
	{"escapes of Go", content(strings.NewReplacer("&", `\u0026`, "<", `\u003c`, ">", `\u003e`).Replace(explainBody)), []string{"body: re-serialized on the way, with other escapes"}},
	{"escapes of Python", content(strings.NewReplacer(":", ": ", ",", ", ", "ë", `\u00eb`).Replace(explainBody)), []string{"body: re-serialized on the way, with other escapes"}},
	{"charset", content(strings.ReplaceAll(explainBody, "ë", "\xeb")), []string{"body: converted to another charset"}},
	{"charset twice", content(strings.ReplaceAll(explainBody, "ë", "Ã«")), []string{"body: converted to another charset"}},
	{"base64", content(base64.StdEncoding.EncodeToString([]byte(explainBody))), []string{"body: received in base64"}},
	{"JSON string", content(fmt.Sprintf("%q", explainBody)), []string{"body: received as a JSON string"}},
	{"body and path", changes(content(explainBody+"\n"), replaceURI("/hooks", "/x/hooks")), []string{"path: signed without the first segment", "body: signed without the line break"}},

	// Headers.
	{"digest in base64", func(r *http.Request) {
		r.Header.Set("Digest", "SHA-256="+base64.StdEncoding.EncodeToString(sumOf(explainBody)))
	}, []string{"digest: a proxy or gateway wrote the header in another form"}},
	{"digest in upper case", func(r *http.Request) {
		r.Header.Set("Digest", "SHA-256="+strings.ToUpper(strings.TrimPrefix(r.Header.Get("Digest"), "SHA-256=")))
	}, []string{"digest: a proxy or gateway wrote"}},
	{"digest renamed", func(r *http.Request) {
		r.Header.Del("Digest")
		r.Header.Set("Content-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sumOf(explainBody))+":")
	}, []string{"digest: a proxy removed or renamed the header"}},
	{"digest removed", func(r *http.Request) { r.Header.Del("Digest") }, []string{"digest: a proxy removed or renamed the header"}},
	{"date in another form", setHeader("Date", now.Format(time.RFC850)), []string{"date: a proxy wrote it in another form"}},
	{"date replaced", setHeader("Date", now.Add(3*time.Second).Format(http.TimeFormat)), []string{"date: a proxy removed or replaced the header Date of the service: signed 3 s before"}},
	{"date removed", func(r *http.Request) { r.Header.Del("Date") }, []string{"date: a proxy removed or replaced the header Date"}},
	{"date remapped", func(r *http.Request) {
		r.Header.Set("X-Amzn-Remapped-Date", r.Header.Get("Date"))
		r.Header.Del("Date")
	}, []string{"date: a gateway moved it"}},
	{"kind twice", func(r *http.Request) { r.Header.Add("X-Service-Callback", "phone_check") }, []string{"x-service-callback: occurs more than once"}},
	{"kind merged", setHeader("X-Service-Callback", "phone_check, phone_check"), []string{"x-service-callback: a proxy repeated the header"}},
	{"kind removed", func(r *http.Request) { r.Header.Del("X-Service-Callback") }, []string{"x-service-callback: a proxy removed or changed it"}},
	{"Authorization twice", func(r *http.Request) { r.Header.Add("Authorization", "Basic dXNlcjpwYXNz") }, []string{"authorization: a proxy or gateway repeated the header"}},
	{"Authorization merged", func(r *http.Request) {
		r.Header.Set("Authorization", "Basic dXNlcjpwYXNz, "+r.Header.Get("Authorization"))
	}, []string{"authorization: a proxy or gateway merged"}},
	{"Authorization moved", func(r *http.Request) {
		r.Header.Set("X-Forwarded-Authorization", r.Header.Get("Authorization"))
		r.Header.Set("Authorization", "Bearer abc.def")
	}, []string{"authorization: a gateway moved the header to X-Forwarded-Authorization"}},
	{"Authorization replaced", setHeader("Authorization", "Basic dXNlcjpwYXNz"), []string{"not explained: message: callback not verified: malformed message", "authorization: contains other credentials"}},
	{"no Authorization", func(r *http.Request) { r.Header.Del("Authorization") }, []string{"not explained: ", "authorization: the request has no signature"}},
	{"method", func(r *http.Request) { r.Method = "PUT" }, []string{"method: signed as POST"}},
	{"another key ID", func(r *http.Request) {
		r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), keyID, "key-9", 1))
	}, []string{"key: keyId in the Authorization is not the ID of the key"}},

	// Not explained.
	{"another body", content(`{"check_id":"c2"}`), []string{"not explained: message: callback not verified: digest does not match", "body: differs from the signed one"}},
	{"body consumed", func(r *http.Request) { r.Body = http.NoBody }, []string{"not explained: message: callback not verified: body incomplete", "body: cannot be examined"}},
	{"another date", setHeader("Date", now.Add(time.Minute).Format(http.TimeFormat)), []string{"not explained: message: callback not verified: date outside the allowed skew", "key: the service made the signature"}},
	{"damaged signature", func(r *http.Request) {
		r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), `signature="`, `signature="AAAA`, 1))
	}, []string{"not explained: message: callback not verified: signature does not verify", "forged"}},
}

var explainRedirectRows = []explainRow{
	{"unchanged", changes(), []string{"verified"}},
	{"host and path", changes(atHost("app"), replaceURI("/shop/back", "/back")), []string{"host: signed for api.example.com", "path: signed for the registered path /shop/back"}},
	{"tracking parameters", func(r *http.Request) { r.RequestURI += "&utm_source=mail&fbclid=x" }, []string{"query: signed without tracking parameters"}},
	{"sorted query", replaceURI("lang=d%C3%A9&check_id=c1&code=a%2Bb", "check_id=c1&code=a%2Bb&lang=d%C3%A9"), []string{"query: signed with its parameters in another order"}},
	{"plus decoded", replaceURI("a%2Bb", "a+b"), []string{"query: signed with %2B"}},
	{"encoding of the parameters", func(r *http.Request) {
		r.RequestURI = strings.NewReplacer("%3D", "%253D", "%2B", "%252B", "%2F", "%252F").Replace(r.RequestURI)
	}, []string{"changed the encoding of the parameter authorization", "query: signed with escapes that a proxy escaped once more", "changed the encoding of the parameter date"}},
	{"query in a header", func(r *http.Request) {
		r.Header.Set("X-Original-URI", r.RequestURI)
		r.RequestURI = "/shop/back"
	}, []string{"query: signed as in X-Original-Uri"}},
	{"HEAD", func(r *http.Request) { r.Method = "HEAD" }, []string{"method: signed as GET"}},
	{"unsigned", func(r *http.Request) { r.RequestURI = "/shop/back" }, []string{"not explained: message: redirect not verified", "authorization: the query has no signature"}},
	{"truncated", func(r *http.Request) { r.RequestURI = r.RequestURI[:200] }, []string{"not explained: ", "authorization: "}},
	{"another check", replaceURI("c1", "c2"), []string{"not explained: message: redirect not verified: signature does not verify", "key: the service made the signature"}},
}

func TestVerifier_Explain(t *testing.T) {
	t.Parallel()
	opts := &signature.ExplainOptions{Paths: []string{"/hooks/v1/a%2Fb~/phone?tenant=7&q=a%20b", "/shop/back"}}
	check := func(t *testing.T, row explainRow, r *http.Request) {
		t.Parallel()
		v := newVerifier(t, signature.VerifierOptions{})
		row.change(r)

		got := v.Explain(t.Context(), r, opts)

		checkExplanation(t, got, row.want)
	}
	for _, row := range explainCallbackRows {
		t.Run("callback, "+row.name, func(t *testing.T) {
			check(t, row, receivedCallback(t, callbackTarget, explainBody, signature.SignerOptions{}))
		})
	}
	for _, row := range explainRedirectRows {
		t.Run("redirect, "+row.name, func(t *testing.T) {
			check(t, row, receivedRedirect(t, "/shop/back?lang=d%C3%A9&check_id=c1&code=a%2Bb"))
		})
	}
}

// linesOf returns an explanation as lines: "verified", or the changes. If the message is not
// explained, the first line begins with "not explained: ".
func linesOf(e signature.Explanation) []string {
	if e.Verified {
		return []string{"verified"}
	}
	var lines []string
	for _, c := range e.Changes {
		lines = append(lines, c.String())
	}
	if !e.Explained {
		lines[0] = "not explained: " + lines[0]
	}
	return lines
}

// checkExplanation compares the lines of an explanation with their expected parts.
func checkExplanation(t *testing.T, e signature.Explanation, want []string) {
	t.Helper()
	got := linesOf(e)
	if e.Verified && (!e.Explained || len(e.Changes) > 0) {
		t.Errorf("explanation of a verified message = %+v, want no changes", e)
	}
	if len(got) != len(want) {
		t.Fatalf("got %d lines, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("line %d = %q, want %q", i, got[i], want[i])
		}
	}
}

// bodyOf returns the body that is left to read.
func bodyOf(t *testing.T, r *http.Request) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := io.Copy(&b, r.Body); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func sumOf(s string) []byte {
	sum := sha256.Sum256([]byte(s))
	return sum[:]
}

func TestVerifier_ExplainClock(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		offset time.Duration // of the clock
		want   string
	}{
		{"fast", 83*time.Minute + time.Millisecond, "clock: signed 1h23m1s before the time of this machine, and the allowed skew is 5s: if all messages are rejected, its clock is fast"},
		{"slow", -90 * time.Second, "clock: signed 1m30s after the time of this machine, and the allowed skew is 5s: its clock is slow"},
		{"advice suffices", 6500 * time.Millisecond, "(an allowed skew of 7s would accept it)"},
		{"old", 48 * time.Hour, "clock: signed 48h0m0s before"},
		{"very old", 290 * 365 * 24 * time.Hour, "clock: signed 876000h0m0s before"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			v := newVerifier(t, signature.VerifierOptions{Now: func() time.Time { return now.Add(row.offset) }})

			for _, r := range []*http.Request{receivedCallback(t, target, body, signature.SignerOptions{}), receivedRedirect(t, "/back?check_id=c1&code=x")} {
				got := v.Explain(t.Context(), r, nil)
				checkExplanation(t, got, []string{row.want})
				if fix := got.Changes[0].Fix; strings.Contains(fix, "would accept it") && row.name != "advice suffices" {
					t.Errorf("got %q, want no advice to accept old messages", fix)
				}
				checkExplanation(t, v.Explain(t.Context(), r, &signature.ExplainOptions{AnyDate: true}), []string{"verified"})
			}
		})
	}
}

func TestVerifier_ExplainHost(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, host, want string }{
		{"another customer", "hooks.example.net:8443", "host: signed for hooks.example.net:8443, which is not one of the verifier's hosts"},
		{"IPv4", "192.0.2.7", "host: signed for the host of the request, which is not one"},
		{"IPv6", "[2001:db8::7]:8080", "host: signed for the host of the request, which is not one"},
		{"phone number", "447700900000.example.net", "host: signed for the host of the request, which is not one"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodPost, "/callbacks", nil)
			r.Host = row.host
			r.Header.Set("x-service-callback", "phone_check")
			sign(t, r, body)

			got := newVerifier(t, signature.VerifierOptions{}).Explain(t.Context(), r, nil)

			checkExplanation(t, got, []string{row.want})
		})
	}
}

func TestVerifier_ExplainHostOfCaller(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, own, signed, received, want string }{
		{"port missing", "127.0.0.1", "127.0.0.1:3001", "127.0.0.1:3001", "host: signed for 127.0.0.1:3001, which is not one of the verifier's hosts (one has the same name, but without the port)"},
		{"IPv6", "[::1]", "[::1]:3001", "[::1]:3001", "host: signed for [::1]:3001, which is not one of the verifier's hosts (one has the same name, but without the port)"},
		{"port added", "127.0.0.1:3001", "127.0.0.1", "127.0.0.1", "host: signed for 127.0.0.1, which is not one of the verifier's hosts (one has the same name, but with a port)"},
		{"another port", "app.example.com:1", "app.example.com:2", "app.example.com:2", "(one has the same name, but another port): if it is yours"},
		{"received elsewhere", "127.0.0.1:3001", "127.0.0.1:3001", "192.0.2.7", "host: signed for 127.0.0.1:3001, one of the verifier's hosts"},
		{"another name", "127.0.0.1", "127.0.0.2:3001", "127.0.0.2:3001", "host: signed for the host of the request, which is not one of the verifier's hosts: if"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			v := verifierFor(t, serviceKeys(), signature.VerifierOptions{}, row.own)
			r := httptest.NewRequest(http.MethodPost, "/callbacks", nil)
			r.Host = row.signed
			r.Header.Set("x-service-callback", "phone_check")
			sign(t, r, body)
			r.Host = row.received

			got := v.Explain(t.Context(), r, nil)

			checkExplanation(t, got, []string{row.want})
		})
	}
}

// An IP address of the message is omitted also if the host differs from the received one.
func TestVerifier_ExplainHostOmitted(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/callbacks", nil)
	r.Host = "192.0.2.7"
	r.Header.Set("x-service-callback", "phone_check")
	sign(t, r, body)
	r.Host = host
	r.Header.Set("X-Forwarded-Host", "192.0.2.7")

	got := newVerifier(t, signature.VerifierOptions{}).Explain(t.Context(), r, nil)

	checkExplanation(t, got, []string{"host: signed for another host, the host in X-Forwarded-Host", "host: signed for another host, which is not one"})
}

func TestVerifier_ExplainTarget(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, signature.VerifierOptions{Target: func(*http.Request) (host, uri string) { return "wrong.example.com", "/wrong?x=1" }})

	got := v.Explain(t.Context(), receivedCallback(t, target, body, signature.SignerOptions{}), nil)

	checkExplanation(t, got, []string{"VerifierOptions.Target returns another", "path: signed as in the request, but VerifierOptions.Target", "query: signed as in the request, but VerifierOptions.Target"})
}

func TestVerifier_ExplainCallbackHeader(t *testing.T) {
	t.Parallel()
	r := receivedCallback(t, target, body, signature.SignerOptions{CallbackHeader: "x-acme-callback"})

	got := newVerifier(t, signature.VerifierOptions{}).Explain(t.Context(), r, nil)

	checkExplanation(t, got, []string{"callback header: the service sent the product in x-acme-callback: configure the verifier with this name"})
}

func TestVerifier_ExplainMaxBody(t *testing.T) {
	t.Parallel()
	r := receivedCallback(t, target, body, signature.SignerOptions{})

	got := newVerifier(t, signature.VerifierOptions{MaxBody: 10}).Explain(t.Context(), r, nil)

	checkExplanation(t, got, []string{"not explained: message: callback not verified: message too large", fmt.Sprint("set VerifierOptions.MaxBody to at least ", len(body))})
	if left := bodyOf(t, r); left != body {
		t.Errorf("body after Explain = %q, want it restored", left)
	}
}

func TestVerifier_ExplainKeys(t *testing.T) {
	t.Parallel()
	other := signature.StaticKeys{keyID: &keys()["service-2"].PublicKey}
	mine := serviceKeys()
	called := false
	for _, row := range []struct {
		name   string
		source signature.KeySource
		keys   map[string]signature.KeySource
		want   []string
	}{
		{"another key set", other, map[string]signature.KeySource{"sandbox": mine}, []string{`key: signed with a key of the key set "sandbox", which the verifier does not have`}},
		{"unknown", other, nil, []string{"not explained: message: callback not verified: signature does not verify", "key: the key with the ID in the Authorization did not make the signature: the message is probably forged"}},
		{"unknown ID", signature.StaticKeys{"k": other[keyID]}, map[string]signature.KeySource{"sandbox": other}, []string{"not explained: message: callback not verified: unknown key", "key: the key set has no key with the ID in the Authorization, and no examined key of another key set made the signature: the message"}},
		{"key source of the caller", keyFunc(func(context.Context, string) (*rsa.PublicKey, error) { called = true; return mine[keyID], nil }), nil, []string{"not explained: key: the verifier has no keys that can be examined"}},
		{"key source of the caller with keys", keyFunc(func(context.Context, string) (*rsa.PublicKey, error) { called = true; return mine[keyID], nil }), map[string]signature.KeySource{"production": mine}, []string{`key: signed with a key of the key set "production"; the keys of the verifier cannot be examined`}},
	} {
		t.Run(row.name, func(t *testing.T) {
			v := verifierFor(t, row.source, signature.VerifierOptions{}, host)

			got := v.Explain(t.Context(), receivedCallback(t, target, body, signature.SignerOptions{}), &signature.ExplainOptions{Keys: row.keys})

			checkExplanation(t, got, row.want)
			if called {
				t.Error("Explain called the key source of the caller")
			}
		})
	}
}

func TestVerifier_ExplainCachedKeySet(t *testing.T) {
	t.Parallel()
	fetches := 0
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetches++
		fmt.Fprint(w, keySet(jwk(keyID, "service-1")))
	}))
	defer server.Close()
	source, err := signature.NewJWKS(server.URL, &signature.JWKSOptions{HTTPClient: server.Client(), Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	v := verifierFor(t, source, signature.VerifierOptions{}, host)
	r := receivedCallback(t, target, body, signature.SignerOptions{})

	before := v.Explain(t.Context(), r, nil)
	fetchedBefore := fetches
	if err := source.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := v.Explain(t.Context(), r, nil)
	unknown := receivedCallback(t, target, body, signature.SignerOptions{})
	unknown.Header.Set("Authorization", strings.Replace(unknown.Header.Get("Authorization"), keyID, "unknown", 1))
	v.Explain(t.Context(), unknown, nil)

	checkExplanation(t, before, []string{"a JWKS fetches its set for the first message"})
	checkExplanation(t, after, []string{"verified"})
	if fetchedBefore != 0 || fetches != 1 {
		t.Errorf("Explain caused %d and %d fetches, want none", fetchedBefore, fetches-1)
	}
	if _, err := source.PublicKey(t.Context(), "unknown"); err == nil || fetches != 2 {
		t.Errorf("lookup of an unknown key after Explain: error %v after %d fetches, want a second fetch: Explain must not use up its permission", err, fetches)
	}
}

// noStore fails the test if it is used.
type noStore struct{ t *testing.T }

func (s noStore) Claim(context.Context, [32]byte, time.Duration) (bool, error) {
	s.t.Error("Explain used the replay store")
	return true, nil
}

func TestVerifier_ExplainHasNoSideEffects(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, signature.VerifierOptions{
		Replay:  noStore{t},
		Observe: func(context.Context, signature.Verification) { t.Error("Explain called Observe") },
		Logger: slog.New(slog.NewTextHandler(writerFunc(func(b []byte) (int, error) {
			t.Errorf("Explain logged %s", b)
			return len(b), nil
		}), nil)),
	})
	for _, row := range explainCallbackRows {
		r := receivedCallback(t, callbackTarget, explainBody, signature.SignerOptions{})
		row.change(r)
		want := bodyOf(t, r)
		r.Body = restored([]byte(want))
		header := fmt.Sprint(r.Header, r.Method, r.Host, r.RequestURI, r.URL)

		v.Explain(t.Context(), r, nil)

		if left := bodyOf(t, r); left != want {
			t.Errorf("%s: body after Explain = %q, want %q", row.name, left, want)
		}
		if after := fmt.Sprint(r.Header, r.Method, r.Host, r.RequestURI, r.URL); after != header {
			t.Errorf("%s: request after Explain = %s, want %s", row.name, after, header)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// unreadable is a body that fails the test when it is read.
type unreadable struct{ t *testing.T }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("Explain read the body of a message that the service did not sign")
	return 0, io.EOF
}

func (u unreadable) Close() error { return nil }

func TestVerifier_ExplainForgedBodyIsNotRead(t *testing.T) {
	t.Parallel()
	r := receivedCallback(t, target, body, signature.SignerOptions{})
	r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), `signature="`, `signature="AAAA`, 1))
	r.Body = unreadable{t}

	got := newVerifier(t, signature.VerifierOptions{}).Explain(t.Context(), r, nil)

	checkExplanation(t, got, []string{"not explained: ", "forged"})
}

func TestVerifier_ExplainCanceled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := receivedCallback(t, target, body, signature.SignerOptions{})
	r.Host = "other.example.com"

	got := newVerifier(t, signature.VerifierOptions{}).Explain(ctx, r, nil)

	checkExplanation(t, got, []string{"not explained: ", "the examination was canceled"})
}

// An explanation makes the operator accept messages, so no attack may be reported as valid, and
// no message that the service did not sign may be explained.
func TestVerifier_ExplainAttacks(t *testing.T) {
	t.Parallel()
	explained := make(map[string][]string)
	for kind, attacks := range map[string][]attack.Attack{"callback": attack.Callbacks(), "redirect": attack.Redirects()} {
		setup := setupFor("/callbacks/phone", "tenant=7")
		for _, a := range attacks {
			m := a.Message(setup)
			r := request(t, m)
			v := newVerifier(t, signature.VerifierOptions{})

			got, keys, forms, _, _ := signature.ExplainCost(v, r, &signature.ExplainOptions{Paths: []string{"/callbacks/phone"}})

			if keys > 64 || forms > 4096 || !got.Explained && len(got.Changes) == 0 {
				t.Fatalf("%s: %s: got %+v after %d operations with keys and %d forms", kind, a.Name, got, keys, forms)
			}
			if got.Verified {
				t.Errorf("%s: %s: got %+v, want no claim that the message is valid", kind, a.Name, got)
			}
			if got.Explained && !signedByService(r) {
				t.Errorf("%s: %s: got %q for a message that the service did not sign", kind, a.Name, linesOf(got))
			}
			if got.Explained {
				explained[kind] = append(explained[kind], a.Name+": "+strings.Join(linesOf(got), " | "))
			}
		}
	}

	for kind, names := range explained {
		slices.Sort(names)
		t.Logf("%s: %d attacks have a usual cause:\n%s", kind, len(names), strings.Join(names, "\n"))
		if len(names) < 10 {
			t.Errorf("%s: %d attacks are explained, want at least 10: changed hosts, paths and headers", kind, len(names))
		}
	}
}

var (
	anySignature = regexp.MustCompile(`signature="?([A-Za-z0-9+/=]+)`)
	noBase64     = regexp.MustCompile(`[^A-Za-z0-9+/]+`)
)

// signedByService reports whether the request contains a signature by a published key anywhere, by
// the structure of RFC 8017, section 8.2.2.
func signedByService(r *http.Request) bool {
	texts := slices.Clone(r.Header.Values("Authorization"))
	_, query, _ := strings.Cut(r.RequestURI, "?")
	for segment := range strings.SplitSeq(query, "&") {
		_, value, _ := strings.Cut(segment, "=")
		plain, err := url.PathUnescape(value)
		if decoded, decodeErr := base64.RawStdEncoding.DecodeString(noBase64.ReplaceAllString(plain, "")); err == nil && decodeErr == nil {
			texts = append(texts, string(decoded))
		}
	}
	for _, text := range texts {
		for _, m := range anySignature.FindAllStringSubmatch(text, -1) {
			decoded, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(m[1], "="))
			for key := range publishedKeys() {
				encoded := new(big.Int).Exp(new(big.Int).SetBytes(decoded), big.NewInt(int64(key.E)), key.N).Bytes()
				if err == nil && len(encoded) == key.Size()-1 && bytes.HasPrefix(encoded, append([]byte{1}, bytes.Repeat([]byte{0xff}, len(encoded)-53)...)) {
					return true
				}
			}
		}
	}
	return false
}

func publishedKeys() func(yield func(*rsa.PublicKey) bool) {
	return func(yield func(*rsa.PublicKey) bool) {
		for _, key := range serviceKeys() {
			if signature.Usable(key) && !yield(key) {
				return
			}
		}
	}
}

func TestVerifier_ExplainAccepted(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, signature.VerifierOptions{})
	for _, variant := range slices.Concat(attack.AcceptedCallbacks(), attack.AcceptedRedirects()) {
		got := v.Explain(t.Context(), request(t, variant.Message(setupFor("/callbacks/phone", "tenant=7"))), nil)

		if !got.Verified || !got.Explained {
			t.Errorf("%s: got %+v, want verified", variant.Name, got)
		}
	}
}

func TestVerifier_ExplainStillRejected(t *testing.T) {
	t.Parallel()
	m := setupFor("/callbacks/phone", "tenant=7").Callback()
	m.Covered += " host"
	m.Sign()
	r := request(t, m)
	r.Host = "app.internal"

	got := newVerifier(t, signature.VerifierOptions{}).Explain(t.Context(), r, nil)

	checkExplanation(t, got, []string{"not explained: ", "host: signed for api.example.com", "message: still rejected after these changes: signature covers a name twice"})
}
