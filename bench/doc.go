// Package bench compares package signature with github.com/go-fed/httpsig, and measures two hours
// in a bubble of testing/synctest. It is a separate module, so that the main module does not depend
// on what it and package fakes compare with.
//
// bench/run runs these, the command size and most other benchmarks of the repository, except those
// of inbox and of examples/passwordless.
//
//	cd bench && go test -run '^$' -bench . -count 6
//	cd bench && go test -run TestBubble -bench none
package bench
