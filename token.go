package idverify

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/hashicorp/go-retryablehttp"
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
	req, err := retryablehttp.NewRequestWithContext(ctx, wire.Token.Method, a.base+wire.Token.Path, nil)
	if err != nil {
		return nil, invalidArgument(wire.Token, "the request cannot be built: is the context nil?")
	}

	// Attempts are made as for every operation. Each asks the cache.
	c := &call{api: a, op: wire.Token}
	resp, err := c.do(req, func(c *call, r *http.Request) (*http.Response, error) {
		token, err := a.tokens.get(r.Context(), scope)
		if err != nil {
			return nil, err
		}
		c.token = token
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	})
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	token := *c.token
	return &token, nil
}

// joinScopes writes scopes as the token endpoint wants them, in one order however they were given: a set of scopes has one token.
func joinScopes(scopes []Scope) (string, error) {
	if len(scopes) == 0 {
		return "", invalidArgument(wire.Token, "no scope is given")
	}
	names := make([]string, len(scopes))
	for i, s := range scopes {
		if s == "" || strings.ContainsFunc(string(s), notVisible) {
			return "", invalidArgument(wire.Token, "a scope is empty or holds a space")
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
