package signature_test

import (
	"context"
	"crypto"
	"crypto/rsa"
	_ "crypto/sha1"
	"crypto/sha256"
	_ "crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go/signature"
)

// attack is a message that must be rejected. signed changes the message before it is signed, sent
// after that; nil means no change.
type attack struct {
	name   string
	signed func(*wire)
	sent   func(*wire)
	want   error
}

// Changes of a message.
func set(name, value string) func(*wire)     { return func(w *wire) { w.set(name, value) } }
func add(name, value string) func(*wire)     { return func(w *wire) { w.add(name, value) } }
func drop(name string) func(*wire)           { return func(w *wire) { w.drop(name) } }
func edit(name, old, new string) func(*wire) { return func(w *wire) { w.edit(name, old, new) } }
func auth(old, new string) func(*wire)       { return edit("Authorization", old, new) }
func covering(names string) func(*wire)      { return func(w *wire) { w.covered = names } }
func method(name string) func(*wire)         { return func(w *wire) { w.method = name } }
func toHost(name string) func(*wire)         { return func(w *wire) { w.host = name } }
func toTarget(uri string) func(*wire)        { return func(w *wire) { w.target = uri } }
func dated(d time.Duration) func(*wire)      { return set("Date", now.Add(d).Format(http.TimeFormat)) }

func keyNamed(id, key string) func(*wire) {
	return func(w *wire) { w.keyID, w.key = id, keys()[key] }
}

func hashed(algorithm string, hash crypto.Hash) func(*wire) {
	return func(w *wire) { w.algorithm, w.hash = algorithm, hash }
}

func withBody(body string) func(*wire) {
	return func(w *wire) { w.body = body; w.set("Content-Length", fmt.Sprint(len(body))) }
}

func digestOf(body string) string {
	sum := sha256.Sum256([]byte(body))
	return "SHA-256=" + hex.EncodeToString(sum[:])
}

// allCovered returns the names that a callback must cover, with more names appended.
func allCovered(names string) string {
	return "(request-target) host date x-service-callback digest" + names
}

