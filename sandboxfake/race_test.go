//go:build race

package sandboxfake_test

// raceDetector reports whether the race detector is enabled, which increases memory use.
const raceDetector = true
