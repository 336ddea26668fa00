package idverify

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"time"
)

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

// awaitToken waits until a token request for the call may start. If that would take longer than
// RetryPolicy.MaxWait or exceed the deadline of ctx, it returns the error of the last token request
// at once.
func (c *call) awaitToken(ctx context.Context) error {
	scope := cmp.Or(c.scope, c.op.Scope)
	pause := c.api.tokens.pause(scope)
	if pause.failures == 0 {
		return nil
	}
	wait := time.Until(pause.until)
	if wait <= 0 {
		return nil
	}
	if wait > c.api.retry.MaxWait || exceedsDeadline(ctx, wait) {
		return pausedError(pause.err, wait)
	}
	sleep(ctx, wait)
	if err := ctx.Err(); err != nil {
		return &sendError{operation: tokenOperation(scope), err: err}
	}
	return nil
}

// pausedError returns a copy of err that mentions the remaining pause.
func pausedError(err error, pause time.Duration) error {
	switch e := err.(type) {
	case *TokenError:
		paused := *e
		paused.pause = pause
		return &paused
	case *sendError:
		paused := *e
		paused.pause = pause
		return &paused
	}
	return err
}

// pausedHint returns the advice of an error that an operation returned because of a pause.
func pausedHint(pause time.Duration) string {
	return "token requests are paused after a failure; " + retryAfterText(max(pause, time.Second))
}
