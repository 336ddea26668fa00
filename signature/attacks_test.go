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

// attack is one message that must be refused: what the service signed, where that is not the usual message, and what was then done to it.
type attack struct {
	name   string
	signed func(*wire)
	sent   func(*wire)
	want   error
}

// Steps of an attack.
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

// allCovered is the usual coverage and these names.
func allCovered(names string) string {
	return "(request-target) host date x-service-callback digest" + names
}

var callbackAttacks = []attack{
	// The message.
	{"not a POST", method("PUT"), nil, signature.ErrMalformed},
	{"a POST turned into a GET", nil, method("GET"), signature.ErrMalformed},
	{"another path", nil, toTarget("/callbacks/other?tenant=7"), signature.ErrSignature},
	{"another query", nil, toTarget("/callbacks/phone?tenant=8"), signature.ErrSignature},
	{"a parameter appended", nil, toTarget(target + "&admin=1"), signature.ErrSignature},
	{"the query cut off", nil, toTarget("/callbacks/phone"), signature.ErrSignature},
	{"an escaped spelling of the path", nil, toTarget("/callbacks%2Fphone?tenant=7"), signature.ErrSignature},
	{"a doubled slash", nil, toTarget("//callbacks/phone?tenant=7"), signature.ErrSignature},
	{"an absolute request target for another host", nil, toTarget("https://other.example.com" + target), signature.ErrHost},
	{"a request target with user", nil, toTarget("https://u@api.example.com" + target), signature.ErrHost},
	{"a request target above 64 KiB", toTarget("/" + strings.Repeat("a", 64<<10)), nil, signature.ErrMalformed},
	{"an ftp request target", nil, toTarget("ftp://api.example.com" + target), signature.ErrMalformed},
	{"a match turned round", nil, withBody(strings.Replace(body, "true", "null", 1)), signature.ErrDigest},
	{"an empty body", nil, withBody(""), signature.ErrDigest},
	{"a body with a byte more", nil, withBody(body + " "), signature.ErrDigest},
	{"a body above MaxBody", func(w *wire) { withBody(strings.Repeat("a", 1<<20+1))(w); w.set("Digest", digestOf(w.body)) }, nil, signature.ErrTooLarge},

	// The Authorization header.
	{"no Authorization", nil, drop("Authorization"), signature.ErrMalformed},
	{"an empty Authorization", nil, set("Authorization", ""), signature.ErrMalformed},
	{"two Authorizations", nil, add("Authorization", "Basic Og=="), signature.ErrMalformed},
	{"the scheme Basic", nil, set("Authorization", "Basic Og=="), signature.ErrMalformed},
	{"the scheme alone", nil, set("Authorization", "Signature"), signature.ErrMalformed},
	{"another scheme", nil, auth("Signature keyId", "Signatures keyId"), signature.ErrMalformed},
	{"no space behind the scheme", nil, auth("Signature keyId", "SignaturekeyId"), signature.ErrMalformed},
	{"no keyId", nil, auth(`keyId="key-1",`, ""), signature.ErrMalformed},
	{"no algorithm", nil, auth(`algorithm="rsa-sha256",`, ""), signature.ErrMalformed},
	{"no headers", nil, auth(`headers="`+allCovered("")+`",`, ""), signature.ErrMalformed},
	{"no signature", nil, auth(`,signature="`, `,sig="`), signature.ErrMalformed},
	{"keyId twice", nil, auth(`keyId=`, `keyId="key-1",keyId=`), signature.ErrMalformed},
	{"keyId twice in two spellings", nil, auth(`keyId=`, `KEYID="other",keyId=`), signature.ErrMalformed},
	{"signature twice", nil, auth(`,signature=`, `,signature="AAAA",signature=`), signature.ErrMalformed},
	{"an unknown parameter twice", nil, auth(`keyId=`, `a="1",a="2",keyId=`), signature.ErrMalformed},
	{"an empty keyId", nil, auth(`keyId="key-1"`, `keyId=""`), signature.ErrMalformed},
	{"an endless keyId", nil, auth("key-1", strings.Repeat("k", 257)), signature.ErrMalformed},
	{"an escaped quote in the keyId", nil, auth("key-1", `key\"1`), signature.ErrMalformed},
	{"a backslash in the keyId", nil, auth("key-1", `key\\1`), signature.ErrMalformed},
	{"a keyId outside ASCII", nil, auth("key-1", "kéy-1"), signature.ErrMalformed},
	{"a tab in the keyId", nil, auth("key-1", "key\t1"), signature.ErrMalformed},
	{"an open quote", nil, auth(`",algorithm`, `,algorithm`), signature.ErrMalformed},
	{"text behind a quote", nil, auth(`"key-1"`, `"key-1"x`), signature.ErrMalformed},
	{"text behind the last quote", nil, func(w *wire) { w.set("Authorization", w.get("Authorization")+"x") }, signature.ErrMalformed},
	{"a backslash in an unknown parameter", nil, auth("Signature ", `Signature x="\",`), signature.ErrMalformed},
	{"a comma in front", nil, auth("Signature ", "Signature ,"), signature.ErrMalformed},
	{"two commas", nil, auth(`",algorithm`, `",,algorithm`), signature.ErrMalformed},
	{"a comma at the end", nil, func(w *wire) { w.set("Authorization", w.get("Authorization")+",") }, signature.ErrMalformed},
	{"a semicolon for a comma", nil, auth(`",algorithm`, `";algorithm`), signature.ErrMalformed},
	{"space before an equals sign", nil, auth("keyId=", "keyId ="), signature.ErrMalformed},
	{"a parameter without value", nil, auth("Signature ", "Signature a,"), signature.ErrMalformed},
	{"a parameter without name", nil, auth("Signature ", `Signature ="a",`), signature.ErrMalformed},
	{"seventeen parameters", nil, auth("Signature ", "Signature a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1,j=1,k=1,l=1,m=1,"), signature.ErrMalformed},
	{"an Authorization above 8 KiB", nil, auth("Signature ", `Signature pad="`+strings.Repeat("a", 8<<10)+`",`), signature.ErrMalformed},
	{"a signature that is not base64", nil, auth(`signature="`, `signature="*`), signature.ErrMalformed},
	{"a signature without padding", nil, auth(`=="`, `"`), signature.ErrMalformed},
	{"loose bits at the end of a signature", nil, withTrailingBits, signature.ErrMalformed},
	{"an empty signature", nil, func(w *wire) {
		w.set("Authorization", w.get("Authorization")[:strings.Index(w.get("Authorization"), `ture="`)]+`ture=""`)
	}, signature.ErrMalformed},

	// The algorithm. The signature is right each time, for an algorithm that must not count.
	{"hs2019", hashed("hs2019", crypto.SHA256), nil, signature.ErrAlgorithm},
	{"rsa-sha1", hashed("rsa-sha1", crypto.SHA1), nil, signature.ErrAlgorithm},
	{"rsa-sha512", hashed("rsa-sha512", crypto.SHA512), nil, signature.ErrAlgorithm},
	{"rsa-sha512 called rsa-sha256", hashed("rsa-sha256", crypto.SHA512), nil, signature.ErrSignature},
	{"hmac-sha256", nil, auth("rsa-sha256", "hmac-sha256"), signature.ErrAlgorithm},
	{"ecdsa-sha256", nil, auth("rsa-sha256", "ecdsa-sha256"), signature.ErrAlgorithm},
	{"none", nil, auth("rsa-sha256", "none"), signature.ErrAlgorithm},
	{"RSA-SHA256 in capitals", nil, auth("rsa-sha256", "RSA-SHA256"), signature.ErrAlgorithm},
	{"an empty algorithm", nil, auth(`"rsa-sha256"`, `""`), signature.ErrMalformed},

	// The coverage. The signature is the service's own, over less than it must be.
	{"the request target not covered", covering("host date x-service-callback digest"), nil, signature.ErrCoverage},
	{"the host not covered", covering("(request-target) date x-service-callback digest"), nil, signature.ErrCoverage},
	{"the date not covered", covering("(request-target) host x-service-callback digest"), nil, signature.ErrCoverage},
	{"the kind not covered", covering("(request-target) host date digest"), nil, signature.ErrCoverage},
	{"the digest not covered", covering("(request-target) host date x-service-callback"), nil, signature.ErrCoverage},
	{"a redirect's signature on a callback", covering("(request-target) host date"), nil, signature.ErrCoverage},
	{"only the date", covering("date"), nil, signature.ErrCoverage},
	{"the date covered twice", covering(allCovered(" date")), nil, signature.ErrCoverage},
	{"(created)", covering(allCovered(" (created)")), nil, signature.ErrCoverage},
	{"(expires)", covering(allCovered(" (expires)")), nil, signature.ErrCoverage},
	{"a covered header that is not there", covering(allCovered(" x-absent")), nil, signature.ErrCoverage},
	{"two dates, the signed one first", nil, add("Date", now.Add(time.Second).Format(http.TimeFormat)), signature.ErrCoverage},
	{"two digests", nil, add("Digest", digestOf("other")), signature.ErrCoverage},
	{"two kinds", nil, add("X-Service-Callback", "subscriber_check"), signature.ErrCoverage},
	{"no date", nil, drop("Date"), signature.ErrCoverage},
	{"no digest", nil, drop("Digest"), signature.ErrCoverage},
	{"no kind", nil, drop("X-Service-Callback"), signature.ErrCoverage},
	{"capitals in the covered names", covering(strings.Replace(allCovered(""), "date", "Date", 1)), nil, signature.ErrMalformed},
	{"two spaces between the covered names", nil, auth("host date", "host  date"), signature.ErrMalformed},
	{"seventeen covered names", covering(allCovered(" a b c d e f g h i j k l")), nil, signature.ErrMalformed},
	{"an open parenthesis", nil, auth("(request-target)", "(request-target"), signature.ErrMalformed},
	{"no covered names", nil, auth(allCovered(""), ""), signature.ErrMalformed},
	{"the covered names in another order", nil, auth("host date", "date host"), signature.ErrSignature},

	// The host. The service signs for all its customers with one key.
	{"signed for another customer", toHost("api.example.net"), nil, signature.ErrHost},
	{"signed for another customer, sent to us", toHost("api.example.net"), toHost(host), signature.ErrSignature},
	{"a host below ours", toHost("x.api.example.com"), nil, signature.ErrHost},
	{"a host that begins as ours", toHost("api.example.com.example.net"), nil, signature.ErrHost},
	{"our host on another port", toHost("api.example.com:8443"), nil, signature.ErrHost},
	{"our host with a dot", toHost("api.example.com."), nil, signature.ErrHost},
	{"our name only in X-Forwarded-Host", func(w *wire) { w.host = "api.example.net"; w.add("X-Forwarded-Host", host) }, nil, signature.ErrHost},

	// The date.
	{"six seconds old", dated(-6 * time.Second), nil, signature.ErrSkew},
	{"six seconds ahead", dated(6 * time.Second), nil, signature.ErrSkew},
	{"83 minutes old, which is 5000 s", dated(-5000 * time.Second), nil, signature.ErrSkew},
	{"of the year 1", set("Date", "Mon, 01 Jan 0001 00:00:00 GMT"), nil, signature.ErrSkew},
	{"an old date made new", dated(-time.Hour), dated(0), signature.ErrSignature},
	{"an old date with a new x-date", func(w *wire) { dated(-time.Hour)(w); w.add("X-Date", now.Format(http.TimeFormat)) }, nil, signature.ErrSkew},
	{"a date that is empty", set("Date", ""), nil, signature.ErrMalformed},
	{"a date of RFC 850", set("Date", now.Format("Monday, 02-Jan-06 15:04:05 GMT")), nil, signature.ErrMalformed},
	{"a date of asctime", set("Date", now.Format(time.ANSIC)), nil, signature.ErrMalformed},
	{"a date of RFC 3339", set("Date", now.Format(time.RFC3339)), nil, signature.ErrMalformed},
	{"a date in UTC by name", set("Date", now.Format(time.RFC1123)), nil, signature.ErrMalformed},
	{"a date in another zone", set("Date", now.Format(time.RFC1123Z)), nil, signature.ErrMalformed},
	{"a date of the wrong weekday", edit("Date", "Fri", "Mon"), nil, signature.ErrMalformed},
	{"a date with fractions", edit("Date", ":05 ", ":05.5 "), nil, signature.ErrMalformed},
	{"a date in small letters", edit("Date", "Jan", "jan"), nil, signature.ErrMalformed},

	// The digest.
	{"the digest of another body", nil, set("Digest", digestOf("other")), signature.ErrSignature},
	{"the digest of another body, signed", set("Digest", digestOf("other")), nil, signature.ErrDigest},
	{"an MD5", set("Digest", "MD5=1B2M2Y8AsgTpgAmY7PhCfg=="), nil, signature.ErrDigest},
	{"a SHA-512", set("Digest", "SHA-512="+strings.Repeat("a", 128)), nil, signature.ErrDigest},
	{"a hash of 63 digits", set("Digest", "SHA-256="+strings.Repeat("a", 63)), nil, signature.ErrDigest},
	{"a hash that is not hexadecimal", set("Digest", "SHA-256="+strings.Repeat("g", 64)), nil, signature.ErrDigest},
	{"base64 of 33 bytes", set("Digest", "SHA-256="+base64.StdEncoding.EncodeToString(make([]byte, 33))), nil, signature.ErrDigest},
	{"base64 of 31 bytes", set("Digest", "SHA-256="+base64.StdEncoding.EncodeToString(make([]byte, 31))), nil, signature.ErrDigest},
	{"base64 with loose bits", set("Digest", "SHA-256="+strings.Repeat("A", 42)+"B="), nil, signature.ErrDigest},
	{"two hashes in one digest", func(w *wire) { w.set("Digest", w.get("Digest")+","+digestOf("other")) }, nil, signature.ErrDigest},
	{"a digest without name", set("Digest", strings.Repeat("a", 64)), nil, signature.ErrDigest},
	{"an empty digest", set("Digest", ""), nil, signature.ErrDigest},

	// The kind and the key.
	{"another kind", nil, set("X-Service-Callback", "subscriber_check"), signature.ErrSignature},
	{"an empty kind", set("X-Service-Callback", ""), nil, signature.ErrMalformed},
	{"a key that is not the service's", keyNamed("mine", "unpublished"), nil, signature.ErrUnknownKey},
	{"a key that is not the service's, under its id", keyNamed(keyID, "unpublished"), nil, signature.ErrSignature},
	{"a path for a key id", keyNamed("../../etc/passwd", "unpublished"), nil, signature.ErrUnknownKey},
	{"a URL for a key id", keyNamed("https://example.net/jwks.json", "unpublished"), nil, signature.ErrUnknownKey},
	{"a signature of zeros", nil, func(w *wire) { w.setSignature(make([]byte, 256)) }, signature.ErrSignature},
	{"a short signature", nil, func(w *wire) { w.setSignature([]byte{1}) }, signature.ErrSignature},
	{"a signature longer than the key", nil, func(w *wire) { w.setSignature(make([]byte, 512)) }, signature.ErrSignature},
}

