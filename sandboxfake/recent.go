package sandboxfake

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/idverify/idverify-go/internal/timeline"
)

// recentEvents contains the newest events of a server in one order, for the timeline of a failed
// test. Reset does not clear it. A nil *recentEvents records nothing.
type recentEvents struct {
	started time.Time // on the system's clock

	mu     sync.Mutex // guards the fields below; the holder of a service's mutex may lock it
	start  time.Time  // on the server's clock
	moved  bool       // the server's clock was frozen or moved
	last   uint64     // sequence number of the latest event
	events journal[recent]
}

// maxRecent is the maximum number of recent events. A smaller limit of the journals also applies,
// because an event keeps its request or delivery in memory.
const maxRecent = 1000

// recent is an event. Events refer to objects of their service, whose mutex guards those.
type recent struct {
	seq    uint64        // order of events; an event that causes others has a lower number
	cause  uint64        // sequence number of the request that caused the event, or 0
	at     time.Time     // on the server's clock
	real   time.Duration // since recentEvents.started
	kind   recentKind
	number int           // of an attempt, counted from 1
	took   time.Duration // processing of a request; step of the clock
	text   string        // kind of a check's event; scope of a token; key ID; error of Advance
	ref    any           // *Request, *check, *delivery or *injection
	reason any           // *problem or tokenErrorView of a rejected request
}

// recentKind is the kind of a recent event.
type recentKind uint8

const (
	recentRequest recentKind = iota
	recentCheck
	recentQueued  // a callback
	recentAttempt // has ended
	recentInject
	recentRemove // of an injection or, if ref is nil, of all
	recentAdvance
	recentStopped // Advance, before the end of its step
	recentRotate
	recentRetire // removal of a retired key from the key set
	recentReset
	recentClose
)

func newRecentEvents(journalLimit int) *recentEvents {
	return &recentEvents{started: time.Now(), events: journal[recent]{limit: min(maxRecent, journalLimit)}}
}

// begin sets the time of the server's clock at the start.
func (r *recentEvents) begin(at time.Time, frozen bool) {
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.start, r.moved = at, frozen
	}
}

// reserve returns the sequence number of an event that is added later.
func (r *recentEvents) reserve() uint64 {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	return r.last
}

// add adds an event. If it has no sequence number, it gets the next one.
func (r *recentEvents) add(e recent) {
	if r == nil {
		return
	}
	e.real = time.Since(r.started)
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.seq == 0 {
		r.last++
		e.seq = r.last
	}
	r.moved = r.moved || e.kind == recentAdvance
	r.events.add(e)
}

// timeline returns a timeline without events, and the events in order of their sequence numbers.
func (r *recentEvents) timeline() (*timeline.Timeline, []recent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := slices.AppendSeq(make([]recent, 0, len(r.events.entries)), r.events.all)
	slices.SortFunc(events, func(a, b recent) int { return cmp.Compare(a.seq, b.seq) })
	return &timeline.Timeline{Start: r.start, Real: r.moved, Earlier: r.events.dropped}, events
}

// addRequest adds a call that is in the journal.
func (r *recentEvents) addRequest(c *call, entry *Request, resp *response) {
	if r == nil {
		return
	}
	e := recent{seq: c.seq, kind: recentRequest, at: entry.Time, ref: entry}
	if !c.started.IsZero() {
		e.took = time.Since(c.started)
	}
	switch body := resp.body.(type) {
	case *problem, tokenErrorView:
		e.reason = body
	case tokenView:
		e.text = body.Scope
	}
	r.add(e)
}
