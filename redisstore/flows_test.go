package redisstore_test

import (
	"bytes"
	"context"
	"crypto/sha256"
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

	"github.com/idverify/idverify-go/checkflow"
	"github.com/idverify/idverify-go/checkflow/storetest"
	"github.com/idverify/idverify-go/internal/killtest"
	"github.com/idverify/idverify-go/redisstore"
)

func TestFlows(t *testing.T) {
	t.Parallel()
	srv := startServer(t)

	storetest.Run(t, func(t *testing.T) checkflow.Store {
		return killtest.Alternate(srv.flows(t), srv.flows(t))
	})
}

// TestFlows_Killed kills the processes that share the flows, and Redis once.
func TestFlows_Killed(t *testing.T) {
	t.Parallel()
	srv := startServer(t, "--appendonly", "yes", "--appendfsync", "always")

	killtest.Run(t, srv.flows(t), srv.socket(), func() error {
		srv.kill()
		srv.start(t)
		return nil
	})
}

// openFlows returns the store of a process of TestFlows_Killed.
func openFlows(_ context.Context, socket string) (checkflow.Store, error) {
	return redisstore.NewFlows(redis.NewClient(&redis.Options{Network: "unix", Addr: socket}), &redisstore.Options{Timeout: time.Minute})
}

// TestFlows_RedisFull checks that a full Redis rejects new flows and completes the others.
func TestFlows_RedisFull(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	flows, admin := srv.flows(t), srv.client(t)
	f := newFlow("live")
	if err := flows.Add(t.Context(), f, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := admin.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}

	available, added := flows.Available(t.Context()), flows.Add(t.Context(), newFlow("another"), time.Hour)
	claimed, reason, claimErr := flows.Claim(t.Context(), f.CheckID, f.Owner, true)
	finished, finishErr := flows.Finish(t.Context(), f.CheckID)

	if !errors.Is(available, checkflow.ErrFull) || !errors.Is(added, checkflow.ErrFull) {
		t.Errorf("Available = %v, Add = %v; want ErrFull", available, added)
	}
	f.State = checkflow.StateClaimed
	if claimed != f || reason != "" || !finished || claimErr != nil || finishErr != nil {
		t.Errorf("Claim = %+v, %q, %v; Finish = %t, %v; want success: the check was charged", claimed, reason, claimErr, finished, finishErr)
	}
	if ttl, err := admin.PTTL(t.Context(), "idverify:flow:live").Result(); err != nil || ttl <= 50*time.Minute || ttl > time.Hour {
		t.Errorf("TTL after Claim and Finish = %s, error %v; want an hour", ttl, err)
	}
}

// TestFlows_LostReplies loses the first reply to each command of the store, so that the client
// sends it again after Redis has processed it.
func TestFlows_LostReplies(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	lost := &lostReplies{seen: make(map[string]bool)}
	flows := newFlows(t, newClient(t, &redis.Options{Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", srv.socket())
		return &lostConn{Conn: conn, replies: lost}, err
	}}), &redisstore.Options{Timeout: time.Minute})
	f := newFlow("check")

	added := flows.Add(t.Context(), f, time.Hour)
	_, reason, claimErr := flows.Claim(t.Context(), f.CheckID, f.Owner, true)
	finished, finishErr := flows.Finish(t.Context(), f.CheckID)
	again, againErr := flows.Finish(t.Context(), f.CheckID)

	if n := lost.number.Load(); n < 4 {
		t.Errorf("%d replies were lost, want those of SET, of two changes, and of reads", n)
	}
	if added != nil || reason != "" || !finished || again || errors.Join(claimErr, finishErr, againErr) != nil {
		t.Errorf("Add = %v; Claim = %q, %v; Finish = %t, %v, then %t, %v; want success once", added, reason, claimErr, finished, finishErr, again, againErr)
	}
}

