package stack

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	_ "embed" // the configuration of nginx
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
	"time"
)

// publicHost is the host in the public URL. Every resolver knows it, so neither the service nor
// curl needs an option to find nginx.
const publicHost = "localhost"

// proxyConfig is the template of the configuration of nginx.
//
//go:embed nginx.conf
var proxyConfig string

// configureProxy writes the configuration and the certificate of nginx.
func (s *Stack) configureProxy(port string) error {
	config, err := template.New("nginx.conf").Parse(proxyConfig)
	if err != nil {
		return err
	}
	var text strings.Builder
	err = config.Execute(&text, struct {
		Dir, Host, Port string
		Replicas        []*Replica
	}{s.proxyDir(), publicHost, port, s.Replicas})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.proxyDir(), "nginx.conf"), []byte(text.String()), 0o600)
}

// startProxy starts nginx and waits until it completes a TLS handshake.
func (s *Stack) startProxy(ctx context.Context, program string) error {
	server := exec.Command(program, "-e", "stderr", "-c", filepath.Join(s.proxyDir(), "nginx.conf"))
	var err error
	if s.proxy, err = startProcess(s.Dir, "nginx", server, nil); err != nil {
		return err
	}
	addr, _, _ := strings.Cut(strings.TrimPrefix(s.URL, "https://"), "/")
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: s.roots, MinVersion: tls.VersionTLS12}}
	return s.proxy.await(ctx, func(ctx context.Context) error {
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

func (s *Stack) proxyDir() string { return filepath.Join(s.Dir, "nginx") }

// newCertificate creates the certificate of nginx. It writes it with its key to the directory of
// nginx, and returns it in PEM.
func (s *Stack) newCertificate() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	der, err := x509.CreateCertificate(rand.Reader, certificateFor(now), certificateFor(now), key.Public(), key)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	both := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), certificate...)
	if err := os.Mkdir(s.proxyDir(), 0o700); err != nil {
		return nil, err
	}
	return certificate, os.WriteFile(filepath.Join(s.proxyDir(), "tls.pem"), both, 0o600)
}

// certificateFor returns the contents of the certificate, which is its own authority.
func certificateFor(now time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "nginx of the example backend"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.AddDate(0, 1, 0),
		DNSNames:              []string{publicHost},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
}
