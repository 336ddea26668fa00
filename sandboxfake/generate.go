package sandboxfake

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"net"
	"sync"
)

// WithFreshKeys makes the server generate its own keys, which nobody else has: its certificate
// authorities and certificates when it starts, and a signing key then and at each
// [Server.RotateKeys]. Use it where others may reach the server.
// By default all servers share fixed, public test keys, because generating an RSA key takes longer
// than most tests.
//
// The certificate is valid for localhost, loopback and the host of [WithAddr]; with the fixed keys
// only loopback names are possible. The IDs of the signing keys are derived from the keys and not
// from the seed, so that a receiver that cached the key set of an earlier run fetches it again.
func WithFreshKeys() Option {
	return func(o *options) error {
		o.freshKeys = true
		return nil
	}
}

// freshIdentity generates an identity for a service at host, "" for loopback only.
func freshIdentity(host string) (*identity, error) {
	names := []string{"localhost", "127.0.0.1", "::1"}
	if host != "" {
		names = append(names, host)
	}
	id := new(identity)
	var err error
	if id.exported, err = newFreshAuthority("sandboxfake CA of one run", names); err != nil {
		return nil, err
	}
	if id.service, err = id.exported.issue(names...); err != nil {
		return nil, err
	}
	if id.inProcess, err = newFreshAuthority("sandboxfake in-process CA of one run", nil); err != nil {
		return nil, err
	}
	if id.hosts, err = id.inProcess.issue("example.com", "*"+memDomain); err != nil {
		return nil, err
	}
	if id.wrongKey, err = newSigningKey(); err != nil {
		return nil, err
	}
	id.roots = id.newRoots()
	return id, nil
}

// newFreshAuthority generates an authority that is good for names and loopback only, or for any
// name if there are none.
func newFreshAuthority(commonName string, names []string) (authority, error) {
	template, key, err := newTemplate(commonName)
	if err != nil {
		return authority{}, err
	}
	template.KeyUsage = x509.KeyUsageCertSign
	template.BasicConstraintsValid, template.IsCA, template.MaxPathLenZero = true, true, true
	if len(names) > 0 {
		constrain(template, names)
	}
	self := authority{template, key}
	pair, err := self.sign(template, key)
	return authority{pair.Leaf, key}, err
}

// constrain limits what the authority of a certificate may sign, so that a machine that trusts it
// cannot be deceived about other hosts, whoever gets the authority's key (RFC 5280, section
// 4.2.1.10).
func constrain(template *x509.Certificate, names []string) {
	template.PermittedDNSDomainsCritical = true
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

func newSigningKey() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) }

// freshKeys are the signing keys that WithFreshKeys has made. They outlast a Reset, which brings back the first.
type freshKeys struct {
	mu   sync.Mutex // guards keys
	keys []*rsa.PrivateKey
}

// key is the n-th key, counted from 0, made when it is first asked for.
func (f *freshKeys) key(n int) (*rsa.PrivateKey, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.keys) <= n {
		key, err := newSigningKey()
		if err != nil {
			return nil, err
		}
		f.keys = append(f.keys, key)
	}
	return f.keys[n], nil
}

// signingKey is the n-th key that signs, counted from 0, and its id.
func (s *Server) signingKey(st *state, n int) (id string, key *rsa.PrivateKey, err error) {
	if !s.opts.freshKeys {
		pool := s.network.identity.signing
		return st.ids.uuid("key", "", &st.ids.root), pool[n%len(pool)], nil
	}
	if key, err = s.fresh.key(n); err != nil {
		return "", nil, err
	}
	sum := sha256.Sum256(key.N.Bytes())
	return base64.RawURLEncoding.EncodeToString(sum[:]), key, nil
}
