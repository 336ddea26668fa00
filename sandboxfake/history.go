package sandboxfake

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// history contains the newest checks with their events, for the control plane. Unlike the checks of
// the service, it includes those that ended as EXPIRED or ERROR. The service's mutex guards it.
type history struct {
	records journal[*record]
	byID    map[string]*record // by check ID
}

// minHistory is the minimum limit of a history, in checks. A larger limit of the journals also
// applies to the history.
const minHistory = 10_000

// newHistory returns an empty history. It allocates memory only as checks are added.
func newHistory(journalLimit int) *history {
	return &history{
		records: journal[*record]{limit: max(minHistory, journalLimit)},
		byID:    make(map[string]*record),
	}
}

// record is the history of one check.
type record struct {
	check      *check
	events     []*event    // oldest first, at most one of each kind
	deliveries []*delivery // newest ones that are in the journal, oldest first
	queued     int         // deliveries of the check, including those that were dropped
}

// maxRecordDeliveries is the maximum number of deliveries in a record. A check has more only if its
// callbacks were sent again, or sent by the control plane.
const maxRecordDeliveries = 20

// event is a step of a check.
type event struct {
	time      time.Time
	kind      eventKind
	requestID string // of the call that caused the event; may be empty
	as        string // choice of the phone that opened the Check URL; may be empty
	location  string // of eventRedirected
}

// eventKind is the kind of an event, as the control plane shows it.
type eventKind string

const (
	eventCreated    eventKind = "created"
	eventOpened     eventKind = "opened"     // the Check URL
	eventRedirected eventKind = "redirected" // the device, to the redirect URL
	eventExchanged  eventKind = "exchanged"  // the code
	eventExpired    eventKind = "expired"
	eventCompleted  eventKind = "completed"
	eventFailed     eventKind = "failed"
	eventRemoved    eventKind = "removed" // with its project, before it ended
)

// endKinds are the kinds of the event that ends a check, by its final status.
var endKinds = map[string]eventKind{
	wire.StatusExpired:   eventExpired,
	wire.StatusCompleted: eventCompleted,
	wire.StatusError:     eventFailed,
}

// addHistory adds a new check to the history, if there is one.
func (s *service) addHistory(ck *check) {
	h := s.history
	if h == nil {
		return
	}
	r := &record{check: ck}
	if old := h.records.add(r); old != nil {
		delete(h.byID, old.check.id)
	}
	h.byID[ck.id] = r
}

// note adds an event at time at to the recent events and to the history of a check. It returns nil
// if there is no history, or if the history has dropped the check.
func (s *service) note(ck *check, kind eventKind, at time.Time) *event {
	s.recent.add(recent{kind: recentCheck, at: at, cause: s.performing, text: string(kind), ref: ck})
	if s.history == nil {
		return nil
	}
	r := s.history.byID[ck.id]
	if r == nil {
		return nil
	}
	e := &event{time: at, kind: kind}
	r.events = append(r.events, e)
	return e
}

// noteDelivery adds a new delivery to the history of its check. dropped is the delivery that the
// journal dropped for it, or nil: the history drops it, too.
func (s *service) noteDelivery(d, dropped *delivery) {
	if s.history == nil {
		return
	}
	if dropped != nil {
		if r := s.history.byID[dropped.CheckID]; r != nil && len(r.deliveries) > 0 && r.deliveries[0] == dropped {
			r.deliveries = slices.Delete(r.deliveries, 0, 1)
		}
	}
	r := s.history.byID[d.CheckID]
	if r == nil {
		return
	}
	r.queued++
	if len(r.deliveries) == maxRecordDeliveries {
		r.deliveries = slices.Delete(r.deliveries, 0, 1)
	}
	r.deliveries = append(r.deliveries, d)
}

// traceView is the JSON form of a trace, which describes one step of a check.
type traceView struct {
	TraceID string     `json:"trace_id"`
	Logs    []traceLog `json:"logs"`
	at      time.Time
}

type traceLog struct {
	Timestamp  string            `json:"timestamp"`
	Message    string            `json:"message"`
	Attributes map[string]string `json:"attributes,omitempty"`
}

// traceLifetime is the time for which a trace can be read.
const traceLifetime = 7 * 24 * time.Hour

func newTrace(ck *check, n int, at time.Time) *traceView {
	d := sha256.Sum256(fmt.Appendf(nil, "trace %d %s", n, ck.id))
	return &traceView{TraceID: fmt.Sprintf("%x-%x-%x-%x-%x", d[0:4], d[4:6], d[6:8], d[8:10], d[10:16]), at: at}
}

func (t *traceView) log(message string, attributes map[string]string) *traceView {
	t.Logs = append(t.Logs, traceLog{formatTime(t.at), message, attributes})
	return t
}

// traces derives the traces of a check from its state, so that they take no memory.
func (c *check) traces() []*traceView {
	traces := []*traceView{newTrace(c, 1, c.created).log("check accepted", map[string]string{"product": c.product.name, "version": c.version})}
	if !c.opened.IsZero() {
		traces = append(traces, newTrace(c, 2, wireTime(c.opened)).log("Check URL opened", nil))
	}
	if c.status == wire.StatusCompleted {
		traces = append(traces, newTrace(c, 3, c.updated).
			log("network operator queried", map[string]string{"network_id": sandboxNetwork.NetworkID}).
			log("check finished", map[string]string{"status": c.status}))
	}
	return traces
}

// traceListing describes lists of traces.
var traceListing = listing[*traceView]{
	embedded: "traces",
	created:  func(t *traceView) time.Time { return t.at },
	oldFirst: true,
	view:     func(_ *service, t *traceView) any { return t },
}

// listTraces handles GET /{product}/{version}/checks/{check_id}/traces. It omits expired traces.
func (s *service) listTraces(c *call) (any, error) {
	ck, err := s.ownCheck(c)
	if err != nil {
		return nil, err
	}
	var readable []*traceView
	for _, t := range ck.traces() {
		if s.clock.Now().Sub(t.at) <= traceLifetime {
			readable = append(readable, t)
		}
	}
	return listPage(s, c, traceListing, readable)
}

// getTrace handles GET /{product}/{version}/checks/{check_id}/traces/{trace_id}.
func (s *service) getTrace(c *call) (any, error) {
	ck, err := s.ownCheck(c)
	if err != nil {
		return nil, err
	}
	for _, t := range ck.traces() {
		switch {
		case t.TraceID != c.ids["trace_id"]:
		case s.clock.Now().Sub(t.at) > traceLifetime:
			return nil, newProblem(wire.TraceGone, "")
		default:
			return t, nil
		}
	}
	return nil, newProblem(wire.TraceNotFound, "")
}
