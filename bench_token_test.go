//go:build unix

package idverify

import (
	"context"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/oauth2"
)

// BenchmarkTokenHit compares a cached token with oauth2.ReuseTokenSource, with eight concurrent
// callers. The two sides alternate, and their medians are compared.
func BenchmarkTokenHit(b *testing.B) {
	fetch := func(context.Context, string, *tokenFetch, *observation) (*oauth2.Token, error) {
		return &oauth2.Token{AccessToken: "a", Expiry: time.Now().Add(time.Hour)}, nil
	}
	cache := &tokenCache{fetch: fetch, now: time.Now, timeout: tokenTimeout, entries: make(map[string]*tokenEntry)}
	ctx := b.Context()
	if _, err := cache.get(ctx, "phone_check"); err != nil {
		b.Fatal(err)
	}
	token, _ := fetch(ctx, "phone_check", nil, nil)
	plain := oauth2.ReuseTokenSource(token, nil)
	base := func() error { _, err := plain.Token(); return err }
	other := func() error { _, err := cache.get(ctx, "phone_check"); return err }

	var bases, others samples
	for b.Loop() {
		bases.add(b, base)
		others.add(b, other)
	}
	b.ReportMetric(median(others.clock)/median(bases.clock), "x-oauth2")
	b.ReportMetric(median(others.processor)/median(bases.processor), "x-oauth2-processor")
	b.ReportMetric(median(others.clock), "clock-ns") // per token
	b.ReportMetric(median(others.processor), "processor-ns")
	b.ReportMetric(testing.AllocsPerRun(100, func() {
		if err := other(); err != nil {
			b.Fatal(err)
		}
	}), "allocs")
}

// samples contains the times of one side, in nanoseconds per token.
type samples struct{ clock, processor []float64 }

// add takes a sample with eight callers. Each gets so many tokens that starting its goroutine does
// not matter.
func (t *samples) add(b *testing.B, get func() error) {
	const callers, tokens = 8, 5000
	var done sync.WaitGroup
	began, used := time.Now(), processorTime()
	for range callers {
		done.Go(func() {
			for range tokens {
				if err := get(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	done.Wait()
	t.clock = append(t.clock, float64(time.Since(began))/(callers*tokens))
	t.processor = append(t.processor, float64(processorTime()-used)/(callers*tokens))
}

func median(times []float64) float64 {
	slices.Sort(times)
	return times[len(times)/2]
}

// processorTime returns the CPU time of this process. Unlike wall-clock time, it does not include
// other processes.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
