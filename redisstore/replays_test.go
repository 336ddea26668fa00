package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idverify/idverify-go/redisstore"
)

var messageID = [32]byte{1, 2, 3}

func TestReplays_Claim(t *testing.T) {
	t.Parallel()
	srv := startServer(t)

	first, err1 := srv.store(t).Claim(t.Context(), messageID, time.Minute)
	second, err2 := srv.store(t).Claim(t.Context(), messageID, time.Minute)
	other, err3 := srv.store(t).Claim(t.Context(), [32]byte{4}, time.Minute)

	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	if !first || second || !other {
		t.Errorf("fresh = %v, for a copy %v, for another message %v; want true, false, true", first, second, other)
	}
}

func TestReplays_ConcurrentClaims(t *testing.T) {
	t.Parallel()
	const replicas, claims = 16, 50
	srv := startServer(t)
	var fresh, failed atomic.Int32
	var wg sync.WaitGroup

	for range replicas {
		store := srv.store(t)
		for range claims {
			wg.Go(func() {
				switch ok, err := store.Claim(t.Context(), messageID, time.Minute); {
				case err != nil:
					failed.Add(1)
				case ok:
					fresh.Add(1)
				}
			})
		}
	}
	wg.Wait()

	if fresh.Load() != 1 || failed.Load() != 0 {
		t.Errorf("%d of %d claims are fresh, %d failed; want 1 and 0: a callback is handled for each fresh claim", fresh.Load(), replicas*claims, failed.Load())
	}
}

func TestReplays_TTLAndPrefix(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	client := srv.client(t)
	for _, tt := range []struct {
		name        string
		ttl         time.Duration
		least, most time.Duration
	}{
		{"whole seconds", time.Minute, 110 * time.Second, 2 * time.Minute},
		{"rounded up to milliseconds", time.Minute + 1, 110 * time.Second, 2*time.Minute + time.Millisecond},
		{"negative", -time.Hour, 50 * time.Second, time.Minute},
	} {
		prefix := strings.ReplaceAll(tt.name, " ", "-") + ":"
		store := newStore(t, client, &redisstore.Options{Prefix: prefix, Timeout: time.Minute})

		fresh, err := store.Claim(t.Context(), messageID, tt.ttl)

		if !fresh || err != nil {
			t.Fatalf("%s: fresh = %v, error = %v; want true: each case has its own prefix", tt.name, fresh, err)
		}
		got, err := client.PTTL(t.Context(), prefix+"010203"+strings.Repeat("0", 58)).Result()
		if err != nil || got < tt.least || got > tt.most {
			t.Errorf("%s: TTL of the key = %v (error %v), want %v to %v", tt.name, got, err, tt.least, tt.most)
		}
	}
}

// TestReplays_LostReply makes the client send SET twice. The second one finds the key of the first.
// If the claim were not fresh, the callback would be rejected with 400 and lost.
func TestReplays_LostReply(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	store, lost := losingStore(t, srv, 0)

	fresh, err := store.Claim(t.Context(), messageID, time.Minute)
	again, againErr := store.Claim(t.Context(), messageID, time.Minute)

	if !lost.Load() {
		t.Fatal("no reply was lost")
	}
	if !fresh || err != nil {
		t.Errorf("fresh = %v, error = %v; want true: no other call has claimed it", fresh, err)
	}
	if again || againErr != nil {
		t.Errorf("copy: fresh = %v, error = %v; want false", again, againErr)
	}
}

// losingStore returns a store whose first SET gets no reply. lost reports whether that has
// happened. Zero retries select the client's default.
func losingStore(t testing.TB, srv *server, retries int) (*redisstore.Replays, *atomic.Bool) {
	t.Helper()
	lost := new(atomic.Bool)
	client := newClient(t, &redis.Options{MaxRetries: retries, Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", srv.socket())
		return &losingConn{Conn: conn, lost: lost}, err
	}})
	return newStore(t, client, &redisstore.Options{Timeout: time.Minute}), lost
}

// losingConn loses the connection once, after Redis has processed the first SET and before its
// reply.
type losingConn struct {
	net.Conn
	lost *atomic.Bool
	set  bool
}

func (c *losingConn) Write(b []byte) (int, error) {
	c.set = c.set || bytes.Contains(b, []byte("\r\nset\r\n"))
	return c.Conn.Write(b)
}

func (c *losingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.set && c.lost.CompareAndSwap(false, true) {
		c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

func TestReplays_RedisUnavailable(t *testing.T) {
	t.Parallel()
	full := startServer(t, "--maxmemory", "1", "--maxmemory-policy", "noeviction")
	closed := unreachableClient(t)
	closed.Close()
	for _, tt := range []struct {
		name   string
		client redis.UniversalClient
		limit  time.Duration
		want   string
	}{
		{"unreachable", unreachableClient(t), time.Minute, "dial: connect: no such file or directory"},
		{"silent", silentClient(t), time.Millisecond, "no response from Redis within 1ms (Options.Timeout)"},
		{"full", full.client(t), time.Minute, "OOM command not allowed"},
		{"closed", closed, time.Minute, "client is closed"},
		{"node of a cluster", failingClient(t, errors.New("MOVED 3999 10.0.0.7:6381")), time.Minute, "use a ClusterClient"},
		{"unknown host", failingClient(t, &net.DNSError{Err: "no such host", Name: "redis.internal"}), time.Minute, "host lookup failed: no such host"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store := newStore(t, tt.client, &redisstore.Options{Timeout: tt.limit})

			fresh, err := store.Claim(t.Context(), messageID, time.Minute)

			if fresh || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("fresh = %v, error = %v; want an error that contains %q", fresh, err, tt.want)
			}
			if errors.Is(err, context.DeadlineExceeded) != (tt.name == "silent") {
				t.Errorf("error = %v, want context.DeadlineExceeded after a timeout only", err)
			}
			for e := err; e != nil; e = errors.Unwrap(e) { // a tool may log all of them
				if text := fmt.Sprintf("%v %#v", e, e); strings.Contains(text, "/none") || strings.Contains(text, "10.0") || strings.Contains(text, ".internal") {
					t.Errorf("error %v wraps %s, which contains an address", err, text)
				}
			}
		})
	}
}

func TestReplays_ClaimCanceled(t *testing.T) {
	t.Parallel()
	store := newStore(t, silentClient(t), &redisstore.Options{Timeout: time.Hour})
	reason := errors.New("caller gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	claimed := make(chan error)
	go func() {
		_, err := store.Claim(ctx, messageID, time.Minute)
		claimed <- err
	}()

	cancel(reason)

	if err := <-claimed; !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want context.Canceled", err)
	}
}

// failingClient returns a client whose commands all fail with err.
func failingClient(t testing.TB, err error) *redis.Client {
	t.Helper()
	client := unreachableClient(t)
	client.AddHook(hook{err})
	return client
}

type hook struct{ err error }

func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		cmd.SetErr(h.err)
		return h.err
	}
}

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestNewReplays_InvalidArguments(t *testing.T) {
	t.Parallel()

	_, noClient := redisstore.NewReplays(nil, nil)
	_, negative := redisstore.NewReplays(unreachableClient(t), &redisstore.Options{Timeout: -1})

	if noClient == nil || negative == nil {
		t.Errorf("errors = %v for a nil client, %v for a negative timeout; want errors", noClient, negative)
	}
}
