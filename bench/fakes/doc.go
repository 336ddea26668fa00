// Package fakes compares sandboxfake with other fakes, and each of them with net/http/httptest:
//
//   - github.com/oauth2-proxy/mockoidc, over plain HTTP, its default
//   - github.com/johannesboyne/gofakes3
//   - github.com/fsouza/fake-gcs-server/fakestorage
//   - gopkg.in/dnaeon/go-vcr.v4, which replays recorded responses and has no network
//   - the Node programs s3rver and dynalite, which script/setup fakes installs
//
// Compiling them takes minutes: of the checks, only heavy and ratios do so.
//
//	cd bench/fakes && go test -run '^$' -bench .
//
// Each result is a ratio of medians: a benchmark calls the fake and an httptest.NewTLSServer in
// turn, so that load on the machine affects both.
package fakes
