package main

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
)

func TestProgram_LANFlag(t *testing.T) {
	t.Parallel()
	p, a := startJSON(t, "-lan", "-addr", ":0", "-public-url", "https://sandbox.example.com:0")
	block, _ := pem.Decode(mustRead(t, a.CAFile))
	sum := sha256.Sum256(block.Bytes)
	fingerprint := strings.ReplaceAll(fmt.Sprintf("% X", sum), " ", ":")
	if a.URL == a.PublicURL || !strings.HasPrefix(a.PublicURL, "https://sandbox.example.com:") {
		t.Fatalf("url = %s, public_url = %s, want -public-url with the port of the listener", a.URL, a.PublicURL)
	}
	// The program has printed everything before it responds to a signal.
	p.stop(os.Interrupt)

	for _, want := range []string{"Everyone on the network can reach the service", "accepts only connections from this machine", a.PublicURL + "/_sandbox/ca", fingerprint} {
		if !strings.Contains(p.log.String(), want) {
			t.Errorf("output = %q, want it to contain %q", p.log.String(), want)
		}
	}
}

// Other machines reach the service, and not the control plane. The certificate is valid for the
// address of this machine.
func TestProgram_LANAddress(t *testing.T) {
	t.Parallel()
	p := start(t, "-json", "-lan", "-addr", ":0")
	line, err := p.stdout.ReadString('\n')
	if err != nil {
		if !strings.Contains(p.log.String(), "this machine has no address on a local network (connect it, or set -public-url)") {
			t.Fatalf("the program prints no line: %v %s", err, p.log.String())
		}
		t.Skip("this machine has no address on a local network")
	}
	a := parseAnnounced(t, line)
	public, err := url.Parse(a.PublicURL)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(mustRead(t, a.CAFile))

	conn, err := tls.Dial("tcp", public.Host, &tls.Config{RootCAs: roots})

	if err != nil {
		t.Fatalf("connect to the public URL: %v", err)
	}
	conn.Close()
	if ip := net.ParseIP(public.Hostname()); ip == nil || ip.IsLoopback() || ip.IsUnspecified() {
		t.Errorf("public_url = %s, want an address on the local network", a.PublicURL)
	}
	lan := a
	lan.URL = a.PublicURL
	lan.token(t, a.client(t))
	if status, _ := lan.call(t, "", http.MethodGet, "/_sandbox/health", ""); status != http.StatusOK {
		t.Errorf("health at the public URL = %d, want 200", status)
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
