package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/redisstore"
)

// stall makes the connections of a client withhold the replies to SET, which Redis has processed.
type stall struct {
	active   atomic.Bool
	recorded chan struct{} // receives a value for each withheld reply
}

// newStall returns an active stall, and a store whose client does not retry.
func newStall(t testing.TB, srv *server) (*stall, *redisstore.Replays) {
	t.Helper()
	s := &stall{recorded: make(chan struct{}, 1000)}
	s.active.Store(true)
	client := newClient(t, &redis.Options{
		MaxRetries: -1,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := srv.dial(ctx, "", "")
			return &stalledConn{Conn: conn, stall: s, closed: make(chan struct{})}, err
		},
	})
	return s, newStore(t, client, &redisstore.Options{Timeout: time.Minute})
}

type stalledConn struct {
	net.Conn
	stall *stall

	set    atomic.Bool
	once   sync.Once
	closed chan struct{}
}

func (c *stalledConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("\r\nset\r\n")) {
		c.set.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *stalledConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.set.Load() || !c.stall.active.Load() {
		return n, err
	}
	c.stall.recorded <- struct{}{}
	<-c.closed
	return 0, net.ErrClosed
}

func (c *stalledConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// failClaims makes concurrent calls of Claim fail after Redis has processed their commands.
func (s *stall) failClaims(t testing.TB, store *redisstore.Replays, calls int) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	failed := make(chan error, calls)
	for range calls {
		go func() {
			_, err := store.Claim(ctx, messageID, time.Minute)
			failed <- err
		}()
	}
	for range calls {
		<-s.recorded
	}
	cancel(errors.New("caller gone"))
	for range calls {
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Fatalf("claim without a reply: error = %v, want context.Canceled", err)
		}
	}
}

// TestReplays_AcceptsRecordedClaimOnce makes Redis record a claim whose call returned an error.
func TestReplays_AcceptsRecordedClaimOnce(t *testing.T) {
	t.Parallel()
	const calls = 50
	// stalled makes groups of concurrent calls fail, one group after the other.
	stalled := func(groups ...int) func(*testing.T, *server) *redisstore.Replays {
		return func(t *testing.T, srv *server) *redisstore.Replays {
			stall, store := newStall(t, srv)
			for _, n := range groups {
				stall.failClaims(t, store, n)
			}
			stall.active.Store(false)
			return store
		}
	}
	for name, fail := range map[string]func(t *testing.T, srv *server) *redisstore.Replays{
		"no reply in time":                stalled(1),
		"no reply in time, twice":         stalled(1, 1),
		"no reply in time, twice at once": stalled(2),
		"connection lost": func(t *testing.T, srv *server) *redisstore.Replays {
			lost := newLostReplies(1)
			store := newStore(t, lost.client(t, srv, -1), &redisstore.Options{Timeout: time.Minute})
			if _, err := store.Claim(t.Context(), messageID, time.Minute); err == nil || lost.count() != 1 {
				t.Fatalf("first claim: error = %v, want an error after a lost connection", err)
			}
			return store
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := startServer(t)
			store := fail(t, srv)
			if n := store.OpenClaims(); n != [2]int{1, 1} {
				t.Errorf("open claims = %d, want 1 and 1", n)
			}
			// Another process cannot recognize the record.
			if fresh, err := srv.store(t).Claim(t.Context(), messageID, time.Minute); fresh || err != nil {
				t.Errorf("other process: fresh = %v, error = %v; want false", fresh, err)
			}

			fresh, failed := claimConcurrently(t, calls, store)
			last, err := store.Claim(t.Context(), messageID, time.Minute)

			if fresh != 1 || failed != 0 {
				t.Errorf("%d of %d later calls are fresh, %d failed; want 1 and 0", fresh, calls, failed)
			}
			if last || err != nil {
				t.Errorf("last call: fresh = %v, error = %v; want false", last, err)
			}
		})
	}
}

// TestReplays_OtherProcessClaimsFirst makes the first call fail before Redis records the claim.
func TestReplays_OtherProcessClaimsFirst(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	var down atomic.Bool
	down.Store(true)
	store := newStore(t, newClient(t, &redis.Options{MaxRetries: -1, DialerRetries: 1, Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
		if down.Load() {
			return nil, errors.New("connection refused")
		}
		return srv.dial(ctx, "", "")
	}}), &redisstore.Options{Timeout: time.Minute})
	if _, err := store.Claim(t.Context(), messageID, time.Minute); err == nil {
		t.Fatal("a claim without Redis returned no error")
	}
	other, err := srv.store(t).Claim(t.Context(), messageID, time.Minute)
	if !other || err != nil {
		t.Fatalf("other process: fresh = %v, error = %v; want true", other, err)
	}
	down.Store(false)

	for range 2 {
		if fresh, err := store.Claim(t.Context(), messageID, time.Minute); fresh || err != nil {
			t.Errorf("fresh = %v, error = %v; want false: the other process accepted the message", fresh, err)
		}
	}
	if n := store.OpenClaims(); n != [2]int{0, 1} {
		t.Errorf("open claims = %d, want 0 and 1", n)
	}
}

