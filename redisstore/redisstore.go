package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idverify/idverify-go/internal/redact"
)

// Options configures [NewReplays] and [NewFlows]. The zero value of a field selects its default.
type Options struct {
	// Prefix is the prefix of every key. 64 hexadecimal characters or the ID of a check follow it. All
	// verifiers of the same host, and all processes that share flows, must use the same prefix. The
	// default is "idverify:replay:" or "idverify:flow:".
	Prefix string

	// Timeout limits the duration of each method, independently of the timeouts and retries of the
	// client. The service waits 10 s for the response to a callback, and does not retry after that
	// timeout. The default is 2 s.
	Timeout time.Duration
}

// defaultTimeout is a fifth of the time that the service waits for a response to a callback. After
// that time, 10 s, the service does not retry.
const defaultTimeout = 2 * time.Second

// server is a Redis server or cluster and the part of its keys that a store uses.
type server struct {
	client  redis.UniversalClient
	prefix  string
	timeout time.Duration
}

func newServer(client redis.UniversalClient, opts *Options, defaultPrefix string) (server, error) {
	if opts == nil {
		opts = &Options{}
	}
	switch {
	case client == nil:
		return server{}, errors.New("client is nil")
	case opts.Timeout < 0:
		return server{}, errors.New("Options.Timeout must not be negative")
	}
	return server{client, cmp.Or(opts.Prefix, defaultPrefix), cmp.Or(opts.Timeout, defaultTimeout)}, nil
}

// record sets key to value unless the key exists, and reports whether the key then contains value.
// If a reply is lost, the client sends the command again and finds that the key exists. The value
// shows whether this process has recorded it.
func (s *server) record(ctx context.Context, key, value string, ttl time.Duration) (own bool, err error) {
	own, err = s.client.SetNX(ctx, key, value, (ttl + time.Millisecond - 1).Truncate(time.Millisecond)).Result()
	if own || err != nil {
		return own, err
	}
	holder, err := s.client.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return false, errVanished
	}
	return holder == value, err
}

var (
	errVanished = errors.New("key disappeared (it expired, or Redis evicted it)")
	errExited   = errors.New("client called runtime.Goexit")
)

// timeoutError is the error of a call that exceeded Options.Timeout.
type timeoutError struct{ after time.Duration }

// Error implements error.
func (e *timeoutError) Error() string {
	return fmt.Sprintf("no response from Redis within %s (Options.Timeout)", e.after)
}

// Unwrap makes the error match context.DeadlineExceeded.
func (e *timeoutError) Unwrap() error { return context.DeadlineExceeded }

// replaceTimeout returns a timeoutError if err is a deadline error because Options.Timeout expired.
// Otherwise it returns err.
func replaceTimeout(ctx context.Context, err error) error {
	if timeout, ok := errors.AsType[*timeoutError](context.Cause(ctx)); ok && errors.Is(err, context.DeadlineExceeded) {
		return timeout
	}
	return err
}

// withTimeout calls f in a goroutine, and returns when f returns, ctx ends or the timeout expires.
// A client that is using a connection ignores the end of its context, so f can continue until the
// client's own timeout.
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
			// A hook or dialer of the caller can panic. The value could contain an address.
			if p := recover(); p != nil {
				r.err = fmt.Errorf("client panicked with a value of type %T", p)
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

// redacted returns an error that matches err. Its text, and that of the errors that it wraps,
// contains no address.
func redacted(err error) error {
	// A cluster replies "MOVED 3999 10.0.0.7:6381" to a client for a single server.
	if text := err.Error(); strings.HasPrefix(text, "MOVED ") || strings.HasPrefix(text, "ASK ") {
		err = clusterError{err}
	}
	return redact.Error(err)
}

// clusterError describes a reply of a cluster to a client for a single server.
type clusterError struct{ reply error }

func (clusterError) Error() string { return "server belongs to a cluster (use a ClusterClient)" }

func (e clusterError) Unwrap() error { return e.reply }
