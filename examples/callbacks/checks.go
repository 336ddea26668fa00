package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/idverify/idverify-go"
)

// checks are those that our backend created, each with whose it is, and later with its callback until that is worked off.
//
// These are lost with the process. Yours are a table, and each method is one statement:
//
//	        CREATE TABLE checks (check_id text PRIMARY KEY, product text NOT NULL, customer text NOT NULL, callback bytea, due timestamptz, tries int NOT NULL DEFAULT 0)
//	add     INSERT INTO checks (check_id, product, customer) VALUES ($1, $2, $3)
//	put     UPDATE checks SET callback = $3, due = now() WHERE check_id = $1 AND product = $2 AND callback IS NULL
//	next    SELECT * FROM checks WHERE due IS NOT NULL ORDER BY due LIMIT 1
//	later   UPDATE checks SET due = now() + $2, tries = tries + 1 WHERE check_id = $1
//	done    UPDATE checks SET due = NULL WHERE check_id = $1
//
// Where put changes no row, SELECT product FROM checks WHERE check_id = $1 tells why.
type checks struct {
	arrived chan struct{} // holds one when a callback came

	mu      sync.Mutex // guards what follows
	byID    map[string]*check
	pending []*check // those whose callback is to be worked off
}

// check is one of ours. Who it is for stands here, and is never taken from the callback.
type check struct {
	product  idverify.Product
	customer string

	callback *idverify.Callback // nil until it came
	due      time.Time          // when it is to be worked off
	attempts int                // of the work, that failed
}

func newChecks() *checks {
	return &checks{arrived: make(chan struct{}, 1), byID: make(map[string]*check)}
}

// add remembers a check as soon as Create returned it.
func (cs *checks) add(_ context.Context, checkID string, product idverify.Product, customer string) error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.byID[checkID] != nil {
		return errors.New("the check is stored already")
	}
	cs.byID[checkID] = &check{product: product, customer: customer}
	return nil
}

// outcome is what became of a verified callback.
type outcome string

const (
	stored    outcome = "stored"
	duplicate outcome = "stored before"
	unknown   outcome = "not of a check of ours" // or not yet, see receiver
	notFinal  outcome = "not the end of a check" // a kind or a status of the future
)

// put stores c with its check, once: a check ends once, so a second callback of it says nothing new.
// What does not tell an end is left out, since it would stand where the end belongs.
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
	default: // it holds one already
	}
	return stored, nil
}

// next is a copy of the check that is due first, and whether there is one.
func (cs *checks) next() (check, bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if len(cs.pending) == 0 {
		return check{}, false
	}
	return *slices.MinFunc(cs.pending, func(a, b *check) int { return a.due.Compare(b.due) }), true
}

// later puts the work of a check off, behind what is due before.
func (cs *checks) postpone(checkID string, wait time.Duration) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	entry := cs.byID[checkID]
	entry.attempts++
	entry.due = time.Now().Add(wait)
}

// done ends the work of a check. The check stays: its callback may come again.
func (cs *checks) finish(checkID string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.pending = slices.DeleteFunc(cs.pending, func(c *check) bool { return c.callback.CheckID == checkID })
}
