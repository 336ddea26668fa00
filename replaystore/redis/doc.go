// Package redis keeps a verifier's replay claims in Redis, so that the many processes behind one callback URL refuse a copy of a message whichever of them saw the first.
//
// It is a [signature.ReplayStore] over a go-redis client of yours, whose name this package shares: import one of the two under another name.
//
//	replays, err := redis.New(goredis.NewClient(&goredis.Options{Addr: "redis:6379"}), nil)
//	…
//	verifier, err := signature.NewVerifier(keys, hosts, &signature.VerifierOptions{Replay: replays})
//
// A claim is one command, SET key value PX ttl NX, and lives for about 13 seconds at the default
// clock skew: a thousand messages a second need about 3 MB.
//
// # Configure Redis
//
// A claim that Redis drops early lets a copy in, and your handler is called a second time with the
// same check ID. To keep all claims, set maxmemory-policy noeviction. A full Redis then returns an
// error, and the service sends the message again. [Store.Check] reports any other policy. Call
// it at start, fail the deployment on [ErrEviction], and log any other error and go on. To keep claims across a restart, set appendonly yes and appendfsync always. A failover
// to a replica that lagged behind loses the claims that it had not received.
//
// # When Redis is unavailable
//
// Claim returns an error, the verifier responds with 503, and the service sends the callback again,
// with a new signature, 10, 20, 30, 40 and 50 seconds later. Nothing is lost in an outage of up to two and a
// half minutes, and nothing is accepted unchecked. A redirect is not sent again, but its user can
// reload it within the clock skew: a claim that Redis recorded although Claim returned an error
// passes to at most one later call in the same process. A reload that reaches another process is
// rejected as a replay.
package redis
