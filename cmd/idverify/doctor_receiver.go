package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/idverify/idverify-go/signature"
)

// receiver is a callback or redirect URL.
type receiver struct {
	*doctorRun
	kind     string // "callback" or "redirect"
	url      *url.URL
	unsigned *exchange // of an unsigned message
}

// receiverChecks returns the checks of callback or redirect URLs. They send messages that a
// receiver must reject. The messages report an error, so that a receiver that accepts them does not
// approve anything.
func (d *doctorRun) receiverChecks(kind string, urls []string) []doctorCheck {
	var all []doctorCheck
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.Fragment != "" {
			invalid := func(context.Context) diagnosis {
				return sick("invalid", "not an absolute http or https URL without user and fragment")
			}
			all = append(all, doctorCheck{name: kind + "-address", run: invalid})
			continue
		}
		r := &receiver{doctorRun: d, kind: kind, url: u}
		add := func(name string, run func(context.Context) diagnosis, needs ...string) {
			for i := range needs {
				needs[i] = kind + "-" + needs[i]
			}
			all = append(all, doctorCheck{name: kind + "-" + name, target: u.Host + u.EscapedPath(), needs: append(needs, "config-ca-file"), run: run})
		}
		add("address", r.checkAddress)
		add("tls", r.checkTLS, "address")
		add("unsigned", r.checkUnsigned, "address", "tls")
		add("forged", r.checkForged, "address", "tls", "unsigned")
		if kind == "callback" {
			add("get", r.checkGet, "address", "tls", "unsigned")
		}
	}
	return all
}

// first returns the exchange of an unsigned message. The first call sends the message.
func (r *receiver) first(ctx context.Context) *exchange {
	if r.unsigned == nil {
		e := r.send(ctx, r.message())
		r.unsigned = &e
	}
	return r.unsigned
}

// harmlessID is the check ID of the messages. No check has it.
const harmlessID = "00000000-0000-4000-8000-000000000000"

// message returns an unsigned message.
func (r *receiver) message() *http.Request {
	if r.kind == "redirect" {
		u := *r.url
		if u.RawQuery != "" {
			u.RawQuery += "&"
		}
		u.RawQuery += "check_id=" + harmlessID + "&error=doctor"
		return newRequest(http.MethodGet, &u, nil)
	}
	body := []byte(`{"check_id":"` + harmlessID + `","status":"ERROR","match":false,"charge_amount":0,"charge_currency":"API","created_at":"2000-01-01T00:00:00+0000","error_code":"doctor"}`)
	m := newRequest(http.MethodPost, r.url, body)
	m.Header.Set("Content-Type", "application/json")
	m.Header.Set("X-Service-Callback", "phone_check")
	return m
}

// forged returns a message that is signed with a new key under the ID of a key of the service.
func (r *receiver) forged() (*http.Request, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	keyID := r.keyID
	if keyID == "" {
		keyID = "doctor"
	}
	signer, err := signature.NewSigner(keyID, key, nil)
	if err != nil {
		return nil, err
	}
	m := r.message()
	if r.kind == "redirect" {
		return m, signer.SignRedirect(m.URL)
	}
	body := []byte(`{"check_id":"` + harmlessID + `","status":"ERROR","match":false,"created_at":"2000-01-01T00:00:00+0000","error_code":"doctor"}`)
	return m, signer.SignCallback(m, body)
}

