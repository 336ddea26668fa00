package sandboxfake

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	_ "embed"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"time"
)

// identity is what a server proves itself with: a certificate authority with one server certificate, and the RSA keys that sign callbacks and redirects.
type identity struct {
	ca       *x509.Certificate
	caKey    *ecdsa.PrivateKey
	leaf     tls.Certificate
	signing  []*rsa.PrivateKey // taken in turn, a rotation each
	wrongKey *rsa.PrivateKey   // never published
	roots    *x509.CertPool    // the system's roots and ours
}

// testKeysPEM holds fixed keys that everybody has: they identify nobody. Their PEM headers say TESTING, so that scanners for lost secrets leave them alone.
//
//go:embed testkeys.pem
var testKeysPEM string

// testIdentity is the identity of every server of every process: generating an RSA key would take longer than the rest of a test.
var testIdentity = sync.OnceValues(func() (*identity, error) {
	var blocks [][]byte
	for rest := []byte(strings.ReplaceAll(testKeysPEM, "TESTING KEY", "PRIVATE KEY")); ; {
		block, next := pem.Decode(rest)
		if block == nil {
			break
		}
		blocks, rest = append(blocks, block.Bytes), next
	}
	caKey, err := x509.ParseECPrivateKey(blocks[1])
	if err != nil {
		return nil, err
	}
	leafKey, err := x509.ParseECPrivateKey(blocks[3])
	if err != nil {
		return nil, err
	}
	var signing []*rsa.PrivateKey
	for _, der := range blocks[4:] {
		key, err := x509.ParsePKCS1PrivateKey(der)
		if err != nil {
			return nil, err
		}
		signing = append(signing, key)
	}
	last := len(signing) - 1
	return newIdentity(blocks[0], caKey, blocks[2], leafKey, signing[:last], signing[last])
})

// newIdentity puts the parts together.
func newIdentity(caDER []byte, caKey *ecdsa.PrivateKey, leafDER []byte, leafKey *ecdsa.PrivateKey, signing []*rsa.PrivateKey, wrong *rsa.PrivateKey) (*identity, error) {
	ca, err := x509.ParseCertificate(caDER)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(leafDER)
	if err != nil {
		return nil, err
	}
	// A machine without roots of its own still reaches everything in this process.
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	roots.AddCert(ca)
	return &identity{
		ca:       ca,
		caKey:    caKey,
		leaf:     tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: leafKey, Leaf: leaf},
		signing:  signing,
		wrongKey: wrong,
		roots:    roots,
	}, nil
}

// Test certificates are valid at any time that a frozen clock or a bubble, which begins in the year 2000, may show.
var (
	certificateNotBefore = time.Unix(0, 0)
	certificateNotAfter  = time.Date(2084, 1, 1, 0, 0, 0, 0, time.UTC)
)

// issue returns a certificate for host, signed by the identity's authority.
func (id *identity) issue(host string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: host},
		DNSNames:     []string{host},
		NotBefore:    certificateNotBefore,
		NotAfter:     certificateNotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, id.ca, &key.PublicKey, id.caKey)
	if err != nil {
		return nil, fmt.Errorf("certificate for a Handle host: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
