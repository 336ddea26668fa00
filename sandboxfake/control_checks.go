package sandboxfake

import (
	"net/http"
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
		return nil, badControl("%s", badControlProduct)
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

const badControlProduct = "product must be phone_check, sim_check or subscriber_check"
