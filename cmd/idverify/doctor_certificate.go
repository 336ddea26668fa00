package main

import (
	"crypto/x509"
	"errors"
	"strings"
	"time"
)

// expiryWarning is how long before its end a certificate is reported.
const expiryWarning = 14 * 24 * time.Hour

// checkCertificate checks the certificate of a server. The problems have the same names for the
// service and for receivers.
func (d *doctorRun) checkCertificate(e *exchange, host string) diagnosis {
	switch {
	case e.tls == nil && e.timedOut():
		return sick("timeout", "no response to the TLS handshake before the timeout: overloaded, or blocked by a firewall")
	case e.tls == nil:
		return sick("handshake", "%s", e.failure())
	}
	leaf := e.tls.PeerCertificates[0]
	last := e.tls.PeerCertificates[len(e.tls.PeerCertificates)-1]
	_, wrongHost := errors.AsType[x509.HostnameError](e.invalid)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](e.invalid)
	now := time.Now()
	switch {
	case e.invalid == nil:
	case now.After(leaf.NotAfter):
		return sick("expired", "the certificate expired on %s", day(leaf.NotAfter))
	case now.Before(leaf.NotBefore):
		return sick("expired", "the certificate is not valid before %s", day(leaf.NotBefore))
	case wrongHost:
		return sick("wrong-host", "the certificate is valid for %s, not for %s", names(leaf), host)
	case unknown:
		return sick("untrusted", "the issuer %q is not trusted%s", last.Issuer.String(), throughProxy(e))
	default:
		return sick("untrusted", "%s%s", e.invalid.Error(), throughProxy(e))
	}
	if e.status == 0 && e.sent.IsZero() {
		return sick("handshake", "%s", e.failure())
	}
	days := int(leaf.NotAfter.Sub(now).Hours() / 24)
	if leaf.NotAfter.Sub(now) < expiryWarning {
		return sick("expires-soon", "the certificate expires in %s, on %s", plural(days, "day"), day(leaf.NotAfter))
	}
	trust := "the system"
	if d.roots() != nil && verifyChain(*e.tls, host, nil) != nil {
		trust = caFileVariable
	}
	return healthy("valid for %s, issued by %q, trusted by %s", plural(days, "more day"), leaf.Issuer.String(), trust)
}

// throughProxy notes that a proxy may have replaced the certificate.
func throughProxy(e *exchange) string {
	if e.proxy == nil {
		return ""
	}
	return " (the proxy may have replaced the certificate of the server)"
}

// names returns the hosts that a certificate is valid for.
func names(c *x509.Certificate) string {
	var all []string
	all = append(all, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		all = append(all, ip.String())
	}
	const shown = 3
	switch {
	case len(all) == 0:
		return "no host"
	case len(all) > shown:
		all = append(all[:shown], "others")
	}
	return strings.Join(all, ", ")
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }
