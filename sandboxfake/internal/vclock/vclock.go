// Package vclock implements a clock that can be frozen and moved, and runs functions at set times.
package vclock

import (
	"container/heap"
	"time"
)

// Clock is a clock with a queue of events. The zero Clock runs with the system's clock, or with the
// bubble's in a testing/synctest bubble. It is not safe for concurrent use, and it has no
// goroutine: its owner takes due events with [Clock.NextBy] and runs them.
type Clock struct {
	frozen bool
	held   bool
	at     time.Time     // the time while frozen or held
	offset time.Duration // of a running clock from the system's
	events eventHeap
	seq    uint64 // of the last event that was scheduled
}

// Event is a function to run at a set time.
type Event struct {
	due   time.Time
	seq   uint64 // orders events that are due at the same time
	index int    // in the heap; -1 outside
	run   func()
}

// Freeze stops the clock at t. From then on only [Clock.Set] changes its time.
func (c *Clock) Freeze(t time.Time) { c.frozen, c.at = true, t }

// Frozen reports whether the clock is frozen.
func (c *Clock) Frozen() bool { return c.frozen }

// Now returns the time on the clock.
func (c *Clock) Now() time.Time {
	if c.frozen || c.held {
		return c.at
	}
	return time.Now().UTC().Add(c.offset)
}

// Hold stops a running clock until [Clock.Release].
func (c *Clock) Hold() { c.at, c.held = c.Now(), true }

// Held reports whether the clock is held.
func (c *Clock) Held() bool { return c.held }

// Set sets the time of a clock that is held or frozen.
func (c *Clock) Set(t time.Time) { c.at = t }

// Release ends [Clock.Hold]. A running clock continues from the time at which it was held or set. A
// frozen clock stays frozen.
func (c *Clock) Release() {
	c.held = false
	if !c.frozen {
		c.offset += c.at.Sub(c.Now())
	}
}

// Schedule adds an event that is due at the given time, and returns it for [Clock.Cancel].
func (c *Clock) Schedule(due time.Time, run func()) *Event {
	c.seq++
	e := &Event{due: due, seq: c.seq, run: run}
	heap.Push(&c.events, e)
	return e
}

// Cancel removes an event. It does nothing if e is nil or was taken or canceled before.
func (c *Clock) Cancel(e *Event) {
	if e != nil && e.index >= 0 {
		heap.Remove(&c.events, e.index)
	}
}

// NextBy removes and returns the earliest event that is due at or before t, or returns nil. Events
// that are due at the same time are returned in the order in which they were scheduled.
func (c *Clock) NextBy(t time.Time) *Event {
	if !c.DueBy(t) {
		return nil
	}
	return heap.Pop(&c.events).(*Event)
}

// DueBy reports whether an event is due at or before t.
func (c *Clock) DueBy(t time.Time) bool { return len(c.events) > 0 && !c.events[0].due.After(t) }

// Next returns the time of the earliest event, and false if there is none.
func (c *Clock) Next() (due time.Time, ok bool) {
	if len(c.events) == 0 {
		return time.Time{}, false
	}
	return c.events[0].due, true
}

// Due returns the time of the event.
func (e *Event) Due() time.Time { return e.due }

// Run calls the event's function.
func (e *Event) Run() { e.run() }

// eventHeap implements heap.Interface.
type eventHeap []*Event

func (h eventHeap) Len() int { return len(h) }

func (h eventHeap) Less(i, j int) bool {
	if !h[i].due.Equal(h[j].due) {
		return h[i].due.Before(h[j].due)
	}
	return h[i].seq < h[j].seq
}

func (h eventHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *eventHeap) Push(x any) {
	e := x.(*Event)
	e.index = len(*h)
	*h = append(*h, e)
}

func (h *eventHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.index = -1
	return e
}
