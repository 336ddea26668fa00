package signature_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"io"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/attack"
	"github.com/idverify/idverify-go/signature"
)

const (
	host   = "api.example.com"
	keyID  = "key-1"
	target = "/callbacks/phone?tenant=7"
)

// body is the body of newCallback.
var body = newCallback().Body

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

// newCallback returns a valid callback that is not signed yet.
func newCallback() *attack.Message { return setupFor("/callbacks/phone", "tenant=7").Callback() }

// newRedirect returns a valid redirect that is not signed yet. Until then, its date is a header
// field.
func newRedirect() *attack.Message { return setupFor("/back", "").Redirect() }

func signedCallback() *attack.Message { m := newCallback(); m.Sign(); return m }

func signedRedirect() *attack.Message { m := newRedirect(); m.Sign(); return m }

// setupFor returns the values of valid messages to a URL on host.
func setupFor(path, query string) attack.Setup {
	return attack.Setup{
		URL:   &url.URL{Scheme: "https", Host: host, Path: path, RawQuery: query},
		KeyID: keyID, Key: keys()["service-1"], Unpublished: keys()["unpublished"],
		Now: now, CheckID: "c1",
	}
}

// request returns the message as net/http's server parses it.
func request(tb testing.TB, m *attack.Message) *http.Request {
	tb.Helper()
	r, err := m.Request()
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// Changes of a message.
func set(name, value string) func(*attack.Message) {
	return func(m *attack.Message) { m.Set(name, value) }
}

func add(name, value string) func(*attack.Message) {
	return func(m *attack.Message) { m.Add(name, value) }
}

func drop(name string) func(*attack.Message) { return func(m *attack.Message) { m.Drop(name) } }

func edit(name, old, new string) func(*attack.Message) {
	return func(m *attack.Message) { m.Edit(name, old, new) }
}

func auth(old, new string) func(*attack.Message) { return edit("Authorization", old, new) }

func covering(names string) func(*attack.Message) {
	return func(m *attack.Message) { m.Covered = names }
}

func method(name string) func(*attack.Message)   { return func(m *attack.Message) { m.Method = name } }
func toHost(name string) func(*attack.Message)   { return func(m *attack.Message) { m.Host = name } }
func toTarget(uri string) func(*attack.Message)  { return func(m *attack.Message) { m.Target = uri } }
func withBody(body string) func(*attack.Message) { return func(m *attack.Message) { m.SetBody(body) } }

func dated(d time.Duration) func(*attack.Message) {
	return set("Date", now.Add(d).Format(http.TimeFormat))
}

func keyNamed(id, key string) func(*attack.Message) {
	return func(m *attack.Message) { m.KeyID, m.Key = id, keys()[key] }
}

func hashed(algorithm string, hash crypto.Hash) func(*attack.Message) {
	return func(m *attack.Message) { m.Algorithm, m.Hash = algorithm, hash }
}

// allCovered returns the names that a callback must cover, with more names appended.
func allCovered(names string) string {
	return "(request-target) host date x-service-callback digest" + names
}

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
