// Package redisstore stores in Redis what several processes of a backend share: the flows of
// package checkflow, and the replay claims of a verifier. It uses a client of go-redis.
//
// # Flows
//
// [Flows] implements [checkflow.Store], so that a person can start a check in one process and
// return to another:
//
//	flows, err := redisstore.NewFlows(redis.NewClient(&redis.Options{Addr: "redis:6379"}), nil)
//	…
//	web, err := checkflow.NewWeb(checkflow.Config{Store: flows, …})
//
// Each method is one command or script, on Redis 5 or newer. A flow is one key, which contains
// the phone number but not the session's token. It expires a minute after the check does. With
// Flows, the verifier of redirects needs no replay store.
//
// # Replay claims
//
// With [Replays], all processes that serve one host reject a copy of a message, whichever process
// received the first one. Use it for redirects without package checkflow; callbacks need no replay
// store if you process each check ID once, as with module inbox. Replays implements
// [signature.ReplayStore]:
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
// handler is called a second time with the same check ID. If it evicts a flow, the person must
// start again. Set maxmemory-policy noeviction to keep all claims and flows. If Redis is full, it
// then returns an error: the service sends the callback again, and no check starts.
// [Replays.Check] and [Flows.Check] return [ErrEviction] for any other policy, unless maxmemory is
// not set. Call one at startup, fail the deployment on ErrEviction, and log any other error and
// continue.
//
// To keep claims and flows across a restart, set appendonly yes and appendfsync always. A failover
// loses what the new master had not yet received. After a lost claim, the same person can be signed
// in twice, but only if the response to the second exchange is lost, too: the service accepts each
// code once. After a lost revocation, the person who started the check can sign in although another
// browser opened its link. Flows does not send WAIT: to exclude this, do not fail over
// automatically, or use a database with synchronous replicas.
//
// # When Redis is unavailable
//
// The methods of Flows return an error: no check starts, and a return has no verdict.
//
// Claim of Replays returns an error, the verifier responds with 503, and the service sends the
// callback again after 10, 20, 30, 40 and 50 seconds, each time with a new signature. No callback
// is lost in an outage of up to two and a half minutes, and none is accepted without a claim.
//
// The service does not send a redirect again, but the user can reload it within the clock skew.
// Redis may have recorded a claim although Claim returned an error. Then at most one later call in
// the same process succeeds. A reload that reaches another process is rejected as a replay.
package redisstore
