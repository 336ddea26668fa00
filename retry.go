package idverify

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// RetryPolicy controls retries, timeouts and delays. The zero value of a field selects its default.
//
// GET, PUT and DELETE are retried after a lost connection and after the statuses 429, 500, 502, 503
// and 504. A check costs money and a code can be used once. A POST or PATCH is therefore retried
// only if the service cannot have processed it: after 429, if the request was not written
// completely, or if the preceding token request failed with a transport error or one of these
// statuses. After 401 any request is sent once more with a new token, within the same attempt. All
// other responses are final.
//
// With the same access token, an attempt writes a POST or PATCH completely at most once, and any
// other request at most twice. After 401, the same limits apply again with the new token. If a POST
// or PATCH gets no response although it was written completely, the error matches
// [ErrOutcomeUnknown]. So does the error after an HTTP/2 reset that claims that the request was not
// processed: a proxy can send such a reset after its backend has read the request.
//
// The delays double from MinWait to MaxWait, with jitter. A Retry-After header sets the minimum. If
// the delay would exceed MaxWait or the deadline of the context, the operation returns the error at
// once.
//
// All operations that need the same token share the token requests. If a request fails with a
// transport error or one of the statuses above, the operations wait for the next token request,
// which starts after a pause of at most 1 s. The pause doubles with each failure, and the rules of
// the delays apply to it, but a Retry-After header extends it to a minute at most, or to MaxWait if
// that is longer. While the current token is valid, no operation waits. docs/replicas.md shows the
// load of an outage.
type RetryPolicy struct {
	MaxAttempts int           // including the first; 4 by default, 1 disables retries
	MinWait     time.Duration // 250 ms by default, or MaxWait if that is shorter
	MaxWait     time.Duration // 10 s by default, or MinWait if that is longer

	// AttemptTimeout limits the duration of an attempt: the wait for a token request, the request and
	// the response body. Delays and pauses before an attempt do not count. A token request ends after
	// 30 s, or after AttemptTimeout if that is positive and shorter.
	//
	// 0 selects the Timeout of the HTTP client, or 30 s if that has none. Otherwise, the Timeout of
	// the HTTP client has no effect. If AttemptTimeout is negative, only the context ends an attempt.
	AttemptTimeout time.Duration

	// Budget limits the retries of all operations of a client together, so that an outage of the
	// service does not multiply its load. A retry takes 1 from the budget, which starts full, and a
	// first attempt with a 2xx response returns 0.1, up to Budget. When less than 1 is left, the
	// operation returns the error of its last attempt. Requests after 401 and token requests do not
	// use the budget. Each client has its own budget, except that a client of Client.WithVersions
	// shares that of the original. 0 selects 100; a negative Budget is unlimited.
	//
	// In an outage, a client makes Budget retries and then one attempt for each operation. Choose a
	// Budget that covers a short failure: the number of operations in flight times MaxAttempts-1.
	Budget int
}

const (
	// defaultAttemptTimeout limits an attempt if neither RetryPolicy nor the HTTP client has a
	// timeout.
	defaultAttemptTimeout = 30 * time.Second
	defaultBudget         = 100
)

// attemptTimeout returns the timeout of an attempt, or 0 for none, for an HTTP client with the
// given Timeout.
func (p *RetryPolicy) attemptTimeout(clientTimeout time.Duration) time.Duration {
	timeout := cmp.Or(p.AttemptTimeout, clientTimeout, defaultAttemptTimeout)
	return max(0, timeout)
}

func (p *RetryPolicy) fill() error {
	if p.MaxAttempts < 0 || p.MinWait < 0 || p.MaxWait < 0 {
		return errors.New("RetryPolicy fields other than AttemptTimeout and Budget must not be negative")
	}
	if p.MaxAttempts == 0 {
		p.MaxAttempts = 4
	}
	if p.MaxWait == 0 {
		p.MaxWait = max(10*time.Second, p.MinWait)
	}
	if p.MinWait == 0 {
		p.MinWait = min(250*time.Millisecond, p.MaxWait)
	}
	if p.MinWait > p.MaxWait {
		return errors.New("RetryPolicy.MinWait must not exceed MaxWait")
	}
	return nil
}

// exceedsDeadline reports whether ctx ends during the next d.
func exceedsDeadline(ctx context.Context, d time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) <= d
}

// idempotent reports whether op can be sent twice with the same effect as once.
func idempotent(op wire.Operation) bool {
	return op.Method == http.MethodGet || op.Method == http.MethodPut || op.Method == http.MethodDelete
}

func isSuccess(status int) bool { return status >= 200 && status <= 299 }

// isTransient reports whether a later attempt may succeed after this status. 501 is permanent.
func isTransient(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// backoff returns the delay after the given attempt. The delay doubles with each attempt. Its upper
// half is random, so that callers that failed together do not retry together.
func (p *RetryPolicy) backoff(attempt int) time.Duration {
	wait := p.MinWait
	for range attempt - 1 {
		if wait >= p.MaxWait/2 {
			wait = p.MaxWait
			break
		}
		wait *= 2
	}
	return wait/2 + rand.N(wait/2+1)
}

// retryBudget is the budget of RetryPolicy, in tenths. It is unlimited if it is nil.
type retryBudget struct {
	size int64
	left atomic.Int64
}

// newRetryBudget returns the budget for RetryPolicy.Budget.
func newRetryBudget(retries int) *retryBudget {
	if retries < 0 {
		return nil
	}
	b := &retryBudget{size: 10 * min(int64(cmp.Or(retries, defaultBudget)), math.MaxInt64/10)}
	b.left.Store(b.size)
	return b
}

// take takes a retry from b and reports whether there was one left.
func (b *retryBudget) take() bool {
	return b == nil || b.add(-10)
}

// refund returns a tenth of a retry.
func (b *retryBudget) refund() {
	if b != nil {
		b.add(1)
	}
}

// add adds n unless that leaves less than 0 or more than the size.
func (b *retryBudget) add(n int64) bool {
	for {
		left := b.left.Load()
		if left+n < 0 || left+n > b.size {
			return false
		}
		if b.left.CompareAndSwap(left, left+n) {
			return true
		}
	}
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
