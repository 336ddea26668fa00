package idverify

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// Attempt describes an attempt of an operation, or a token request. It does not contain IDs of
// resources, tokens, secrets, phone numbers, addresses or URLs.
type Attempt struct {
	Operation string // the name of the operation as in logs, for example "phone_check.create"
	Status    int    // HTTP status; 0 if there was no response

	// Number is 1 for the first attempt of the operation. For "token.create", it is 1 plus the number
	// of pauses in a row before the request: see Retry.
	Number int

	// Duration includes the wait for an access token and a repetition of the request after 401. It
	// does not include Wait.
	Duration time.Duration

	// Retry reports whether another attempt follows after the delay Wait. If the context of the
	// operation ends during the delay, no attempt follows.
	//
	// For "token.create", it reports whether a pause follows: the next request for the same scopes
	// starts after Wait at the earliest, when an operation needs the token.
	Retry bool
	Wait  time.Duration

	// Err is nil if the attempt was successful. Otherwise it is the error that the operation returns,
	// or would return without another attempt. An attempt that got no access token has the error of
	// the token request, which is also reported as "token.create".
	//
	// While token requests are paused, an operation can fail without sending a request. The operation
	// is reported with Number 1, Status 0 and the error of the last token request. A call of
	// [Client.Token] that fails in this way is reported as "token.create" with Number 0.
	Err error

	RequestID string     // the X-Request-Id header of the response, or empty
	RateLimit *RateLimit // the X-RateLimit headers of the response; nil if missing or malformed
}

// observer is the argument of WithObserver.
type observer = func(context.Context, string) (context.Context, func(Attempt))

// observation reports attempts to the observers, one after the other. A nil observation reports
// nothing. It is used by one goroutine.
type observation struct {
	observers []observer
	operation string

	// The fields below belong to the last attempt.
	number  int
	began   time.Time
	ended   []func(Attempt) // one for each observer that was called; nil after the end
	space   [2]func(Attempt)
	tracker *writeTracker // of the last request; nil before it
	status  int           // of the last response; 0 before it
	header  http.Header
}

// newObservation returns an observation of op, or nil if there are no observers.
func newObservation(observers []observer, op wire.Operation) *observation {
	if len(observers) == 0 {
		return nil
	}
	return &observation{observers: observers, operation: op.Name}
}

// begin begins an attempt and returns its context.
func (o *observation) begin(ctx context.Context, number int) context.Context {
	if o == nil {
		return ctx
	}
	o.number, o.began = number, time.Now()
	o.ended = o.space[:0] // an allocation is necessary only for more than two observers
	o.tracker, o.status, o.header = nil, 0, nil
	for _, start := range o.observers {
		next, ended := start(ctx, o.operation)
		if next != nil {
			ctx = withValues(ctx, next)
		}
		if ended == nil {
			ended = func(Attempt) {}
		}
		o.ended = append(o.ended, ended)
	}
	return ctx
}

// sends records that a request is about to be sent, or with nil, that its token is awaited.
func (o *observation) sends(t *writeTracker) {
	if o != nil {
		o.tracker, o.status, o.header = t, 0, nil
	}
}

// received records a response.
func (o *observation) received(resp *http.Response) {
	if o != nil {
		o.status, o.header = resp.StatusCode, resp.Header
	}
}

// active reports whether an attempt has begun and not ended.
func (o *observation) active() bool { return o != nil && o.ended != nil }

// end ends the attempt unless it has ended. Parameter secrets returns the texts that must be
// redacted.
func (o *observation) end(err error, wait time.Duration, retry bool, secrets func() []string) {
	if !o.active() {
		return
	}
	now := time.Now()
	a := Attempt{
		Operation: o.operation,
		Number:    o.number,
		Status:    o.status,
		Duration:  now.Sub(o.began),
		Retry:     retry,
		Wait:      wait,
		Err:       err,
		RateLimit: rateLimit(o.header, now),
	}
	if o.header.Get(wire.RequestIDHeader) != "" {
		a.RequestID = requestID(o.header, secrets()...)
	}
	ended := o.ended
	o.ended = nil // if a function panics, the attempt has ended nevertheless
	callReversed(ended, &a)
}

// callReversed calls functions with a, the last one first, even if one of them panics.
func callReversed(functions []func(Attempt), a *Attempt) {
	if last := len(functions) - 1; last >= 0 {
		defer callReversed(functions[:last], a)
		functions[last](*a)
	}
}

var errAborted = errors.New("ended by a panic or runtime.Goexit")

// withValues returns a context with the cancellation and deadline of ctx and the values of another
// context, which is usually derived from ctx.
func withValues(ctx, values context.Context) context.Context {
	// Other types may not be comparable. A context with the same Done can differ in Err.
	if reflect.TypeOf(values).Kind() == reflect.Pointer && values == ctx {
		return ctx
	}
	return &valuesContext{ctx, values}
}

// valuesContext has the cancellation and the deadline of the first context and the values of the
// second.
type valuesContext struct {
	context.Context
	values context.Context
}

// Value implements context.Context.
func (c *valuesContext) Value(key any) any { return c.values.Value(key) }
