package sandboxfake

import (
	"cmp"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/idverify/idverify-go/sandboxfake/internal/memnet"
)

// WithInMemory runs the server without a network socket. Clients connect in memory through
// [Server.HTTPClient]. It is required in a testing/synctest bubble, and useful in a test that
// starts thousands of servers. Callbacks then reach only the hosts of [Server.Handle].
func WithInMemory() Option {
	return func(o *options) error {
		o.inMemory = true
		return nil
	}
}

// WithAddr sets the TCP address to listen on. The default is "127.0.0.1:0", a free port.
func WithAddr(addr string) Option {
	return func(o *options) error {
		o.addr = addr
		return nil
	}
}

// WithPublicURL sets the base of all links in responses, such as Check URLs. Use it if others reach
// the server at another address than [Server.URL], for example through a tunnel or from a phone.
// The URL is https://host or https://host:port. Port 0 stands for the port that the server listens
// on.
//
// The certificate of [WithFreshKeys] is also valid for the host. Callbacks, [Server.Device] and
// [Server.HTTPClient] connect to the host and port in memory, not through the tunnel. The server
// ignores the Host and X-Forwarded headers of requests.
func WithPublicURL(baseURL string) Option {
	return func(o *options) (err error) {
		if o.public, err = parsePublicURL(baseURL); err != nil {
			return fmt.Errorf("public URL: %w", err)
		}
		return nil
	}
}

// WithCertificate sets the certificate that the server presents to clients that connect to a name
// or an IP address that it is valid for. To other clients the server presents the certificate of
// its own authority. Clients of [Server.HTTPClient] and [Server.Device] do not need to trust it.
//
// [Server.CACertPEM] then also contains the root certificate, if the chain or the system's trusted
// roots contain it. A self-signed certificate is its own root. Without a root, the server does not
// present the certificate for localhost and loopback addresses, where clients could not verify it.
//
// It is an error if the certificate has no subject alternative name or does not match its key. The
// server does not check its dates.
func WithCertificate(certificate tls.Certificate) Option {
	return func(o *options) error {
		if len(certificate.Certificate) == 0 {
			return errors.New("certificate: no certificate found")
		}
		leaf, err := x509.ParseCertificate(certificate.Certificate[0])
		if err != nil {
			return fmt.Errorf("certificate: invalid certificate: %w", err)
		}
		key, ok := certificate.PrivateKey.(crypto.Signer)
		if !ok {
			return errors.New("certificate: no private key found")
		}
		public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
		switch {
		case !ok || !public.Equal(leaf.PublicKey):
			return errors.New("certificate: the private key does not match the certificate")
		case len(leaf.DNSNames)+len(leaf.IPAddresses) == 0:
			return errors.New("certificate: valid for no host (it needs subject alternative names)")
		}
		own := certificate // an Option can be applied by several goroutines
		own.Leaf = leaf
		o.certificate = memnet.NewOwnCertificate(own)
		return nil
	}
}

// WithReceiverCA makes callbacks, [Server.Device] and [Server.HTTPClient] trust the certificate
// authorities in pemCertificates, in addition to the system roots. Use it for receivers whose
// certificates are issued by a private authority. It is an error if pemCertificates contains no
// certificate.
func WithReceiverCA(pemCertificates []byte) Option {
	return func(o *options) error {
		found := false
		for block, rest := pem.Decode(pemCertificates); block != nil; block, rest = pem.Decode(rest) {
			if block.Type != "CERTIFICATE" {
				continue
			}
			certificate, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return fmt.Errorf("receiver CA: invalid certificate: %w", err)
			}
			o.receiverCAs, found = append(o.receiverCAs, certificate), true
		}
		if !found {
			return errors.New("receiver CA: no PEM certificate found")
		}
		return nil
	}
}

