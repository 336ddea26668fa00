// Package timeline renders the events of a sandboxfake, as text for the log of a test and as a page
// for browsers.
//
// The events are untrusted: the renderer escapes and truncates them. It cannot know which of them
// are secret. Callers mask those with the functions of this package, such as [MaskURL].
package timeline

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Timeline is a list of events in the order in which they happened.
type Timeline struct {
	Title   string    // of the page, such as the name of a test
	Facts   []Field   // about the server, such as its clock
	Start   time.Time // on the server's clock; the times of events are shown relative to it
	Real    bool      // also show Event.Real, because the two clocks differ
	Events  []Event   // oldest first
	Earlier int       // number of older events, which are not in Events
}

// Event is an event of a server, or one that is due later.
type Event struct {
	Time    time.Time     // on the server's clock; if zero, it is not shown
	Real    time.Duration // on the system's clock, since Timeline.Start
	Due     bool          // the event has not happened
	Kind    Kind
	Outcome Outcome
	Title   string  // such as an operation
	Result  string  // such as a status; may be empty
	Note    string  // such as an error; may be empty
	Fields  []Field // only on the page
}

// Field is a named value. A value may have several lines.
type Field struct{ Name, Value string }

// Kind is the kind of an event.
type Kind string

// Kinds of events. The page can hide each of them.
const (
	Request  Kind = "request"
	Check    Kind = "check"
	Callback Kind = "callback"
	Fault    Kind = "fault"
	Control  Kind = "control" // clock, keys, reset
)

// Outcome determines the color of an event.
type Outcome string

// Outcomes of events.
const (
	Neutral Outcome = ""
	Good    Outcome = "good"
	Warn    Outcome = "warn"
	Bad     Outcome = "bad"
)

// StatusOutcome returns the outcome of a response with the given status.
func StatusOutcome(status int) Outcome {
	switch {
	case status >= 500 || status == 0:
		return Bad
	case status >= 400:
		return Warn
	}
	return Good
}

// Span formats a duration with about three digits.
func Span(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Span(-d)
	case d < time.Second:
		precision := 100 * time.Microsecond
		if d >= 10*time.Millisecond {
			precision = time.Millisecond
		}
		d = d.Round(precision)
		if d == 0 {
			return "0s"
		}
		return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', -1, 64) + "ms"
	case d < time.Minute:
		d = d.Round(100 * time.Millisecond)
	default:
		d = d.Round(time.Second)
	}
	return d.String()
}

// offset returns the time of an event relative to the start, or "" for none.
func (t *Timeline) offset(e *Event) string {
	switch {
	case e.Time.IsZero():
		return ""
	case e.Time.Before(t.Start):
		return Span(e.Time.Sub(t.Start))
	}
	return "+" + Span(e.Time.Sub(t.Start))
}

// clean returns text of at most limit bytes without characters that can change how a terminal or a
// page shows the rest, such as escape sequences and those of bidirectional text. It shows them as
// in a Go string. If lines is true, line breaks and tabs remain.
func clean(text string, limit int, lines bool) string {
	cut := len(text) > limit
	if cut {
		text = text[:limit]
		for !utf8.ValidString(text[max(0, len(text)-utf8.UTFMax):]) && len(text) > limit-utf8.UTFMax {
			text = text[:len(text)-1]
		}
	}
	text = strings.ToValidUTF8(text, "\ufffd")
	if !printable(text, lines) {
		var b strings.Builder
		for _, r := range text {
			if isPrintable(r, lines) {
				b.WriteRune(r)
			} else {
				quoted := strconv.QuoteRuneToASCII(r)
				b.WriteString(quoted[1 : len(quoted)-1])
			}
		}
		text = b.String()
	}
	if cut {
		text += " [truncated]"
	}
	return text
}

func printable(text string, lines bool) bool {
	for _, r := range text {
		if !isPrintable(r, lines) {
			return false
		}
	}
	return true
}

func isPrintable(r rune, lines bool) bool {
	return unicode.IsPrint(r) || lines && (r == '\n' || r == '\t')
}
