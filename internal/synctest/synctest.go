// Package synctest is testing/synctest for the tests of this module. In FIPS 140-3 mode it skips
// bubbles instead of running them.
package synctest

import (
	"crypto/fips140"
	"testing"
	"testing/synctest"
)

// Test runs f in a bubble of testing/synctest, or skips the test in FIPS mode.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	SkipInFIPSMode(t)
	synctest.Test(t, f)
}

// Wait is [synctest.Wait].
func Wait() { synctest.Wait() }

// SkipInFIPSMode skips a test that starts a bubble by itself, for example through a documented
// example, which cannot import this package.
func SkipInFIPSMode(t *testing.T) {
	t.Helper()
	// The random number generator of this mode measures time to gather entropy. Time does not pass
	// between two reads of a bubble's clock, and the generator panics. Random bytes are needed
	// almost everywhere: for TLS, form boundaries and identifiers.
	if fips140.Enabled() {
		t.Skip("the random number generator of GODEBUG=fips140 panics in a bubble of testing/synctest")
	}
}
