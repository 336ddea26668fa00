package sandboxfake

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// controlCheckView is the JSON form of a check in the control plane.
type controlCheckView struct {
	CheckID      string            `json:"check_id"`
	Product      string            `json:"product"`
	Version      string            `json:"version"`
	ProjectID    string            `json:"project_id"`
	PhoneNumber  string            `json:"phone_number"`
	ReferenceID  string            `json:"reference_id,omitempty"`
	Status       string            `json:"status"`
	Match        *bool             `json:"match,omitempty"`
	NoSIMChange  *bool             `json:"no_sim_change,omitempty"`
	ErrorCode    string            `json:"error_code,omitempty"`
	CreatedAt    time.Time         `json:"created_at"`
	UpdatedAt    time.Time         `json:"updated_at"`
	ExpiresAt    *time.Time        `json:"expires_at,omitempty"` // until the check ends
	OpenedAt     *time.Time        `json:"opened_at,omitempty"`
	CallbackURL  string            `json:"callback_url,omitempty"` // of the check or its project
	RedirectURL  string            `json:"redirect_url,omitempty"` // of the check or its project
	CheckURL     string            `json:"check_url,omitempty"`    // until it is opened
	OpenURL      string            `json:"open_url,omitempty"`     // page for the phone, until the Check URL is opened
	Deliveries   int               `json:"deliveries"`
	LastDelivery *lastDeliveryView `json:"last_delivery,omitempty"` // if the journal has one
	Live         bool              `json:"live"`
}

// lastDeliveryView is the JSON form of the state of a check's latest delivery.
type lastDeliveryView struct {
	DeliveryID  string        `json:"delivery_id"`
	Attempts    int           `json:"attempts"`         // that have ended
	Status      int           `json:"status,omitempty"` // of the response to the last attempt
	Result      AttemptResult `json:"result,omitempty"` // of the last attempt
	NextAttempt *time.Time    `json:"next_attempt,omitempty"`
	Done        bool          `json:"done"`
}

// lastDelivery returns the state of the latest delivery, or nil.
func (r *record) lastDelivery() *lastDeliveryView {
	if len(r.deliveries) == 0 {
		return nil
	}
	d := r.deliveries[len(r.deliveries)-1]
	v := &lastDeliveryView{DeliveryID: d.ID, Attempts: len(d.Attempts), Done: d.Done}
	if v.Attempts > 0 {
		last := d.Attempts[v.Attempts-1]
		v.Status, v.Result = last.Status, last.Result
	}
	if !d.NextAttempt.IsZero() {
		v.NextAttempt = new(d.NextAttempt)
	}
	return v
}

// controlCheckView returns the view of a check in the history.
func (s *service) controlCheckView(r *record) *controlCheckView {
	ck := r.check
	v := &controlCheckView{
		CheckID: ck.id, Product: ck.product.name, Version: ck.version, ProjectID: ck.project.id,
		PhoneNumber: ck.phone, ReferenceID: ck.referenceID,
		Status: ck.status, Match: verdictField(ck.match), NoSIMChange: verdictField(ck.noSIMChange), ErrorCode: ck.errorCode,
		CallbackURL: s.callbackURL(ck), RedirectURL: s.redirectURL(ck),
		Deliveries: r.queued, LastDelivery: r.lastDelivery(), Live: ck.live,
	}
	v.addTimes(r)
	if ck.expiry != nil {
		v.ExpiresAt = new(ck.expiry.Due())
		if ck.status == wire.StatusAccepted {
			v.CheckURL = s.checkURL(ck)
			if s.opts.control.Page != nil {
				v.OpenURL = s.url + openPath + ck.id
			}
		}
	}
	return v
}

// addTimes sets the times of the events, because those of the check have seconds only.
func (v *controlCheckView) addTimes(r *record) {
	for _, e := range r.events {
		switch e.kind {
		case eventCreated:
			v.CreatedAt, v.UpdatedAt = e.time, e.time
		case eventOpened:
			v.OpenedAt, v.UpdatedAt = new(e.time), e.time
		case eventExpired, eventCompleted, eventFailed:
			v.UpdatedAt = e.time
		}
	}
}

