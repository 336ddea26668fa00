// Package bench compares package signature with github.com/go-fed/httpsig. It is a separate module,
// so that the main module does not depend on that library.
//
//	cd bench && go test -run '^$' -bench . -count 6
package bench
