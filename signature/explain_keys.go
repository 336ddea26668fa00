package signature

import (
	"bytes"
	"crypto/rsa"
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
)

// maxExplainedKeys is the maximum number of public keys with which Explain examines a signature.
const maxExplainedKeys = 64

// foundKey is the key that made a signature.
type foundKey struct {
	key   *rsa.PublicKey
	hash  [sha256.Size]byte // hash of the text that was signed
	cause string            // line of the explanation; empty if the verifier has the key under its ID
}

// cachedKeys returns the keys of source that are available without a call of PublicKey, or nil.
func cachedKeys(source KeySource) StaticKeys {
	switch source := source.(type) {
	case StaticKeys:
		return source
	case *JWKS:
		if source != nil {
			return source.cachedKeys()
		}
	}
	return nil
}

// findKey looks for the key that made the signature: first under its ID, then among all keys.
func (e *explanation) findKey() bool {
	type named struct {
		name string
		keys StaticKeys
	}
	sets := []named{{"", e.ownKeys}}
	for _, name := range slices.Sorted(maps.Keys(e.opts.Keys)) {
		sets = append(sets, named{name, cachedKeys(e.opts.Keys[name])})
	}
	for _, set := range sets {
		if e.matches(set.keys[e.authorization.keyID]) {
			e.key.cause = e.keySetCause(set.name)
			return true
		}
	}
	for _, set := range sets {
		for _, id := range slices.Sorted(maps.Keys(set.keys)) {
			if id != e.authorization.keyID && e.matches(set.keys[id]) {
				e.key.cause = "key: keyId in the Authorization is not the ID of the key that made the signature"
				if set.name != "" {
					e.key.cause += fmt.Sprintf(", which is in the key set %q", set.name)
				}
				e.key.cause += ": check whether a proxy or a test changes it, and whether the key set is the one of the service"
				return true
			}
		}
	}
	return false
}

// keySetCause returns the line for a key of a set in opts.Keys.
func (e *explanation) keySetCause(name string) string {
	switch {
	case name == "":
		return ""
	case e.ownKeys == nil:
		return fmt.Sprintf("key: signed with a key of the key set %q; the keys of the verifier cannot be examined: check that it has this key set", name)
	default:
		return fmt.Sprintf("key: signed with a key of the key set %q, which the verifier does not have: the message comes from that environment; use its base URL for the key set, or change the callback or redirect URL that is registered there", name)
	}
}

// matches reports whether key made the signature, and sets e.key if so.
func (e *explanation) matches(key *rsa.PublicKey) bool {
	if key == nil || e.budget.keys == maxExplainedKeys {
		return false
	}
	e.budget.keys++
	hash, ok := signedHash(key, e.authorization.signature)
	if ok {
		e.key = foundKey{key: key, hash: hash}
	}
	return ok
}

// noKey returns the line for a signature that no examined key made.
func (e *explanation) noKey() string {
	known := "the key set has no key with the ID in the Authorization"
	if e.ownKeys[e.authorization.keyID] != nil {
		known = "the key with the ID in the Authorization did not make the signature"
	}
	if e.ownKeys == nil {
		known = "the keys of the verifier cannot be examined"
	}
	return "key: " + known + ", and neither did another examined key: the message is probably forged, or the Authorization was changed, or it comes from another environment (pass its key set in ExplainOptions.Keys)"
}

// digestInfo is the DER prefix of a SHA-256 hash in a signature (RFC 8017, section 9.2).
const digestInfo = "\x30\x31\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x01\x05\x00\x04\x20"

// signedHash returns the hash that the owner of key signed, and reports whether key made the
// signature. With the hash, one operation with the key is enough to examine many forms of a
// message.
func signedHash(key *rsa.PublicKey, signature []byte) (hash [sha256.Size]byte, ok bool) {
	s := new(big.Int).SetBytes(signature)
	if !usable(key) || key.E > math.MaxInt32 || len(signature) != key.Size() || s.Cmp(key.N) >= 0 {
		return hash, false
	}
	encoded := s.Exp(s, big.NewInt(int64(key.E)), key.N).FillBytes(make([]byte, key.Size()))
	padding := bytes.Repeat([]byte{0xff}, len(encoded)-3-len(digestInfo)-sha256.Size)
	prefix := slices.Concat([]byte{0, 1}, padding, []byte{0}, []byte(digestInfo))
	rest, ok := bytes.CutPrefix(encoded, prefix)
	copy(hash[:], rest)
	return hash, ok
}

// cachedKeys returns the keys of the last valid set, however old it is. It does not fetch the set
// and does not delay a fetch. The caller must not modify the result.
func (j *JWKS) cachedKeys() StaticKeys {
	if set := j.current.Load(); set != nil {
		return set.keys
	}
	return nil
}
