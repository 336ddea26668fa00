package redisstore_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/redisstore"
)

// isCheckError reports whether err is want and no other error of Check.
func isCheckError(err, want error) bool {
	if want == nil {
		return err == nil
	}
	for _, result := range []error{redisstore.ErrEviction, redisstore.ErrPolicyUnknown} {
		if errors.Is(err, result) != (result == want) {
			return false
		}
	}
	return strings.HasPrefix(err.Error(), "redisstore: check: ")
}

func TestReplays_Check(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	admin := srv.client(t)
	if err := srv.store(t).Check(t.Context()); err != nil {
		t.Errorf("default configuration: error = %v, want none", err)
	}
	for _, tt := range []struct {
		maxmemory, policy string
		want              error
	}{
		{"100mb", "noeviction", nil},
		{"0", "allkeys-lru", nil},
		{"100mb", "allkeys-lru", redisstore.ErrEviction},
		{"100mb", "allkeys-lfu", redisstore.ErrEviction},
		{"100mb", "allkeys-random", redisstore.ErrEviction},
		{"100mb", "volatile-lru", redisstore.ErrEviction},
		{"100mb", "volatile-lfu", redisstore.ErrEviction},
		{"100mb", "volatile-random", redisstore.ErrEviction},
		{"100mb", "volatile-ttl", redisstore.ErrEviction},
		{"1", "noeviction", nil}, // full
	} {
		noError(t, errors.Join(
			admin.ConfigSet(t.Context(), "maxmemory", tt.maxmemory).Err(),
			admin.ConfigSet(t.Context(), "maxmemory-policy", tt.policy).Err(),
		))

		err := srv.store(t).Check(t.Context())

		if !isCheckError(err, tt.want) {
			t.Errorf("maxmemory %s, %s: error = %v, want %v", tt.maxmemory, tt.policy, err, tt.want)
		}
		if err != nil && !strings.Contains(err.Error(), "maxmemory-policy is \""+tt.policy+"\"") {
			t.Errorf("error = %v, want the policy %s", err, tt.policy)
		}
	}
}

func TestReplays_CheckWithoutPermission(t *testing.T) {
	t.Parallel()
	srv := startServer(t, "--user", "default", "on", "nopass", "~*", "+@all", "-info")
	store := srv.store(t)

	err := store.Check(t.Context())

	if !isCheckError(err, redisstore.ErrPolicyUnknown) {
		t.Errorf("error = %v, want ErrPolicyUnknown", err)
	}
	if fresh, err := store.Claim(t.Context(), messageID, time.Minute); !fresh || err != nil {
		t.Errorf("claim: fresh = %v, error = %v; want true", fresh, err)
	}
}

// redisError is an error reply of Redis.
type redisError string

func (e redisError) Error() string { return string(e) }
func (redisError) RedisError()     {}

// TestReplays_CheckUnusualReplies checks replies that the Redis server of the tests does not send.
func TestReplays_CheckUnusualReplies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, info string
		reply      error
		want       error
	}{
		{"no policy", "# Memory\r\nused_memory:1\r\nmaxmemory:100\r\n", nil, redisstore.ErrPolicyUnknown},
		{"policy without limit", "maxmemory_policy:volatile-lru\r\n", nil, redisstore.ErrEviction},
		{"noeviction without limit", "maxmemory_policy:noeviction\r\n", nil, nil},
		{"empty", "", nil, redisstore.ErrPolicyUnknown},
		{"command renamed", "", redisError("ERR unknown command 'info', with args beginning with: 'memory'"), redisstore.ErrPolicyUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := unreachableClient(t)
			client.AddHook(hookFunc(func(cmd redis.Cmder) error { cmd.(*redis.StringCmd).SetVal(tt.info); return tt.reply }))

			err := newStore(t, client, nil).Check(t.Context())

			if !isCheckError(err, tt.want) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
		})
	}
}

// otherClient is a client of another type, such as one that adds metrics.
type otherClient struct{ redis.UniversalClient }

func TestReplays_CheckUnknownClientType(t *testing.T) {
	t.Parallel()
	srv := startServer(t)

	err := newStore(t, otherClient{srv.client(t)}, nil).Check(t.Context())

	if !isCheckError(err, redisstore.ErrPolicyUnknown) || !strings.Contains(err.Error(), "client is a redisstore_test.otherClient") {
		t.Errorf("error = %v, want ErrPolicyUnknown and the type of the client", err)
	}
}

// TestReplays_CheckAllServers verifies that Check returns ErrEviction if only the second of two
// servers evicts keys.
func TestReplays_CheckAllServers(t *testing.T) {
	t.Parallel()
	keeps := startServer(t)
	evicts := startServer(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lfu")
	sockets := map[string]string{"keeps.test:6379": keeps.socket(), "evicts.test:6379": evicts.socket()}
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", sockets[addr])
	}
	cluster := func(names ...string) redis.UniversalClient {
		slots := make([]redis.ClusterSlot, len(names))
		for i, name := range names {
			slots[i] = redis.ClusterSlot{Start: i * 8192, End: i*8192 + 8191, Nodes: []redis.ClusterNode{{Addr: name + ".test:6379"}}}
		}
		client := redis.NewClusterClient(&redis.ClusterOptions{
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return slots, nil },
			Dialer:       dial,
		})
		t.Cleanup(func() { client.Close() })
		return client
	}
	ring := func(names ...string) redis.UniversalClient {
		addrs := make(map[string]string)
		for _, name := range names {
			addrs[name] = name + ".test:6379"
		}
		client := redis.NewRing(&redis.RingOptions{Addrs: addrs, Dialer: dial})
		t.Cleanup(func() { client.Close() })
		return client
	}
	for name, tt := range map[string]struct {
		client redis.UniversalClient
		want   error
	}{
		"cluster that keeps claims":         {cluster("keeps"), nil},
		"cluster with one that evicts them": {cluster("keeps", "evicts"), redisstore.ErrEviction},
		"ring that keeps claims":            {ring("keeps"), nil},
		"ring with one that evicts them":    {ring("keeps", "evicts"), redisstore.ErrEviction},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			err := newStore(t, tt.client, &redisstore.Options{Timeout: time.Minute}).Check(t.Context())

			if !isCheckError(err, tt.want) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
		})
	}
}

func TestReplays_CheckRingDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ring := redis.NewRing(&redis.RingOptions{
			Addrs:       map[string]string{"a": "192.0.2.1:6379", "b": "192.0.2.2:6379"},
			HeartbeatFn: func(context.Context, *redis.Client) bool { return false },
		})
		defer ring.Close()
		time.Sleep(time.Minute) // of the bubble's clock, until the ring has marked its shards down

		err := newStore(t, ring, nil).Check(t.Context())

		if err == nil || err.Error() != "redisstore: check: all shards of the ring are down (check that its servers run)" {
			t.Errorf("error = %v, want that all shards are down", err)
		}
	})
}

func TestNewReplays_SendsNothing(t *testing.T) {
	t.Parallel()
	var dials atomic.Int32
	client := newClient(t, &redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		return nil, errors.New("connection refused")
	}})

	newStore(t, client, nil)

	if dials.Load() != 0 {
		t.Errorf("NewReplays connected %d times, want 0", dials.Load())
	}
}
