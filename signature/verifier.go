package signature

import (
	"cmp"
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"time"
)

// Defaults and limits of VerifierOptions.
const (
	defaultCallbackHeader = "x-service-callback"
	defaultClockSkew      = 5 * time.Second
	defaultMaxBody        = 1 << 20

	maxClockSkew = 24 * time.Hour
)

// Verifier verifies the callbacks and redirects that the service sends to a set of hosts. It is
// safe for concurrent use.
type Verifier struct {
	keys    KeySource
	hosts   hostSet
	skew    time.Duration
	maxBody int64
	replay  ReplayStore
	header  callbackHeader
	target  func(*http.Request) (host, requestURI string)
	now     func() time.Time
	logger  *slog.Logger
	observe func(context.Context, Verification) // nil if unset
}

// VerifierOptions configures [NewVerifier]. The zero value of a field selects its default.
type VerifierOptions struct {
	// ClockSkew is the largest allowed difference between the date of a message and the clock, in
	// either direction and inclusive. Dates have a resolution of one second. The default is 5 s,
	// the maximum 24 h.
	ClockSkew time.Duration

	// MaxBody is the maximum size of a callback's body, in bytes. The default is 1 MiB.
	MaxBody int64

	// Replay records accepted messages, so that a copy is rejected with ErrReplay. Without a store, a
	// copy is accepted while its date is within the allowed skew. Use one for redirects; callbacks
	// need none if you process each check_id once. All processes that serve the same host must share
	// one store. See [NewMemoryReplayStore].
	Replay ReplayStore

	// CallbackHeader is the name of the header that contains the product of a callback. The
	// default is x-service-callback.
	CallbackHeader string

	// Target returns the host and the request target (path and query) that the service sent, for use
	// behind a proxy that changes them. If a result is empty, the value of r is used. Read the values
	// only from headers that your own proxy always sets, such as X-Forwarded-Host. The verifier checks
	// them like the values of the request. The defaults are r.Host and r.RequestURI.
	Target func(r *http.Request) (host, requestURI string)

	// Now returns the current time. The default is [time.Now].
	Now func() time.Time

	// Logger receives a record for each message that [Verifier.RequireCallback] or
	// [Verifier.RequireRedirect] does not pass to next. The attributes operation ("callback" or
	// "redirect"), reason (the name of the reason, such as "ErrHost") and error contain what the
	// response does not. The level is error if the key source or the replay store is unavailable, or
	// if middleware has consumed the body. It is warn for everything else, because a sender can cause
	// it, for example with an invented key ID or by closing the connection. By default nothing
	// is logged.
	Logger *slog.Logger

	// Observe receives the result of each [Verifier.VerifyCallback] and [Verifier.VerifyRedirect],
	// also of those in [Verifier.RequireCallback] and [Verifier.RequireRedirect], for example to count
	// them. It is called after the decision and before the next handler, on the goroutine of the
	// request and with its context. Calls may be concurrent. The response waits for Observe, so it
	// must return quickly. By default nothing is measured.
	//
	// A panic in Observe does not change the result. It is recovered, and its type is logged to Logger
	// at level error. A panic in Target, Now, Logger, the key source or the replay store continues to
	// the caller. [Verifier.RequireCallback] responds with 500 first, so that the service sends the
	// callback again.
	Observe func(context.Context, Verification)
}

