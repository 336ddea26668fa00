//go:build !race

package signature_test

// raceEnabled reports whether the race detector is enabled, which allocates.
const raceEnabled = false
