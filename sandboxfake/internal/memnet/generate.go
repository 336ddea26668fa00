package memnet

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"net"
	"time"
)

// GenerateCertificates returns new certificates for a service on loopback and on hosts.
func GenerateCertificates(hosts ...string) (*Certificates, error) {
	names := append([]string{"localhost", "127.0.0.1", "::1"}, hosts...)
	c := new(Certificates)
	var err error
	if c.Exported, err = generateAuthority("sandboxfake CA of one run", names); err != nil {
		return nil, err
	}
	if c.Service, err = c.Exported.issueForYear(names); err != nil {
		return nil, err
	}
	// With the CA certificate, a client that trusts that of another run can report the difference.
	c.Service.Certificate = append(c.Service.Certificate, c.Exported.Certificate.Raw)
	if c.inProcess, err = generateAuthority("sandboxfake in-process CA of one run", nil); err != nil {
		return nil, err
	}
	if c.hosts, err = c.inProcess.Issue("example.com", "*"+domain); err != nil {
		return nil, err
	}
	c.roots = c.newRoots()
	return c, nil
}

// issueForYear returns a new server certificate that is valid for a year. Phones and browsers may
// reject server certificates that are valid for more than 825 days, whatever the authority.
func (a Authority) issueForYear(names []string) (tls.Certificate, error) {
	template, key, err := newServerTemplate(names)
	if err != nil {
		return tls.Certificate{}, err
	}
	limitToYear(template)
	return a.sign(template, key)
}

// limitToYear makes a certificate valid for a year, since yesterday: the clock of a phone may be
// late.
func limitToYear(template *x509.Certificate) {
	template.NotBefore = time.Now().AddDate(0, 0, -1)
	template.NotAfter = template.NotBefore.AddDate(1, 0, 0)
}

// generateAuthority generates an authority that is constrained to TLS servers with names and on
// loopback, for a year, or unconstrained if there are no names.
func generateAuthority(commonName string, names []string) (Authority, error) {
	template, key, err := newTemplate(commonName)
	if err != nil {
		return Authority{}, err
	}
	template.KeyUsage = x509.KeyUsageCertSign
	template.BasicConstraintsValid, template.IsCA, template.MaxPathLenZero = true, true, true
	if len(names) > 0 {
		constrain(template, names)
		limitToYear(template)
	}
	self := Authority{template, key}
	pair, err := self.sign(template, key)
	return Authority{pair.Leaf, key}, err
}

// constrain limits an authority to TLS servers with names and on loopback (RFC 5280, sections
// 4.2.1.10 and 4.2.1.12), so that its key cannot impersonate other hosts, or people, to machines
// that trust it.
func constrain(template *x509.Certificate, names []string) {
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.PermittedDNSDomainsCritical = true
	// Nobody has a name in the reserved domain invalid, so this excludes all names of these types.
	// The constraint of RFC 5280 for all names, an empty one, excludes nothing in OpenSSL.
	template.PermittedEmailAddresses, template.PermittedURIDomains = []string{"invalid"}, []string{"invalid"}
	template.PermittedIPRanges = []*net.IPNet{
		{IP: net.IPv4(127, 0, 0, 0).To4(), Mask: net.CIDRMask(8, 32)},
	}
	for _, name := range names {
		ip := net.ParseIP(name)
		switch {
		case ip == nil:
			template.PermittedDNSDomains = append(template.PermittedDNSDomains, name)
		case ip.To4() == nil:
			template.PermittedIPRanges = append(template.PermittedIPRanges, &net.IPNet{IP: ip, Mask: net.CIDRMask(128, 128)})
		case !ip.IsLoopback():
			template.PermittedIPRanges = append(template.PermittedIPRanges, &net.IPNet{IP: ip.To4(), Mask: net.CIDRMask(32, 32)})
		}
	}
}

// GenerateKey returns a new RSA key for signing messages.
func GenerateKey() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) }
