package idverify

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"

	"github.com/idverify/idverify-go/internal/redact"
	"github.com/idverify/idverify-go/internal/renewals"
	"github.com/idverify/idverify-go/internal/wire"
)

const (
	// tokenTimeout limits the duration of a token request, which is independent of the callers'
	// deadlines. A shorter attempt timeout replaces it.
	tokenTimeout = 30 * time.Second
	// maxRefreshLead is the maximum time before its expiry at which a token is renewed. A token with a
	// lifetime below ten minutes is renewed in the last tenth of that lifetime.
	maxRefreshLead = time.Minute
	// refreshPause is the minimum delay after a failed renewal while the current token is still valid.
	refreshPause = 5 * time.Second
	// waitMargin is the part of the timeout of a token request for which its callers wait longer, so
	// that they usually get its error.
	waitMargin = 10
	// maxPrevious is the number of replaced or dropped tokens that are still redacted, and of rejected
	// tokens that drop recognizes.
	maxPrevious = 16
)

// tokenCache contains the tokens of one pair of credentials, one for each set of scopes.
//
// All callers that need the same token share one fetch. The fetch does not use their contexts, so
// that a canceled caller does not affect the others. Before a token expires, the next token is
// fetched in the background while callers still use the current token.
type tokenCache struct {
	fetch      func(ctx context.Context, scope string, f *tokenFetch, o *observation) (*oauth2.Token, error)
	now        func() time.Time
	timeout    time.Duration   // limits the duration of a fetch
	timeoutErr error           // of a fetch that exceeds timeout
	secrets    func() []string // the texts that must be redacted
	observers  []observer
	maxWait    time.Duration // of RetryPolicy
	// logFailure logs a failed fetch while the current token, which expires at expiry, is still
	// cached.
	logFailure func(ctx context.Context, scope string, expiry time.Time, err error)
	logPause   func(ctx context.Context, scope string, wait time.Duration, err error)
	renewals   *renewals.Counter // of the fetches while a current token is cached

	mu       sync.Mutex
	entries  map[string]*tokenEntry // by scopes; mu also guards the fields of the entries
	previous []Secret               // the last tokens that were replaced or dropped, oldest first
	rejected []*oauth2.Token        // the last tokens that the service rejected, oldest first

	// cached maps scopes to a cachedToken. Callers read it without mu.
	cached sync.Map
	// pauses maps scopes to their pauses; nil if there are none. It is replaced under mu and read
	// without.
	pauses atomic.Pointer[map[string]tokenPause]
}

type tokenEntry struct {
	token     *oauth2.Token // nil before the first fetch and after drop
	refreshAt time.Time     // when to fetch the next token
	inflight  *tokenFetch   // the fetch in progress; nil if there is none
}

// cachedToken is a token that can be used without renewal until the given time.
type cachedToken struct {
	token *oauth2.Token
	until time.Time
}

// tokenFetch is a fetch of a token.
type tokenFetch struct {
	number  int  // 1 + the number of fetches directly before it that each caused a pause
	renewal bool // the caller that started it uses the current token
	needed  bool // a caller waits for the token; guarded by the mutex of the cache

	// sent contains the credentials of the token requests. The source may have replaced them often
	// enough since that the client no longer redacts them. Only the goroutine of the fetch uses it.
	sent []Credentials

	awaitsSource atomic.Bool // the fetch waits for the source of the credentials

	done       chan struct{} // closed after the fields below have been set
	token      *oauth2.Token
	err        error
	retryAfter time.Duration // see tokenRetryable
	retryable  bool
	pause      time.Duration // after the fetch; 0: none
	expiry     time.Time     // of the current token, if it was valid at the start and was not renewed
}

