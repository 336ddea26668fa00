package sandboxfake

import (
	"net/http"
	"slices"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// timelineEvent is an event of a timeline: its time, and its JSON form.
type timelineEvent struct {
	time time.Time
	view any // checkEventView or deliveryEventView
}

// checkEventView is the JSON form of an event of a check.
type checkEventView struct {
	Time        time.Time `json:"time"`
	Kind        eventKind `json:"kind"`
	RequestID   string    `json:"request_id,omitempty"`
	As          string    `json:"as,omitempty"`
	Location    string    `json:"location,omitempty"`
	Status      string    `json:"status,omitempty"` // this and the following fields: of the event that ends the check
	Match       *bool     `json:"match,omitempty"`
	NoSIMChange *bool     `json:"no_sim_change,omitempty"`
	ErrorCode   string    `json:"error_code,omitempty"`
}

// deliveryEventView is the JSON form of an event of a delivery.
type deliveryEventView struct {
	Time       time.Time  `json:"time"`
	Kind       string     `json:"kind"`
	DeliveryID string     `json:"delivery_id"`
	URL        string     `json:"url,omitempty"`    // of eventQueued
	Number     int        `json:"number,omitempty"` // of the attempt, counted from 1
	Due        *time.Time `json:"due,omitempty"`    // of eventNextAttempt
	Body       *string    `json:"body,omitempty"`   // of eventQueued and eventAttempt
	*attemptFields
}

// Kinds of events of a delivery.
const (
	eventQueued      = "callback_queued"
	eventAttempt     = "attempt"
	eventNextAttempt = "next_attempt" // due, now or later
	eventInFlight    = "attempt_in_flight"
)

// controlTimeline handles GET /_sandbox/timeline.
func (s *Server) controlTimeline(r *http.Request) (any, error) {
	l, err := newControlListing(r)
	if err != nil {
		return nil, err
	}
	checkID := l.query.Get("check_id")
	if checkID == "" {
		return nil, badControl("%s", noControlCheckID)
	}
	svc := s.lock()
	defer svc.mu.Unlock()
	rec := svc.history.byID[checkID]
	if rec == nil {
		return nil, newProblem(wire.CheckNotFound, "check not found in the history")
	}
	events := rec.timeline()
	view := struct {
		Check   *controlCheckView `json:"check"`
		Events  []any             `json:"events"`
		Dropped int               `json:"dropped"` // deliveries without events
	}{svc.controlCheckView(rec), make([]any, len(events)), rec.queued - len(rec.deliveries)}
	for i, e := range events {
		view.Events[i] = e.view
	}
	return view, nil
}

// timeline returns the events of a check and its deliveries, oldest first. Of events at the same
// time, those of the check come first, then those of its deliveries in order of creation.
func (r *record) timeline() []timelineEvent {
	var events []timelineEvent
	for _, e := range r.events {
		v := checkEventView{Time: e.time, Kind: e.kind, RequestID: e.requestID, As: e.as, Location: e.location}
		if ck := r.check; e.kind == endKinds[ck.status] {
			v.Status, v.Match, v.NoSIMChange, v.ErrorCode = ck.status, verdictField(ck.match), verdictField(ck.noSIMChange), ck.errorCode
		}
		events = append(events, timelineEvent{e.time, v})
	}
	for _, d := range r.deliveries {
		events = append(events, d.timeline()...)
	}
	slices.SortStableFunc(events, func(a, b timelineEvent) int { return a.time.Compare(b.time) })
	return events
}

// timeline returns the events of a delivery.
func (d *delivery) timeline() []timelineEvent {
	body := string(d.Body)
	events := []timelineEvent{{d.queued, deliveryEventView{Time: d.queued, Kind: eventQueued, DeliveryID: d.ID, URL: d.URL, Body: &body}}}
	number := 1
	for _, a := range d.Attempts {
		sent := string(a.Fault.sent(d.Body))
		events = append(events, timelineEvent{a.Time, deliveryEventView{
			Time: a.Time, Kind: eventAttempt, DeliveryID: d.ID, Number: number, Body: &sent, attemptFields: newAttemptFields(a),
		}})
		number++
	}
	next := deliveryEventView{DeliveryID: d.ID, Number: number}
	switch {
	case d.inFlight:
		next.Time, next.Kind = d.due, eventInFlight
	case !d.NextAttempt.IsZero():
		next.Time, next.Kind, next.Due = d.NextAttempt, eventNextAttempt, new(d.NextAttempt)
	case !d.Done: // waits for other attempts in flight
		next.Time, next.Kind, next.Due = d.due, eventNextAttempt, new(d.due)
	default:
		return events
	}
	return append(events, timelineEvent{next.Time, next})
}
