package idverify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// api sends operations to a service. Client and Console share it.
type api struct {
	*settings
	base        string // scheme and host
	credentials *credentialSource
	transport   http.RoundTripper // the transport of the caller's HTTP client, without redirects
	tokens      *tokenCache
	budget      *retryBudget
}

func newAPI(baseURL string, c CredentialsSource, opts []Option) (*api, error) {
	base, err := parseBaseURL(baseURL)
	if err != nil {
		return nil, err
	}
	s, err := newSettings(opts)
	if err != nil {
		return nil, err
	}
	source, err := newCredentialSource(c)
	if err != nil {
		return nil, err
	}

	a := &api{settings: s, base: base, credentials: source, transport: noRedirectTransport{s.httpClient.Transport}, budget: newRetryBudget(s.retry.Budget)}
	if s.httpClient.Transport == nil {
		a.transport = noRedirectTransport{http.DefaultTransport}
	}
	a.tokens = &tokenCache{
		fetch:      a.fetchToken,
		now:        s.now,
		timeout:    tokenTimeout,
		timeoutErr: errTokenTimeout,
		secrets:    a.secrets,
		observers:  s.observers,
		maxWait:    s.retry.MaxWait,
		renewals:   s.renewals,
		logger:     s.logger,
		entries:    make(map[string]*tokenEntry),
		logged:     make(map[string]time.Time),
	}
	if s.attemptTimeout > 0 && s.attemptTimeout <= tokenTimeout {
		a.tokens.timeout, a.tokens.timeoutErr = s.attemptTimeout, errAttemptTimeout
	}
	return a, nil
}

// request is an operation with its arguments.
type request struct {
	op    wire.Operation
	ids   []string   // one for each placeholder of an ID in the path
	query url.Values // may be nil
	body  any        // sent as JSON; nil if there is none
	code  string     // of a code exchange, redacted like a token; may be empty
}

// response is a 2xx response whose body has been read.
type response struct {
	call   *call
	status int
	header http.Header
	body   []byte

	request request // set by call.perform
}

// unusable returns the DecodeError for r. Parameter err is the reason.
func (r response) unusable(err error) error {
	secrets := r.call.secrets()
	e := newDecodeError(r.call.op, r.status, r.body, err, secrets...)
	e.RequestID = requestID(r.header, secrets...)
	e.unknown = outcomeOf(r.call.op)
	e.attempts = r.call.attempt
	return e
}

// resourceJSON is the JSON form of a resource of type T.
type resourceJSON[T any] interface {
	// value returns the resource. Its error does not contain parts of the response.
	value() (*T, error)
}

// send performs op and returns the resource that the response contains.
func send[J resourceJSON[T], T any](ctx context.Context, a *api, op wire.Operation, body any, ids ...string) (*T, error) {
	return sendRequest[J](ctx, a, request{op: op, ids: ids, body: body})
}

// sendRequest performs r and returns the resource that the response contains.
func sendRequest[J resourceJSON[T], T any](ctx context.Context, a *api, r request) (*T, error) {
	var v *T
	err := a.do(ctx, r, func(resp response) (err error) {
		v, err = decode[J](resp)
		return err
	})
	return v, err
}

// decode returns the resource in resp. It returns an error if resp contains another resource.
// It ignores unknown fields and the Content-Type.
func decode[J resourceJSON[T], T any](resp response) (*T, error) {
	var j J
	if err := json.Unmarshal(resp.body, &j); err != nil {
		return nil, resp.unusable(err)
	}
	v, err := j.value()
	if err == nil {
		err = resp.request.confirm(&j)
	}
	if err != nil {
		return nil, resp.unusable(err)
	}
	return v, nil
}

// confirm returns an error if response describes a different resource than requested, or one that
// does not match the body. Without it, a cache or proxy that mixes up responses could return the
// result of another person.
func (r request) confirm(response any) error {
	if want := r.op.Resource(r.ids); want != "" {
		if s, ok := response.(interface{ id() string }); !ok || s.id() != want {
			return errors.New("describes a different resource (check for a cache or proxy that mixes up responses)")
		}
	}
	if sent, ok := r.body.(interface{ confirm(response any) error }); ok {
		return sent.confirm(response)
	}
	return nil
}

// do performs r with retries and decodes the response if its status is 2xx. Parameter decode is nil
// for a response without a resource. do returns the error of invalidArgument for a request that
// cannot be sent. Other errors are usually an [*Error], [*TokenError], [*DecodeError] or
// *sendError.
func (a *api) do(ctx context.Context, r request, decode func(response) error) error {
	version := a.versions.of(r.op)
	if version == "" {
		return invalidArgument(r.op, fmt.Sprintf("version of %s must have the form %q (see Client.WithVersions)", r.op.Product(), wire.V01))
	}
	target, err := r.op.URL(a.base, version, r.ids...)
	if err != nil {
		return invalidArgument(r.op, err.Error())
	}
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	if r.body == nil && !idempotent(r.op) {
		r.body = struct{}{} // net/http may send a request without a body again: see writeTracker
	}
	c := &call{api: a, op: r.op, code: r.code}
	if r.body != nil {
		if c.payload, err = json.Marshal(r.body); err != nil {
			return invalidArgument(r.op, "cannot encode the parameters as JSON")
		}
	}
	req, err := http.NewRequestWithContext(ctx, r.op.Method, target, nil)
	if err != nil {
		return invalidArgument(r.op, "cannot create the request (is the context nil?)") // err contains the URL
	}
	req.Header.Set("Accept", wire.MediaHAL+", "+wire.MediaProblem+", "+wire.MediaJSON)
	req.Header.Set("User-Agent", a.userAgent)
	switch {
	case c.payload == nil:
	case r.op.Method == http.MethodPatch:
		req.Header.Set("Content-Type", wire.MediaJSONPatch)
	default:
		req.Header.Set("Content-Type", wire.MediaJSON)
	}

	if err := ctx.Err(); err != nil {
		return &sendError{operation: r.op.Title, err: err, text: "not sent: " + causeText(err)}
	}
	c.observation = newObservation(a.observers, r.op)
	defer c.endAborted()
	err = c.perform(req, r, decode)
	c.endAttempt(err)
	return err
}

