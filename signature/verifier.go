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
	"strings"
	"time"
)

// Defaults of VerifierOptions, and a bound.
const (
	defaultCallbackHeader = "x-service-callback"
	defaultClockSkew      = 5 * time.Second // specification, section 5.3: "a clock skew tolerance of 5000 (milliseconds)"
	defaultMaxBody        = 1 << 20

	maxClockSkew = 24 * time.Hour
)

// Verifier verifies the callbacks and redirects that the service sends to the given hosts. It may be used from many goroutines at once.
type Verifier struct {
	keys      KeySource
	hosts     hostSet
	skew      time.Duration
	maxBody   int64
	replay    ReplayStore
	headerKey string   // the canonical key of the callback header
	required  []string // what a callback's signature must cover
	target    func(*http.Request) (host, requestURI string)
	now       func() time.Time
	logger    *slog.Logger
}

// VerifierOptions are the choices of [NewVerifier]. Zero fields mean the defaults.
type VerifierOptions struct {
	// ClockSkew is how far a message's date may be from the clock, before and after, inclusive. Default 5 s, at most 24 h. Dates count in whole seconds.
	ClockSkew time.Duration

	// MaxBody is the largest body of a callback, in bytes. Default 1 MiB.
	MaxBody int64

	// Replay remembers the messages that were accepted, so that a copy is refused with ErrReplay. Without it a copy is accepted for as long as its date is.
	// Processes that share the work must share the store. See [NewMemoryReplayStore].
	Replay ReplayStore

	// CallbackHeader names the header with the kind of a callback. Default x-service-callback.
	CallbackHeader string

	// Target gives the host and the request target (path and query) as the service wrote them, where a proxy in front changes either. An empty string means that of the request itself.
	// Take them only from what your own proxy always sets, such as X-Forwarded-Host; both are checked as the request's own would be. Default: r.Host and r.RequestURI.
	Target func(r *http.Request) (host, requestURI string)

	// Now is the clock. Default time.Now.
	Now func() time.Time

	// Logger gets a record from [Verifier.CallbackHandler] and [Verifier.RedirectHandler] for each
	// message that they do not pass on, with the reason, which the response does not contain. The
	// level is error if the key source or the replay store is unavailable, or if middleware has
	// consumed the body. It is warn for everything else, including a request whose context was
	// canceled: a sender can cause all of that, for example with an invented key ID. Default: nothing
	// is logged.
	Logger *slog.Logger
}

// NewVerifier returns a verifier of messages signed with keys and meant for hosts, of which there must be at least one: the service signs for all its customers with the same keys, so only the host tells a message to you from one to another.
//
// A host is a name as in the callback or redirect URL ("api.example.com"), with a port where that has one ("api.example.com:8443"), or with "*" for any port ("localhost:*"). Case and the ports 80 and 443 make no difference. opts may be nil.
func NewVerifier(keys KeySource, hosts []string, opts *VerifierOptions) (*Verifier, error) {
	if keys == nil {
		return nil, errors.New("signature: new verifier: the key source is nil")
	}
	set, err := newHostSet(hosts)
	if err != nil {
		return nil, err
	}
	if opts == nil {
		opts = &VerifierOptions{}
	}
	header := callbackHeaderName(opts.CallbackHeader)
	v := &Verifier{
		keys:      keys,
		hosts:     set,
		skew:      opts.ClockSkew,
		maxBody:   min(opts.MaxBody, math.MaxInt64-1), // one byte more is read to see that there is more
		replay:    opts.Replay,
		headerKey: http.CanonicalHeaderKey(header),
		required:  callbackCoverage(header),
		target:    opts.Target,
		now:       opts.Now,
		logger:    opts.Logger,
	}
	if v.skew == 0 {
		v.skew = defaultClockSkew
	}
	if v.maxBody == 0 {
		v.maxBody = defaultMaxBody
	}
	if v.now == nil {
		v.now = time.Now
	}
	if v.logger == nil {
		v.logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case v.skew < 0 || v.skew > maxClockSkew:
		return nil, errors.New("signature: new verifier: the clock skew is negative or above 24 h")
	case v.maxBody < 0:
		return nil, errors.New("signature: new verifier: the largest body is negative")
	case !isToken(header):
		return nil, errors.New("signature: new verifier: the callback header is not a header name")
	}
	return v, nil
}

// received is what came in r, as far as callbacks and redirects have it in common: where it was sent to, as the service wrote it.
func (v *Verifier) received(r *http.Request, method string) (message, error) {
	m := message{method: method, host: hostOf(r), header: r.Header}
	uri := uriOf(r)
	if v.target != nil {
		host, requestURI := v.target(r)
		m.host, uri = cmp.Or(host, m.host), cmp.Or(requestURI, uri)
	}
	var err error
	m.target, err = requestTarget(uri, m.host)
	return m, err
}

// checkSent refuses what was signed for too little, for another host or for another time, and returns the date.
func (v *Verifier) checkSent(m *message, required []string) (time.Time, error) {
	if err := m.checkCoverage(required); err != nil {
		return time.Time{}, err
	}
	if !v.hosts.allows(m.host) {
		return time.Time{}, newError(ErrHost, "the host is none of those given to the verifier (does a proxy change it? see VerifierOptions.Target)")
	}
	return v.checkDate(m.date)
}

// checkSignature looks up the key, verifies the signature and sets m.key. It builds the signing
// string first: a message that has none needs no key.
func (v *Verifier) checkSignature(ctx context.Context, m *message) error {
	text, err := m.signingString(make([]byte, 0, 512))
	if err != nil {
		return err
	}
	key, err := v.keys.PublicKey(ctx, m.keyID)
	switch {
	case errors.Is(err, ErrUnknownKey):
		return newError(ErrUnknownKey, "the key set has no usable key of this ID (a key that is published twice, or with private parts, is not used)")
	case err != nil:
		return wrapError(ErrKeySource, "the key source failed", err)
	case key == nil:
		return newError(ErrKeySource, "the key source returned neither a key nor an error")
	case !usable(key):
		return newError(ErrAlgorithm, "the key is not an RSA key of 2048 to 4096 bits")
	}
	sum := sha256.Sum256(text)
	if rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], m.signature) != nil {
		return newError(ErrSignature, "the signature does not verify: the message was forged, or changed on its way (does a proxy change the path? see VerifierOptions.Target)")
	}
	m.key = key
	return nil
}

func callbackHeaderName(name string) string {
	if name == "" {
		return defaultCallbackHeader
	}
	return strings.ToLower(name)
}
