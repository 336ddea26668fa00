package signature_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

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
	{"unchanged", changes(), []string{"verified: this is a valid callback"}},

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
	}, []string{"header date: a gateway moved it"}},
	{"kind twice", func(r *http.Request) { r.Header.Add("X-Service-Callback", "phone_check") }, []string{"header x-service-callback: occurs more than once"}},
	{"kind merged", setHeader("X-Service-Callback", "phone_check, phone_check"), []string{"header x-service-callback: a proxy repeated the header"}},
	{"kind removed", func(r *http.Request) { r.Header.Del("X-Service-Callback") }, []string{"header x-service-callback: a proxy removed or changed it"}},
	{"Authorization twice", func(r *http.Request) { r.Header.Add("Authorization", "Basic dXNlcjpwYXNz") }, []string{"authorization: the header occurs more than once"}},
	{"Authorization merged", func(r *http.Request) {
		r.Header.Set("Authorization", "Basic dXNlcjpwYXNz, "+r.Header.Get("Authorization"))
	}, []string{"authorization: a proxy or gateway merged"}},
	{"Authorization moved", func(r *http.Request) {
		r.Header.Set("X-Forwarded-Authorization", r.Header.Get("Authorization"))
		r.Header.Set("Authorization", "Bearer abc.def")
	}, []string{"authorization: a gateway moved the header to X-Forwarded-Authorization"}},
	{"Authorization replaced", setHeader("Authorization", "Basic dXNlcjpwYXNz"), []string{"not explained: callback rejected: Authorization scheme is not Signature", "authorization: contains other credentials"}},
	{"no Authorization", func(r *http.Request) { r.Header.Del("Authorization") }, []string{"not explained: ", "authorization: the request has no signature"}},
	{"method", func(r *http.Request) { r.Method = "PUT" }, []string{"method: signed as POST"}},
	{"another key ID", func(r *http.Request) {
		r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), keyID, "key-9", 1))
	}, []string{"key: keyId in the Authorization is not the ID of the key"}},

	// Not explained.
	{"another body", content(`{"check_id":"c2"}`), []string{"not explained: callback rejected: digest does not match", "body: differs from the signed one"}},
	{"body consumed", func(r *http.Request) { r.Body = http.NoBody }, []string{"not explained: callback: verification unavailable", "body: cannot be examined"}},
	{"another date", setHeader("Date", now.Add(time.Minute).Format(http.TimeFormat)), []string{"not explained: callback rejected: date is 1m0s in the future", "key: the service made the signature"}},
	{"damaged signature", func(r *http.Request) {
		r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), `signature="`, `signature="AAAA`, 1))
	}, []string{"not explained: callback rejected: signature does not verify", "forged"}},
}

var explainRedirectRows = []explainRow{
	{"unchanged", changes(), []string{"verified: this is a valid redirect"}},
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
	{"unsigned", func(r *http.Request) { r.RequestURI = "/shop/back" }, []string{"not explained: redirect rejected", "authorization: the query has no signature"}},
	{"truncated", func(r *http.Request) { r.RequestURI = r.RequestURI[:200] }, []string{"not explained: ", "authorization: "}},
	{"another check", replaceURI("c1", "c2"), []string{"not explained: redirect rejected: signature does not verify", "key: the service made the signature"}},
}

func TestVerifier_Explain(t *testing.T) {
	t.Parallel()
	opts := &signature.ExplainOptions{Paths: []string{"/hooks/v1/a%2Fb~/phone?tenant=7&q=a%20b", "/shop/back"}}
	check := func(t *testing.T, row explainRow, r *http.Request) {
		t.Parallel()
		v := newVerifier(t, signature.VerifierOptions{})
		row.change(r)

		got := v.Explain(t.Context(), r, opts)

		checkLines(t, got, row.want)
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

// checkLines compares lines with their expected parts.
func checkLines(t *testing.T, got, want []string) {
	t.Helper()
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