// NewVerifier returns a verifier for messages that are signed with a key from keys and sent to one
// of hosts. At least one host is required: the service signs messages to all customers with the
// same keys, so only the host shows that a message was meant for you.
//
// A host is the host name of your callback or redirect URL ("api.example.com"), with the port if
// the URL has one ("api.example.com:8443"), or with "*" for any port ("localhost:*"). Case is
// ignored, and so are the ports 80 and 443. opts may be nil.
func NewVerifier(keys KeySource, hosts []string, opts *VerifierOptions) (*Verifier, error) {
	if keys == nil {
		return nil, errors.New("signature: new verifier: key source is nil")
	}
	set, err := newHostSet(hosts)
	if err != nil {
		return nil, err
	}
	if opts == nil {
		opts = &VerifierOptions{}
	}
	v := &Verifier{
		keys:    keys,
		hosts:   set,
		skew:    cmp.Or(opts.ClockSkew, defaultClockSkew),
		maxBody: cmp.Or(min(opts.MaxBody, math.MaxInt64-1), defaultMaxBody), // readBody reads one byte more to detect a larger body
		replay:  opts.Replay,
		header:  newCallbackHeader(opts.CallbackHeader),
		target:  opts.Target,
		now:     opts.Now,
		logger:  cmp.Or(opts.Logger, slog.New(slog.DiscardHandler)),
		observe: opts.Observe,
	}
	if v.now == nil {
		v.now = time.Now
	}
	switch {
	case v.skew < 0 || v.skew > maxClockSkew:
		return nil, errors.New("signature: new verifier: ClockSkew must be between 0 and 24 h")
	case v.maxBody < 0:
		return nil, errors.New("signature: new verifier: MaxBody must not be negative")
	case !isToken(v.header.name):
		return nil, errors.New("signature: new verifier: CallbackHeader must be a valid header name")
	}
	return v, nil
}

// AcceptsHost reports whether v accepts messages to host: a name with an optional port, as in a
// URL.
func (v *Verifier) AcceptsHost(host string) bool { return v.hosts.allows(host) }

// WithoutReplayStore returns a verifier like v without VerifierOptions.Replay, for a receiver that
// itself ensures that a copy of a message has no effect. v is not changed.
func (v *Verifier) WithoutReplayStore() *Verifier {
	derived := *v
	derived.replay = nil
	return &derived
}

// received sets the parts of m that callbacks and redirects have in common. If
// VerifierOptions.Target is set, it determines the host and the request target.
func (v *Verifier) received(m *message, r *http.Request, method string) (err error) {
	m.method, m.host, m.header = method, hostOf(r), r.Header
	uri := uriOf(r)
	if v.target != nil {
		host, requestURI := v.target(r)
		m.host, uri = cmp.Or(host, m.host), cmp.Or(requestURI, uri)
	}
	m.target, err = requestTarget(uri, m.host)
	return err
}

// checkSent checks the coverage, the host and the date of m, and returns the date.
func (v *Verifier) checkSent(m *message, required []string) (time.Time, error) {
	if err := m.checkCoverage(required); err != nil {
		return time.Time{}, err
	}
	if !v.hosts.allows(m.host) {
		return time.Time{}, newError(ErrHost, "host is not one of the verifier's hosts (does a proxy change it? see VerifierOptions.Target)")
	}
	return v.checkDate(m.date)
}

// checkSignature looks up the key, verifies the signature and sets m.key. It builds the signing
// string first, because that can fail and is cheaper than a key lookup.
func (v *Verifier) checkSignature(ctx context.Context, m *message, signature []byte) error {
	text, err := m.signingString(make([]byte, 0, usualText))
	if err != nil {
		return err
	}
	key, err := v.keys.PublicKey(ctx, m.keyID)
	switch {
	case errors.Is(err, ErrUnknownKey):
		return newError(ErrUnknownKey, "no usable key with this ID (check that the keys belong to the service that sends the messages; keys that are published twice or with private key parameters are ignored)")
	case err != nil:
		return wrapError(ErrKeySource, "key source failed", err)
	case key == nil:
		return newError(ErrKeySource, "key source returned neither a key nor an error")
	case !usable(key):
		return newError(ErrAlgorithm, "key is not an RSA key of 2048 to 4096 bits")
	}
	sum := sha256.Sum256(text)
	if rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) != nil {
		return newError(ErrSignature, "signature does not verify: message was forged or changed in transit (does a proxy change the path? see VerifierOptions.Target)")
	}
	m.key = key
	return nil
}
