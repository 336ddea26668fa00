package vclock_test

import (
	"slices"
	"testing"
	"time"

	"github.com/idverify/idverify-go/sandboxfake/internal/vclock"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestClock_NextBy(t *testing.T) {
	t.Parallel()
	var c vclock.Clock
	var got []string
	schedule := func(name string, seconds int) *vclock.Event {
		return c.Schedule(start.Add(time.Duration(seconds)*time.Second), func() { got = append(got, name) })
	}
	schedule("third", 2)
	schedule("first", 1)
	schedule("second", 1)
	canceled := schedule("canceled", 1)
	schedule("later", 3)

	c.Cancel(canceled)
	c.Cancel(canceled)
	c.Cancel(nil)
	for e := c.NextBy(start.Add(2 * time.Second)); e != nil; e = c.NextBy(start.Add(2 * time.Second)) {
		e.Run()
		c.Cancel(e)
	}

	if want := []string{"first", "second", "third"}; !slices.Equal(got, want) {
		t.Errorf("ran %q, want %q", got, want)
	}
	if due, ok := c.Next(); !ok || !due.Equal(start.Add(3*time.Second)) {
		t.Errorf("next event = %v, %v, want the one after 3 s", due, ok)
	}
}

func TestClock_Release(t *testing.T) {
	t.Parallel()
	for _, frozen := range []bool{true, false} {
		var c vclock.Clock
		if frozen {
			c.Freeze(start)
		}
		began := c.Now()

		c.Hold()
		c.Set(began.Add(time.Hour))
		held := c.Now()
		c.Release()

		if !held.Equal(began.Add(time.Hour)) {
			t.Errorf("frozen %v: held clock shows %v, want %v", frozen, held, began.Add(time.Hour))
		}
		if c.Held() || c.Frozen() != frozen {
			t.Errorf("after Release: held %v, frozen %v, want false, %v", c.Held(), c.Frozen(), frozen)
		}
		if now := c.Now(); now.Before(held) || frozen && !now.Equal(held) {
			t.Errorf("frozen %v: after Release the clock shows %v, want it to continue from %v", frozen, now, held)
		}
	}
}
