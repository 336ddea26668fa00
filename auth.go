package idverify

import (
	"context"
	"sync"
	"time"

	"golang.org/x/oauth2"
)

const (
	// tokenTimeout bounds a token request, which has no caller's deadline.
	tokenTimeout = 30 * time.Second
	// maxEarly is how long before its end a token is replaced at the earliest; a tenth of its lifetime otherwise.
	maxEarly = time.Minute
	// refreshPause is the wait after an early refresh that failed: the old token still serves.
	refreshPause = 5 * time.Second
)

// tokenCache holds the tokens of one pair of credentials, one for each set of scopes.
//
// However many callers want a token, one request is under way. It runs on a context of its own, so a caller that gives up leaves without harm to the others.
// In the last part of a token's life the next one is fetched while callers still use the old one.
type tokenCache struct {
	fetch func(ctx context.Context, scope string) (*oauth2.Token, error)
	now   func() time.Time

	mu      sync.Mutex
	entries map[string]*tokenEntry // by scopes; mu guards what they hold, too

	hits sync.Map // from scopes to hit: the tokens that need no refresh yet, so that all the callers who just want one take no lock
}

type tokenEntry struct {
	token   *oauth2.Token // nil: none yet, or dropped
	refresh time.Time     // when to fetch the next one
	flight  *flight       // the fetch under way, if any
}

// hit is what of a tokenEntry does not change until there is another token.
type hit struct {
	token *oauth2.Token
	until time.Time
}

// flight is one fetch. Its result is set before done is closed.
type flight struct {
	done  chan struct{}
	token *oauth2.Token
	err   error
}

// get returns a token that has not expired.
func (c *tokenCache) get(ctx context.Context, scope string) (*oauth2.Token, error) {
	if err := ctx.Err(); err != nil {
		return nil, &sendError{operation: tokenOperation(scope), err: err}
	}
	now := c.now()
	if h, ok := c.hits.Load(scope); ok && now.Before(h.(hit).until) {
		return h.(hit).token, nil
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
	f := e.flight
	if f == nil && (token == nil || !now.Before(e.refresh)) {
		f = &flight{done: make(chan struct{})}
		e.flight = f
		go c.fly(context.WithoutCancel(ctx), scope, e, f)
	}
	c.mu.Unlock()

	if token != nil {
		return token, nil
	}
	select {
	case <-f.done:
		return f.token, f.err
	case <-ctx.Done():
		return nil, &sendError{operation: tokenOperation(scope), err: ctx.Err()}
	}
}

// fly fetches a token for e. It ends by itself, after tokenTimeout at the latest.
func (c *tokenCache) fly(ctx context.Context, scope string, e *tokenEntry, f *flight) {
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	defer close(f.done)
	begun := c.now()
	f.token, f.err = c.fetch(ctx, scope)

	c.mu.Lock()
	defer c.mu.Unlock()
	if e.flight != f {
		return // void: begun before the service refused the token
	}
	e.flight = nil
	switch {
	case f.err == nil:
		e.token = f.token
		e.refresh = f.token.Expiry.Add(-min(time.Duration(f.token.ExpiresIn)*time.Second/10, maxEarly))
		c.hits.Store(scope, hit{e.token, e.refresh})
	case e.token != nil:
		e.refresh = begun.Add(refreshPause)
	default:
		delete(c.entries, scope)
	}
}

// drop forgets token, which the service refused. It compares first, because many callers may come with the same old token when the next one is there already;
// a fetch under way was begun before the refusal and may bring what was revoked with it, so its result is not kept.
func (c *tokenCache) drop(scope string, token *oauth2.Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[scope]; e != nil && e.token == token {
		e.token, e.flight = nil, nil
		c.hits.Delete(scope)
	}
}

// tokens are the texts of all tokens in the cache.
func (c *tokenCache) tokens() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var texts []string
	for _, e := range c.entries {
		if e.token != nil {
			texts = append(texts, e.token.AccessToken)
		}
	}
	return texts
}
