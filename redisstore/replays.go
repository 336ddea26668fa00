package redisstore

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idverify/idverify-go/signature"
)

// Replays is a [signature.ReplayStore] in Redis. It is safe for concurrent use, and any number of
// processes may share one Redis.
type Replays struct {
	server
	open openClaims
}

var _ signature.ReplayStore = (*Replays)(nil)

// NewReplays returns a store that uses client: a Client, a ClusterClient, a Ring or a failover
// client. The caller closes the client when the store is no longer used. NewReplays does not
// connect to Redis; call [Replays.Check] to check its configuration. opts may be nil.
func NewReplays(client redis.UniversalClient, opts *Options) (*Replays, error) {
	s, err := newServer(client, opts, "idverify:replay:")
	if err != nil {
		return nil, fmt.Errorf("redisstore: new replays: %w", err)
	}
	return &Replays{server: s, open: newOpenClaims()}, nil
}

// Claim implements [signature.ReplayStore]. If Redis is unavailable, full, or does not reply in
// time, it returns an error that matches the error of the client or of ctx.
//
// Redis may have recorded a claim although Claim returned an error. At most one later call of this
// store then returns true, so that a user can reload a redirect after the error. After a restart,
// or if too many claims failed before it, no later call returns true until the record expires.
func (s *Replays) Claim(ctx context.Context, id [32]byte, ttl time.Duration) (fresh bool, err error) {
	// The claim of a copy that was received in time can take up to the timeout.
	ttl = max(ttl, 0) + s.timeout
	claim := s.open.begin(id)
	recorded, err := withTimeout(ctx, s.timeout, func(ctx context.Context) (bool, error) {
		recorded, err := s.record(ctx, s.prefix+hex.EncodeToString(id[:]), claim.value, ttl)
		return recorded, replaceTimeout(ctx, err)
	})
	fresh = s.open.end(claim, recorded, err, ttl)
	if err != nil {
		return false, fmt.Errorf("redisstore: claim: %w", redacted(err))
	}
	return fresh, nil
}
