package signature

import (
	"context"
	"crypto/rsa"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults of JWKSOptions.
const (
	defaultMaxAge     = 24 * time.Hour
	defaultMinRefetch = 30 * time.Second
	defaultMaxStale   = 24 * time.Hour
)

// JWKS is a [KeySource] for the key set that the service publishes at
// {base_url}/.well-known/jwks.json. It caches the key set. It is safe for concurrent use.
//
// The first key lookup fetches the set. Later lookups fetch it again if its max-age has passed or
// if it does not contain the key ID. Concurrent lookups share one fetch. Each waits for it until
// its own context is done.
//   - A valid response replaces the whole set, so removed keys no longer verify. A copy from a
//     cache whose Age shows that it is older than the last valid set does not replace it: the last
//     one remains in use for another minute, until MaxStale. After any other response, it also
//     remains in use until MaxStale.
//   - Key IDs that are not in the set cause at most one fetch per MinRefetch in total. A lookup
//     returns [ErrUnknownKey] only if the set was fetched after the lookup began and did not come
//     from a cache. Otherwise it returns [ErrKeySource], because the key may be new.
//   - After failed fetches, the delays before the next one are 1 s, 2 s, 4 s and so on, up to
//     MinRefetch. Lookups of keys in the last valid set do not wait for these fetches.
//
// A JWKS measures the age of a set with the wall clock and the monotonic clock, and uses the larger
// value. The monotonic clock stops while a machine is suspended. A set is also fetched again if the
// wall clock has been set back to before the last fetch.
//
// Unusable keys are ignored: keys that are not RSA keys of 2048 to 4096 bits, that have no kid, or
// that are for encryption or another algorithm. If two usable keys share a kid, both are ignored. A
// key is also ignored if its kid or modulus appears with private key parameters anywhere in the
// set.
type JWKS struct {
	url        string
	client     http.Client
	maxAge     time.Duration
	minRefetch time.Duration
	maxStale   time.Duration
	now        func() time.Time
	logger     *slog.Logger

	current atomic.Pointer[keySet] // last valid set; nil before the first fetch

	mu           sync.Mutex // guards the fields below
	started      int        // number of fetches started
	fetch        *fetch     // the fetch in progress, or nil
	failures     int        // consecutive failed fetches
	lastErr      error      // error of the last failed fetch
	retryPause   pause      // no fetches during it, after a failed one
	refetchPause pause      // no fetches for unknown keys during it
}

// JWKSOptions configures [NewJWKS]. The zero value of a field selects its default.
type JWKSOptions struct {
	// HTTPClient fetches the key set. It is copied and not modified. Redirects to other hosts are not
	// followed, and a fetch takes at most 3 s regardless of Timeout. If HTTPClient or its Transport is
	// nil, the transport is a clone of http.DefaultTransport that accepts at most 64 KiB of response
	// headers.
	HTTPClient *http.Client

	// MaxAge is the maximum time that a set is used before it is fetched again. It limits the max-age
	// of the Cache-Control header, and so determines how soon a revoked key is rejected. Default 24 h.
	//
	// The Age of the response is subtracted from its max-age. A result below one minute is raised to
	// one minute. Without a max-age, a set is used for five minutes. MaxAge limits both.
	MaxAge time.Duration

	// MinRefetch is the minimum time between fetches for key IDs that are not in the set. It is also
	// the maximum delay after a failed fetch, and the age below which [JWKS.Refresh] does not fetch
	// the set again. Default 30 s.
	MinRefetch time.Duration

	// MaxStale is how long the last valid set remains in use while fetches fail: its maximum age, see
	// [JWKS.Age]. Default 24 h.
	MaxStale time.Duration

	// Now returns the current time. Default time.Now.
	Now func() time.Time

	// Logger receives a record at level error for each failed fetch, even while the last valid set is
	// still in use. It also receives one for each fetched set in which RSA keys are ignored because
	// they are published twice or with private key parameters. Alert on both. Senders of messages
	// cannot cause them, and a failed fetch is logged long before verification becomes unavailable.
	// Default: nothing is logged.
	Logger *slog.Logger
}

// fetch is a request for the key set. All callers that wait for it share its result.
type fetch struct {
	number  int           // starts at 1
	begun   time.Time     // start time
	ended   time.Time     // end time, or begun if fault is set
	done    chan struct{} // closed when the other fields are final
	set     *keySet
	err     error
	ignored ignoredKeys
	fault   bool // the caller's HTTP client or clock panicked or called runtime.Goexit
}

// NewJWKS returns a key source for the key set at keySetURL. It does not fetch the set yet. The URL
// must use https, because anyone who can change the response can sign messages. opts may be nil.
// Programs with an idverify.Client use its method NewJWKS, which knows the URL.
func NewJWKS(keySetURL string, opts *JWKSOptions) (*JWKS, error) {
	u, err := url.Parse(keySetURL)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return nil, errors.New("signature: new JWKS: URL must be an absolute https URL without user or fragment")
	}
	if opts == nil {
		opts = &JWKSOptions{}
	}
	j := &JWKS{url: u.String(), maxAge: opts.MaxAge, minRefetch: opts.MinRefetch, maxStale: opts.MaxStale, now: opts.Now, logger: opts.Logger}
	if opts.HTTPClient != nil {
		j.client = *opts.HTTPClient
	}
	if j.client.Transport == nil {
		j.client.Transport = defaultTransport()
	}
	j.client.CheckRedirect = sameHostOnly(j.client.CheckRedirect)
	if j.maxAge == 0 {
		j.maxAge = defaultMaxAge
	}
	if j.minRefetch == 0 {
		j.minRefetch = defaultMinRefetch
	}
	if j.maxStale == 0 {
		j.maxStale = defaultMaxStale
	}
	if j.now == nil {
		j.now = time.Now
	}
	if j.logger == nil {
		j.logger = slog.New(slog.DiscardHandler)
	}
	if min(j.maxAge, j.minRefetch, j.maxStale) < 0 {
		return nil, errors.New("signature: new JWKS: MaxAge, MinRefetch and MaxStale must not be negative")
	}
	return j, nil
}

