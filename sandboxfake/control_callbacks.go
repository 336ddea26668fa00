package sandboxfake

import (
	"net/http"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/wire"
)

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
		return nil, badControl("%s", badControlProduct)
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
