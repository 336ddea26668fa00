package redis

import (
	"crypto/rand"
	"strconv"
	"sync"
	"time"
)

// maxOpenClaims bounds the claims with an unknown outcome. It is enough for an outage at 10,000
// messages a second.
const maxOpenClaims = 1 << 17

// openClaims are the claims of one process that have no result yet, or failed with an unknown
// outcome: Redis may have recorded them. All claims of one ID write the same value while they are
// open, so that the process recognizes its own record later.
type openClaims struct {
	owner string // no other store has it; part of every value

	mu     sync.Mutex // guards all below, and the claims
	number uint64     // of the last value
	byID   map[[32]byte]*openClaim
	queued []*openClaim // those that failed, by their expiry
}

func newOpenClaims() openClaims {
	return openClaims{owner: rand.Text(), byID: make(map[[32]byte]*openClaim)}
}

// openClaim is the open claim of one ID, shared by its concurrent calls.
type openClaim struct {
	id      [32]byte
	value   string    // what the process records for the id
	calls   int       // calls of Claim in progress
	failed  bool      // one of them returned an error, so value may be recorded
	passed  bool      // one of them returned true; no other may
	queued  bool      // in openClaims.queued
	expires time.Time // when the record has expired, if failed
}

// begin returns the open claim of id for one more call.
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

// end reports whether the call that began with c made a fresh claim. recorded is whether Redis
// holds c.value, and ttl how long a record lives.
func (o *openClaims) end(c *openClaim, recorded bool, err error, ttl time.Duration) (fresh bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c.calls--
	switch {
	case err != nil && !c.queued && len(o.queued) < maxOpenClaims:
		c.failed, c.queued, c.expires = true, true, time.Now().Add(ttl)
		o.queued = append(o.queued, c)
	case err != nil: // kept already, or there are too many: a later call then takes our record for another's, which is safe
	case recorded:
		fresh = !c.passed
		c.passed = true
	default: // another process was first
		c.failed = false
	}
	if c.calls == 0 && (c.passed || !c.failed) {
		delete(o.byID, c.id)
	}
	return fresh
}

// dropExpired forgets the failed claims whose records have expired.
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
