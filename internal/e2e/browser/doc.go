// Package browser tests the inspector page of cmd/sandboxfake, and the pages of
// examples/passwordless, in a real browser.
//
//	go test -count=1 -artifacts .
//
// stores screenshots in _artifacts. The tests build and run the programs; without -count=1, go test
// would reuse results of an earlier page. They require Chromium or Chrome in the PATH (script/setup
// browser) and are skipped without it.
//
//	IDVERIFY_BROWSER_LOAD=10m go test -run TestPage_Load -timeout 20m -v .
//
// runs the load test for ten minutes instead of some seconds and logs its measurements.
package browser
