// Package conformance tests a mobile-identity service against the protocol. The suite is a
// list of numbered expectations. Each cites its section of docs/protocol.md and is tested by HTTP
// requests to a base URL.
//
// The package does not use this module's client, verifier or signer, so a fault in them cannot hide
// a fault of the service. Use it to test the fake of package sandboxfake, a fake of your own in any
// language, or the live service with a sandbox project, which costs nothing.
//
//	report, err := conformance.Run(ctx, conformance.Config{BaseURL: baseURL, Project: credentials})
//
// The report has the form of package receivertest, and lists each expectation as passed, failed or
// not applicable, with the reason. Some expectations require workspace credentials, a receiver that
// the service can reach, or a clock that the suite can advance. If an expectation relies on a
// decision of this module, such as the path of an operation, its finding says what it assumes.
//
// The package's tests run the suite against the live service if these environment variables are
// set:
//
//	IDVERIFY_BASE_URL                  https://…
//	IDVERIFY_CLIENT_ID                 credentials of a sandbox project
//	IDVERIFY_CLIENT_SECRET
//	IDVERIFY_WORKSPACE_CLIENT_ID       optional: credentials of its workspace
//	IDVERIFY_WORKSPACE_CLIENT_SECRET
//	IDVERIFY_RECEIVER_URL              optional: the public URL of the receiver
//	IDVERIFY_RECEIVER_ADDR             the address to listen on, 127.0.0.1:8080 by default
//
//	go test ./internal/conformance -run TestRun_LiveService -v
package conformance
