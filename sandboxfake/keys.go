package sandboxfake

import (
	"crypto/rsa"
	"encoding/base64"
	"math/big"
	"net/http"
	"strconv"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/signature"
)

// keySetMaxAge is how long a client may keep the key set, and how long a retired key stays in it (contract, section 1, "Cache-Control: max-age set").
const keySetMaxAge = 5 * time.Minute

// keyRing holds the keys that sign callbacks and redirects. The last one signs; all are published.
type keyRing struct {
	keys     []signingKey
	made     int             // how many there ever were
	wrongKey *rsa.PrivateKey // never published
}

type signingKey struct {
	id  string
	key *rsa.PrivateKey
}

// add appends the next key, which signs from then on. The fixed keys are reused in turn under new
// IDs; fresh keys have IDs derived from them.
func (k *keyRing) add(s *Server, st *state) error {
	id, key, err := s.signingKey(st, k.made)
	if err != nil {
		return err
	}
	// Options that no signer accepts fail here, and not at the first message.
	if _, err := signature.NewSigner(id, key, &signature.SignerOptions{CallbackHeader: s.opts.callbackHeader}); err != nil {
		return err
	}
	k.made++
	k.keys = append(k.keys, signingKey{id, key})
	k.wrongKey = s.network.identity.wrongKey
	return nil
}

// signingUnder returns the key that signs now. Under a fault with WrongKey, it has the ID of that
// key only. The fault may be nil.
func (k *keyRing) signingUnder(f *Fault) signingKey {
	key := k.keys[len(k.keys)-1]
	if f != nil && f.WrongKey {
		key.key = k.wrongKey
	}
	return key
}

// RotateKeys makes a new key sign from now on. The old one stays published for five minutes on the
// server's clock, as long as clients may cache the set, and is then removed.
func (s *Server) RotateKeys() {
	s.mu.Lock()
	defer s.mu.Unlock()
	retired := s.keys.signingUnder(nil).id
	s.must(s.keys.add(s, s.state))
	st := s.state
	s.clock.Schedule(s.clock.Now().Add(keySetMaxAge), func() { st.keys.remove(retired) })
	s.runDue()
}

// remove removes a key from the set.
func (k *keyRing) remove(id string) {
	for i, key := range k.keys {
		if key.id == id {
			k.keys = append(k.keys[:i:i], k.keys[i+1:]...)
			return
		}
	}
}

// jwk is a public key as RFC 7517 has it (specification, section 4).
type jwk struct {
	KeyType   string `json:"kty"`
	Exponent  string `json:"e"`
	Modulus   string `json:"n"`
	Use       string `json:"use"`
	KeyID     string `json:"kid"`
	Algorithm string `json:"alg"`
}

// keySet is GET /.well-known/jwks.json.
func (s *Server) keySet(*call) (any, error) {
	set := struct {
		Keys []jwk `json:"keys"`
	}{}
	for _, key := range s.keys.keys {
		set.Keys = append(set.Keys, jwk{
			KeyType:   "RSA",
			Exponent:  base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.key.E)).Bytes()),
			Modulus:   base64.RawURLEncoding.EncodeToString(key.key.N.Bytes()),
			Use:       "sig",
			KeyID:     key.id,
			Algorithm: "RS256",
		})
	}
	return &answer{
		status: http.StatusOK,
		media:  wire.MediaJSON,
		header: http.Header{"Cache-Control": {"public, max-age=" + strconv.Itoa(int(keySetMaxAge.Seconds()))}},
		body:   set,
	}, nil
}
