package redisstore_test

import (
	"context"
	"errors"
	"fmt"
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

func TestReplays_ConcurrentClaims(t *testing.T) {
	t.Parallel()
	const replicas, claims = 16, 50
	srv := startServer(t)
	stores := make([]*redisstore.Replays, replicas)
	for i := range stores {
		stores[i] = srv.store(t)
	}

	fresh, failed := claimConcurrently(t, claims, stores...)
	again, againErr := srv.store(t).Claim(t.Context(), messageID, time.Minute)
	other, otherErr := srv.store(t).Claim(t.Context(), [32]byte{4}, time.Minute)

	if fresh != 1 || failed != 0 {
		t.Errorf("%d of %d claims are fresh, %d failed; want 1 and 0: a callback is handled for each fresh claim", fresh, replicas*claims, failed)
	}
	if err := errors.Join(againErr, otherErr); again || !other || err != nil {
		t.Errorf("later claims: fresh = %v, for another message %v, error = %v; want false, true", again, other, err)
	}
}

// claimConcurrently claims the same message a number of times with each store, and returns how many
// claims were fresh and how many failed.
func claimConcurrently(t testing.TB, claims int, stores ...*redisstore.Replays) (fresh, failed int32) {
	t.Helper()
	var freshClaims, failedClaims atomic.Int32
	var wg sync.WaitGroup
	for _, store := range stores {
		for range claims {
			wg.Go(func() {
				switch ok, err := store.Claim(t.Context(), messageID, time.Minute); {
				case err != nil:
					failedClaims.Add(1)
				case ok:
					freshClaims.Add(1)
				}
			})
		}
	}
	wg.Wait()
	return freshClaims.Load(), failedClaims.Load()
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
	lost := newLostReplies(1)
	store := newStore(t, lost.client(t, srv, 0), &redisstore.Options{Timeout: time.Minute})

	fresh, err := store.Claim(t.Context(), messageID, time.Minute)
	again, againErr := store.Claim(t.Context(), messageID, time.Minute)

	if lost.count() != 1 {
		t.Fatal("no reply was lost")
	}
	if !fresh || err != nil {
		t.Errorf("fresh = %v, error = %v; want true: no other call has claimed it", fresh, err)
	}
	if again || againErr != nil {
		t.Errorf("copy: fresh = %v, error = %v; want false", again, againErr)
	}
}

// TestStores_RedisUnavailable calls every method of both stores.
func TestStores_RedisUnavailable(t *testing.T) {
	t.Parallel()
	closed := unreachableClient(t)
	closed.Close()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
		return nil, &net.DNSError{Err: "no such host", Name: "redis.internal"}
	}})
	t.Cleanup(func() { cluster.Close() })
	for _, tt := range []struct {
		name   string
		client redis.UniversalClient
		limit  time.Duration
		want   string
	}{
		{"unreachable", unreachableClient(t), time.Minute, "dial: connect: no such file or directory"},
		{"silent", silentClient(t), time.Millisecond, "no response from Redis within 1ms (Options.Timeout)"},
		{"closed", closed, time.Minute, "redis: client is closed"},
		{"node of a cluster", failingClient(t, redisError("MOVED 3999 10.0.0.7:6381")), time.Minute, "server belongs to a cluster (use a ClusterClient)"},
		{"node of a cluster, slot migrating", failingClient(t, redisError("ASK 3999 10.0.0.7:6381")), time.Minute, "server belongs to a cluster (use a ClusterClient)"},
		{"unknown host", failingClient(t, &net.DNSError{Err: "no such host", Name: "redis.internal"}), time.Minute, "host lookup failed: no such host"},
		{"unreachable cluster", cluster, time.Minute, "host lookup failed: no such host"},
		{"loading", failingClient(t, redisError("LOADING Redis is loading the dataset in memory")), time.Minute, "LOADING Redis is loading the dataset in memory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			opts := &redisstore.Options{Timeout: tt.limit}
			store, flows := newStore(t, tt.client, opts), newFlows(t, tt.client, opts)

			fresh, claimed := store.Claim(t.Context(), messageID, time.Minute)
			available, added := flows.Available(t.Context()), flows.Add(t.Context(), newFlow("check"), time.Hour)
			_, _, flowClaimed := flows.Claim(t.Context(), "check", [32]byte{}, true)
			finished, finishErr := flows.Finish(t.Context(), "check")

			if fresh || finished {
				t.Errorf("fresh = %t, finished = %t; want false", fresh, finished)
			}
			for operation, err := range map[string]error{
				"claim": claimed, "check": store.Check(t.Context()), "find room for a flow": available, "add flow": added, "claim flow": flowClaimed, "finish flow": finishErr,
			} {
				if err == nil || err.Error() != "redisstore: "+operation+": "+tt.want {
					t.Errorf("error = %v, want operation %q and %q", err, operation, tt.want)
				}
				if errors.Is(err, context.DeadlineExceeded) != (tt.name == "silent") || errors.Is(err, redisstore.ErrEviction) || errors.Is(err, redisstore.ErrPolicyUnknown) {
					t.Errorf("error = %v, want context.DeadlineExceeded after a timeout only, and no result of Check", err)
				}
				for e := err; e != nil; e = errors.Unwrap(e) { // a tool may log all of them
					if text := fmt.Sprintf("%v %#v", e, e); strings.Contains(text, "/none") || strings.Contains(text, "10.0") || strings.Contains(text, ".internal") {
						t.Errorf("error %v wraps %s, which contains an address", err, text)
					}
				}
			}
		})
	}
}

// TestStores_KeyDisappears makes a key expire between SET, which finds it, and GET.
func TestStores_KeyDisappears(t *testing.T) {
	t.Parallel()
	client := unreachableClient(t)
	client.AddHook(hookFunc(func(cmd redis.Cmder) error {
		if cmd.Name() == "get" {
			return redis.Nil
		}
		return nil
	}))

	_, claimed := newStore(t, client, nil).Claim(t.Context(), messageID, time.Minute)
	added := newFlows(t, client, nil).Add(t.Context(), newFlow("check"), time.Hour)

	for operation, err := range map[string]error{"claim": claimed, "add flow": added} {
		if want := "redisstore: " + operation + ": key disappeared (it expired, or Redis evicted it)"; fmt.Sprint(err) != want {
			t.Errorf("error = %v, want %s: the message or flow may be new", err, want)
		}
	}
}

// failingClient returns a client whose commands all fail with err.
func failingClient(t testing.TB, err error) *redis.Client {
	t.Helper()
	client := unreachableClient(t)
	client.AddHook(hookFunc(func(redis.Cmder) error { return err }))
	return client
}

func TestNew_InvalidArguments(t *testing.T) {
	t.Parallel()
	for name, create := range map[string]func(redis.UniversalClient, *redisstore.Options) error{
		"replays": func(c redis.UniversalClient, opts *redisstore.Options) error {
			_, err := redisstore.NewReplays(c, opts)
			return err
		},
		"flows": func(c redis.UniversalClient, opts *redisstore.Options) error {
			_, err := redisstore.NewFlows(c, opts)
			return err
		},
	} {
		noClient, negative := create(nil, nil), create(unreachableClient(t), &redisstore.Options{Timeout: -1})

		for err, want := range map[error]string{noClient: "client is nil", negative: "Options.Timeout must not be negative"} {
			if err == nil || err.Error() != "redisstore: new "+name+": "+want {
				t.Errorf("error = %v, want %q of new %s", err, want, name)
			}
		}
	}
}