var redirectAttacks = []attack{
	{"not a GET", method("POST"), nil, signature.ErrMalformed},
	{"a HEAD", nil, method("HEAD"), signature.ErrMalformed},
	{"another check", nil, editTarget("check_id=c1", "check_id=c2"), signature.ErrSignature},
	{"another code", nil, editTarget("code=a%2Bb", "code=a%2Bc"), signature.ErrSignature},
	{"the code cut out", nil, editTarget("&code=a%2Bb", ""), signature.ErrSignature},
	{"a parameter in front", nil, editTarget("?", "?x=1&"), signature.ErrSignature},
	{"a parameter at the end", nil, appendToTarget("&x=1"), signature.ErrSignature},
	{"an empty segment", nil, appendToTarget("&"), signature.ErrSignature},
	{"the parameters in another order", nil, editTarget("check_id=c1&code=a%2Bb", "code=a%2Bb&check_id=c1"), signature.ErrSignature},
	{"another escape of the same code", nil, editTarget("%2B", "%2b"), signature.ErrSignature},
	{"another path", nil, editTarget("/back", "/login"), signature.ErrSignature},
	{"two check ids, both signed", toTarget("/back?check_id=c1&check_id=c2"), nil, signature.ErrMalformed},
	{"two check ids, one escaped", toTarget("/back?check_id=c1&check%5Fid=c2"), nil, signature.ErrMalformed},
	{"no check id", toTarget("/back?code=a"), nil, signature.ErrMalformed},
	{"no query", nil, toTarget("/back"), signature.ErrMalformed},
	{"a query above 64 KiB", toTarget("/back?check_id=c1&a=" + strings.Repeat("a", 64<<10)), nil, signature.ErrMalformed},
	{"no authorization", nil, editTarget("&authorization=", "&auth="), signature.ErrMalformed},
	{"no date", nil, editTarget("&date=", "&day="), signature.ErrMalformed},
	{"two authorizations", nil, duplicateParameter("authorization", "authorization"), signature.ErrMalformed},
	{"two authorizations, one escaped", nil, duplicateParameter("authorization", "%61uthorization"), signature.ErrMalformed},
	{"two dates", nil, duplicateParameter("date", "date"), signature.ErrMalformed},
	{"two dates, one escaped", nil, duplicateParameter("date", "dat%65"), signature.ErrMalformed},
	{"two dates, one without value", nil, appendToTarget("&date"), signature.ErrMalformed},
	{"an authorization without value", nil, emptyParameter("authorization"), signature.ErrMalformed},
	{"a date without value", nil, emptyParameter("date"), signature.ErrMalformed},
	{"the parts in headers", nil, func(w *wire) {
		w.target = "/back?check_id=c1&code=a%2Bb"
		w.add("Date", now.Format(http.TimeFormat))
		w.signCallback()
	}, signature.ErrMalformed},
	{"an authorization that is not base64", nil, editTarget("authorization=", "authorization=*"), signature.ErrMalformed},
	{"an authorization in base64 for URLs", nil, editTarget("authorization=", "authorization=-_-_"), signature.ErrMalformed},
	{"an authorization with a broken escape", nil, editTarget("authorization=", "authorization=%zz"), signature.ErrMalformed},
	{"a line break in the base64", nil, editTarget("authorization=", "authorization=%0A"), signature.ErrMalformed},
	{"a date of two lines", nil, editDate(now.Format(http.TimeFormat) + "\nhost: " + host), signature.ErrMalformed},
	{"a date with a NUL", nil, editDate(now.Format(http.TimeFormat) + "\x00"), signature.ErrMalformed},
	{"an old date", dated(-6 * time.Second), nil, signature.ErrSkew},
	{"a date ahead", dated(6 * time.Second), nil, signature.ErrSkew},
	{"an old date made new", dated(-time.Hour), editDate(now.Format(http.TimeFormat)), signature.ErrSignature},
	{"an old date with a new Date header", dated(-time.Hour), add("Date", now.Format(http.TimeFormat)), signature.ErrSkew},
	{"signed for another customer", toHost("app.example.net"), nil, signature.ErrHost},
	{"signed for another customer, sent to us", toHost("app.example.net"), toHost(host), signature.ErrSignature},
	{"the host not covered", covering("(request-target) date"), nil, signature.ErrCoverage},
	{"the request target not covered", covering("host date"), nil, signature.ErrCoverage},
	{"the date not covered", covering("(request-target) host"), nil, signature.ErrCoverage},
	{"(expires)", covering("(request-target) host date (expires)"), nil, signature.ErrCoverage},
	{"the authorization covered by itself", covering("(request-target) host date authorization"), nil, signature.ErrCoverage},
	{"hs2019", hashed("hs2019", crypto.SHA256), nil, signature.ErrAlgorithm},
	{"an unknown key", keyNamed("mine", "unpublished"), nil, signature.ErrUnknownKey},
	{"another's key", keyNamed(keyID, "unpublished"), nil, signature.ErrSignature},
}