var callbackAttacks = []attack{
	// Request line and body.
	{"PUT", method("PUT"), nil, signature.ErrMalformed},
	{"POST changed to GET", nil, method("GET"), signature.ErrMalformed},
	{"different path", nil, toTarget("/callbacks/other?tenant=7"), signature.ErrSignature},
	{"different query", nil, toTarget("/callbacks/phone?tenant=8"), signature.ErrSignature},
	{"appended parameter", nil, toTarget(target + "&admin=1"), signature.ErrSignature},
	{"removed query", nil, toTarget("/callbacks/phone"), signature.ErrSignature},
	{"escaped path", nil, toTarget("/callbacks%2Fphone?tenant=7"), signature.ErrSignature},
	{"double slash", nil, toTarget("//callbacks/phone?tenant=7"), signature.ErrSignature},
	{"absolute target for another host", nil, toTarget("https://other.example.com" + target), signature.ErrHost},
	{"target with user", nil, toTarget("https://u@api.example.com" + target), signature.ErrHost},
	{"target above 64 KiB", toTarget("/" + strings.Repeat("a", 64<<10)), nil, signature.ErrMalformed},
	{"ftp target", nil, toTarget("ftp://api.example.com" + target), signature.ErrMalformed},
	{"changed match", nil, withBody(strings.Replace(body, "true", "null", 1)), signature.ErrDigest},
	{"empty body", nil, withBody(""), signature.ErrDigest},
	{"one byte appended to body", nil, withBody(body + " "), signature.ErrDigest},
	{"body above MaxBody", func(w *wire) { withBody(strings.Repeat("a", 1<<20+1))(w); w.set("Digest", digestOf(w.body)) }, nil, signature.ErrTooLarge},

	// Authorization header.
	{"no Authorization", nil, drop("Authorization"), signature.ErrMalformed},
	{"empty Authorization", nil, set("Authorization", ""), signature.ErrMalformed},
	{"two Authorizations", nil, add("Authorization", "Basic Og=="), signature.ErrMalformed},
	{"scheme Basic", nil, set("Authorization", "Basic Og=="), signature.ErrMalformed},
	{"scheme without parameters", nil, set("Authorization", "Signature"), signature.ErrMalformed},
	{"unknown scheme", nil, auth("Signature keyId", "Signatures keyId"), signature.ErrMalformed},
	{"no space after scheme", nil, auth("Signature keyId", "SignaturekeyId"), signature.ErrMalformed},
	{"no keyId", nil, auth(`keyId="key-1",`, ""), signature.ErrMalformed},
	{"no algorithm", nil, auth(`algorithm="rsa-sha256",`, ""), signature.ErrMalformed},
	{"no headers", nil, auth(`headers="`+allCovered("")+`",`, ""), signature.ErrMalformed},
	{"no signature", nil, auth(`,signature="`, `,sig="`), signature.ErrMalformed},
	{"duplicate keyId", nil, auth(`keyId=`, `keyId="key-1",keyId=`), signature.ErrMalformed},
	{"duplicate keyId in different case", nil, auth(`keyId=`, `KEYID="other",keyId=`), signature.ErrMalformed},
	{"duplicate signature", nil, auth(`,signature=`, `,signature="AAAA",signature=`), signature.ErrMalformed},
	{"duplicate unknown parameter", nil, auth(`keyId=`, `a="1",a="2",keyId=`), signature.ErrMalformed},
	{"empty keyId", nil, auth(`keyId="key-1"`, `keyId=""`), signature.ErrMalformed},
	{"keyId above 256 bytes", nil, auth("key-1", strings.Repeat("k", 257)), signature.ErrMalformed},
	{"escaped quote in keyId", nil, auth("key-1", `key\"1`), signature.ErrMalformed},
	{"backslash in keyId", nil, auth("key-1", `key\\1`), signature.ErrMalformed},
	{"non-ASCII keyId", nil, auth("key-1", "kéy-1"), signature.ErrMalformed},
	{"tab in keyId", nil, auth("key-1", "key\t1"), signature.ErrMalformed},
	{"unterminated quote", nil, auth(`",algorithm`, `,algorithm`), signature.ErrMalformed},
	{"text after a quote", nil, auth(`"key-1"`, `"key-1"x`), signature.ErrMalformed},
	{"text after the last quote", nil, func(w *wire) { w.set("Authorization", w.get("Authorization")+"x") }, signature.ErrMalformed},
	{"backslash in unknown parameter", nil, auth("Signature ", `Signature x="\",`), signature.ErrMalformed},
	{"leading comma", nil, auth("Signature ", "Signature ,"), signature.ErrMalformed},
	{"two commas", nil, auth(`",algorithm`, `",,algorithm`), signature.ErrMalformed},
	{"trailing comma", nil, func(w *wire) { w.set("Authorization", w.get("Authorization")+",") }, signature.ErrMalformed},
	{"semicolon instead of comma", nil, auth(`",algorithm`, `";algorithm`), signature.ErrMalformed},
	{"space before equals sign", nil, auth("keyId=", "keyId ="), signature.ErrMalformed},
	{"parameter without value", nil, auth("Signature ", "Signature a,"), signature.ErrMalformed},
	{"parameter without name", nil, auth("Signature ", `Signature ="a",`), signature.ErrMalformed},
	{"17 parameters", nil, auth("Signature ", "Signature a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1,j=1,k=1,l=1,m=1,"), signature.ErrMalformed},
	{"Authorization above 8 KiB", nil, auth("Signature ", `Signature pad="`+strings.Repeat("a", 8<<10)+`",`), signature.ErrMalformed},
	{"signature not base64", nil, auth(`signature="`, `signature="*`), signature.ErrMalformed},
	{"signature without padding", nil, auth(`=="`, `"`), signature.ErrMalformed},
	{"signature with trailing bits", nil, withTrailingBits, signature.ErrMalformed},
	{"empty signature", nil, func(w *wire) {
		w.set("Authorization", w.get("Authorization")[:strings.Index(w.get("Authorization"), `ture="`)]+`ture=""`)
	}, signature.ErrMalformed},

	// Algorithm. The signature is valid for an algorithm that is not allowed.
	{"hs2019", hashed("hs2019", crypto.SHA256), nil, signature.ErrAlgorithm},
	{"rsa-sha1", hashed("rsa-sha1", crypto.SHA1), nil, signature.ErrAlgorithm},
	{"rsa-sha512", hashed("rsa-sha512", crypto.SHA512), nil, signature.ErrAlgorithm},
	{"rsa-sha512 labeled rsa-sha256", hashed("rsa-sha256", crypto.SHA512), nil, signature.ErrSignature},
	{"hmac-sha256", nil, auth("rsa-sha256", "hmac-sha256"), signature.ErrAlgorithm},
	{"ecdsa-sha256", nil, auth("rsa-sha256", "ecdsa-sha256"), signature.ErrAlgorithm},
	{"none", nil, auth("rsa-sha256", "none"), signature.ErrAlgorithm},
	{"upper-case RSA-SHA256", nil, auth("rsa-sha256", "RSA-SHA256"), signature.ErrAlgorithm},
	{"empty algorithm", nil, auth(`"rsa-sha256"`, `""`), signature.ErrMalformed},

	// Coverage. The service's signature is valid, but covers too little.
	{"request target not covered", covering("host date x-service-callback digest"), nil, signature.ErrCoverage},
	{"host not covered", covering("(request-target) date x-service-callback digest"), nil, signature.ErrCoverage},
	{"date not covered", covering("(request-target) host x-service-callback digest"), nil, signature.ErrCoverage},
	{"kind not covered", covering("(request-target) host date digest"), nil, signature.ErrCoverage},
	{"digest not covered", covering("(request-target) host date x-service-callback"), nil, signature.ErrCoverage},
	{"signature of a redirect", covering("(request-target) host date"), nil, signature.ErrCoverage},
	{"only date covered", covering("date"), nil, signature.ErrCoverage},
	{"date covered twice", covering(allCovered(" date")), nil, signature.ErrCoverage},
	{"(created)", covering(allCovered(" (created)")), nil, signature.ErrCoverage},
	{"(expires)", covering(allCovered(" (expires)")), nil, signature.ErrCoverage},
	{"missing covered header", covering(allCovered(" x-absent")), nil, signature.ErrCoverage},
	{"two dates, signed one first", nil, add("Date", now.Add(time.Second).Format(http.TimeFormat)), signature.ErrCoverage},
	{"two digests", nil, add("Digest", digestOf("other")), signature.ErrCoverage},
	{"two kinds", nil, add("X-Service-Callback", "subscriber_check"), signature.ErrCoverage},
	{"no date", nil, drop("Date"), signature.ErrCoverage},
	{"no digest", nil, drop("Digest"), signature.ErrCoverage},
	{"no kind", nil, drop("X-Service-Callback"), signature.ErrCoverage},
	{"upper-case covered name", covering(strings.Replace(allCovered(""), "date", "Date", 1)), nil, signature.ErrMalformed},
	{"two spaces between covered names", nil, auth("host date", "host  date"), signature.ErrMalformed},
	{"17 covered names", covering(allCovered(" a b c d e f g h i j k l")), nil, signature.ErrMalformed},
	{"unterminated parenthesis", nil, auth("(request-target)", "(request-target"), signature.ErrMalformed},
	{"no covered names", nil, auth(allCovered(""), ""), signature.ErrMalformed},
	{"covered names reordered", nil, auth("host date", "date host"), signature.ErrSignature},

	// Host. The service signs for all customers with the same key.
	{"signed for another customer", toHost("api.example.net"), nil, signature.ErrHost},
	{"signed for another customer, host changed", toHost("api.example.net"), toHost(host), signature.ErrSignature},
	{"subdomain of our host", toHost("x.api.example.com"), nil, signature.ErrHost},
	{"our host as prefix", toHost("api.example.com.example.net"), nil, signature.ErrHost},
	{"our host on another port", toHost("api.example.com:8443"), nil, signature.ErrHost},
	{"our host with trailing dot", toHost("api.example.com."), nil, signature.ErrHost},
	{"our host only in X-Forwarded-Host", func(w *wire) { w.host = "api.example.net"; w.add("X-Forwarded-Host", host) }, nil, signature.ErrHost},

	// Date.
	{"date 6 s old", dated(-6 * time.Second), nil, signature.ErrSkew},
	{"date 6 s ahead", dated(6 * time.Second), nil, signature.ErrSkew},
	{"date 5000 s old", dated(-5000 * time.Second), nil, signature.ErrSkew},
	{"date of year 1", set("Date", "Mon, 01 Jan 0001 00:00:00 GMT"), nil, signature.ErrSkew},
	{"old date changed to now", dated(-time.Hour), dated(0), signature.ErrSignature},
	{"old date with new X-Date", func(w *wire) { dated(-time.Hour)(w); w.add("X-Date", now.Format(http.TimeFormat)) }, nil, signature.ErrSkew},
	{"empty date", set("Date", ""), nil, signature.ErrMalformed},
	{"RFC 850 date", set("Date", now.Format("Monday, 02-Jan-06 15:04:05 GMT")), nil, signature.ErrMalformed},
	{"asctime date", set("Date", now.Format(time.ANSIC)), nil, signature.ErrMalformed},
	{"RFC 3339 date", set("Date", now.Format(time.RFC3339)), nil, signature.ErrMalformed},
	{"date with zone UTC", set("Date", now.Format(time.RFC1123)), nil, signature.ErrMalformed},
	{"date with numeric zone", set("Date", now.Format(time.RFC1123Z)), nil, signature.ErrMalformed},
	{"date with wrong weekday", edit("Date", "Fri", "Mon"), nil, signature.ErrMalformed},
	{"date with fraction", edit("Date", ":05 ", ":05.5 "), nil, signature.ErrMalformed},
	{"lower-case date", edit("Date", "Jan", "jan"), nil, signature.ErrMalformed},

	// Digest.
	{"digest of another body", nil, set("Digest", digestOf("other")), signature.ErrSignature},
	{"signed digest of another body", set("Digest", digestOf("other")), nil, signature.ErrDigest},
	{"MD5 digest", set("Digest", "MD5=1B2M2Y8AsgTpgAmY7PhCfg=="), nil, signature.ErrDigest},
	{"SHA-512 digest", set("Digest", "SHA-512="+strings.Repeat("a", 128)), nil, signature.ErrDigest},
	{"digest of 63 digits", set("Digest", "SHA-256="+strings.Repeat("a", 63)), nil, signature.ErrDigest},
	{"digest not hexadecimal", set("Digest", "SHA-256="+strings.Repeat("g", 64)), nil, signature.ErrDigest},
	{"base64 digest of 33 bytes", set("Digest", "SHA-256="+base64.StdEncoding.EncodeToString(make([]byte, 33))), nil, signature.ErrDigest},
	{"base64 digest of 31 bytes", set("Digest", "SHA-256="+base64.StdEncoding.EncodeToString(make([]byte, 31))), nil, signature.ErrDigest},
	{"base64 digest with trailing bits", set("Digest", "SHA-256="+strings.Repeat("A", 42)+"B="), nil, signature.ErrDigest},
	{"two hashes in digest", func(w *wire) { w.set("Digest", w.get("Digest")+","+digestOf("other")) }, nil, signature.ErrDigest},
	{"digest without algorithm", set("Digest", strings.Repeat("a", 64)), nil, signature.ErrDigest},
	{"empty digest", set("Digest", ""), nil, signature.ErrDigest},

	// Kind and key.
	{"different kind", nil, set("X-Service-Callback", "subscriber_check"), signature.ErrSignature},
	{"empty kind", set("X-Service-Callback", ""), nil, signature.ErrMalformed},
	{"unpublished key", keyNamed("mine", "unpublished"), nil, signature.ErrUnknownKey},
	{"unpublished key with published ID", keyNamed(keyID, "unpublished"), nil, signature.ErrSignature},
	{"path as key ID", keyNamed("../../etc/passwd", "unpublished"), nil, signature.ErrUnknownKey},
	{"URL as key ID", keyNamed("https://example.net/jwks.json", "unpublished"), nil, signature.ErrUnknownKey},
	{"zero signature", nil, func(w *wire) { w.setSignature(make([]byte, 256)) }, signature.ErrSignature},
	{"short signature", nil, func(w *wire) { w.setSignature([]byte{1}) }, signature.ErrSignature},
	{"signature longer than key", nil, func(w *wire) { w.setSignature(make([]byte, 512)) }, signature.ErrSignature},
}

