package sandboxfake

import (
	"cmp"
	"crypto"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/sandboxfake/internal/memnet"
)

// Option configures a [Server].
type Option func(*options) error

type options struct {
	seed           uint64
	newIDs         bool                 // WithNewIDsAfterReset
	credentials    idverify.Credentials // of the initial project; if zero, derived from the seed
	liveProject    bool                 // WithLiveProject
	inMemory       bool
	addr           string
	frozenAt       time.Time
	systemDates    bool
	callbackHeader string
	base64Digest   bool
	journalLimit   int
	rateLimit      int              // requests per hour; 0 for no limit
	prices         map[string]money // by product
	outcomeFunc    func(idverify.Product, string) Outcome
	callerIP       netip.Addr // of callers on a local address; if zero, the address of the connection
	phoneIPCheck   bool       // WithPhoneIPCheck
	extraScopes    []string   // WithAdditionalScopes
	freshKeys      bool
	control        *ControlOptions // nil without WithControl
	noTimeline     bool            // WithoutTimeline
	log            *requestLog     // nil without WithRequestLog
	receiverCAs    []*x509.Certificate
	public         publicHost             // WithPublicURL
	certificate    *memnet.OwnCertificate // WithCertificate
}

func newOptions(opts []Option) (options, error) {
	o := options{addr: "127.0.0.1:0", callbackHeader: wire.CallbackHeader, journalLimit: 1024}
	for _, opt := range opts {
		if err := opt(&o); err != nil {
			return o, err
		}
	}
	return o, o.control.complete()
}

// WithSeed sets the seed from which IDs, credentials, codes and tokens are derived. Servers with
// the same seed return the same values for the same calls. The default is 0.
func WithSeed(seed uint64) Option {
	return func(o *options) error {
		o.seed = seed
		return nil
	}
}

// WithNewIDsAfterReset makes the server generate different IDs, codes, tokens and secrets after
// each [Server.Reset]. Use it if a database keeps the earlier values. The initial workspace,
// project, credentials and signing key stay the same. The n-th reset has the same effect on every
// server with the same seed.
func WithNewIDsAfterReset() Option {
	return func(o *options) error {
		o.newIDs = true
		return nil
	}
}

// WithCredentials sets the credentials of the initial project, which [Server.Credentials] returns.
// By default they are derived from the seed. Use it for programs whose credentials are fixed.
func WithCredentials(c idverify.Credentials) Option {
	return func(o *options) error {
		secret := c.ClientSecret.Reveal()
		switch {
		case c.ClientID == "" || secret == "":
			return errors.New("project credentials: the client ID or the client secret is missing (set both)")
		case strings.TrimSpace(c.ClientID) != c.ClientID || strings.TrimSpace(secret) != secret:
			return errors.New("project credentials: the client ID or the client secret begins or ends with white space")
		case strings.ContainsFunc(c.ClientID, func(r rune) bool { return r == ':' || r < ' ' }):
			return errors.New("project credentials: the client ID contains a colon or a control character")
		}
		o.credentials = c
		return nil
	}
}

// WithLiveProject makes the initial project a live project, for clients with
// [idverify.WithLiveOnly]. Its checks are charged: see [WithPrices]. The workspace starts with a
// balance of 100. By default, the initial project is a sandbox project.
func WithLiveProject() Option {
	return func(o *options) error {
		o.liveProject = true
		return nil
	}
}

// WithFrozenClock freezes the server's clock at t. Only [Server.Advance] moves it. By default the
// clock runs with the system clock, or with the bubble's clock in a testing/synctest bubble.
func WithFrozenClock(t time.Time) Option {
	return func(o *options) error {
		if t.Before(memnet.NotBefore) || t.After(memnet.NotAfter) {
			return errors.New("frozen clock: time must be between 1970 and 2083, when the test certificates are valid")
		}
		o.frozenAt = t.UTC()
		return nil
	}
}

// WithSystemDates dates the signatures of callbacks and redirects with the system clock instead of
// the server's clock. Use it for receivers that compare dates with real time while [Server.Advance]
// moves the server's clock. All other times still come from the server's clock.
//
// With this option, no two messages of one check have the same date, because a receiver would
// reject the second as a replay. The server waits for the next second instead, so 100 messages of
// one check take 100 seconds.
func WithSystemDates() Option {
	return func(o *options) error {
		o.systemDates = true
		return nil
	}
}

// WithCallbackHeader sets the name of the header that contains the product of a callback. The
// default is "x-service-callback".
func WithCallbackHeader(name string) Option {
	return func(o *options) error {
		if name == "" {
			return errors.New("callback header: name must not be empty")
		}
		const tokenChars = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
		if strings.Trim(name, tokenChars) != "" {
			return errors.New("the name of the callback header is not valid")
		}
		o.callbackHeader = name
		return nil
	}
}

// WithBase64Digest encodes the Digest of callbacks in base64 instead of hexadecimal. Receivers must
// accept both.
func WithBase64Digest() Option {
	return func(o *options) error {
		o.base64Digest = true
		return nil
	}
}

// WithJournalLimit sets the number of requests, and of deliveries, that the journals keep. The
// default is 1,024. The oldest entries are dropped first.
func WithJournalLimit(n int) Option {
	return func(o *options) error {
		if n < 1 {
			return fmt.Errorf("journal limit must be at least 1, not %d", n)
		}
		o.journalLimit = n
		return nil
	}
}

