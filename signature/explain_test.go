package signature_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
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

// receivedCallback returns a signed callback for the target, as a server receives it.
func receivedCallback(tb testing.TB, target, content string, opts signature.SignerOptions) *http.Request {
	tb.Helper()
	r := must(http.ReadRequest(bufio.NewReader(strings.NewReader("POST " + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n"))))(tb)
	r.Header.Set(cmp.Or(opts.CallbackHeader, "x-service-callback"), "phone_check")
	noError(tb, newSigner(tb, opts).SignCallback(r, []byte(content)))
	return r
}

// receivedRedirect returns a signed redirect for the target, as a server receives it.
func receivedRedirect(tb testing.TB, target string) *http.Request {
	tb.Helper()
	u := must(url.Parse("https://" + host + target))(tb)
	noError(tb, newSigner(tb, signature.SignerOptions{}).SignRedirect(u))
	return must(http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + u.RequestURI() + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n"))))(tb)
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

func removed(name string) func(*http.Request) { return func(r *http.Request) { r.Header.Del(name) } }

func renamed(from, to string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(to, r.Header.Get(from)); r.Header.Del(from) }
}

func editHeader(name, old, new string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, strings.Replace(r.Header.Get(name), old, new, 1)) }
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

	{"own host", atHost("10.0.0.7:8080"), []string{"host: signed for api.example.com, one of the verifier's hosts"}},
	{"X-Forwarded-Host", changes(atHost("app"), setHeader("X-Forwarded-Host", "api.example.com, edge.example.com")), []string{"host: signed for api.example.com, the host in X-Forwarded-Host"}},
	{"registered path", replaceURI("/hooks/v1", ""), []string{"path: signed for the registered path /hooks/v1/a%2Fb~/phone, from which a proxy removed /hooks/v1"}},
	{"host and path", changes(atHost("app:80"), setHeader("X-Forwarded-Host", "api.example.com"), replaceURI("/hooks", "/internal/hooks")), []string{"host: signed for api.example.com", "path: signed without the first segment"}},
	{"no query", replaceURI("?tenant=7&q=a%20b", ""), []string{"query: signed with the query of a registered path"}},
	{"URL in the query", replaceURI("q=a%20b", "q=a%20b&utm_source=https://shop.example.com/a"), []string{"query: signed without tracking parameters"}},
	{"line break", content(explainBody + "\n"), []string{"body: signed without the line break"}},
	{"escapes", content(strings.NewReplacer("&", `\u0026`, "<", `\u003c`, ">", `\u003e`).Replace(explainBody)), []string{"body: re-serialized on the way, with other escapes"}},
	{"charset", content(strings.ReplaceAll(explainBody, "ë", "\xeb")), []string{"body: converted to another charset"}},
	{"base64", content(base64.StdEncoding.EncodeToString([]byte(explainBody))), []string{"body: received in base64"}},
	{"JSON string", content(fmt.Sprintf("%q", explainBody)), []string{"body: received as a JSON string"}},
	{"body and path", changes(content(explainBody+"\n"), replaceURI("/hooks", "/x/hooks")), []string{"path: signed without the first segment", "body: signed without the line break"}},
	{"digest in base64", setHeader("Digest", attack.Base64Digest(explainBody)), []string{"digest: a proxy or gateway wrote the header in another form: configure the proxy to pass the header unchanged"}},
	{"digest renamed", renamed("Digest", "Content-Digest"), []string{"digest: a proxy removed or renamed the header: configure the proxy to pass the header unchanged"}},
	{"digest removed", removed("Digest"), []string{"digest: a proxy removed or renamed the header"}},
	{"digest renamed and body", changes(renamed("Digest", "Content-Digest"), content(explainBody+"\n")), []string{"digest: a proxy removed or renamed the header", "body: signed without the line break"}},
	{"SHA-512 in Content-Digest, host and path", changes(removed("Digest"), setHeader("Content-Digest", "sha-512=:"+base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\xfb", 64)))+":"), atHost("app:80"), setHeader("X-Forwarded-Host", "api.example.com"), replaceURI("/hooks", "/x/hooks")), []string{"host: signed for api.example.com", "path: signed without the first segment", "digest: a proxy removed or renamed the header"}},
	{"Repr-Digest and body", changes(renamed("Digest", "Repr-Digest"), content(explainBody+"\n")), []string{"digest: a proxy removed or renamed the header", "body: signed without the line break"}},
	{"digest invalid", setHeader("Digest", "SHA-256=00"), []string{"not explained: ", "key: the service made the signature, but a covered part (host, path, query, Date, Digest or callback header) differs from what was signed, and no usual change of a proxy explains it: compare the request that your proxy receives with the one that it forwards, and pass the registered paths; if they are equal, the signature was copied from another message"}},
	{"date 10 s later", setHeader("Date", now.Add(10*time.Second).Format(http.TimeFormat)), []string{"date: a proxy removed or replaced the header Date of the service: signed 10 s before the received date, or that of the clock: configure the proxy to pass the header unchanged"}},
	{"date 10 s earlier", setHeader("Date", now.Add(-10*time.Second).Format(http.TimeFormat)), []string{"date: a proxy removed or replaced the header Date of the service: signed 10 s after the received date, or that of the clock: configure the proxy to pass the header unchanged"}},
	{"date 1 s earlier", setHeader("Date", now.Add(-time.Second).Format(http.TimeFormat)), []string{"date: a proxy removed or replaced the header Date of the service: signed 1 s after the received date"}},
	{"date 11 s later", setHeader("Date", now.Add(11*time.Second).Format(http.TimeFormat)), []string{"not explained: message: callback not verified: date outside the allowed skew", "key: the service made the signature"}},
	{"date removed", removed("Date"), []string{"date: a proxy removed or replaced the header Date of the service: configure"}},
	{"date remapped", renamed("Date", "X-Amzn-Remapped-Date"), []string{"date: a gateway moved it to another header, which begins with X-Amzn-Remapped-: restore it before the verifier"}},
	{"kind twice", func(r *http.Request) { r.Header.Add("X-Service-Callback", "phone_check") }, []string{"x-service-callback: occurs more than once"}},
	{"kind merged", setHeader("X-Service-Callback", "phone_check, phone_check"), []string{"x-service-callback: a proxy repeated the header and merged the values: configure the proxy to pass the header unchanged"}},
	{"kind removed", removed("X-Service-Callback"), []string{"x-service-callback: a proxy removed or changed it: configure the proxy to pass the header unchanged"}},
	{"Authorization twice", func(r *http.Request) { r.Header.Add("Authorization", "Basic dXNlcjpwYXNz") }, []string{"authorization: a proxy or gateway repeated the header: configure it not to add its own credentials"}},
	{"credentials before the Authorization", editHeader("Authorization", "", "Basic dXNlcjpwYXNz, "), []string{"authorization: a proxy or gateway merged its own credentials into the header: configure it not to add its own credentials"}},
	{"credentials behind the Authorization", func(r *http.Request) {
		r.Header.Set("Authorization", r.Header.Get("Authorization")+", Basic dXNlcjpwYXNz")
	}, []string{"authorization: a proxy or gateway merged its own credentials into the header: configure it not to add its own credentials"}},
	{"Authorization replaced", setHeader("Authorization", "Basic dXNlcjpwYXNz"), []string{"not explained: message: callback not verified: malformed message", "authorization: contains other credentials than a signature: the request does not come from the service, or a gateway that authenticates has replaced it: exclude the callback URL from authentication"}},
	{"Authorization truncated", setHeader("Authorization", `Signature keyId="`), []string{"not explained: message: callback not verified: malformed message", "authorization: Authorization "}},
	{"no Authorization", removed("Authorization"), []string{"not explained: ", "authorization: the request has no signature: it does not come from the service (a health check, a scanner), or a proxy removed the header Authorization"}},
	{"no Authorization and no digest", changes(removed("Authorization"), removed("Digest")), []string{"not explained: ", "authorization: the request has no signature: it does not come"}},
	{"no Authorization and another method", changes(removed("Authorization"), func(r *http.Request) { r.Method = "PUT" }), []string{"not explained: ", "authorization: the request has no signature: it does not come"}},
	{"method", func(r *http.Request) { r.Method = "PUT" }, []string{"method: signed as POST, but received with another: check for a redirect in front of the handler, and for link previews (HEAD)"}},
	{"method and digest", changes(removed("Digest"), func(r *http.Request) { r.Method = "PUT" }), []string{"method: signed as POST", "digest: a proxy removed"}},
	{"another key ID", editHeader("Authorization", keyID, "key-9"), []string{"key: keyId in the Authorization is not the ID of the key that made the signature: check whether a proxy or a test changes it, and whether the key set is the one of the service"}},
	{"another body", content(`{"check_id":"c2"}`), []string{"not explained: message: callback not verified: digest does not match", "body: differs from the signed one, and no usual change of middleware explains it"}},
	{"body consumed", func(r *http.Request) { r.Body = http.NoBody }, []string{"not explained: message: callback not verified: body incomplete", "body: cannot be examined: body is shorter than its Content-Length: middleware in front of the verifier has read it"}},
	{"damaged signature", editHeader("Authorization", `signature="`, `signature="AAAA`), []string{"not explained: message: callback not verified: signature does not verify", "forged"}},
}

var explainRedirectRows = []explainRow{
	{"unchanged", changes(), []string{"verified"}},
	{"host and path", changes(atHost("app"), replaceURI("/shop/back", "/back")), []string{"host: signed for api.example.com", "path: signed for the registered path /shop/back, from which a proxy removed /shop"}},
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
	{"unsigned", func(r *http.Request) { r.RequestURI = "/shop/back" }, []string{"not explained: message: redirect not verified", "authorization: the query has no signature: the request is not a redirect of the service (a health check, a reload of another URL, a link preview), or a proxy removed the query"}},
	{"truncated", func(r *http.Request) { r.RequestURI = r.RequestURI[:200] }, []string{"not explained: ", "authorization: "}},
	{"not a signature", func(r *http.Request) { r.RequestURI = "/shop/back?check_id=c1&authorization=YQ%3D%3D" }, []string{"not explained: ", "authorization: the parameter of the query is not a signature: it was changed or truncated on the way, or the URL was not opened by the service"}},
	{"base64url", func(r *http.Request) {
		path, parameters, _ := strings.Cut(r.RequestURI, "&authorization=")
		r.RequestURI = path + "&authorization=" + strings.NewReplacer("%3D", "", "%2B", "-", "%2F", "_").Replace(parameters)
	}, []string{"authorization: a proxy or router changed the encoding of the parameter authorization: configure it to pass the query unchanged", "date: a proxy or router changed the encoding of the parameter date: configure it to pass the query unchanged"}},
	{"parameters decoded", func(r *http.Request) {
		path, parameters, _ := strings.Cut(r.RequestURI, "&authorization=")
		authorization, date, _ := strings.Cut(parameters, "&date=")
		decoded := func(parameter string) string {
			text, _ := signature.DecodeParameter(parameter)
			return url.QueryEscape(text)
		}
		r.RequestURI = path + "&authorization=" + decoded(authorization) + "&date=" + decoded(date)
	}, []string{"authorization: a proxy or router changed the encoding of the parameter authorization", "date: a proxy or router changed the encoding of the parameter date"}},
	{"HTML escape", func(r *http.Request) { r.RequestURI = strings.ReplaceAll(r.RequestURI, "&", "&amp;") }, []string{"query: signed with &, which was replaced by &amp;"}},
	{"date removed", func(r *http.Request) { r.RequestURI, _, _ = strings.Cut(r.RequestURI, "&date=") }, []string{"date: the parameter date was removed or changed on the way: pass the query unchanged"}},
	{"another check", replaceURI("c1", "c2"), []string{"not explained: message: redirect not verified: signature does not verify", "key: the service made the signature"}},
}

func TestVerifier_Explain(t *testing.T) {
	t.Parallel()
	opts := &signature.ExplainOptions{Paths: []string{"/hooks/v1/a%2Fb~/phone?tenant=7&q=a%20b", "/shop/back"}}
	check := func(t *testing.T, row explainRow, r *http.Request) {
		t.Parallel()
		row.change(r)

		got := explain(t, host, r, opts)

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

// explain explains r to a verifier for messages to own. It checks that nothing else happens.
func explain(t *testing.T, own string, r *http.Request, opts *signature.ExplainOptions) signature.Explanation {
	t.Helper()
	log := new(logRecorder)
	v := verifierFor(t, serviceKeys(), signature.VerifierOptions{
		Replay: storeFunc(func(context.Context, [32]byte, time.Duration) (bool, error) {
			t.Error("Explain used the replay store")
			return true, nil
		}),
		Observe: func(context.Context, signature.Verification) { t.Error("Explain called Observe") },
		Logger:  slog.New(log),
	}, own)
	content := bodyOf(t, r)
	r.Body = restored([]byte(content))
	before := fmt.Sprint(r.Header, r.Method, r.Host, r.RequestURI, r.URL)

	got := v.Explain(t.Context(), r, opts)

	if left := bodyOf(t, r); left != content {
		t.Errorf("body after Explain = %q, want %q", left, content)
	}
	if after := fmt.Sprint(r.Header, r.Method, r.Host, r.RequestURI, r.URL); after != before {
		t.Errorf("request after Explain = %s, want %s", after, before)
	}
	if len(log.records) > 0 {
		t.Errorf("Explain logged %v", log.records)
	}
	return got
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
	if verified := slices.Equal(want, []string{"verified"}); e.Verified != verified || verified && (!e.Explained || len(e.Changes) > 0) {
		t.Errorf("got %+v, want verified %v, without changes", e, verified)
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
	return string(must(io.ReadAll(r.Body))(t))
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
		{"within the skew", 5 * time.Second, "verified"},
		{"whole seconds", 6 * time.Second, "(an allowed skew of 6s would accept it)"},
		{"advice up to 30 s", 30 * time.Second, "(an allowed skew of 30s would accept it)"},
		{"no advice above 30 s", 30*time.Second + time.Millisecond, "clock: signed 31s before"},
		{"old", 48 * time.Hour, "clock: signed 48h0m0s before"},
		{"very old", 290 * 365 * 24 * time.Hour, "clock: signed 876000h0m0s before"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			v := newVerifier(t, signature.VerifierOptions{Now: func() time.Time { return now.Add(row.offset) }})

			for _, r := range []*http.Request{receivedCallback(t, target, body, signature.SignerOptions{}), receivedRedirect(t, "/back?check_id=c1&code=x")} {
				got := v.Explain(t.Context(), r, nil)
				checkExplanation(t, got, []string{row.want})
				if advice := strings.Contains(strings.Join(linesOf(got), ""), "would accept it"); advice != strings.Contains(row.want, "would accept it") {
					t.Errorf("got %+v, want advice only for up to 30 s: a larger skew accepts old copies", got)
				}
				checkExplanation(t, v.Explain(t.Context(), r, &signature.ExplainOptions{AnyDate: true}), []string{"verified"})
			}
		})
	}
}

func TestVerifier_ExplainHost(t *testing.T) {
	t.Parallel()
	const (
		yours   = ": if it is yours, add it to them; if not, the message was sent to another customer and is rightly rejected"
		replace = ": configure the proxy to keep it, or the receiver to verify the original (in Go, with VerifierOptions.Target)"
	)
	none := changes()
	for _, row := range []struct {
		name, own, signed, received string
		change                      func(*http.Request)
		want                        []string
	}{
		{"another customer", host, "Hooks.example.net:8443", "Hooks.example.net:8443", none, []string{"host: signed for hooks.example.net:8443, which is not one of the verifier's hosts" + yours}},
		{"IPv4", host, "192.0.2.7", "192.0.2.7", none, []string{"host: signed for the host of the request, which is not one of the verifier's hosts" + yours}},
		{"IPv6", host, "[2001:db8::7]:8080", "[2001:db8::7]:8080", none, []string{"host: signed for the host of the request, which is not one of the verifier's hosts" + yours}},
		{"phone number", host, "447700900000.example.net", "447700900000.example.net", none, []string{"host: signed for the host of the request, which is not one of the verifier's hosts" + yours}},
		{"IPv4 in a header", host, "192.0.2.7", host, setHeader("X-Forwarded-Host", "192.0.2.7"), []string{"host: signed for another host, the host in X-Forwarded-Host, which the proxy replaced" + replace, "host: signed for another host, which is not one of the verifier's hosts" + yours}},
		{"invalid port in a header", host, "www.example.com:x", host, setHeader("X-Forwarded-Host", "www.example.com:x"), []string{"not explained: message: callback not verified: signature does not verify", "host: signed for another host, the host in X-Forwarded-Host", "host: signed for another host, which is not", "message: still rejected after these changes: host is not one of the verifier's hosts (does a proxy change it? see VerifierOptions.Target)"}},
		{"invalid name in a header", host, "www$.example.com", host, setHeader("X-Forwarded-Host", "www$.example.com"), []string{"host: signed for another host, the host in X-Forwarded-Host, which the proxy replaced" + replace, "host: signed for another host, which is not one of the verifier's hosts" + yours}},
		{"port missing", "127.0.0.1", "127.0.0.1:3001", "127.0.0.1:3001", none, []string{"host: signed for 127.0.0.1:3001, which is not one of the verifier's hosts (one has the same name, but without the port)" + yours}},
		{"port missing, IPv6", "[::1]", "[::1]:3001", "[::1]:3001", none, []string{"host: signed for [::1]:3001, which is not one of the verifier's hosts (one has the same name, but without the port)" + yours}},
		{"port added", "127.0.0.1:3001", "127.0.0.1", "127.0.0.1", none, []string{"host: signed for 127.0.0.1, which is not one of the verifier's hosts (one has the same name, but with a port)" + yours}},
		{"another port", "app.example.com:1", "app.example.com:2", "app.example.com:2", none, []string{"host: signed for app.example.com:2, which is not one of the verifier's hosts (one has the same name, but another port)" + yours}},
		{"another name", "127.0.0.1", "127.0.0.2:3001", "127.0.0.2:3001", none, []string{"host: signed for the host of the request, which is not one of the verifier's hosts" + yours}},
		{"received elsewhere", "127.0.0.1:3001", "127.0.0.1:3001", "192.0.2.7", none, []string{"host: signed for 127.0.0.1:3001, one of the verifier's hosts, but received with another Host header" + replace}},
		{"any port", "localhost:*", "localhost:3001", "app:3001", none, []string{"host: signed for localhost:3001, one of the verifier's hosts, but received with another Host header" + replace}},
		{"port 443 removed", "[::1]", "[::1]:443", "[::1]", none, []string{"host: signed for [::1]:443, but received with another port" + replace}},
		{"port 80 removed", host, "api.example.com:80", "app", none, []string{"host: signed for api.example.com:80, but received with another port" + replace}},
		{"port of the request", host, "www.example.com:8443", "app:8443", setHeader("X-Host", "www.example.com"), []string{"host: signed for www.example.com:8443, but received with another port" + replace, "host: signed for www.example.com:8443, which is not one of the verifier's hosts" + yours}},
		{"X-Forwarded-Host", host, "www.example.com", "app", setHeader("X-Forwarded-Host", "a.example.com, www.example.com"), []string{"host: signed for www.example.com, the host in X-Forwarded-Host, which the proxy replaced" + replace, "host: signed for www.example.com, which is not"}},
		{"X-Original-Host", host, "www.example.com", "app", setHeader("X-Original-Host", "www.example.com"), []string{"host: signed for www.example.com, the host in X-Original-Host, which the proxy replaced" + replace, "host: signed for www.example.com, which is not"}},
		{"X-Host", host, "www.example.com", "app", setHeader("X-Host", "www.example.com"), []string{"host: signed for www.example.com, the host in X-Host, which the proxy replaced" + replace, "host: signed for www.example.com, which is not"}},
		{"X-Forwarded-Server", host, "www.example.com", "app", setHeader("X-Forwarded-Server", "www.example.com"), []string{"host: signed for www.example.com, the host in X-Forwarded-Server, which the proxy replaced" + replace, "host: signed for www.example.com, which is not"}},
		{"Forwarded", host, "www.example.com", "app", setHeader("Forwarded", `for=192.0.2.1; Host="www.example.com";proto=https,host=edge.example.com`), []string{"host: signed for www.example.com, the host in Forwarded, which the proxy replaced" + replace, "host: signed for www.example.com, which is not"}},
		{"second host in Forwarded", host, "www.example.com", "app", setHeader("Forwarded", `host=edge.example.com,host=www.example.com`), []string{"host: signed for www.example.com, the host in Forwarded, which the proxy replaced" + replace, "host: signed for www.example.com, which is not"}},
		{"for in Forwarded", host, "www.example.com", "app", setHeader("Forwarded", "for=www.example.com"), []string{"not explained: ", "key: the service made the signature, but"}},
		{"absolute target", host, "www.example.com", "app", func(r *http.Request) { r.RequestURI = "https://www.example.com" + target }, []string{"host: signed for www.example.com, the host in the request target, but the Host header has another" + replace, "host: signed for www.example.com, which is not"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodPost, target, nil)
			r.Host = row.signed
			r.Header.Set("x-service-callback", "phone_check")
			sign(t, r, body)
			r.Host = row.received
			row.change(r)

			got := explain(t, row.own, r, nil)

			checkExplanation(t, got, row.want)
		})
	}
}

// TestVerifier_ExplainPath rewrites the path, as proxies do.
func TestVerifier_ExplainPath(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ signed, received, want string }{
		{"/a/", "/a", "signed with a slash at its end, which a proxy or router removed"},
		{"/a", "/a/", "signed without the slash at its end, which a proxy or router added"},
		{"/a/b", "//a/b", "signed with a single slash, which a proxy doubled"},
		{"//a", "/a", "signed with a double slash, which a proxy merged"},
		{"/a//b", "/a/b", "signed with a double slash, which a proxy merged"},
		{"/a%2fb", "/a%2Fb", "signed with escapes in lower case, which a proxy changed"},
		{"/a%2F", "/a%2f", "signed with escapes in upper case, which a proxy changed"},
		{"/caf%C3%A9;b,c", "/café;b,c", "signed with escaped characters, which a proxy decoded"},
		{"/a%3Bb%2Cc/d", "/a;b,c/d", "signed with escaped characters, which a proxy decoded"},
		{"/a%3bb%2cc/d", "/a;b,c/d", "signed with escaped characters, which a proxy decoded"},
		{"/a~b", "/a%7Eb", "signed with characters that a proxy escaped"},
		{"/a%2Fb/c", "/a/b/c", "signed with %2F, which a proxy decoded"},
		{"/a%2fb/c", "/a/b/c", "signed with %2f, which a proxy decoded"},
		{"/a/b/c/d/e/f%2fg/h", "/a/b/c/d/e/f/g/h", "signed with %2f, which a proxy decoded"},
		{"/b", "/a/b", "signed without the first segment, which a proxy added"},
		{"/f", "/a/b/c/d/e/f", "signed without the first 5 segments, which a proxy added"},
		{"/b/", "/a/b", "signed without the first segment, which a proxy added (also signed with a slash at its end, which a proxy or router removed)"},
	} {
		t.Run(row.signed+" as "+row.received, func(t *testing.T) {
			t.Parallel()
			wantRewritten(t, row.signed, row.received, "path: "+row.want)
		})
	}
}

// TestVerifier_ExplainQuery rewrites the query, as proxies do.
func TestVerifier_ExplainQuery(t *testing.T) {
	t.Parallel()
	const reordered = "signed with its parameters in another order"
	rows := []struct{ signed, received, want string }{
		{"", "?a=1", "signed without a query, which a proxy added"},
		{"?", "", "signed with an empty query, which a proxy removed"},
		{"?q=a%20b", "?q=a+b", "signed with %20, which a proxy replaced by +"},
		{"?q=a+b", "?q=a%20b", "signed with +, which a proxy replaced by %20"},
		{"?q=a%2Bb", "?q=a+b", "signed with %2B, which a proxy replaced by +"},
		{"?q=a%2Bb", "?q=a%20b", "signed with %2B, which a proxy decoded twice"},
		{"?q=a%2Fb", "?q=a%252Fb", "signed with escapes that a proxy escaped once more"},
		{"?q=%2f%3d", "?q=%2F%3D", "signed with escapes in lower case, which a proxy changed"},
		{"?q=%2F%3D", "?q=%2f%3d", "signed with escapes in upper case, which a proxy changed"},
		{"?a%5B0%5D=1&x&q=b+%2F", "?a[0]=1&x&q=b%20/", "signed with escaped characters, which a proxy decoded"},
		{"?a%5B0%5D=1&x&q=b%20%2F", "?a[0]=1&x&q=b+/", "signed with escaped characters, which a proxy decoded"},
		{"?a%5b0%5d=1&x&q=b%20%2f", "?a[0]=1&x&q=b+/", "signed with escaped characters, which a proxy decoded"},
		{"?q=%25zz%2F", "?q=%zz/", "signed with escaped characters, which a proxy decoded"},
		{"?a:=b:%3D%26%23%2B%25+%20c", "?a%3A=b%3A%3D%26%23%2B%25+%20c", "signed with characters that a proxy escaped"},
		{"?a=b=%26%23%2B%25%20", "?a=b%3D%26%23%2B%25%20", "signed with characters that a proxy escaped"},
		{"?a=(~%2F%3A%3F%2C%3B%40%26", "?a=%28%7E%2F%3A%3F%2C%3B%40%26", "signed with characters that a proxy escaped"},
		{"?a=~%0A%7F%C3%A9%4", "?a=%7E%0A%7F%C3%A9%4", "signed with characters that a proxy escaped"},
		{"?a=1&b=2", "?a=1&amp;b=2", "signed with &, which was replaced by &amp;"},
		{"?a=1", "?a=1&", "signed without the & at its end"},
		{"?a=1&", "?a=1", "signed with an & at its end, which a proxy removed"},
		{"?a=1&b=2", "?a=1&b=2&a=1&b=2", "signed once, but received twice"},
		{"?a=1&b=2", "?a=1&x=3&b=2", "signed without one of its parameters, which was added on the way"},
		{"?a=1&b=2", "?a=1&b=2&c=3&d=4", "signed without its last 2 parameters, which were added on the way"},
		{"?d=4&c=3&b=2&a=1", "?a=1&b=2&c=3&d=4", reordered},
		{"?z=1&b=2&c=3&check_id=c1&code=x", "?z=1&check_id=c1&b=2&code=x&c=3", reordered},
		{"?a=1&b=2&c=3&d=4&e=5", "?e=5&c=3&d=4&a=1&b=2", reordered},
		{"?a=&&b=1", "?a&&b=1", "signed with = after an empty parameter, which a proxy removed"},
		{"?a&b=1", "?a=&b=1", "signed without the = after an empty parameter, which a proxy added"},
	}
	for _, name := range []string{"utm_source", "mc_eid", "pk_campaign", "fbclid", "gclid", "gbraid", "wbraid", "dclid", "msclkid", "twclid", "igshid", "ttclid", "yclid", "_ga", "_gl", "_hsenc", "_hsmi"} {
		rows = append(rows, struct{ signed, received, want string }{"?a=1&b=2", "?a=1&" + name + "=x&b=2", "signed without tracking parameters, which were added on the way"})
	}
	for _, row := range rows {
		t.Run(row.signed+" as "+row.received, func(t *testing.T) {
			t.Parallel()
			wantRewritten(t, "/hooks"+row.signed, "/hooks"+row.received, "query: "+row.want)
		})
	}
}

// wantRewritten checks the explanation of a callback that was signed for another target.
func wantRewritten(t *testing.T, signed, received, want string) {
	t.Helper()
	r := receivedCallback(t, signed, body, signature.SignerOptions{})
	r.RequestURI = received

	got := linesOf(explain(t, host, r, nil))

	want += ": configure the proxy to keep it, or the receiver to verify the original (in Go, with VerifierOptions.Target)"
	wantEqual(t, []string{want}, got, "explanation")
}

// TestVerifier_ExplainTargetHeader takes the target from headers, and from registered paths.
func TestVerifier_ExplainTargetHeader(t *testing.T) {
	t.Parallel()
	const keep = ": configure the proxy to keep it"
	at := func(uri, header, value string) func(*http.Request) {
		return func(r *http.Request) { r.RequestURI = uri; r.Header.Set(header, value) }
	}
	for _, row := range []struct {
		signed string
		change func(*http.Request)
		want   []string
	}{
		{"/a?b", at("/x", "X-Original-Uri", "/a?b"), []string{"path: signed as in X-Original-Uri, which the proxy replaced" + keep, "query: signed as in X-Original-Uri, which the proxy replaced" + keep}},
		{"/a?b", at("/x", "X-Original-Url", "https://app.example.com/a?b"), []string{"path: signed as in X-Original-Url, which", "query: signed as in X-Original-Url, which"}},
		{"/?b", at("/x", "X-Original-Url", "https://app.example.com?b"), []string{"path: signed as in X-Original-Url, which", "query: signed as in X-Original-Url, which"}},
		{"/", at("/x", "X-Original-Url", "https://app.example.com"), []string{"path: signed as in X-Original-Url, which"}},
		{"/a?b", at("/x", "X-Envoy-Original-Path", "/a?b"), []string{"path: signed as in X-Envoy-Original-Path, which", "query: signed as in X-Envoy-Original-Path, which"}},
		{"/a?b", at("/x", "X-Rewrite-Url", "/a?b"), []string{"path: signed as in X-Rewrite-Url, which", "query: signed as in X-Rewrite-Url, which"}},
		{"/a?b", at("/x", "X-Forwarded-Uri", "/a?b"), []string{"path: signed as in X-Forwarded-Uri, which", "query: signed as in X-Forwarded-Uri, which"}},
		{"/a?b", at("/x", "X-Replaced-Path", "/a?b"), []string{"path: signed as in X-Replaced-Path, which", "query: signed as in X-Replaced-Path, which"}},
		{"/a?b", at("/x", "X-Waws-Unencoded-Url", "/a?b"), []string{"path: signed as in X-Waws-Unencoded-Url, which", "query: signed as in X-Waws-Unencoded-Url, which"}},
		{"/a?b", at("/x", "X-Forwarded-Path", "/a?b"), []string{"path: signed as in X-Forwarded-Path, which", "query: signed as in X-Forwarded-Path, which"}},
		{"/hooks/a", at("/a", "X-Forwarded-Prefix", "/hooks/"), []string{"path: signed with the prefix in X-Forwarded-Prefix, which the proxy removed" + keep}},
		{"/hooks/a", at("/a", "X-Script-Name", "hooks"), []string{"path: signed with the prefix in X-Script-Name, which the proxy removed" + keep}},
		{"/v1/in?c=d", replaceURI("/v1/in?c=d", "/in?c=d"), []string{"path: signed for the registered path /v1/in, from which a proxy removed /v1" + keep}},
		{"/v1/in?c=d", replaceURI("/v1/in?c=d", "/?c=d"), []string{"path: signed for the registered path /v1/in, but received with another" + keep}},
		{"/v1/in?c=d", replaceURI("/v1/in?c=d", "/zz?c=d"), []string{"path: signed for the registered path /v1/in, but received with another" + keep}},
		{"/v2/", replaceURI("/v2/", "/"), []string{"path: signed for the registered path /v2/, but received with another" + keep}},
		{"/v3/b", replaceURI("/v3/b", "/b"), []string{"path: signed for the registered path /v3/b, from which a proxy removed /v3" + keep}},
		{"/v1/in?c=d", replaceURI("/v1/in?c=d", "/v1/in"), []string{"query: signed with the query of a registered path, which a proxy removed or changed" + keep}},
		{"/v1/in/?c=d", replaceURI("/v1/in/?c=d", "/in?c=d"), []string{"path: signed for the registered path /v1/in, from which a proxy removed /v1 (also signed with a slash at its end, which a proxy or router removed)" + keep}},
	} {
		r := receivedCallback(t, row.signed, body, signature.SignerOptions{})
		row.change(r)

		got := explain(t, host, r, &signature.ExplainOptions{Paths: []string{"/v1/in?c=d", "/v2/", "/v3/b"}})

		t.Run(row.signed+" as "+r.RequestURI, func(t *testing.T) { checkExplanation(t, got, row.want) })
	}
}

// TestVerifier_ExplainHeaders changes headers that the service signed in another form.
func TestVerifier_ExplainHeaders(t *testing.T) {
	t.Parallel()
	const (
		keep    = ": configure the proxy to pass the header unchanged"
		form    = "digest: a proxy or gateway wrote the header in another form" + keep
		invalid = "digest: signed in a form that is neither hexadecimal nor standard base64 with padding: the service does not send it"
		digits  = "3" // + and / occur in its digest
	)
	multi := func(value string) func(*attack.Message) {
		return func(m *attack.Message) { m.Covered += " x-multi"; m.Set("X-Multi", value) }
	}
	values := func(values ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header["X-Multi"] = values }
	}
	digest := func(value string) func(*attack.Message) {
		return func(m *attack.Message) { m.SetBody(digits); m.Set("Digest", value) }
	}
	inHex, inBase64 := attack.Digest(digits), attack.Base64Digest(digits)
	inUpper := "SHA-256=" + strings.ToUpper(strings.TrimPrefix(inHex, "SHA-256="))
	inURL := strings.NewReplacer("+", "-", "/", "_").Replace(inBase64)
	type row struct {
		name     string
		signed   func(*attack.Message)
		received func(*http.Request)
		want     []string
	}
	rows := []row{
		{"split", multi("a, b"), values("a", "b"), []string{"another covered header: split into several lines" + keep}},
		{"split without a space", multi("a,b"), values("a", "b"), []string{"another covered header: split into several lines" + keep}},
		{"repeated", multi("a"), values("a", "a"), []string{"another covered header: occurs more than once" + keep}},
		{"added before", multi("b"), values("a", "b"), []string{"another covered header: occurs more than once" + keep}},
		{"fifth of five", multi("e"), values("a", "b", "c", "d", "e"), []string{"not explained: ", "key: the service made the signature, but"}},
		{"merged", multi("a"), values("a, a"), []string{"another covered header: a proxy repeated the header and merged the values" + keep}},
		{"another value added", multi("ab"), values("ab, cd"), []string{"not explained: ", "key: the service made the signature, but"}},
		{"merged without a space", multi("a"), values("a,a"), []string{"another covered header: a proxy repeated the header and merged the values" + keep}},
		{"another callback header", func(m *attack.Message) { m.Covered += " x-callback-id"; m.Set("X-Callback-Id", "a") }, setHeader("X-Callback-Id", "a,a"), []string{"x-callback-id: a proxy repeated the header and merged the values" + keep}},
		{"weak key", keyNamed("weak", "weak"), changes(), []string{"not explained: ", "key: the key with the ID in the Authorization did not make the signature: the message is probably forged"}},
		{"sim_check", set("X-Service-Callback", "sim_check"), removed("X-Service-Callback"), []string{"x-service-callback: a proxy removed or changed it" + keep}},
		{"subscriber_check", set("X-Service-Callback", "subscriber_check"), setHeader("X-Service-Callback", "x"), []string{"x-service-callback: a proxy removed or changed it" + keep}},
		{"base64 from hexadecimal", digest(inHex), setHeader("Digest", inBase64), []string{form}},
		{"hexadecimal from base64", digest(inBase64), setHeader("Digest", inHex), []string{form}},
		{"base64url", digest(inBase64), setHeader("Digest", strings.TrimRight(inURL, "=")), []string{form}},
		{"space for +", digest(inBase64), setHeader("Digest", strings.ReplaceAll(inBase64, "+", " ")), []string{form}},
		{"structured field", digest(inHex), setHeader("Digest", "sha-256=:"+strings.TrimPrefix(inBase64, "SHA-256=")+":"), []string{form}},
		{"lower case", digest(inUpper), setHeader("Digest", inHex), []string{form}},
		{"algorithm in upper case", digest(strings.ToLower(inHex)), setHeader("Digest", inHex), []string{form}},
		{"signed in base64url", digest(inURL), setHeader("Digest", inHex), []string{"not explained: ", form, invalid}},
		{"signed without padding", digest(strings.TrimRight(inURL, "=")), setHeader("Digest", inHex), []string{"not explained: ", form, invalid}},
	}
	for _, layout := range []string{time.RFC1123, time.RFC1123Z, time.RFC850, time.ANSIC, time.RFC3339, time.UnixDate} {
		rows = append(rows, row{"date as " + layout, func(*attack.Message) {}, setHeader("Date", now.Format(layout)), []string{"date: a proxy wrote it in another form" + keep}})
	}
	for _, prefix := range []string{"X-Amzn-Remapped-", "X-Original-", "X-Forwarded-", "X-"} {
		rows = append(rows,
			row{"moved to " + prefix, multi("a"), renamed("X-Multi", prefix+"X-Multi"), []string{"another covered header: a gateway moved it to another header, which begins with " + prefix + ": restore it before the verifier"}},
			row{"Authorization moved to " + prefix, func(*attack.Message) {}, renamed("Authorization", prefix+"Authorization"), []string{"authorization: a gateway moved the header to " + prefix + "Authorization or used it: restore it before the verifier, or exclude the callback URL from authentication"}})
	}
	rows = append(rows, row{"Proxy-Authorization", func(*attack.Message) {}, changes(renamed("Authorization", "Proxy-Authorization"), setHeader("Authorization", "Bearer a")), []string{"authorization: a gateway moved the header to Proxy-Authorization or used it"}})
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			m := newCallback()
			row.signed(m)
			m.Sign()
			r := request(t, m)
			row.received(r)

			checkExplanation(t, explain(t, host, r, nil), row.want)
		})
	}
}

// TestVerifier_ExplainBody changes the body, as middleware does.
func TestVerifier_ExplainBody(t *testing.T) {
	t.Parallel()
	const (
		keep     = ": pass the body on as received (put the verifier before middleware that parses it)"
		again    = "re-serialized on the way"
		escaped  = again + ", with other escapes in its strings"
		ordered  = again + ", with its members in another order"
		charset  = "converted to another charset on the way"
		notFound = "not explained: message: callback not verified: digest does not match"
	)
	nested := func(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }
	for _, row := range []struct{ name, signed, received, want string }{
		{"line break removed", "a\n", "a", "signed with a line break at its end, which was removed on the way" + keep},
		{"CR LF removed", "a\r\n", "a", "signed with a line break (CR LF) at its end, which was removed on the way" + keep},
		{"line breaks added", "a", "a\r\n\n", "signed without the line break at its end, which was added on the way" + keep},
		{"byte order mark added", "a", "\uFEFFa", "signed without the byte order mark, which was added on the way" + keep},
		{"byte order mark removed", "\uFEFFa", "a", "signed with a byte order mark, which was removed on the way" + keep},
		{"white space added", "a", " a\n ", "signed without the white space around it, which was added on the way" + keep},
		{"LF replaced", "a\nb\n", "a\r\nb\r\n", "signed with LF line breaks, which were replaced by CR LF" + keep},
		{"CR LF replaced", "a\r\nb\r\n", "a\nb\n", "signed with CR LF line breaks, which were replaced by LF" + keep},
		{"base64", "a\xff", base64.StdEncoding.EncodeToString([]byte("a\xff")) + "\r\n", "received in base64 (isBase64Encoded of a gateway)" + keep},
		{"JSON string", "a\nb", `"a\nb"`, "received as a JSON string that contains the body" + keep},
		{"read as ISO 8859-1", "a\xff", "aÿ", charset + keep},
		{"ISO 8859-1 read as UTF-8", "aÿ", "aÃ¿", charset + keep},
		{"UTF-8 read as ISO 8859-1", "aÿ€", "aÃ¿â\u0082¬", charset + keep},
		{"converted to ISO 8859-1", "aÿ", "a\xff", charset + keep},

		{"not in ISO 8859-1", "", "€", ""},
		{"beyond ISO 8859-1", "\x00", "Ā", ""},

		{"compact", `{"a":1,"b":[]}`, "{\n\t\"a\": 1, \"b\":[ ]}", again + keep},
		{"compact with a byte order mark", `{"a":1}`, "\uFEFF{\"a\": 1}", again + keep},
		{"two spaces", "{\n  \"a\": 1\n}", `{"a":1}`, again + keep},
		{"four spaces", "{\n    \"a\": 1\n}\n", `{"a":1}`, again + keep},
		{"tab", "{\n\t\"a\": 1\n}\r\n", `{"a":1}`, again + keep},
		{"Python", `{"a": "x,y:\"z\\", "b": [1, {"c": 2}]}`, `{"a":"x,y:\"z\\","b":[1,{"c":2}]}`, again + keep},
		{"8 levels", indented(t, nested(8)), nested(8), again + keep},
		{"9 levels", indented(t, nested(9)), nested(9), ""},
		{"8 levels of objects", indented(t, strings.Repeat(`{"[":`, 7)+"[]"+strings.Repeat("}", 7)), strings.Repeat(`{"[":`, 7) + "[]" + strings.Repeat("}", 7), ""}, // a bracket in a string counts
		{"many short lists", indented(t, "["+strings.Repeat("[],{},", 10)+"1]"), "[" + strings.Repeat("[],{},", 10) + "1]", again + keep},
		{"members", `{"a":{"c":1.10,"d":12345678901234567890},"b":"<&>"}`, `{"b":"<&>","a":{"d":12345678901234567890,"c":1.10}}`, ordered + keep},
		{"members and white space", `{"a": 1, "b": 2}`, `{"b":2,"a":1}`, ordered + keep},
		{"members and escapes", `{"a":"\u00eb","b":2}`, `{"b":2,"a":"ë"}`, ordered + ", with other escapes in its strings" + keep},
		{"fewer escapes", `{"b":"ë/<&>😀","a":1}`, `{"b":"\u00eb\/\u003c\u0026\u003e\ud83d\ude00","a":1}`, escaped + keep},
		{"only ASCII", "{\"a\":\"\x7f\\u0080\\u1234\\u5678\\u9abc\\udbff\\udfff\\uffff\\ud800\\udc00\\uf0de\"}", "{\"a\":\"\x7f\u0080\u1234\u5678\u9abc\U0010ffff\uffff\U00010000\uf0de\"}", escaped + keep},

		{"empty", "a", "", notFound + "|body: empty, but the signed body is not: middleware in front of the verifier has read it (put the verifier first, or restore r.Body)"},
		{"16 KiB", strings.Repeat("a", 16<<10), strings.Repeat("a", 16<<10-1) + "\n", ""},
		{"16 KiB with a line break", strings.Repeat("a", 16<<10-1), strings.Repeat("a", 16<<10-1) + "\n", "signed without the line break at its end, which was added on the way" + keep},
		{"above 16 KiB", strings.Repeat("a", 16<<10), strings.Repeat("a", 16<<10) + "\n", notFound + "|body: differs from the signed one; a body above 16 KiB is not examined further"},
		{"replacement character", "aÿ", "a\uFFFD", notFound + "|body: differs from the signed one, and contains replacement characters: middleware read it in another charset" + keep},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			want := strings.Split(row.want, "|")
			switch {
			case row.want == "":
				want = []string{notFound, "body: differs from the signed one, and no usual change of middleware explains it: the rest of the message is genuine, so the body was replaced on the way, or belongs to another message"}
			case len(want) == 1:
				want[0] = "body: " + want[0]
			}
			r := receivedCallback(t, target, row.signed, signature.SignerOptions{})
			setBody(r, row.received)

			got := linesOf(explain(t, host, r, nil))

			wantEqual(t, want, got, "explanation")
		})
	}
}

