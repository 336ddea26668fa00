package sandboxfake_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// exportedRoots returns a pool with only the exported CA of srv, as clients in other processes use
// it.
func exportedRoots(t *testing.T, srv *sandboxfake.Server) *x509.CertPool {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(srv.CACertPEM()) {
		t.Fatal("CACertPEM is not a PEM certificate")
	}
	return roots
}

// dialExported connects to addr and verifies name as a client that trusts only the exported CA of
// srv.
func dialExported(t *testing.T, srv *sandboxfake.Server, addr, name string) error {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: exportedRoots(t, srv), ServerName: name})
	if err == nil {
		conn.Close()
	}
	return err
}

func TestServer_CACertPEMConstraints(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]sandboxfake.Option{
		"fixed keys":                  nil,
		"fresh keys":                  {sandboxfake.WithFreshKeys()},
		"fresh keys on all addresses": {sandboxfake.WithFreshKeys(), sandboxfake.WithAddr(":0")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := sandboxfake.New(t, opts...)

			block, rest := pem.Decode(srv.CACertPEM())

			if block == nil || len(rest) != 0 {
				t.Fatal("want one PEM block")
			}
			ca := must(x509.ParseCertificate(block.Bytes))(t)
			var ips []string
			for _, ip := range ca.PermittedIPRanges {
				ips = append(ips, ip.String())
			}
			wantEqual(t, []string{"localhost"}, ca.PermittedDNSDomains, "permitted DNS names")
			wantEqual(t, []string{"127.0.0.0/8", "::1/128"}, ips, "permitted addresses")
			if !ca.PermittedDNSDomainsCritical || !ca.IsCA || !ca.MaxPathLenZero {
				t.Errorf("critical = %v, CA = %v, no intermediate CA = %v, want all true", ca.PermittedDNSDomainsCritical, ca.IsCA, ca.MaxPathLenZero)
			}
		})
	}
}

// Apple's devices reject server certificates that are valid for more than 825 days.
func TestServer_FreshCertificateValidity(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithFreshKeys())
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: exportedRoots(t, srv)}, DisableKeepAlives: true}}

	response := must(client.Get(srv.URL() + "/.well-known/jwks.json"))(t)

	response.Body.Close()
	leaf := response.TLS.PeerCertificates[0]
	if valid := leaf.NotAfter.Sub(leaf.NotBefore); valid > 825*24*time.Hour || valid < 300*24*time.Hour {
		t.Errorf("the certificate is valid for %v, want about a year", valid)
	}
}

// Devices trust the CA of fresh keys, so it can sign only what the service needs.
func TestServer_FreshCALimits(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithFreshKeys())
	block, _ := pem.Decode(srv.CACertPEM())

	ca := must(x509.ParseCertificate(block.Bytes))(t)

	wantEqual(t, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, ca.ExtKeyUsage, "extended key usage")
	if valid := ca.NotAfter.Sub(ca.NotBefore); valid > 366*24*time.Hour || time.Until(ca.NotAfter) < 300*24*time.Hour {
		t.Errorf("the CA is valid for %v, until %v, want about a year", valid, ca.NotAfter)
	}
	// The reserved domain has no names, so no name of these types is permitted.
	wantEqual(t, [][]string{{"invalid"}, {"invalid"}}, [][]string{ca.PermittedEmailAddresses, ca.PermittedURIDomains}, "permitted e-mail addresses and URIs")
}

// OpenSSL accepts the service's certificate, and its CA for TLS servers only.
func TestServer_FreshCAInOpenSSL(t *testing.T) {
	t.Parallel()
	tooltest.Require(t, tooltest.Installed("openssl"), "run script/setup interop")
	srv := sandboxfake.New(t, sandboxfake.WithFreshKeys())
	conn := must(tls.Dial("tcp", strings.TrimPrefix(srv.URL(), "https://"), &tls.Config{RootCAs: exportedRoots(t, srv)}))(t)
	conn.Close()
	dir := t.TempDir()
	ca, leaf := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "leaf.pem")
	for file, content := range map[string][]byte{
		ca:   srv.CACertPEM(),
		leaf: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: conn.ConnectionState().PeerCertificates[0].Raw}),
	} {
		noError(t, os.WriteFile(file, content, 0o600))
	}

	verified, verifyErr := exec.CommandContext(t.Context(), "openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-verify_hostname", "localhost", "-CAfile", ca, leaf).CombinedOutput()
	purposes, purposesErr := exec.CommandContext(t.Context(), "openssl", "x509", "-in", ca, "-noout", "-purpose").CombinedOutput()

	if verifyErr != nil {
		t.Errorf("OpenSSL rejects the service: %v %s", verifyErr, verified)
	}
	for _, want := range []string{"SSL server CA : Yes", "SSL client CA : No", "S/MIME signing CA : No", "S/MIME encryption CA : No"} {
		if purposesErr != nil || !strings.Contains(string(purposes), want) {
			t.Errorf("purposes of the CA: %v %s, want %q", purposesErr, purposes, want)
		}
	}
}

