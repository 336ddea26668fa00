package sandboxfake

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idverify/idverify-go/internal/timeline"
)

// showControl sets the fields of an event that a method of the server has caused.
func showControl(v *timeline.Event, e recent) {
	switch e.kind {
	case recentInject:
		i := e.ref.(*injection)
		v.Kind, v.Title, v.Result, v.Note = timeline.Fault, "faults injected", fmt.Sprint(len(i.faults)), i.text(i.faults)
	case recentRemove:
		v.Kind, v.Title = timeline.Fault, "faults removed"
		if i, ok := e.ref.(*injection); ok {
			v.Note = i.text(i.faults)
		}
	case recentAdvance:
		v.Title, v.Result = "clock advances", e.took.String()
	case recentStopped:
		v.Title, v.Outcome, v.Note = "clock stops", timeline.Bad, timeline.MaskText(e.text)
	case recentRotate:
		v.Title, v.Note = "keys rotated", "key "+shortID(e.text)+" signs"
		v.Fields = []timeline.Field{{Name: "Key ID", Value: e.text}}
	case recentRetire:
		v.Title, v.Note = "key removed", "key "+shortID(e.text)+" is no longer published"
		v.Fields = []timeline.Field{{Name: "Key ID", Value: e.text}}
	case recentReset:
		v.Title = "server reset"
	case recentClose:
		v.Title = "server closed"
	}
}

// text describes faults of the injection, and the calls that they match.
func (i *injection) text(faults []Fault) string {
	const maxTexts = 6
	var texts []string
	for len(faults) > 0 {
		n := 1 // equal faults
		for n < len(faults) && faults[n] == faults[0] {
			n++
		}
		if len(texts) == maxTexts {
			texts = append(texts, "…")
			break
		}
		text := faultText(&faults[0])
		if n > 1 {
			text = fmt.Sprintf("%d times %s", n, text)
		}
		texts, faults = append(texts, text), faults[n:]
	}
	operation := i.match.Operation
	if operation == "" {
		operation = "any operation"
	}
	if i.match.CheckID != "" {
		operation += " of check " + shortID(timeline.MaskPath(i.match.CheckID))
	}
	if i.match.Repeat {
		operation += ", repeated"
	}
	return operation + ": " + strings.Join(texts, "; ")
}

// maxDue is the maximum number of deliveries, and of injections, in dueEvents.
const maxDue = 4

// dueEvents returns what has not happened: attempts in flight or due later, and faults that no call
// has met. The caller holds s.mu.
func (s *service) dueEvents() []timeline.Event {
	var due []timeline.Event
	rest := 0
	for d := range s.deliveries.all {
		if v, ok := s.dueAttempt(d); !ok {
			continue
		} else if due = append(due, v); len(due) > maxDue {
			due, rest = due[:maxDue], rest+1
		}
	}
	slices.SortStableFunc(due, func(a, b timeline.Event) int { return a.Time.Compare(b.Time) })
	if rest > 0 {
		due = append(due, timeline.Event{Due: true, Kind: timeline.Callback, Title: fmt.Sprintf("%d other callbacks", rest)})
	}
	unused := 0
	for _, i := range s.injections {
		if left := i.faults[i.next:]; len(left) > 0 && !i.match.Repeat && unused < maxDue {
			unused++
			due = append(due, timeline.Event{Due: true, Kind: timeline.Fault, Title: "faults not used", Result: fmt.Sprint(len(left)), Note: i.text(left)})
		}
	}
	return due
}

// dueAttempt returns the next attempt of a delivery, and false if there is none.
func (s *service) dueAttempt(d *delivery) (timeline.Event, bool) {
	v := timeline.Event{Due: true, Kind: timeline.Callback, Title: fmt.Sprintf("callback attempt %d", len(d.Attempts)+1), Fields: deliveryFields(d)}
	note := fmt.Sprintf("%s %s", shortID(d.CheckID), d.Status)
	switch {
	case d.inFlight && s.ended == nil:
		v.Time, v.Note = d.due, "in flight; "+note
	case d.inFlight:
		v.Time, v.Note = d.due, "in flight until the server was closed; "+note
	case !d.NextAttempt.IsZero():
		v.Time, v.Note = d.NextAttempt, note
		if d.NextAttempt.After(s.clock.Now()) {
			v.Note = fmt.Sprintf("in %v; %s", d.NextAttempt.Sub(s.clock.Now()).Round(100*time.Millisecond), note)
		}
	case !d.Done:
		v.Time, v.Note = d.due, "waits for other attempts in flight; "+note
	default:
		return v, false
	}
	return v, true
}
