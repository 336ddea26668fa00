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
	"errors"
	"math/big"
	"net"
	"strings"
	"sync"
	"time"
)

// identity holds the certificates of a server and the RSA keys that sign its callbacks and
// redirects.
type identity struct {
	// exported signs the service's own certificate. Other processes trust it, so its certificate
	// is constrained to the names of the service.
	exported authority
	service  tls.Certificate
	// inProcess signs the certificates of the hosts of Handle, and that of the service in memory.
	// Only the clients of this server trust it: it may sign any name.
	inProcess authority
	hosts     tls.Certificate // for example.com and *.sandbox.test

	signing  []*rsa.PrivateKey // used in turn, one per rotation
	wrongKey *rsa.PrivateKey   // never published
	roots    *x509.CertPool    // the system's roots and both authorities
}

// authority is a certificate authority.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// testKeysPEM holds fixed, public keys. Their PEM headers say TESTING, so that secret scanners
// ignore them.
//
//go:embed testkeys.pem
var testKeysPEM string

// testIdentity is shared by all servers of a process that have no fresh keys: generating an RSA
// key would take longer than the rest of a test.
var testIdentity = sync.OnceValues(func() (*identity, error) {
	var blocks [][]byte
	for rest := []byte(strings.ReplaceAll(testKeysPEM, "TESTING KEY", "PRIVATE KEY")); ; {
		block, next := pem.Decode(rest)
		if block == nil {
			break
		}
		blocks, rest = append(blocks, block.Bytes), next
	}
	// The file has four pairs of a certificate and its key, followed by the signing keys.
	var pairs [4]tls.Certificate
	for i := range pairs {
		pair, err := newPair(blocks[2*i], blocks[2*i+1])
		if err != nil {
			return nil, err
		}
		pairs[i] = pair
	}
	var signing []*rsa.PrivateKey
	for _, der := range blocks[2*len(pairs):] {
		key, err := x509.ParsePKCS1PrivateKey(der)
		if err != nil {
			return nil, err
		}
		signing = append(signing, key)
	}
	last := len(signing) - 1
	id := &identity{
		exported:  newAuthority(pairs[0]),
		service:   pairs[1],
		inProcess: newAuthority(pairs[2]),
		hosts:     pairs[3],
		signing:   signing[:last],
		wrongKey:  signing[last],
	}
	id.roots = id.newRoots()
	return id, nil
})

func newPair(certificateDER, keyDER []byte) (tls.Certificate, error) {
	certificate, err := x509.ParseCertificate(certificateDER)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := x509.ParseECPrivateKey(keyDER)
	return tls.Certificate{Certificate: [][]byte{certificateDER}, PrivateKey: key, Leaf: certificate}, err
}

func newAuthority(pair tls.Certificate) authority {
	return authority{pair.Leaf, pair.PrivateKey.(*ecdsa.PrivateKey)}
}

// newRoots returns a pool of the system's roots and both authorities.
func (id *identity) newRoots() *x509.CertPool {
	// A machine without roots of its own still reaches everything in this process.
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	roots.AddCert(id.exported.certificate)
	roots.AddCert(id.inProcess.certificate)
	return roots
}

// Test certificates are valid at every time that a frozen clock, or a bubble, which begins in
// 2000, may show.
var (
	certificateNotBefore = time.Unix(0, 0)
	certificateNotAfter  = time.Date(2084, 1, 1, 0, 0, 0, 0, time.UTC)
)

// issue returns a new server certificate for names, which are DNS names or IP addresses.
func (a authority) issue(names ...string) (tls.Certificate, error) {
	template, key, err := newTemplate("sandboxfake")
	if err != nil {
		return tls.Certificate{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	return a.sign(template, key)
}

// sign returns a certificate for key.
func (a authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) (tls.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// newTemplate returns a certificate to sign, and a new key for it.
func newTemplate(commonName string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: commonName},
		NotBefore:    certificateNotBefore,
		NotAfter:     certificateNotAfter,
	}, key, nil
}

// errFixedKeysHost is returned for a host that the certificate of the test keys is not valid for.
var errFixedKeysHost = errors.New("the fixed test keys are valid for localhost, 127.0.0.1 and [::1] only: use fresh keys to listen on another host")

// identity returns the identity that the options require.
func (o *options) identity() (*identity, error) {
	host, err := o.certificateHost()
	if err != nil {
		return nil, err
	}
	id, err := testIdentity()
	if o.freshKeys {
		id, err = freshIdentity(host)
	} else if err == nil && host != "" && id.service.Leaf.VerifyHostname(host) != nil {
		err = errFixedKeysHost
	}
	if err != nil || len(o.receiverCAs) == 0 {
		return id, err
	}
	// Other servers share the test identity.
	id = new(*id)
	id.roots = id.roots.Clone()
	for _, certificate := range o.receiverCAs {
		id.roots.AddCert(certificate)
	}
	return id, nil
}

// certificateHost returns the host of WithAddr that the service's certificate must be valid for,
// or "" for loopback.
func (o *options) certificateHost() (string, error) {
	if o.inMemory {
		return "", nil
	}
	host := hostName(o.addr)
	if ip := net.ParseIP(host); ip != nil {
		if ip.IsUnspecified() {
			host = ""
		}
		return host, nil
	}
	// VerifyHostname accepts no other character in a name.
	if strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789.-_") != "" || strings.HasPrefix(host, ".") {
		return "", errors.New("no certificate can be issued for the host of the address to listen on: use a DNS name or an IP address without zone")
	}
	return host, nil
}
