// Package renewals lets package sandboxfake wait until the clients that it created have finished
// the token renewals that they perform in the background.
package renewals

import (
	"net/http"
	"sync/atomic"
)

// Counter counts the renewals in progress. A nil Counter counts nothing. A Counter is safe for
// concurrent use.
type Counter struct {
	inProgress atomic.Int64
	ended      func() // called after each End
}

// NewCounter returns a Counter that calls ended after each renewal.
func NewCounter(ended func()) *Counter { return &Counter{ended: ended} }

// Begin is called when a renewal begins, before the operation that needs it returns.
func (c *Counter) Begin() {
	if c != nil {
		c.inProgress.Add(1)
	}
}

// End is called when a renewal has ended.
func (c *Counter) End() {
	if c != nil {
		c.inProgress.Add(-1)
		c.ended()
	}
}

// InProgress returns the number of renewals in progress.
func (c *Counter) InProgress() int { return int(c.inProgress.Load()) }

// Transport is a transport for clients whose renewals Counter counts.
type Transport struct {
	*http.Transport
	Counter *Counter
}