// WithFreshKeys makes the server generate its own keys. It generates the keys of its certificate
// authorities and certificates when it starts, and a signing key at the start and at each
// [Server.RotateKeys]. Use it if others can reach the server. By default all servers share fixed,
// public test keys, because generating an RSA key takes longer than most tests.
//
// The certificate is valid for localhost, loopback addresses, and the hosts of [WithAddr] and
// [WithPublicURL]. With the fixed keys, it is valid only for loopback names. The IDs of the signing
// keys are derived from the keys, not from the seed, so that a receiver with a cached key set from
// an earlier run fetches it again.
func WithFreshKeys() Option {
	return func(o *options) error {
		o.freshKeys = true
		return nil
	}
}

// errFixedKeysHost is returned if the test certificate is not valid for a host.
var errFixedKeysHost = errors.New("the test certificate is valid only for localhost, 127.0.0.1 and [::1] (use fresh keys, or your own certificate, for another host)")

// certificates returns the certificates and signing keys that the options require.
func (o *options) certificates() (*memnet.Certificates, *keySource, error) {
	hosts, err := o.certificateHosts()
	if err != nil {
		return nil, nil, err
	}
	var certificates *memnet.Certificates
	var keys *keySource
	if o.freshKeys {
		if certificates, err = memnet.GenerateCertificates(hosts...); err != nil {
			return nil, nil, err
		}
		if keys, err = newFreshKeySource(); err != nil {
			return nil, nil, err
		}
	} else {
		var fixed *memnet.Keys
		if certificates, fixed, err = memnet.TestCertificates(); err != nil {
			return nil, nil, err
		}
		for _, host := range hosts {
			if certificates.Service.Leaf.VerifyHostname(host) != nil {
				return nil, nil, errFixedKeysHost
			}
		}
		keys = &keySource{pool: fixed.Signing, wrong: fixed.Wrong}
	}
	if len(o.receiverCAs) > 0 {
		certificates = certificates.Trusting(o.receiverCAs)
	}
	if o.certificate != nil {
		certificates = certificates.Presenting(o.certificate)
	}
	return certificates, keys, nil
}

// certificateHosts returns the hosts of WithAddr and WithPublicURL that the service's certificate
// must be valid for, in addition to loopback.
func (o *options) certificateHosts() ([]string, error) {
	if o.inMemory {
		return nil, nil
	}
	var hosts []string
	for _, host := range []string{memnet.HostName(o.addr), o.public.name} {
		ip := net.ParseIP(host)
		switch {
		case host == "" || ip.IsUnspecified() || slices.Contains(hosts, host):
		case o.certificate.PresentedFor(host):
		case ip == nil && !validHostName(host):
			return nil, errors.New("no certificate can be issued for the host of the listen address (use a DNS name or an IP address without a zone)")
		default:
			hosts = append(hosts, host)
		}
	}
	return hosts, nil
}

// validHostName reports whether a certificate can be issued for a DNS name in lower case.
// VerifyHostname accepts no other characters.
func validHostName(name string) bool {
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789.-_") == "" && !strings.HasPrefix(name, ".")
}

// publicHost is the host of WithPublicURL. Its zero value stands for no public URL.
type publicHost struct {
	name string // in lower case; an IP address without brackets
	port string // "0" for the port of the listener
}

// parsePublicURL parses https://host or https://host:port.
func parsePublicURL(text string) (publicHost, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Path != "" && u.Path != "/" || strings.ContainsAny(text, "?#") {
		return publicHost{}, errors.New("must be https://host or https://host:port, without userinfo, path or query")
	}
	port, err := strconv.ParseUint(cmp.Or(u.Port(), "443"), 10, 16)
	if err != nil {
		return publicHost{}, errors.New("port must be a number from 0 to 65535")
	}
	name := strings.ToLower(u.Hostname())
	if ip, err := netip.ParseAddr(name); err == nil {
		if ip.IsUnspecified() || ip.IsMulticast() || ip.Zone() != "" {
			return publicHost{}, errors.New("address must be that of one host, without a zone")
		}
		name = ip.Unmap().String()
	} else if name == "" || !validHostName(name) || strings.HasSuffix(name, ".") {
		return publicHost{}, errors.New("host must be a DNS name, in ASCII, or an IP address")
	}
	return publicHost{name, strconv.FormatUint(port, 10)}, nil
}
