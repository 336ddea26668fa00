package signature

import (
	"context"
	"crypto/rsa"
)

// KeySource finds the public key that belongs to a key id. [JWKS] and [StaticKeys] are the two that come with this package.
//
// PublicKey is called only for messages that look right in every other respect, from many goroutines at once. An error that wraps [ErrUnknownKey] says that there is no such key: the message is refused.
// Any other error, and a nil key, says that it is not known now: the message stays undecided ([ErrKeySource]). The key id comes from the sender: look it up, do not make a path or a query of it.
type KeySource interface {
	PublicKey(ctx context.Context, keyID string) (*rsa.PublicKey, error)
}

// StaticKeys is a [KeySource] of fixed keys by their ids, for tests and for closed networks. It does not follow the service's key rotation; [JWKS] does.
type StaticKeys map[string]*rsa.PublicKey

// PublicKey returns the key of that id, or an error that wraps [ErrUnknownKey].
func (k StaticKeys) PublicKey(_ context.Context, keyID string) (*rsa.PublicKey, error) {
	if key := k[keyID]; key != nil {
		return key, nil
	}
	return nil, &Error{Operation: "key lookup", Reason: ErrUnknownKey, detail: "there is no key of this id"}
}

// Key sizes, in bits. Below the least RSA is too weak; above the most one verification costs too much to be asked for by strangers.
const (
	minKeyBits = 2048
	maxKeyBits = 4096
)

// usable reports whether signatures of the key prove anything. With an exponent of one every
// message is its own signature.
func usable(key *rsa.PublicKey) bool {
	if key.N == nil {
		return false
	}
	bits := key.N.BitLen()
	return minKeyBits <= bits && bits <= maxKeyBits && key.N.Bit(0) == 1 && key.E >= 3 && key.E&1 == 1
}

// maxKeyID bounds a key id, in bytes.
const maxKeyID = 256

// validKeyID tells whether a key id can stand in a quoted parameter.
func validKeyID(id string) bool { return id != "" && len(id) <= maxKeyID && isQuotable(id) }
