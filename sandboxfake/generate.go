package sandboxfake

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"math/big"
	"net"
	"sync"
)

// WithFreshKeys has the server make keys of its own, which nobody else has: its certificate authority and certificate when it starts, and a signing key then and at each [Server.RotateKeys].
// By default all servers share fixed test keys, which everybody can read, because making an RSA key takes longer than most tests. Use it where others may reach the server.
//
// The certificate is also good for the host of [WithAddr]. The ids of the signing keys come from the keys and not from the seed, so that a receiver who kept the key set of an earlier run asks again.
func WithFreshKeys() Option {
	return func(o *options) error {
		o.freshKeys = true
		return nil
	}
}

// identity is the one that the options ask for.
func (o *options) identity() (*identity, error) {
	if !o.freshKeys {
		return testIdentity()
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "sandboxfake CA of one run"},
		NotBefore:             certificateNotBefore,
		NotAfter:              certificateNotAfter,
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return nil, err
	}
	if ca, err = x509.ParseCertificate(caDER); err != nil {
		return nil, err
	}
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, o.leafTemplate(), ca, &leafKey.PublicKey, caKey)
	if err != nil {
		return nil, err
	}
	wrong, err := newSigningKey()
	if err != nil {
		return nil, err
	}
	return newIdentity(caDER, caKey, leafDER, leafKey, nil, wrong)
}

// leafTemplate is the certificate of the test keys, for the host of WithAddr as well.
func (o *options) leafTemplate() *x509.Certificate {
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "sandboxfake"},
		NotBefore:    certificateNotBefore,
		NotAfter:     certificateNotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost", "example.com", "*.sandbox.test"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	switch host := hostName(o.addr); {
	case net.ParseIP(host) != nil:
		leaf.IPAddresses = append(leaf.IPAddresses, net.ParseIP(host))
	case host != "":
		leaf.DNSNames = append(leaf.DNSNames, host)
	}
	return leaf
}

func newSigningKey() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) }

// freshKeys are the signing keys that WithFreshKeys has made. They outlast a Reset, which brings back the first.
type freshKeys struct {
	mu   sync.Mutex // guards keys
	keys []*rsa.PrivateKey
}

// key is the n-th key, counted from 0, made when it is first asked for.
func (f *freshKeys) key(n int) (*rsa.PrivateKey, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.keys) <= n {
		key, err := newSigningKey()
		if err != nil {
			return nil, err
		}
		f.keys = append(f.keys, key)
	}
	return f.keys[n], nil
}

// signingKey is the n-th key that signs, counted from 0, and its id.
func (s *Server) signingKey(st *state, n int) (id string, key *rsa.PrivateKey, err error) {
	if !s.opts.freshKeys {
		pool := s.network.identity.signing
		return st.ids.uuid("key", "", &st.ids.root), pool[n%len(pool)], nil
	}
	if key, err = s.fresh.key(n); err != nil {
		return "", nil, err
	}
	sum := sha256.Sum256(key.N.Bytes())
	return base64.RawURLEncoding.EncodeToString(sum[:]), key, nil
}
