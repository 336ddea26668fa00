package signature

import (
	"cmp"
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idverify/idverify-go/internal/redact"
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
//   - A valid response replaces the whole set, so removed keys no longer verify. A cached copy that
//     is older than the set in use is ignored; if the max-age of that set has passed, the set is
//     fetched again after a minute. After a failed fetch or an invalid response, the set remains in
//     use until MaxStale.
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
	// of the Cache-Control header, and so determines how soon a removed key is rejected. The default
	// is 24 h.
	//
	// The Age of the response is subtracted from its max-age. A result below one minute is raised to
	// one minute. Without a max-age, a set is used for five minutes. MaxAge limits both.
	MaxAge time.Duration

	// MinRefetch is the minimum time between fetches for key IDs that are not in the set. It is also
	// the maximum delay after a failed fetch, and the age below which [JWKS.Refresh] does not fetch
	// the set again. The default is 30 s.
	MinRefetch time.Duration

	// MaxStale is how long the last valid set remains in use while fetches fail: its maximum age, see
	// [JWKS.Age]. The default is 24 h.
	MaxStale time.Duration

	// Now returns the current time. The default is [time.Now].
	Now func() time.Time

	// Logger receives a record at level error for each failed fetch, even while the last valid set is
	// still in use. It also receives one for each fetched set in which RSA keys are ignored because
	// they are published twice or with private key parameters. Alert on both. Senders of messages
	// cannot cause them, and a failed fetch is logged long before verification becomes unavailable.
	// By default nothing is logged.
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

	// For the log, if err is set:
	failures  int  // consecutive failed fetches
	oldUsable bool // the last valid set can be used
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
	j := &JWKS{
		url:        u.String(),
		maxAge:     cmp.Or(opts.MaxAge, defaultMaxAge),
		minRefetch: cmp.Or(opts.MinRefetch, defaultMinRefetch),
		maxStale:   cmp.Or(opts.MaxStale, defaultMaxStale),
		now:        opts.Now,
		logger:     cmp.Or(opts.Logger, slog.New(slog.DiscardHandler)),
	}
	if opts.HTTPClient != nil {
		j.client = *opts.HTTPClient
	}
	if j.client.Transport == nil {
		j.client.Transport = defaultTransport()
	}
	j.client.CheckRedirect = sameHostOnly(j.client.CheckRedirect)
	if j.now == nil {
		j.now = time.Now
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
		return nil, withOperation("key.lookup", err)
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

// Ready returns nil if j has keys with which messages can be verified. Use it for a readiness
// probe, for example with Client.ReadyHandler of package idverify.
//
// Ready fetches the set if j has not fetched one yet, or if its max-age has passed. In an outage
// of the service it returns nil until MaxStale, and does not wait for the fetch. Without a
// usable set, it waits for the fetch or until ctx is done; then the fetch continues for the next
// call. The error wraps [ErrKeySource].
func (j *JWKS) Ready(ctx context.Context) error {
	f, err := j.ready(ctx)
	if f != nil {
		select {
		case <-f.done:
			err = f.err
		case <-ctx.Done():
			err = wrapError(ErrKeySource, "get key set", ctx.Err())
		}
	}
	if err != nil {
		return withOperation("key.lookup", err)
	}
	return nil
}

// ready returns the fetch to wait for, or nil if the last valid set can be used. It releases the
// lock even if the caller's clock panics.
func (j *JWKS) ready(ctx context.Context) (*fetch, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	set, now := j.current.Load(), j.now()
	if set != nil && set.fresh(now) {
		return nil, nil
	}
	f, err := j.join(ctx, false)
	if set != nil && set.usable(now, j.maxStale) {
		return nil, nil
	}
	return f, err
}

// refreshOperation is the Operation of the errors of JWKS.Refresh.
const refreshOperation = "key_set.refresh"

// Refresh fetches the key set now, unless the last valid set is younger than MinRefetch. Use it to
// reject a removed key before the max-age of the set has passed. After Refresh returns nil, a key
// no longer verifies if the service removed it at least MinRefetch and 10 s before the call. The
// 10 s cover the timeout of a fetch and the resolution of the Age header.
//
// A cache between you and the service may ignore the request for a new copy. If the Age of the
// response is MinRefetch or more, Refresh uses the set but returns an error. Until MinRefetch has
// passed since that fetch, later calls send no request; they return the same error as soon as the
// copy is MinRefetch old. Caches that send no Age header are not noticed.
//
// Concurrent calls and key lookups share one fetch. During the delay after a failed fetch, Refresh
// returns the error of that fetch without a request. A call of Refresh does not delay fetches for
// unknown key IDs. If ctx is done, Refresh returns an error and the fetch continues.
//
// The error wraps [ErrKeySource], and that of ctx if ctx is done. It does not mean that
// verification is unavailable: the last valid set remains in use until MaxStale. See [JWKS.Ready].
func (j *JWKS) Refresh(ctx context.Context) error {
	f, err := j.refresh(ctx)
	if f != nil {
		select {
		case <-f.done:
			if err = f.err; err == nil && f.set.originAge >= j.minRefetch {
				err = errCachedSet
			}
		case <-ctx.Done():
			err = wrapError(ErrKeySource, "get key set", ctx.Err())
		}
	}
	if err != nil {
		return withOperation(refreshOperation, err)
	}
	return nil
}

// refresh returns the fetch to wait for, or nil if the last valid set is younger than MinRefetch or
// was fetched within that time. It releases the lock even if the caller's clock panics.
func (j *JWKS) refresh(ctx context.Context) (*fetch, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if set := j.current.Load(); set != nil {
		now := j.now()
		age, ok := set.age(now)
		since, _ := elapsed(set.fetched, now)
		switch {
		case ok && age < j.minRefetch:
			return nil, nil
		case ok && since < j.minRefetch && j.fetch == nil:
			return nil, errCachedSet // another fetch would most likely return the same copy
		}
	}
	return j.join(ctx, false)
}

// errCachedSet is the error of Refresh if the last valid set is older than MinRefetch although it
// was just fetched.
var errCachedSet = newError(ErrKeySource, "key set came from a cache and is older than MinRefetch (does a cache ignore Cache-Control: no-cache?)")

// Age returns the age of the last valid key set: the time since it was fetched, by the wall clock
// or the monotonic clock, whichever is longer, and the Age header of that response. It reports
// false before the first successful fetch. If the wall clock has been set back to before that
// fetch, the set is not used, and Age returns the largest Duration.
func (j *JWKS) Age() (age time.Duration, fetched bool) {
	set := j.current.Load()
	if set == nil {
		return 0, false
	}
	age, ok := set.age(j.now())
	if !ok {
		return math.MaxInt64, true
	}
	return age, true
}

// run fetches the key set and publishes the result, even if the caller's HTTP client, clock or
// logger panics or calls runtime.Goexit.
func (j *JWKS) run(ctx context.Context, f *fetch) {
	f.ended, f.err, f.fault = f.begun, newError(ErrKeySource, "get key set: HTTP client or clock called runtime.Goexit"), true
	defer j.logResult(ctx, f) // callers do not wait for it
	defer j.publish(f)
	defer func() {
		if p := recover(); p != nil {
			f.err, f.fault = newError(ErrKeySource, "get key set: HTTP client or clock panicked in "+redact.PanicSite()+": "+redact.PanicText(p)), true
		}
	}()

	set, ignored, err := j.get(ctx)
	ended := j.now()
	f.set, f.ignored, f.ended, f.err, f.fault = set, ignored, ended, err, false
}

// publish stores the result and wakes the callers that wait for it. It does not call user code.
func (j *JWKS) publish(f *fetch) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if f.err == nil {
		j.current.Store(f.set)
		j.failures = 0
	} else {
		j.lastErr = f.err
		j.retryPause = pause{from: f.ended, length: min(time.Second<<min(j.failures, 20), j.minRefetch)}
		if f.fault && j.failures == 0 {
			j.retryPause = pause{} // not a failure of the service, so the next call may fetch at once
		}
		j.failures++
		set := j.current.Load()
		f.failures, f.oldUsable = j.failures, set != nil && set.usable(f.ended, j.maxStale)
	}
	j.fetch = nil
	close(f.done)
}

// logResult logs a failed fetch, or the ignored keys of a successful one. It recovers if the logger
// panics.
func (j *JWKS) logResult(ctx context.Context, f *fetch) {
	defer func() { _ = recover() }()
	if f.err == nil {
		if f.ignored != (ignoredKeys{}) {
			j.logger.LogAttrs(ctx, slog.LevelError, "signature: keys of the key set ignored",
				slog.Int("private_parts", f.ignored.private),
				slog.Int("duplicate", f.ignored.duplicate))
		}
		return
	}
	j.logger.LogAttrs(ctx, slog.LevelError, "signature: key set not fetched",
		slog.Int("failures", f.failures),
		slog.Bool("old_set_usable", f.oldUsable),
		slog.String("error", withOperation("key.lookup", f.err).Error()))
}

// get fetches and parses the key set.
func (j *JWKS) get(ctx context.Context) (*keySet, ignoredKeys, error) {
	header, body, err := fetchBody(ctx, &j.client, j.url)
	if err != nil {
		return nil, ignoredKeys{}, err
	}
	keys, ignored, err := parseKeySet(body)
	if err != nil {
		return nil, ignored, err
	}
	age := cachedFor(header)
	set, err := j.newest(&keySet{keys: keys, fetched: j.now(), originAge: age, lifetime: lifetime(header, j.maxAge), cached: age > 0})
	return set, ignored, err
}

// newest returns set, or a copy of the last valid set if set is an older one from a cache. An older
// set may contain keys that the service has removed since. It must not extend the use of the last
// valid set beyond MaxStale.
func (j *JWKS) newest(set *keySet) (*keySet, error) {
	last := j.current.Load()
	if last == nil {
		return set, nil
	}
	age, ok := last.age(set.fetched)
	if !ok || set.originAge <= age+ageTolerance {
		return set, nil
	}
	kept := &keySet{keys: last.keys, fetched: set.fetched, originAge: age, cached: true}
	switch since, _ := elapsed(last.fetched, set.fetched); {
	case last.fresh(set.fetched):
		kept.lifetime = last.lifetime - since
	case last.usable(set.fetched, j.maxStale):
		kept.lifetime = min(minLifetime, j.maxAge)
	default:
		return nil, newError(ErrKeySource, "get key set: response came from a cache and is older than the last valid key set")
	}
	return kept, nil
}

const (
	// fetchTimeout limits one fetch. A callback may wait for two: one that is in progress when it
	// arrives, and its own. The service waits 10 s for the response.
	fetchTimeout = 3 * time.Second

	maxKeySetHeader = 64 << 10
	maxKeySetBody   = 1 << 20
	maxRedirects    = 5

	// ageTolerance is the accuracy with which two copies from caches are compared. The Age header has
	// a resolution of one second, and a response takes up to fetchTimeout.
	ageTolerance = fetchTimeout + 2*time.Second

	minLifetime     = time.Minute
	defaultLifetime = 5 * time.Minute // without max-age
)

// fetchBody fetches a key set within fetchTimeout. It returns an error unless the status is 200 and
// the body is within maxKeySetBody. It closes the connection, because the next fetch is minutes
// away.
func fetchBody(ctx context.Context, client *http.Client, url string) (http.Header, []byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, fetchTimeout, errors.New("no response within 3 s"))
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, wrapError(ErrKeySource, "get key set", err)
	}
	r.Header.Set("Accept", "application/json")
	// A cached set may be older than the key of this lookup.
	r.Header.Set("Cache-Control", "no-cache")
	r.Close = true
	response, err := client.Do(r)
	if err != nil {
		return nil, nil, wrapError(ErrKeySource, "get key set", fetchCause(ctx, err), r.URL.Hostname())
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, nil, newError(ErrKeySource, statusText(response.StatusCode))
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxKeySetBody+1))
	if err != nil {
		return nil, nil, wrapError(ErrKeySource, "get key set: read body", fetchCause(ctx, err), r.URL.Hostname())
	}
	if len(body) > maxKeySetBody {
		return nil, nil, newError(ErrKeySource, "get key set: body is larger than 1 MiB")
	}
	return response.Header, body, nil
}

