// Package soak_test is the proof that nothing is lost and nothing is done twice: the client, the verifier and a callback handler work against the fake for as long as one likes, while everything fails that may fail.
//
//	go test ./internal/soak                                                       # some seconds
//	go test ./internal/soak -v -timeout 0 -soak.time 0 -soak.checks 1000000              # the long run of docs/performance.md
//	go test ./internal/soak -v -soak.seed 42                                      # that of an earlier run, which prints its seed
//
// The faults, the numbers, the jumps of the clock and the failures of the handler all come from the seed; what meets what is up to the scheduler.
package soak_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	flagChecks = flag.Int("soak.checks", 1500, "how many checks to create")
	flagTime   = flag.Duration("soak.time", 5*time.Minute, "after how long no other round begins; 0 for never")
	flagSeed   = flag.Uint64("soak.seed", 0, "what to draw everything from; 0 draws the seed, too")
)

const (
	workers     = 8
	roundChecks = 5000 // after so many at most, the books are made up and a new project begins
)

// TestSoak is alone in its package: it counts goroutines and memory.
func TestSoak(t *testing.T) {
	seed := *flagSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	goroutines, memory := runtime.NumGoroutine(), liveMemory()
	began := time.Now()

	total := soak(t, seed, *flagChecks)

	t.Logf("%s", total.report(time.Since(began)))
	for attempt := 0; runtime.NumGoroutine() > goroutines; attempt++ {
		if attempt == 1000 {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines are left of %d:\n%s", runtime.NumGoroutine(), goroutines, stacks[:runtime.Stack(stacks, true)])
		}
		<-time.After(time.Millisecond) // connections end on goroutines of net/http
	}
	if left := liveMemory(); left > memory+8<<20 {
		t.Errorf("%d KiB of memory are in use, %d at the start", left>>10, memory>>10)
	}
}

// soak runs n checks, in rounds.
func soak(t *testing.T, seed uint64, n int) (total tally) {
	h := newHarness(t, seed)
	defer h.close()
	began := time.Now()
	for round := 0; total.created < n && !t.Failed() && (*flagTime == 0 || time.Since(began) < *flagTime); round++ {
		r := h.newRound(round, min(roundChecks, (n+1)/2, n-total.created)) // two rounds at least: a calm one and another
		r.run()
		total.add(r.tally)
		if round%10 == 9 {
			fmt.Fprintf(os.Stderr, "%d of %d checks\n", total.created, n)
		}
	}
	return total
}

// liveMemory is what is in use when all garbage is gone.
func liveMemory() int64 {
	runtime.GC()
	runtime.GC() // finalizers and pools let go in the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// tally is what was counted.
type tally struct {
	created   int // creates that were called
	accepted  int // and paid
	processed int // callbacks that were handled for the first time: one for each check with a callback
	expired   int // of these, of checks that nobody saw through
	attempts  int // of the service to deliver them
	failed    int // of these, answered 5XX
	repeated  int // of these, of a check that was handled before
	timedOut  int // tries without an answer in time, and so sent again
	lost      int // checks without a callback
	doubled   int // creates that made two checks
	requests  int // that the client sent
	tokens    int // of these, for tokens
	faults    map[string]int
	jumps     int
	jumped    time.Duration
	rotations int
}

func (t *tally) add(u tally) {
	t.created += u.created
	t.accepted += u.accepted
	t.processed += u.processed
	t.expired += u.expired
	t.attempts += u.attempts
	t.failed += u.failed
	t.repeated += u.repeated
	t.timedOut += u.timedOut
	t.lost += u.lost
	t.doubled += u.doubled
	t.requests += u.requests
	t.tokens += u.tokens
	t.jumps += u.jumps
	t.jumped += u.jumped
	t.rotations += u.rotations
	if t.faults == nil {
		t.faults = make(map[string]int)
	}
	for kind, n := range u.faults {
		t.faults[kind] += n
	}
}

func (t *tally) report(took time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d creates in %v, %.0f a second\n", t.created, took.Round(time.Second), float64(t.created)/took.Seconds())
	fmt.Fprintf(&b, "%d accepted and paid, %d callbacks processed, %d of them of checks that expired, %d lost, %d doubled\n", t.accepted, t.processed, t.expired, t.lost, t.doubled)
	fmt.Fprintf(&b, "%d delivery attempts, %d answered 5XX, %d for a check that was handled before, %d timed out\n", t.attempts, t.failed, t.repeated, t.timedOut)
	fmt.Fprintf(&b, "%d requests of the client, %d of them for tokens\n", t.requests, t.tokens)
	fmt.Fprintf(&b, "%d jumps of the clock, %v in all, %d key rotations\n", t.jumps, t.jumped, t.rotations)
	sum := 0
	for _, kind := range slices.Sorted(maps.Keys(t.faults)) {
		fmt.Fprintf(&b, "\t%-20s %d\n", kind, t.faults[kind])
		sum += t.faults[kind]
	}
	fmt.Fprintf(&b, "%d faults", sum)
	return b.String()
}

// counter counts by kind.
type counter struct {
	mu sync.Mutex // guards n
	n  map[string]int
}

func (c *counter) add(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = make(map[string]int)
	}
	c.n[kind]++
}

func (c *counter) get(kind string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[kind]
}

func (c *counter) all() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.n)
}

func (c *counter) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n = nil
}
