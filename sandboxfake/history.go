package sandboxfake

import (
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

// noteDelivery adds a new delivery to the history of its check. dropped is the delivery that left
// the journal for it, or nil: the history does not keep it either.
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
