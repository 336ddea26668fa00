package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// startKeys serves a text until the test ends.
func startKeys(t *testing.T, c keyServerConfig) *keyServer {
	t.Helper()
	s := must(serveKeys(c, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "key set") })))(t)
	t.Cleanup(s.close)
	return s
}

// peerCertificate connects to the server as host, and returns its certificate.
func peerCertificate(t *testing.T, s *keyServer, host string, now time.Time) (*x509.Certificate, error) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(readText(t, s.caFile)))
	base := must(url.Parse(s.base))(t)
	conn, err := tls.Dial("tcp", net.JoinHostPort("127.0.0.1", base.Port()), &tls.Config{
		RootCAs: roots, ServerName: host, Time: func() time.Time { return now },
	})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0], nil
}

func TestServeKeys_Certificate(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := startKeys(t, keyServerConfig{addr: "127.0.0.1:0", names: []string{"host.docker.internal", "192.0.2.7"}, now: now})

	for _, row := range []struct {
		host string
		age  time.Duration
		want bool
	}{
		{"127.0.0.1", 0, true},
		{"::1", 0, true},
		{"localhost", 0, true},
		{"host.docker.internal", 0, true},
		{"192.0.2.7", 0, true},
		{"192.0.2.8", 0, false},
		{"shop.example.com", 0, false},
		{"localhost", -2 * time.Hour, false},
		{"localhost", -30 * time.Minute, true},
		{"localhost", 23 * time.Hour, true},
		{"localhost", 25 * time.Hour, false},
	} {
		if _, err := peerCertificate(t, s, row.host, now.Add(row.age)); (err == nil) != row.want {
			t.Errorf("certificate for %s after %v: error = %v, want valid: %t", row.host, row.age, err, row.want)
		}
	}
	if want := "https://host.docker.internal:"; !strings.HasPrefix(s.base, want) {
		t.Errorf("URL = %s, want one that begins with %s", s.base, want)
	}
}

// Python 3.13 and newer verify certificates by the strict rules of RFC 5280.
func TestServeKeys_CertificateStrict(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := startKeys(t, keyServerConfig{addr: "127.0.0.1:0", now: now})

	leaf := must(peerCertificate(t, s, "localhost", now))(t)
	ca := must(x509.ParseCertificate(pemBytes(t, readText(t, s.caFile))))(t)
	if !ca.IsCA || ca.KeyUsage != x509.KeyUsageCertSign || len(ca.SubjectKeyId) == 0 {
		t.Errorf("CA certificate: IsCA = %t, key usage %b, key identifier %x", ca.IsCA, ca.KeyUsage, ca.SubjectKeyId)
	}
	if leaf.IsCA || string(leaf.AuthorityKeyId) != string(ca.SubjectKeyId) {
		t.Errorf("certificate: IsCA = %t, authority key identifier %x, want %x", leaf.IsCA, leaf.AuthorityKeyId, ca.SubjectKeyId)
	}
	if strings.Contains(readText(t, s.caFile), "PRIVATE") {
		t.Error("the CA file contains a private key")
	}
}

func TestServeKeys_CAFile(t *testing.T) {
	t.Parallel()
	kept := filepath.Join(t.TempDir(), "ca.pem")
	noError(t, os.WriteFile(kept, []byte("old"), 0o600))
	named := startKeys(t, keyServerConfig{addr: "127.0.0.1:0", caFile: kept, now: time.Now()})
	temporary := startKeys(t, keyServerConfig{addr: "127.0.0.1:0", now: time.Now()})
	plain := startKeys(t, keyServerConfig{addr: "127.0.0.1:0", plain: true, caFile: kept, now: time.Now()})

	for _, s := range []*keyServer{named, temporary} {
		if got := readText(t, s.caFile); !strings.HasPrefix(got, "-----BEGIN CERTIFICATE-----\n") {
			t.Errorf("%s contains %q, want a certificate", s.caFile, got)
		}
		wantMode(t, s.caFile, 0o644) // the receiver can run as another user
		s.close()
	}

	if _, err := os.Stat(kept); err != nil {
		t.Errorf("the file of -ca-file is not kept: %v", err)
	}
	if _, err := os.Stat(filepath.Dir(temporary.caFile)); !os.IsNotExist(err) {
		t.Errorf("the temporary directory remains: %v", err)
	}
	if plain.caFile != "" || !strings.HasPrefix(plain.base, "http://127.0.0.1:") {
		t.Errorf("with plain HTTP: URL %s, CA file %q", plain.base, plain.caFile)
	}
}

func TestKeyServer_Host(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		addr  string
		names []string
		want  string
	}{
		{"127.0.0.1:0", nil, "127.0.0.1"},
		{"localhost:0", nil, "localhost"},
		{":0", nil, "localhost"},
		{"0.0.0.0:0", nil, "localhost"},
		{":0", []string{"host.docker.internal"}, "host.docker.internal"},
	} {
		s := startKeys(t, keyServerConfig{addr: row.addr, names: row.names, plain: true})

		base, err := url.Parse(s.base)

		if err != nil || base.Hostname() != row.want || base.Port() == "" || base.Port() == "0" {
			t.Errorf("%s %q: URL = %s, want the host %s and the port", row.addr, row.names, s.base, row.want)
		}
	}
}

func pemBytes(t *testing.T, text string) []byte {
	t.Helper()
	block, rest := pem.Decode([]byte(text))
	if block == nil || len(rest) > 0 {
		t.Fatalf("want one PEM block: %q", text)
	}
	return block.Bytes
}
