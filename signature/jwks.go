package signature

import (
	"bytes"
	"context"
	"crypto/rsa"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lestrrat-go/jwx/v2/jwk"
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
// Keys that cannot verify are left out: those that are not RSA of 2048 to 4096 bits, have no kid, are for encryption or another algorithm, hold private parts, or share their kid with another.
type JWKS struct {
	url        string
	client     http.Client
	maxAge     time.Duration
	minRefetch time.Duration
	maxStale   time.Duration
	now        func() time.Time
	logger     *slog.Logger

	current atomic.Pointer[keySet] // the last good set, nil before the first

	mu        sync.Mutex // guards all below
	started   int        // how many fetches were begun
	fetch     *fetch     // the one under way, or nil
	failures  int        // how many fetches failed since the last good one
	lastErr   error      // of the last of them
	retryAt   time.Time  // no fetch before, because the last one failed
	refetchAt time.Time  // no fetch for an unknown key before
}

// JWKSOptions are the choices of [NewJWKS]. Zero fields mean the defaults.
type JWKSOptions struct {
	// HTTPClient fetches the key set. It is copied, never changed. Its redirects are followed on the same host only, and a fetch takes at most 3 s whatever its Timeout. Default: a new http.Client over http.DefaultTransport.
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

	// Logger gets a record at level warn for each fetch that fails, also while the last good set still serves: an outage shows here long before a message cannot be verified. Default: nothing is logged.
	Logger *slog.Logger
}

// keySet is one good answer. It is never changed.
type keySet struct {
	keys    map[string]*rsa.PublicKey
	fetched time.Time
	expires time.Time
	cached  bool // it lay in a cache on its way
}

// fetch is one request for the key set, shared by all who wait for it.
type fetch struct {
	number int           // which one, from 1
	done   chan struct{} // closed when set and err are there
	set    *keySet
	err    error
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
	if set := j.current.Load(); set != nil && j.now().Before(set.expires) {
		if key := set.keys[keyID]; key != nil {
			return key, nil
		}
	}
	key, err := j.fetchedKey(ctx, keyID)
	if err != nil {
		return nil, during("key lookup", err)
	}
	return key, nil
}

// fetchedKey answers from a set that is fetched, or being fetched, now.
func (j *JWKS) fetchedKey(ctx context.Context, keyID string) (*rsa.PublicKey, error) {
	var asked int // the number of the last fetch that was begun before we asked
	for first := true; ; first = false {
		j.mu.Lock()
		if first {
			asked = j.started
		}
		set := j.current.Load()
		fresh := set != nil && j.now().Before(set.expires)
		if fresh && set.keys[keyID] != nil {
			j.mu.Unlock()
			return set.keys[keyID], nil
		}
		f, err := j.join(ctx, fresh)
		outage := j.failures > 0
		j.mu.Unlock()
		// In an outage nobody waits for a fetch that will most likely fail, as long as the old set will do.
		if key := j.oldKey(set, keyID); key != nil && (outage || err != nil) {
			return key, nil
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, because(ErrKeySource, "get key set", ctx.Err())
		}
		if f.err != nil {
			if key := j.oldKey(set, keyID); key != nil {
				return key, nil
			}
			return nil, f.err
		}
		if key := f.set.keys[keyID]; key != nil {
			return key, nil
		}
		// A fetch that was under way when we asked may have read the set before the key was in it.
		if f.number > asked {
			if f.set.cached {
				return nil, refuse(ErrKeySource, "the key is not in the key set, which came out of a cache and may be older than the key")
			}
			return nil, refuse(ErrUnknownKey, "the key set, just fetched, holds no key of this id")
		}
	}
}

// oldKey is the key in the last good set, for when no newer set is to be had. That a key is not in it means nothing.
func (j *JWKS) oldKey(set *keySet, keyID string) *rsa.PublicKey {
	if !j.usable(set) {
		return nil
	}
	return set.keys[keyID]
}

// usable reports whether a set may still serve when no newer one is to be had.
func (j *JWKS) usable(set *keySet) bool { return set != nil && j.now().Sub(set.fetched) <= j.maxStale }

// join returns the fetch under way, or begins one if it may. The caller holds the lock.
func (j *JWKS) join(ctx context.Context, forUnknownKey bool) (*fetch, error) {
	if j.fetch != nil {
		return j.fetch, nil
	}
	now := j.now()
	if now.Before(j.retryAt) {
		return nil, because(ErrKeySource, "get key set", j.lastErr)
	}
	if forUnknownKey {
		if now.Before(j.refetchAt) {
			return nil, refuse(ErrKeySource, "the key is not in the key set, which was fetched for an unknown key a moment ago")
		}
		j.refetchAt = now.Add(j.minRefetch)
	}
	j.started++
	f := &fetch{number: j.started, done: make(chan struct{})}
	j.fetch = f
	// On a context of its own: the first caller may give up, the callers behind it still want the answer. It ends by fetchTimeout.
	go j.run(context.WithoutCancel(ctx), f)
	return f, nil
}

// run fetches the key set and tells those who wait.
func (j *JWKS) run(ctx context.Context, f *fetch) {
	f.set, f.err = j.get(ctx)

	j.mu.Lock()
	defer j.mu.Unlock()
	if f.err == nil {
		j.current.Store(f.set)
		j.failures = 0
	} else {
		j.lastErr = f.err
		j.logger.Warn("signature: key set not fetched", slog.Int("failures", j.failures+1), slog.Bool("old set serves", j.usable(j.current.Load())), slog.String("error", f.err.Error()))
		j.retryAt = j.now().Add(min(time.Second<<min(j.failures, 20), j.minRefetch))
		j.failures++
	}
	j.fetch = nil
	close(f.done)
}

// get fetches and reads the key set. A redirect that is not followed and everything that is not 200 is no key set.
func (j *JWKS) get(ctx context.Context) (*keySet, error) {
	header, body, err := fetchBody(ctx, &j.client, j.url)
	if err != nil {
		return nil, err
	}
	keys, err := parseKeySet(body)
	if err != nil {
		return nil, err
	}
	now := j.now()
	return &keySet{keys: keys, fetched: now, expires: now.Add(lifetime(header, j.maxAge)), cached: cachedFor(header) > 0}, nil
}

// maxKeySetValues is how many values the JSON of a key set may hold: those of some hundred keys. jwx makes kilobytes of the smallest one.
const maxKeySetValues = 4096

// parseKeySet returns the keys that can verify, by their kid. A set without any is an error: it never replaces a good one.
func parseKeySet(body []byte) (map[string]*rsa.PublicKey, error) {
	if bytes.Count(body, []byte(","))+bytes.Count(body, []byte("["))+bytes.Count(body, []byte("{")) > maxKeySetValues {
		return nil, refuse(ErrKeySource, "get key set: the body holds more than 4,096 values")
	}
	set, err := jwk.Parse(body, jwk.WithIgnoreParseError(true))
	if err != nil {
		return nil, refuse(ErrKeySource, "get key set: the body is not a JSON Web Key Set")
	}
	keys := make(map[string]*rsa.PublicKey)
	for i := range set.Len() {
		parsed, _ := set.Key(i)
		key := publicKey(parsed)
		if key == nil {
			continue
		}
		if _, twice := keys[parsed.KeyID()]; twice {
			key = nil // of two keys with one kid neither is meant, nor is a third
		}
		keys[parsed.KeyID()] = key
	}
	maps.DeleteFunc(keys, func(_ string, key *rsa.PublicKey) bool { return key == nil })
	if len(keys) == 0 {
		return nil, refuse(ErrKeySource, "get key set: there is no key in it that can verify")
	}
	return keys, nil
}

// publicKey is the key if it can verify the service's messages, else nil. Private parts that anyone can read make a key worthless; jwx gives no public key of those.
func publicKey(parsed jwk.Key) *rsa.PublicKey {
	var key rsa.PublicKey
	public, ok := parsed.(jwk.RSAPublicKey)
	if !ok || len(public.E()) > 4 || public.Raw(&key) != nil || !usable(&key) { // jwx cuts longer exponents off
		return nil
	}
	if !validKeyID(public.KeyID()) || public.KeyUsage() != "" && public.KeyUsage() != string(jwk.ForSignature) {
		return nil
	}
	if alg := public.Algorithm().String(); alg != "" && alg != "RS256" {
		return nil
	}
	if ops := public.KeyOps(); len(ops) > 0 && !slices.Contains(ops, jwk.KeyOpVerify) {
		return nil
	}
	return &key
}
