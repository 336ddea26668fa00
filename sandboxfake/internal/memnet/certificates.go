package memnet

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
	"math/big"
	"net"
	"strings"
	"sync"
	"time"
)

// Certificates contains the certificates and authorities of a network.
type Certificates struct {
	// Exported signs Service, the service's own certificate. Other processes may trust it, so it
	// can sign only the names of the service.
	Exported Authority
	Service  tls.Certificate

	// inProcess signs the certificates of the hosts of Handle, and of the service on an in-memory
	// network. Only the clients of this network trust it, so it can sign any name.
	inProcess Authority
	hosts     tls.Certificate // for example.com and *.sandbox.test
	roots     *x509.CertPool  // see newRoots
	own       *OwnCertificate // of the user, for the service; nil without one
}

// Authority is a certificate authority.
type Authority struct {
	Certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// Keys contains RSA keys for signing messages.
type Keys struct {
	Signing []*rsa.PrivateKey
	Wrong   *rsa.PrivateKey // for messages whose verification must fail
}

// testKeysPEM contains fixed certificates and private keys, which are not secret. Their PEM headers
// say TESTING, so that secret scanners ignore them.
//
//go:embed testkeys.pem
var testKeysPEM string

// TestCertificates returns the fixed test certificates, for loopback, and the fixed signing keys.
// All callers in a process share them, because generating an RSA key takes longer than most tests.
func TestCertificates() (*Certificates, *Keys, error) {
	shared, err := testCertificates()
	return shared.certificates, shared.keys, err
}

type certificatesAndKeys struct {
	certificates *Certificates
	keys         *Keys
}

var testCertificates = sync.OnceValues(func() (certificatesAndKeys, error) {
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
			return certificatesAndKeys{}, err
		}
		pairs[i] = pair
	}
	var signing []*rsa.PrivateKey
	for _, der := range blocks[2*len(pairs):] {
		key, err := x509.ParsePKCS1PrivateKey(der)
		if err != nil {
			return certificatesAndKeys{}, err
		}
		signing = append(signing, key)
	}
	last := len(signing) - 1
	c := &Certificates{
		Exported:  newAuthority(pairs[0]),
		Service:   pairs[1],
		inProcess: newAuthority(pairs[2]),
		hosts:     pairs[3],
	}
	c.roots = c.newRoots()
	return certificatesAndKeys{c, &Keys{Signing: signing[:last], Wrong: signing[last]}}, nil
})

func newPair(certificateDER, keyDER []byte) (tls.Certificate, error) {
	certificate, err := x509.ParseCertificate(certificateDER)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := x509.ParseECPrivateKey(keyDER)
	return tls.Certificate{Certificate: [][]byte{certificateDER}, PrivateKey: key, Leaf: certificate}, err
}

func newAuthority(pair tls.Certificate) Authority {
	return Authority{pair.Leaf, pair.PrivateKey.(*ecdsa.PrivateKey)}
}

// newRoots returns a pool of the system's roots, both authorities, and the certificates that most
// connections present.
func (c *Certificates) newRoots() *x509.CertPool {
	// Without system roots, clients still trust everything in this process.
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	roots.AddCert(c.Exported.Certificate)
	roots.AddCert(c.inProcess.Certificate)
	// The signature of a trusted certificate is not verified, which saves a tenth of the time of a
	// handshake.
	roots.AddCert(c.Service.Leaf)
	roots.AddCert(c.hosts.Leaf)
	return roots
}

// Trusting returns a copy of c whose clients also trust the given authorities.
func (c *Certificates) Trusting(authorities []*x509.Certificate) *Certificates {
	trusting := new(*c)
	trusting.roots = c.roots.Clone()
	for _, certificate := range authorities {
		trusting.roots.AddCert(certificate)
	}
	return trusting
}

// Presenting returns a copy of c whose service also presents own.
func (c *Certificates) Presenting(own *OwnCertificate) *Certificates {
	presenting := new(*c)
	presenting.own = own
	return presenting
}

// forService returns the certificate of the service for a client: the user's, if it is presented
// for the name or address that the client connects to, or else the generated one.
func (c *Certificates) forService(hello *tls.ClientHelloInfo) *tls.Certificate {
	if c.own == nil {
		return &c.Service
	}
	name := hello.ServerName
	if name == "" { // TLS sends no IP addresses
		name = HostName(hello.Conn.LocalAddr().String())
		// If neither certificate is valid for the local address, the client connects to another
		// one, which is translated to it (NAT).
		if c.Service.Leaf.VerifyHostname(name) != nil && len(c.own.Leaf.IPAddresses) > 0 {
			return &c.own.Certificate
		}
	}
	if c.own.PresentedFor(name) {
		return &c.own.Certificate
	}
	return &c.Service
}

// NotBefore and NotAfter limit the validity of all certificates except those of
// [GenerateCertificates] for the service and its authority. A frozen clock must be between
// them. The clock of a testing/synctest bubble starts in 2000.
var (
	NotBefore = time.Unix(0, 0)
	NotAfter  = time.Date(2084, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Issue returns a new server certificate for names, which are DNS names or IP addresses.
func (a Authority) Issue(names ...string) (tls.Certificate, error) {
	template, key, err := newServerTemplate(names)
	if err != nil {
		return tls.Certificate{}, err
	}
	return a.sign(template, key)
}

// newServerTemplate returns the template of a server certificate for names, and a new key for it.
func newServerTemplate(names []string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	template, key, err := newTemplate("sandboxfake")
	if err != nil {
		return nil, nil, err
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
	return template, key, nil
}

// sign returns a certificate for key.
func (a Authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) (tls.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, a.Certificate, &key.PublicKey, a.key)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// newTemplate returns a certificate template and a new key for it.
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
		NotBefore:    NotBefore,
		NotAfter:     NotAfter,
	}, key, nil
}