// setSignature replaces the signature's bytes in the Authorization header.
func (w *wire) setSignature(sig []byte) {
	head, _, _ := strings.Cut(w.get("Authorization"), `signature="`)
	w.set("Authorization", head+`signature="`+base64.StdEncoding.EncodeToString(sig)+`"`)
}

// withTrailingBits sets a bit that the last character of a signature has and its bytes have not: another spelling of the same signature.
func withTrailingBits(w *wire) {
	s := w.get("Authorization")
	i := strings.LastIndex(s, "==") - 1
	w.set("Authorization", s[:i]+string(s[i]+1)+s[i+1:])
}

// editTarget replaces text in the target, once.
func editTarget(old, new string) func(*wire) {
	return func(w *wire) { w.target = strings.Replace(w.target, old, new, 1) }
}

func appendToTarget(s string) func(*wire) { return func(w *wire) { w.target += s } }

// emptied leaves a parameter of the query without its value.
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

// repeated appends a parameter of the query once more, under that spelling of its name.
func duplicateParameter(name, again string) func(*wire) {
	return func(w *wire) {
		_, tail, _ := strings.Cut(w.target, "&"+name+"=")
		value, _, _ := strings.Cut(tail, "&")
		w.target += "&" + again + "=" + value
	}
}

// redated replaces the date in the query.
func editDate(date string) func(*wire) {
	return func(w *wire) {
		head, _, _ := strings.Cut(w.target, "&date=")
		w.target = head + "&date=" + parameter(date)
	}
}

