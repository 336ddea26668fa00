package sandboxfake

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"slices"
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
//
// Protocol: docs/protocol.md, section 7.
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
			priced := []idverify.Product{idverify.ProductPhoneCheck, idverify.ProductSIMCheck, idverify.ProductSubscriberCheck}
			if !slices.Contains(priced, product) {
				return fmt.Errorf("prices: unsupported product %q (use %s, %s or %s)", product, priced[0], priced[1], priced[2])
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

// WithOutcomeFunc sets the function that determines the results of checks of live projects. By
// default they have the same results as checks of sandbox projects. outcome is called while a
// request is processed and must not call the server.
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
//
// Protocol: docs/protocol.md, section 4.
func WithPhoneIPCheck() Option {
	return func(o *options) error {
		o.phoneIPCheck = true
		return nil
	}
}

// WithAdditionalScopes adds scopes that all credentials can request, for programs that also request
// scopes of other products. A token with such a scope grants access to no further operation.
//
// Protocol: docs/protocol.md, section 2.
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
