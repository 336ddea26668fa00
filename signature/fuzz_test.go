package signature_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/idverify/idverify-go/internal/attack"
	"github.com/idverify/idverify-go/signature"
)

// authorizationSeeds returns valid and invalid Authorizations of the attack table.
func authorizationSeeds() []string {
	seeds := []string{signedCallback().Get("Authorization")}
	for _, a := range attack.Callbacks() {
		w := a.Message(callbackSetup)
		if s := w.Get("Authorization"); len(s) < 1000 {
			seeds = append(seeds, s)
		}
	}
	slices.Sort(seeds)
	return slices.Compact(seeds)
}

// The grammar of an Authorization as regular expressions.
var (
	referenceParameter = `[ \t]*([!#$%&'*+.^_\x60|~0-9A-Za-z-]+)=(?:"([ !#-\[\]-~]*)"|([!#$%&'*+.^_\x60|~0-9A-Za-z-]+))[ \t]*`
	referenceScheme    = regexp.MustCompile(`^(?i:Signature) ((?:` + referenceParameter + `,)*` + referenceParameter + `)$`)
	referenceEach      = regexp.MustCompile(referenceParameter + `(?:,|$)`)
	referenceName      = regexp.MustCompile(`^(?:\([!#$%&'*+.^_\x60|~0-9a-z-]+\)|[!#$%&'*+.^_\x60|~0-9a-z-]+)$`)
)

// referenceAuthorization reads an Authorization by that grammar.
func referenceAuthorization(s string) (a signature.Authorization, ok bool) {
	list := referenceScheme.FindStringSubmatch(s)
	if list == nil || len(s) > 8<<10 {
		return a, false
	}
	params := make(map[string]string)
	for _, m := range referenceEach.FindAllStringSubmatch(list[1], -1) {
		name := strings.ToLower(m[1])
		if _, twice := params[name]; twice {
			return a, false
		}
		params[name] = m[2] + m[3]
	}
	if len(params) > 16 || params["algorithm"] != "rsa-sha256" {
		return a, false
	}
	a.KeyID = params["keyid"]
	if a.KeyID == "" || len(a.KeyID) > 256 {
		return a, false
	}
	a.Covered = strings.Split(params["headers"], " ")
	if len(a.Covered) > 16 || slices.ContainsFunc(a.Covered, func(name string) bool { return !referenceName.MatchString(name) }) {
		return a, false
	}
	var err error
	a.Signature, err = base64.StdEncoding.DecodeString(params["signature"])
	return a, err == nil && len(a.Signature) > 0 && base64.StdEncoding.EncodeToString(a.Signature) == params["signature"]
}

// FuzzParseAuthorization compares the parser with a reference implementation.
func FuzzParseAuthorization(f *testing.F) {
	for _, seed := range authorizationSeeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := signature.ParseAuthorization(s)
		want, ok := referenceAuthorization(s)

		if (err == nil) != ok {
			t.Fatalf("%q: error = %v, accepted by the reference parser: %v", s, err, ok)
		}
		if diff := cmp.Diff(want, got); ok && diff != "" {
			t.Errorf("%q (-reference +got):\n%s", s, diff)
		}
	})
}

func FuzzCutQuery(f *testing.F) {
	for _, query := range unusualQueries {
		f.Add(query)
		f.Add(query + "&authorization=QQ%3D%3D&date=QQ%3D%3D")
	}
	f.Add("authorization=a&date=b")
	f.Add("&&authorization&date&&check_id")
	f.Add("authorization=a;date=b&%64ate=c")
	f.Fuzz(func(t *testing.T, raw string) {
		rest, authorization, date, counts := signature.CutQuery(raw)

		kept := strings.Split(raw, "&")
		var cut []string
		kept = slices.DeleteFunc(kept, func(segment string) bool {
			key, _, _ := strings.Cut(segment, "=")
			key, err := url.QueryUnescape(key)
			mine := err == nil && (key == "authorization" || key == "date")
			if mine {
				cut = append(cut, segment)
			}
			return mine
		})
		if want := strings.Join(kept, "&"); rest != want {
			t.Errorf("%q: rest = %q, want %q", raw, rest, want)
		}
		if counts[0]+counts[1] != len(cut) {
			t.Errorf("%q: %d segments removed, want %d", raw, counts[0]+counts[1], len(cut))
		}
		parsed, err := url.ParseQuery(raw)
		if err == nil && (len(parsed["authorization"]) != counts[0] || len(parsed["date"]) != counts[1] || len(parsed["check_id"]) != counts[2]) {
			t.Errorf("%q: counts = %v, url.ParseQuery returns %v", raw, counts, parsed)
		}
		for _, value := range []string{authorization, date} {
			if decoded, ok := signature.DecodeParameter(value); ok {
				plain, err := url.PathUnescape(value)
				if err != nil || base64.StdEncoding.EncodeToString([]byte(decoded)) != plain || strings.ContainsFunc(decoded, func(r rune) bool { return r < ' ' || r > '~' }) {
					t.Errorf("%q: decoded to %q, want its printable base64 content", value, decoded)
				}
			}
		}
	})
}