var redirectAttacks = []attack{
	{"POST", method("POST"), nil, signature.ErrMalformed},
	{"HEAD", nil, method("HEAD"), signature.ErrMalformed},
	{"different check", nil, editTarget("check_id=c1", "check_id=c2"), signature.ErrSignature},
	{"different code", nil, editTarget("code=a%2Bb", "code=a%2Bc"), signature.ErrSignature},
	{"removed code", nil, editTarget("&code=a%2Bb", ""), signature.ErrSignature},
	{"prepended parameter", nil, editTarget("?", "?x=1&"), signature.ErrSignature},
	{"appended parameter", nil, appendToTarget("&x=1"), signature.ErrSignature},
	{"empty segment", nil, appendToTarget("&"), signature.ErrSignature},
	{"parameters reordered", nil, editTarget("check_id=c1&code=a%2Bb", "code=a%2Bb&check_id=c1"), signature.ErrSignature},
	{"different escape", nil, editTarget("%2B", "%2b"), signature.ErrSignature},
	{"different path", nil, editTarget("/back", "/login"), signature.ErrSignature},
	{"two check_ids, both signed", toTarget("/back?check_id=c1&check_id=c2"), nil, signature.ErrMalformed},
	{"two check_ids, one escaped", toTarget("/back?check_id=c1&check%5Fid=c2"), nil, signature.ErrMalformed},
	{"no check_id", toTarget("/back?code=a"), nil, signature.ErrMalformed},
	{"no query", nil, toTarget("/back"), signature.ErrMalformed},
	{"query above 64 KiB", toTarget("/back?check_id=c1&a=" + strings.Repeat("a", 64<<10)), nil, signature.ErrMalformed},
	{"no authorization", nil, editTarget("&authorization=", "&auth="), signature.ErrMalformed},
	{"no date", nil, editTarget("&date=", "&day="), signature.ErrMalformed},
	{"two authorizations", nil, duplicateParameter("authorization", "authorization"), signature.ErrMalformed},
	{"two authorizations, one escaped", nil, duplicateParameter("authorization", "%61uthorization"), signature.ErrMalformed},
	{"two dates", nil, duplicateParameter("date", "date"), signature.ErrMalformed},
	{"two dates, one escaped", nil, duplicateParameter("date", "dat%65"), signature.ErrMalformed},
	{"two dates, one without value", nil, appendToTarget("&date"), signature.ErrMalformed},
	{"authorization without value", nil, emptyParameter("authorization"), signature.ErrMalformed},
	{"date without value", nil, emptyParameter("date"), signature.ErrMalformed},
	{"parameters sent as headers", nil, func(w *wire) {
		w.target = "/back?check_id=c1&code=a%2Bb"
		w.add("Date", now.Format(http.TimeFormat))
		w.signCallback()
	}, signature.ErrMalformed},
	{"authorization not base64", nil, editTarget("authorization=", "authorization=*"), signature.ErrMalformed},
	{"authorization in base64url", nil, editTarget("authorization=", "authorization=-_-_"), signature.ErrMalformed},
	{"authorization with invalid escape", nil, editTarget("authorization=", "authorization=%zz"), signature.ErrMalformed},
	{"line break in base64", nil, editTarget("authorization=", "authorization=%0A"), signature.ErrMalformed},
	{"date of two lines", nil, editDate(now.Format(http.TimeFormat) + "\nhost: " + host), signature.ErrMalformed},
	{"date with NUL", nil, editDate(now.Format(http.TimeFormat) + "\x00"), signature.ErrMalformed},
	{"old date", dated(-6 * time.Second), nil, signature.ErrSkew},
	{"future date", dated(6 * time.Second), nil, signature.ErrSkew},
	{"old date changed to now", dated(-time.Hour), editDate(now.Format(http.TimeFormat)), signature.ErrSignature},
	{"old date with new Date header", dated(-time.Hour), add("Date", now.Format(http.TimeFormat)), signature.ErrSkew},
	{"signed for another customer", toHost("app.example.net"), nil, signature.ErrHost},
	{"signed for another customer, host changed", toHost("app.example.net"), toHost(host), signature.ErrSignature},
	{"host not covered", covering("(request-target) date"), nil, signature.ErrCoverage},
	{"request target not covered", covering("host date"), nil, signature.ErrCoverage},
	{"date not covered", covering("(request-target) host"), nil, signature.ErrCoverage},
	{"(expires)", covering("(request-target) host date (expires)"), nil, signature.ErrCoverage},
	{"authorization covered", covering("(request-target) host date authorization"), nil, signature.ErrCoverage},
	{"hs2019", hashed("hs2019", crypto.SHA256), nil, signature.ErrAlgorithm},
	{"unknown key", keyNamed("mine", "unpublished"), nil, signature.ErrUnknownKey},
	{"unpublished key with published ID", keyNamed(keyID, "unpublished"), nil, signature.ErrSignature},
}