// statusText describes a response with a status other than 200. A 3XX or 4XX status suggests a
// wrong URL, except 429.
func statusText(status int) string {
	text := fmt.Sprintf("get key set: %d %s", status, http.StatusText(status))
	if status/100 == 3 || status/100 == 4 && status != http.StatusTooManyRequests {
		text += " (check the URL of the key set)"
	}
	return text
}

// fetchCause returns the cause of ctx if ctx is done, and err otherwise.
func fetchCause(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("connection closed before the response: %w", io.EOF)
	}
	return err
}

// defaultTransport returns a clone of http.DefaultTransport with limited response headers. If the
// application has replaced http.DefaultTransport by another type, it returns that.
func defaultTransport() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t = t.Clone()
	t.MaxResponseHeaderBytes = maxKeySetHeader
	return t
}

// sameHostOnly returns a redirect policy that permits at most maxRedirects redirects, all to https
// on the same host, and then applies next.
func sameHostOnly(next func(*http.Request, []*http.Request) error) func(*http.Request, []*http.Request) error {
	return func(r *http.Request, via []*http.Request) error {
		switch {
		case r.URL.Scheme != "https" || !strings.EqualFold(r.URL.Host, via[0].URL.Host):
			return errors.New("redirected to another host")
		case len(via) > maxRedirects:
			return errors.New("too many redirects")
		case next != nil:
			return next(r, via)
		}
		return nil
	}
}

