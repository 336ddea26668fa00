package idverify

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/oauth2"

	"github.com/idverify/idverify-go/internal/wire"
)

// Token returns an access token for scopes, for example a token for [ScopeReachability] that you
// pass to a device. The methods of the services obtain their tokens themselves.
//
// Token returns a copy of the token in the cache of c, which it fetches if necessary. The Client
// renews the token in the last tenth of its lifetime, at most one minute before Expiry. Token
// requests are retried: see [RetryPolicy].
//
// If the credentials do not allow a scope, the error is a [*TokenError] with [CodeInvalidScope].
//
// Protocol: docs/protocol.md, section 2.
func (c *Client) Token(ctx context.Context, scopes ...Scope) (*oauth2.Token, error) {
	return c.api.token(ctx, scopes)
}

// CheckCredentials returns an error if c cannot obtain an access token for one of scopes, without
// which it checks the scopes of the three checks. Call it at the start of a program, and in a
// readiness probe: while the tokens in the cache of c are valid, it sends no request, so it does
// not notice that credentials were deleted.
//
// An error that matches [ErrUnauthorized], or a [*TokenError] with [CodeInvalidScope], means that
// the credentials are wrong. After any other error, the service may be unavailable.
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
// scopes that they need, so a Scope is required only for [Client.Token] and
// [Client.CheckCredentials].
type Scope string

// The scopes of project credentials, followed by those of workspace credentials.
const (
	ScopePhoneCheck      Scope = wire.ScopePhoneCheck      // PhoneChecks
	ScopeSIMCheck        Scope = wire.ScopeSIMCheck        // SIMChecks
	ScopeSubscriberCheck Scope = wire.ScopeSubscriberCheck // SubscriberChecks
	ScopeReachability    Scope = wire.ScopeCoverage        // Reachability; its text is "coverage"

	ScopeProjects   Scope = wire.ScopeProjects   // projects of the workspace of the credentials
	ScopeWorkspaces Scope = wire.ScopeWorkspaces // workspaces of the member, with their projects
	ScopeConsole    Scope = wire.ScopeConsole    // projects and workspaces together
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

// tokenOperation returns the title of a token request in errors.
func tokenOperation(scope string) string { return wire.Token.Title + " for scope \"" + scope + "\"" }
