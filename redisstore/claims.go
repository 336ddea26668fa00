package redisstore

import (
	"crypto/rand"
	"strconv"
	"sync"
	"time"
)

// maxOpenClaims is the maximum number of claims with an unknown outcome. It is sufficient for an
// outage at 10,000 messages per second.
const maxOpenClaims = 1 << 17

// openClaims contains the claims of one process that are in progress, or that failed although Redis
// may have recorded them. While a claim is open, all calls for its ID write the same value, so that
// the process recognizes its own record later.
type openClaims struct {
	owner string // unique prefix of every value

	mu     sync.Mutex // guards the fields below and the claims
	number uint64     // number of values issued
	byID   map[[32]byte]*openClaim
	queued []*openClaim // failed claims, in order of expiry
}

func newOpenClaims() openClaims {
	return openClaims{owner: rand.Text(), byID: make(map[[32]byte]*openClaim)}
}

// openClaim is the open claim of one ID. Concurrent calls share it.
type openClaim struct {
	id      [32]byte
	value   string    // the value that the process records for the ID
	calls   int       // calls of Claim in progress
	failed  bool      // a call returned an error, so value may be recorded
	passed  bool      // a call returned true; no other call may
	queued  bool      // in openClaims.queued
	expires time.Time // when the record expires, if failed
}

// begin adds a call in progress to the open claim for id and returns the claim.
func (o *openClaims) begin(id [32]byte) *openClaim {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropExpired()
	c := o.byID[id]
	if c == nil {
		o.number++
		c = &openClaim{id: id, value: o.owner + "." + strconv.FormatUint(o.number, 36)}
		o.byID[id] = c
	}
	c.calls++
	return c
}

// end ends a call that began with c, and reports whether it made a fresh claim. recorded reports
// whether Redis contains c.value. ttl is the lifetime of a record.
func (o *openClaims) end(c *openClaim, recorded bool, err error, ttl time.Duration) (fresh bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c.calls--
	switch {
	case err != nil && !c.queued && len(o.queued) < maxOpenClaims:
		c.failed, c.queued, c.expires = true, true, time.Now().Add(ttl)
		o.queued = append(o.queued, c)
	case err != nil:
		// The claim is already queued, or the queue is full. If it is full, a later call mistakes the
		// record for the record of another process and returns false.
	case recorded:
		fresh = !c.passed
		c.passed = true
	default: // another process, or an earlier call of this one, has recorded the claim
		c.failed = false
	}
	if c.calls == 0 && (c.passed || !c.failed) {
		delete(o.byID, c.id)
	}
	return fresh
}

// dropExpired removes the failed claims whose records have expired.
func (o *openClaims) dropExpired() {
	now := time.Now()
	for len(o.queued) > 0 && now.After(o.queued[0].expires) {
		c := o.queued[0]
		o.queued = o.queued[1:]
		c.failed, c.queued = false, false
		if c.calls == 0 && o.byID[c.id] == c {
			delete(o.byID, c.id)
		}
	}
}