func indented(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	noError(t, json.Indent(&b, []byte(text), "", "  "))
	return b.String()
}

func TestVerifier_ExplainTarget(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, signature.VerifierOptions{Target: func(*http.Request) (host, uri string) { return "wrong.example.com", "/wrong?x=1" }})

	got := v.Explain(t.Context(), receivedCallback(t, target, body, signature.SignerOptions{}), nil)

	checkExplanation(t, got, []string{"VerifierOptions.Target returns another", "path: signed as in the request, but VerifierOptions.Target", "query: signed as in the request, but VerifierOptions.Target"})
}

func TestVerifier_ExplainCallbackHeader(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"x-acme-callback":         "x-acme-callback",
		"x-447700900000-callback": "another header", // it contains a phone number
	} {
		r := receivedCallback(t, target, body, signature.SignerOptions{CallbackHeader: name})

		got := explain(t, host, r, nil)

		checkExplanation(t, got, []string{"callback header: the service sent the product in " + want + ": configure the verifier with this name (in Go, with VerifierOptions.CallbackHeader)"})
	}
}

func TestVerifier_ExplainMaxBody(t *testing.T) {
	t.Parallel()
	r := receivedCallback(t, target, body, signature.SignerOptions{})

	got := newVerifier(t, signature.VerifierOptions{MaxBody: 10}).Explain(t.Context(), r, nil)

	checkExplanation(t, got, []string{"not explained: message: callback not verified: message too large", fmt.Sprint("set VerifierOptions.MaxBody to at least ", len(body))})
	if left := bodyOf(t, r); left != body {
		t.Errorf("body after Explain = %q, want it restored", left)
	}
	r = receivedCallback(t, target, body, signature.SignerOptions{})
	r.Host = "app"
	checkExplanation(t, newVerifier(t, signature.VerifierOptions{MaxBody: int64(len(body))}).Explain(t.Context(), r, nil), []string{"host: signed for api.example.com"})
}