// setSignature replaces the signature in the Authorization header.
func (w *wire) setSignature(sig []byte) {
	head, _, _ := strings.Cut(w.get("Authorization"), `signature="`)
	w.set("Authorization", head+`signature="`+base64.StdEncoding.EncodeToString(sig)+`"`)
}

// withTrailingBits sets an unused bit of the last character of the signature, which is another
// encoding of the same bytes.
func withTrailingBits(w *wire) {
	s := w.get("Authorization")
	i := strings.LastIndex(s, "==") - 1
	w.set("Authorization", s[:i]+string(s[i]+1)+s[i+1:])
}

// editTarget replaces the first occurrence of old in the target.
func editTarget(old, new string) func(*wire) {
	return func(w *wire) { w.target = strings.Replace(w.target, old, new, 1) }
}

func appendToTarget(s string) func(*wire) { return func(w *wire) { w.target += s } }

// emptyParameter removes the value of a parameter in the query.
func emptyParameter(name string) func(*wire) {
	return func(w *wire) {
		head, tail, _ := strings.Cut(w.target, "&"+name+"=")
		_, rest, more := strings.Cut(tail, "&")
		w.target = head + "&" + name + "="
		if more {
			w.target += "&" + rest
		}
	}
}

// duplicateParameter appends a copy of a parameter to the query. again is the name of the copy.
func duplicateParameter(name, again string) func(*wire) {
	return func(w *wire) {
		_, tail, _ := strings.Cut(w.target, "&"+name+"=")
		value, _, _ := strings.Cut(tail, "&")
		w.target += "&" + again + "=" + value
	}
}

