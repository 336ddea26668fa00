// Package storetest tests implementations of [checkflow.Store].
package storetest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go/checkflow"
)

// returns is the number of concurrent returns of one redirect.
const returns = 1000

// ttl is longer than a test takes.
const ttl = time.Hour

// Run tests that stores behave as [checkflow.Store] requires. newStore returns a store for one
// subtest, with room for 64 flows. All subtests can use the same store, because the IDs of checks
// are random. The last subtest adds 1,000 flows or fills the store.
func Run(t *testing.T, newStore func(t *testing.T) checkflow.Store) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, checkflow.Store)
	}{
		{"Transitions", testTransitions},
		{"Values", testValues},
		{"Add", testAdd},
		{"CheckIDs", testCheckIDs},
		{"Expiry", testExpiry},
		{"EndedContext", testEndedContext},
		{"ConcurrentAdds", testConcurrentAdds},
		{"ConcurrentReturns", testConcurrentReturns},
		{"ConcurrentRevocations", testConcurrentRevocations},
		{"ConcurrentFlows", testConcurrentFlows},
		{"KeepsLiveFlows", testKeepsLiveFlows},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, newStore(t)) })
	}
}

var (
	owner = sha256.Sum256([]byte("owner"))
	other = sha256.Sum256([]byte("other"))
)

func newFlow() checkflow.Flow {
	return checkflow.Flow{CheckID: rand.Text(), Owner: owner, State: checkflow.StateStarted, PhoneNumber: "447700900000"}
}

// add stores a new flow.
func add(t *testing.T, s checkflow.Store) checkflow.Flow {
	t.Helper()
	f := newFlow()
	if err := s.Add(t.Context(), f, ttl); err != nil {
		t.Fatalf("Add: %v", err)
	}
	return f
}

// claim returns the reason of a Claim. It fails the test if the Claim fails, or returns a Flow
// together with a reason.
func claim(t *testing.T, s checkflow.Store, checkID string, by [32]byte, revoke bool) checkflow.Reason {
	t.Helper()
	f, reason, err := s.Claim(t.Context(), checkID, by, revoke)
	if err != nil {
		t.Errorf("Claim: %v", err)
	}
	if reason != "" && f != (checkflow.Flow{}) {
		t.Errorf("Claim returned a flow together with reason %q, want the zero Flow", reason)
	}
	return reason
}

func finish(t *testing.T, s checkflow.Store, checkID string) bool {
	t.Helper()
	finished, err := s.Finish(t.Context(), checkID)
	if err != nil {
		t.Errorf("Finish: %v", err)
	}
	return finished
}

// event calls a method of the store and returns its result as text.
type event struct {
	name string
	call func(*testing.T, checkflow.Store, string) string
}

var events = []event{
	{"owner claims", func(t *testing.T, s checkflow.Store, id string) string { return string(claim(t, s, id, owner, false)) }},
	{"owner claims with revoke", func(t *testing.T, s checkflow.Store, id string) string { return string(claim(t, s, id, owner, true)) }},
	{"other claims", func(t *testing.T, s checkflow.Store, id string) string { return string(claim(t, s, id, other, false)) }},
	{"other claims with revoke", func(t *testing.T, s checkflow.Store, id string) string { return string(claim(t, s, id, other, true)) }},
	{"finish", func(t *testing.T, s checkflow.Store, id string) string { return fmt.Sprint(finish(t, s, id)) }},
}

// states contains, for each state, the way to it and the result of each event with the state that
// follows. A result of "" means that the code may be exchanged.
var states = []struct {
	state  string
	path   []int // indexes of events
	result [5]string
	next   [5]string
}{
	{"not stored", nil,
		[5]string{"not_found", "not_found", "not_found", "not_found", "false"},
		[5]string{"not stored", "not stored", "not stored", "not stored", "not stored"}},
	{"started", nil,
		[5]string{"", "", "other_session", "other_session", "false"},
		[5]string{"claimed", "claimed", "started", "revoked", "started"}},
	{"claimed", []int{0},
		[5]string{"repeated", "repeated", "other_session", "other_session", "true"},
		[5]string{"claimed", "claimed", "claimed", "revoked", "done"}},
	{"done", []int{0, 4},
		[5]string{"repeated", "repeated", "repeated", "repeated", "false"},
		[5]string{"done", "done", "done", "done", "done"}},
	{"revoked", []int{3},
		[5]string{"revoked", "revoked", "other_session", "other_session", "false"},
		[5]string{"revoked", "revoked", "revoked", "revoked", "revoked"}},
	{"revoked after the claim", []int{0, 3},
		[5]string{"revoked", "revoked", "other_session", "other_session", "false"},
		[5]string{"revoked", "revoked", "revoked", "revoked", "revoked"}},
}

