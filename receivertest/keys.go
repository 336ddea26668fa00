package receivertest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"sync"
)

// KeySetPath is the path at which [Keys] serves the key set. It is the same as that of the service.
const KeySetPath = "/.well-known/jwks.json"

// keySetHost is the host of Keys.URL. The domain invalid never exists (RFC 6761).
const keySetHost = "key-set.invalid"

// Keys contains the keys that sign the messages of an examination, and serves their public parts as
// a JSON Web Key Set. An examination also makes the key set fail, and publishes a new key. The IDs
// of the keys are random, so that a receiver does not confuse them with those of an earlier
// examination.
//
// Create Keys with [NewKeys]; the zero value is invalid. Keys is safe for concurrent use.
// Examinations with the same Keys run one after the other.
type Keys struct {
	signing     *rsa.PrivateKey
	unpublished *rsa.PrivateKey
	generate    func() (*rsa.PrivateKey, error) // returns the key that an examination publishes
	turn        chan struct{}                   // contains a value while an examination is in progress

	mu        sync.Mutex // guards the fields below
	published []publishedKey
	fault     keySetFault
	faultEnd  chan struct{} // closed when the current fault ends
	requests  int           // for the key set
	otherPath string        // path of the last request for anything else, or empty
}

type publishedKey struct {
	id  string
	key *rsa.PublicKey
}

// keySetFault is a fault of the key set.
type keySetFault int

const (
	keySetWorks keySetFault = iota
	keySetError             // status 500
	keySetMalformed
	keySetHangs
)

// NewKeys returns new RSA keys of 2048 bits.
func NewKeys() (*Keys, error) {
	var pair [2]*rsa.PrivateKey
	for i := range pair {
		var err error
		if pair[i], err = generateKey(); err != nil {
			return nil, fmt.Errorf("receivertest: new keys: %w", err)
		}
	}
	return newKeys(pair[0], pair[1]), nil
}

func generateKey() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) }

func newKeys(signing, unpublished *rsa.PrivateKey) *Keys {
	k := &Keys{signing: signing, unpublished: unpublished, generate: generateKey, turn: make(chan struct{}, 1)}
	k.publish(&signing.PublicKey)
	return k
}

// publish adds a key to the key set, unless it is already in it.
func (k *Keys) publish(key *rsa.PublicKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	id := keyIDOf(key)
	for _, p := range k.published {
		if p.id == id {
			return
		}
	}
	k.published = append(k.published, publishedKey{id, key})
}

// remove removes a key from the key set.
func (k *Keys) remove(key *rsa.PublicKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	id := keyIDOf(key)
	for i, p := range k.published {
		if p.id == id {
			k.published = append(k.published[:i:i], k.published[i+1:]...)
			return
		}
	}
}

// keyIDOf returns the key ID under which a key is published.
func keyIDOf(key *rsa.PublicKey) string {
	sum := sha256.Sum256(key.N.Bytes())
	return "examine-" + hex.EncodeToString(sum[:6])
}

// setFault starts or ends a fault. Requests that hang continue.
func (k *Keys) setFault(f keySetFault) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.faultEnd != nil {
		close(k.faultEnd)
		k.faultEnd = nil
	}
	if k.fault = f; f != keySetWorks {
		k.faultEnd = make(chan struct{})
	}
}

// failing reports whether a fault is in progress.
func (k *Keys) failing() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.fault != keySetWorks
}

// requested returns the number of requests for the key set, and the path of the last request for
// anything else.
func (k *Keys) requested() (n int, otherPath string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.requests, k.otherPath
}

// URL returns the URL of the key set for clients that use [Keys.Client].
func (k *Keys) URL() string { return "https://" + keySetHost + KeySetPath }

// Client returns an HTTP client that reaches the key set at [Keys.URL] in memory, and nothing else.
// Use it for JWKSOptions.HTTPClient. For receivers in other processes, serve Keys as an
// http.Handler instead.
func (k *Keys) Client() *http.Client { return &http.Client{Transport: keysTransport{k}} }

// ServeHTTP serves the key set at [KeySetPath].
func (k *Keys) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != KeySetPath {
		k.mu.Lock()
		k.otherPath = r.URL.Path
		k.mu.Unlock()
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		return
	}
	k.mu.Lock()
	k.requests++
	fault, faultEnd := k.fault, k.faultEnd
	keySet := k.keySet()
	k.mu.Unlock()

	switch fault {
	case keySetHangs:
		select {
		case <-faultEnd:
		case <-r.Context().Done():
		}
		fallthrough // receivers that still wait must not get a key set
	case keySetError:
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	case keySetMalformed:
		keySet = keySet[:len(keySet)/2]
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=30")
	w.Write(keySet)
}

// keySet returns the key set as JSON. The caller must hold k.mu.
func (k *Keys) keySet() []byte {
	type jwk struct {
		Kty string `json:"kty"`
		E   string `json:"e"`
		N   string `json:"n"`
		Use string `json:"use"`
		Kid string `json:"kid"`
		Alg string `json:"alg"`
	}
	set := struct {
		Keys []jwk `json:"keys"`
	}{Keys: []jwk{}}
	for _, p := range k.published {
		e := big.NewInt(int64(p.key.E)).Bytes()
		set.Keys = append(set.Keys, jwk{
			Kty: "RSA", Use: "sig", Alg: "RS256", Kid: p.id,
			E: base64.RawURLEncoding.EncodeToString(e), N: base64.RawURLEncoding.EncodeToString(p.key.N.Bytes()),
		})
	}
	text, _ := json.Marshal(set) // cannot fail
	return text
}

// begin waits until no other examination uses the keys.
func (k *Keys) begin(ctx context.Context) error {
	select {
	case k.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("receivertest: examine: %w", ctx.Err())
	}
}

func (k *Keys) end() { <-k.turn }

// keysTransport sends requests to a Keys in memory.
type keysTransport struct{ keys *Keys }

func (t keysTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	if r.URL.Scheme != "https" || r.URL.Host != keySetHost {
		return nil, errors.New("receivertest: the client of Keys only reaches Keys.URL")
	}
	w := &keysResponse{header: make(http.Header), status: http.StatusOK}
	t.keys.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// keysResponse is a response in memory.
type keysResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *keysResponse) Header() http.Header         { return w.header }
func (w *keysResponse) WriteHeader(status int)      { w.status = status }
func (w *keysResponse) Write(p []byte) (int, error) { return w.body.Write(p) }
