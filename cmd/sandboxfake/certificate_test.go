package main_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
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
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: expiry}
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
