package attack_test

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/fips140"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/idverify/idverify-go/internal/attack"
)

// lenient is a receiver that reads everything as leniently as some software does. Without one of
// the weaknesses, it accepts only what the service signed recently for its host, so it must reject
// each attack that is not Strict.
type lenient struct {
	setup   attack.Setup
	signed  func(values []string) string // selects from a repeated value, to verify the signature
	checked func(values []string) string // the same, to compare with clock and body
	skew    time.Duration
	maxBody int

	// Weaknesses.
	noSignature   bool   // accepts a message without a signature
	noDigest      bool   // does not compare the digest
	noHost        bool   // does not compare the host
	hostPrefix    bool   // compares only the beginning of the host
	hostSuffix    bool   // compares only the end of the host
	forwardedHost bool   // compares X-Forwarded-Host or Forwarded, if present
	verifiedHost  string // header whose host it verifies, if present
	verifiedURL   string // header whose target it verifies, if present
	noCoverage    bool   // does not require covered fields
	xDate         bool   // compares X-Date, if present
	dateHeader    bool   // compares the Date header of a redirect, if present
	hmac          bool   // lets the message select HMAC, with the public key
	none          bool   // lets the message select no signature
	algorithm     bool   // does not verify with other algorithms
	messageKey    bool   // uses a key in the message
	anyKey        bool   // accepts a key that is not published
}

