package idverify

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/idverify/idverify-go/internal/wire"
)

// Token returns an access token for scopes, for example one for [ScopeCoverage] alone to hand to a device. Calls on c need no Token: they get their own.
//
// It is taken from the cache of c, where it is replaced in the last tenth of its lifetime, at most a minute before its end; the rest of the lifetime is in Expiry. Changing it changes nothing here.
// Errors: [*TokenError], for example with code "invalid_scope" when the credentials may not have a scope.
//
// Specification: section 4, POST /oauth2/v1/token.
func (c *Client) Token(ctx context.Context, scopes ...Scope) (*oauth2.Token, error) {
	return c.api.token(ctx, scopes)
}

// Scope is what an access token may be used for (specification, sections 4 and 5.2). The methods of this package ask for the scope they need; a Scope is named only to hand a token on, see [Client.Token].
type Scope string

// The scopes of project credentials, then those of workspace credentials.
const (
	ScopePhoneCheck      Scope = wire.ScopePhoneCheck
	ScopeSIMCheck        Scope = wire.ScopeSIMCheck
	ScopeSubscriberCheck Scope = wire.ScopeSubscriberCheck
	ScopeCoverage        Scope = wire.ScopeCoverage

	ScopeProjects   Scope = wire.ScopeProjects
	ScopeWorkspaces Scope = wire.ScopeWorkspaces
	ScopeConsole    Scope = wire.ScopeConsole // projects and workspaces together
)

func (a *api) token(ctx context.Context, scopes []Scope) (*oauth2.Token, error) {
	scope, err := joinScopes(scopes)
	if err != nil {
		return nil, err
	}
	if ctx == nil {
		return nil, invalidArgument(wire.Token, "the context is nil")
	}

	c := &call{api: a, op: wire.Token, scope: scope}
	for {
		c.attempt++
		var token *oauth2.Token
		if token, c.err = c.tokenAttempt(ctx); c.err == nil {
			return new(*token), nil
		}
		wait, retry := c.nextAttempt(ctx, nil)
		if retry {
			sleep(ctx, wait)
		}
		switch ctxErr := ctx.Err(); {
		case ctxErr != nil && !errors.Is(c.err, ctxErr):
			return nil, c.sendError(ctxErr, false)
		case ctxErr != nil, !retry:
			return nil, c.err
		}
	}
}

// tokenAttempt returns a token of the cache, which fetches it if necessary. Like any attempt, it
// ends with the timeout of the HTTP client.
func (c *call) tokenAttempt(ctx context.Context) (*oauth2.Token, error) {
	if timeout := c.api.httpClient.Timeout; timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	return c.api.tokens.get(ctx, c.scope)
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// joinScopes writes scopes as the token endpoint wants them, in one order however they were given: a set of scopes has one token.
func joinScopes(scopes []Scope) (string, error) {
	if len(scopes) == 0 {
		return "", invalidArgument(wire.Token, "no scope is given")
	}
	names := make([]string, len(scopes))
	for i, s := range scopes {
		if s == "" || strings.ContainsFunc(string(s), notVisible) {
			return "", invalidArgument(wire.Token, "a scope is empty or contains a space")
		}
		names[i] = string(s)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " "), nil
}

// notVisible reports whether r is anything but a visible ASCII character.
func notVisible(r rune) bool { return r <= ' ' || r > '~' }

// tokenOperation is what errors call a token request.
func tokenOperation(scope string) string { return wire.Token.Title + " for scope \"" + scope + "\"" }
