// Package soak_test runs the client, the verifier and a callback handler against the fake while
// requests, responses and handlers fail. It tests that no check or callback is lost or doubled.
//
//	go test ./internal/soak                                                  # some seconds
//	go test ./internal/soak -v -timeout 0 -soak.time 0 -soak.checks 1000000  # a long run
//	go test ./internal/soak -v -soak.seed 42                                 # repeat by seed
//
// The seed determines faults, phone numbers, jumps of the clock and failures of the handler. The
// scheduler determines their order.
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
	flagChecks = flag.Int("soak.checks", 1500, "number of checks to create")
	flagTime   = flag.Duration("soak.time", 5*time.Minute, "start no new round after this time; 0 for no limit")
	flagSeed   = flag.Uint64("soak.seed", 0, "seed of all random choices; 0 for a random seed")
)

const (
	workers     = 8
	roundChecks = 5000 // maximum number of checks in a round
)

// TestSoak counts goroutines and memory, so its package has no other test.
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
			t.Fatalf("goroutines = %d, want at most %d as at the start:\n%s", runtime.NumGoroutine(), goroutines, stacks[:runtime.Stack(stacks, true)])
		}
		<-time.After(time.Millisecond) // goroutines of net/http close connections
	}
	if left := liveMemory(); left > memory+8<<20 {
		t.Errorf("memory in use = %d KiB, %d KiB at the start", left>>10, memory>>10)
	}
}

// soak runs n checks in rounds.
func soak(t *testing.T, seed uint64, n int) (total tally) {
	h := newHarness(t, seed)
	defer h.service.Close()
	began := time.Now()
	for round := 0; total.created < n && !t.Failed() && (*flagTime == 0 || time.Since(began) < *flagTime); round++ {
		// At least two rounds run, one of them calm.
		r := h.newRound(round, min(roundChecks, (n+1)/2, n-total.created))
		r.run()
		total.add(r.tally)
		if round%10 == 9 {
			fmt.Fprintf(os.Stderr, "%d of %d checks\n", total.created, n)
		}
	}
	return total
}

// liveMemory returns the bytes of heap in use after garbage collection.
func liveMemory() int64 {
	runtime.GC()
	runtime.GC() // the second collection frees pools and objects with finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// tally contains the counts of a round, or of all rounds.
type tally struct {
	created   int // calls of Create
	accepted  int // created and charged checks
	processed int // checks whose callback was stored
	expired   int // of these, checks that expired as intended
	attempts  int // delivery attempts
	failed    int // of these, attempts with a 5XX response
	repeated  int // of these, attempts for a check that was already stored
	timedOut  int // attempts that timed out; they are delivered again
	lost      int // checks without a callback
	doubled   int // calls of Create that created two checks
	requests  int // requests of the client and the key set
	tokens    int // of these, token requests
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
	fmt.Fprintf(&b, "%d creates in %v, %.0f per second\n", t.created, took.Round(time.Second), float64(t.created)/took.Seconds())
	fmt.Fprintf(&b, "%d accepted and charged, %d callbacks processed, %d of them for expired checks, %d lost, %d doubled\n", t.accepted, t.processed, t.expired, t.lost, t.doubled)
	fmt.Fprintf(&b, "%d delivery attempts, %d with a 5XX response, %d for a check already stored, %d timed out\n", t.attempts, t.failed, t.repeated, t.timedOut)
	fmt.Fprintf(&b, "%d requests, %d of them for tokens\n", t.requests, t.tokens)
	fmt.Fprintf(&b, "%d jumps of the clock, %v in total, %d key rotations\n", t.jumps, t.jumped, t.rotations)
	sum := 0
	for _, kind := range slices.Sorted(maps.Keys(t.faults)) {
		fmt.Fprintf(&b, "\t%-20s %d\n", kind, t.faults[kind])
		sum += t.faults[kind]
	}
	fmt.Fprintf(&b, "%d faults", sum)
	return b.String()
}

// counter counts events by kind.
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

func (c *counter) counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.n)
}

func (c *counter) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n = nil
}
