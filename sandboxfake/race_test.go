//go:build race

package sandboxfake_test

// raceDetector reports that the race detector is on: goroutines then take more memory than their own.
const raceDetector = true
