package sandboxfake

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// WithRateLimit lets each workspace, with all its projects, make so many calls an hour; by default there is no limit. What takes a bearer token counts: tokens, the key set and Check URLs are free.
// The hour begins with the first call and is over an hour later on the server's clock. Every counted answer carries X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset; a call beyond the limit is a 429 too_many_requests with Retry-After, and has no effect.
func WithRateLimit(callsPerHour int) Option {
	return func(o *options) error {
		if callsPerHour < 1 {
			return fmt.Errorf("a rate limit is at least one call an hour, not %d", callsPerHour)
		}
		o.rateLimit = callsPerHour
		return nil
	}
}

// rateWindow is the hour that a workspace's calls are counted in.
type rateWindow struct {
	ends  time.Time
	calls int
}

// rateWindowLength is the span that a rate limit counts over.
const rateWindowLength = time.Hour

// limitRate counts a call against its workspace's limit, and refuses it beyond that.
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

// rateLimit is what the X-RateLimit headers tell (contract, section 6).
type rateLimit struct {
	limit, remaining int
	reset            time.Time
}

// set writes the headers; of no limit it writes none. The reset is rounded up, so that who waits for it is not early.
func (l *rateLimit) set(header http.Header) {
	if l == nil {
		return
	}
	reset := l.reset.Add(time.Second - 1).Unix()
	header.Set("X-RateLimit-Limit", strconv.Itoa(l.limit))
	header.Set("X-RateLimit-Remaining", strconv.Itoa(l.remaining))
	header.Set("X-RateLimit-Reset", strconv.FormatInt(reset, 10))
}

// wholeSeconds is a span as Retry-After has it, rounded up.
func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
