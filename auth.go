package idverify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idverify/idverify-go/internal/redact"
	"github.com/idverify/idverify-go/internal/renewals"
	"github.com/idverify/idverify-go/internal/wire"
	"golang.org/x/oauth2"
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
	// Callers wait 1/waitMargin longer than the timeout of a token request, so that they usually get
	// the error of the request.
	waitMargin = 10
	// maxPrevious is the number of replaced or dropped tokens that are still redacted, and of rejected
	// tokens that drop recognizes.
	maxPrevious = 16
	// failureInterval is the minimum time between records of failed token requests that no pause
	// follows. Otherwise each operation could cause a record.
	failureInterval = time.Minute
)

// tokenCache contains the tokens of one Credentials, one for each set of scopes.
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
	logger     *slog.Logger
	renewals   *renewals.Counter // of the fetches while a current token is cached

	mu       sync.Mutex
	entries  map[string]*tokenEntry // by scopes; mu also guards the fields of the entries
	logged   map[string]time.Time   // by scopes: when a failure without a pause was last logged
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
	pause      time.Duration // after the fetch; 0 means none
	expiry     time.Time     // of the current token, if it was valid at the start and was not renewed
	logError   bool          // log err, although neither pause nor expiry is set
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
		c.log(ctx, "idverify: token not renewed", scope, f.err, slog.Time("expires", f.expiry))
	}
	if f.pause > 0 {
		c.log(ctx, "idverify: token requests paused", scope, f.err, slog.Duration("wait", f.pause))
	}
	if f.logError {
		c.log(ctx, "idverify: token not obtained", scope, f.err)
	}
}

