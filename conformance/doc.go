// Package conformance judges a service by the specification: a list of numbered expectations, each citing its section, that it tries over plain HTTP against any base URL.
//
// It is written without this module's client, verifier and signer, so that it sees the wire itself and not what they make of it. Three kinds of service want judging:
// the fake of package sandboxfake, in all its forms; a fake of your own, in whatever language; and the live service, with a sandbox project, which costs nothing.
//
//	report, err := conformance.Run(ctx, conformance.Config{BaseURL: baseURL, Project: credentials})
//
// The report tells for each expectation whether it held, failed, or was not run, and why: some need workspace credentials, a receiver that the service reaches, or a clock that can be moved.
// Where the specification leaves something open, such as the path of an operation, an expectation says what it assumes.
//
// The tests of this package run the suite against the live service when the environment says where it is:
//
//	IDVERIFY_BASE_URL                  https://…
//	IDVERIFY_CLIENT_ID                 of a sandbox project
//	IDVERIFY_CLIENT_SECRET
//	IDVERIFY_WORKSPACE_CLIENT_ID       optional: of its workspace
//	IDVERIFY_WORKSPACE_CLIENT_SECRET
//	IDVERIFY_RECEIVER_URL              optional: a public URL, and
//	IDVERIFY_RECEIVER_ADDR             the local address that it leads to, 127.0.0.1:8080 by default
//
//	go test ./conformance -run TestLive -v
package conformance
