package sandboxfake

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// deliveryView is the JSON form of a [Delivery].
type deliveryView struct {
	DeliveryID   string        `json:"delivery_id"`
	CheckID      string        `json:"check_id"`
	Product      string        `json:"product"`
	Status       string        `json:"status"`
	ProjectID    string        `json:"project_id"`
	URL          string        `json:"url"`
	Body         string        `json:"body"`
	Attempts     []attemptView `json:"attempts"`
	NextAttempt  *time.Time    `json:"next_attempt,omitempty"`
	Done         bool          `json:"done"`
	Acknowledged bool          `json:"acknowledged"`
}

// attemptView is the JSON form of an [Attempt].
type attemptView struct {
	Time time.Time `json:"time"`
	*attemptFields
}

// attemptFields are the fields of an attempt in lists and timelines.
type attemptFields struct {
	Header          http.Header       `json:"header"`
	Status          int               `json:"status,omitempty"`
	Result          string            `json:"result"`
	Error           string            `json:"error,omitempty"`
	Fault           *controlFaultView `json:"fault,omitempty"`
	DurationSeconds float64           `json:"duration_seconds"`
}

func newAttemptFields(a Attempt) *attemptFields {
	return &attemptFields{a.Header, a.Status, string(a.Result), a.Error, newControlFaultView(a.Fault), a.Duration.Seconds()}
}

func newDeliveryView(d Delivery) deliveryView {
	v := deliveryView{
		DeliveryID: d.ID, CheckID: d.CheckID, Product: string(d.Product), Status: string(d.Status), ProjectID: d.ProjectID,
		URL: d.URL, Body: string(d.Body), Attempts: []attemptView{}, Done: d.Done, Acknowledged: d.Acknowledged(),
	}
	if !d.NextAttempt.IsZero() {
		v.NextAttempt = &d.NextAttempt
	}
	for _, a := range d.Attempts {
		v.Attempts = append(v.Attempts, attemptView{a.Time, newAttemptFields(a)})
	}
	return v
}

// maxControlWait is the maximum value of wait_seconds. It limits how long a connection stays open.
const maxControlWait = 600

// controlDeliveries handles GET /_sandbox/deliveries. With wait_seconds it returns once all
// attempts of a delivery of the check have ended. If the wait times out, it returns the deliveries
// so far.
func (s *Server) controlDeliveries(r *http.Request) (any, error) {
	query := r.URL.Query()
	checkID := query.Get("check_id")
	if query.Has("wait_seconds") {
		seconds, err := strconv.ParseFloat(query.Get("wait_seconds"), 64)
		if err != nil {
			return nil, badControl("wait_seconds must be a number")
		}
		timeout, err := controlSpan("wait_seconds", seconds, maxControlWait)
		if err != nil {
			return nil, err
		}
		if checkID == "" {
			return nil, badControl("wait_seconds requires a check_id")
		}
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		_, err = s.AwaitDelivery(ctx, func(d Delivery) bool { return d.CheckID == checkID && d.Done })
		if err != nil && ctx.Err() == nil {
			return nil, err
		}
	}
	view := struct {
		Deliveries []deliveryView `json:"deliveries"`
		Dropped    int            `json:"dropped"`
	}{[]deliveryView{}, s.DroppedDeliveries()}
	for _, d := range s.Deliveries() {
		if checkID == "" || d.CheckID == checkID {
			view.Deliveries = append(view.Deliveries, newDeliveryView(d))
		}
	}
	return view, nil
}

func (s *Server) controlRedeliver(r *http.Request) (any, error) {
	var params struct {
		DeliveryID string `json:"delivery_id"`
	}
	if err := decodeControl(r, &params); err != nil {
		return nil, err
	}
	err := s.Redeliver(r.Context(), params.DeliveryID)
	if errors.Is(err, errNoDelivery) {
		return nil, badControl("the journal has no delivery with this delivery_id")
	}
	return nil, err
}

// requestView is the JSON form of a [Request].
type requestView struct {
	RequestID   string            `json:"request_id"`
	Time        time.Time         `json:"time"`
	Operation   string            `json:"operation"`
	Method      string            `json:"method"`
	Path        string            `json:"path"`
	Header      http.Header       `json:"header"`
	Body        string            `json:"body"`
	Truncated   bool              `json:"truncated,omitempty"`
	Status      int               `json:"status"`
	ClientID    string            `json:"client_id,omitempty"`
	ProjectID   string            `json:"project_id,omitempty"`
	WorkspaceID string            `json:"workspace_id,omitempty"`
	Fault       *controlFaultView `json:"fault,omitempty"`
}

// controlRequests handles GET /_sandbox/requests.
func (s *Server) controlRequests(r *http.Request) (any, error) {
	view := struct {
		Requests []requestView `json:"requests"`
		Dropped  int           `json:"dropped"`
	}{[]requestView{}, s.DroppedRequests()}
	operations := r.URL.Query()["operation"]
	for _, q := range s.Requests() {
		if len(operations) > 0 && !slices.Contains(operations, q.Operation) {
			continue
		}
		view.Requests = append(view.Requests, requestView{
			q.ID, q.Time, q.Operation, q.Method, q.Path, q.Header, string(q.Body), q.Truncated, q.Status,
			q.ClientID, q.ProjectID, q.WorkspaceID, newControlFaultView(q.Fault),
		})
	}
	return view, nil
}
