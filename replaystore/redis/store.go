package redis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/idverify/idverify-go/signature"
)

const (
	defaultPrefix = "idverify:replay:"
	// defaultTimeout is a fifth of what the service waits for the answer to a callback; after a time-out of its own it would not try again.
	defaultTimeout = 2 * time.Second
)

// Store is a [signature.ReplayStore] in Redis. It may be used from many goroutines at once, and by any number of processes together.
type Store struct {
	client  goredis.UniversalClient
	prefix  string
	timeout time.Duration
}

var _ signature.ReplayStore = (*Store)(nil)

// Options are the choices of [New]. Zero fields mean the defaults.
type Options struct {
	// Prefix begins every key; 64 hexadecimal characters follow. Verifiers of one callback URL share it. Default "idverify:replay:".
	Prefix string

	// Timeout is the longest that a claim takes, whatever the client's own time-outs and retries: the service takes its message back after ten seconds, for good. Default 2 s.
	Timeout time.Duration
}

// New returns a store over client, which stays yours: close it when the store is no longer used. A Client, a ClusterClient, a Ring and a failover client will do. Nothing is sent yet. opts may be nil.
func New(client goredis.UniversalClient, opts *Options) (*Store, error) {
	if opts == nil {
		opts = &Options{}
	}
	s := &Store{client: client, prefix: opts.Prefix, timeout: opts.Timeout}
	if s.prefix == "" {
		s.prefix = defaultPrefix
	}
	if s.timeout == 0 {
		s.timeout = defaultTimeout
	}
	switch {
	case client == nil:
		return nil, errors.New("redis replay store: new: the client is nil")
	case s.timeout < 0:
		return nil, errors.New("redis replay store: new: the timeout is negative")
	}
	return s, nil
}

// Claim implements [signature.ReplayStore]. An error says that nothing is decided: Redis is out of reach, full, or did not answer in time. It wraps the client's error, and that of ctx.
func (s *Store) Claim(ctx context.Context, id [32]byte, ttl time.Duration) (fresh bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	type answer struct {
		fresh bool
		err   error
	}
	answered := make(chan answer, 1)
	// A client that is busy with a connection heeds no cancellation. It ends by its own time-outs, and the next step sees that ctx has ended.
	go func() {
		// A copy whose claim began in time may be under way for as long as a claim takes.
		fresh, err := s.claim(ctx, s.prefix+hex.EncodeToString(id[:]), max(ttl, 0)+s.timeout)
		answered <- answer{fresh, err}
	}()
	select {
	case a := <-answered:
		fresh, err = a.fresh, a.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return false, fmt.Errorf("redis replay store: claim: %w", &cause{err})
	}
	return fresh, nil
}

// claim writes a value of its own. The client sends a command again when its answer was lost, and then finds the key there: the value tells whether it is our own, or an earlier message's.
func (s *Store) claim(ctx context.Context, key string, ttl time.Duration) (fresh bool, err error) {
	mine := rand.Text()
	fresh, err = s.client.SetNX(ctx, key, mine, (ttl + time.Millisecond - 1).Truncate(time.Millisecond)).Result()
	if fresh || err != nil {
		return fresh, err
	}
	holder, err := s.client.Get(ctx, key).Result()
	if errors.Is(err, goredis.Nil) {
		return false, errVanished
	}
	return holder == mine, err
}

var errVanished = errors.New("the claim was there and is gone: it ran out, or Redis forgot it")

// cause is an error of the client without the addresses in its text.
type cause struct{ err error }

// Error implements error.
func (c *cause) Error() string {
	if e, ok := errors.AsType[*net.DNSError](c.err); ok {
		return "look up host: " + e.Err
	}
	if e, ok := errors.AsType[*net.OpError](c.err); ok && e.Err != nil {
		return e.Op + ": " + e.Err.Error()
	}
	// "MOVED 3999 10.0.0.7:6381" is a cluster's answer to a client for a single server.
	if text := c.err.Error(); !strings.HasPrefix(text, "MOVED ") && !strings.HasPrefix(text, "ASK ") {
		return text
	}
	return "the server belongs to a cluster: give a ClusterClient"
}

// Unwrap gives [errors.Is] and [errors.As] the client's own error.
func (c *cause) Unwrap() error { return c.err }