// checkStatuses are the values of a check's status.
var checkStatuses = []string{wire.StatusAccepted, wire.StatusPending, wire.StatusCompleted, wire.StatusExpired, wire.StatusError}

// controlChecks handles GET /_sandbox/checks.
func (s *Server) controlChecks(r *http.Request) (any, error) {
	l, err := newControlListing(r)
	if err != nil {
		return nil, err
	}
	product, status, search := l.query.Get("product"), l.query.Get("status"), l.query.Get("search")
	if l.query.Has("product") && productNamed(product) == nil {
		return nil, badControl("product must be %s", productNames())
	}
	if l.query.Has("status") && !slices.Contains(checkStatuses, status) {
		return nil, badControl("status must be one of %s", strings.Join(checkStatuses, ", "))
	}
	svc := s.lock()
	count := svc.history.records.count()
	svc.mu.Unlock()
	view := struct {
		Checks []*controlCheckView `json:"checks"`
		Next   string              `json:"next,omitempty"`
		countView
	}{Checks: []*controlCheckView{}, countView: count}
	view.Next, err = controlPage(svc, &svc.history.records, l, func(r *record, full bool) bool {
		ck := r.check
		if product != "" && ck.product.name != product || status != "" && ck.status != status || !ck.contains(search) {
			return false
		}
		if !full {
			view.Checks = append(view.Checks, svc.controlCheckView(r))
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	return view, nil
}

// contains reports whether the ID, the phone number or the reference ID of a check contains text.
func (c *check) contains(text string) bool {
	return text == "" || strings.Contains(c.id, text) || strings.Contains(c.phone, text) || strings.Contains(c.referenceID, text)
}

const noControlCheckID = "check_id is missing"

// callResponseView is the JSON form of the service's response to a call of the control plane.
type callResponseView struct {
	Status   int    `json:"status"` // 0 if there is no response
	Location string `json:"location,omitempty"`
	Body     any    `json:"body,omitempty"`  // a text if it is not JSON
	Error    string `json:"error,omitempty"` // reason for a missing or truncated response
}

// performCall performs a call as if a client had sent it: it is in the journal, and faults and the
// rate limit apply. complete adds the token to the call, and is called with the mutex held. The
// call takes the IDs that the call of a client takes, and no others.
func (s *Server) performCall(c *call, complete func(*service) error) (*service, *callResponseView, error) {
	started, w := time.Now(), httptest.NewRecorder()
	svc := s.lock()
	resp, err := svc.respondTo(c, complete)
	if err != nil {
		return nil, nil, err
	}
	aborted := abortable(func() { s.writeCall(w, c, resp, started) })
	v := &callResponseView{Status: w.Code, Location: w.Header().Get("Location")}
	switch {
	case aborted && c.fault.Drop:
		return svc, &callResponseView{Error: "the connection was closed without a response"}, nil
	case aborted:
		v.Error = "the connection was closed before the end of the response"
	}
	switch body := w.Body.Bytes(); {
	case len(body) == 0:
	case json.Valid(body):
		v.Body = json.RawMessage(body)
	default:
		v.Body = string(body)
	}
	return svc, v, nil
}

// respondTo completes and performs a call. The caller holds s.mu; respondTo unlocks it.
func (s *service) respondTo(c *call, complete func(*service) error) (resp *response, err error) {
	defer s.mu.Unlock()
	if s.ended != nil {
		return nil, s.ended
	}
	if err := complete(s); err != nil {
		return nil, err
	}
	if abortable(func() { resp = s.respond(c) }) {
		return nil, ErrReset // during the latency of a fault
	}
	return resp, nil
}

// abortable calls f and reports whether it panicked with http.ErrAbortHandler.
func abortable(f func()) (aborted bool) {
	defer func() {
		switch v := recover(); {
		case v == nil:
		case v == any(http.ErrAbortHandler):
			aborted = true
		default:
			panic(v)
		}
	}()
	f()
	return false
}

// newControlCall returns a call of the control plane to a path of the service. r is the request to
// the control plane.
func (s *Server) newControlCall(r *http.Request, method, path string) (*call, error) {
	request, err := http.NewRequestWithContext(r.Context(), method, s.url+path, nil)
	if err != nil {
		return nil, err
	}
	request.RequestURI, request.RemoteAddr = path, r.RemoteAddr
	request.Header.Set("User-Agent", "sandboxfake")
	return &call{r: request}, nil
}

// newCheckBody is the body of the call that creates a check.
type newCheckBody struct {
	PhoneNumber *string `json:"phone_number,omitempty"`
	CallbackURL *string `json:"callback_url,omitempty"`
	RedirectURL *string `json:"redirect_url,omitempty"`
	ReferenceID *string `json:"reference_id,omitempty"`
	Period      *int    `json:"period,omitempty"`
}

// controlCreateCheck handles POST /_sandbox/checks. The service validates the fields of the check,
// so that its response to invalid ones can be seen.
func (s *Server) controlCreateCheck(r *http.Request) (any, error) {
	var params struct {
		Product   string `json:"product"`
		Version   string `json:"version"`
		ProjectID string `json:"project_id"`
		newCheckBody
	}
	params.Product, params.Version = wire.PhoneCheck, wire.V01
	if err := decodeControl(r, &params); err != nil {
		return nil, err
	}
	if productNamed(params.Product) == nil {
		return nil, badControl("product must be %s", productNames())
	}
	if versions := wire.Versions[params.Product]; !slices.Contains(versions, params.Version) {
		return nil, badControl("version of %s must be %s", params.Product, strings.Join(versions, " or "))
	}
	c, err := s.newControlCall(r, http.MethodPost, "/"+params.Product+"/"+params.Version+"/checks")
	if err != nil {
		return nil, err
	}
	c.r.Header.Set("Content-Type", wire.MediaJSON)
	c.r.Header.Set("Authorization", "Bearer "+redacted)
	if c.body, err = json.Marshal(params.newCheckBody); err != nil {
		return nil, err
	}
	svc, resp, err := s.performCall(c, func(svc *service) (err error) {
		c.internal, err = svc.internalToken(params.ProjectID)
		return err
	})
	if err != nil {
		return nil, err
	}
	view := struct {
		Check    *controlCheckView `json:"check"` // null if none was created
		Response *callResponseView `json:"response"`
	}{Response: resp}
	if c.made != nil {
		svc.mu.Lock()
		defer svc.mu.Unlock()
		if rec := svc.history.byID[c.made.id]; rec != nil {
			view.Check = svc.controlCheckView(rec)
		}
	}
	return view, nil
}

// internalToken returns a token for one call of a project, or of the initial project if projectID
// is empty. The token cannot be sent to the service, and takes no ID of an access token.
func (s *service) internalToken(projectID string) (*token, error) {
	id := projectID
	if id == "" {
		id = s.initial.projectID
	}
	p := s.accounts.projects[id]
	switch {
	case p == nil && projectID == "":
		return nil, badControl("the initial project was deleted: set project_id")
	case p == nil:
		return nil, newProblem(wire.NotFound, "project not found")
	case len(p.credentials) == 0:
		return nil, badControl("the project has no credentials")
	}
	return &token{credential: p.credentials[0], scopes: projectScopes, expires: s.clock.Now().Add(tokenLifetime)}, nil
}

// outcomeView is the JSON form of a choice.
type outcomeView struct {
	As          string `json:"as"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Status      string `json:"status"`
	Match       *bool  `json:"match,omitempty"`
	ErrorCode   string `json:"error_code,omitempty"`
}

// controlOutcomes handles GET /_sandbox/outcomes.
func (s *Server) controlOutcomes(*http.Request) (any, error) {
	view := struct {
		Outcomes []outcomeView `json:"outcomes"`
	}{}
	for _, c := range choices {
		view.Outcomes = append(view.Outcomes, outcomeView{c.as, c.title, c.description, c.result.status, verdictField(c.result.match), c.result.errorCode})
	}
	return view, nil
}

// hopView is the JSON form of a URL that a phone opened.
type hopView struct {
	URL    string `json:"url"`
	Status int    `json:"status"`          // 0 if there is no response
	Error  string `json:"error,omitempty"` // reason for a missing response
}

// openView is the JSON form of the opening of a Check URL.
type openView struct {
	Response *callResponseView `json:"response"` // to the Check URL
	Hops     []hopView         `json:"hops"`     // all URLs that were opened, the Check URL first
}

// controlOpen handles POST /_sandbox/open.
func (s *Server) controlOpen(r *http.Request) (any, error) {
	var params struct {
		CheckID string `json:"check_id"`
		As      string `json:"as"`
		Follow  bool   `json:"follow"`
	}
	if err := decodeControl(r, &params); err != nil {
		return nil, err
	}
	if params.As != "" && choiceNamed(params.As) == nil {
		return nil, badControl("as must be empty or one of those that GET %soutcomes lists", controlPath)
	}
	if params.CheckID == "" {
		return nil, badControl("%s", noControlCheckID)
	}
	checkURL, path, err := s.checkURL(params.CheckID)
	if err != nil {
		return nil, err
	}
	if params.As == asOffline {
		return openView{&callResponseView{}, []hopView{}}, s.expire(params.CheckID)
	}
	c, err := s.newControlCall(r, http.MethodGet, path)
	if err != nil {
		return nil, err
	}
	_, resp, err := s.performCall(c, func(*service) error {
		c.as = params.As
		return nil
	})
	if err != nil {
		return nil, err
	}
	view := openView{resp, []hopView{{checkURL, resp.Status, resp.Error}}}
	if params.Follow && resp.Location != "" {
		view.Hops = append(view.Hops, s.follow(r.Context(), resp.Location)...)
	}
	return view, nil
}

// checkURL returns the Check URL of a check, and its path, whether or not it can be opened.
func (s *Server) checkURL(checkID string) (checkURL, path string, err error) {
	svc := s.lock()
	defer svc.mu.Unlock()
	ck := svc.checks[checkID]
	if ck == nil {
		if rec := svc.history.byID[checkID]; rec != nil {
			ck = rec.check
		}
	}
	switch {
	case ck == nil:
		return "", "", newProblem(wire.CheckNotFound, "check not found in the history")
	case ck.product.onCreation:
		return "", "", badControl("a SIMCheck has no Check URL")
	}
	checkURL = svc.checkURL(ck)
	return checkURL, strings.TrimPrefix(checkURL, svc.url), nil
}

// followTimeout limits the time for which a phone follows redirects.
const followTimeout = 30 * time.Second

// follow opens a URL and follows redirects as [Device] does. It also returns the URLs before one
// that cannot be opened.
func (s *Server) follow(ctx context.Context, target string) []hopView {
	ctx, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	client := s.Device().Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	var hops []hopView
	for len(hops) < maxHops {
		hop := hopView{URL: target}
		next := ""
		err := visit(ctx, client, target, func(response *http.Response) {
			hop.Status = response.StatusCode
			if u, err := response.Location(); err == nil && response.StatusCode/100 == 3 {
				next = u.String()
			}
		})
		switch {
		case err == nil:
		case isTimeout(err):
			hop.Error = "no response in time"
		default:
			hop.Error = "the connection failed or was lost: " + rootCause(err)
		}
		hops = append(hops, hop)
		if next == "" {
			return hops
		}
		target = next
	}
	hops[len(hops)-1].Error = "stopped: too many redirects"
	return hops
}

// visit opens a page as [Device] does, and calls read with the response.
func visit(ctx context.Context, client *http.Client, target string, read func(*http.Response)) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return errors.New("invalid URL")
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	read(response)
	_, err = io.Copy(io.Discard, io.LimitReader(response.Body, maxPage))
	return err
}

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
