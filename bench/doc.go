// Package bench compares package signature with github.com/go-fed/httpsig, and measures two hours
// in a bubble of testing/synctest. It is a separate module, so that the main module does not depend
// on that library. The command report runs all benchmarks of the repository: see bench/run.
//
//	cd bench && go test -run '^$' -bench . -count 6
//	cd bench && go test -run TestBubble -bench none
package bench