func FuzzParseDate(f *testing.F) {
	for _, s := range []string{now.Format(http.TimeFormat), "Mon, 01 Jan 0001 00:00:00 GMT", "Mon, 32 Jan 2006 15:04:05 GMT", "Wed, 29 Feb 2023 15:04:05 GMT", "Fri, 02 Jan 2026 03:04:60 GMT", "Fri, 02 Jan 2026 03:04:05.5 GMT", "fri, 02 jan 2026 03:04:05 GMT", now.Format(time.RFC850), now.Format(time.ANSIC), now.Format(time.RFC1123Z), ""} {
		f.Add(s)
	}
	for month := range 12 {
		f.Add(now.AddDate(0, month, 0).Format(http.TimeFormat))
	}
	form := regexp.MustCompile(`^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} \d\d:\d\d:\d\d GMT$`)
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := signature.ParseDate(s)

		if ok && (!form.MatchString(s) || got.Format(http.TimeFormat) != s || got.Location() != time.UTC) {
			t.Errorf("%q: parsed as %v, want an error", s, got)
		}
		if want, err := http.ParseTime(s); !ok && err == nil && want.UTC().Format(http.TimeFormat) == s {
			t.Errorf("%q: not parsed, want a date", s)
		}
	})
}

func FuzzParseDigest(f *testing.F) {
	sum := sha256.Sum256([]byte(body))
	for _, s := range []string{attack.Digest(body), strings.ToUpper(attack.Digest(body)), "SHA-256=" + base64.StdEncoding.EncodeToString(sum[:]), "SHA-256=" + base64.URLEncoding.EncodeToString(sum[:]), "MD5=1B2M2Y8AsgTpgAmY7PhCfg==", "SHA-256=", "SHA-256", "=", "SHA-256=" + strings.Repeat("A", 42) + "B=", "SHA-256=" + base64.StdEncoding.EncodeToString(sum[:31]), "SHA-256=" + base64.StdEncoding.EncodeToString(append(sum[:], 0))} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := signature.ParseDigest(s)

		name, value, _ := strings.Cut(s, "=")
		inHex := strings.EqualFold(value, hex.EncodeToString(got[:]))
		inBase64 := value == base64.StdEncoding.EncodeToString(got[:])
		if ok && (!strings.EqualFold(name, "sha-256") || !inHex && !inBase64) {
			t.Errorf("%q: parsed as %x, want an error", s, got)
		}
	})
}

func FuzzParseKeySet(f *testing.F) {
	good := jwk("a", "service-1")
	for _, s := range []string{keySet(good), keySet(good, jwk("a", "service-2")), keySet(good, jwk("b", "weak")), good, `{"keys":[]}`, `{"keys":null}`, `{"keys":[null,7,"a",{}]}`, `{"keys":[` + withMembers(good, `"d":"AQAB"`) + `]}`, `{"keys":[{"kty":"oct","k":"AQAB"}]}`, `{`, `[]`, ``, strings.Repeat("[", 1000)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, set []byte) {
		keys, err := signature.ParseKeySet(set)

		if (err == nil) != (len(keys) > 0) {
			t.Fatalf("%d keys, error = %v; want either", len(keys), err)
		}
		for id, key := range keys {
			if !signature.Usable(key) || id == "" || len(id) > 256 || !bytes.Contains(set, []byte("keys")) && !bytes.Contains(set, []byte("kty")) {
				t.Errorf("key %q is returned, want only usable keys", id)
			}
		}
	})
}

// FuzzVerifier sends complete requests. Only the original messages may be verified.
func FuzzVerifier(f *testing.F) {
	callback, redirect := signedCallback(), signedRedirect()
	f.Add(callback.Method, callback.Target, callback.Host, callback.Get("Authorization"), callback.Get("Date"), callback.Get("Digest"), callback.Get("X-Service-Callback"), []byte(body))
	f.Add(redirect.Method, redirect.Target, redirect.Host, "", "", "", "", []byte(nil))
	f.Fuzz(func(t *testing.T, method, target, host, authorization, date, digest, kind string, content []byte) {
		v := newVerifier(t, signature.VerifierOptions{})
		r := &http.Request{Method: method, RequestURI: target, URL: &url.URL{Path: "/"}, Host: host, Body: restored(content), Header: http.Header{
			"Authorization": {authorization}, "Date": {date}, "Digest": {digest}, "X-Service-Callback": {kind}}}

		if m, err := v.VerifyCallback(r); err == nil && (string(m.Body) != body || m.Product != "phone_check" || !m.Date.Equal(now)) {
			t.Errorf("verified a changed message: %+v", m)
		}
		if m, err := v.VerifyRedirect(r); err == nil && (m.Query.Get("check_id") != "c1" || m.Query.Get("code") != "a+b" || len(m.Query) != 2) {
			t.Errorf("verified a changed message: %+v", m)
		}
	})
}
