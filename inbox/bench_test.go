package inbox_test

import (
	"crypto/rand"
	"flag"
	"net/http"
	"slices"
	"testing"
	"time"
)

// A ratio compares the medians of two sides that alternate in one run, because a busy machine slows
// both.

// compareTimes runs base and other alternately, each after its preparation, which is not measured.
// It reports the ratio of other's median time to base's as the metric name.
func compareTimes(b *testing.B, name string, prepare func(i int), base, other func() error) {
	b.Helper()
	times := make([][]time.Duration, 2)
	for i := 0; b.Loop(); i++ {
		prepare(i)
		sides := []func() error{base, other}
		for turn := range sides {
			side := (i + turn) % 2 // the first of two commits may have to wait for the disk longer
			began := time.Now()
			if err := sides[side](); err != nil {
				b.Fatal(err)
			}
			times[side] = append(times[side], time.Since(began))
		}
	}
	median := func(t []time.Duration) float64 { slices.Sort(t); return float64(t[len(t)/2]) }
	b.ReportMetric(median(times[1])/median(times[0]), name)
	b.ReportMetric(0, "ns/op") // contains the preparation
}

// BenchmarkHandler compares the handler with a handler of the user that has one UPDATE.
func BenchmarkHandler(b *testing.B) {
	for _, d := range databases {
		b.Run(d.name, func(b *testing.B) {
			s := newBenched(b, d, 0)
			byHand := newHandWritten(b, d, s.verifier)
			var base, other *http.Request
			prepare := func(int) {
				id := rand.Text()
				byHand.insert(b, id)
				s.insert(b, id, "reconcile_at", s.now()+hour)
				base, other = s.callback(b, id), s.callback(b, id)
			}
			compareTimes(b, "x-hand-written", prepare,
				func() error { return serve(byHand.handler, base) },
				func() error { return serve(s.handler, other) })
		})
	}
}

// BenchmarkRows compares operations among 10^6 processed entries with the same among 10^3. With
// -benchtime 1x, there are 10^4 instead of 10^6.
func BenchmarkRows(b *testing.B) {
	many := 1_000_000
	if flag.Lookup("test.benchtime").Value.String() == "1x" {
		many = 10_000
	}
	for _, d := range databases {
		b.Run(d.name, func(b *testing.B) {
			small, large := newBenched(b, d, 1000), newBenched(b, d, many)
			for _, op := range []struct {
				name    string
				prepare func(*benched, testing.TB)
				run     func(*benched, testing.TB) error
			}{
				{"Handler", (*benched).prepareHandler, (*benched).runHandler},
				{"Work", (*benched).prepareWork, (*benched).runWork},
				{"Reconcile", (*benched).prepareReconcile, (*benched).runReconcile},
			} {
				b.Run(op.name, func(b *testing.B) {
					prepare := func(int) {
						op.prepare(small, b)
						op.prepare(large, b)
					}
					compareTimes(b, "x-1000-rows", prepare,
						func() error { return op.run(small, b) },
						func() error { return op.run(large, b) })
				})
			}
		})
	}
}
