package sandboxfake

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
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

// deliveryReference is the JSON form of the ID of a new delivery.
type deliveryReference struct {
	DeliveryID string `json:"delivery_id"`
}

// controlRedeliver handles POST /_sandbox/redeliver.
func (s *Server) controlRedeliver(r *http.Request) (any, error) {
	var params deliveryReference
	if err := decodeControl(r, &params); err != nil {
		return nil, err
	}
	if params.DeliveryID == "" {
		return nil, badControl("delivery_id is missing")
	}
	id, err := s.redeliver(r.Context(), params.DeliveryID)
	if errors.Is(err, errNoDelivery) {
		return nil, newProblem(wire.NotFound, "delivery not found in the journal")
	}
	return deliveryReference{id}, err
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

func newRequestView(q *Request) requestView {
	return requestView{
		q.ID, q.Time, q.Operation, q.Method, q.Path, q.Header, string(q.Body), q.Truncated, q.Status,
		q.ClientID, q.ProjectID, q.WorkspaceID, newControlFaultView(q.Fault),
	}
}

// controlRequests handles GET /_sandbox/requests. Without limit and before, it returns all
// requests, oldest first.
func (s *Server) controlRequests(r *http.Request) (any, error) {
	l, err := newControlListing(r, "operation")
	if err != nil {
		return nil, err
	}
	matches, err := requestFilter(l.query)
	if err != nil {
		return nil, err
	}
	view := struct {
		Requests []requestView `json:"requests"`
		Next     string        `json:"next,omitempty"`
		Dropped  int           `json:"dropped"`
	}{Requests: []requestView{}}
	if l.limit > 0 || l.before != nil {
		svc := s.lock()
		view.Dropped = svc.requests.dropped
		svc.mu.Unlock()
		var page []*Request // does not change after it was added to the journal
		view.Next, err = controlPage(svc, &svc.requests, l, func(q *Request, full bool) bool {
			found := matches(q)
			if found && !full {
				page = append(page, q)
			}
			return found
		})
		for _, q := range page {
			view.Requests = append(view.Requests, newRequestView(q))
		}
		return view, err
	}
	view.Dropped = s.DroppedRequests()
	for _, q := range s.Requests() {
		if matches(&q) {
			view.Requests = append(view.Requests, newRequestView(&q))
		}
	}
	return view, nil
}

// requestFilter returns a function that reports whether a request matches the parameters operation,
// status and search.
func requestFilter(query url.Values) (func(*Request) bool, error) {
	operations, search, status := query["operation"], query.Get("search"), query.Get("status")
	low, high := 0, 999
	if query.Has("status") {
		n, err := strconv.Atoi(strings.TrimSuffix(status, "xx"))
		switch {
		case err == nil && len(status) == 3 && 100 <= n && n <= 599:
			low, high = n, n
		case err == nil && len(status) == 3 && 1 <= n && n <= 5:
			low, high = 100*n, 100*n+99
		default:
			return nil, badControl("status must be a status such as 404, or a class such as 4xx")
		}
	}
	return func(q *Request) bool {
		return (len(operations) == 0 || slices.Contains(operations, q.Operation)) &&
			low <= q.Status && q.Status <= high && strings.Contains(q.Path, search)
	}, nil
}
