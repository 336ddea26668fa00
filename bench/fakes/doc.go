// Package fakes compares sandboxfake with other fake servers, github.com/oauth2-proxy/mockoidc and
// github.com/johannesboyne/gofakes3, and each of them with net/http/httptest. It is a separate
// module, so that the main module does not depend on them.
//
//	cd bench/fakes && go test -run '^$' -bench .
//
// Each result is a ratio of medians: a benchmark calls the fake and an httptest.NewTLSServer in
// turn, so that load on the machine affects both. mockoidc uses plain HTTP, its default.
package fakes
