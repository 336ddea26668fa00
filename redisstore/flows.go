package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idverify/idverify-go/checkflow"
)

// Flows is a [checkflow.Store] in Redis. It is safe for concurrent use, and any number of processes
// may share one Redis. It is full when Redis has reached its maxmemory; the flows that it contains
// can still be claimed and finished.
type Flows struct{ server }

var _ checkflow.Store = (*Flows)(nil)

// NewFlows returns a store that uses client, as [NewReplays] does. opts may be nil.
func NewFlows(client redis.UniversalClient, opts *Options) (*Flows, error) {
	s, err := newServer(client, opts, "idverify:flow:")
	if err != nil {
		return nil, fmt.Errorf("redisstore: new flows: %w", err)
	}
	return &Flows{s}, nil
}

// storedFlow is the JSON form of a Flow. Account and Data are []byte because they need not be
// UTF-8.
type storedFlow struct {
	Owner   []byte          `json:"owner"`
	State   checkflow.State `json:"state"`
	Number  string          `json:"number"`
	Account []byte          `json:"account,omitempty"`
	Data    []byte          `json:"data,omitempty"`

	// Call identifies the call that wrote the value. If the reply is lost, the client sends its
	// command again, and finds the value of this call.
	Call string `json:"call"`
}

func encodeFlow(f checkflow.Flow, call string) (string, error) {
	value, err := json.Marshal(storedFlow{f.Owner[:], f.State, f.PhoneNumber, []byte(f.Account), []byte(f.Data), call})
	return string(value), err
}

func decodeFlow(checkID, value string) (checkflow.Flow, error) {
	var s storedFlow
	f := checkflow.Flow{CheckID: checkID}
	if err := json.Unmarshal([]byte(value), &s); err != nil || copy(f.Owner[:], s.Owner) != len(f.Owner) {
		return checkflow.Flow{}, errors.New("the value of the key is not a flow (use Options.Prefix for nothing else)")
	}
	f.State, f.PhoneNumber, f.Account, f.Data = s.State, s.Number, string(s.Account), string(s.Data)
	return f, nil
}

// Available implements [checkflow.Store]. It writes a key, because a full Redis can be read. In a
// cluster, it tests one of the masters.
func (s *Flows) Available(ctx context.Context) error {
	_, err := withTimeout(ctx, s.timeout, func(ctx context.Context) (struct{}, error) {
		err := s.client.Set(ctx, s.prefix+" available", "", time.Second).Err() // no check ID has a space
		return struct{}{}, replaceTimeout(ctx, err)
	})
	return flowError("find room for a flow", err)
}

// Add implements [checkflow.Store].
func (s *Flows) Add(ctx context.Context, f checkflow.Flow, ttl time.Duration) error {
	value, err := encodeFlow(f, rand.Text())
	if err != nil {
		return flowError("add flow", err)
	}
	added, err := withTimeout(ctx, s.timeout, func(ctx context.Context) (bool, error) {
		added, err := s.record(ctx, s.prefix+f.CheckID, value, max(ttl, time.Millisecond))
		return added, replaceTimeout(ctx, err)
	})
	if err == nil && !added {
		err = checkflow.ErrExists
	}
	return flowError("add flow", err)
}

// Claim implements [checkflow.Store].
func (s *Flows) Claim(ctx context.Context, checkID string, owner [32]byte, revoke bool) (checkflow.Flow, checkflow.Reason, error) {
	f, reason, err := change(ctx, s, checkID, func(f *checkflow.Flow) checkflow.Reason { return f.Claim(owner, revoke) })
	if err != nil || reason != "" {
		return checkflow.Flow{}, reason, flowError("claim flow", err)
	}
	return f, "", nil
}

// Finish implements [checkflow.Store].
func (s *Flows) Finish(ctx context.Context, checkID string) (bool, error) {
	_, finished, err := change(ctx, s, checkID, (*checkflow.Flow).Finish)
	return finished, flowError("finish flow", err)
}

// change applies f to the flow of checkID, and returns the changed flow and the result of f.
func change[T any](ctx context.Context, s *Flows, checkID string, apply func(*checkflow.Flow) T) (checkflow.Flow, T, error) {
	type changed struct {
		flow   checkflow.Flow
		result T
	}
	c, err := withTimeout(ctx, s.timeout, func(ctx context.Context) (c changed, err error) {
		call := rand.Text()
		for stored, next := "", ""; ; { // a flow has at most three changes, so the loop ends
			stored, err = s.swap(ctx, checkID, stored, next)
			switch {
			case errors.Is(err, redis.Nil):
				c.flow = checkflow.Flow{}
				c.result = apply(&c.flow)
				return c, nil
			case err != nil:
				return changed{}, replaceTimeout(ctx, err)
			case next != "" && stored == next: // the key has the value of this call
				return c, nil
			}
			if c.flow, err = decodeFlow(checkID, stored); err != nil {
				return changed{}, err
			}
			state := c.flow.State
			if c.result = apply(&c.flow); c.flow.State == state {
				return c, nil
			}
			if next, err = encodeFlow(c.flow, call); err != nil {
				return changed{}, err
			}
		}
	})
	return c.flow, c.result, err
}

// swapScript replaces the value ARGV[1] of a key by ARGV[2], keeps its expiry, and returns the
// value that the key then has. It reads in a script because a client can be configured to send GET
// to a replica, which may lag. A full Redis rejects SET, but not after DEL in the same script.
const swapScript = `
local value = redis.call('GET', KEYS[1])
if value ~= ARGV[1] then
	return value
end
local ttl = redis.call('PTTL', KEYS[1])
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[2], 'PX', math.max(ttl, 1))
return ARGV[2]
`

// swap changes the value of the flow of checkID from old to next, and returns the value that it
// then has. The error is redis.Nil if there is none.
func (s *Flows) swap(ctx context.Context, checkID, old, next string) (string, error) {
	return s.client.Eval(ctx, swapScript, []string{s.prefix + checkID}, old, next).Text()
}

// flowError describes the failure of an operation. It returns nil if err is nil.
func flowError(operation string, err error) error {
	switch {
	case err == nil:
		return nil
	case redis.HasErrorPrefix(err, "OOM"):
		err = fmt.Errorf("%w: %w", checkflow.ErrFull, redacted(err))
	case !errors.Is(err, checkflow.ErrExists):
		err = redacted(err)
	}
	return fmt.Errorf("redisstore: %s: %w", operation, err)
}