// log logs a failed fetch.
func (c *tokenCache) log(ctx context.Context, message, scope string, err error, more ...slog.Attr) {
	attrs := []slog.Attr{slog.String("operation", wire.Token.Name), slog.String("scope", scope), slog.String("error", err.Error())}
	c.logger.LogAttrs(ctx, slog.LevelWarn, message, append(attrs, more...)...)
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
	if f.err != nil && f.pause == 0 && f.expiry.IsZero() {
		now := time.Now()
		maps.DeleteFunc(c.logged, func(_ string, at time.Time) bool { return now.Sub(at) >= failureInterval })
		if _, recently := c.logged[scope]; !recently {
			c.logged[scope], f.logError = now, true
		}
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

const (
	// defaultLifetime is the lifetime of a token if the response does not contain a positive
	// expires_in.
	defaultLifetime = 5 * time.Minute
	// maxLifetime is the maximum lifetime of a token, so that its calculation does not overflow.
	maxLifetime = 30 * 24 * time.Hour
)

// fetchToken requests a token. If the service rejects the credentials and they have a source, it
// requests the token once more with different credentials of the source. It does not retry.
func (a *api) fetchToken(ctx context.Context, scope string, f *tokenFetch, o *observation) (*oauth2.Token, error) {
	c, err := a.currentCredentials(ctx, scope, f, false)
	if err != nil {
		return nil, err
	}
	f.sent = append(f.sent, c)
	token, err := a.requestToken(ctx, scope, f, o)
	if rejected, ok := errors.AsType[*TokenError](err); !ok || !errors.Is(rejected, ErrUnauthorized) || a.credentials.source == nil {
		return token, err
	}
	// The source may have changed since it was called. A call in progress may be older.
	next, sourceErr := a.currentCredentials(ctx, scope, f, true)
	switch {
	case sourceErr != nil:
		return nil, fmt.Errorf("%w; %w", err, sourceErr)
	case next.equal(c):
		return nil, err
	}
	f.sent = append(f.sent, next)
	return a.requestToken(ctx, scope, f, o)
}

// currentCredentials returns the credentials for a token request, and logs that they changed. If
// fresh is set, the source is called after currentCredentials is called.
func (a *api) currentCredentials(ctx context.Context, scope string, f *tokenFetch, fresh bool) (Credentials, error) {
	if a.credentials.source == nil {
		return a.credentials.current, nil
	}
	f.awaitsSource.Store(true)
	call, err := a.credentials.get(ctx, fresh)
	f.awaitsSource.Store(false)
	if err != nil {
		return Credentials{}, &sendError{operation: tokenOperation(scope), err: err, text: sourceFailed + "no result within the timeout of a token request"}
	}
	if err := a.sourceError(scope, f, call); err != nil {
		return Credentials{}, err
	}
	if a.credentials.takeChanged() {
		a.logger.LogAttrs(ctx, slog.LevelInfo, "idverify: credentials changed", slog.String("operation", wire.Token.Name))
	}
	return call.credentials, nil
}

const sourceFailed = "credentials source failed: "

// sourceError returns the error of a token request whose call of the source failed, or nil.
func (a *api) sourceError(scope string, f *tokenFetch, call *sourceCall) error {
	if call.err == nil && call.fault == "" {
		return nil
	}
	secrets := append(f.appendSecrets(a.secrets()), call.credentials.secrets()...) // the error may contain any of them
	if call.fault != "" {
		return fmt.Errorf("idverify: %s: %s%s", tokenOperation(scope), sourceFailed, redact.Text(call.fault, secrets...))
	}
	err := redact.Error(call.err, secrets...)
	return &sendError{operation: tokenOperation(scope), err: &credentialsError{err}, text: sourceFailed + strings.TrimPrefix(err.Error(), "idverify: ")}
}

// requestToken requests a token with the last credentials in f.sent.
func (a *api) requestToken(ctx context.Context, scope string, f *tokenFetch, o *observation) (*oauth2.Token, error) {
	req, form, err := a.tokenRequest(ctx, scope, f.sent[len(f.sent)-1])
	if err != nil {
		return nil, err
	}
	secrets := func() []string { return f.appendSecrets(a.secrets()) }
	client := &http.Client{Transport: a.transport}
	requested := a.now()
	start := time.Now()
	tracker := newWriteTracker(wire.Token, form)
	req = tracker.track(req, time.Time{})
	defer tracker.cancel()
	o.sends(tracker)
	resp, err := client.Do(req)
	if err != nil {
		err, _ = tracker.fail(err)
		err = a.tokenSendError(ctx, scope, err, secrets)
	}
	a.logAttempt(ctx, wire.Token, 1, start, resp, err, secrets, slog.String("scope", scope))
	if err != nil {
		return nil, err
	}
	o.received(resp)
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if !isSuccess(resp.StatusCode) {
		return nil, newTokenError(scope, resp, body, secrets())
	}
	if err != nil {
		return nil, a.tokenSendError(ctx, scope, err, secrets)
	}
	token, err := parseToken(resp.StatusCode, body, requested)
	if unusable, ok := errors.AsType[*DecodeError](err); ok {
		unusable.RequestID, unusable.scope = requestID(resp.Header, secrets()...), scope
	}
	return token, err
}

// tokenSendError returns the error for a token request that got no complete response because of
// err.
func (a *api) tokenSendError(ctx context.Context, scope string, err error, secrets func() []string) error {
	if ctx.Err() != nil {
		err = a.tokens.timeoutErr // the errors of net/http do not identify the timeout
	}
	return &sendError{operation: tokenOperation(scope), err: redact.Error(err, append(secrets(), a.hostname())...)}
}

// tokenRequest returns a request without a body for the token endpoint, with Basic authentication.
// It also returns the body, a multipart form.
func (a *api) tokenRequest(ctx context.Context, scope string, c Credentials) (*http.Request, []byte, error) {
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	if err := errors.Join(w.WriteField("grant_type", "client_credentials"), w.WriteField("scope", scope), w.Close()); err != nil {
		return nil, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, wire.Token.Method, a.base+wire.Token.Path, nil)
	if err != nil {
		return nil, nil, invalidArgument(wire.Token, "cannot create the request")
	}
	req.SetBasicAuth(c.ClientID, c.ClientSecret.Reveal())
	req.Header.Set("Content-Type", w.FormDataContentType())
	req.Header.Set("Accept", wire.MediaJSON)
	req.Header.Set("User-Agent", a.userAgent)
	return req, form.Bytes(), nil
}

// parseToken decodes the response of the token endpoint. The lifetime begins when the request was
// sent, so that Expiry is never too late.
func parseToken(status int, body []byte, requested time.Time) (*oauth2.Token, error) {
	var t struct {
		AccessToken string      `json:"access_token"`
		TokenType   string      `json:"token_type"`
		ExpiresIn   json.Number `json:"expires_in"`
	}
	// These errors must not contain the body, which contains a token.
	if err := json.Unmarshal(body, &t); err != nil {
		e := newDecodeError(wire.Token, status, nil, err)
		e.wrongHost = true
		return nil, e
	}
	if t.AccessToken == "" {
		return nil, newDecodeError(wire.Token, status, nil, errors.New("missing access_token"))
	}
	// net/http would reject the Authorization header of every operation with this token.
	if strings.ContainsFunc(t.AccessToken, notVisible) {
		return nil, newDecodeError(wire.Token, status, nil, errors.New("access_token contains invalid characters"))
	}

	lifetime := defaultLifetime
	if seconds, err := t.ExpiresIn.Float64(); err == nil && seconds > 0 {
		lifetime = time.Duration(min(seconds, maxLifetime.Seconds()) * float64(time.Second))
	}
	return &oauth2.Token{
		AccessToken: t.AccessToken,
		TokenType:   t.TokenType,
		ExpiresIn:   int64(lifetime / time.Second),
		Expiry:      requested.Add(lifetime),
	}, nil
}

const (
	// minTokenPause is the pause after the first failed token request.
	minTokenPause = time.Second
	// maxTokenPause limits the pause that a Retry-After header requests, unless RetryPolicy.MaxWait is
	// longer. A wrong header must not stop the client for hours after the endpoint has recovered.
	maxTokenPause = time.Minute
)

// tokenPause is the pause after a token request that failed temporarily while operations waited for
// the token. Until it ends, no token request for the same scopes starts.
type tokenPause struct {
	failures int // consecutive
	until    time.Time
	err      error // of the last token request
}

// pause returns the pause for scope, or the zero value if there is none. It may have ended.
func (c *tokenCache) pause(scope string) tokenPause {
	if pauses := c.pauses.Load(); pauses != nil {
		return (*pauses)[scope]
	}
	return tokenPause{}
}

// setPause sets the pause for scope, or removes it if p is the zero value. The caller holds c.mu.
func (c *tokenCache) setPause(scope string, p tokenPause) {
	old := c.pauses.Load()
	if old == nil && p.failures == 0 {
		return
	}
	pauses := make(map[string]tokenPause)
	if old != nil {
		maps.Copy(pauses, *old)
	}
	if p.failures > 0 {
		pauses[scope] = p
	} else {
		delete(pauses, scope)
	}
	if len(pauses) == 0 {
		c.pauses.Store(nil)
		return
	}
	c.pauses.Store(&pauses)
}

// pauseAfter returns the duration of the pause after f, or 0 if there is none. The caller holds
// c.mu.
func (c *tokenCache) pauseAfter(f *tokenFetch) time.Duration {
	if !f.retryable || !f.needed {
		return 0
	}
	p := RetryPolicy{MinWait: min(minTokenPause, c.maxWait), MaxWait: c.maxWait}
	return max(p.backoff(f.number), min(f.retryAfter, max(maxTokenPause, c.maxWait)))
}

// tokenRetryable reports whether a later token request may succeed after err, and the minimum delay
// that the service requests.
func tokenRetryable(err error) (retryAfter time.Duration, retryable bool) {
	if e, ok := errors.AsType[*TokenError](err); ok {
		return e.RetryAfter, isTransient(e.Status)
	}
	if e, ok := errors.AsType[*sendError](err); ok {
		return 0, !isCertificateError(e.err)
	}
	return 0, false
}

// CheckCredentials obtains an access token for each of scopes, by default those of the three
// checks, and returns the first error. Call it at startup or in a readiness probe. While cached
// tokens are valid, it sends no request and does not detect deleted credentials.
//
// [ErrUnauthorized] means that the credentials are wrong, and [ErrForbidden] that they do not allow
// a scope; if a [*TokenError] has status 401 and no Code, check the base URL and any proxy. After
// any other error, the service may be unavailable.
func (c *Client) CheckCredentials(ctx context.Context, scopes ...Scope) error {
	if len(scopes) == 0 {
		scopes = []Scope{ScopePhoneCheck, ScopeSIMCheck, ScopeSubscriberCheck}
	}
	for _, s := range scopes { // each has the token that its operations use
		if _, err := c.Token(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// Scope limits the operations that an access token allows. The methods of this package request the
// scopes that they need. Pass a Scope only to [Client.Token], [Client.CheckCredentials] and
// [Client.ReadyHandler].
type Scope string

// The scopes of project credentials, followed by those of workspace credentials.
const (
	ScopePhoneCheck      Scope = "phone_check"      // PhoneChecks
	ScopeSIMCheck        Scope = "sim_check"        // SIMChecks
	ScopeSubscriberCheck Scope = "subscriber_check" // SubscriberChecks
	ScopeReachability    Scope = "coverage"         // Reachability

	ScopeProjects   Scope = "projects"   // projects of the workspace of the credentials
	ScopeWorkspaces Scope = "workspaces" // workspaces of the member, with their projects
	ScopeConsole    Scope = "console"    // projects and workspaces together
)

func (a *api) token(ctx context.Context, scopes []Scope) (*oauth2.Token, error) {
	scope, err := joinScopes(scopes)
	if err != nil {
		return nil, err
	}
	if ctx == nil {
		return nil, invalidArgument(wire.Token, "nil context")
	}

	c := &call{api: a, op: wire.Token, scope: scope, tokenFailed: true}
	if err := c.awaitToken(ctx); err != nil {
		o := newObservation(a.observers, wire.Token)
		o.begin(ctx, 0)
		o.end(err, 0, false, c.secrets)
		return nil, err
	}
	for {
		c.attempt++
		var token *oauth2.Token
		if token, c.err = a.tokens.get(ctx, scope); c.err == nil {
			return new(*token), nil
		}
		wait, retry := c.nextAttempt(ctx, nil)
		if !retry {
			return nil, c.err
		}
		sleep(ctx, wait)
		if err := ctx.Err(); err != nil {
			return nil, c.sendError(err, false)
		}
	}
}

// joinScopes returns scopes sorted, without duplicates and separated by spaces, so that each set of
// scopes has one token.
func joinScopes(scopes []Scope) (string, error) {
	if len(scopes) == 0 {
		return "", invalidArgument(wire.Token, "no scopes given")
	}
	names := make([]string, len(scopes))
	for i, s := range scopes {
		if s == "" || strings.ContainsFunc(string(s), notVisible) {
			return "", invalidArgument(wire.Token, "a scope must be 1 or more visible ASCII characters without spaces")
		}
		names[i] = string(s)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " "), nil
}

// notVisible reports whether r is not a visible ASCII character.
func notVisible(r rune) bool { return r <= ' ' || r > '~' }

// endFetch reports f.
func (c *tokenCache) endFetch(o *observation, f *tokenFetch) {
	o.end(f.err, f.pause, f.pause > 0, func() []string {
		secrets := f.appendSecrets(c.secrets())
		if f.token != nil {
			secrets = append(secrets, f.token.AccessToken) // may not be cached
		}
		return secrets
	})
}
