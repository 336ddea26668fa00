package sandboxfake

import (
	"container/heap"
	"time"
)

// clock is a server's time and, in one heap, all that is to happen at a time. The server's mutex guards it.
type clock struct {
	frozen bool          // the time stands still but for Advance
	held   bool          // an Advance is under way: the time is at, and only that Advance takes events
	at     time.Time     // the time while frozen or held
	offset time.Duration // what Advance has added to a running clock
	events eventHeap
	queued uint64 // numbers events, to settle ties
}

// event is something that happens at a time: a check expires, a delivery is tried.
type event struct {
	due   time.Time
	seq   uint64
	index int    // its place in the heap; -1 outside
	run   func() // called with the server's mutex held
}

func (c *clock) now() time.Time {
	if c.frozen || c.held {
		return c.at
	}
	return time.Now().UTC().Add(c.offset)
}

// schedule has run called when the clock shows due.
func (c *clock) schedule(due time.Time, run func()) *event {
	c.queued++
	e := &event{due: due, seq: c.queued, run: run}
	heap.Push(&c.events, e)
	return e
}

// cancel takes e back, if it has not happened.
func (c *clock) cancel(e *event) {
	if e != nil && e.index >= 0 {
		heap.Remove(&c.events, e.index)
	}
}

// nextBy takes the earliest event that is due at t, or returns nil.
func (c *clock) nextBy(t time.Time) *event {
	if !c.dueBy(t) {
		return nil
	}
	return heap.Pop(&c.events).(*event)
}

func (c *clock) dueBy(t time.Time) bool { return len(c.events) > 0 && !c.events[0].due.After(t) }

// hold stops a running clock until release.
func (c *clock) hold() {
	c.at = c.now()
	c.held = true
}

// release lets the clock go on from the time that it shows.
func (c *clock) release() {
	c.held = false
	if !c.frozen {
		c.offset += c.at.Sub(c.now())
	}
}

// eventHeap is a container/heap of events, the earliest first, ties in the order they were scheduled.
type eventHeap []*event

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
	e := x.(*event)
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
