// Package receivertest examines receivers of callbacks and redirects: it sends valid messages that
// a receiver must accept, and forged, changed, replayed and misdirected ones that it must reject.
//
// The receiver is an [http.Handler] or a URL, in any language. It must fetch its keys from the
// [Keys] of the examination, and accept messages for the host of Receiver.URL. In a test:
//
//	keys, err := receivertest.NewKeys()
//	keySet, err := signature.NewJWKS(keys.URL(), &signature.JWKSOptions{HTTPClient: keys.Client()})
//	verifier, err := signature.NewVerifier(keySet, []string{"api.example.com"}, nil)
//	receivertest.Run(t, receivertest.Receiver{
//		Keys:    keys,
//		URL:     "https://api.example.com/callbacks",
//		Handler: idverify.CallbackHandler(verifier, handle),
//		Strict:  true,
//	})
//
// # Rules
//
// Each rule has a name, such as callback/changed-match, and a result: pass, fail, or not applicable
// with the reason. A response 2XX means that the receiver accepts a message, for redirects also
// 3XX. A response 4XX, or a closed connection, means that it rejects it. A response 5XX makes the
// service send a callback again.
//
// Some rules need to know more than the response: whether the receiver acted on a message, or what
// happens while its store hangs. They are not applicable without a [Probe].
//
// # Time
//
// An examination sends up to about 200 messages, one after the other, and about half as many
// without Strict. A receiver that limits the rate of key set requests, such as one with a JWKS of
// package signature, takes up to two minutes longer, because the examination waits until the
// receiver requests the key set again. In a bubble of [testing/synctest] these waits take no time.
// Elsewhere, lower JWKSOptions.MinRefetch.
//
// Protocol: docs/protocol.md, sections 6 and 7.
package receivertest
