package receivertest

import (
	"crypto/rand"
	"crypto/rsa"
	"sync"
)

// testKeys generates the RSA keys of most tests once, because new keys take time.
var testKeys = sync.OnceValues(func() (keys [3]*rsa.PrivateKey, err error) { return generateKeys(2048) })

// smallKeys are like testKeys. They sign in a fraction of the time.
var smallKeys = sync.OnceValues(func() (keys [3]*rsa.PrivateKey, err error) { return generateKeys(1024) })

func generateKeys(bits int) (keys [3]*rsa.PrivateKey, err error) {
	for i := range keys {
		if keys[i], err = rsa.GenerateKey(rand.Reader, bits); err != nil {
			return keys, err
		}
	}
	return keys, nil
}

// NewTestKeys returns new Keys. All have the same RSA keys, and publish the same key in their first
// examination.
func NewTestKeys() (*Keys, error) { return newTestKeys(testKeys) }

// NewSmallKeys is like NewTestKeys. The keys have 1024 bits, which package signature rejects.
func NewSmallKeys() (*Keys, error) { return newTestKeys(smallKeys) }

func newTestKeys(generated func() ([3]*rsa.PrivateKey, error)) (*Keys, error) {
	keys, err := generated()
	if err != nil {
		return nil, err
	}
	k := newKeys(keys[0], keys[1])
	k.generate = func() (*rsa.PrivateKey, error) {
		k.generate = generateKey
		return keys[2], nil
	}
	return k, nil
}