// Selections from repeated values, as programs make them.
func firstOf(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

func lastOf(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

func joined(values []string) string { return strings.Join(values, ", ") }

func newLenient(s attack.Setup) *lenient {
	return &lenient{setup: s, signed: firstOf, checked: firstOf, skew: 30 * time.Second, maxBody: 8 << 20}
}

// received contains the parts of a message that lenient uses.
type received struct {
	authorization, date string
	header              http.Header
	targets             []string // spellings of the request target
	names               []string // covered names
	signature           []byte
	keys                []*rsa.PublicKey // that may verify the signature
	padded              [][]byte         // what each key makes of the signature: padding and a hash
}

func (l *lenient) accepts(m *attack.Message) bool {
	r, err := m.Request()
	if err != nil {
		return false
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || len(body) > l.maxBody {
		return false
	}
	v, ok := l.receive(r)
	if !ok || !l.freshDate(v, r) || !l.ownHost(r) {
		return false
	}
	required := []string{"(request-target)", "host", "date"}
	if r.Method != http.MethodGet {
		required = append(required, "digest")
		if !l.noDigest && !l.digestMatches(v, body) {
			return false
		}
	}
	for _, name := range required {
		if !l.noCoverage && !slices.Contains(v.names, name) {
			return false
		}
	}
	return l.noSignature || slices.ContainsFunc(v.targets, func(target string) bool {
		return l.verifies(v, r, "post "+target) || l.verifies(v, r, "get "+target) || l.verifies(v, r, strings.ToLower(r.Method)+" "+target)
	})
}

var (
	signatureParameter = regexp.MustCompile(`(?i)\bsignature="([^"]*)"`)
	headersParameter   = regexp.MustCompile(`(?i)\bheaders="([^"]*)"`)
	keyParameter       = regexp.MustCompile(`(?:publicKey|keyId)="([^"]{300,})"`)
)

// receive extracts the parts of a message from header fields, or from the query of a redirect.
func (l *lenient) receive(r *http.Request) (v received, ok bool) {
	v.header = r.Header
	path, query, _ := strings.Cut(cmp.Or(r.Header.Get(l.verifiedURL), r.RequestURI), "?")
	if _, rest, absolute := strings.Cut(path, "://"); absolute {
		path = rest[strings.Index(rest+"/", "/"):]
	}
	v.authorization, v.date = l.signed(r.Header["Authorization"]), l.signed(r.Header["Date"])
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		values, _ := url.ParseQuery(query)
		v.authorization = cmp.Or(base64Text(l.signed(values["authorization"])), v.authorization)
		v.date = cmp.Or(strings.Trim(base64Text(l.signed(values["date"])), "\x00"), v.date)
		signed, _, _ := strings.Cut(query, "&authorization=")
		var rest []string
		for segment := range strings.SplitSeq(query, "&") {
			if name, _, _ := strings.Cut(segment, "="); name != "authorization" && name != "date" && name != "" {
				rest = append(rest, segment)
			}
		}
		id, code := url.QueryEscape(l.signed(values["check_id"])), url.QueryEscape(l.signed(values["code"]))
		v.targets = []string{path + "?" + strings.Join(rest, "&"), path + "?" + signed, path + "?check_id=" + id + "&code=" + code}
	} else {
		v.targets = []string{path + "?" + query, strings.TrimSuffix(path+"?"+query, "?"), l.setup.URL.RequestURI()}
	}
	if decoded, err := url.PathUnescape(path); err == nil && query != "" {
		v.targets = append(v.targets, decoded+"?"+query, "/"+strings.TrimLeft(path, "/")+"?"+query)
	}
	if m := headersParameter.FindStringSubmatch(v.authorization); m != nil {
		v.names = strings.Fields(strings.ToLower(m[1]))
	}
	matches := signatureParameter.FindAllStringSubmatch(v.authorization, -1)
	if len(matches) == 0 {
		return v, l.noSignature
	}
	v.signature = decodeLeniently(matches[len(matches)-1][1])
	v.keys = l.keys(v)
	for _, key := range v.keys {
		power := new(big.Int).Exp(new(big.Int).SetBytes(v.signature), big.NewInt(int64(key.E)), key.N)
		v.padded = append(v.padded, power.Bytes())
	}
	return v, true
}

// keys returns the keys that may verify a message.
func (l *lenient) keys(v received) []*rsa.PublicKey {
	keys := []*rsa.PublicKey{l.setup.Key.Public().(*rsa.PublicKey)}
	if l.anyKey {
		keys = append(keys, l.setup.Unpublished.Public().(*rsa.PublicKey))
	}
	if l.messageKey {
		texts := []string{v.header.Get("X-Public-Key")}
		if m := keyParameter.FindStringSubmatch(v.authorization); m != nil {
			texts = append(texts, m[1])
		}
		for _, text := range texts {
			if key, err := x509.ParsePKIXPublicKey(decodeLeniently(text)); err == nil {
				keys = append(keys, key.(*rsa.PublicKey))
			}
		}
	}
	return keys
}

// freshDate reports whether the date is recent. A date in an unknown format passes, as in npm
// http-signature.
func (l *lenient) freshDate(v received, r *http.Request) bool {
	text := v.date
	if r.Method == http.MethodPost || l.dateHeader {
		text = cmp.Or(l.checked(r.Header["Date"]), text)
	}
	if l.xDate {
		text = cmp.Or(r.Header.Get("X-Date"), text)
	}
	date, err := http.ParseTime(text)
	return err != nil || date.Sub(l.setup.Now).Abs() <= l.skew
}

func (l *lenient) ownHost(r *http.Request) bool {
	name := func(host string) string {
		host = regexp.MustCompile(`:\d+$`).ReplaceAllString(strings.ToLower(host), "")
		return strings.TrimSuffix(host, ".")
	}
	host, own := name(r.Host), name(l.setup.URL.Host)
	if l.forwardedHost {
		_, forwarded, _ := strings.Cut(strings.Trim(r.Header.Get("Forwarded"), `"`), `host="`)
		host = name(cmp.Or(r.Header.Get("X-Forwarded-Host"), forwarded, host))
	}
	return l.noHost || host == own || strings.HasSuffix(host, "."+own) || l.hostPrefix && strings.HasPrefix(host, own) || l.hostSuffix && strings.HasSuffix(host, own)
}

// digestMatches compares the digest with the body, or with the body after decoding and encoding it.
func (l *lenient) digestMatches(v received, body []byte) bool {
	text := l.checked(v.header["Digest"])
	compact := new(bytes.Buffer)
	if json.Compact(compact, body) != nil {
		compact.Reset()
	}
	for value := range strings.SplitSeq(text, ",") {
		for _, content := range [][]byte{body, compact.Bytes()} {
			sum := sha256.Sum256(content)
			_, hash, _ := strings.Cut(value, "=")
			if len(content) > 0 && (strings.EqualFold(hash, hex.EncodeToString(sum[:])) || hash == base64.StdEncoding.EncodeToString(sum[:])) {
				return true
			}
		}
	}
	return false
}

// verifies reports whether the signature verifies with one of several algorithms, with the covered
// names in the order of the message or of the service.
func (l *lenient) verifies(v received, r *http.Request, target string) bool {
	service := strings.Fields("(request-target) host date x-service-callback digest")
	if r.Method == http.MethodGet {
		service = service[:3]
	}
	for _, names := range [][]string{v.names, service} {
		var lines []string
		for _, name := range names {
			value := l.signed(v.header[http.CanonicalHeaderKey(name)])
			switch name {
			case "(request-target)":
				value = target
			case "host":
				_, forwarded, _ := strings.Cut(r.Header.Get(l.verifiedHost), "host=")
				value = cmp.Or(forwarded, r.Header.Get(l.verifiedHost), r.Host)
			case "date":
				value = v.date
			}
			lines = append(lines, name+": "+value)
		}
		if l.verifiesText(v, []byte(strings.Join(lines, "\n"))) {
			return true
		}
	}
	return false
}

func (l *lenient) verifiesText(v received, text []byte) (ok bool) {
	fips140.WithoutEnforcement(func() { ok = l.verifiesAny(v, text) }) // also with SHA-1
	return ok
}

func (l *lenient) verifiesAny(v received, text []byte) bool {
	s1, s256, s512 := sha1.Sum(text), sha256.Sum256(text), sha512.Sum512(text)
	for i, key := range v.keys {
		for hash, sum := range map[crypto.Hash][]byte{crypto.SHA1: s1[:], crypto.SHA256: s256[:], crypto.SHA512: s512[:]} {
			// Most of the texts are not signed. Do not compute the padded hash for each of them.
			if bytes.HasSuffix(v.padded[i], sum) && rsa.VerifyPKCS1v15(key, hash, sum, v.signature) == nil {
				return true
			}
		}
	}
	switch {
	case l.none && strings.Contains(v.authorization, `algorithm="none"`):
		return true
	case l.algorithm && !strings.Contains(v.authorization, `algorithm="rsa-`) && !strings.Contains(v.authorization, `algorithm="hmac-`):
		return true
	case l.hmac && strings.Contains(v.authorization, `algorithm="hmac-sha256"`):
		der, _ := x509.MarshalPKIXPublicKey(v.keys[0])
		mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
		mac.Write(text)
		return hmac.Equal(mac.Sum(nil), v.signature)
	}
	return false
}

// decodeLeniently decodes base64 and ignores invalid characters, as Node.js does.
func decodeLeniently(s string) []byte {
	s = regexp.MustCompile(`[^A-Za-z0-9+/]`).ReplaceAllString(strings.NewReplacer("-", "+", "_", "/").Replace(s), "")
	decoded, _ := base64.RawStdEncoding.DecodeString(s)
	return decoded
}

// base64Text decodes a parameter of a redirect, in which "+" may have become a space.
func base64Text(s string) string {
	return string(decodeLeniently(strings.ReplaceAll(s, " ", "+")))
}
