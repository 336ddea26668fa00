package signature

import (
	"context"
	"crypto/rsa"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"
)

// ReplayStore records accepted messages. Implementations must be safe for concurrent use. Several
// processes can share an implementation that uses a database.
//
// Claim records id for at least ttl and reports whether it was not recorded before. If several
// calls claim the same ID concurrently, only one returns true. The ttl is 2 × ClockSkew + 1 s,
// which allows for replicas with different clocks. If Claim returns an error, the message cannot be
// verified now ([ErrReplayStore]). A full store must return an error: if it dropped a claim early,
// a copy would be accepted.
type ReplayStore interface {
	Claim(ctx context.Context, id [32]byte, ttl time.Duration) (fresh bool, err error)
}

// defaultReplayMax is the default maximum number of claims. It is enough for about 12,000 messages
// per second at the default skew.
const defaultReplayMax = 1 << 17

// MemoryReplayStore is a [ReplayStore] for one process. It uses the system clock. It is safe for
// concurrent use.
type MemoryReplayStore struct {
	max int

	mu     sync.Mutex // guards the fields below
	expiry map[[32]byte]time.Time
	queue  [][32]byte // the claims, oldest first
}

// NewMemoryReplayStore returns a store for at most max claims of about 100 bytes each. A receiver
// needs one claim for each message of the last 2 × ClockSkew + 1 s, which is 11 s by default. If
// max is zero or negative, it is 131,072.
func NewMemoryReplayStore(max int) *MemoryReplayStore {
	if max <= 0 {
		max = defaultReplayMax
	}
	return &MemoryReplayStore{max: max, expiry: make(map[[32]byte]time.Time)}
}

// Claim implements [ReplayStore]. It returns an error only if the store is full. A claim is removed
// when it and all earlier claims have expired. Use separate stores for claims with very different
// lifetimes.
func (s *MemoryReplayStore) Claim(_ context.Context, id [32]byte, ttl time.Duration) (fresh bool, err error) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) > 0 && now.After(s.expiry[s.queue[0]]) {
		delete(s.expiry, s.queue[0])
		s.queue = s.queue[1:]
	}
	expiry, queued := s.expiry[id]
	switch {
	case queued && !now.After(expiry):
		return false, nil
	case !queued && len(s.queue) >= s.max:
		return false, &Error{Operation: "replay.claim", Reason: ErrReplayStore, detail: "memory replay store is full"}
	case !queued:
		s.queue = append(s.queue, id)
	}
	s.expiry[id] = now.Add(ttl)
	return true, nil
}

// accept checks the date again and claims the message. It runs last, so that the replay store
// contains only messages that pass all other checks.
func (v *Verifier) accept(ctx context.Context, m *message, signature []byte, date time.Time) error {
	// Reading the key or the body may have taken long. Without this check, a copy with a delayed body
	// would be accepted after the claim of the original has expired. The error is retryable, because
	// the service signs each attempt again.
	if age := v.now().Sub(date); age.Abs() > v.skew {
		return asWarning(newError(ErrTooLate, fmt.Sprintf("date expired while the key or the body was being read: it is now %s old (check for slow key lookups and slow bodies)", age.Round(time.Millisecond))))
	}
	if v.replay == nil {
		return nil
	}
	fresh, err := v.replay.Claim(ctx, claimID(m.key, signature), v.claimTTL())
	if err != nil {
		return wrapError(ErrReplayStore, "replay store failed", err)
	}
	if !fresh {
		return newError(ErrReplay, "message was already accepted")
	}
	return nil
}

// claimTTL returns the lifetime of a claim. A verifier whose clock shows date - skew or later at
// the time of the claim accepts the date for at most 2 × skew longer. If its clock is set back
// after the claim, it may accept the date for longer. The extra second is for stores with a
// resolution of one second.
func (v *Verifier) claimTTL() time.Duration { return 2*v.skew + time.Second }

// claimID returns a hash of the key's modulus and the signature. It does not include the key ID,
// which is not signed: one key may be published under several IDs.
func claimID(key *rsa.PublicKey, signature []byte) [32]byte {
	text := make([]byte, 0, 2*maxKeyBits/8)
	text = key.N.FillBytes(text[:key.Size()])
	return sha256.Sum256(append(text, signature...))
}
