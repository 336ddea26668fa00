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

// keyRing is the keys that sign callbacks and redirects. The last signs; all are published.
type keyRing struct {
	keys   []signingKey
	made   int // how many there ever were
	signer *signature.Signer
	forger *signature.Signer // signs in the name of the same key id with a key that is not published
}

type signingKey struct {
	id  string
	key *rsa.PrivateKey
}

// add makes a new key the one that signs. The keys are few and taken in turn; their ids are always new.
func (k *keyRing) add(s *Server, st *state) error {
	var key signingKey
	var err error
	if key.id, key.key, err = s.signingKey(st, k.made); err != nil {
		return err
	}
	opts := &signature.SignerOptions{
		CallbackHeader: s.opts.callbackHeader,
		Base64Digest:   s.opts.base64Digest,
		Now:            s.Now,
	}
	signer, err := signature.NewSigner(key.id, key.key, opts)
	if err != nil {
		return err
	}
	forger, err := signature.NewSigner(key.id, s.network.identity.wrongKey, opts)
	if err != nil {
		return err
	}
	k.made++
	k.signer, k.forger = signer, forger
	k.keys = append(k.keys, key)
	return nil
}

// signerUnder is the one that signs now, as a fault, which may be nil, leaves it.
func (k *keyRing) signerUnder(f *Fault) *signature.Signer {
	if f != nil && f.WrongKey {
		return k.forger
	}
	return k.signer
}

// RotateKeys has a new key sign from now on. The old one stays published for five minutes on the server's clock, as long as clients may keep the set, and then leaves it.
func (s *Server) RotateKeys() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.now()
	retired := s.keys.keys[len(s.keys.keys)-1].id
	s.must(s.keys.add(s, s.state))
	st := s.state
	s.clock.schedule(now.Add(keySetMaxAge), func() { st.keys.remove(retired) })
	s.runDue()
}

// remove takes a key out of the set.
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
