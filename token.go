package idverify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"golang.org/x/oauth2"

	"github.com/idverify/idverify-go/internal/wire"
)

const (
	// defaultLifetime is that of a token whose answer names none: short, because nothing says that it is long.
	defaultLifetime = 5 * time.Minute
	// maxLifetime keeps a nonsensical one within the range of time.Duration.
	maxLifetime = 30 * 24 * time.Hour
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

// fetchToken asks the token endpoint, once.
func (a *api) fetchToken(ctx context.Context, scope string) (*oauth2.Token, error) {
	req, form, err := a.tokenRequest(ctx, scope)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: a.transport, Timeout: a.httpClient.Timeout}
	requested := a.now()
	start := time.Now()
	tracker := newWriteTracker(wire.Token, form)
	req = tracker.track(req)
	defer tracker.cancel()
	resp, err := client.Do(req)
	if err != nil {
		err, _ = tracker.fail(err)
		err = &sendError{operation: tokenOperation(scope), err: cause(err), text: causeText(cause(err), a.secrets()...)}
	}
	a.logAttempt(ctx, wire.Token, 1, start, resp, err, slog.String("scope", scope))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if !isSuccess(resp.StatusCode) {
		return nil, newTokenError(scope, resp, body, a.secrets())
	}
	if err != nil {
		return nil, &sendError{operation: tokenOperation(scope), err: cause(err), text: causeText(cause(err), a.secrets()...)}
	}
	token, err := parseToken(scope, resp.StatusCode, body, requested)
	if unusable, ok := errors.AsType[*DecodeError](err); ok {
		unusable.RequestID = requestID(resp.Header, a.secrets()...)
	}
	return token, err
}

// tokenRequest returns a request with Basic authentication for the token endpoint, without its
// body, and the body: a multipart form.
func (a *api) tokenRequest(ctx context.Context, scope string) (*http.Request, []byte, error) {
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	if err := errors.Join(w.WriteField("grant_type", "client_credentials"), w.WriteField("scope", scope), w.Close()); err != nil {
		return nil, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, wire.Token.Method, a.base+wire.Token.Path, nil)
	if err != nil {
		return nil, nil, invalidArgument(wire.Token, "the request cannot be built")
	}
	req.SetBasicAuth(a.credentials.ClientID, a.credentials.ClientSecret.Reveal())
	req.Header.Set("Content-Type", w.FormDataContentType())
	req.Header.Set("Accept", wire.MediaJSON)
	req.Header.Set("User-Agent", a.userAgent)
	return req, form.Bytes(), nil
}

// parseToken reads a token that was requested at the given time: counted from there its life is never thought longer than it is.
func parseToken(scope string, status int, body []byte, requested time.Time) (*oauth2.Token, error) {
	var t struct {
		AccessToken string      `json:"access_token"`
		TokenType   string      `json:"token_type"`
		ExpiresIn   json.Number `json:"expires_in"`
	}
	// The body stays out of these errors: it holds a token.
	if err := json.Unmarshal(body, &t); err != nil {
		return nil, newDecodeError(tokenOperation(scope), status, nil, err)
	}
	if t.AccessToken == "" {
		return nil, newDecodeError(tokenOperation(scope), status, nil, errors.New("it has no access_token"))
	}
	// net/http rejects such a header, and the operation would be reported as possibly sent.
	if strings.ContainsFunc(t.AccessToken, notVisible) {
		return nil, newDecodeError(tokenOperation(scope), status, nil, errors.New("its access_token contains a character that a header cannot carry"))
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

// notVisible reports whether r is anything but a visible ASCII character.
func notVisible(r rune) bool { return r <= ' ' || r > '~' }

// tokenOperation is what errors call a token request.
func tokenOperation(scope string) string { return wire.Token.Title + " for scope \"" + scope + "\"" }
