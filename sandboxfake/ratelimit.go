package sandboxfake

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// WithRateLimit limits the requests of each workspace, including those of its projects. By default
// there is no limit. The limit applies to requests with a bearer token, unless they are rejected
// because of their token, path or scope. It does not apply to other requests, such as requests for
// tokens, the key set and Check URLs.
//
// The period starts with the first request and ends one hour later on the server's clock. Each
// response to a counted request has X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset.
// Requests beyond the limit have no effect: the response is 429 too_many_requests with Retry-After.
func WithRateLimit(callsPerHour int) Option {
	return func(o *options) error {
		if callsPerHour < 1 {
			return fmt.Errorf("rate limit must be at least one request per hour, not %d", callsPerHour)
		}
		o.rateLimit = callsPerHour
		return nil
	}
}

// rateWindow counts the calls of a workspace in one hour.
type rateWindow struct {
	ends  time.Time
	calls int
}

// rateWindowLength is the period of a rate limit.
const rateWindowLength = time.Hour

// limitRate applies the workspace's rate limit to a call. Beyond the limit, it returns a 429
// problem.
func (s *service) limitRate(c *call) error {
	if s.opts.rateLimit == 0 || c.credential == nil {
		return nil
	}
	now := s.clock.Now()
	window := s.windows[c.credential.workspace]
	if window == nil || !now.Before(window.ends) {
		window = &rateWindow{ends: now.Add(rateWindowLength)}
		s.windows[c.credential.workspace] = window
	}
	window.calls++
	c.rate = &rateLimit{limit: s.opts.rateLimit, remaining: max(0, s.opts.rateLimit-window.calls), reset: window.ends}
	if window.calls <= s.opts.rateLimit {
		return nil
	}
	p := newProblem(wire.TooManyRequests, "")
	p.header = http.Header{"Retry-After": {wholeSeconds(window.ends.Sub(now))}}
	return p
}

// rateLimit contains the values of the X-RateLimit headers.
//
// Protocol: docs/protocol.md, section 8.
type rateLimit struct {
	limit, remaining int
	reset            time.Time
}

// set sets the headers. It does nothing if l is nil. The reset is rounded up, so that a client that
// waits for it does not retry too early.
func (l *rateLimit) set(header http.Header) {
	if l == nil {
		return
	}
	reset := l.reset.Add(time.Second - 1).Unix()
	header.Set("X-RateLimit-Limit", strconv.Itoa(l.limit))
	header.Set("X-RateLimit-Remaining", strconv.Itoa(l.remaining))
	header.Set("X-RateLimit-Reset", strconv.FormatInt(reset, 10))
}

// wholeSeconds formats a duration for Retry-After, rounded up.
func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
