package sandboxfake

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/idverify/idverify-go"
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
		_, err = s.WaitDelivery(ctx, func(d Delivery) bool { return d.CheckID == checkID && d.Done })
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

// Default and maximum number of items on a page of the control plane.
const (
	defaultControlPage = 50
	maxControlPage     = 200
)

// maxControlSearch is the maximum length of a search text, in bytes. It is the length of the
// longest text that is searched.
const maxControlSearch = maxJournalPath

// controlListing contains the query parameters of a list.
type controlListing struct {
	limit  int // 0 if the parameter is missing
	before *cursor
	query  url.Values
}

// cursor is the position in a journal at which a page ends. It remains valid while entries are
// added or dropped.
type cursor struct {
	generation uint64 // of the service
	seq        uint64 // of the last entry of the page, counted from the first one ever added
}

func (c cursor) String() string { return fmt.Sprintf("%d-%d", c.generation, c.seq) }

// parseCursor parses a cursor.
func parseCursor(text string) (*cursor, error) {
	generation, seq, _ := strings.Cut(text, "-")
	var c cursor
	var err error
	if c.generation, err = strconv.ParseUint(generation, 10, 64); err == nil {
		c.seq, err = strconv.ParseUint(seq, 10, 64)
	}
	if err != nil {
		return nil, badControl("before must be the value of next in the previous page")
	}
	return &c, nil
}

// newControlListing parses the parameters limit, before and search. Except for those in repeatable,
// a parameter must not be repeated.
func newControlListing(r *http.Request, repeatable ...string) (*controlListing, error) {
	l := &controlListing{query: r.URL.Query()}
	for name, values := range l.query {
		if len(values) > 1 && !slices.Contains(repeatable, name) {
			return nil, badControl("duplicate query parameter %q", name)
		}
	}
	if len(l.query.Get("search")) > maxControlSearch {
		return nil, badControl("search must have at most %d bytes", maxControlSearch)
	}
	var err error
	if l.query.Has("limit") {
		l.limit, err = strconv.Atoi(l.query.Get("limit"))
		if err != nil || l.limit < 1 || l.limit > maxControlPage {
			return nil, badControl("limit must be from 1 to %d", maxControlPage)
		}
	}
	if l.query.Has("before") {
		if l.before, err = parseCursor(l.query.Get("before")); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// errOldCursor is returned for a cursor from before a reset.
func errOldCursor() error {
	p := &problem{Type: "about:blank", Status: http.StatusConflict, Detail: "the server was reset after the previous page: request the first page"}
	p.Title = http.StatusText(p.Status)
	return p
}

// scanChunk is the number of journal entries that a page examines while it holds the mutex.
const scanChunk = 500

// controlPage calls visit for the entries of a page, newest first. visit reports whether the page
// contains the entry, and is called with s.mu held. controlPage returns the cursor of the next
// page, or "" if there is none. The caller does not hold s.mu, so that a search of many entries
// does not block the service.
func controlPage[T any](s *service, j *journal[T], l *controlListing, visit func(entry T, full bool) bool) (next string, err error) {
	limit := l.limit
	if limit == 0 {
		limit = defaultControlPage
	}
	before := ^uint64(0)
	if l.before != nil {
		if l.before.generation != s.generation {
			return "", errOldCursor()
		}
		before = l.before.seq
	}
	last := cursor{generation: s.generation}
	found := 0
	chunk := func() (more bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		oldest := uint64(j.dropped)
		before = min(before, oldest+uint64(len(j.entries)))
		for range scanChunk {
			if before <= oldest {
				return false
			}
			before--
			full := found == limit
			if !visit(j.at(int(before-oldest)), full) {
				continue
			}
			if full {
				next = last.String()
				return false
			}
			found++
			last.seq = before
		}
		return true
	}
	for chunk() {
	}
	return next, nil
}

// maxControlCallback is the maximum length of a callback's body that POST /_sandbox/callbacks
// sends, in bytes. Encoded as JSON text, each byte can take six.
const maxControlCallback = 64 << 10

// controlSendCallback handles POST /_sandbox/callbacks. The callback is a delivery of the check's
// project, or of the initial project, and takes the next delivery ID of it.
func (s *Server) controlSendCallback(r *http.Request) (any, error) {
	var params struct {
		URL     string  `json:"url"`
		Product string  `json:"product"`
		Body    *string `json:"body"`
		CheckID string  `json:"check_id"`
	}
	if err := decodeControlUpTo(6*maxControlCallback+wire.MaxBody, r, &params); err != nil {
		return nil, err
	}
	switch defect := urlDefect(params.URL); {
	case defect != "":
		return nil, badControl("url %s", defect)
	case params.Body == nil:
		return nil, badControl("body is missing")
	case len(*params.Body) > maxControlCallback:
		return nil, badControl("body must have at most %d bytes", maxControlCallback)
	case params.Product != "" && productNamed(params.Product) == nil:
		return nil, badControl("product must be %s", productNames())
	}
	svc := s.lock()
	defer svc.mu.Unlock()
	if svc.ended != nil {
		return nil, svc.ended
	}
	d := &delivery{project: svc.accounts.projects[svc.initial.projectID], Delivery: Delivery{
		CheckID: params.CheckID,
		Product: idverify.Product(params.Product),
		URL:     params.URL,
		Body:    []byte(*params.Body),
	}}
	if params.CheckID != "" {
		rec := svc.history.byID[params.CheckID]
		if rec == nil {
			return nil, newProblem(wire.CheckNotFound, "check not found in the history")
		}
		d.project, d.ReferenceID, d.Status = rec.check.project, rec.check.referenceID, idverify.CheckStatus(rec.check.status)
		if d.Product == "" {
			d.Product = idverify.Product(rec.check.product.name)
		}
	}
	if d.project == nil {
		return nil, badControl("the initial project was deleted: set check_id")
	}
	if d.Product == "" {
		d.Product = idverify.ProductPhoneCheck
	}
	d.ProjectID = d.project.id
	svc.queueDelivery(d)
	svc.runDue()
	return deliveryReference{d.ID}, nil
}
