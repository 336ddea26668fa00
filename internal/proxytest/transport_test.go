package proxytest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"
)

// protocols lists the protocols between client and proxy.
var protocols = []string{"h2", "http/1.1"}

// transport returns a transport that connects to the proxy for every host and requires the given
// protocol. For HTTP/2 it is configured like the transport of the default client.
func (p *proxy) transport(t *testing.T, protocol string) *http.Transport {
	t.Helper()
	transport := &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return p.dial(ctx) },
		ForceAttemptHTTP2: protocol == "h2",
		TLSClientConfig: &tls.Config{
			RootCAs: p.ca.roots,
			VerifyConnection: func(s tls.ConnectionState) error {
				if s.NegotiatedProtocol != protocol {
					return fmt.Errorf("negotiated protocol = %q, want %q", s.NegotiatedProtocol, protocol)
				}
				return nil
			},
		},
	}
	if protocol != "h2" {
		transport.TLSClientConfig.NextProtos = []string{protocol}
	}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// authority is a self-signed certificate.
type authority struct {
	pem   string // certificate and key
	roots *x509.CertPool
}

// newAuthority returns a certificate for example.com and its subdomains.
func newAuthority(t *testing.T) authority {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "proxytest"},
		DNSNames:              []string{"example.com", "*.example.com"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	keyDER := must(x509.MarshalPKCS8PrivateKey(key))(t)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	a := authority{roots: x509.NewCertPool()}
	a.roots.AppendCertsFromPEM(certificate)
	a.pem = string(certificate) + string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
	return a
}
