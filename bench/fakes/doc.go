// Package fakes measures sandboxfake beside other fakes of Go's users, github.com/oauth2-proxy/mockoidc and github.com/johannesboyne/gofakes3, and all of them beside net/http/httptest.
// It is a module of its own, so that they are no dependencies of anyone else's.
//
//	cd bench/fakes && go test -run '^$' -bench .
//
// Each figure is a ratio: a fake and a bare httptest.NewTLSServer take turns, and their medians are compared, so that a busy machine changes it little. mockoidc is measured over plain HTTP, as it runs by default.
package fakes
