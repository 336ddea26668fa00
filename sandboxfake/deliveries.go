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

// Delivery is a callback with all its delivery attempts.
type Delivery struct {
	ID          string
	CheckID     string
	ReferenceID string               // of the check; may be empty
	Product     idverify.Product     // in the callback header
	Status      idverify.CheckStatus // of the check
	ProjectID   string
	URL         string
	Body        []byte
	Attempts    []Attempt
	NextAttempt time.Time // zero if there is no further attempt
	Done        bool      // no attempt is in flight or due later
}

// Acknowledged reports whether the receiver responded with a 2XX status.
func (d Delivery) Acknowledged() bool {
	return len(d.Attempts) > 0 && d.Attempts[len(d.Attempts)-1].Result == ResultAcknowledged
}

// Attempt is one attempt of a delivery.
type Attempt struct {
	Time   time.Time // on the server's clock
	Header http.Header
	Status int // of the response; 0 without a response
	Result AttemptResult
	Error  string // reason for a missing response
	Fault  *Fault // injected fault, or nil
	// Duration is the time from sending the callback to the response or the error, and the latency of
	// a fault, on the system's clock.
	Duration time.Duration
}

// AttemptResult classifies the outcome of an attempt.
//
// Protocol: docs/protocol.md, section 6.
type AttemptResult string

// Results of an attempt. A callback is retried only after ResultFailed.
const (
	ResultAcknowledged AttemptResult = "acknowledged" // 2XX
	ResultRejected     AttemptResult = "rejected"     // 3XX or 4XX
	ResultTimedOut     AttemptResult = "timed out"    // no response within 10 s
	ResultUnreachable  AttemptResult = "unreachable"  // connection failed or lost
	ResultFailed       AttemptResult = "failed"       // 5XX
)

// Deliveries returns the callbacks in the journal, oldest first: at most 1,024, or the limit of
// [WithJournalLimit]. See [Server.DroppedDeliveries]. The result shares no memory with the server.
func (s *Server) Deliveries() []Delivery {
	svc := s.lock()
	defer svc.mu.Unlock()
	out := make([]Delivery, 0, len(svc.deliveries.entries))
	for d := range svc.deliveries.all {
		out = append(out, d.copy())
	}
	return out
}

// DroppedDeliveries returns the number of callbacks that the journal has dropped because of its
// limit. They are delivered nevertheless.
func (s *Server) DroppedDeliveries() int {
	svc := s.lock()
	defer svc.mu.Unlock()
	return svc.deliveries.dropped
}

// AwaitDelivery waits until match returns true for a callback, and returns that callback. It calls
// match for each callback in the journal, and again for each callback that is queued, sent or
// responded to. To wait for the end of all attempts, check Done in match.
//
// The error wraps the error of ctx, [ErrReset] or [ErrClosed], and its text contains the result of
// the last attempt. match must not call the server.
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
		return Delivery{}, fmt.Errorf("%w: await delivery: no match among %d callbacks (%s)", err, len(svc.deliveries.entries), svc.lastAttempt())
	}
	return found, nil
}

// lastAttempt describes the latest attempt of the deliveries in the journal, for errors.
func (s *service) lastAttempt() string {
	var last *Attempt
	for d := range s.deliveries.all {
		if n := len(d.Attempts); n > 0 && (last == nil || !d.Attempts[n-1].Time.Before(last.Time)) {
			last = &d.Attempts[n-1]
		}
	}
	switch {
	case len(s.deliveries.entries) == 0:
		return "check that the check or its project has a callback URL"
	case last == nil:
		return "no attempt has ended"
	case last.Status == 0:
		return fmt.Sprintf("last attempt: %s, no response", last.Result)
	}
	return fmt.Sprintf("last attempt: %s, status %d", last.Result, last.Status)
}

// Redeliver queues a callback from the journal for immediate delivery, whatever the result of its
// earlier attempts. It creates a new delivery with the same body, and a new date and signature. A
// date has whole seconds: if the check already has a callback of this second, the new one is sent
// in the next. With [WithFrozenClock] there is no next second before [Server.Advance]: the callback
// is then identical to the one of the same second, and a verifier with a replay store rejects it.
//
// Redeliver does not wait for the delivery. It fails if the journal has no delivery with this ID.
func (s *Server) Redeliver(ctx context.Context, deliveryID string) error {
	_, err := s.redeliver(ctx, deliveryID)
	return err
}

// redeliver implements Redeliver. It returns the ID of the new delivery.
func (s *Server) redeliver(ctx context.Context, deliveryID string) (newID string, err error) {
	svc := s.lock()
	defer svc.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("sandboxfake: redeliver: %w", err)
	}
	if svc.ended != nil {
		return "", svc.ended
	}
	i := slices.IndexFunc(svc.deliveries.entries, func(d *delivery) bool { return d.ID == deliveryID })
	if i < 0 {
		return "", fmt.Errorf("sandboxfake: redeliver: %w", errNoDelivery)
	}
	first := svc.deliveries.entries[i]
	again := &delivery{project: first.project, dated: first.dated, Delivery: first.copy()}
	again.Attempts, again.Done = nil, false
	svc.queueDelivery(again)
	svc.runDue()
	return again.ID, nil
}

var errNoDelivery = errors.New("delivery not found in the journal")

// copy returns a copy of d that shares no memory with it.
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