// editDate replaces the date, the last parameter of the query.
func editDate(date string) func(*wire) {
	return func(w *wire) {
		head, _, _ := strings.Cut(w.target, "&date=")
		w.target = head + "&date=" + parameter(date)
	}
}

// countingKeys counts key lookups.
type countingKeys struct {
	signature.StaticKeys
	lookups atomic.Int32
}

func (k *countingKeys) PublicKey(ctx context.Context, id string) (*rsa.PublicKey, error) {
	k.lookups.Add(1)
	return k.StaticKeys.PublicKey(ctx, id)
}

// rejectedEarly contains the reasons that must be found without a key lookup.
var rejectedEarly = map[error]bool{signature.ErrMalformed: true, signature.ErrAlgorithm: true, signature.ErrCoverage: true, signature.ErrHost: true, signature.ErrSkew: true, signature.ErrTooLarge: true}

func TestVerifier_RejectsCallbackAttacks(t *testing.T) {
	t.Parallel()
	for _, a := range callbackAttacks {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			a.run(t, newCallback(), (*wire).signCallback, (*signature.Verifier).VerifyCallback)
		})
	}
}

func TestVerifier_RejectsRedirectAttacks(t *testing.T) {
	t.Parallel()
	for _, a := range redirectAttacks {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			a.run(t, newRedirect(), (*wire).signRedirect, (*signature.Verifier).VerifyRedirect)
		})
	}
}

func (a attack) run(t *testing.T, w *wire, sign func(*wire), verify func(*signature.Verifier, *http.Request) (*signature.Message, error)) {
	source := &countingKeys{StaticKeys: serviceKeys()}
	v, err := signature.NewVerifier(source, []string{host}, &signature.VerifierOptions{Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	if a.signed != nil {
		a.signed(w)
	}
	sign(w)
	if a.sent != nil {
		a.sent(w)
	}

	m, err := verify(v, w.request(t))

	if m != nil || !errors.Is(err, a.want) {
		t.Fatalf("message returned: %v, error = %v, want %v", m != nil, err, a.want)
	}
	e, ok := errors.AsType[*signature.Error](err)
	if !ok || e.Retryable() {
		t.Errorf("error = %v is retryable, so the service would send the message again", err)
	}
	if n := source.lookups.Load(); rejectedEarly[a.want] && n > 0 {
		t.Errorf("the key was looked up: anyone could trigger key lookups")
	}
}
