// Package signature verifies the callbacks and redirects that the service signs (specification, section 5.3), and signs messages of your own for tests. It depends on no other package of this module.
//
// # Verify a callback
//
// A verifier needs to know whose keys count, and which hosts are yours:
//
//	keys, err := signature.NewJWKS(client.JWKSURL(), nil)
//	verifier, err := signature.NewVerifier(keys, []string{"api.example.com"}, &signature.VerifierOptions{
//		Replay: signature.NewMemoryReplayStore(0),
//	})
//	mux.Handle("POST /callbacks", verifier.CallbackHandler(handler))
//
// handler then sees verified callbacks alone and gets each by [MessageFromContext]. [Verifier.RedirectHandler] does the same for redirects. Make one [JWKS] and one [Verifier] at start and share them: both may be used from any number of goroutines.
//
// # What is checked
//
// A [Message] comes from the service (RSA-SHA256 over the request target, the host, the date, and of a callback its kind and the digest of its body, with a key of the service's published set), is for one of your hosts, was sent just now (the date, within 5 s) and was not changed (the digest).
// With a [ReplayStore] it is also accepted only once. Everything cheap is checked before a key is looked up, and the signature before the body is read.
//
// # Errors
//
// Every error is an [*Error] with one reason, for [errors.Is]. Most reasons mean that the message
// is invalid: respond with 400. [ErrKeySource], [ErrReplayStore], [ErrBody] and [ErrTooLate] mean
// that it cannot be verified now: respond with 503, so that the service sends it again. The
// difference matters, because the service never repeats a message after a response of 4XX, and a
// check that ended as EXPIRED or ERROR is reported by its callback alone. [Error.Retryable]
// distinguishes the two. The handlers respond accordingly, always with the same body, so that a
// sender learns nothing.
//
// # Alerts
//
// Set JWKSOptions.Logger and VerifierOptions.Logger and alert on records at level error: they
// report an unavailable or partly unusable key set, an unavailable key source or replay store, or
// middleware that has consumed a body. Everything that a sender can cause is logged at level warn.
//
// # What stays yours
//
//   - A verified callback need not be about a check of yours: another customer of the service can create one with your callback URL, and the service signs its callback for your host. Act only on check_ids that your backend created, with the right product; a reference_id is chosen by whoever made the check.
//   - The service may send a callback more than once, each time signed afresh: handle it by its check_id, once.
//   - A verified redirect says that the service sent the device, not which session it belongs to: compare its check_id with that of the session that began the check.
//   - The date is compared with your clock: keep it synchronised.
//   - Behind a proxy that changes host or path, see VerifierOptions.Target.
//
// docs/security.md in the repository has the threat model, and every attack with the rule against it.
package signature
