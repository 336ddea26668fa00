// Package killtest tests stores of package checkflow while the processes that share one are killed.
// The test starts itself as these processes.
package killtest

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go/checkflow"
)

// sourceVariable is set in the processes of the test. It contains the source of their store.
const sourceVariable = "IDVERIFY_KILLTEST_SOURCE"

const (
	processes   = 3
	perProcess  = 8 // concurrent returns
	returns     = 6 // of each flow
	usualFlows  = 300
	perKill     = 8      // flows per kill, on average
	killPercent = 75     // of the flows, afterwards the processes live
	maxAdds     = 60_000 // of a flow, at least a millisecond apart, while the database is down
)

var (
	owner = sha256.Sum256([]byte("owner"))
	other = sha256.Sum256([]byte("other"))
)

// Main does nothing in the process of go test. In a process that Run has started, it opens the
// store, serves the returns that it reads from standard input, and does not return.
func Main(open func(ctx context.Context, source string) (checkflow.Store, error)) {
	source, child := os.LookupEnv(sourceVariable)
	if !child {
		return
	}
	ctx := context.Background()
	store, err := open(ctx, source)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lines := make(chan string)
	var all sync.WaitGroup
	for range perProcess {
		all.Go(func() {
			for line := range lines {
				serve(ctx, store, line)
			}
		})
	}
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		lines <- input.Text()
	}
	close(lines)
	all.Wait()
	os.Exit(0)
}

// serve claims and finishes a flow as Web.Return does. It prints each success before the next step.
func serve(ctx context.Context, store checkflow.Store, line string) {
	who, checkID, _ := strings.Cut(line, " ")
	by := owner
	if who == "other" {
		by = other
	}
	_, reason, err := store.Claim(ctx, checkID, by, true)
	if err != nil || reason != "" {
		return
	}
	fmt.Printf("%s-claimed %s\n", who, checkID) // one write
	if finished, err := store.Finish(ctx, checkID); err == nil && finished {
		fmt.Printf("%s-finished %s\n", who, checkID)
	}
}

// Run adds flows to store, and lets processes that Main serves return to each of them several
// times, half of the flows with another browser among them. Meanwhile, it kills the processes at
// random moments, and calls crash once, unless it is nil. It fails the test if a flow has two
// winners, or another state than its events allow. It uses 300 flows, or
// IDVERIFY_CRASHTEST_CHECKS.
func Run(t *testing.T, store checkflow.Store, source string, crash func() error) {
	t.Helper()
	n := usualFlows
	if text, ok := os.LookupEnv("IDVERIFY_CRASHTEST_CHECKS"); ok {
		n, _ = strconv.Atoi(text)
	}
	r := &run{source: source, size: n, events: make(map[string]int)}
	t.Cleanup(r.stop)
	for range processes {
		p := &process{}
		r.processes = append(r.processes, p)
		if err := r.start(p); err != nil {
			t.Fatal(err)
		}
	}
	var killer sync.WaitGroup
	due := make(chan int)
	killer.Go(func() { r.kill(t, due, crash) })

	ids := r.load(t, store, due)
	killer.Wait()
	r.stop()

	r.verify(t, store, ids)
}

// run is a running test.
type run struct {
	source    string
	size      int // number of flows
	processes []*process
	kills     int

	mu     sync.Mutex // guards events
	events map[string]int
}

// process is a process that can be killed and started again.
type process struct {
	mu      sync.Mutex // guards the fields below
	command *exec.Cmd
	input   io.WriteCloser
	read    chan struct{} // closed when its output was read
}

// start starts p. The caller holds p.mu.
func (r *run) start(p *process) error {
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), sourceVariable+"="+r.source)
	command.Stderr = os.Stderr
	input, err := command.StdinPipe() // the process ends when it is closed
	if err != nil {
		return err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	read := make(chan struct{})
	p.command, p.input, p.read = command, input, read
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			r.mu.Lock()
			r.events[lines.Text()]++
			r.mu.Unlock()
		}
	}()
	return nil
}

// end waits until p has ended. The caller holds p.mu.
func (p *process) end() {
	<-p.read
	_ = p.command.Wait()
	p.command = nil
}

