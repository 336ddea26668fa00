package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// pair contains the paths of a certificate and its key.
type pair struct {
	certificate, key string
	der              []byte
}

// newPair writes a self-signed certificate for names, which expires at the given time.
func newPair(t *testing.T, expiry time.Time, names ...string) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "own"}, NotBefore: time.Unix(0, 0), NotAfter: expiry}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pair{writePEM(t, "CERTIFICATE", der), writePEM(t, "PRIVATE KEY", keyDER), der}
}

// writePEM writes a PEM block to a file and returns its path.
func writePEM(t *testing.T, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestProgram_TLSCertFlag(t *testing.T) {
	t.Parallel()
	own := newPair(t, time.Now().Add(time.Hour), "sandbox.example.com", "127.0.0.1")
	p, a := startJSON(t, "-fixed-keys", "-public-url", "https://sandbox.example.com", "-tls-cert", own.certificate, "-tls-key", own.key)
	for name, want := range map[string]bool{"sandbox.example.com": true, "127.0.0.1": true, "localhost": false} {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(a.URL, "https://"), &tls.Config{ServerName: name, InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		got := conn.ConnectionState().PeerCertificates[0].Raw
		conn.Close()

		if (string(got) == string(own.der)) != want {
			t.Errorf("client of %s gets the certificate of the flag: %v, want %v", name, !want, want)
		}
	}
	p.stop(os.Interrupt)
	if log := p.log.String(); log != "" {
		t.Errorf("log = %q, want no warning", log)
	}
}

// issued writes a certificate for loopback names that an authority issued, and its key. It returns
// both, and the PEM certificate of the authority.
func issued(t *testing.T) (leaf pair, rootPEM []byte) {
	t.Helper()
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "development CA"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, &rootKey.PublicKey, rootKey)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(3), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, root, &key.PublicKey, rootKey)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pair{writePEM(t, "CERTIFICATE", der), writePEM(t, "PRIVATE KEY", keyDER), der}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER})
}

// The CA file verifies the URL, with or without a known issuer.
func TestProgram_TLSCertPrintedCommands(t *testing.T) {
	t.Parallel()
	leaf, rootPEM := issued(t)
	rootFile := filepath.Join(t.TempDir(), "root.pem")
	chain := leaf
	chain.certificate = filepath.Join(t.TempDir(), "chain.pem")
	leafPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.der})
	for path, content := range map[string][]byte{rootFile: rootPEM, chain.certificate: append(leafPEM, rootPEM...)} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const own, generated = "Its certificate is that of -tls-cert", "Your browser warns about its certificate."
	for _, row := range []struct {
		name     string
		pair     pair
		env      []string
		want     string
		warnings bool
	}{
		{"self-signed", newPair(t, time.Now().Add(time.Hour), "localhost", "127.0.0.1"), nil, own, false},
		{"chain with its root", chain, nil, own, false},
		{"root of the system", leaf, []string{"SSL_CERT_FILE=" + rootFile}, own, false},
		{"unknown root", leaf, nil, generated, true},
		{"other name", newPair(t, time.Now().Add(time.Hour), "sandbox.example.com"), nil, generated, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if row.env != nil && runtime.GOOS != "linux" {
				t.Skip("SSL_CERT_FILE has no effect")
			}
			p := startEnv(t, row.env, "-fixed-keys", "-quiet", "-tls-cert", row.pair.certificate, "-tls-key", row.pair.key)

			text := p.runPrinted()

			p.stop(os.Interrupt)
			if !strings.Contains(text, row.want) {
				t.Errorf("output = %s, want %q", text, row.want)
			}
			if got := strings.Contains(p.log.String(), "root certificate is unknown"); got != row.warnings {
				t.Errorf("log = %q, want a warning: %v", p.log.String(), row.warnings)
			}
		})
	}
}

// Users test their clients with an expired certificate.
func TestProgram_TLSCertExpired(t *testing.T) {
	t.Parallel()
	expired := newPair(t, time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC), "sandbox.example.com", "127.0.0.1")
	p, a := startJSON(t, "-fixed-keys", "-tls-cert", expired.certificate, "-tls-key", expired.key)

	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(transport.CloseIdleConnections)
	a.token(t, &http.Client{Transport: transport})
	p.stop(os.Interrupt) // it has then logged everything

	if want := "warning: the certificate of -tls-cert expired at 2020-01-02T03:04:05Z"; !strings.Contains(p.log.String(), want) {
		t.Errorf("log = %q, want %q", p.log.String(), want)
	}
}

func TestProgram_TLSCertErrors(t *testing.T) {
	t.Parallel()
	own, other := newPair(t, time.Now().Add(time.Hour), "sandbox.example.com"), newPair(t, time.Now().Add(time.Hour), "sandbox.example.com")
	noNames := newPair(t, time.Now().Add(time.Hour))
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "none.pem")
	for _, row := range []struct {
		name, certificate, key string
		want                   string
	}{
		{"certificate without key", own.certificate, "", "-tls-cert requires -tls-key"},
		{"key without certificate", "", own.key, "-tls-key requires -tls-cert"},
		{"missing certificate file", missing, own.key, "-tls-cert: open " + missing},
		{"missing key file", own.certificate, missing, "-tls-key: open " + missing},
		{"key as certificate", own.key, own.key, "-tls-cert: the file contains no certificate"},
		{"certificate as key", own.certificate, own.certificate, "-tls-key: the file contains no private key"},
		{"malformed certificate", writePEM(t, "CERTIFICATE", []byte("x")), own.key, "-tls-cert: the certificate is malformed"},
		{"malformed key", own.certificate, writePEM(t, "PRIVATE KEY", []byte("x")), "-tls-key: the private key is unusable"},
		{"encrypted key", own.certificate, writePEM(t, "ENCRYPTED PRIVATE KEY", []byte("x")), "-tls-key: the private key is encrypted"},
		{"key of another certificate", own.certificate, other.key, "-tls-key: the private key does not match"},
		{"key of another type", own.certificate, writePEM(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey)), "-tls-key: the private key does not match"},
		{"certificate without names", noNames.certificate, noNames.key, "subject alternative names"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, "-fixed-keys", "-tls-cert", row.certificate, "-tls-key", row.key)

			p.cmd.Wait()

			if code := p.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(p.log.String(), row.want) {
				t.Errorf("exit code = %d, output %q, want 1 and %q", code, p.log.String(), row.want)
			}
		})
	}
}
