package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/idverify/idverify-go"
)

// checks stores the checks that the backend created, each with its customer and later its callback.
//
// It keeps them in memory. In production, use a table with one statement per method:
//
//	          CREATE TABLE checks (check_id text PRIMARY KEY, product text NOT NULL,
//	              customer text NOT NULL, callback bytea, due timestamptz,
//	              attempts int NOT NULL DEFAULT 0)
//	add       INSERT INTO checks (check_id, product, customer) VALUES ($1, $2, $3)
//	put       UPDATE checks SET callback = $3, due = now()
//	              WHERE check_id = $1 AND product = $2 AND callback IS NULL
//	next      SELECT * FROM checks WHERE due IS NOT NULL ORDER BY due LIMIT 1
//	postpone  UPDATE checks SET due = now() + $2, attempts = attempts + 1 WHERE check_id = $1
//	finish    UPDATE checks SET due = NULL WHERE check_id = $1
//
// If put changes no row, SELECT product FROM checks WHERE check_id = $1 distinguishes an unknown
// check from a duplicate callback.
type checks struct {
	arrived chan struct{} // capacity 1: signals a new callback

	mu      sync.Mutex // guards byID and pending
	byID    map[string]*check
	pending []*check // checks whose callback is not processed yet
}

// check is one of our checks. Its customer is never taken from a callback.
type check struct {
	product  idverify.Product
	customer string

	callback *idverify.Callback // nil until it arrives
	due      time.Time          // when to process it next
	attempts int                // failed attempts to process it
}

func newChecks() *checks {
	return &checks{arrived: make(chan struct{}, 1), byID: make(map[string]*check)}
}

// add stores a check. Call it as soon as Create has returned.
func (cs *checks) add(_ context.Context, checkID string, product idverify.Product, customer string) error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.byID[checkID] != nil {
		return errors.New("the check is already stored")
	}
	cs.byID[checkID] = &check{product: product, customer: customer}
	return nil
}

// outcome is the result of storing a verified callback.
type outcome string

const (
	stored    outcome = "stored"
	duplicate outcome = "duplicate"
	unknown   outcome = "unknown check"      // or not stored yet, see recent
	notFinal  outcome = "not a final result" // also a product or status added later
)

// put stores the first callback of a check. A check has one final result, so a second callback is a
// duplicate. A callback without a final result is not stored, because it would take the place of
// the final one.
func (cs *checks) put(_ context.Context, c *idverify.Callback) (outcome, error) {
	known := c.Product == idverify.ProductPhoneCheck || c.Product == idverify.ProductSubscriberCheck
	if !known || !c.Status.Final() {
		return notFinal, nil
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	entry := cs.byID[c.CheckID]
	switch {
	case entry == nil || entry.product != c.Product:
		return unknown, nil
	case entry.callback != nil:
		return duplicate, nil
	}
	entry.callback = c
	entry.due = time.Now()
	cs.pending = append(cs.pending, entry)
	select {
	case cs.arrived <- struct{}{}:
	default: // already signaled
	}
	return stored, nil
}

// next returns a copy of the pending check that is due first, and reports whether there is one.
func (cs *checks) next() (check, bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if len(cs.pending) == 0 {
		return check{}, false
	}
	return *slices.MinFunc(cs.pending, func(a, b *check) int { return a.due.Compare(b.due) }), true
}

// postpone schedules another attempt to process a callback.
func (cs *checks) postpone(checkID string, wait time.Duration) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	entry := cs.byID[checkID]
	entry.attempts++
	entry.due = time.Now().Add(wait)
}

// finish marks the callback of a check as processed. The check stays stored, because the service
// may deliver the callback again.
func (cs *checks) finish(checkID string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.pending = slices.DeleteFunc(cs.pending, func(c *check) bool { return c.callback.CheckID == checkID })
}