// get returns a token that has not expired. During a pause, it returns the error that caused it.
func (c *tokenCache) get(ctx context.Context, scope string) (*oauth2.Token, error) {
	if err := ctx.Err(); err != nil {
		return nil, &sendError{operation: tokenOperation(scope), err: err}
	}
	now := c.now()
	if cached, ok := c.cached.Load(scope); ok && now.Before(cached.(cachedToken).until) {
		return cached.(cachedToken).token, nil
	}

	c.mu.Lock()
	e := c.entries[scope]
	if e == nil {
		e = new(tokenEntry)
		c.entries[scope] = e
	}
	token := e.token
	if token != nil && !now.Before(token.Expiry) {
		token = nil
	}
	f := e.inflight
	if f == nil && (token == nil || !now.Before(e.refreshAt)) {
		pause := c.pause(scope)
		if token == nil && time.Now().Before(pause.until) {
			c.mu.Unlock()
			return nil, pause.err
		}
		f = &tokenFetch{done: make(chan struct{}), number: pause.failures + 1, renewal: token != nil}
		e.inflight = f
		if f.renewal {
			c.renewals.Begin()
		}
		go c.runFetch(context.WithoutCancel(ctx), scope, e, f, now)
	}
	if token == nil {
		f.needed = true
	}
	c.mu.Unlock()

	if token != nil {
		return token, nil
	}
	timer := time.NewTimer(c.timeout + c.timeout/waitMargin)
	defer timer.Stop()
	select {
	case <-f.done:
		return f.token, f.err
	case <-timer.C:
		return nil, f.waitError(scope, c.timeoutErr)
	case <-ctx.Done():
		err := ctx.Err()
		if context.Cause(ctx) == errAttemptTimeout {
			err = errAttemptTimeout
		}
		return nil, f.waitError(scope, err)
	}
}

// waitError returns the error of a caller that stopped waiting for f because of err.
func (f *tokenFetch) waitError(scope string, err error) error {
	e := &sendError{operation: tokenOperation(scope), err: err}
	if f.awaitsSource.Load() {
		e.text = causeText(err) + " while waiting for the credentials source"
	}
	return e
}

// runFetch fetches a token for e, within c.timeout.
//
// The caller's transport, clock, logger and observers run on this goroutine. A panic in them would
// end the process, and runtime.Goexit would leave the callers waiting. Both become the error of the
// fetch. The callers get the result before it is logged and reported, so that a logger or observer
// cannot delay them.
// Parameter start is the start time. The deferred calls use it instead of calling the clock.
func (c *tokenCache) runFetch(ctx context.Context, scope string, e *tokenEntry, f *tokenFetch, start time.Time) {
	if f.renewal {
		defer c.renewals.End()
	}
	o := newObservation(c.observers, wire.Token)
	defer c.report(ctx, scope, o, f)
	defer c.finish(scope, e, f, start)
	f.err = fmt.Errorf("idverify: %s: failed: HTTP transport, clock, logger or observer called runtime.Goexit", tokenOperation(scope))
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	defer c.recoverFetch(scope, f)
	f.token, f.err = c.fetch(o.begin(ctx, f.number), scope, f, o)
	f.retryAfter, f.retryable = tokenRetryable(f.err)
}

// appendSecrets appends the texts of the credentials that were sent.
func (f *tokenFetch) appendSecrets(texts []string) []string {
	for _, c := range f.sent {
		texts = append(texts, c.secrets()...)
	}
	return texts
}

// recoverFetch makes a panic the error of f. It must be deferred.
func (c *tokenCache) recoverFetch(scope string, f *tokenFetch) {
	if p := recover(); p != nil {
		f.retryable = false
		f.token, f.err = nil, fmt.Errorf("idverify: %s: failed: panic in %s: %s", tokenOperation(scope), redact.PanicSite(), redact.Text(redact.PanicText(p), f.appendSecrets(c.secrets())...))
	}
}

