package signature

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"
)

// ReplayStore remembers which messages were accepted. An implementation over a shared database lets several processes do so together.
//
// Claim records id for at least ttl and reports whether it was not recorded before: of any number of claims of one id at the same time exactly one is fresh. An error leaves the message undecided ([ErrReplayStore]); a store that is full must return one, because forgetting a message early would let its copy in.
type ReplayStore interface {
	Claim(ctx context.Context, id [32]byte, ttl time.Duration) (fresh bool, err error)
}

// defaultReplayMax is some 13,000 messages a second at the default skew.
const defaultReplayMax = 1 << 17

// MemoryReplayStore is a [ReplayStore] for one process. It may be used from many goroutines at once, runs none of its own, and uses the system's clock.
type MemoryReplayStore struct {
	max int

	mu     sync.Mutex // guards all below
	expiry map[[32]byte]time.Time
	queue  [][32]byte // the claims in the order they came
}

// NewMemoryReplayStore returns a store of at most max claims, about 100 bytes each. A busy receiver needs one for each message of the last ten seconds, twice the clock skew. Zero or less means 131,072.
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

// claim is the last step, so that only a message that is good in every other respect takes room in the store.
func (v *Verifier) claim(ctx context.Context, m *message, date time.Time) error {
	if v.replay == nil {
		return nil
	}
	// The key or the body may have been long in coming, and no claim outlives its date by much: a copy that held its body back would find the original's claim run out.
	// Undecided, since an honest message was only unlucky, and is signed afresh for its next try.
	left := date.Add(v.skew).Sub(v.now())
	if left < 0 {
		return refuse(ErrReplayStore, "the message began in time and was read too late to tell it from a copy")
	}
	// A second more than the date stays acceptable, for stores that count in whole seconds.
	fresh, err := v.replay.Claim(ctx, m.id(), left+time.Second)
	if err != nil {
		return because(ErrReplayStore, "the replay store failed", err)
	}
	if !fresh {
		return refuse(ErrReplay, "this very message was accepted before")
	}
	return nil
}

// id is the hash of the key id and the signature as bytes, which has one spelling where the header has many.
func (m *message) id() [32]byte {
	h := sha256.New()
	h.Write([]byte(m.keyID))
	h.Write([]byte{0})
	h.Write(m.signature)
	return [32]byte(h.Sum(nil))
}
