package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
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
	s, err := serveKeys(c, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "key set") }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

// peerCertificate connects to the server as host, and returns its certificate.
func peerCertificate(t *testing.T, s *keyServer, host string, now time.Time) (*x509.Certificate, error) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(readText(t, s.caFile)))
	base, err := url.Parse(s.base)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", net.JoinHostPort("127.0.0.1", base.Port()), &tls.Config{
		RootCAs: roots, ServerName: host, Time: func() time.Time { return now },
	})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0], nil
}

func TestServeKeys_CertificateHosts(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := startKeys(t, keyServerConfig{addr: "127.0.0.1:0", names: []string{"host.docker.internal", "192.0.2.7"}, now: now})

	for _, row := range []struct {
		host string
		want bool
	}{
		{"127.0.0.1", true},
		{"::1", true},
		{"localhost", true},
		{"host.docker.internal", true},
		{"192.0.2.7", true},
		{"192.0.2.8", false},
		{"shop.example.com", false},
	} {
		if _, err := peerCertificate(t, s, row.host, now); (err == nil) != row.want {
			t.Errorf("certificate for %s: error = %v, want valid: %t", row.host, err, row.want)
		}
	}
	if want := "https://host.docker.internal:"; !strings.HasPrefix(s.base, want) {
		t.Errorf("URL = %s, want one that begins with %s", s.base, want)
	}
}

func TestServeKeys_CertificateExpiry(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := startKeys(t, keyServerConfig{addr: "127.0.0.1:0", now: now})

	for _, row := range []struct {
		age  time.Duration
		want bool
	}{{-2 * time.Hour, false}, {-30 * time.Minute, true}, {23 * time.Hour, true}, {25 * time.Hour, false}} {
		if _, err := peerCertificate(t, s, "localhost", now.Add(row.age)); (err == nil) != row.want {
			t.Errorf("certificate after %v: error = %v, want valid: %t", row.age, err, row.want)
		}
	}
}

// Python 3.13 and newer verify certificates by the strict rules of RFC 5280.
func TestServeKeys_CertificateStrict(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := startKeys(t, keyServerConfig{addr: "127.0.0.1:0", now: now})

	leaf, err := peerCertificate(t, s, "localhost", now)

	if err != nil {
		t.Fatal(err)
	}
	ca, err := x509.ParseCertificate(pemBytes(t, readText(t, s.caFile)))
	if err != nil {
		t.Fatal(err)
	}
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
	if err := os.WriteFile(kept, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	named := startKeys(t, keyServerConfig{addr: "127.0.0.1:0", caFile: kept, now: time.Now()})
	temporary := startKeys(t, keyServerConfig{addr: "127.0.0.1:0", now: time.Now()})
	plain := startKeys(t, keyServerConfig{addr: "127.0.0.1:0", plain: true, caFile: kept, now: time.Now()})

	for _, s := range []*keyServer{named, temporary} {
		if got := readText(t, s.caFile); !strings.HasPrefix(got, "-----BEGIN CERTIFICATE-----\n") {
			t.Errorf("%s contains %q, want a certificate", s.caFile, got)
		}
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

func TestServeKeys_Unable(t *testing.T) {
	t.Parallel()
	used := startKeys(t, keyServerConfig{addr: "127.0.0.1:0", plain: true})

	_, portErr := serveKeys(keyServerConfig{addr: strings.TrimPrefix(used.base, "http://")}, http.NotFoundHandler())
	_, fileErr := serveKeys(keyServerConfig{addr: "127.0.0.1:0", caFile: filepath.Join(t.TempDir(), "missing", "ca.pem"), now: time.Now()}, http.NotFoundHandler())

	if portErr == nil || !strings.Contains(portErr.Error(), "-keys") {
		t.Errorf("port in use: error = %v, want one that names -keys", portErr)
	}
	if fileErr == nil || !strings.Contains(fileErr.Error(), "-ca-file") {
		t.Errorf("missing directory: error = %v, want one that names -ca-file", fileErr)
	}
}

func TestServeKeys_CAFileNotRegular(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "ca")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket, link, dangling := filepath.Join(dir, "s"), filepath.Join(dir, "link"), filepath.Join(dir, "dangling")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := errors.Join(os.Symlink(socket, link), os.Symlink(filepath.Join(dir, "missing"), dangling)); err != nil {
		t.Fatal(err)
	}
	serve := func(path string) error {
		s, err := serveKeys(keyServerConfig{addr: "127.0.0.1:0", caFile: path, now: time.Now()}, http.NotFoundHandler())
		if err == nil {
			s.close()
		}
		return err
	}

	for _, path := range []string{socket, link, dir} {
		before, beforeErr := os.Lstat(path)

		err := serve(path)

		if err == nil || !strings.Contains(err.Error(), "not a regular file (set -ca-file") {
			t.Errorf("-ca-file %s: error = %v, want not a regular file", path, err)
		}
		if after, err := os.Lstat(path); beforeErr != nil || err != nil || after.Mode() != before.Mode() || !os.SameFile(before, after) {
			t.Errorf("-ca-file %s replaced it: %v", path, err)
		}
	}
	if err := serve(dangling); err != nil {
		t.Errorf("a symbolic link to nothing must be replaced: %v", err)
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