// report logs f and reports it to the observers. A panic in one of them must not end the process.
func (c *tokenCache) report(ctx context.Context, scope string, o *observation, f *tokenFetch) {
	defer func() { _ = recover() }()
	defer c.endFetch(o, f)
	if !f.expiry.IsZero() {
		c.logFailure(ctx, scope, f.expiry, f.err)
	}
	if f.pause > 0 {
		c.logPause(ctx, scope, f.pause, f.err)
	}
}

// finish stores the result of f and wakes the callers.
func (c *tokenCache) finish(scope string, e *tokenEntry, f *tokenFetch, start time.Time) {
	defer close(f.done)
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.inflight != f {
		c.remember(f.token) // unused: the fetch started before the service rejected the previous token
		return
	}
	f.pause = c.pauseAfter(f)
	e.inflight = nil
	if f.pause > 0 {
		c.setPause(scope, tokenPause{f.number, time.Now().Add(f.pause), f.err})
	} else {
		c.setPause(scope, tokenPause{})
	}
	switch {
	case f.err == nil:
		c.remember(e.token)
		e.token = f.token
		e.refreshAt = f.token.Expiry.Add(-min(time.Duration(f.token.ExpiresIn)*time.Second/10, maxRefreshLead))
		c.cached.Store(scope, cachedToken{e.token, e.refreshAt})
	case e.token != nil:
		e.refreshAt = start.Add(max(refreshPause, min(f.retryAfter, maxTokenPause)))
		if start.Before(e.token.Expiry) {
			f.expiry = e.token.Expiry // otherwise the callers get the error
		}
	default:
		delete(c.entries, scope)
	}
}

// drop discards the current token and the result of a fetch in progress after the service has
// rejected token. Both may be older than the rejection and may have been revoked together with
// token. A token that was rejected before discards nothing: everything is newer than that
// rejection.
func (c *tokenCache) drop(scope string, token *oauth2.Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Contains(c.rejected, token) {
		return
	}
	if len(c.rejected) == maxPrevious {
		c.rejected = slices.Delete(c.rejected, 0, 1)
	}
	c.rejected = append(c.rejected, token)
	if e := c.entries[scope]; e != nil {
		c.remember(e.token)
		e.token, e.inflight = nil, nil
		c.cached.Delete(scope)
	}
}

// remember stores a token that was replaced or dropped for redaction, because an attempt with it
// may still be in flight. The caller holds c.mu.
func (c *tokenCache) remember(token *oauth2.Token) {
	if token == nil {
		return
	}
	if len(c.previous) == maxPrevious {
		c.previous = slices.Delete(c.previous, 0, 1)
	}
	c.previous = append(c.previous, NewSecret(token.AccessToken))
}

// tokens returns the current tokens and the previous tokens.
func (c *tokenCache) tokens() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	const others = 8 // space for the texts that callers append
	texts := make([]string, 0, len(c.entries)+len(c.previous)+others)
	for _, e := range c.entries {
		if e.token != nil {
			texts = append(texts, e.token.AccessToken)
		}
	}
	for _, token := range c.previous {
		texts = append(texts, token.Reveal())
	}
	return texts
}

// sendAuthorized sends req with a token. If the service responds with 401, it drops the token and
// sends req once more with a token that is requested after this response.
func (c *call) sendAuthorized(req *http.Request) (*http.Response, error) {
	resp, err := c.sendWithToken(req)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	c.api.tokens.drop(c.op.Scope, c.token)

	// The first token request has the timeout of an attempt itself. The second one begins later.
	ctx := req.Context()
	if !c.deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, c.deadline, errAttemptTimeout)
		defer cancel()
	}
	return c.sendWithToken(req.Clone(ctx))
}

func (c *call) sendWithToken(req *http.Request) (*http.Response, error) {
	c.observation.sends(nil)
	token, err := c.api.tokens.get(req.Context(), c.op.Scope)
	c.tokenFailed = err != nil
	if err != nil {
		return nil, err
	}
	c.token = token
	return c.exchange(req)
}
