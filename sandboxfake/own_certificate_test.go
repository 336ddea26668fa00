package sandboxfake_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// newCertificate returns a self-signed certificate for DNS names and IP addresses. Without names,
// it is that of an authority.
func newCertificate(t *testing.T, names ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "own"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
	}
	template.IsCA, template.BasicConstraintsValid = len(names) == 0, true
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
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// presented returns the certificate that the server presents to a client that connects to addr and
// verifies name. TLS sends no IP addresses.
func presented(t *testing.T, addr, name string) *x509.Certificate {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}

func TestWithCertificate_Names(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		own  []string // names of the certificate
		dial string   // address on this machine
		name string   // that the client verifies
		want bool     // the own certificate
	}{
		{[]string{"sandbox.example.com"}, "127.0.0.1", "sandbox.example.com", true},
		{[]string{"sandbox.example.com"}, "127.0.0.1", "SANDBOX.example.com", true},
		{[]string{"*.example.com"}, "127.0.0.1", "sandbox.example.com", true},
		{[]string{"*.example.com"}, "127.0.0.1", "a.sandbox.example.com", false},
		{[]string{"sandbox.example.com"}, "127.0.0.1", "localhost", false},
		{[]string{"sandbox.example.com"}, "127.0.0.1", "other.example", false},
		{[]string{"sandbox.example.com"}, "127.0.0.1", "127.0.0.1", false},
		{[]string{"sandbox.example.com"}, "127.0.0.2", "127.0.0.2", false},
		{[]string{"localhost"}, "127.0.0.1", "localhost", true},
		{[]string{"localhost"}, "127.0.0.1", "127.0.0.1", false},
		{[]string{"127.0.0.1"}, "127.0.0.1", "127.0.0.1", true},
		{[]string{"127.0.0.1"}, "127.0.0.1", "localhost", false},
		// The client connects to an address that is translated to 127.0.0.2.
		{[]string{"192.0.2.1"}, "127.0.0.2", "192.0.2.1", true},
		{[]string{"192.0.2.1"}, "127.0.0.1", "127.0.0.1", false},
	} {
		own := newCertificate(t, row.own...)
		srv := sandboxfake.New(t, sandboxfake.WithAddr("0.0.0.0:0"), sandboxfake.WithCertificate(own))
		_, port, _ := net.SplitHostPort(strings.TrimPrefix(srv.URL(), "https://"))

		got := presented(t, net.JoinHostPort(row.dial, port), row.name)

		if (string(got.Raw) == string(own.Certificate[0])) != row.want {
			t.Errorf("certificate for %s, client of %s at %s: got that of %v, want the own one: %v", row.own, row.name, row.dial, got.DNSNames, row.want)
		}
	}
}

// A certificate of an unknown authority is not presented on loopback, and CACertPEM verifies the
// certificate that is.
func TestWithCertificate_Root(t *testing.T) {
	t.Parallel()
	names := []string{"localhost", "127.0.0.1", "sandbox.example.com"}
	self, root := newCertificate(t, names...), newCertificate(t)
	leaf := issue(t, root, names...)
	chain := leaf
	chain.Certificate = append(slices.Clone(leaf.Certificate), root.Certificate...)
	for _, row := range []struct {
		name        string
		certificate tls.Certificate
		loopback    bool // presented on loopback
	}{{"self-signed", self, true}, {"with root", chain, true}, {"without root", leaf, false}} {
		srv := sandboxfake.New(t, sandboxfake.WithCertificate(row.certificate))
		addr := strings.TrimPrefix(srv.URL(), "https://")

		for _, name := range names {
			got := presented(t, addr, name)

			if want := row.loopback || name == "sandbox.example.com"; (string(got.Raw) == string(row.certificate.Certificate[0])) != want {
				t.Errorf("%s: client of %s gets the own certificate: %v, want %v", row.name, name, !want, want)
			}
		}
		if conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: exportedRoots(t, srv)}); err != nil {
			t.Errorf("%s: client with CACertPEM: %v", row.name, err)
		} else {
			conn.Close()
		}
	}
}

// issue returns a certificate that issuer signed.
func issue(t *testing.T, issuer tls.Certificate, names ...string) tls.Certificate {
	t.Helper()
	issued := newCertificate(t, names...)
	template, err := x509.ParseCertificate(issued.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	template.Subject.CommonName = "leaf"
	parent, err := x509.ParseCertificate(issuer.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	issued.Certificate[0], err = x509.CreateCertificate(rand.Reader, template, parent, issued.PrivateKey.(*ecdsa.PrivateKey).Public(), issuer.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return issued
}

// In-process clients do not trust the authority of the own certificate.
func TestWithCertificate_InProcessClients(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"localhost", "127.0.0.1"} {
		srv := sandboxfake.New(t, sandboxfake.WithAddr(name+":0"), sandboxfake.WithCertificate(newCertificate(t, name)))
		client := srv.Client()

		check, err := client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if visit, err := srv.Device().Open(t.Context(), check.CheckURL); err != nil || visit.Status != http.StatusOK {
			t.Errorf("%s: open the Check URL: %+v, %v", name, visit, err)
		}
		srv.Close()
		if _, err := srv.HTTPClient().Get(srv.URL()); err == nil {
			t.Errorf("%s: the closed server responds", name)
		}
	}
}

func TestWithCertificate_RejectsUnusable(t *testing.T) {
	t.Parallel()
	other := newCertificate(t, "sandbox.example.com")
	mismatched, invalid, noKey := newCertificate(t, "sandbox.example.com"), newCertificate(t, "sandbox.example.com"), newCertificate(t, "sandbox.example.com")
	mismatched.PrivateKey = other.PrivateKey
	invalid.Certificate[0] = invalid.Certificate[0][1:]
	noKey.PrivateKey = nil
	for _, row := range []struct {
		name        string
		certificate tls.Certificate
		want        string
	}{
		{"zero value", tls.Certificate{}, "no certificate found"},
		{"malformed", invalid, "invalid certificate"},
		{"without key", noKey, "no private key found"},
		{"with the key of another", mismatched, "does not match the certificate"},
		{"without names", newCertificate(t), "subject alternative names"},
	} {
		srv, err := sandboxfake.Start(sandboxfake.WithCertificate(row.certificate))

		if err == nil {
			srv.Close()
		}
		if err == nil || !strings.Contains(err.Error(), row.want) || !strings.HasPrefix(err.Error(), "sandboxfake: certificate: ") {
			t.Errorf("%s: error %v, want %q", row.name, err, row.want)
		}
	}
}

// A client that trusts only the exported CA accepts the generated certificate for the public host.
func TestWithFreshKeys_PublicHost(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"sandbox.example.com", "192.0.2.1", "2001:db8::1"} {
		srv := sandboxfake.New(t, sandboxfake.WithFreshKeys(), sandboxfake.WithPublicURL("https://"+net.JoinHostPort(host, "8443")))
		addr := strings.TrimPrefix(srv.URL(), "https://")

		for _, name := range []string{host, "localhost", "127.0.0.1"} {
			conn, err := tls.Dial("tcp", addr, &tls.Config{ServerName: name, RootCAs: exportedRoots(t, srv)})
			if err != nil {
				t.Errorf("public host %s: client of %s: %v", host, name, err)
				continue
			}
			conn.Close()
		}
	}
}