// TestReplays_LimitsOpenClaims tests the number of claims in memory during and after an outage.
func TestReplays_LimitsOpenClaims(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	var reply error
	client := unreachableClient(t)
	client.AddHook(hookFunc(func(cmd redis.Cmder) error {
		if set, ok := cmd.(*redis.BoolCmd); ok && reply == nil {
			set.SetVal(true)
		}
		return reply
	}))
	store := newStore(t, client, &redisstore.Options{Timeout: 2 * time.Second})
	synctest.Test(t, func(t *testing.T) {
		claim := func(i int) {
			if fresh, err := store.Claim(t.Context(), [32]byte{byte(i), byte(i >> 8), byte(i >> 16)}, 11*time.Second); fresh == (reply != nil) || (err == nil) != (reply == nil) {
				t.Fatalf("claim %d: fresh = %v, error = %v; want true, or an error during the outage", i, fresh, err)
			}
		}
		for i := range 10 {
			claim(i)
		}
		if n := store.OpenClaims(); n != [2]int{} {
			t.Errorf("open claims after successful ones = %d, want none", n)
		}
		reply = down

		for i := range redisstore.MaxOpenClaims + 10 {
			claim(i)
			claim(i)
		}
		duringOutage := store.OpenClaims()
		time.Sleep(13 * time.Second) // of the bubble's clock; records live for 13 s
		reply = nil
		claim(1 << 20)
		before := store.OpenClaims()
		time.Sleep(time.Nanosecond) // of the bubble's clock: records expire after 13 s, not at 13 s
		claim(1<<20 + 1)
		after := store.OpenClaims()

		if duringOutage != [2]int{redisstore.MaxOpenClaims, redisstore.MaxOpenClaims} || before != duringOutage || after != [2]int{} {
			t.Errorf("open claims = %d in the outage, %d when their records expire, %d afterwards; want %d, the same, none", duringOutage, before, after, redisstore.MaxOpenClaims)
		}
	})
}

// TestReplays_FailsAgainAtExpiry makes a call fail that began before the record of an earlier
// failed call expired. Redis may have recorded its value, so the next call must use it too.
func TestReplays_FailsAgainAtExpiry(t *testing.T) {
	t.Parallel()
	var delay time.Duration
	values := make(map[any]int) // calls by the value of messageID
	client := unreachableClient(t)
	client.AddHook(hookFunc(func(cmd redis.Cmder) error {
		if strings.Contains(fmt.Sprint(cmd.Args()[1]), ":010203") {
			values[cmd.Args()[2]]++
		}
		time.Sleep(delay) // of the bubble's clock
		return errors.New("connection lost")
	}))
	store := newStore(t, client, &redisstore.Options{Timeout: 2 * time.Second})
	synctest.Test(t, func(t *testing.T) {
		claim := func(id [32]byte) {
			if fresh, err := store.Claim(t.Context(), id, 11*time.Second); fresh || err == nil {
				t.Errorf("fresh = %t, error = %v; want an error", fresh, err)
			}
		}
		claim(messageID)
		time.Sleep(12500 * time.Millisecond) // the record expires after 13 s
		delay = time.Second
		var second sync.WaitGroup
		second.Go(func() { claim(messageID) })
		time.Sleep(750 * time.Millisecond)
		claim([32]byte{4}) // removes expired claims
		second.Wait()
		delay = 0
		claim(messageID)

		if len(values) != 1 {
			t.Errorf("calls by value = %v, want one value", values)
		}
	})
}

// hookFunc processes commands instead of a server.
type hookFunc func(redis.Cmder) error

func (h hookFunc) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hookFunc) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		err := h(cmd)
		cmd.SetErr(err)
		return err
	}
}

func (h hookFunc) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// TestReplays_RecoversFromHookPanic makes a hook of the client panic or call runtime.Goexit in a
// goroutine of the store.
func TestReplays_RecoversFromHookPanic(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		fail func()
		want string
	}{
		{"panic", func() { panic("secret") }, "client panicked with a value of type string"},
		{"Goexit", runtime.Goexit, "client called runtime.Goexit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := unreachableClient(t)
			client.AddHook(hookFunc(func(redis.Cmder) error { tt.fail(); return nil }))
			store := newStore(t, client, &redisstore.Options{Timeout: time.Minute})

			fresh, err := store.Claim(t.Context(), messageID, time.Minute)
			checked := store.Check(t.Context())

			if want := "redisstore: claim: " + tt.want; fresh || err == nil || err.Error() != want {
				t.Errorf("fresh = %v, error = %v; want %q", fresh, err, want)
			}
			if want := "redisstore: check: " + tt.want; checked == nil || checked.Error() != want {
				t.Errorf("error of Check = %v, want %q", checked, want)
			}
		})
	}
}