// countingKeys counts what is asked of it.
type countingKeys struct {
	signature.StaticKeys
	asked atomic.Int32
}

func (k *countingKeys) PublicKey(ctx context.Context, id string) (*rsa.PublicKey, error) {
	k.asked.Add(1)
	return k.StaticKeys.PublicKey(ctx, id)
}

// cheap are the reasons that must be found without asking for a key.
var rejectedEarly = map[error]bool{signature.ErrMalformed: true, signature.ErrAlgorithm: true, signature.ErrCoverage: true, signature.ErrHost: true, signature.ErrSkew: true, signature.ErrTooLarge: true}

func TestEveryAttackOnACallbackIsRefusedForItsReason(t *testing.T) {
	t.Parallel()
	for _, a := range callbackAttacks {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			a.run(t, newCallback(), (*wire).signCallback, (*signature.Verifier).VerifyCallback)
		})
	}
}

func TestEveryAttackOnARedirectIsRefusedForItsReason(t *testing.T) {
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
		t.Fatalf("got message %v and error %v, want it refused for: %v", m != nil, err, a.want)
	}
	e, ok := errors.AsType[*signature.Error](err)
	if !ok || e.Retryable() {
		t.Errorf("%v does not say that the message is bad: the service would send it again", err)
	}
	if asked := source.asked.Load(); rejectedEarly[a.want] && asked > 0 {
		t.Errorf("a key was asked for: strangers could make us fetch keys at will")
	}
}
