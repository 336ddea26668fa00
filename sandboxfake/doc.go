// Package sandboxfake is an in-process fake of the mobile-identity service: a TLS server that
// follows the rules of the service's sandbox. Tests that use it need no network and are
// deterministic.
//
// [New] starts a server and closes it at the end of the test:
//
//	func TestSignUp(t *testing.T) {
//		srv := sandboxfake.New(t)
//		client := srv.Client() // an *idverify.Client with the credentials of a sandbox project
//		params := idverify.PhoneCheckParams{PhoneNumber: "447700900012"}
//		check, err := client.PhoneChecks.Create(t.Context(), params)
//		…
//		visit, err := srv.Device().Open(t.Context(), check.CheckURL) // acts as the phone
//		…
//	}
//
// The last digits of the phone number determine the result of a check: see [PhoneCheckOutcome],
// [SIMCheckOutcome] and [SubscriberCheckOutcome]. For IP addresses, see [ReachabilityOutcome].
// [WithCallerIP] sets the address of callers that request their own reachability, as web SDKs do.
//
// # Your handlers
//
// [Server.Handle] serves an https host in memory with your http.Handler. Callbacks, redirects and
// [Server.Device] reach it without an open port. [Server.Verifier] returns a verifier that trusts
// the server's keys. [Server.Deliveries] returns each callback with its attempts, and
// [Server.Requests] each request that the server received.
//
// # Time
//
// The server's clock determines when tokens and checks expire, callbacks are retried, rate limits
// reset and retired keys are removed. It also dates signatures, unless [WithSystemDates] is set. By
// default the clock runs. [WithFrozenClock] freezes it. [Server.Advance] moves either kind forward
// and runs every event that becomes due. [Server.Expire] makes one check expire without moving the
// clock. [Server.WaitIdle] waits for the deliveries in progress. No test needs to sleep or to poll.
//
// In a testing/synctest bubble, use [WithInMemory] and create the server inside the bubble. It then
// uses the bubble's clock, so the six attempts of a callback, which span two and a half minutes,
// take about a millisecond.
//
// # Faults
//
// [Server.Inject] makes the n-th call of an operation, or the n-th attempt of a callback, fail with
// a [Fault]: a status, a lost or truncated response, latency, or a signature with the wrong key.
// [WithRateLimit] makes the server respond with 429 beyond a limit.
//
// # Determinism
//
// IDs, codes, tokens and secrets are derived from the seed ([WithSeed]), the project and a counter.
// The same calls return the same values in every process with the same version of this module.
//
// With [WithInMemory] and [WithFrozenClock], the responses to sequential calls of one project are
// byte-identical, whatever other projects and servers do at the same time. Give each parallel test
// its own server or project. A server takes about a millisecond to start and 60 KiB of memory.
//
// # Fidelity
//
// Helper methods go through the same validation as HTTP requests, and fail when the service would.
// docs/protocol.md describes the protocol.
//
// Unless [WithFreshKeys] is set, the certificates and signing keys are fixed and public. Trust them
// in tests only.
//
// # Failed tests
//
// When a test of [New] fails, the latest events of its server are in the log of the test, and with
// the flag -artifacts of go test in a page for browsers. [WithoutTimeline] turns this off.
//
// # Other languages
//
// The program cmd/sandboxfake runs a server, with a page for browsers and phones: see
// docs/sandbox.md. [WithControl] adds a JSON API below /_sandbox/ that shows and controls a
// Server. [WithRequestLog] logs each request and each delivery attempt.
//
// docs/testing.md has recipes: a first test, parallel tests, expiry, retries, key rotation, faults,
// and how to sign your own callbacks.
package sandboxfake