// Clients accept the service's certificate and reject a certificate of the same CA for another
// name.
func TestServer_CACertPEMInClients(t *testing.T) {
	t.Parallel()
	for keys, opts := range map[string][]sandboxfake.Option{"fixed keys": nil, "fresh keys": {sandboxfake.WithFreshKeys()}} {
		srv := sandboxfake.New(t, opts...)
		caFile := filepath.Join(t.TempDir(), "ca.pem")
		noError(t, os.WriteFile(caFile, srv.CACertPEM(), 0o600))
		rogue := must(sandboxfake.IssueExported(srv, "shop.example"))(t)
		elsewhere := httptest.NewUnstartedServer(http.NotFoundHandler())
		elsewhere.Config.ErrorLog = log.New(io.Discard, "", 0)
		elsewhere.TLS = &tls.Config{Certificates: []tls.Certificate{rogue}}
		elsewhere.StartTLS()
		t.Cleanup(elsewhere.Close) // after the parallel subtests
		own, other := strings.TrimPrefix(srv.URL(), "https://"), elsewhere.Listener.Addr().String()

		t.Run(keys+" in Go", func(t *testing.T) {
			t.Parallel()
			if err := dialExported(t, srv, own, "localhost"); err != nil {
				t.Errorf("client rejects the service: %v", err)
			}
			err := dialExported(t, srv, other, "shop.example")
			invalid, ok := errors.AsType[x509.CertificateInvalidError](err)
			if !ok || invalid.Reason != x509.CANotAuthorizedForThisName {
				t.Errorf("another host: %v, want a violation of the name constraints", err)
			}
		})
		t.Run(keys+" in curl", func(t *testing.T) {
			t.Parallel()
			tooltest.Require(t, tooltest.Installed("curl"), "run script/setup interop")
			curl := func(addr, name string) (string, error) {
				output, err := exec.CommandContext(t.Context(), "curl", "-sS", "--noproxy", "*", "--cacert", caFile, "--connect-to", "::"+addr, "https://"+name+"/.well-known/jwks.json").CombinedOutput()
				return string(output), err
			}

			if output, err := curl(own, "localhost"); err != nil {
				t.Errorf("client rejects the service: %v %s", err, output)
			}
			if output, err := curl(other, "shop.example"); err == nil || !strings.Contains(output, "permitted subtree violation") {
				t.Errorf("another host: %v %s, want a permitted subtree violation", err, output)
			}
		})
		t.Run(keys+" in Node", func(t *testing.T) {
			t.Parallel()
			tooltest.Require(t, tooltest.Installed("node"), "run script/setup interop")
			const script = `
				const [ca, host, port, servername] = process.argv.slice(1);
				const options = { host, port, servername, ca: require('fs').readFileSync(ca) };
				const socket = require('tls').connect(options, () => { console.log('accepted'); socket.destroy(); });
				socket.on('error', (error) => console.log(error.message));`
			node := func(addr, name string) string {
				host, port, err := net.SplitHostPort(addr)
				if err != nil {
					t.Fatal(err)
				}
				output, err := exec.CommandContext(t.Context(), "node", "-e", script, caFile, host, port, name).CombinedOutput()
				if err != nil {
					t.Fatalf("%v %s", err, output)
				}
				return strings.TrimSpace(string(output))
			}

			if got := node(own, "localhost"); got != "accepted" {
				t.Errorf("client rejects the service: %s", got)
			}
			if got := node(other, "shop.example"); !strings.Contains(got, "permitted subtree violation") {
				t.Errorf("another host: %s, want a permitted subtree violation", got)
			}
		})
	}
}

func TestServer_HandleUsesSeparateCA(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]sandboxfake.Option{"fixed keys": nil, "fresh keys": {sandboxfake.WithFreshKeys()}} {
		for _, host := range []string{"app.sandbox.test", "example.com", "other.example"} {
			t.Run(name+" "+host, func(t *testing.T) {
				t.Parallel()
				srv := sandboxfake.New(t, opts...)
				url := srv.Handle(host, http.NotFoundHandler())
				transport := srv.HTTPClient().Transport.(*http.Transport).Clone()
				transport.TLSClientConfig.RootCAs = exportedRoots(t, srv)
				t.Cleanup(transport.CloseIdleConnections)
				exported := &http.Client{Transport: transport}

				response, err := srv.HTTPClient().Get(url)
				if err != nil {
					t.Fatalf("the server's client does not trust the host: %v", err)
				}
				response.Body.Close()
				_, err = exported.Get(url)

				if _, ok := errors.AsType[x509.UnknownAuthorityError](err); !ok {
					t.Errorf("client with the exported CA: error = %v, want UnknownAuthorityError: that CA must not sign other names", err)
				}
				response, err = exported.Get(srv.URL())
				if err != nil {
					t.Fatalf("client with the exported CA does not trust the service: %v", err)
				}
				response.Body.Close()
			})
		}
	}
}

