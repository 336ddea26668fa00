package checkflow

import (
	"container/heap"
	"context"
	"errors"
	"strings"
	"sync"
	"time"
)

// Flow is a check of one session. It expires a minute after the check does.
type Flow struct {
	CheckID     string
	Owner       [32]byte // SHA-256 of the purpose and the session's token
	State       State
	PhoneNumber string // digits only
	Account     string // of Config.Account, or empty
	Data        string // of the caller of Start; any bytes
}

// State is the progress of a Flow. The zero State is that of a Flow that is not stored.
type State string

// The states of a stored Flow.
const (
	StateStarted State = "started" // the check was created
	StateClaimed State = "claimed" // the owner has returned, and its code is being exchanged
	StateDone    State = "done"    // the code was exchanged
	StateRevoked State = "revoked" // another browser returned first
)

// event is a call that can change a Flow.
type event string

const (
	ownerClaims  event = "owner claims"
	otherClaims  event = "other claims"
	otherRevokes event = "other claims and revokes"
	finishes     event = "finish"
)

// effect is the consequence of an event: one of those below, or the Reason why there is none.
type effect string

const (
	exchange effect = "exchange the code"
	report   effect = "report the result"
	nothing  effect = "nothing"
)

// transitions is the state machine of a Flow. docs/security.md contains the same table.
var transitions = []struct {
	state  State
	event  event
	next   State
	effect effect
}{
	{"", ownerClaims, "", effect(ReasonNotFound)},
	{"", otherClaims, "", effect(ReasonNotFound)},
	{"", otherRevokes, "", effect(ReasonNotFound)},
	{"", finishes, "", nothing},
	{StateStarted, ownerClaims, StateClaimed, exchange},
	{StateStarted, otherClaims, StateStarted, effect(ReasonOtherSession)},
	{StateStarted, otherRevokes, StateRevoked, effect(ReasonOtherSession)},
	{StateStarted, finishes, StateStarted, nothing},
	{StateClaimed, ownerClaims, StateClaimed, effect(ReasonRepeated)},
	{StateClaimed, otherClaims, StateClaimed, effect(ReasonOtherSession)},
	{StateClaimed, otherRevokes, StateRevoked, effect(ReasonOtherSession)},
	{StateClaimed, finishes, StateDone, report},
	{StateDone, ownerClaims, StateDone, effect(ReasonRepeated)},
	{StateDone, otherClaims, StateDone, effect(ReasonRepeated)},
	{StateDone, otherRevokes, StateDone, effect(ReasonRepeated)},
	{StateDone, finishes, StateDone, nothing},
	{StateRevoked, ownerClaims, StateRevoked, effect(ReasonRevoked)},
	{StateRevoked, otherClaims, StateRevoked, effect(ReasonOtherSession)},
	{StateRevoked, otherRevokes, StateRevoked, effect(ReasonOtherSession)},
	{StateRevoked, finishes, StateRevoked, nothing},
}

// apply moves f to the next state. An unknown state stays as it is.
func (f *Flow) apply(e event) effect {
	for _, t := range transitions {
		if t.state == f.State && t.event == e {
			f.State = t.next
			return t.effect
		}
	}
	return nothing
}

// Claim changes f when the session of owner returns. If f.Owner is owner, a started f becomes
// claimed. If not and revoke is true, a started or claimed f becomes revoked. Claim returns "" if f
// became claimed, and otherwise why owner cannot exchange the code. If the store does not contain
// the check, call Claim on a zero Flow.
func (f *Flow) Claim(owner [32]byte, revoke bool) Reason {
	e := otherClaims
	switch {
	case f.Owner == owner:
		e = ownerClaims
	case revoke:
		e = otherRevokes
	}
	switch effect := f.apply(e); effect {
	case exchange:
		return ""
	case nothing: // an unknown state
		return ReasonNotFound
	default:
		return Reason(effect)
	}
}

// Finish changes a claimed f to done. It reports whether f was claimed.
func (f *Flow) Finish() bool { return f.apply(finishes) == report }