// WithPrices sets the prices of checks of live projects, as decimal text such as "0.05", by
// product. Other products cost 1. The currency is that of the workspace.
func WithPrices(prices map[idverify.Product]string) Option {
	return func(o *options) error {
		o.prices = make(map[string]money)
		for product, text := range prices {
			if productNamed(string(product)) == nil {
				return fmt.Errorf("prices: unsupported product %q (use %s)", product, productNames())
			}
			price, err := parseMoney(text)
			if err != nil {
				return fmt.Errorf("price of %s: %w", product, err)
			}
			o.prices[string(product)] = price
		}
		return nil
	}
}

// WithOutcomeFunc sets the function that determines the results of checks of live projects, see
// [WithLiveProject]. By default they have the same results as checks of sandbox projects. outcome
// is called while a request is processed and must not call the server.
func WithOutcomeFunc(outcome func(product idverify.Product, phoneNumber string) Outcome) Option {
	return func(o *options) error {
		o.outcomeFunc = outcome
		return nil
	}
}

// WithCallerIP sets the IP address that the service sees for callers on a loopback or private
// address that request their own reachability, as web SDKs do before they open a Check URL. The
// last digits of the address determine the result: see [ReachabilityOutcome].
//
// By default, and for other callers, it is the address of the connection. Over loopback and in
// memory that is 127.0.0.1, which ends in 1 and is therefore not a mobile IP.
func WithCallerIP(ip netip.Addr) Option {
	return func(o *options) error {
		if !ip.IsValid() || ip.Zone() != "" {
			return errors.New("caller IP: address must be valid and have no zone")
		}
		o.callerIP = ip
		return nil
	}
}

// WithPhoneIPCheck makes a check end as ERROR with the error code ip_mismatch if its Check URL is
// opened from another address than the PhoneIP of the check. In memory, the address of a device is
// 127.0.0.1. By default, the server validates only the syntax of PhoneIP.
func WithPhoneIPCheck() Option {
	return func(o *options) error {
		o.phoneIPCheck = true
		return nil
	}
}

// WithAdditionalScopes adds scopes that all credentials can request, for programs that also request
// scopes of other products. A token with such a scope grants access to no further operation.
func WithAdditionalScopes(scopes ...string) Option {
	return func(o *options) error {
		for _, scope := range scopes {
			// RFC 6749, section 3.3.
			invalid := func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' }
			switch {
			case scope == "" || strings.ContainsFunc(scope, invalid):
				return errors.New("additional scopes: a scope must be printable ASCII without spaces, quotes and backslashes")
			case slices.Contains(projectScopes, scope) || slices.Contains(workspaceScopes, scope):
				return fmt.Errorf("additional scopes: %s is a scope of the service, which only its own credentials can request", scope)
			}
		}
		o.extraScopes = append(o.extraScopes, scopes...)
		return nil
	}
}

// price returns the price of a check of a live project.
func (o *options) price(product string) money {
	if price, ok := o.prices[product]; ok {
		return price
	}
	return moneyUnit
}

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
// authorities and certificates when it starts, a signing key at the start and at each
// [Server.RotateKeys], and the key of [Fault.WrongKey] at the first such fault. Use it if others
// can reach the server. By default all servers share fixed, public test keys, because generating an
// RSA key takes longer than most tests.
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
		keys = newFreshKeySource()
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
		keys = &keySource{pool: fixed.Signing, wrong: func() (*rsa.PrivateKey, error) { return fixed.Wrong, nil }}
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

// WithoutTimeline makes a server of [New] write no timeline when its test fails. The server then
// keeps no events for it. A server of [Start] never writes one.
func WithoutTimeline() Option {
	return func(o *options) error {
		o.noTimeline = true
		return nil
	}
}

// WithRateLimit limits the requests of each workspace, including those of its projects. By default
// there is no limit. The limit applies to requests with a bearer token, unless they are rejected
// because of their token, path or scope. It does not apply to other requests, such as requests for
// tokens, the key set and Check URLs.
//
// The period starts with the first request and ends one hour later on the server's clock. Each
// response to a counted request has X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset.
// Requests beyond the limit have no effect: the response is 429 too_many_requests with Retry-After.
func WithRateLimit(callsPerHour int) Option {
	return func(o *options) error {
		if callsPerHour < 1 {
			return fmt.Errorf("rate limit must be at least one request per hour, not %d", callsPerHour)
		}
		o.rateLimit = callsPerHour
		return nil
	}
}

// WithControl adds a control plane: a JSON API below /_sandbox/ that shows and controls a [Server],
// for tests in other languages and, with a page, for people. GET /_sandbox/ lists its operations.
// If the option is repeated, the last one applies.
//
// With a control plane, the server also keeps checks with their events. It keeps the newest 10,000
// checks, or the limit of [WithJournalLimit] if that is larger, including those that ended as
// EXPIRED or ERROR.
//
// The list of operations, GET /_sandbox/health and GET /_sandbox/service.json, which is [OpenAPI],
// are open to any address. All other requests require a connection from this machine, unless Remote
// is set, and the header "Authorization: Bearer" with the token that [Server.ControlToken] returns,
// or the cookie that POST /_sandbox/session returns for it. Requests from web pages of other
// origins are rejected. Requests to the control plane are not recorded and do not count toward a
// rate limit.
func WithControl(c ControlOptions) Option {
	return func(o *options) error {
		o.control = new(c)
		return nil
	}
}

// WithRequestLog writes a line to w at the end of each request and of each delivery attempt, with
// its time, operation, status and duration. The lines contain no credentials, tokens, codes, phone
// numbers or IP addresses. For headers and bodies, use [Server.Requests].
//
// Each line is one Write; the server does not call w concurrently.
func WithRequestLog(w io.Writer) Option {
	return func(o *options) error {
		o.log = &requestLog{w: w}
		return nil
	}
}