// perform sends req, with retries, and decodes the response. Parameter r is the request in req.
func (c *call) perform(req *http.Request, r request, decode func(response) error) error {
	httpResp, err := c.do(req)
	if err != nil {
		return err
	}
	defer httpResp.Body.Close() // c.body contains it
	resp, err := c.read(httpResp)
	if err != nil || decode == nil {
		return err
	}
	resp.request = r
	return decode(resp)
}

// secrets returns the texts that must be redacted in errors and logs: the tokens and the
// credentials, current and previous.
func (a *api) secrets() []string { return a.credentials.appendSecrets(a.tokens.tokens()) }

// hostname returns the host name of the base URL. A custom transport may repeat it in its errors,
// which must not contain it.
func (a *api) hostname() string {
	u, err := url.Parse(a.base)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// invalidArgument returns the error for an operation that was not sent because of an invalid
// argument. It does not contain the argument.
func invalidArgument(op wire.Operation, why string) error {
	return fmt.Errorf("idverify: %s: not sent: %w: %s", op.Title, ErrBadRequest, why)
}

// timestamp decodes a time from JSON. The service writes offsets without a colon. RFC 3339 and
// fractional seconds are also accepted.
type timestamp struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler. null and "" become the zero time.
func (t *timestamp) UnmarshalJSON(b []byte) error {
	if len(b) > 1 && b[0] == '"' && bytes.IndexByte(b, '\\') < 0 {
		return t.parse(string(b[1 : len(b)-1])) // fast path: a page contains hundreds of timestamps
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return errors.New("timestamp is not a string")
	}
	return t.parse(s)
}

func (t *timestamp) parse(s string) (err error) {
	t.Time = time.Time{}
	if s != "" {
		t.Time, err = parseTime(s)
	}
	return err
}

// parseTime parses wire.TimeFormat and RFC 3339. Its error does not contain s.
func parseTime(s string) (time.Time, error) {
	s = strings.Replace(s, "z", "Z", 1)
	if minutes := len(s) - 2; minutes > 2 && (s[minutes-3] == '+' || s[minutes-3] == '-') {
		s = s[:minutes] + ":" + s[minutes:] // wire.TimeFormat is RFC 3339 without this colon
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, errors.New("malformed timestamp (want yyyy-MM-ddTHH:mm:ss+0000)")
	}
	return t.UTC(), nil // so that equal times are ==
}

// number decodes a JSON number, with or without quotes. null and "" become 0.
type number float64

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(b []byte) error {
	if f, err := strconv.ParseFloat(string(b), 64); err == nil { // fast path
		*n = number(f)
		return nil
	}
	var text json.Number
	if err := json.Unmarshal(b, &text); err != nil {
		return errors.New("invalid number")
	}
	f, err := text.Float64()
	if text != "" && err != nil {
		return errors.New("number out of range")
	}
	*n = number(f)
	return nil
}

// duration returns n units as a duration, limited to its range.
func (n number) duration(unit time.Duration) time.Duration {
	d := float64(n) * float64(unit)
	switch {
	case d >= math.MaxInt64:
		return math.MaxInt64
	case d <= math.MinInt64:
		return math.MinInt64
	}
	return time.Duration(d)
}

// read returns the response if its status is 2xx or the resource is already deleted. Otherwise it
// returns the problem in the response.
func (c *call) read(resp *http.Response) (response, error) {
	if !isSuccess(resp.StatusCode) && !c.alreadyDeleted(resp.StatusCode) {
		return response{}, c.problem(resp, c.body)
	}
	return response{call: c, status: resp.StatusCode, header: resp.Header, body: c.body}, nil
}

// alreadyDeleted reports whether status is 404 because an earlier write of this DELETE succeeded.
func (c *call) alreadyDeleted(status int) bool {
	return c.op.Method == http.MethodDelete && c.maybeProcessed && status == http.StatusNotFound
}

// endAttempt reports the last attempt of c, which failed with err or was successful.
func (c *call) endAttempt(err error) {
	if c.observation.active() {
		c.observation.end(err, 0, false, c.secrets)
	}
}

// endAborted reports the last attempt of c if a panic prevented that.
func (c *call) endAborted() {
	if !c.observation.active() {
		return
	}
	err, written := errAborted, false
	if t := c.observation.tracker; t != nil {
		_, written = t.fail(err)
	}
	c.endAttempt(c.sendError(err, written))
}
