package sandboxfake_test

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/idverify/idverify-go/sandboxfake"
)

// BenchmarkTimers measures Advance with 100,000 checks that expire, relative to 1,000. It reports
// the ratio of the times per check as x-1000.
func BenchmarkTimers(b *testing.B) {
	const few, many = 1_000, 100_000
	var fewTimes, manyTimes []float64
	for b.Loop() {
		for range 10 { // as short as one run with many checks
			fewTimes = append(fewTimes, expireAll(b, few))
		}
		manyTimes = append(manyTimes, expireAll(b, many))
	}
	slices.Sort(fewTimes)
	slices.Sort(manyTimes)
	b.ReportMetric(manyTimes[len(manyTimes)/2]/fewTimes[len(fewTimes)/2], "x-1000")
	b.ReportMetric(manyTimes[len(manyTimes)/2], "ns/timer")
}

// expireAll returns the nanoseconds per check that Advance takes until n checks have expired.
func expireAll(b *testing.B, n int) float64 {
	srv, err := sandboxfake.Start(sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	if err != nil {
		b.Fatal(err)
	}
	defer srv.Close()
	srv.StoreChecksWithoutCallback(n)
	runtime.GC() // of the stores
	began := time.Now()
	if err := srv.Advance(b.Context(), time.Hour); err != nil {
		b.Fatal(err)
	}
	return float64(time.Since(began)) / float64(n)
}
