package idverify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/idverify/idverify-go/internal/redact"
	"github.com/idverify/idverify-go/internal/wire"
)

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
	return &sendError{operation: tokenOperation(scope), err: &credentialsError{err}, text: sourceFailed + err.Error()}
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

// errTokenTimeout is the error of a token request that exceeded tokenTimeout.
var errTokenTimeout = fmt.Errorf("no response within the timeout of a token request: %w", context.DeadlineExceeded)

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