// lostReplies loses the reply to each command that it has not seen.
type lostReplies struct {
	number atomic.Int32

	mu   sync.Mutex // guards seen
	seen map[string]bool
}

type lostConn struct {
	net.Conn
	replies *lostReplies
	lose    bool
}

func (c *lostConn) Write(b []byte) (int, error) {
	c.replies.mu.Lock()
	if text := string(b); (bytes.Contains(b, []byte("\r\nset\r\n")) || bytes.Contains(b, []byte("\r\neval\r\n"))) && !c.replies.seen[text] {
		c.replies.seen[text], c.lose = true, true
	}
	c.replies.mu.Unlock()
	return c.Conn.Write(b)
}

func (c *lostConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.lose {
		c.replies.number.Add(1)
		c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

func TestFlows_RedisUnavailable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		client redis.UniversalClient
		limit  time.Duration
		want   string
	}{
		{"unreachable", unreachableClient(t), time.Minute, "dial: connect: no such file or directory"},
		{"silent", silentClient(t), time.Millisecond, "no response from Redis within 1ms (Options.Timeout)"},
		{"unknown host", failingClient(t, &net.DNSError{Err: "no such host", Name: "redis.internal"}), time.Minute, "host lookup failed: no such host"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			flows := newFlows(t, tt.client, &redisstore.Options{Timeout: tt.limit})

			available, added := flows.Available(t.Context()), flows.Add(t.Context(), newFlow("check"), time.Hour)
			_, _, claimed := flows.Claim(t.Context(), "check", sha256.Sum256(nil), true)
			_, finished := flows.Finish(t.Context(), "check")

			for operation, err := range map[string]error{"find room for a flow": available, "add flow": added, "claim flow": claimed, "finish flow": finished} {
				if err == nil || err.Error() != "redisstore: "+operation+": "+tt.want {
					t.Errorf("error = %v, want operation %q and %q", err, operation, tt.want)
				}
				for e := err; e != nil; e = errors.Unwrap(e) {
					if text := fmt.Sprintf("%v %#v", e, e); strings.Contains(text, "/none") || strings.Contains(text, ".internal") {
						t.Errorf("error %v wraps %s, which contains an address", err, text)
					}
				}
			}
		})
	}
}

// TestFlows_UnknownValue uses a prefix that another program uses, too.
func TestFlows_UnknownValue(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	flows := srv.flows(t)
	for _, value := range []string{"text", "{}", `{"owner":"YQ=="}`} {
		if err := srv.client(t).Set(t.Context(), "idverify:flow:check", value, time.Hour).Err(); err != nil {
			t.Fatal(err)
		}

		_, _, claimed := flows.Claim(t.Context(), "check", [32]byte{}, true)
		finished, err := flows.Finish(t.Context(), "check")

		if claimed == nil || finished || err == nil || !strings.Contains(err.Error(), "Options.Prefix") {
			t.Errorf("value %q: Claim: error %v; Finish = %t, %v; want errors that name Options.Prefix", value, claimed, finished, err)
		}
	}
}

func TestNewFlows_InvalidArguments(t *testing.T) {
	t.Parallel()

	_, noClient := redisstore.NewFlows(nil, nil)
	_, negative := redisstore.NewFlows(unreachableClient(t), &redisstore.Options{Timeout: -1})

	if noClient == nil || negative == nil {
		t.Errorf("errors = %v for a nil client, %v for a negative timeout; want errors", noClient, negative)
	}
}

func newFlow(checkID string) checkflow.Flow {
	return checkflow.Flow{CheckID: checkID, Owner: sha256.Sum256([]byte("owner")), State: checkflow.StateStarted, PhoneNumber: "447700900000"}
}

func newFlows(t testing.TB, client redis.UniversalClient, opts *redisstore.Options) *redisstore.Flows {
	t.Helper()
	flows, err := redisstore.NewFlows(client, opts)
	if err != nil {
		t.Fatal(err)
	}
	return flows
}
