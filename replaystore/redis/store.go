package redis

import (
	"context"
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
	// defaultTimeout is a fifth of the 10 s that the service waits for a response to a callback. The
	// service does not retry after that timeout.
	defaultTimeout = 2 * time.Second
)

// Store is a [signature.ReplayStore] in Redis. It is safe for concurrent use, and any number of
// processes may share one Redis.
type Store struct {
	client  goredis.UniversalClient
	prefix  string
	timeout time.Duration
	open    openClaims
}

var _ signature.ReplayStore = (*Store)(nil)

// Options are the choices of [New]. Zero fields mean the defaults.
type Options struct {
	// Prefix is the beginning of every key; 64 hexadecimal characters follow. Verifiers of one
	// callback URL share it. Default "idverify:replay:".
	Prefix string

	// Timeout is the longest that Claim and Check take, whatever the client's own timeouts and
	// retries. The service waits 10 s for a response to a callback and does not retry after that
	// timeout. Default 2 s.
	Timeout time.Duration
}

// New returns a store over client: a Client, a ClusterClient, a Ring or a failover client. Close
// the client when the store is no longer used. New sends nothing; call [Store.Check] to check the
// configuration of Redis. opts may be nil.
func New(client goredis.UniversalClient, opts *Options) (*Store, error) {
	if opts == nil {
		opts = &Options{}
	}
	s := &Store{client: client, prefix: opts.Prefix, timeout: opts.Timeout, open: newOpenClaims()}
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

// Claim implements [signature.ReplayStore]. It returns an error that wraps that of the client, or
// of ctx, if Redis is unavailable, full, or does not respond in time.
//
// Redis may have recorded a claim that returned an error. Such a claim passes to at most one later
// call of this Store, so that a redirect that its user reloads after the error is not a replay. It
// passes to none once it has expired, after a restart, or if too many claims failed before it.
func (s *Store) Claim(ctx context.Context, id [32]byte, ttl time.Duration) (fresh bool, err error) {
	// A copy that was in time may be in progress for as long as a claim takes.
	ttl = max(ttl, 0) + s.timeout
	claim := s.open.begin(id)
	recorded, err := withTimeout(ctx, s.timeout, func(ctx context.Context) (bool, error) {
		recorded, err := s.record(ctx, s.prefix+hex.EncodeToString(id[:]), claim.value, ttl)
		return recorded, replaceTimeout(ctx, err)
	})
	fresh = s.open.end(claim, recorded, err, ttl)
	if err != nil {
		return false, fmt.Errorf("redis replay store: claim: %w", &redactedError{err})
	}
	return fresh, nil
}

// record writes value unless the key exists, and reports whether the key then holds it. The client
// sends a command again when its response was lost, and then finds the key: the value distinguishes
// our own record from another one.
func (s *Store) record(ctx context.Context, key, value string, ttl time.Duration) (own bool, err error) {
	own, err = s.client.SetNX(ctx, key, value, (ttl + time.Millisecond - 1).Truncate(time.Millisecond)).Result()
	if own || err != nil {
		return own, err
	}
	holder, err := s.client.Get(ctx, key).Result()
	if errors.Is(err, goredis.Nil) {
		return false, errVanished
	}
	return holder == value, err
}

var (
	errVanished = errors.New("the claim was there and is gone: it expired, or Redis dropped it")
	errExited   = errors.New("the client ended its goroutine")
)

// timeoutError reports that Options.Timeout is over.
type timeoutError struct{ after time.Duration }

// Error implements error.
func (e *timeoutError) Error() string {
	return fmt.Sprintf("no response from Redis within %s (Options.Timeout)", e.after)
}

// Unwrap gives [errors.Is] the standard error.
func (e *timeoutError) Unwrap() error { return context.DeadlineExceeded }

// replaceTimeout replaces the error of ctx by a timeoutError if Options.Timeout ended ctx.
func replaceTimeout(ctx context.Context, err error) error {
	if timeout, ok := errors.AsType[*timeoutError](context.Cause(ctx)); ok && errors.Is(err, context.DeadlineExceeded) {
		return timeout
	}
	return err
}

// withTimeout calls f, and returns when f has, when ctx ends or when the timeout is over. A client that
// is busy with a connection ignores the end of its context, so f may go on: it ends by the client's
// own timeouts, and what it still records belongs to an open claim.
func withTimeout[T any](ctx context.Context, timeout time.Duration, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, &timeoutError{timeout})
	defer cancel()
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		r := result{err: errExited}
		defer func() {
			// A hook or dialer of the caller may panic. Its value may contain an address.
			if p := recover(); p != nil {
				r.err = fmt.Errorf("the client panicked with a value of type %T", p)
			}
			done <- r
		}()
		value, err := f(ctx)
		r = result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return *new(T), replaceTimeout(ctx, ctx.Err())
	}
}

// redactedError is an error of the client without the addresses in its text.
type redactedError struct{ err error }

// Error implements error.
func (r *redactedError) Error() string {
	if e, ok := errors.AsType[*net.DNSError](r.err); ok {
		return "look up host: " + e.Err
	}
	if e, ok := errors.AsType[*net.OpError](r.err); ok && e.Err != nil {
		return e.Op + ": " + e.Err.Error()
	}
	// "MOVED 3999 10.0.0.7:6381" is a cluster's answer to a client for a single server.
	if text := r.err.Error(); !strings.HasPrefix(text, "MOVED ") && !strings.HasPrefix(text, "ASK ") {
		return text
	}
	return "the server belongs to a cluster: give a ClusterClient"
}

// Unwrap gives [errors.Is] and [errors.As] the client's own error.
func (r *redactedError) Unwrap() error { return r.err }
