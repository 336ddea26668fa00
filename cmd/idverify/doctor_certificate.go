package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strconv"
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
	now := time.Now()
	switch {
	case e.invalid == nil:
	case now.After(leaf.NotAfter):
		return sick("expired", "the certificate expired on %s", day(leaf.NotAfter))
	case now.Before(leaf.NotBefore):
		return sick("expired", "the certificate is not valid before %s", day(leaf.NotBefore))
	case wrongHost:
		return sick("wrong-host", "the certificate is valid for %s, not for %s", names(leaf), host)
	case isUntrusted(e.invalid):
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

// isUntrusted reports whether a certificate is not trusted because its root certificate is unknown.
func isUntrusted(err error) bool {
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	return unknown
}

// otherCA compares the root certificate of an untrusted chain with those in the CA file at path.
// Both can have the same subject, like those of two runs of sandboxfake.
func otherCA(chain []*x509.Certificate, path string) string {
	last := chain[len(chain)-1]
	root := strconv.Quote(last.Issuer.String())
	if bytes.Equal(last.RawSubject, last.RawIssuer) { // the server sends the root certificate
		root = identity(last)
	}
	text, _ := readFile(caFileVariable, path)
	var own []string
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			own = append(own, identity(c))
		}
	}
	contents := "no certificate"
	if len(own) > 0 {
		contents = own[0]
	}
	if len(own) > 1 {
		contents += fmt.Sprintf(" and %d others", len(own)-1)
	}
	return "the root certificate of the server is " + root + ", but " + caFileVariable + " contains " + contents
}

// identity returns the subject of a certificate and the beginning of its fingerprint.
func identity(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	fingerprint := strings.ReplaceAll(fmt.Sprintf("% X", sum[:8]), " ", ":")
	return fmt.Sprintf("%q with SHA-256 %s…", c.Subject.String(), fingerprint)
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
