package idverify

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/idverify/idverify-go/internal/redact"
	"github.com/idverify/idverify-go/internal/wire"
	"golang.org/x/oauth2"
)

// Maximum size of a response body in bytes and in JSON values. The number of values is limited
// because ten bytes of JSON can use a kilobyte in Go. A page of a hundred checks has about 60 KiB
// and 2,500 values.
const (
	maxBody          = 10 << 20
	maxErrorBody     = 1 << 20
	initialBuffer    = 2<<10 - bytes.MinRead // without a Content-Length
	maxInitialBuffer = 64 << 10
	maxValues        = 1 << 16
)

// call is an operation in progress, with all its attempts. It is used by one goroutine.
//
// A call is the transport of its own retry client, so that no state is passed in contexts. It must
// not have a CloseIdleConnections method: retryablehttp would call it after every failure and close
// the idle connections of the caller's pool.
type call struct {
	api   *api
	op    wire.Operation
	scope string // scopes requested by Client.Token, otherwise empty
	code  string // as in request

	// Parts of the call, so that they need no allocations of their own.
	retries retryablehttp.Client
	client  http.Client
	request retryablehttp.Request
	limited io.LimitedReader

	observation    *observation // nil if there are no observers
	payload        []byte       // the request body; nil if there is none
	attempt        int
	deadline       time.Time     // of the current attempt; zero if it has no timeout
	token          *oauth2.Token // of the last attempt
	body           []byte        // of the last response
	err            error         // of the last attempt
	tokenFailed    bool          // err is the error of the token request
	budgetEmpty    bool          // the last attempt is not retried because the retry budget is empty
	maybeProcessed bool          // the service may have processed an earlier write of the request
}

// do sends req, with retries, and returns the last response with any status.
func (c *call) do(req *http.Request) (*http.Response, error) {
	if err := c.awaitToken(req.Context()); err != nil {
		c.observation.begin(req.Context(), 1) // report the error although there was no attempt
		return nil, err
	}
	c.client = http.Client{Transport: c, Jar: c.api.httpClient.Jar}
	c.retries = retryablehttp.Client{
		HTTPClient: &c.client,
		RetryMax:   c.api.retry.MaxAttempts,
		CheckRetry: c.checkRetry,
		Backoff:    func(wait, _ time.Duration, _ int, _ *http.Response) time.Duration { return wait }, // the delay that checkRetry has set
		PrepareRetry: func(again *http.Request) error {
			again.Header = again.Header.Clone() // the previous attempt may still read the old one
			again.Header.Del("Cookie")          // http.Client adds the cookies of the jar in each attempt
			return nil
		},
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	c.request = retryablehttp.Request{Request: req} // without a body, because every attempt sets its own
	resp, err := c.retries.Do(&c.request)
	if err == nil {
		return resp, nil
	}
	if ctxErr := req.Context().Err(); ctxErr != nil {
		// If the wait for a token was canceled, keep its error, which names the token request.
		if own, ok := errors.AsType[*sendError](c.err); ok && errors.Is(own, ctxErr) {
			return nil, own
		}
		return nil, c.sendError(ctxErr, c.written())
	}
	if c.err != nil {
		return nil, c.err
	}
	return nil, c.sendError(err, false)
}

// title returns the title of the operation for error texts.
func (c *call) title() string {
	if c.op == wire.Token {
		return tokenOperation(c.scope)
	}
	return c.op.Title
}

// sendError returns the error for an operation that got no response. Parameter written reports
// whether the service may have received the complete request.
func (c *call) sendError(err error, written bool) error {
	e := &sendError{
		operation: c.title(),
		written:   written,
		err:       redact.Error(err, append(c.secrets(), c.api.hostname())...),
		attempts:  c.attempt,
	}
	if written {
		e.unknown = outcomeOf(c.op)
	}
	return e
}

// noRedirectTransport removes the Location of a response, so that http.Client does not follow
// redirects and credentials are sent only to the host of the base URL. It also prevents http.Client
// from returning an error that contains a malformed Location.
type noRedirectTransport struct{ http.RoundTripper }

func (t noRedirectTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Header.Del("Location")
	}
	return resp, err
}

// RoundTrip implements http.RoundTripper. It is called once for each attempt.
func (c *call) RoundTrip(req *http.Request) (*http.Response, error) {
	c.attempt++
	if timeout := c.api.attemptTimeout; timeout > 0 {
		c.deadline = time.Now().Add(timeout)
	}
	if c.observation != nil {
		req = req.WithContext(c.observation.begin(req.Context(), c.attempt))
	}
	resp, err := c.sendAuthorized(req)
	c.err = err
	return resp, err
}

