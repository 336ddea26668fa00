package signature_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto"
	"crypto/fips140"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idverify/idverify-go/signature"
)

const (
	host   = "api.example.com"
	keyID  = "key-1"
	body   = `{"check_id":"c1","status":"COMPLETED","match":true}`
	target = "/callbacks/phone?tenant=7"
)

// now is the date of messages and the time of clock.
var now = time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)

func clock() time.Time { return now }

//go:embed testdata/keys.pem
var keysPEM []byte

// keys contains 2048-bit keys (service-1, service-2, unpublished), a 4096-bit key (strong) and two
// unusable keys: weak (1024 bits) and oversized (4352 bits).
var keys = sync.OnceValue(func() map[string]*rsa.PrivateKey {
	keys := make(map[string]*rsa.PrivateKey)
	names := []string{"service-1", "service-2", "unpublished", "strong", "weak", "oversized"}
	for rest := keysPEM; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return keys
		}
		key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
		if err != nil {
			panic(err)
		}
		keys[names[len(keys)]] = key
	}
})

// serviceKeys returns the published keys of the service.
func serviceKeys() signature.StaticKeys {
	return signature.StaticKeys{keyID: &keys()["service-1"].PublicKey, "weak": &keys()["weak"].PublicKey, "oversized": &keys()["oversized"].PublicKey}
}

func newVerifier(tb testing.TB, opts signature.VerifierOptions) *signature.Verifier {
	tb.Helper()
	if opts.Now == nil {
		opts.Now = clock
	}
	v, err := signature.NewVerifier(serviceKeys(), []string{host}, &opts)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

func newSigner(tb testing.TB, opts signature.SignerOptions) *signature.Signer {
	tb.Helper()
	if opts.Now == nil {
		opts.Now = clock
	}
	s, err := signature.NewSigner(keyID, keys()["service-1"], &opts)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// field is a header of a wire.
type field struct{ name, value string }

// wire is a raw message, so that tests can send invalid ones. Its signing code shares nothing with
// the package.
type wire struct {
	method, target, host string
	fields               []field
	body                 string

	// Input of the signature.
	keyID     string
	key       *rsa.PrivateKey
	algorithm string
	hash      crypto.Hash
	covered   string
	signedAs  string // request target in the signing string; default method and target
}

// newCallback returns a valid callback that is not signed yet.
func newCallback() *wire {
	sum := sha256.Sum256([]byte(body))
	return &wire{
		method: "POST", target: target, host: host, body: body,
		fields: []field{
			{"Content-Type", "application/json"},
			{"Content-Length", fmt.Sprint(len(body))},
			{"Date", now.Format(http.TimeFormat)},
			{"X-Service-Callback", "phone_check"},
			{"Digest", "SHA-256=" + hex.EncodeToString(sum[:])},
		},
		keyID: keyID, key: keys()["service-1"], algorithm: "rsa-sha256", hash: crypto.SHA256,
		covered: "(request-target) host date x-service-callback digest",
	}
}

// newRedirect returns a valid redirect that is not signed yet. Until then, its date is in fields.
func newRedirect() *wire {
	w := newCallback()
	w.method, w.target, w.body = "GET", "/back?check_id=c1&code=a%2Bb", ""
	w.fields = []field{{"Date", now.Format(http.TimeFormat)}}
	w.covered = "(request-target) host date"
	return w
}

func (w *wire) get(name string) string {
	for _, f := range w.fields {
		if strings.EqualFold(f.name, name) {
			return f.value
		}
	}
	return ""
}

func (w *wire) set(name, value string) { w.drop(name); w.add(name, value) }

func (w *wire) add(name, value string) { w.fields = append(w.fields, field{name, value}) }

func (w *wire) drop(name string) {
	w.fields = slices.DeleteFunc(w.fields, func(f field) bool { return strings.EqualFold(f.name, name) })
}

// edit replaces all occurrences of old in a header.
func (w *wire) edit(name, old, new string) {
	w.set(name, strings.ReplaceAll(w.get(name), old, new))
}

// authorization signs the message and returns the Authorization.
func (w *wire) authorization() string {
	var lines []string
	for name := range strings.SplitSeq(w.covered, " ") {
		value := w.get(name)
		switch name {
		case "(request-target)":
			value = strings.ToLower(w.method) + " " + w.target
			if w.signedAs != "" {
				value = w.signedAs
			}
		case "host":
			value = w.host
		}
		lines = append(lines, name+": "+value)
	}
	var sig []byte
	var err error
	// Attackers also sign with SHA-1 and small keys, which GODEBUG=fips140=only forbids.
	fips140.WithoutEnforcement(func() {
		h := w.hash.New()
		h.Write([]byte(strings.Join(lines, "\n")))
		sig, err = rsa.SignPKCS1v15(nil, w.key, w.hash, h.Sum(nil))
	})
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`Signature keyId="%s",algorithm="%s",headers="%s",signature="%s"`, w.keyID, w.algorithm, w.covered, base64.StdEncoding.EncodeToString(sig))
}

// signCallback sets the Authorization header.
func (w *wire) signCallback() { w.set("Authorization", w.authorization()) }

// signRedirect appends authorization and date to the query, and removes the date from fields.
func (w *wire) signRedirect() {
	authorization := w.authorization()
	join := "?"
	if strings.Contains(w.target, "?") {
		join = "&"
	}
	w.target += join + "authorization=" + parameter(authorization) + "&date=" + parameter(w.get("Date"))
	w.drop("Date")
}

// parameter encodes a value of the redirect's query.
func parameter(s string) string {
	return url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(s)))
}

// request returns the message as net/http's server parses it.
func (w *wire) request(tb testing.TB) *http.Request {
	tb.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", w.method, w.target, w.host)
	for _, f := range w.fields {
		fmt.Fprintf(&b, "%s: %s\r\n", f.name, f.value)
	}
	b.WriteString("\r\n" + w.body)
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(b.String())))
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func signedCallback() *wire { w := newCallback(); w.signCallback(); return w }

func signedRedirect() *wire { w := newRedirect(); w.signRedirect(); return w }

// restored returns a request body with the given content.
func restored(content []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(content)) }

// slowKeys is a key source that calls wait before each lookup.
type slowKeys struct {
	signature.StaticKeys
	wait func()
}

func (k slowKeys) PublicKey(ctx context.Context, id string) (*rsa.PublicKey, error) {
	k.wait()
	return k.StaticKeys.PublicKey(ctx, id)
}
