package checkflow_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/idverify/idverify-go/checkflow"
	"github.com/idverify/idverify-go/checkflow/storetest"
	"github.com/idverify/idverify-go/internal/synctest"
)

func TestMemoryStore(t *testing.T) {
	t.Parallel()
	for name, max := range map[string]int{"default": 0, "full": 100} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(*testing.T) checkflow.Store { return checkflow.NewMemoryStore(max) })
		})
	}
}

// TestMemoryStore_Full checks that a flow leaves the store only by its TTL.
func TestMemoryStore_Full(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := checkflow.NewMemoryStore(2)
		noError(t, s.Add(t.Context(), checkflow.Flow{CheckID: "a", State: checkflow.StateStarted}, time.Hour))
		noError(t, s.Add(t.Context(), checkflow.Flow{CheckID: "b", State: checkflow.StateStarted}, time.Minute))
		time.Sleep(time.Minute) // the bubble's clock
		early := s.Add(t.Context(), checkflow.Flow{CheckID: "c"}, time.Minute)
		time.Sleep(time.Nanosecond)
		late := s.Add(t.Context(), checkflow.Flow{CheckID: "c"}, time.Minute)

		if !errors.Is(early, checkflow.ErrFull) || late != nil {
			t.Errorf("Add = %v before the TTL of another flow has passed, %v after; want ErrFull and none", early, late)
		}
		if _, reason, err := s.Claim(t.Context(), "a", [32]byte{}, true); err != nil || reason != "" {
			t.Errorf("Claim of the flow with the longer TTL = %q, %v; want none", reason, err)
		}
	})
}

func TestMemoryStore_DefaultSize(t *testing.T) {
	t.Parallel()
	for _, max := range []int{0, -1} {
		s := checkflow.NewMemoryStore(max)
		n := 0
		for ; s.Add(t.Context(), checkflow.Flow{CheckID: fmt.Sprint(n)}, time.Hour) == nil; n++ {
		}
		if n != 10_000 {
			t.Errorf("NewMemoryStore(%d) is full after %d flows, want 10,000", max, n)
		}
	}
}

// TestFlow_Transitions compares the state machine with the table of docs/security.md, in every
// cell.
func TestFlow_Transitions(t *testing.T) {
	t.Parallel()
	text := must(os.ReadFile("../docs/security.md"))(t)
	_, section, _ := strings.Cut(string(text), "\n### States of a flow\n")
	section, _, _ = strings.Cut(section, "\n#")
	documented := make(map[[2]string][2]string)
	var events []string
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.ReplaceAll(strings.TrimSpace(line), "`", ""), " | ")
		state, ok := strings.CutPrefix(cells[0], "| ")
		switch {
		case !ok:
		case events == nil:
			events = cells[1:]
		default:
			for i, cell := range cells[1:] {
				next, effect, changes := strings.Cut(strings.TrimSuffix(cell, " |"), ": ")
				if !changes {
					next, effect = state, next
				}
				documented[[2]string{state, strings.TrimSuffix(events[i], " |")}] = [2]string{next, effect}
			}
		}
	}

	actual := make(map[[2]string][2]string)
	for _, state := range []checkflow.State{"", checkflow.StateStarted, checkflow.StateClaimed, checkflow.StateDone, checkflow.StateRevoked} {
		for _, event := range []string{"owner claims", "other claims", "other claims and revokes", "finish"} {
			f := checkflow.Flow{State: state, Owner: [32]byte{1}}
			var effect string
			switch event {
			case "owner claims":
				effect = effectOf(f.Claim([32]byte{1}, true))
			case "other claims":
				effect = effectOf(f.Claim([32]byte{2}, false))
			case "other claims and revokes":
				effect = effectOf(f.Claim([32]byte{2}, true))
			case "finish":
				effect = "nothing"
				if f.Finish() {
					effect = "report the result"
				}
			}
			actual[[2]string{nameOf(state), event}] = [2]string{nameOf(f.State), effect}
		}
	}

	if len(documented) != 20 {
		t.Errorf("docs/security.md has %d transitions, want 20", len(documented))
	}
	if diff := cmp.Diff(documented, actual); diff != "" {
		t.Errorf("transitions (-docs/security.md +code):\n%s", diff)
	}
}

func effectOf(reason checkflow.Reason) string {
	if reason == "" {
		return "exchange the code"
	}
	return string(reason)
}

func nameOf(state checkflow.State) string {
	if state == "" {
		return "not stored"
	}
	return string(state)
}

// TestFlow_UnknownState checks that a state of a later version is never a sign-in.
func TestFlow_UnknownState(t *testing.T) {
	t.Parallel()
	f := checkflow.Flow{State: "paused"}

	reason, finished := f.Claim(f.Owner, true), f.Finish()

	if reason != checkflow.ReasonNotFound || finished || f.State != "paused" {
		t.Errorf("Claim = %q, Finish = %v, then %s; want not_found, false, paused", reason, finished, f.State)
	}
}
