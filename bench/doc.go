// Package bench compares package signature with github.com/go-fed/httpsig, and measures two hours
// in a bubble of testing/synctest. It is a separate module, so that the main module does not depend
// on that library.
//
// The command report, which bench/run starts, runs these and most other benchmarks of the
// repository. It runs the command size, and it profiles the client, the signatures and the soak
// test. It does not run the benchmarks of inbox and of examples/passwordless.
//
//	cd bench && go test -run '^$' -bench . -count 6
//	cd bench && go test -run TestBubble -bench none
package bench
