package sandboxfake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/idverify/idverify-go"
)

// Delivery is one callback with all its tries.
type Delivery struct {
	ID          string
	CheckID     string
	Product     idverify.Product     // the value of the callback header
	Status      idverify.CheckStatus // that the callback tells
	ProjectID   string
	URL         string
	Body        []byte
	Attempts    []Attempt
	NextAttempt time.Time // zero when no further try is to come
	Done        bool      // no try is under way or to come
}

// Acknowledged reports whether the receiver has answered with a 2XX.
func (d Delivery) Acknowledged() bool {
	return len(d.Attempts) > 0 && d.Attempts[len(d.Attempts)-1].Result == ResultAcknowledged
}

// Attempt is one try of a delivery.
type Attempt struct {
	Time   time.Time // on the server's clock
	Header http.Header
	Status int           // that the receiver answered; 0 when it did not
	Result AttemptResult // what the service made of it
	Error  string        // why there was no answer
	Fault  *Fault        // that was injected
}

// AttemptResult is what the service makes of a receiver's answer (specification, section 6, "Delivery rules").
type AttemptResult string

// The results of a try.
const (
	ResultAcknowledged AttemptResult = "acknowledged" // 2XX
	ResultRejected     AttemptResult = "rejected"     // 3XX or 4XX
	ResultTimedOut     AttemptResult = "timed out"    // no answer in 10 s
	ResultUnreachable  AttemptResult = "unreachable"  // no connection, or one that broke
	ResultFailed       AttemptResult = "failed"       // 5XX
)

// Deliveries returns the callbacks that the journal holds, the oldest first: at most 1,024, or what [WithJournalLimit] says. See [Server.DroppedDeliveries]. The caller may change what it gets.
func (s *Server) Deliveries() []Delivery {
	svc := s.lock()
	defer svc.mu.Unlock()
	out := make([]Delivery, 0, len(svc.deliveries.entries))
	for d := range svc.deliveries.all {
		out = append(out, d.copy())
	}
	return out
}

// DroppedDeliveries returns how many callbacks the journal has let go to keep to its limit. They are delivered all the same.
func (s *Server) DroppedDeliveries() int {
	svc := s.lock()
	defer svc.mu.Unlock()
	return svc.deliveries.dropped
}

// AwaitDelivery waits for a callback that is as match wants it, and returns it. It asks match about each callback that the journal holds, and again about each that changes: one is queued, tried, answered. To wait for the receiver's answer, have match look at Done.
// Its error is that of ctx, [ErrReset] or [ErrClosed]. match must not call the server.
func (s *Server) AwaitDelivery(ctx context.Context, match func(Delivery) bool) (Delivery, error) {
	svc := s.lock()
	defer svc.mu.Unlock()
	var found Delivery
	seen := uint64(0)
	err := svc.await(ctx, func() bool {
		for d := range svc.deliveries.all {
			if d.revision <= seen {
				continue
			}
			if found = d.copy(); match(found) {
				return true
			}
		}
		seen = svc.revision
		return false
	})
	if err != nil {
		return Delivery{}, fmt.Errorf("%w: await delivery: none of the %d callbacks fits (has the check, or its project, a callback URL?)", err, len(svc.deliveries.entries))
	}
	return found, nil
}

// Redeliver has a callback of the journal sent once more, now, with a date and a signature of its own, whatever came of it before. It is a new delivery with the old one's body, and has its own tries.
// It returns once the delivery is queued; an id that the journal does not hold is an error.
func (s *Server) Redeliver(ctx context.Context, deliveryID string) error {
	svc := s.lock()
	defer svc.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("sandboxfake: redeliver: %w", err)
	}
	if svc.ended != nil {
		return svc.ended
	}
	i := slices.IndexFunc(svc.deliveries.entries, func(d *delivery) bool { return d.ID == deliveryID })
	if i < 0 {
		return fmt.Errorf("sandboxfake: redeliver: %w", errNoDelivery)
	}
	again := &delivery{project: svc.deliveries.entries[i].project, Delivery: svc.deliveries.entries[i].copy()}
	again.Attempts, again.Done = nil, false
	svc.queueDelivery(again)
	svc.runDue()
	return nil
}

var errNoDelivery = errors.New("the journal has no such delivery")

// copy is d as it is now, sharing nothing with it.
func (d *delivery) copy() Delivery {
	c := d.Delivery
	c.Body = bytes.Clone(c.Body)
	c.Attempts = slices.Clone(c.Attempts)
	for i, a := range c.Attempts {
		c.Attempts[i].Header = a.Header.Clone()
		if a.Fault != nil {
			c.Attempts[i].Fault = new(*a.Fault)
		}
	}
	return c
}
