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

// JWKS is a [KeySource] over the service's published key set (specification, section 5.3: {base_url}/.well-known/jwks.json). It may be used from many goroutines at once.
//
// The set is fetched when the first key is asked for, not before, and again when it is past its max-age or a key id is not in it. Callers that need a fetch share one and wait for it, no longer than their own context lets them; all others are answered from memory.
//   - A good answer replaces the whole set: a key that is gone from it verifies nothing more. Anything else changes nothing, and the last good set serves on until MaxStale.
//   - A key id that is not in the set causes a fetch at most once per MinRefetch, whoever asks. Only a set that was fetched after the question says [ErrUnknownKey]; in between the answer is [ErrKeySource], because the key may be new.
//   - After a failed fetch the next one waits 1 s, then 2 s, 4 s and so on up to MinRefetch, and those whose key is in the old set do not wait for it.
//
// A set is also fetched again when the wall clock shows that its max-age is over while the
// monotonic clock does not, as after a suspend, and when the wall clock has been set back to before
// the last fetch.
//
// Keys that cannot verify are left out: keys that are not RSA of 2048 to 4096 bits, have no kid, or
// are for encryption or another algorithm. A kid that two usable keys share, and a kid or modulus that
// appears with private parts anywhere in the set, verifies nothing.
type JWKS struct {
	url        string
	client     http.Client
	maxAge     time.Duration
	minRefetch time.Duration
	maxStale   time.Duration
	now        func() time.Time
	logger     *slog.Logger

	current atomic.Pointer[keySet] // the last good set, nil before the first

	mu           sync.Mutex // guards all below
	started      int        // number of fetches started
	fetch        *fetch     // the fetch in progress, or nil
	failures     int        // failed fetches since the last successful one
	lastErr      error      // of the last failed fetch
	retryPause   pause      // no fetch during it, because the last one failed
	refetchPause pause      // no fetch for an unknown key during it
}

// JWKSOptions are the choices of [NewJWKS]. Zero fields mean the defaults.
type JWKSOptions struct {
	// HTTPClient fetches the key set. It is copied, never changed. Its redirects are followed on the
	// same host only, and a fetch takes at most 3 s whatever its Timeout. Without it, or without its
	// Transport, the key set is fetched over a clone of http.DefaultTransport that accepts at most 64
	// KiB of response headers.
	HTTPClient *http.Client

	// MaxAge is the longest that a set is used without being fetched again, however long its Cache-Control allows: how soon a key that was withdrawn is refused. Default 24 h.
	// A max-age below one minute counts as one minute, or MaxAge if that is less; none at all counts as five minutes.
	MaxAge time.Duration

	// MinRefetch is the least time between two fetches for key ids that are not in the set. Default 30 s.
	MinRefetch time.Duration

	// MaxStale is how old the last good set may become while fetching fails. Default 24 h.
	MaxStale time.Duration

	// Now is the clock by which sets age. Default time.Now.
	Now func() time.Time

	// Logger gets a record at level error for each fetch that fails, also while the last good set is
	// still used. Alert on it: an outage is logged here long before a message cannot be verified, and
	// no sender of messages can cause it. It also gets a record at level error for each fetched set
	// with RSA keys that are not used because they are published twice or with private parts.
	// Default: nothing is logged.
	Logger *slog.Logger
}

// fetch is one request for the key set. All callers that wait for it share its result.
type fetch struct {
	number  int           // counted from 1
	begun   time.Time     // when it was started
	ended   time.Time     // when it ended, or begun if the clock failed
	done    chan struct{} // closed when set and err are set
	set     *keySet
	err     error
	ignored ignoredKeys
	fault   bool // the caller's HTTP client or clock panicked or ended the goroutine
}

// NewJWKS returns a key source over the key set at an https URL, such as idverify.Client.JWKSURL returns. Nothing is fetched yet. Plain http is refused: whoever can change the answer can sign as the service. opts may be nil.
func NewJWKS(keySetURL string, opts *JWKSOptions) (*JWKS, error) {
	u, err := url.Parse(keySetURL)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return nil, errors.New("signature: new JWKS: the URL is not an absolute https URL without user and fragment")
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

// PublicKey implements [KeySource]. It fails with [ErrUnknownKey] when the service has no such key, and with [ErrKeySource], which also wraps the error of ctx, when that is not known now.
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

// fetchedKey returns a key from a set that is being fetched now.
func (j *JWKS) fetchedKey(ctx context.Context, keyID string) (*rsa.PublicKey, error) {
	startedBefore := 0 // the number of fetches that were started before this call
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
		// A fetch that was in progress when this call began may have read the set before the key was in
		// it.
		if q.fetch.number > startedBefore {
			if q.fetch.set.cached {
				return nil, asWarning(newError(ErrKeySource, "the key is not in the key set, which came out of a cache and may be older than the key"))
			}
			return nil, newError(ErrUnknownKey, "the key set, just fetched, holds no key of this id")
		}
	}
}

// query is what is known about a key without waiting: the key, an error, or the fetch to wait for.
type query struct {
	started int     // the number of fetches started before
	set     *keySet // the last good set, or nil
	key     *rsa.PublicKey
	fetch   *fetch
	err     error
}

// lookup looks for a key in the last good set, and otherwise joins a fetch. The lock is released
// even if the caller's clock panics.
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
	// In an outage nobody waits for a fetch that will most likely fail, as long as the old set is
	// usable.
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

// unavailable returns err, the reason why no newer set is available. The error is routine if there is a
// usable set without the key: anyone can invent a key ID, and the outage itself is logged once for
// each failed fetch.
func (j *JWKS) unavailable(set *keySet, err error) error {
	if set == nil {
		return err
	}
	if now := j.now(); set.fresh(now) || set.usable(now, j.maxStale) {
		return asWarning(err)
	}
	return err
}

// staleKey returns the key in the last good set, for when no newer set is available. A missing key may
// still exist.
func (j *JWKS) staleKey(set *keySet, keyID string) *rsa.PublicKey {
	if set == nil || !set.usable(j.now(), j.maxStale) {
		return nil
	}
	return set.keys[keyID]
}

// join returns the fetch in progress, or starts one unless a pause forbids it. The caller holds the
// lock.
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
			return nil, asWarning(newError(ErrKeySource, "the key is not in the key set, which was fetched for an unknown key a moment ago"))
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