// load adds flows, sends the returns to the processes, and returns the IDs of the checks. Whenever
// a process must be killed, load sends the number of flows so far to due. The number of kills
// therefore does not depend on the speed of the machine.
func (r *run) load(t *testing.T, store checkflow.Store, due chan<- int) []string {
	defer close(due)
	next := 1
	var ids []string
	for i := range r.size {
		if i >= next && i < r.size*killPercent/100 {
			due <- i
			next = i + 1 + mathrand.IntN(2*perKill-1)
		}
		f := checkflow.Flow{CheckID: rand.Text(), Owner: owner, State: checkflow.StateStarted, PhoneNumber: "447700900000"}
		for attempt := 1; ; attempt++ {
			err := store.Add(t.Context(), f, time.Hour)
			if err == nil || errors.Is(err, checkflow.ErrExists) {
				break // an Add that failed during the crash may have succeeded
			}
			if attempt == maxAdds {
				t.Errorf("Add: %v", err)
				return ids
			}
			time.Sleep(time.Millisecond)
		}
		ids = append(ids, f.CheckID)
		for j := range returns {
			who := "owner"
			if i%2 == 1 && j == i%returns {
				who = "other"
			}
			p := r.processes[mathrand.IntN(processes)]
			p.mu.Lock()
			_, _ = io.WriteString(p.input, who+" "+f.CheckID+"\n") // lost if the process was killed
			p.mu.Unlock()
		}
	}
	return ids
}

// kill kills and starts a random process for each number that it receives.
func (r *run) kill(t *testing.T, due <-chan int, crash func() error) {
	for sent := range due {
		if t.Failed() {
			continue
		}
		p := r.processes[mathrand.IntN(processes)]
		p.mu.Lock()
		_ = p.command.Process.Kill()
		p.end()
		err := r.start(p)
		p.mu.Unlock()
		if err != nil {
			t.Error(err)
			continue
		}
		r.kills++
		if crash != nil && sent > r.size/2 {
			if err := crash(); err != nil {
				t.Errorf("crash: %v", err)
			}
			crash = nil
		}
	}
}

// stop ends the processes after they have served what was sent to them.
func (r *run) stop() {
	for _, p := range r.processes {
		p.mu.Lock()
		if p.command != nil {
			p.input.Close()
			p.end()
		}
		p.mu.Unlock()
	}
}

// verify compares the events with the states of the flows.
func (r *run) verify(t *testing.T, store checkflow.Store, ids []string) {
	total := make(map[string]int)
	for _, id := range ids {
		claimed, finished := r.events["owner-claimed "+id], r.events["owner-finished "+id]
		if claimed > 1 || finished > claimed || r.events["other-claimed "+id] > 0 {
			t.Errorf("flow %s: %d owners claimed, %d finished and %d others claimed it; want at most one owner", id, claimed, finished, r.events["other-claimed "+id])
		}
		_, reason, err := store.Claim(t.Context(), id, owner, false)
		if err != nil {
			t.Fatalf("Claim: %v", err)
		}
		again, err := store.Finish(t.Context(), id)
		if err != nil {
			t.Fatalf("Finish: %v", err)
		}
		switch {
		case finished == 1 && (reason != checkflow.ReasonRepeated || again):
			t.Errorf("flow %s was finished, then Claim = %q and Finish = %t; want a second winner to be impossible", id, reason, again)
		case claimed == 1 && reason == "":
			t.Errorf("flow %s was claimed, and can be claimed again", id)
		case reason == checkflow.ReasonNotFound:
			t.Errorf("flow %s has disappeared", id)
		}
		total["claimed"] += claimed
		total["finished"] += finished
		if reason == checkflow.ReasonRevoked {
			total["revoked"]++
		}
	}
	t.Logf("%d flows, %d kills: %d claimed, %d finished, %d revoked", len(ids), r.kills, total["claimed"], total["finished"], total["revoked"])
	if r.kills == 0 || total["finished"] == 0 || total["revoked"] == 0 || total["finished"] == len(ids) {
		t.Errorf("%d kills, %d of %d flows finished and %d revoked; want some of each", r.kills, total["finished"], len(ids), total["revoked"])
	}
}

// Alternate returns a store that passes each call to the next of the given stores, which share
// their flows.
func Alternate(stores ...checkflow.Store) checkflow.Store { return &alternating{stores: stores} }

type alternating struct {
	stores []checkflow.Store
	calls  atomic.Uint32
}

func (a *alternating) next() checkflow.Store {
	return a.stores[a.calls.Add(1)%uint32(len(a.stores))]
}

func (a *alternating) Available(ctx context.Context) error { return a.next().Available(ctx) }

func (a *alternating) Add(ctx context.Context, f checkflow.Flow, ttl time.Duration) error {
	return a.next().Add(ctx, f, ttl)
}

func (a *alternating) Claim(ctx context.Context, checkID string, owner [32]byte, revoke bool) (checkflow.Flow, checkflow.Reason, error) {
	return a.next().Claim(ctx, checkID, owner, revoke)
}

func (a *alternating) Finish(ctx context.Context, checkID string) (bool, error) {
	return a.next().Finish(ctx, checkID)
}