func TestVerifier_ExplainKeys(t *testing.T) {
	t.Parallel()
	other := signature.StaticKeys{keyID: &keys()["service-2"].PublicKey}
	mine := serviceKeys()
	called := false
	ofCaller := keyFunc(func(context.Context, string) (*rsa.PublicKey, error) { called = true; return mine[keyID], nil })
	for _, row := range []struct {
		name   string
		source signature.KeySource
		keys   map[string]signature.KeySource
		want   []string
	}{
		{"another key set", other, map[string]signature.KeySource{"sandbox": mine}, []string{`key: signed with a key of the key set "sandbox", which the verifier does not have`}},
		{"another key ID in another key set", other, map[string]signature.KeySource{"sandbox": signature.StaticKeys{"k": mine[keyID]}}, []string{`key: keyId in the Authorization is not the ID of the key that made the signature, which is in the key set "sandbox": check whether`}},
		{"key source of the caller with other keys", ofCaller, map[string]signature.KeySource{"sandbox": other}, []string{"not explained: key: the keys of the verifier cannot be examined, and no examined key of another key set made the signature: the message is probably forged"}},
		{"unknown", other, nil, []string{"not explained: message: callback not verified: signature does not verify", "key: the key with the ID in the Authorization did not make the signature: the message is probably forged"}},
		{"unknown ID", signature.StaticKeys{"k": other[keyID]}, map[string]signature.KeySource{"sandbox": other}, []string{"not explained: message: callback not verified: unknown key", "key: the key set has no key with the ID in the Authorization, and no examined key of another key set made the signature: the message"}},
		{"key source of the caller", ofCaller, nil, []string{"not explained: key: the verifier has no keys that can be examined"}},
		{"key source of the caller with keys", ofCaller, map[string]signature.KeySource{"production": mine}, []string{`key: signed with a key of the key set "production"; the keys of the verifier cannot be examined`}},
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
	server := newKeyServer(t, jwk(keyID, "service-1"))
	source := server.jwks(t, signature.JWKSOptions{})
	v := verifierFor(t, source, signature.VerifierOptions{}, host)
	r := receivedCallback(t, target, body, signature.SignerOptions{})

	before := v.Explain(t.Context(), r, nil)
	fetchedBefore := server.fetches()
	noError(t, source.Refresh(t.Context()))
	after := v.Explain(t.Context(), r, nil)
	unknown := receivedCallback(t, target, body, signature.SignerOptions{})
	unknown.Header.Set("Authorization", strings.Replace(unknown.Header.Get("Authorization"), keyID, "unknown", 1))
	v.Explain(t.Context(), unknown, nil)

	checkExplanation(t, before, []string{"a JWKS fetches its set for the first message"})
	checkExplanation(t, after, []string{"verified"})
	if fetches := server.fetches(); fetchedBefore != 0 || fetches != 1 {
		t.Errorf("Explain caused %d and %d fetches, want none", fetchedBefore, fetches-1)
	}
	if _, err := source.PublicKey(t.Context(), "unknown"); err == nil || server.fetches() != 2 {
		t.Errorf("lookup of an unknown key after Explain: error %v after %d fetches, want a second fetch: Explain must not use up its permission", err, server.fetches())
	}
}

func TestVerifier_ExplainForgedBodyIsNotRead(t *testing.T) {
	t.Parallel()
	r := receivedCallback(t, target, body, signature.SignerOptions{})
	r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), `signature="`, `signature="AAAA`, 1))
	watched := &watchedBody{Reader: strings.NewReader(body)}
	r.Body = watched

	got := newVerifier(t, signature.VerifierOptions{}).Explain(t.Context(), r, nil)

	checkExplanation(t, got, []string{"not explained: ", "forged"})
	if watched.read {
		t.Error("Explain read the body of a message that the service did not sign")
	}
}

