// Package signature verifies the callbacks and redirects that the service signs, and signs messages
// for tests.
//
// Most programs pass a [Verifier] to a handler of package idverify, inbox or checkflow, which also
// decodes the message. Use the methods of Verifier to handle the signed bytes yourself.
//
// # Verify a callback
//
// A [Verifier] needs the service's keys and the host names of your callback and redirect URLs:
//
//	keys, err := client.NewJWKS(nil)
//	hosts := []string{"api.example.com"}
//	verifier, err := signature.NewVerifier(keys, hosts, nil)
//	mux.Handle("POST /callbacks", verifier.RequireCallback(handler))
//
// The handler receives only verified callbacks and gets each one from [MessageFromContext]. Create
// one [JWKS] and one [Verifier] and reuse them; both are safe for concurrent use.
//
// # Verify a redirect
//
// [Verifier.RequireRedirect] does the same for redirects. Give the verifier of redirects a
// [ReplayStore], so that a copy of a redirect is rejected; only package checkflow needs none:
//
//	verifier, err := signature.NewVerifier(keys, hosts, &signature.VerifierOptions{
//		Replay: signature.NewMemoryReplayStore(0),
//	})
//	mux.Handle("GET /redirect", verifier.RequireRedirect(handler))
//
// Callbacks need none if you process each check_id once. The verifier claims a message before your
// handler runs: if the process ends in between and a proxy sends the callback again, a replay store
// rejects it permanently.
//
// # What is verified
//
// For each [Message] the verifier checks that
//   - the service signed it: an RSA-SHA256 signature by a key of the service's key set covers the
//     request target, the host and the date, and for a callback also its product and digest;
//   - it was sent to one of your hosts;
//   - its date is within the allowed clock skew, 5 s by default;
//   - the body of a callback matches the signed digest;
//   - with a [ReplayStore], it was not accepted before.
//
// Cheap checks run before the key lookup. The body is read only after the signature is verified.
//
// # Errors
//
// Every verification error is an [*Error] with exactly one reason. Test for it with [errors.Is].
// Most reasons mean that the message is invalid: respond with 400. [ErrKeySource],
// [ErrReplayStore], [ErrBody] and [ErrTooLate] mean that the message cannot be verified now:
// respond with 503, so that the service retries. [Error.Retryable] distinguishes the two. The
// service does not retry after a 4XX response.
//
// [Verifier.RequireCallback] and [Verifier.RequireRedirect] respond accordingly. All invalid
// messages get the same response, which does not disclose the reason.
//
// # Alerts
//
// Set JWKSOptions.Logger and VerifierOptions.Logger and alert on records at level error. They
// report that the key set, the key source or the replay store is unavailable, that keys of the key
// set are ignored, or that middleware has consumed a body. Anything that a sender can cause is
// logged at level warn.
//
// # Your responsibilities
//
//   - Act only on check IDs that your backend created, with the expected product. Another customer
//     of the service can create a check with your callback URL, and the service signs that callback
//     for your host. The creator of a check chooses its reference_id, so it proves nothing.
//   - Process each check_id once. The service may send a callback more than once, each time with a
//     new signature.
//   - Compare the check_id of a redirect with the check that the session started. A verified
//     redirect does not identify the session.
//   - Synchronize the system clock. Dates are compared with it.
//   - Set VerifierOptions.Target behind a proxy that changes the host or the path.
//
// See docs/security.md for the threat model and the defense against each attack.
//
// Protocol: docs/protocol.md, sections 7 and 12.
package signature
