package signature

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"
)

// ReplayStore records which messages were accepted. An implementation over a shared database serves
// several processes.
//
// Claim records id for at least ttl and reports whether it was not recorded before: of any number
// of concurrent claims of one id exactly one is fresh. The verifier claims each message for 2 ×
// ClockSkew + 1 s, which covers replicas whose clocks differ. With an error the message cannot be
// verified now ([ErrReplayStore]). A store that is full must return one, because a claim that is
// dropped early lets a copy in.
type ReplayStore interface {
	Claim(ctx context.Context, id [32]byte, ttl time.Duration) (fresh bool, err error)
}

// defaultReplayMax is about 12,000 messages a second at the default skew.
const defaultReplayMax = 1 << 17

// MemoryReplayStore is a [ReplayStore] for one process. It may be used from many goroutines at once, runs none of its own, and uses the system's clock.
type MemoryReplayStore struct {
	max int

	mu     sync.Mutex // guards all below
	expiry map[[32]byte]time.Time
	queue  [][32]byte // the claims in the order they came
}

// NewMemoryReplayStore returns a store of at most max claims, about 100 bytes each. A receiver
// needs one claim for each message of the last 11 s at the default skew: twice the skew, and one
// second. Zero or less means 131,072.
func NewMemoryReplayStore(max int) *MemoryReplayStore {
	if max <= 0 {
		max = defaultReplayMax
	}
	return &MemoryReplayStore{max: max, expiry: make(map[[32]byte]time.Time)}
}

// Claim implements [ReplayStore]. It fails only when the store is full of claims that have not run out. A claim is dropped once it and all before it have run out, so claims of very different ttl are better kept in different stores.
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
		return false, &Error{Operation: "replay claim", Reason: ErrReplayStore, detail: "the memory replay store is full"}
	case !queued:
		s.queue = append(s.queue, id)
	}
	s.expiry[id] = now.Add(ttl)
	return true, nil
}

// accept checks the date again and claims the message. It is the last step, so that only a message
// that is valid in every other respect takes room in the replay store.
func (v *Verifier) accept(ctx context.Context, m *message, date time.Time) error {
	// The key or the body may have taken long. A copy whose body is held back would otherwise be
	// accepted long after its date, when the claim of the original has expired. The error is
	// retryable, because a valid message that was merely slow is signed again for its next attempt.
	if age := v.now().Sub(date); age.Abs() > v.skew {
		return asWarning(newError(ErrTooLate, fmt.Sprintf("the date expired while the key or the body was being read: it is %s old now (check what delays the key lookup and the body)", age.Round(time.Millisecond))))
	}
	if v.replay == nil {
		return nil
	}
	fresh, err := v.replay.Claim(ctx, m.id(), v.claimTTL())
	if err != nil {
		return wrapError(ErrReplayStore, "the replay store failed", err)
	}
	if !fresh {
		return newError(ErrReplay, "this very message was accepted before")
	}
	return nil
}

// claimTTL is how long a claim lives, counted from the claim. A clock that reads at least date - skew
// at the claim accepts the date for at most 2 × skew more. A clock that is set back after the claim
// can accept it longer. The extra second is for stores that count in whole seconds.
func (v *Verifier) claimTTL() time.Duration { return 2*v.skew + time.Second }

// id identifies a verified message by the modulus of its key and its signature. The key ID is not
// part of it: it is not signed, and one key may be published under several IDs.
func (m *message) id() [32]byte {
	text := make([]byte, 0, 2*maxKeyBits/8)
	text = m.key.N.FillBytes(text[:m.key.Size()])
	return sha256.Sum256(append(text, m.signature...))
}
