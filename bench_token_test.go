//go:build unix

package idverify

import (
	"context"
	"syscall"
	"testing"
	"time"

	"golang.org/x/oauth2"
)

// BenchmarkTokenHit is what each operation pays for a token that is there, with eight callers at once.
func BenchmarkTokenHit(b *testing.B) {
	c := &tokenCache{
		fetch: func(context.Context, string) (*oauth2.Token, error) {
			return &oauth2.Token{AccessToken: "a", Expiry: time.Now().Add(time.Hour)}, nil
		},
		now:     time.Now,
		entries: make(map[string]*tokenEntry),
	}
	if _, err := c.get(b.Context(), "phone_check"); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	began := processorTime()
	b.SetParallelism(4) // times GOMAXPROCS, which is 2 where the figures come from
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.get(b.Context(), "phone_check"); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(processorTime()-began)/float64(b.N), "cpu-ns/op")
}

// processorTime is what this process has used of the processors: the time on the clock says more of the machine's other work.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