// Store stores flows. All processes that serve the same pages or the same app must share one. A
// Store must be safe for concurrent use, and each method must be atomic: package storetest tests an
// implementation.
//
// If the context has ended, a method returns an error. It must return soon after the context ends.
type Store interface {
	// Available returns an error if Add would fail: ErrFull if the store is full.
	Available(ctx context.Context) error

	// Add stores f for ttl. The error is ErrExists if there is a Flow with this CheckID in any state,
	// and ErrFull if the store is full. A Store never removes a Flow before its ttl has passed. A
	// CheckID has at most 256 bytes, of printable ASCII.
	Add(ctx context.Context, f Flow, ttl time.Duration) error

	// Claim applies Flow.Claim to the stored Flow. It returns the Flow if the reason is "", and
	// otherwise the zero Flow.
	Claim(ctx context.Context, checkID string, owner [32]byte, revoke bool) (Flow, Reason, error)

	// Finish applies Flow.Finish to the stored Flow.
	Finish(ctx context.Context, checkID string) (finished bool, err error)
}

// Errors of a Store.
var (
	ErrExists = errors.New("flow already exists")
	ErrFull   = errors.New("flow store is full")
)

// defaultMaxFlows is enough for 50 starts per second.
const defaultMaxFlows = 10_000

// MemoryStore is a [Store] for one process. After a restart, everybody who has not returned must
// start again.
type MemoryStore struct {
	max int

	mu    sync.Mutex // guards the fields below
	flows map[string]*memoryFlow
	queue expiryQueue
}

type memoryFlow struct {
	Flow
	expiry time.Time
}

// NewMemoryStore returns a store for at most max flows of up to 5 KiB each. If max is zero or
// negative, it is 10,000.
func NewMemoryStore(max int) *MemoryStore {
	if max <= 0 {
		max = defaultMaxFlows
	}
	return &MemoryStore{max: max, flows: make(map[string]*memoryFlow)}
}

// lock removes expired flows, and returns a function that unlocks s.
func (s *MemoryStore) lock(ctx context.Context) (unlock func(), err error) {
	s.mu.Lock()
	if err := ctx.Err(); err != nil {
		s.mu.Unlock()
		return nil, err
	}
	now := time.Now()
	for len(s.queue) > 0 && now.After(s.queue[0].expiry) {
		delete(s.flows, heap.Pop(&s.queue).(*memoryFlow).CheckID)
	}
	return s.mu.Unlock, nil
}

// Available implements [Store].
func (s *MemoryStore) Available(ctx context.Context) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if len(s.flows) >= s.max {
		return ErrFull
	}
	return nil
}

// Add implements [Store].
func (s *MemoryStore) Add(ctx context.Context, f Flow, ttl time.Duration) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	switch {
	case s.flows[f.CheckID] != nil:
		return ErrExists
	case len(s.flows) >= s.max:
		return ErrFull
	}
	// A part of a string keeps the whole string in memory, such as a value of a large form.
	for _, text := range []*string{&f.CheckID, &f.PhoneNumber, &f.Account, &f.Data} {
		*text = strings.Clone(*text)
	}
	m := &memoryFlow{Flow: f, expiry: time.Now().Add(ttl)}
	s.flows[f.CheckID] = m
	heap.Push(&s.queue, m)
	return nil
}

// Claim implements [Store].
func (s *MemoryStore) Claim(ctx context.Context, checkID string, owner [32]byte, revoke bool) (Flow, Reason, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return Flow{}, "", err
	}
	defer unlock()
	f := s.find(checkID)
	if reason := f.Claim(owner, revoke); reason != "" {
		return Flow{}, reason, nil
	}
	return *f, "", nil
}

// Finish implements [Store].
func (s *MemoryStore) Finish(ctx context.Context, checkID string) (bool, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	return s.find(checkID).Finish(), nil
}

// find returns the stored Flow, or a zero Flow. The caller holds s.mu.
func (s *MemoryStore) find(checkID string) *Flow {
	if m := s.flows[checkID]; m != nil {
		return &m.Flow
	}
	return new(Flow)
}

// expiryQueue is a heap of flows. The first one expires first.
type expiryQueue []*memoryFlow

func (q expiryQueue) Len() int           { return len(q) }
func (q expiryQueue) Less(i, j int) bool { return q[i].expiry.Before(q[j].expiry) }
func (q expiryQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *expiryQueue) Push(x any)        { *q = append(*q, x.(*memoryFlow)) }
func (q *expiryQueue) Pop() any {
	last := len(*q) - 1
	m := (*q)[last]
	(*q)[last] = nil // release it from the backing array
	*q = (*q)[:last]
	return m
}
