// Package sandboxfake is the identity-verification service in your own process: a TLS server with the rules of its sandbox, for tests that need no network and give the same answer every time.
//
// One line starts it; it closes itself at the end of the test:
//
//	func TestSignUp(t *testing.T) {
//		srv := sandboxfake.New(t)
//		client := srv.Client() // an *idverify.Client with the credentials of a sandbox project
//		check, err := client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012"})
//		…
//		visit, err := srv.Device().Open(t.Context(), check.CheckURL) // what the phone does
//		…
//	}
//
// The last digits of the phone number decide how a check ends, see [PhoneCheckOutcome], [SIMCheckOutcome], [SubscriberCheckOutcome] and [ReachabilityOutcome].
//
// [WithCallerIP] sets the address of callers that ask for their own reachability, as web SDKs do.
//
// # Your handlers
//
// [Server.Handle] makes an http.Handler of yours answer at an https host in memory: callbacks, redirects and [Server.Device] reach it, no port is opened.
// [Server.Verifier] returns a verifier that trusts the server's keys. [Server.Deliveries] tells each callback with its tries, and [Server.Requests] each call.
//
// # Time
//
// Everything that depends on time reads the server's clock: the expiry of tokens and checks, the
// attempts of a callback, the windows of a rate limit, the overlap of rotated keys, and, unless
// [WithSystemDates] is set, the dates of signatures. By default the clock runs. [WithFrozenClock]
// freezes it. [Server.Advance] moves either kind forward and runs every event that becomes due.
// [Server.Expire] makes one check expire without moving the clock. [Server.Idle] waits for the
// deliveries in progress. No test needs to sleep or to poll.
//
// Inside a testing/synctest bubble use [WithInMemory] and make the server in the bubble. The clock is then the bubble's: the six tries of a callback over two and a half minutes take a millisecond.
//
// # When things go wrong
//
// [Server.Inject] has the n-th call of an operation, or the n-th try of a callback, fail as its [Fault] says: a status, a lost or truncated answer, latency, a signature by a wrong key. [WithRateLimit] has the service answer 429.
//
// # Determinism
//
// Ids, codes, tokens and secrets come from the seed ([WithSeed]), the project and a counter: the same calls give the same ones, in every process.
// With [WithInMemory] and [WithFrozenClock] together the answers to one project's calls, made one after another, are equal to the byte, whatever other projects and servers do meanwhile. Give each parallel test a server, or a project, of its own: a server costs about a millisecond and some 60 KiB.
//
// # Honesty
//
// There is no short cut around HTTP: helpers and the wire share one validation, and what the protocol forbids fails as it says. docs/protocol.md describes the protocol.
// The certificates and signing keys are fixed test keys that everybody has, unless [WithFreshKeys] is given: trust them in tests only.
//
// # Other languages
//
// Package cmd/sandboxfake is a server as a program. [WithControlPlane] serves the clock, faults,
// deliveries, requests, sign-up, keys and reset of Server as JSON below /_sandbox/.
// [WithRequestLog] writes a line for each call.
//
// docs/testing.md has recipes: a first test, parallel tests, expiry, retries, key rotation, faults, and how to sign a callback of your own.
package sandboxfake
