// Package synctest wraps testing/synctest for the tests of this module. In FIPS 140-3 mode it skips
// bubbles instead of running them.
package synctest

import (
	"crypto/fips140"
	"testing"
	"testing/synctest"
)

// Test calls [synctest.Test]. In FIPS 140-3 mode it skips the test.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	SkipInFIPSMode(t)
	synctest.Test(t, f)
}

// Wait calls [synctest.Wait].
func Wait() { synctest.Wait() }

// SkipInFIPSMode skips the test in FIPS 140-3 mode. Call it in tests that import testing/synctest,
// for example because users copy them.
func SkipInFIPSMode(t *testing.T) {
	t.Helper()
	// In this mode, the random number generator measures time to gather entropy. In a bubble no time
	// passes between two reads of the clock, so the generator panics. TLS, form boundaries and IDs
	// need random bytes.
	if fips140.Enabled() {
		t.Skip("in FIPS mode, the random number generator panics in a bubble of testing/synctest")
	}
}