func testTransitions(t *testing.T, s checkflow.Store) {
	for _, from := range states {
		for i, e := range events {
			f := newFlow()
			if from.state != "not stored" {
				f = add(t, s)
			}
			for _, step := range from.path {
				events[step].call(t, s, f.CheckID)
			}

			result := e.call(t, s, f.CheckID)
			next := stateOf(t, s, f.CheckID)

			if result != from.result[i] || next != from.next[i] {
				t.Errorf("%s, %s: result %q, then %s; want %q, then %s", from.state, e.name, result, next, from.result[i], from.next[i])
			}
		}
	}
}

// stateOf returns the state of a flow by the results of further events.
func stateOf(t *testing.T, s checkflow.Store, checkID string) string {
	t.Helper()
	reason, finished := claim(t, s, checkID, owner, false), finish(t, s, checkID)
	switch {
	case reason == "" && finished:
		return "started"
	case reason == checkflow.ReasonRepeated && finished:
		return "claimed"
	case reason == checkflow.ReasonRepeated:
		return "done"
	case reason == checkflow.ReasonRevoked && !finished:
		return "revoked"
	case reason == checkflow.ReasonNotFound && !finished:
		return "not stored"
	}
	return fmt.Sprintf("unknown (claim %q, finish %v)", reason, finished)
}

func testValues(t *testing.T, s checkflow.Store) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	f := newFlow()
	f.Account = "account 'é' \u2028\"%"
	f.Data = strings.Repeat(string(every), 16) // 4 KiB, not UTF-8
	if err := s.Add(t.Context(), f, ttl); err != nil {
		t.Fatalf("Add: %v", err)
	}

	got, reason, err := s.Claim(t.Context(), f.CheckID, owner, true)

	f.State = checkflow.StateClaimed
	if err != nil || reason != "" || got != f {
		t.Errorf("Claim = %+v, %q, %v; want %+v", got, reason, err, f)
	}
}

func testAdd(t *testing.T, s checkflow.Store) {
	if err := s.Available(t.Context()); err != nil {
		t.Errorf("Available: %v", err)
	}
	for _, from := range states {
		if from.state == "not stored" {
			continue
		}
		f := add(t, s)
		for _, step := range from.path {
			events[step].call(t, s, f.CheckID)
		}
		again := f
		again.Owner, again.PhoneNumber = other, "447700900002"

		err := s.Add(t.Context(), again, ttl)

		if !errors.Is(err, checkflow.ErrExists) {
			t.Errorf("%s: Add of the same check = %v, want ErrExists: it would give the check to another session", from.state, err)
		}
		if got, want := stateOf(t, s, f.CheckID), strings.TrimSuffix(from.state, " after the claim"); got != want {
			t.Errorf("state after that Add = %s, want %s", got, want)
		}
	}
}

// testCheckIDs compares IDs byte by byte, also in a database whose default ignores case.
func testCheckIDs(t *testing.T, s checkflow.Store) {
	f := newFlow()
	f.CheckID = "Check-" + f.CheckID + strings.Repeat("x", 224) // 256 bytes
	if err := s.Add(t.Context(), f, ttl); err != nil {
		t.Fatalf("Add of an ID of %d bytes: %v", len(f.CheckID), err)
	}
	for _, id := range []string{strings.ToLower(f.CheckID), strings.ToUpper(f.CheckID), f.CheckID[:255], "", "%", "*", "' OR 1=1 --"} {
		if reason := claim(t, s, id, owner, true); reason != checkflow.ReasonNotFound {
			t.Errorf("Claim of a similar ID = %q, want not_found", reason)
		}
	}
	if reason := claim(t, s, f.CheckID, owner, true); reason != "" {
		t.Errorf("Claim by the owner = %q, want no reason", reason)
	}
}

func testExpiry(t *testing.T, s checkflow.Store) {
	long := add(t, s)
	for _, lifetime := range []time.Duration{50 * time.Millisecond, 0} {
		short := newFlow()
		if err := s.Add(t.Context(), short, lifetime); err != nil {
			t.Fatalf("Add: %v", err)
		}
		added := time.Now()

		for claim(t, s, short.CheckID, other, false) != checkflow.ReasonNotFound {
			if time.Since(added) > time.Minute {
				t.Fatalf("a flow with a TTL of %s can be claimed after a minute", lifetime)
			}
		}

		if finish(t, s, short.CheckID) || stateOf(t, s, short.CheckID) != "not stored" {
			t.Error("an expired flow can be claimed or finished")
		}
		if err := s.Add(t.Context(), short, ttl); err != nil {
			t.Errorf("Add of an expired flow: %v", err)
		}
	}
	if got := stateOf(t, s, long.CheckID); got != "started" {
		t.Errorf("state of a flow with a longer TTL = %s, want started", got)
	}
}