func TestStart_CertificateHosts(t *testing.T) {
	t.Parallel()
	const fixed = "test certificate is valid only for localhost"
	own := sandboxfake.WithCertificate(newCertificate(t, "sandbox.example.com", "127.0.0.2"))
	for _, row := range []struct {
		name string
		addr string
		opts []sandboxfake.Option
		want string // in the error; if empty, no error
	}{
		{"fixed keys by name", "localhost:0", nil, ""},
		{"fixed keys on all addresses", "0.0.0.0:0", nil, ""},
		{"fixed keys on another loopback address", "127.0.0.2:0", nil, fixed},
		{"fixed keys by other name", "sandbox:0", nil, fixed},
		{"name that is not ASCII", "bücher.example:0", []sandboxfake.Option{sandboxfake.WithFreshKeys()}, "no certificate can be issued"},
		{"address with a zone", "[fe80::1%lo]:0", []sandboxfake.Option{sandboxfake.WithFreshKeys()}, "no certificate can be issued"},
		{"fixed keys and a public host", "127.0.0.1:0", []sandboxfake.Option{sandboxfake.WithPublicURL("https://sandbox.example.com")}, fixed},
		{"fixed keys and a public loopback host", "127.0.0.1:0", []sandboxfake.Option{sandboxfake.WithPublicURL("https://localhost:8443")}, ""},
		{"own certificate for the public host", "127.0.0.1:0", []sandboxfake.Option{sandboxfake.WithPublicURL("https://sandbox.example.com"), own}, ""},
		{"own certificate for another public host", "127.0.0.1:0", []sandboxfake.Option{sandboxfake.WithPublicURL("https://other.example.com"), own}, fixed},
		{"own certificate for the listen address", "127.0.0.2:0", []sandboxfake.Option{own}, ""},
		{"own certificate for another listen address", "127.0.0.3:0", []sandboxfake.Option{own}, fixed},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()

			err := startError(append(row.opts, sandboxfake.WithAddr(row.addr))...)

			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("error = %v, want %q", err, row.want)
			}
		})
	}
}

// newCertificate returns a self-signed certificate for DNS names and IP addresses. Without names,
// it is a CA certificate.
func newCertificate(t *testing.T, names ...string) tls.Certificate {
	t.Helper()
	return tooltest.NewCertificate(t, x509.Certificate{Subject: pkix.Name{CommonName: "own"}, IsCA: len(names) == 0}, nil, names...)
}

// presented returns the certificate that the server at addr presents for the SNI name. SNI contains
// no IP addresses.
func presented(t *testing.T, addr, name string) *x509.Certificate {
	t.Helper()
	conn := must(tls.Dial("tcp", addr, &tls.Config{ServerName: name, InsecureSkipVerify: true}))(t)
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}

func TestWithCertificate_Names(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		own  []string // names of the certificate
		dial string   // address on this machine
		name string   // that the client sends
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
// certificate that is presented there.
func TestWithCertificate_Root(t *testing.T) {
	t.Parallel()
	names := []string{"localhost", "127.0.0.1", "sandbox.example.com"}
	self, root := newCertificate(t, names...), newCertificate(t)
	leaf := tooltest.NewCertificate(t, x509.Certificate{Subject: pkix.Name{CommonName: "leaf"}}, &root, names...)
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
		if err := dialExported(t, srv, addr, ""); err != nil {
			t.Errorf("%s: client with CACertPEM: %v", row.name, err)
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
		err := startError(sandboxfake.WithCertificate(row.certificate))

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
			if err := dialExported(t, srv, addr, name); err != nil {
				t.Errorf("public host %s: client of %s: %v", host, name, err)
			}
		}
	}
}

// tlsReceiver serves handler with a certificate for 127.0.0.1, and returns its URL and its CA
// certificate.
func tlsReceiver(t *testing.T, handler http.Handler) (url string, ca []byte) {
	t.Helper()
	srv := httptest.NewUnstartedServer(handler)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
}

func TestServer_TrustsReceiverCA(t *testing.T) {
	t.Parallel()
	var receiver recordingReceiver
	backend, ca := tlsReceiver(t, &receiver)
	deliver := func(opts ...sandboxfake.Option) sandboxfake.AttemptResult {
		t.Helper()
		a := newAPI(t, sandboxfake.New(t, opts...))
		a.completeCheck(backend + "/callbacks")
		waitIdle(t, a.srv)
		return a.srv.Deliveries()[0].Attempts[0].Result
	}

	with, without := deliver(sandboxfake.WithReceiverCA(append([]byte("a comment\n"), ca...))), deliver()

	if with != sandboxfake.ResultAcknowledged || receiver.count() != 1 {
		t.Errorf("delivery with the option = %q, want %q", with, sandboxfake.ResultAcknowledged)
	}
	if without != sandboxfake.ResultUnreachable {
		t.Errorf("delivery without the option = %q, want %q", without, sandboxfake.ResultUnreachable)
	}
	for name, text := range map[string]string{
		"nothing":     "",
		"not PEM":     "certificate",
		"private key": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
		"invalid one": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
	} {
		if startError(sandboxfake.WithInMemory(), sandboxfake.WithReceiverCA([]byte(text))) == nil {
			t.Errorf("WithReceiverCA accepts %s, want an error", name)
		}
	}
}