// exchange sends req and reads the complete response, so that a truncated response can be retried
// like a lost connection. It ends at c.deadline.
func (c *call) exchange(req *http.Request) (*http.Response, error) {
	start := time.Now()
	req.Header.Set("Authorization", "Bearer "+c.token.AccessToken) // the header belongs to this attempt
	tracker := newWriteTracker(c.op, c.payload)
	req = tracker.track(req, c.deadline)
	defer tracker.cancel()
	c.observation.sends(tracker)

	resp, err := c.api.transport.RoundTrip(req)
	if err == nil {
		c.observation.received(resp)
		err = c.readBody(resp)
	}
	if _, ok := errors.AsType[*DecodeError](err); err != nil && !ok {
		lost, written := tracker.fail(err)
		if context.Cause(req.Context()) == errAttemptTimeout {
			lost = errAttemptTimeout
		}
		err = c.sendError(lost, written || resp != nil)
	}
	c.maybeProcessed = c.maybeProcessed || idempotent(c.op) && tracker.rewritten()
	c.api.logAttempt(req.Context(), c.op, c.attempt, start, resp, err, c.secrets)
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// readBody reads the response body into c.body.
func (c *call) readBody(resp *http.Response) error {
	if resp.Body == nil {
		resp.Body = http.NoBody // http.Client also accepts this from a Transport
	}
	defer resp.Body.Close()
	limit := maxBody
	if !isSuccess(resp.StatusCode) {
		limit = maxErrorBody
	}
	// Content-Length avoids growing the buffer, but is not trusted for large allocations.
	size := resp.ContentLength
	if size < 0 {
		size = initialBuffer
	}
	buf := bytes.NewBuffer(make([]byte, 0, min(size, maxInitialBuffer)+bytes.MinRead))
	c.limited = io.LimitedReader{R: resp.Body, N: int64(limit) + 1}
	_, err := buf.ReadFrom(&c.limited)
	body := buf.Bytes()
	if !isSuccess(resp.StatusCode) {
		// Report the status in any case. A truncated body may still contain the reason.
		body, err = body[:min(len(body), limit)], nil
	}
	switch {
	case err != nil:
		return err
	case len(body) > limit:
		return c.bodyTooLarge(resp, "longer than 10 MiB")
	case isSuccess(resp.StatusCode) && countValues(body) > maxValues:
		return c.bodyTooLarge(resp, "more than 65,536 values")
	}
	c.body, resp.Body = body, http.NoBody
	return nil
}

func (c *call) bodyTooLarge(resp *http.Response, why string) error {
	return response{call: c, status: resp.StatusCode, header: resp.Header}.unusable(errors.New(why))
}

// countValues returns an upper bound for the number of JSON values in body. Each value except the
// first follows one of these characters.
func countValues(body []byte) (n int) {
	for _, mark := range []byte(",[{") {
		n += bytes.Count(body, []byte{mark})
	}
	return n
}

// logAttempt logs an attempt with its response or error. Parameter secrets returns the texts that
// must be redacted.
func (a *api) logAttempt(ctx context.Context, op wire.Operation, attempt int, start time.Time, resp *http.Response, err error, secrets func() []string, more ...slog.Attr) {
	if !a.logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{slog.String("operation", op.Name), slog.Int("attempt", attempt), slog.Duration("duration", time.Since(start))}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	} else {
		attrs = append(attrs, slog.Int("status", resp.StatusCode), slog.String("request_id", requestID(resp.Header, secrets()...)))
	}
	a.logger.LogAttrs(ctx, slog.LevelDebug, "idverify: attempt", append(attrs, more...)...)
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

// checkRetry reports whether to retry, and sets the delay. It implements retryablehttp.CheckRetry.
func (c *call) checkRetry(ctx context.Context, resp *http.Response, _ error) (bool, error) {
	if c.attempt == 1 && resp != nil && isSuccess(resp.StatusCode) {
		c.api.budget.refund()
	}
	wait, retry := c.nextAttempt(ctx, resp)
	c.retries.RetryWaitMin = wait
	if retry {
		c.endRetried(resp, wait)
	}
	return retry, nil
}

// nextAttempt reports whether to retry after the last attempt, and after what delay. Parameter resp
// is nil if the attempt failed with c.err.
func (c *call) nextAttempt(ctx context.Context, resp *http.Response) (wait time.Duration, retry bool) {
	retry, floor := c.retryable(resp)
	if !retry || c.attempt >= c.api.retry.MaxAttempts || ctx.Err() != nil || floor > c.api.retry.MaxWait {
		return 0, false
	}
	wait = max(c.api.retry.backoff(c.attempt), floor)
	if c.tokenFailed {
		wait = max(0, time.Until(c.api.tokens.pause(cmp.Or(c.scope, c.op.Scope)).until))
	}
	if wait > c.api.retry.MaxWait || exceedsDeadline(ctx, wait) {
		return 0, false // the error of the last attempt is more useful than a timeout
	}
	if !c.tokenFailed && !c.api.budget.take() {
		c.denyRetry(ctx, resp)
		return 0, false
	}

	c.maybeProcessed = c.maybeProcessed || resp == nil && c.written() || resp != nil && resp.StatusCode >= 500
	c.logRetry(ctx, "idverify: retry", resp, slog.Duration("wait", wait))
	return wait, true
}

// denyRetry records that the last attempt is not retried because the budget is empty.
func (c *call) denyRetry(ctx context.Context, resp *http.Response) {
	c.budgetEmpty = true
	if err, ok := c.err.(*sendError); ok {
		err.budgetEmpty = true
	}
	c.logRetry(ctx, "idverify: retry budget empty", resp)
}

// logRetry logs the outcome of the last attempt.
func (c *call) logRetry(ctx context.Context, message string, resp *http.Response, more ...slog.Attr) {
	if !c.api.logger.Enabled(ctx, slog.LevelWarn) {
		return
	}
	attrs := append([]slog.Attr{slog.String("operation", c.op.Name), slog.Int("attempt", c.attempt)}, more...)
	attrs = append(attrs, c.outcome(resp))
	if resp != nil {
		attrs = append(attrs, slog.String("request_id", requestID(resp.Header, c.secrets()...)))
	}
	if c.scope != "" {
		attrs = append(attrs, slog.String("scope", c.scope))
	}
	c.api.logger.LogAttrs(ctx, slog.LevelWarn, message, attrs...)
}

// outcome returns the status or the error of the last attempt, for the log.
func (c *call) outcome(resp *http.Response) slog.Attr {
	switch {
	case resp != nil:
		return slog.Int("status", resp.StatusCode)
	case c.err != nil:
		return slog.String("error", c.err.Error())
	}
	return slog.String("error", "no response")
}

// retryable reports whether the last attempt may be retried, and the minimum delay that the service
// requests.
func (c *call) retryable(resp *http.Response) (retry bool, floor time.Duration) {
	if resp != nil {
		return resp.StatusCode == http.StatusTooManyRequests || idempotent(c.op) && isTransient(resp.StatusCode), retryAfter(resp.Header)
	}
	if c.tokenFailed {
		// The token request precedes the operation, so the operation was not sent.
		floor, retry = tokenRetryable(c.err)
		return retry, floor
	}
	if err, ok := errors.AsType[*sendError](c.err); ok {
		return (!err.written || idempotent(c.op)) && !isCertificateError(err.err), 0
	}
	return false, 0
}

// written reports whether the last attempt got no usable response although the request may have
// been written completely.
func (c *call) written() bool {
	if err, ok := errors.AsType[*DecodeError](c.err); ok {
		return err.unknown != nil // nil for a token request, which precedes the operation
	}
	err, ok := errors.AsType[*sendError](c.err)
	return ok && err.written
}

// problem returns the error for a response that is not 2xx. The body is a problem document, or
// anything else, for example the error page of a proxy.
func (c *call) problem(resp *http.Response, body []byte) *Error {
	secrets := c.secrets()
	e := &Error{
		Status:      resp.StatusCode,
		Title:       http.StatusText(resp.StatusCode),
		Operation:   c.op.Name,
		RetryAfter:  retryAfter(resp.Header),
		RateLimit:   rateLimit(resp.Header, time.Now()),
		RequestID:   requestID(resp.Header, secrets...),
		budgetEmpty: c.budgetEmpty,
		attempts:    c.attempt,
	}
	if outcomeUnknown(resp.StatusCode) {
		e.unknown = outcomeOf(c.op)
	}
	var p struct {
		Type, Title, Detail string
	}
	// If a field has the wrong type, Unmarshal still decodes the others.
	_ = json.Unmarshal(body, &p)
	if p.Type == "" && p.Title == "" && p.Detail == "" {
		e.Detail = bodyStart(body, secrets...)
		return e
	}
	e.Type = sanitizeType(p.Type, secrets...)
	e.Detail = redact.Text(p.Detail, secrets...)
	if p.Title != "" {
		e.Title = redact.Text(p.Title, secrets...)
	}
	return e
}

// secrets returns the secrets of the client, the code of the request, and the token of the last
// attempt, which may no longer be cached.
func (c *call) secrets() []string {
	secrets := append(c.api.secrets(), c.code)
	if c.token != nil {
		secrets = append(secrets, c.token.AccessToken)
	}
	return secrets
}

// endRetried reports the last attempt of c, which another one follows after the given delay.
// Parameter resp is nil if the attempt failed with c.err.
func (c *call) endRetried(resp *http.Response, wait time.Duration) {
	if !c.observation.active() {
		return
	}
	err := c.err
	if resp != nil {
		err = c.problem(resp, c.body)
	}
	c.observation.end(err, wait, true, c.secrets)
}