// PublicKey implements [KeySource]. Its error wraps [ErrUnknownKey] if the service has no such key,
// and [ErrKeySource] if this cannot be determined now. If ctx is done, it also wraps the error of
// ctx.
func (j *JWKS) PublicKey(ctx context.Context, keyID string) (*rsa.PublicKey, error) {
	if set := j.current.Load(); set != nil && set.fresh(j.now()) {
		if key := set.keys[keyID]; key != nil {
			return key, nil
		}
	}
	key, err := j.fetchedKey(ctx, keyID)
	if err != nil {
		return nil, withOperation("key lookup", err)
	}
	return key, nil
}

// fetchedKey returns the key. If lookup returns a fetch, fetchedKey waits for it.
func (j *JWKS) fetchedKey(ctx context.Context, keyID string) (*rsa.PublicKey, error) {
	startedBefore := 0 // fetches that were started before this call
	for first := true; ; first = false {
		q := j.lookup(ctx, keyID)
		if first {
			startedBefore = q.started
		}
		if q.key != nil || q.err != nil {
			return q.key, q.err
		}
		select {
		case <-q.fetch.done:
		case <-ctx.Done():
			// The fetch logs its own failure.
			return nil, asWarning(wrapError(ErrKeySource, "get key set", ctx.Err()))
		}
		if q.fetch.err != nil {
			if key := j.staleKey(q.set, keyID); key != nil {
				return key, nil
			}
			return nil, j.unavailable(q.set, q.fetch.err)
		}
		if key := q.fetch.set.keys[keyID]; key != nil {
			return key, nil
		}
		// A fetch that was in progress when this call began may have read the set before the key was
		// added.
		if q.fetch.number > startedBefore {
			if q.fetch.set.cached {
				return nil, asWarning(newError(ErrKeySource, "key set contains no key with this ID, but came from a cache and may be out of date"))
			}
			return nil, newError(ErrUnknownKey, "key set contains no key with this ID")
		}
	}
}

// query is the result of a lookup that does not wait: a key, an error, or the fetch to wait for.
type query struct {
	started int     // fetches started before the lookup
	set     *keySet // last valid set, or nil
	key     *rsa.PublicKey
	fetch   *fetch
	err     error
}

// lookup looks for the key in the last valid set. If the key is not there or the set has expired,
// lookup joins a fetch. It releases the lock even if the caller's clock panics.
func (j *JWKS) lookup(ctx context.Context, keyID string) query {
	j.mu.Lock()
	defer j.mu.Unlock()
	q := query{started: j.started, set: j.current.Load()}
	fresh := q.set != nil && q.set.fresh(j.now())
	if fresh && q.set.keys[keyID] != nil {
		q.key = q.set.keys[keyID]
		return q
	}
	q.fetch, q.err = j.join(ctx, fresh)
	// During an outage, use the old set while possible: the fetch will most likely fail.
	if j.failures > 0 {
		q.key = j.staleKey(q.set, keyID)
	}
	if q.key != nil {
		q.err = nil
	}
	if q.err != nil {
		q.err = j.unavailable(q.set, q.err)
	}
	return q
}

// unavailable returns err, which explains why no newer set is available. If an older usable set
// does not contain the key, it marks err as a warning, because anyone can invent a key ID. Each
// failed fetch has already been logged.
func (j *JWKS) unavailable(set *keySet, err error) error {
	if set == nil {
		return err
	}
	if now := j.now(); set.fresh(now) || set.usable(now, j.maxStale) {
		return asWarning(err)
	}
	return err
}

// staleKey returns the key in the last valid set, or nil. It is used if no newer set is available.
func (j *JWKS) staleKey(set *keySet, keyID string) *rsa.PublicKey {
	if set == nil || !set.usable(j.now(), j.maxStale) {
		return nil
	}
	return set.keys[keyID]
}

// join returns the fetch in progress, or starts one. During a pause it returns an error instead.
// The caller must hold j.mu.
func (j *JWKS) join(ctx context.Context, forUnknownKey bool) (*fetch, error) {
	if j.fetch != nil {
		return j.fetch, nil
	}
	now := j.now()
	if !j.retryPause.over(now) {
		return nil, wrapError(ErrKeySource, "get key set", j.lastErr)
	}
	if forUnknownKey {
		if !j.refetchPause.over(now) {
			return nil, asWarning(newError(ErrKeySource, "key set contains no key with this ID and may not be fetched again yet (see JWKSOptions.MinRefetch)"))
		}
		j.refetchPause = pause{from: now, length: j.minRefetch}
	}
	j.started++
	f := &fetch{number: j.started, begun: now, done: make(chan struct{})}
	j.fetch = f
	// Detach from the first caller's context: if it is canceled, other callers still need the set. The
	// fetch ends after fetchTimeout.
	go j.run(context.WithoutCancel(ctx), f)
	return f, nil
}
