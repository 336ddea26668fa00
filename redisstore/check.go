package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Errors of Check. Test for them with [errors.Is].
var (
	// ErrEviction means that Redis evicts keys when its memory is full. After a claim was evicted, a
	// copy of its message is accepted, so fail the deployment.
	ErrEviction = errors.New("keys may be evicted before they expire (set maxmemory-policy noeviction)")

	// ErrPolicyUnknown means that Check cannot read the policy. Log it, continue, and check the
	// configuration of Redis by other means.
	ErrPolicyUnknown = errors.New("cannot read the eviction policy (allow the command INFO, or check that maxmemory-policy is noeviction)")
)

// Check reports whether Redis keeps claims and flows until they expire. Call it at startup. It
// sends INFO to the server, to each master of a cluster, or to each shard of a ring that the ring
// has not marked down, and returns
//   - nil if maxmemory-policy is noeviction or maxmemory is not set,
//   - an error that wraps [ErrEviction] and contains the policy if it is not noeviction,
//   - an error that wraps [ErrPolicyUnknown] if the user may not send INFO, if the reply does not
//     contain the policy, as with some managed services, or if the client is not a Client,
//     ClusterClient or Ring,
//   - another error if Redis is unavailable: the client's, or that all shards of a ring are down.
//
// Fail the deployment on ErrEviction. Log any other error and continue: while Redis is unavailable,
// claims fail, no message is accepted and no check starts.
//
// Check returns within Options.Timeout.
func (s *server) Check(ctx context.Context) error {
	_, err := withTimeout(ctx, s.timeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, checkPolicies(ctx, s.client)
	})
	if err != nil {
		return fmt.Errorf("redisstore: check: %w", err)
	}
	return nil
}

// checkPolicies checks every server that stores keys, and returns each distinct error once.
func checkPolicies(ctx context.Context, client redis.UniversalClient) error {
	var mu sync.Mutex // guards found
	var found []error
	check := func(ctx context.Context, server *redis.Client) error {
		if err := checkPolicy(ctx, server); err != nil {
			mu.Lock()
			defer mu.Unlock()
			if !slices.ContainsFunc(found, func(e error) bool { return e.Error() == err.Error() }) {
				found = append(found, err)
			}
		}
		return nil // check the other servers, too
	}
	var err error
	switch c := client.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(ctx, check)
	case *redis.Ring:
		if err = c.ForEachShard(ctx, check); c.Len() == 0 {
			err = errors.New("all shards of the ring are down (check that its servers run)") // and ForEachShard skipped them
		}
	case *redis.Client:
		err = check(ctx, c)
	default:
		return fmt.Errorf("client is a %T: %w", client, ErrPolicyUnknown)
	}
	if err != nil {
		found = append(found, redacted(replaceTimeout(ctx, err)))
	}
	return errors.Join(found...)
}

// checkPolicy checks the policy of one server.
func checkPolicy(ctx context.Context, server *redis.Client) error {
	info, err := server.Info(ctx, "memory").Result()
	if err != nil {
		if _, replied := errors.AsType[redis.Error](err); replied && (strings.HasPrefix(err.Error(), "NOPERM") || strings.HasPrefix(err.Error(), "ERR unknown command")) {
			return ErrPolicyUnknown
		}
		return redacted(replaceTimeout(ctx, err))
	}
	fields := make(map[string]string)
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	policy := fields["maxmemory_policy"]
	switch {
	case policy == "noeviction" || fields["maxmemory"] == "0":
		return nil
	case policy == "":
		return ErrPolicyUnknown
	}
	return fmt.Errorf("maxmemory-policy is %q: %w", policy, ErrEviction)
}
