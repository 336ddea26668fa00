package memnet

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"time"
)

// OwnCertificate is a certificate of the user for the service.
type OwnCertificate struct {
	tls.Certificate // with a Leaf
	// Root is the root certificate of the chain, or nil if neither the chain nor the system contains
	// it. If the leaf is self-signed, it is the leaf.
	Root *x509.Certificate
}

// NewOwnCertificate returns certificate, which has a Leaf, with its root certificate.
func NewOwnCertificate(certificate tls.Certificate) *OwnCertificate {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	intermediates := x509.NewCertPool()
	for _, der := range certificate.Certificate {
		c, err := x509.ParseCertificate(der)
		switch {
		case err != nil:
		case selfSigned(c):
			roots.AddCert(c)
		default:
			intermediates.AddCert(c)
		}
	}
	own := &OwnCertificate{Certificate: certificate}
	// Users test their clients with an expired certificate, so its dates do not matter.
	now := time.Now()
	if now.Before(certificate.Leaf.NotBefore) {
		now = certificate.Leaf.NotBefore
	}
	if now.After(certificate.Leaf.NotAfter) {
		now = certificate.Leaf.NotAfter
	}
	chains, err := certificate.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates, CurrentTime: now})
	if err == nil {
		own.Root = chains[0][len(chains[0])-1]
	}
	return own
}

func selfSigned(c *x509.Certificate) bool {
	return bytes.Equal(c.RawIssuer, c.RawSubject) && c.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) == nil
}

// PresentedFor reports whether the service presents the certificate to clients of a name or
// address. On loopback, clients trust the exported authorities. If they cannot verify the
// certificate, the service presents the generated one there.
func (o *OwnCertificate) PresentedFor(name string) bool {
	return o != nil && o.Leaf.VerifyHostname(name) == nil && (o.Root != nil || !isLoopback(name))
}

func isLoopback(name string) bool {
	return strings.EqualFold(name, "localhost") || net.ParseIP(name).IsLoopback()
}
