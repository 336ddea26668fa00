// Package redis keeps a verifier's replay claims in Redis, so that the many processes behind one callback URL refuse a copy of a message whichever of them saw the first.
//
// It is a [signature.ReplayStore] over a go-redis client of yours, whose name this package shares: import one of the two under another name.
//
//	replays, err := redis.New(goredis.NewClient(&goredis.Options{Addr: "redis:6379"}), nil)
//	…
//	verifier, err := signature.NewVerifier(keys, hosts, &signature.VerifierOptions{Replay: replays})
//
// A claim is one command, SET key value PX ttl NX, and lives for about 13 seconds at the default clock skew: a thousand
// messages a second need about 3 MB.
//
// # What Redis must be set to
//
// A claim that Redis forgets early lets a copy in, and a copy that is let in reaches your handler a second time, which is idempotent on the check id anyhow.
// So that it forgets none, set maxmemory-policy noeviction (a full Redis then answers an error, and the message stays undecided: it is tried again) and, for restarts, appendonly yes with appendfsync always. A failover to a replica that lagged behind forgets what it had not seen.
//
// # When Redis is out of reach
//
// Claim fails, the verifier answers 503, and the service sends the callback again: 10, 20, 30, 40 and 50 seconds later, signed afresh. Nothing is lost in an outage of up to two and a half minutes, and nothing is accepted unchecked.
package redis
