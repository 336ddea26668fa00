package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// exchange is a request without credentials, with everything that its connection disclosed. It is
// not sent if the certificate is invalid.
type exchange struct {
	proxy       *url.URL // nil without a proxy
	proxyStatus int      // of the response to CONNECT; 0 without one
	addresses   []netip.Addr
	lookup      error // of the name
	connected   bool
	dial        error
	tls         *tls.ConnectionState // of the server; nil if it sent no certificate
	invalid     error                // why the certificate is not trusted
	sent        time.Time            // when the request was written
	received    time.Time            // when the first byte of the response arrived

	began, ended time.Time
	status       int // of the response; 0 if there is none
	header       http.Header
	body         []byte
	err          error
}

// maxExchangeBody is the limit of a key set.
const maxExchangeBody = 1 << 20

// roots returns the certificates of the CA file and the system, or nil for those of the system.
func (d *doctorRun) roots() *x509.CertPool {
	path := d.getenv(caFileVariable)
	if path == "" {
		return nil
	}
	pool, _ := certPool(caFileVariable, path) // the checks of the configuration have verified the file
	return pool
}

// send sends a request and follows no redirect.
func (d *doctorRun) send(ctx context.Context, r *http.Request) exchange {
	rec := &recorder{now: d.now}
	roots := d.roots()
	transport := &http.Transport{
		Proxy: func(r *http.Request) (*url.URL, error) {
			proxy, err := d.proxy(r)
			rec.record(func(e *exchange) { e.proxy = proxy })
			return proxy, err
		},
		OnProxyConnectResponse: func(_ context.Context, _ *url.URL, _ *http.Request, response *http.Response) error {
			rec.record(func(e *exchange) { e.proxyStatus = response.StatusCode })
			return nil
		},
		TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true, //nolint:gosec // rec.verify returns an error for an invalid certificate.
			VerifyConnection:   func(state tls.ConnectionState) error { return rec.verify(state, r.URL.Hostname(), roots) },
		},
		ForceAttemptHTTP2:      true,
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: 64 << 10,
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r.Header.Set("User-Agent", userAgent())
	return rec.do(client, r.WithContext(httptrace.WithClientTrace(ctx, rec.trace())))
}

// recorder records an exchange. Hooks of the transport can still run after the request has ended.
type recorder struct {
	now func() time.Time

	mu sync.Mutex // guards e
	e  exchange
}

func (rec *recorder) record(f func(*exchange)) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	f(&rec.e)
}

// do sends the request, and returns what was recorded.
func (rec *recorder) do(client *http.Client, r *http.Request) exchange {
	result := exchange{began: rec.now()}
	response, err := client.Do(r)
	if err == nil {
		defer response.Body.Close()
		result.status, result.header = response.StatusCode, response.Header
		result.body, err = io.ReadAll(io.LimitReader(response.Body, maxExchangeBody))
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // without the URL
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	recorded := rec.e
	recorded.began, recorded.ended, recorded.err = result.began, rec.now(), err
	recorded.status, recorded.header, recorded.body = result.status, result.header, result.body
	return recorded
}

// verify verifies the certificate of a connection as package tls does, and keeps it even if it is
// invalid.
func (rec *recorder) verify(state tls.ConnectionState, host string, roots *x509.CertPool) error {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if proxy := rec.e.proxy; proxy != nil && proxy.Scheme == "https" && rec.e.proxyStatus == 0 {
		return verifyChain(state, proxy.Hostname(), roots)
	}
	rec.e.tls, rec.e.invalid = &state, verifyChain(state, host, roots)
	return rec.e.invalid
}

// trace records the steps of the connection.
func (rec *recorder) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		DNSDone: func(i httptrace.DNSDoneInfo) {
			rec.record(func(e *exchange) {
				e.lookup = i.Err
				for _, a := range i.Addrs {
					if addr, ok := netip.AddrFromSlice(a.IP); ok {
						e.addresses = append(e.addresses, addr.Unmap())
					}
				}
			})
		},
		ConnectDone: func(_, _ string, err error) {
			rec.record(func(e *exchange) { e.connected, e.dial = e.connected || err == nil, err })
		},
		WroteRequest:         func(httptrace.WroteRequestInfo) { rec.record(func(e *exchange) { e.sent = rec.now() }) },
		GotFirstResponseByte: func() { rec.record(func(e *exchange) { e.received = rec.now() }) },
	}
}

// verifyChain verifies the certificate of a connection to host.
func verifyChain(state tls.ConnectionState, host string, roots *x509.CertPool) error {
	intermediates := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		intermediates.AddCert(c)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: intermediates})
	return err
}

// timedOut reports whether the exchange ended because of the timeout.
func (e *exchange) timedOut() bool {
	failure, ok := errors.AsType[net.Error](e.err)
	return errors.Is(e.err, context.DeadlineExceeded) || ok && failure.Timeout()
}

// atProxy reports whether the exchange ended because the proxy did not connect to the server.
func (e *exchange) atProxy() bool {
	return e.proxy != nil && e.tls == nil && e.status == 0
}

// cause returns the innermost text of a network error, without an address.
func cause(err error) string {
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Err != nil {
		return e.Err.Error()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no response before the timeout"
	}
	return err.Error()
}

// newRequest returns a request with a body.
func newRequest(method string, u *url.URL, body []byte) *http.Request {
	r := &http.Request{Method: method, URL: u, Header: make(http.Header), Host: u.Host, Body: http.NoBody}
	if body != nil {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	return r
}

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
	now := d.now()
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
