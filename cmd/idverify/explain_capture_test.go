package main

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idverify/idverify-go/signature"
)

const (
	capturedBody = `{"check_id":"c1","status":"COMPLETED","match":true}`
	capturedKind = "phone_check"
)

var capturedAt = time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)

// testKeys returns the keys of the tests of package signature.
var testKeys = sync.OnceValue(func() []*rsa.PrivateKey {
	text, err := os.ReadFile("../../signature/testdata/keys.pem")
	if err != nil {
		panic(err)
	}
	var keys []*rsa.PrivateKey
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return keys
		}
		key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
		if err != nil {
			panic(err)
		}
		keys, text = append(keys, key), rest
	}
})

// jwks returns a key set with one key.
func jwks(key *rsa.PrivateKey) string {
	encode := base64.RawURLEncoding.EncodeToString
	return fmt.Sprintf(`{"keys":[{"kty":"RSA","use":"sig","alg":"RS256","kid":"key-1","n":"%s","e":"%s"}]}`+"\n", encode(key.N.Bytes()), encode(big.NewInt(int64(key.E)).Bytes()))
}

// jwksFile writes the key set to a file.
func jwksFile(t *testing.T, key *rsa.PrivateKey) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(path, []byte(jwks(key)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func testSigner(tb testing.TB) *signature.Signer {
	tb.Helper()
	s, err := signature.NewSigner("key-1", testKeys()[0], &signature.SignerOptions{Now: func() time.Time { return capturedAt }})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// signedCallback returns a signed callback to api.example.com.
func signedCallback(tb testing.TB) *http.Request {
	tb.Helper()
	r := httptest.NewRequest(http.MethodPost, "/callbacks/phone?tenant=7&q=a%20b", nil)
	r.Host = "api.example.com"
	r.Header.Set("X-Service-Callback", capturedKind)
	if err := testSigner(tb).SignCallback(r, []byte(capturedBody)); err != nil {
		tb.Fatal(err)
	}
	r.Header.Set("Content-Length", fmt.Sprint(len(capturedBody)))
	return r
}

// signedRedirect returns a signed redirect URL.
func signedRedirect(tb testing.TB) *url.URL {
	tb.Helper()
	u, err := url.Parse("https://api.example.com/back?lang=d%C3%A9&check_id=c1&code=a%2Bb")
	if err == nil {
		err = testSigner(tb).SignRedirect(u)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return u
}

// rawHead returns the head of a request with a line break and a prefix for each line.
func rawHead(r *http.Request, prefix, end string) string {
	var b strings.Builder
	fmt.Fprint(&b, prefix, r.Method, " ", r.RequestURI, " HTTP/1.1", end, prefix, "Host: ", r.Host, end)
	for _, name := range headerNames(r) {
		fmt.Fprint(&b, prefix, name, ": ", r.Header.Get(name), end)
	}
	b.WriteString(prefix + end)
	return b.String()
}

func headerNames(r *http.Request) []string {
	var names []string
	for name := range r.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// headersAs returns the headers in JSON, each formatted by f, and joined by commas.
func headersAs(r *http.Request, f func(name, value string) string) string {
	parts := []string{f("Host", r.Host)}
	for _, name := range headerNames(r) {
		parts = append(parts, f(name, r.Header.Get(name)))
	}
	return strings.Join(parts, ",")
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func asMember(name, value string) string { return quoted(name) + ":" + quoted(value) }
func asList(name, value string) string   { return quoted(name) + ":[" + quoted(value) + "]" }
func asCouple(name, value string) string { return "[" + quoted(name) + "," + quoted(value) + "]" }
func asFlat(name, value string) string   { return quoted(name) + "," + quoted(value) }
func asNamed(name, value string) string {
	return `{"name":` + quoted(name) + `,"value":` + quoted(value) + "}"
}
func asNginx(name, value string) string {
	return asMember("http_"+strings.ToLower(strings.ReplaceAll(name, "-", "_")), value)
}

// captures returns a signed callback in each form of a capture.
func captures(tb testing.TB) map[string]string {
	r := signedCallback(tb)
	uri := quoted(r.RequestURI)
	body := quoted(capturedBody)
	encoded := quoted(base64.StdEncoding.EncodeToString([]byte(capturedBody)))
	path, query, _ := strings.Cut(r.RequestURI, "?")
	lf, crlf := rawHead(r, "", "\n"), rawHead(r, "", "\r\n")
	withoutLength := strings.ReplaceAll(lf, "Content-Length: "+fmt.Sprint(len(capturedBody))+"\n", "")
	chunked := strings.ReplaceAll(crlf, "Content-Length: "+fmt.Sprint(len(capturedBody)), "Transfer-Encoding: chunked")
	http2 := ":method: POST\n:path: " + r.RequestURI + "\n:scheme: https\n:authority: api.example.com\n" + strings.SplitN(lf, "\n", 3)[2]
	return map[string]string{
		"LF":                        lf + capturedBody,
		"LF and a line break":       lf + capturedBody + "\n",
		"CR LF":                     crlf + capturedBody,
		"CR LF and line breaks":     crlf + capturedBody + "\r\n\r\n",
		"without Content-Length":    withoutLength + capturedBody + "\n",
		"chunked":                   chunked + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(capturedBody), capturedBody),
		"HTTP/2":                    http2 + capturedBody,
		"absolute target":           strings.Replace(lf, "POST /", "POST https://api.example.com/", 1) + capturedBody,
		"tcpdump -A":                "03:04:05.000001 IP app.1 > api.443: Flags [P.], length 900\nE..4..@.@....P.....1" + lf + capturedBody,
		"byte order mark":           "\uFEFF" + lf + capturedBody,
		"JSON":                      `{"method":"POST","url":` + uri + `,"headers":{` + headersAs(r, asMember) + `},"body":` + body + `}`,
		"JSON with absolute URL":    `{"time":"x","host":"worker-1","method":"post","url":` + quoted("https://api.example.com"+r.RequestURI) + `,"headers":{` + strings.Replace(headersAs(r, asMember), asMember("Host", r.Host)+",", "", 1) + `},"body":` + body + `}`,
		"JSON with lists":           `{"method":"POST","uri":` + uri + `,"headers":{` + headersAs(r, asList) + `},"body":` + body + `}`,
		"JSON with pairs":           `[{"method":"POST","path":` + quoted(path) + `,"query_string":` + quoted(query) + `,"headers":[` + headersAs(r, asCouple) + `],"body_base64":` + encoded + `}]`,
		"JSON with names":           `{"method":"POST","path":` + uri + `,"headers":[` + headersAs(r, asNamed) + `],"body":` + body + `}`,
		"raw headers of Node.js":    `{"req":{"method":"POST","url":` + uri + `,"rawHeaders":[` + headersAs(r, asFlat) + `]},"body":` + body + `}`,
		"parsed body":               `{"method":"POST","url":` + uri + `,"headers":{` + headersAs(r, asMember) + `},"body":` + capturedBody + `}`,
		"nginx":                     `{"time_iso8601":"2026-01-02T03:04:05+00:00","request":"POST ` + r.RequestURI + ` HTTP/1.1","status":400,` + headersAs(r, asNginx) + `,"request_body":` + body + `}`,
		"HAR":                       `{"log":{"entries":[{"request":{"method":"POST","url":` + quoted("https://api.example.com"+r.RequestURI) + `,"httpVersion":"HTTP/2.0","headers":[` + headersAs(r, asNamed) + `],"postData":{"mimeType":"application/json","text":` + body + `}}}]}}`,
		"HAR entry":                 `{"request":{"method":"POST","url":` + quoted("https://api.example.com"+r.RequestURI) + `,"headers":[` + headersAs(r, asNamed) + `],"postData":{"text":` + body + `}}}`,
		"AWS API Gateway v1":        `{"resource":"/{proxy+}","path":` + quoted(path) + `,"httpMethod":"POST","headers":{` + headersAs(r, asMember) + `},"multiValueHeaders":{` + headersAs(r, asList) + `},"queryStringParameters":{"q":"a b","tenant":"7"},"multiValueQueryStringParameters":{"tenant":["7"],"q":["a b"]},"requestContext":{"path":"/prod/callbacks","stage":"prod","domainName":"api.example.com"},"body":` + encoded + `,"isBase64Encoded":true}`,
		"AWS API Gateway v2":        `{"version":"2.0","rawPath":` + quoted(path) + `,"rawQueryString":` + quoted(query) + `,"headers":{` + strings.ToLower("") + headersAs(r, asMember) + `},"requestContext":{"domainName":"api.example.com","http":{"method":"POST","path":` + quoted(path) + `}},"body":` + body + `,"isBase64Encoded":false}`,
		"AWS load balancer":         `{"requestContext":{"elb":{"targetGroupArn":"arn:x"}},"httpMethod":"POST","path":` + quoted(path) + `,"queryStringParameters":{"tenant":"7","q":"a%20b"},"headers":{` + headersAs(r, asMember) + `},"body":` + body + `,"isBase64Encoded":false}`,
		"Elastic Common Schema":     `{"http":{"request":{"method":"POST","headers":{` + headersAs(r, asMember) + `},"body":{"content":` + body + `}}},"url":{"path":` + quoted(path) + `,"query":` + quoted(query) + `,"domain":"api.example.com"}}`,
		"Google Cloud with headers": `{"httpRequest":{"requestMethod":"POST","requestUrl":` + quoted("https://api.example.com"+r.RequestURI) + `,"status":400},"jsonPayload":{"headers":{` + headersAs(r, asMember) + `},"body":` + body + `}}`,
	}
}