// cachedFor returns the Age of a response (RFC 9111, section 5.1), which is zero unless it came
// from a cache.
func cachedFor(header http.Header) time.Duration {
	seconds, _ := strconv.ParseUint(header.Get("Age"), 10, 31)
	return time.Duration(seconds) * time.Second
}

// lifetime returns how long a set may be used without a new fetch, at most limit. This is the
// max-age minus the Age, but at least minLifetime, or defaultLifetime if there is no max-age.
func lifetime(header http.Header, limit time.Duration) time.Duration {
	age, ok := maxAge(header)
	if !ok {
		return min(defaultLifetime, limit)
	}
	return min(max(age-cachedFor(header), minLifetime), limit)
}

// maxAge returns the max-age directive of the Cache-Control header (RFC 9111, section 5.2.2.1).
func maxAge(header http.Header) (age time.Duration, ok bool) {
	for _, value := range header.Values("Cache-Control") {
		for directive := range strings.SplitSeq(value, ",") {
			name, seconds, _ := strings.Cut(strings.TrimSpace(directive), "=")
			if !strings.EqualFold(name, "max-age") {
				continue
			}
			n, err := strconv.ParseUint(strings.Trim(seconds, `"`), 10, 32)
			return time.Duration(n) * time.Second, err == nil || errors.Is(err, strconv.ErrRange)
		}
	}
	return 0, false
}
