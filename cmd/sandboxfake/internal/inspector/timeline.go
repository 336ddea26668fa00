package inspector

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/idverify/idverify-go/internal/timeline"
)

// timelineView is the part of the response of the operation timeline that a page shows.
type timelineView struct {
	Check struct {
		openCheck
		Version   string    `json:"version"`
		CreatedAt time.Time `json:"created_at"`
	} `json:"check"`
	Events  []eventView `json:"events"`
	Dropped int         `json:"dropped"`
}

// eventView is an event of a check or of its callbacks.
type eventView struct {
	Time            time.Time           `json:"time"`
	Kind            string              `json:"kind"`
	RequestID       string              `json:"request_id"`
	Location        string              `json:"location"`
	Status          any                 `json:"status"` // of the check, or of the response to an attempt
	Match           *bool               `json:"match"`
	NoSIMChange     *bool               `json:"no_sim_change"`
	ErrorCode       string              `json:"error_code"`
	DeliveryID      string              `json:"delivery_id"`
	URL             string              `json:"url"`
	Number          int                 `json:"number"`
	Body            string              `json:"body"`
	Header          map[string][]string `json:"header"`
	Result          string              `json:"result"`
	Error           string              `json:"error"`
	Fault           json.RawMessage     `json:"fault"`
	DurationSeconds float64             `json:"duration_seconds"`
}

// saveTimeline handles GET /_sandbox/page/private/timeline.html?check_id=…, which downloads the
// timeline of a check as a page for others. Package timeline masks its secrets by their form: one
// that looks like a lower-case word of at most 24 letters, and the hosts of URLs, remain.
func (p *pages) saveTimeline(w http.ResponseWriter, r *http.Request) {
	var view timelineView
	query := url.Values{"check_id": {r.URL.Query().Get("check_id")}}
	status, err := p.call(r.Context(), http.MethodGet, "timeline?"+query.Encode(), nil, &view)
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	switch {
	case status == http.StatusNotFound || status == http.StatusBadRequest:
		http.Error(w, "check not found", status)
		return
	case err != nil:
		http.Error(w, "the control plane did not respond as expected", http.StatusBadGateway)
		return
	}
	header.Set("Content-Type", mediaTypes[".html"])
	header.Set("Content-Security-Policy", timeline.Policy+"; frame-ancestors 'none'")
	header.Set("Content-Disposition", `attachment; filename="timeline-`+fileID(view.Check.CheckID)+`.html"`)
	_ = view.timeline().WriteHTML(w) // fails only if the client has disconnected
}

// fileID returns the beginning of an ID for a file name.
func fileID(id string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("0123456789abcdef", r) {
			return r
		}
		return -1
	}, id[:min(len(id), 8)])
}

// timeline returns the timeline of the check.
func (v *timelineView) timeline() *timeline.Timeline {
	t := &timeline.Timeline{
		Title: v.title(),
		Facts: filledFields(
			"Check ID", v.Check.CheckID,
			"Product", strings.TrimSpace(v.Check.Product+" "+v.Check.Version),
			"Status", v.Check.Status,
			"Phone number", timeline.MaskNumber(v.Check.PhoneNumber),
			"Created at", v.Check.CreatedAt.UTC().Format(time.RFC3339Nano),
		),
		Start:   v.Check.CreatedAt,
		Earlier: v.Dropped,
	}
	for i := range v.Events {
		t.Events = append(t.Events, v.Events[i].event())
	}
	return t
}

func (v *timelineView) title() string {
	return fmt.Sprintf("%s %s", cmp.Or(productTitles[v.Check.Product], "SIMCheck"), v.Check.CheckID[:min(len(v.Check.CheckID), 8)])
}

// event returns the event as a timeline shows it.
func (e *eventView) event() timeline.Event {
	v := timeline.Event{Time: e.Time, Kind: timeline.Callback, Title: e.Kind}
	switch e.Kind {
	case "callback_queued":
		v.Title = "callback queued"
	case "attempt":
		e.attempt(&v)
	case "next_attempt", "attempt_in_flight":
		v.Title, v.Due = fmt.Sprintf("callback attempt %d", e.Number), true
		if e.Kind == "attempt_in_flight" {
			v.Note = "in flight"
		}
	default:
		v.Kind, v.Note = timeline.Check, e.resultText()
		switch {
		case e.Kind == "completed":
			v.Outcome = timeline.Good
		case e.Kind == "failed" || e.Kind == "expired":
			v.Outcome = timeline.Warn
		case e.Location != "":
			v.Note = "to " + timeline.MaskURL(e.Location)
		}
	}
	v.Fields = append(v.Fields, filledFields("Request ID", e.RequestID, "Delivery ID", e.DeliveryID)...)
	if e.URL != "" {
		v.Fields = append(v.Fields, timeline.Field{Name: "URL", Value: timeline.MaskURL(e.URL)})
	}
	v.Fields = append(v.Fields, filledFields("Fault", timeline.MaskBody(e.Fault), "Body", timeline.MaskBody([]byte(e.Body)))...)
	return v
}

// attempt sets the fields of v for a delivery attempt that has ended.
func (e *eventView) attempt(v *timeline.Event) {
	v.Title, v.Result, v.Outcome = fmt.Sprintf("callback attempt %d", e.Number), "–", timeline.Bad
	if status, ok := e.Status.(float64); ok {
		v.Result = fmt.Sprint(status)
	}
	if e.Result == "acknowledged" {
		v.Outcome = timeline.Good
	}
	v.Note = fmt.Sprintf("%s in %s", timeline.MaskText(strings.ReplaceAll(e.Result, "_", " ")), timeline.Span(time.Duration(e.DurationSeconds*float64(time.Second))))
	if e.Error != "" {
		v.Note += "; " + timeline.MaskText(e.Error)
	}
	if len(e.Fault) > 0 {
		v.Note += "; injected fault"
	}
	v.Fields = filledFields("Signed at", http.Header(e.Header).Get("Date"))
}

// resultText returns the result of the event that ends a check.
func (e *eventView) resultText() string {
	var results []string
	if e.Match != nil && e.ErrorCode == "" {
		results = append(results, map[bool]string{true: "match", false: "no match"}[*e.Match])
	}
	if e.NoSIMChange != nil && e.ErrorCode == "" {
		results = append(results, map[bool]string{true: "no SIM change", false: "SIM change"}[*e.NoSIMChange])
	}
	if e.ErrorCode != "" {
		results = append(results, timeline.MaskText(e.ErrorCode))
	}
	return strings.Join(results, ", ")
}

// filledFields returns the fields of pairs of a name and a value that have a value.
func filledFields(pairs ...string) (list []timeline.Field) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			list = append(list, timeline.Field{Name: pairs[i], Value: pairs[i+1]})
		}
	}
	return list
}
