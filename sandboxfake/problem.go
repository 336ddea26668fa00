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

// newProblem returns a problem with the given type fragment. If detail is empty, the default from
// problemKinds is used.
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
	{400, wire.BadRequest, "malformed or out-of-range body or parameter"},
	{400, wire.PhoneFormatInvalid, "phone_number must be 7 to 15 digits in international format, optionally after a plus sign"},
	{400, wire.MNONotSupported, "MNO not supported"},
	{401, wire.Unauthorized, "missing, malformed, expired or revoked access token"},
	{402, wire.InsufficientBalance, "the balance does not cover the price"},
	{403, wire.Forbidden, "the token's scope or the member's role does not allow this operation"},
	{404, wire.NotFound, "resource not found"},
	{404, wire.CheckNotFound, "check not found"},
	{404, wire.TraceNotFound, "trace not found"},
	{404, wire.WorkspaceNotFound, "workspace not found"},
	{405, wire.MethodNotAllowed, "the path does not support this method"},
	{415, wire.UnsupportedMediaType, "unsupported media type of the body"},
	{409, wire.ProjectNameTaken, "the workspace already has a project with this name"},
	{409, wire.CredentialsLimitReached, "the project already has two pairs of credentials"},
	{409, wire.CompanyDetailsRequired, "add the company details first"},
	{409, wire.PaymentDetailsRequired, "add a payment method first"},
	{409, wire.CurrencyFixed, "the first top-up fixed the account's currency"},
	{409, wire.CurrencyNotSupported, "the payment method does not support the currency"},
	{409, wire.IPMSISDNMismatch, "the IP address does not belong to the phone number"},
	{410, wire.TraceGone, "the trace has expired: traces are kept for seven days"},
	{412, wire.NotMobileIP, "Not a mobile IP"},
	{413, wire.PayloadTooLarge, "the body is larger than 64 KiB"},
	{429, wire.TooManyRequests, "too many requests: retry after the delay in Retry-After"},
	{501, wire.MNORedirectUnsupported, "the operator does not support the redirect"},
}
