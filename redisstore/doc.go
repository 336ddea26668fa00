// Package redisstore stores the replay claims of a verifier in Redis. All processes that serve one
// host then reject a copy of a message, whichever process received the first one. Use it for
// redirects; callbacks need no replay store if you process each check ID once, as with module inbox.
//
// [Replays] implements [signature.ReplayStore] with a client of go-redis:
//
//	replays, err := redisstore.NewReplays(redis.NewClient(&redis.Options{Addr: "redis:6379"}), nil)
//	…
//	verifier, err := signature.NewVerifier(keys, hosts, &signature.VerifierOptions{Replay: replays})
//
// A claim is one SET command with NX and an expiry of about 13 seconds at the default clock skew.
// A thousand messages per second need about 3 MB.
//
// # Configure Redis
//
// If Redis evicts a claim before it expires, the verifier accepts a copy of the message, and your
// handler is called a second time with the same check ID. Set maxmemory-policy noeviction to keep
// all claims. If Redis is full, it then returns an error, and the service sends the callback again.
// [Replays.Check] returns [ErrEviction] for any other policy, unless maxmemory is not set. Call it at
// startup, fail the deployment on ErrEviction, and log any other error and continue.
//
// To keep claims across a restart, set appendonly yes and appendfsync always. A failover loses the
// claims that the new master had not yet received.
//
// # When Redis is unavailable
//
// Claim returns an error, the verifier responds with 503, and the service sends the callback again
// after 10, 20, 30, 40 and 50 seconds, each time with a new signature. No callback is lost in an
// outage of up to two and a half minutes, and none is accepted without a claim.
//
// The service does not send a redirect again, but the user can reload it within the clock skew.
// Redis may have recorded a claim although Claim returned an error. Then at most one later call in
// the same process succeeds. A reload that reaches another process is rejected as a replay.
package redisstore
