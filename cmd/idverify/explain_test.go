package main

import (
	"bytes"
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idverify/idverify-go/signature"
)

func TestExplain_Captures(t *testing.T) {
	t.Parallel()
	keys := writeFile(t, jwks(testKeys()[0]))
	for name, text := range captures(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := runProgram(t, nil, text, "explain", "-jwks", keys, "-host", "api.example.com", "-at", "2026-01-02T03:04:06Z")

			// The gateway decodes the query, and the program cannot restore %20.
			if name == "AWS API Gateway v1" {
				got.expect(t, exitProblem, []string{"lost: the log contains the query only", "\nquery: signed with %20"}, nil)
				return
			}
			got.expect(t, exitOK, []string{"verified: the message is valid"}, nil)
		})
	}
}

func TestExplain_Redirect(t *testing.T) {
	t.Parallel()
	keys := writeFile(t, jwks(testKeys()[0]))
	u := signedRedirect(t)
	for name, text := range map[string]string{
		"raw":   "GET " + u.RequestURI() + " HTTP/1.1\nHost: api.example.com\n\n",
		"curl":  "* Connected to api.example.com\n> GET " + u.RequestURI() + " HTTP/2\n> Host: api.example.com\n> Accept: */*\n>\n< HTTP/2 400\n",
		"JSON":  `{"method":"GET","url":` + quoted(u.String()) + `,"headers":{"Accept":"*/*"}}`,
		"Caddy": `{"level":"info","ts":1767323045.1,"logger":"http.log.access","request":{"remote_ip":"192.0.2.1","proto":"HTTP/2.0","method":"GET","host":"api.example.com","uri":` + quoted(u.RequestURI()) + `,"headers":{"Accept":["*/*"]}},"status":400}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := runProgram(t, nil, text, "explain", "-jwks", keys, "-host", "api.example.com")

			got.expect(t, exitOK, []string{"verified: the message is valid", "\npath: no registered path", "clock: not examined"}, nil)
		})
	}
}

func TestExplain_Lost(t *testing.T) {
	t.Parallel()
	keys := writeFile(t, jwks(testKeys()[0]))
	r := signedCallback(t)
	head := rawHead(r, "", "\n")
	curl := "* Connected to 192.0.2.1 port 443\n" + rawHead(r, "> ", "\n") + "* upload completely sent off\n< HTTP/2 400\n"
	spaced := strings.NewReplacer(":", ": ", ",", ", ").Replace(capturedBody)
	parsed := func(body string) string {
		return `{"method":"POST","url":` + quoted(r.RequestURI) + `,"headers":{` + headersAs(r, asMember) + `},"body":` + body + `}`
	}
	line := func(name, value string) string { return strings.ReplaceAll(head, r.Header.Get(name), value) }
	for _, row := range []struct {
		name, input string
		code        int
		want        []string
	}{
		{"redacted Authorization", line("Authorization", "[redacted]") + capturedBody, exitError, []string{"the log has redacted the signature"}},
		{"Authorization of Caddy", `{"request":{"method":"POST","host":"api.example.com","uri":"/x","headers":{"Authorization":["REDACTED"]}}}`, exitError, []string{"the log has redacted the signature"}},
		{"truncated Authorization", line("Authorization", r.Header.Get("Authorization")[:60]+"...") + capturedBody, exitError, []string{"the log has redacted the signature"}},
		{"redacted code", "GET " + strings.Replace(signedRedirect(t).RequestURI(), "a%2Bb", "%5BFILTERED%5D", 1) + " HTTP/1.1\nHost: api.example.com\n\n", exitProblem, []string{"lost: the log has redacted or truncated a parameter of the query", "not explained: "}},
		{"no Date", strings.ReplaceAll(head, "Date: ", "X-Other: ") + capturedBody, exitProblem, []string{"lost: the capture has no header Date", "not explained: "}},
		{"no body", head, exitError, []string{"lost: the capture has no body", "body: not in the capture, so that only the rest was examined; it verifies without a change"}},
		{"parsed body", parsed(spaced), exitError, []string{"lost: the log contains the body as JSON", "\nbody: matches the digest once it is re-serialized; the log may", "capture it as text to decide"}},
		{"parsed body and path", strings.Replace(parsed(spaced), "/callbacks", "/x/callbacks", 1), exitProblem, []string{"\npath: signed without the first segment", "\nbody: matches the digest once it is re-serialized; the log may"}},
		{"another parsed body", parsed(`{"check_id":"c2"}`), exitProblem, []string{"not explained: ", "\nbody: differs from the signed one also if it is re-serialized; the log may"}},
		{"curl without body", strings.Replace(curl, "/callbacks", "/x/callbacks", 1), exitProblem, []string{"lost: the capture has no body", "path: signed without the first segment", "it verifies with the change above"}},
		{"truncated body", head + capturedBody[:20], exitProblem, []string{"lost: the body has 20 bytes, but its Content-Length is 51", "not explained: "}},
		{"redacted body", strings.Replace(head, "Content-Length: 51\n", "", 1) + `{"check_id":"[REDACTED]"}`, exitError, []string{"lost: the log has redacted or truncated the body", "body: not in the capture"}},
		{"access log", `192.0.2.1 - - [02/Jan/2026:03:04:05 +0000] "POST /callbacks HTTP/1.1" 400 12 "-" "-"`, exitProblem, []string{"lost: the capture has no header Host", "lost: the capture has no header Authorization", "not explained: "}},
		{"Google Cloud", `{"httpRequest":{"requestMethod":"POST","requestUrl":"https://api.example.com/callbacks","remoteIp":"192.0.2.1"}}`, exitProblem, []string{"lost: the capture has no header Authorization", "not explained: "}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()

			got := runProgram(t, nil, row.input, "explain", "-jwks", keys, "-host", "api.example.com")

			all := result{code: got.code, stdout: got.stdout + got.stderr}
			all.expect(t, row.code, append(row.want, "!192.0.2.1", "!tenant=7", "!Signature keyId"), nil)
		})
	}
}

func TestExplain_Flags(t *testing.T) {
	t.Parallel()
	mine, other := writeFile(t, jwks(testKeys()[0])), writeFile(t, jwks(testKeys()[1]))
	r := signedCallback(t)
	valid := rawHead(r, "", "\n") + capturedBody
	r = httptest.NewRequest(http.MethodPost, "/callbacks", nil)
	r.Host = "127.0.0.1:3001"
	r.Header.Set("X-Service-Callback", capturedKind)
	noError(t, testSigner(t).SignCallback(r, []byte(capturedBody)))
	local := rawHead(r, "", "\n") + capturedBody
	for _, row := range []struct {
		name, input string
		args        []string
		code        int
		want        string
	}{
		{"no host", valid, []string{"-jwks", mine}, exitUsage, "-host is required"},
		{"file as argument", "", []string{"-host", "api.example.com", "req0.txt"}, exitUsage, "unexpected argument req0.txt (use < req0.txt)"},
		{"IP host without port", local, []string{"-jwks", mine, "-host", "127.0.0.1"}, exitProblem, "host: signed for 127.0.0.1:3001, which is not one of the verifier's hosts (one has the same name, but without the port): if it is yours, add it to them"},
		{"invalid host", valid, []string{"-jwks", mine, "-host", "https://x"}, exitError, `"https://x" is not a host`},
		{"another host", valid, []string{"-jwks", mine, "-host", "app.example.com", "-host", "b.example.com"}, exitProblem, "host: signed for api.example.com, which is not one"},
		{"another key set", valid, []string{"-jwks", other, "-other-jwks", "sandbox=" + mine, "-host", "api.example.com"}, exitProblem, `key: signed with a key of the key set "sandbox"`},
		{"unknown key", valid, []string{"-jwks", other, "-host", "api.example.com"}, exitProblem, "did not make the signature: the message is probably forged, or the Authorization was changed, or it comes from another environment (pass its key set with -other-jwks, too)\n"},
		{"invalid other key set", valid, []string{"-jwks", mine, "-other-jwks", "x", "-host", "api.example.com"}, exitUsage, "expected name=file"},
		{"clock", valid, []string{"-jwks", mine, "-host", "api.example.com", "-at", "2026-01-02T03:05:05Z"}, exitProblem, "clock: signed 1m0s before"},
		{"invalid time", valid, []string{"-at", "yesterday"}, exitUsage, "expected a time"},
		{"invalid path", valid, []string{"-path", "callbacks"}, exitUsage, "expected a path"},
		{"path", strings.Replace(valid, "/callbacks/phone", "/x", 1), []string{"-jwks", mine, "-host", "api.example.com", "-path", "/callbacks/phone"}, exitProblem, "path: signed for the registered path /callbacks/phone"},
		{"callback header", valid, []string{"-jwks", mine, "-host", "api.example.com", "-callback-header", "x-other"}, exitProblem, "the service sent the product in x-service-callback"},
		{"no key set", valid, []string{"-host", "api.example.com"}, exitError, "IDVERIFY_BASE_URL is missing"},
		{"closed port", valid, []string{"-jwks", "https://" + unusedAddress, "-host", "api.example.com"}, exitError, "\nNext: check the port of -jwks, and that the server runs"},
		{"no file", valid, []string{"-jwks", "missing.json", "-host", "api.example.com"}, exitError, "no such file"},
		{"not a key set", valid, []string{"-jwks", "main.go", "-host", "api.example.com"}, exitError, "not a JSON Web Key Set"},
		{"empty input", " \n", []string{"-jwks", mine, "-host", "a.example.com"}, exitError, "the input is empty"},
		{"no request", "hello\nworld\n", []string{"-jwks", mine, "-host", "a.example.com"}, exitError, "the input contains no HTTP request"},
		{"JSON without request", `{"a":1}`, []string{"-jwks", mine, "-host", "a.example.com"}, exitError, "the JSON contains no HTTP request"},
		{"invalid JSON", `{"a":`, []string{"-jwks", mine, "-host", "a.example.com"}, exitError, "not valid JSON"},
		{"several requests", `[{"method":"GET"},{"method":"GET"}]`, []string{"-jwks", mine, "-host", "a.example.com"}, exitError, "more than one request"},
		{"large input", strings.Repeat("a", maxCapture+1), []string{"-jwks", mine, "-host", "a.example.com"}, exitError, "larger than 4 MiB"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()

			got := runProgram(t, nil, row.input, append([]string{"explain"}, row.args...)...)

			if got.code != row.code || !strings.Contains(got.stdout+got.stderr, row.want) {
				t.Errorf("exit code %d, want %d and %q\n%s%s", got.code, row.code, row.want, got.stdout, got.stderr)
			}
		})
	}
}

func TestExplain_LostIsLimited(t *testing.T) {
	t.Parallel()
	keys := writeFile(t, jwks(testKeys()[0]))
	parameters := "GET " + signedRedirect(t).RequestURI() + strings.Repeat("&a=x...", maxCapture/8) + " HTTP/1.1\nHost: api.example.com\n\n"
	headers := rawHead(signedCallback(t), "", "\n")
	for i := range 100 {
		headers = strings.Replace(headers, "Host: ", fmt.Sprintf("X-Callback-%d: [redacted]\nHost: ", i), 1)
	}
	for name, input := range map[string]string{"parameters": parameters, "headers": headers + capturedBody} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := runProgram(t, nil, input, "explain", "-jwks", keys, "-host", "api.example.com")

			want := map[string]int{"parameters": 1, "headers": maxLost + 1}[name]
			if n := strings.Count(got.stdout, "lost: "); n != want {
				t.Errorf("lines with lost parts = %d, want %d\n%.4000s%.1000s", n, want, got.stdout, got.stderr)
			}
		})
	}
}

var inGo = regexp.MustCompile(`\(in Go, [^)]*\)`)

// The output contains names of this module only in parentheses: (in Go, …).
func TestExplain_Terms(t *testing.T) {
	t.Parallel()
	keys := writeFile(t, jwks(testKeys()[0]))
	r := signedCallback(t)
	valid := rawHead(r, "", "\n") + capturedBody
	for name, args := range map[string][]string{
		"valid":           {"-host", "api.example.com"},
		"host":            {"-host", "app.example.com"},
		"clock":           {"-host", "api.example.com", "-at", "2026-01-02T03:04:15Z"},
		"callback header": {"-host", "api.example.com", "-callback-header", "x-other"},
		"not explained":   {"-host", "shop.example.com", "-path", "/other"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			input := valid
			if name == "not explained" {
				input = strings.NewReplacer("/callbacks", "/other", "api.example.com", "app").Replace(valid)
			}

			got := runProgram(t, nil, input, append([]string{"explain", "-jwks", keys}, args...)...)

			text := inGo.ReplaceAllString(got.stdout, "")
			for _, term := range []string{"VerifierOptions", "ExplainOptions", "NewVerifier", "VerifyCallback", "ClockSkew"} {
				if strings.Contains(text, term) {
					t.Errorf("output contains %s:\n%s", term, got.stdout)
				}
			}
		})
	}
}

// Characters that a terminal could interpret are escaped in both formats.
func TestExplain_HostileValues(t *testing.T) {
	t.Parallel()
	const path = "/a\u202eb"
	r := signedCallback(t)
	r.RequestURI = path
	noError(t, testSigner(t).SignCallback(r, []byte(capturedBody)))
	r.RequestURI = "/x"
	input := rawHead(r, "", "\n") + capturedBody
	args := []string{"explain", "-jwks", writeFile(t, jwks(testKeys()[0])), "-host", "api.example.com", "-path", path}

	for _, got := range []result{runProgram(t, nil, input, args...), runProgram(t, nil, input, append(args, "-json")...)} {
		got.expect(t, exitProblem, []string{`signed for the registered path /a\u202eb`, "!\u202e"}, nil)
	}
}

func TestExplain_JSON(t *testing.T) {
	t.Parallel()
	r := signedCallback(t)
	r.Host = "app"
	var got explanation

	result := runProgram(t, nil, rawHead(r, "", "\r\n")+capturedBody, "explain", "-json", "-jwks", writeFile(t, jwks(testKeys()[0])), "-host", "api.example.com")

	if err := json.Unmarshal([]byte(result.stdout), &got); err != nil {
		t.Fatalf("%v\n%s%s", err, result.stdout, result.stderr)
	}
	if got.Verified || !got.Explained || got.ClockExamined || len(got.Changes) != 1 || got.Changes[0].Part != "host" || got.Changes[0].Fix == "" || got.Lost == nil {
		t.Errorf("got %+v, want one change that explains the rejection", got)
	}
}

func TestExplain_FetchesKeySet(t *testing.T) {
	t.Parallel()
	var paths []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path)
		fmt.Fprint(w, jwks(testKeys()[0]))
	}))
	defer server.Close()
	ca := writeFile(t, certificatePEM(server))
	input := rawHead(signedCallback(t), "", "\n") + capturedBody

	byEnvironment := runProgram(t, map[string]string{baseURLVariable: server.URL, caFileVariable: ca}, input, "explain", "-host", "api.example.com")
	byFlag := runProgram(t, map[string]string{caFileVariable: ca}, input, "explain", "-host", "api.example.com", "-jwks", server.URL+"/keys")

	if byEnvironment.code != exitOK || byFlag.code != exitOK || !slices.Equal(paths, []string{"/.well-known/jwks.json", "/keys"}) {
		t.Errorf("requests for %q\n%s%s%s%s", paths, byEnvironment.stdout, byEnvironment.stderr, byFlag.stdout, byFlag.stderr)
	}
}

// FuzzParseCapture parses any input, and explains what it contains.
func FuzzParseCapture(f *testing.F) {
	for _, text := range captures(f) {
		f.Add([]byte(text))
	}
	f.Add([]byte("GET " + signedRedirect(f).RequestURI() + " HTTP/1.1\nHost: api.example.com\n\n"))
	f.Add([]byte(`192.0.2.1 - - [02/Jan/2026:03:04:05 +0000] "POST /callbacks HTTP/1.1" 400 12 "-" "-"`))
	v := must(signature.NewVerifier(signature.StaticKeys{"key-1": &testKeys()[0].PublicKey}, []string{"api.example.com"}, nil))(f)
	f.Fuzz(func(t *testing.T, input []byte) {
		c, err := parseCapture(input)
		if err != nil {
			if err.Error() == "" || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want one line", err)
			}
			return
		}
		if c.method == "" || c.target == "" || len(c.body) > len(input) {
			t.Errorf("parsed %q %q with a body of %d bytes from %d bytes", c.method, c.target, len(c.body), len(input))
		}
		for name, values := range c.header {
			if !isHeaderName(name) || strings.ContainsAny(strings.Join(values, ""), "\r\n") {
				t.Errorf("invalid header %q: %q", name, values)
			}
		}
		var result explanation
		result.set(v.Explain(context.Background(), c.request(), &signature.ExplainOptions{AnyDate: true}), c)
		var b bytes.Buffer
		result.writeText(&b)
		if result.Verified && !result.Explained {
			t.Errorf("got %+v, want verified messages to be explained", result)
		}
	})
}

// TestExplain_Transcript explains the files of testdata/explain, which contain really signed
// messages. With -update, it writes them.
func TestExplain_Transcript(t *testing.T) {
	t.Parallel()
	behindProxy := signedCallback(t)
	behindProxy.Host = "app.internal:8080"
	behindProxy.Header.Set("X-Forwarded-Host", "api.example.com")
	behindProxy.RequestURI = strings.TrimPrefix(behindProxy.RequestURI, "/callbacks")
	parsed := signedCallback(t)
	reserialized := strings.NewReplacer(":", ": ", ",", ", ").Replace(capturedBody)
	for name, content := range map[string]string{
		"jwks.json":   jwks(testKeys()[0]),
		"request.txt": rawHead(behindProxy, "", "\n") + capturedBody + "\n",
		"log.json":    `{"req":{"method":"POST","url":` + quoted(parsed.RequestURI) + `,"headers":{` + headersAs(parsed, asMember) + `}},"body":` + quoted(reserialized) + "}\n",
		"caddy.json":  `{"request":{"method":"POST","host":"api.example.com","uri":"/callbacks/phone","headers":{"Authorization":["REDACTED"]}},"status":400}` + "\n",
	} {
		path := filepath.Join("testdata", "explain", name)
		if *update {
			noError(t, os.WriteFile(path, []byte(content), 0o666))
		}
		if got := readText(t, path); got != content {
			t.Errorf("%s: got\n%s\nwant\n%s", path, got, content)
		}
	}

	runTranscript(t, "explain", nil)
}

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
func jwks(key *rsa.PrivateKey) string { return `{"keys":[` + jwk(key, "key-1", "") + "]}\n" }

// jwk returns a JSON Web Key with other members.
func jwk(key *rsa.PrivateKey, id, members string) string {
	encode := base64.RawURLEncoding.EncodeToString
	n, e := encode(key.N.Bytes()), encode(big.NewInt(int64(key.E)).Bytes())
	return fmt.Sprintf(`{"kty":"RSA","use":"sig","alg":"RS256","kid":%q,"n":%q,"e":%q%s}`, id, n, e, members)
}

func testSigner(tb testing.TB) *signature.Signer {
	tb.Helper()
	return must(signature.NewSigner("key-1", testKeys()[0], &signature.SignerOptions{Now: func() time.Time { return capturedAt }}))(tb)
}

// signedCallback returns a signed callback to api.example.com.
func signedCallback(tb testing.TB) *http.Request {
	tb.Helper()
	r := httptest.NewRequest(http.MethodPost, "/callbacks/phone?tenant=7&q=a%20b", nil)
	r.Host = "api.example.com"
	r.Header.Set("X-Service-Callback", capturedKind)
	noError(tb, testSigner(tb).SignCallback(r, []byte(capturedBody)))
	r.Header.Set("Content-Length", fmt.Sprint(len(capturedBody)))
	return r
}

// signedRedirect returns a signed redirect URL.
func signedRedirect(tb testing.TB) *url.URL {
	tb.Helper()
	u := must(url.Parse("https://api.example.com/back?lang=d%C3%A9&check_id=c1&code=a%2Bb"))(tb)
	noError(tb, testSigner(tb).SignRedirect(u))
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

func headerNames(r *http.Request) []string { return slices.Sorted(maps.Keys(r.Header)) }

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
func asLower(name, value string) string  { return asMember(strings.ToLower(name), value) }
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
		"AWS API Gateway v2":        `{"version":"2.0","rawPath":` + quoted(path) + `,"rawQueryString":` + quoted(query) + `,"headers":{` + headersAs(r, asLower) + `},"requestContext":{"domainName":"api.example.com","http":{"method":"POST","path":` + quoted(path) + `}},"body":` + body + `,"isBase64Encoded":false}`,
		"AWS load balancer":         `{"requestContext":{"elb":{"targetGroupArn":"arn:x"}},"httpMethod":"POST","path":` + quoted(path) + `,"queryStringParameters":{"tenant":"7","q":"a%20b"},"headers":{` + headersAs(r, asMember) + `},"body":` + body + `,"isBase64Encoded":false}`,
		"Elastic Common Schema":     `{"http":{"request":{"method":"POST","headers":{` + headersAs(r, asMember) + `},"body":{"content":` + body + `}}},"url":{"path":` + quoted(path) + `,"query":` + quoted(query) + `,"domain":"api.example.com"}}`,
		"Google Cloud with headers": `{"httpRequest":{"requestMethod":"POST","requestUrl":` + quoted("https://api.example.com"+r.RequestURI) + `,"status":400},"jsonPayload":{"headers":{` + headersAs(r, asMember) + `},"body":` + body + `}}`,
	}
}