// checkAddress checks the address of the receiver, and that it can be reached from here.
func (r *receiver) checkAddress(ctx context.Context) diagnosis {
	host := r.url.Hostname()
	// Behind a proxy, the DNS server may be unreachable. Leave time for the request.
	lookup, cancel := r.withTimeout(ctx, r.timeout/2)
	defer cancel()
	addresses, err := lookUp(lookup, host)
	e := r.first(ctx)
	switch {
	case err != nil && e.proxy == nil:
		return sick("unresolved", "%s: %s", host, cause(err))
	case !e.connected && e.proxy == nil:
		return sick(unreachable(e.dial), "from here: %s", e.failure())
	case !e.connected, e.atProxy() && e.proxyStatus != http.StatusOK:
		return sick("unreachable", "from here, through the proxy: %s", e.failure())
	case err != nil:
		return healthy("%s is not resolved here, and may be private; reachable through the proxy", host)
	}
	if i := slices.IndexFunc(addresses, isPrivate); i >= 0 {
		return sick("private", "%s is a private address", addresses[i])
	}
	return healthy("public, and reachable from here (the network of the service may differ)")
}

// lookUp returns the addresses of a host, which may be an address.
func lookUp(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, nil
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for i := range addresses {
		addresses[i] = addresses[i].Unmap()
	}
	return addresses, err
}

// sharedAddresses is the range of carriers (RFC 6598).
var sharedAddresses = netip.MustParsePrefix("100.64.0.0/10")

// isPrivate reports whether the service cannot reach an address.
func isPrivate(a netip.Addr) bool {
	return a.IsPrivate() || !a.IsGlobalUnicast() || sharedAddresses.Contains(a)
}

func (r *receiver) checkTLS(ctx context.Context) diagnosis {
	if r.url.Scheme != "https" {
		return sick("unencrypted", "the URL has the scheme http")
	}
	e := r.first(ctx)
	found := r.checkCertificate(e, r.url.Hostname())
	if found.problem == "" && r.roots() != nil && verifyChain(*e.tls, r.url.Hostname(), nil) != nil {
		return sick("private-ca", "only %s contains the root %q", caFileVariable, e.tls.PeerCertificates[len(e.tls.PeerCertificates)-1].Issuer.String())
	}
	return found
}

func (r *receiver) checkUnsigned(ctx context.Context) diagnosis {
	return r.rejection(r.first(ctx), "unsigned")
}

func (r *receiver) checkForged(ctx context.Context) diagnosis {
	m, err := r.forged()
	if err != nil {
		return skipped("the message cannot be signed: %v", err)
	}
	e := r.send(ctx, m)
	if e.status == http.StatusServiceUnavailable {
		return sick("unavailable", "a message with a wrong signature: %s", statusLine(e.status))
	}
	found := r.rejection(&e, "wrongly signed")
	if found.problem == "" {
		found.format += " (does not prove that valid messages are accepted)"
	}
	return found
}

// slowRejection is the time after which a rejection is slow. The service waits 10 s for a response.
const slowRejection = 3 * time.Second

// rejection evaluates the response to an invalid message.
func (r *receiver) rejection(e *exchange, kind string) diagnosis {
	took := e.ended.Sub(e.began)
	status := e.status
	switch {
	case status == 0:
		return sick("none", "no response to a message that is %s: %s", kind, e.failure())
	case status == http.StatusBadRequest && took > slowRejection:
		return sick("slow", "rejects a message that is %s after %s", kind, seconds(took))
	case status == http.StatusBadRequest:
		return healthy("rejects a message that is %s with 400, in %s", kind, seconds(took))
	}
	problem := "other"
	switch {
	case status/100 == 2:
		problem = "accepted"
	case status/100 == 3:
		problem = "redirect"
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusProxyAuthRequired:
		problem = "login"
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed:
		problem = "not-found"
	case status/100 == 5:
		problem = "error"
	}
	return sick(problem, "the response to a message that is %s is %s", kind, statusLine(status))
}

// checkGet checks that a GET request, as link checkers send it, has no effect.
func (r *receiver) checkGet(ctx context.Context) diagnosis {
	e := r.send(ctx, newRequest(http.MethodGet, r.url, nil))
	switch {
	case e.status == 0:
		return sick("none", "no response to a GET request: %s", e.failure())
	case e.status/100 == 2:
		return sick("accepted", "the response to a GET request is %s", statusLine(e.status))
	}
	return healthy("the response to a GET request is %s", statusLine(e.status))
}