func testEndedContext(t *testing.T, s checkflow.Store) {
	f, absent := add(t, s), newFlow()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	if err := s.Available(ctx); err == nil {
		t.Error("Available: no error with an ended context")
	}
	if err := s.Add(ctx, absent, ttl); err == nil {
		t.Error("Add: no error with an ended context")
	}
	if _, _, err := s.Claim(ctx, f.CheckID, owner, true); err == nil {
		t.Error("Claim: no error with an ended context")
	}
	if _, err := s.Finish(ctx, f.CheckID); err == nil {
		t.Error("Finish: no error with an ended context")
	}
}

func testConcurrentAdds(t *testing.T, s checkflow.Store) {
	f := newFlow()
	var added atomic.Int32
	concurrently(func(int) {
		switch err := s.Add(t.Context(), f, ttl); {
		case err == nil:
			added.Add(1)
		case !errors.Is(err, checkflow.ErrExists):
			t.Errorf("Add: %v", err)
		}
	})
	if n := added.Load(); n != 1 {
		t.Errorf("%d of %d concurrent Adds of one check succeeded, want 1", n, returns)
	}
}

// testConcurrentReturns sends one redirect with the owner's cookie.
func testConcurrentReturns(t *testing.T, s checkflow.Store) {
	f := add(t, s)
	var claimed, finished atomic.Int32
	concurrently(func(int) {
		switch reason := claim(t, s, f.CheckID, owner, true); {
		case reason == "":
			claimed.Add(1)
		case reason != checkflow.ReasonRepeated:
			t.Errorf("Claim = %q, want none or repeated", reason)
		}
	})
	concurrently(func(int) {
		if finish(t, s, f.CheckID) {
			finished.Add(1)
		}
	})
	if claimed.Load() != 1 || finished.Load() != 1 {
		t.Errorf("%d claims and %d finishes of %d succeeded, want 1 and 1", claimed.Load(), finished.Load(), returns)
	}
}

// testConcurrentRevocations sends one redirect with the owner's cookie and with others.
func testConcurrentRevocations(t *testing.T, s checkflow.Store) {
	for _, others := range []int{2, 10, returns / 2} { // each so many returns, one is of the owner
		f := add(t, s)
		var claimed, finished, rejected atomic.Int32
		concurrently(func(i int) {
			by := other
			if i%others == 0 {
				by = owner
			}
			switch reason := claim(t, s, f.CheckID, by, true); {
			case reason != "":
				rejected.Add(1)
			case by == other:
				t.Error("a session claimed the flow of another one")
			default:
				claimed.Add(1)
				if finish(t, s, f.CheckID) {
					finished.Add(1)
				}
			}
		})
		if claimed.Load() > 1 || finished.Load() > claimed.Load() || claimed.Load()+rejected.Load() != returns {
			t.Errorf("%d claimed, %d finished and %d rejected of %d; want at most one claimed", claimed.Load(), finished.Load(), rejected.Load(), returns)
		}
		want := "revoked"
		if finished.Load() == 1 {
			want = "done"
		}
		if got := stateOf(t, s, f.CheckID); got != want {
			t.Errorf("state after %d finished = %s, want %s", finished.Load(), got, want)
		}
	}
}

// testConcurrentFlows checks that flows do not affect each other.
func testConcurrentFlows(t *testing.T, s checkflow.Store) {
	var flows [8]checkflow.Flow
	for i := range flows {
		flows[i] = add(t, s)
	}
	var finished [len(flows)]atomic.Int32
	concurrently(func(i int) {
		i %= len(flows)
		if claim(t, s, flows[i].CheckID, owner, true) == "" && finish(t, s, flows[i].CheckID) {
			finished[i].Add(1)
		}
	})
	for i := range finished {
		if n := finished[i].Load(); n != 1 {
			t.Errorf("flow %d was finished %d times, want once", i, n)
		}
	}
}

// testKeepsLiveFlows adds flows until the store is full, or enough.
func testKeepsLiveFlows(t *testing.T, s checkflow.Store) {
	var mu sync.Mutex // guards the variables below
	var kept []string
	full := false
	concurrently(func(int) {
		f := newFlow()
		err := s.Add(t.Context(), f, ttl)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			kept = append(kept, f.CheckID)
		case errors.Is(err, checkflow.ErrFull):
			full = true
		default:
			t.Errorf("Add: %v", err)
		}
	})
	if err := s.Available(t.Context()); full != errors.Is(err, checkflow.ErrFull) {
		t.Errorf("Available = %v, want ErrFull only if the store is full (%v)", err, full)
	}
	for _, id := range kept {
		if got := stateOf(t, s, id); got != "started" {
			t.Fatalf("state of one of %d added flows = %s, want started", len(kept), got)
		}
	}
}

// concurrently calls f with 0 to returns-1.
func concurrently(f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range returns {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}
