package signature

import (
	"context"
	"crypto/rsa"
)

// KeySource looks up public keys by their IDs. [JWKS] and [StaticKeys] implement it.
//
// PublicKey must be safe for concurrent use. The verifier calls it only for messages that pass all
// cheaper checks. An error that wraps [ErrUnknownKey] means that the key does not exist, and the
// message is rejected. Any other error, or a nil key, means that the message cannot be verified now
// ([ErrKeySource]). The key ID is untrusted input: do not use it in a path or a query.
type KeySource interface {
	PublicKey(ctx context.Context, keyID string) (*rsa.PublicKey, error)
}

// StaticKeys is a [KeySource] that maps key IDs to fixed keys. Use it in tests and in networks
// without access to the service's key set. Unlike [JWKS], it does not follow the service's key
// rotation.
type StaticKeys map[string]*rsa.PublicKey

// PublicKey returns the key with the given ID, or an error that wraps [ErrUnknownKey].
func (k StaticKeys) PublicKey(_ context.Context, keyID string) (*rsa.PublicKey, error) {
	if key := k[keyID]; key != nil {
		return key, nil
	}
	return nil, &Error{Operation: "key.lookup", Reason: ErrUnknownKey, detail: "no key with this ID"}
}

// Minimum and maximum key size, in bits. Smaller keys are too weak. Verification with larger keys
// is too expensive for untrusted messages.
const (
	minKeyBits = 2048
	maxKeyBits = 4096
)

// usable reports whether key is strong enough to verify signatures. It rejects the exponent 1, with
// which every message is its own signature.
func usable(key *rsa.PublicKey) bool {
	if key.N == nil {
		return false
	}
	bits := key.N.BitLen()
	return minKeyBits <= bits && bits <= maxKeyBits && key.N.Bit(0) == 1 && key.E >= 3 && key.E&1 == 1
}

// maxKeyID is the maximum length of a key ID, in bytes.
const maxKeyID = 256

// validKeyID reports whether id has 1 to maxKeyID bytes and can be quoted without escapes.
func validKeyID(id string) bool { return id != "" && len(id) <= maxKeyID && isQuotable(id) }
