package receivertest

import (
	"crypto/rand"
	"crypto/rsa"
	"sync"
)

// testKeys generates the RSA keys of most tests once, because new keys take time.
var testKeys = sync.OnceValues(func() (pair [2]*rsa.PrivateKey, err error) {
	for i := range pair {
		if pair[i], err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
			return pair, err
		}
	}
	return pair, nil
})

// NewTestKeys returns new Keys. All have the same RSA keys.
func NewTestKeys() (*Keys, error) {
	pair, err := testKeys()
	if err != nil {
		return nil, err
	}
	return newKeys(pair[0], pair[1]), nil
}
