package sandboxfake

import (
	"net/http"

	"github.com/idverify/idverify-go/internal/wire"
)

// problem is an error of the service and its problem document (RFC 9457).
type problem struct {
	Type   string      `json:"type"`
	Title  string      `json:"title"`
	Status int         `json:"status"`
	Detail string      `json:"detail"`
	header http.Header // additional headers of the response
}

func (p *problem) Error() string { return p.Detail }

// newProblem returns the problem of a fragment. An empty detail is replaced by the one in
// problemKinds.
func newProblem(fragment, detail string) *problem {
	p := &problem{Type: docsURL + "/reference/api-errors#" + fragment, Status: http.StatusInternalServerError, Detail: detail}
	for _, kind := range problemKinds {
		if kind.fragment == fragment {
			p.Status = kind.status
			if detail == "" {
				p.Detail = kind.detail
			}
		}
	}
	p.Title = http.StatusText(p.Status)
	if fragment == wire.Unauthorized {
		p.header = http.Header{"Www-Authenticate": {`Bearer realm="api"`}}
	}
	return p
}

// docsURL is the base URL of problem types.
const docsURL = "https://docs.sandbox.test"

// problemKinds is the table of problems, with their default details.
//
// Protocol: docs/protocol.md, section 8.
var problemKinds = []struct {
	status   int
	fragment string
	detail   string
}{
	{400, wire.BadRequest, "The body or a parameter is malformed or out of range"},
	{400, wire.PhoneFormatInvalid, "phone_number must be 7 to 15 digits in international format, without a plus sign"},
	{400, wire.MNONotSupported, "MNO not supported"},
	{401, wire.Unauthorized, "The access token is missing, malformed, expired or revoked"},
	{402, wire.InsufficientBalance, "The balance does not cover the price"},
	{403, wire.Forbidden, "The token's scope or the member's role does not allow this"},
	{404, wire.NotFound, "No such resource"},
	{404, wire.CheckNotFound, "There is no such check"},
	{404, wire.TraceNotFound, "There is no such trace"},
	{404, wire.WorkspaceNotFound, "There is no such workspace"},
	{405, wire.MethodNotAllowed, "The path does not support this method"},
	{415, wire.UnsupportedMediaType, "The media type of the body is not supported"},
	{409, wire.ProjectNameTaken, "The workspace already has a project of this name"},
	{409, wire.CredentialsLimitReached, "The project already has two pairs of credentials"},
	{409, wire.CompanyDetailsRequired, "Add the company details first"},
	{409, wire.PaymentDetailsRequired, "Add a payment method first"},
	{409, wire.CurrencyFixed, "The first top-up fixed the account's currency"},
	{409, wire.CurrencyNotSupported, "The payment method does not support the currency"},
	{409, wire.IPMSISDNMismatch, "The address does not belong to the number"},
	{410, wire.TraceGone, "Traces are kept for seven days"},
	{412, wire.NotMobileIP, "Not a mobile IP"},
	{413, wire.PayloadTooLarge, "The body is larger than 64 KiB"},
	{429, wire.TooManyRequests, "Too many requests: wait for the time in Retry-After"},
	{501, wire.MNORedirectUnsupported, "The operator does not support the redirect"},
}