func TestVerifier_ExplainCanceled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := receivedCallback(t, target, body, signature.SignerOptions{})
	r.Host = "other.example.com"

	got := newVerifier(t, signature.VerifierOptions{}).Explain(ctx, r, nil)

	checkExplanation(t, got, []string{"not explained: ", "key: the service made the signature, but the examination was canceled"})
}

// An explanation makes the operator accept messages, so no attack may be reported as valid, and
// no message that the service did not sign may be explained.
func TestVerifier_ExplainAttacks(t *testing.T) {
	t.Parallel()
	explained := make(map[string][]string)
	for kind, attacks := range map[string][]attack.Attack{"callback": attack.Callbacks(), "redirect": attack.Redirects()} {
		for _, a := range attacks {
			r := request(t, a.Message(callbackSetup))
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
			for _, key := range serviceKeys() {
				if !signature.Usable(key) {
					continue
				}
				encoded := new(big.Int).Exp(new(big.Int).SetBytes(decoded), big.NewInt(int64(key.E)), key.N).Bytes()
				if err == nil && len(encoded) == key.Size()-1 && bytes.HasPrefix(encoded, append([]byte{1}, bytes.Repeat([]byte{0xff}, len(encoded)-53)...)) {
					return true
				}
			}
		}
	}
	return false
}

func TestVerifier_ExplainAccepted(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, signature.VerifierOptions{})
	for _, variant := range slices.Concat(attack.AcceptedCallbacks(), attack.AcceptedRedirects()) {
		got := v.Explain(t.Context(), request(t, variant.Message(callbackSetup)), nil)

		if !got.Verified || !got.Explained {
			t.Errorf("%s: got %+v, want verified", variant.Name, got)
		}
	}
}

func TestVerifier_ExplainStillRejected(t *testing.T) {
	t.Parallel()
	for _, kind := range messageKinds {
		m := kind.make()
		m.Covered += " host"
		m.Sign()
		r := request(t, m)
		r.Host = "app.internal"

		got := newVerifier(t, signature.VerifierOptions{}).Explain(t.Context(), r, nil)

		checkExplanation(t, got, []string{"not explained: ", "host: signed for api.example.com", "message: still rejected after these changes: signature covers a name twice"})
	}
}
