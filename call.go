package idverify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"golang.org/x/oauth2"

	"github.com/idverify/idverify-go/internal/wire"
)

// Limits of a response body, in bytes and in JSON values, because ten bytes of JSON can become a
// kilobyte in Go. A page of a hundred checks has about 60 KiB and 2,500 values.
const (
	maxBody          = 10 << 20
	maxErrorBody     = 1 << 20
	maxInitialBuffer = 64 << 10
	maxValues        = 1 << 16
)

// call is one operation in progress, with all its attempts. It belongs to one goroutine.
//
// It is the transport of its own retry client, so that nothing travels in contexts: retryablehttp
// decides when to retry, call decides whether, and sends. It has no CloseIdleConnections method,
// because retryablehttp would empty the caller's connection pool after every failure.
type call struct {
	api   *api
	op    wire.Operation
	scope string // of a token that the caller asked for; empty for other operations

	retries        retryablehttp.Client
	client         http.Client
	payload        []byte          // the request body; nil for none
	caller         context.Context // the caller's; the context of an attempt also ends with the http.Client's timeout
	attempt        int
	token          *oauth2.Token // of the last attempt
	body           []byte        // of the last response
	err            error         // of the last attempt; http.Client reduces it to a text when its timeout expires
	maybeProcessed bool          // the service may have processed an earlier write of the request
}

// do makes attempts until the policy accepts a response, whatever its status.
func (c *call) do(req *retryablehttp.Request) (*http.Response, error) {
	c.caller = req.Context()
	c.client = http.Client{
		Transport: c,
		Jar:       c.api.httpClient.Jar,
		Timeout:   c.api.httpClient.Timeout,
	}
	c.retries = retryablehttp.Client{
		HTTPClient: &c.client,
		RetryMax:   c.api.retry.MaxAttempts,
		CheckRetry: c.checkRetry,
		Backoff:    func(wait, _ time.Duration, _ int, _ *http.Response) time.Duration { return wait }, // checkRetry chose it
		PrepareRetry: func(again *http.Request) error {
			again.Header = again.Header.Clone() // the previous attempt may still be reading the old one
			again.Header.Del("Cookie")          // the jar adds them in every attempt
			return nil
		},
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	resp, err := c.retries.Do(req)
	if err == nil {
		return resp, nil
	}
	if ctxErr := req.Context().Err(); ctxErr != nil {
		// The error of waiting for a token names the token request: return it as it is.
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

// title returns how errors name the operation.
func (c *call) title() string {
	if c.op == wire.Token {
		return tokenOperation(c.scope)
	}
	return c.op.Title
}

// sendError returns the error of an operation without a response. Parameter written reports whether
// the service may have received the whole request.
func (c *call) sendError(err error, written bool) error {
	e := &sendError{
		operation: c.title(),
		written:   written,
		err:       cause(err),
		text:      causeText(cause(err), c.secrets()...),
		attempts:  c.attempt,
	}
	if written {
		e.unknown = outcomeOf(c.op)
	}
	return e
}

// noRedirectTransport returns redirects to the caller, so that credentials never leave the host of the base
// URL. It deletes the Location, because http.Client parses it even if it does not follow it, and
// fails with its text if it is malformed.
type noRedirectTransport struct{ http.RoundTripper }

func (t noRedirectTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Header.Del("Location")
	}
	return resp, err
}

// RoundTrip implements http.RoundTripper for one attempt.
func (c *call) RoundTrip(req *http.Request) (*http.Response, error) {
	c.attempt++
	resp, err := c.sendAuthorized(req)
	c.err = err
	return resp, err
}

// exchange sends req and reads the whole response, so that a truncated response fails the attempt
// like a lost connection.
func (c *call) exchange(req *http.Request) (*http.Response, error) {
	start := time.Now()
	req.Header.Set("Authorization", "Bearer "+c.token.AccessToken) // the header belongs to this attempt
	tracker := newWriteTracker(c.op, c.payload)
	req = tracker.track(req)
	defer tracker.cancel()

	resp, err := c.api.transport.RoundTrip(req)
	if err == nil {
		err = c.readBody(resp)
	}
	if _, ok := errors.AsType[*DecodeError](err); err != nil && !ok {
		lost, written := tracker.fail(err)
		// net/http reports its own timeout in several ways, none of which names it.
		if deadline, ok := req.Context().Deadline(); ok && !time.Now().Before(deadline) && c.caller.Err() == nil {
			lost = errClientTimeout
		}
		err = c.sendError(lost, written || resp != nil)
	}
	c.maybeProcessed = c.maybeProcessed || idempotent(c.op) && tracker.rewritten()
	c.api.logAttempt(req.Context(), c.op, c.attempt, start, resp, err)
	if err != nil {
		return nil, err
	}
	return resp, nil
}

var errClientTimeout = fmt.Errorf("no response within the timeout of the HTTP client (see WithHTTPClient): %w", context.DeadlineExceeded)

// readBody reads the response body into c.body.
func (c *call) readBody(resp *http.Response) error {
	defer resp.Body.Close()
	limit := maxBody
	if !isSuccess(resp.StatusCode) {
		limit = maxErrorBody
	}
	// Content-Length avoids growing the buffer, but it is a claim of the peer: allocate a page at most.
	buf := bytes.NewBuffer(make([]byte, 0, min(max(resp.ContentLength, 0), maxInitialBuffer)+bytes.MinRead))
	_, err := buf.ReadFrom(io.LimitReader(resp.Body, int64(limit)+1))
	body := buf.Bytes()
	if !isSuccess(resp.StatusCode) {
		// The status decides. An incomplete body may still explain it.
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

// countValues returns an upper bound of the number of values in the JSON in body: every value but the
// first follows one of these characters.
func countValues(body []byte) (n int) {
	for _, mark := range []byte(",[{") {
		n += bytes.Count(body, []byte{mark})
	}
	return n
}

// logAttempt logs an attempt: the response, or the error.
func (a *api) logAttempt(ctx context.Context, op wire.Operation, attempt int, start time.Time, resp *http.Response, err error, more ...slog.Attr) {
	if !a.logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{slog.String("operation", op.Name), slog.Int("attempt", attempt), slog.Duration("duration", time.Since(start))}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	} else {
		attrs = append(attrs, slog.Int("status", resp.StatusCode), slog.String("request_id", requestID(resp.Header, a.secrets()...)))
	}
	a.logger.LogAttrs(ctx, slog.LevelDebug, "idverify: attempt", append(attrs, more...)...)
}

// read returns the response, or the error that it describes.
func (c *call) read(resp *http.Response) (response, error) {
	resp.Body.Close() // the body has been read, but closing it stops the timer of the http.Client
	if !isSuccess(resp.StatusCode) && !c.alreadyDeleted(resp.StatusCode) {
		return response{}, c.problem(resp, c.body)
	}
	return response{call: c, status: resp.StatusCode, header: resp.Header, body: c.body}, nil
}

// alreadyDeleted reports whether an earlier write of a DELETE explains the status 404.
func (c *call) alreadyDeleted(status int) bool {
	return c.op.Method == http.MethodDelete && c.maybeProcessed && status == http.StatusNotFound
}
