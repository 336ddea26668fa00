package idverify

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// What an error means to a caller, for errors.Is. An [*Error] is exactly one of them, or none.
var (
	ErrBadRequest          = errors.New("bad request")             // an argument is missing, malformed or out of range; also those refused before anything is sent
	ErrPhoneFormat         = errors.New("malformed phone number")  // see NormalizePhoneNumber
	ErrUnauthorized        = errors.New("unauthorized")            // the credentials, or a token got with them, were refused
	ErrInsufficientBalance = errors.New("insufficient balance")    // the workspace must be topped up
	ErrForbidden           = errors.New("forbidden")               // the scope or the member's role does not allow it
	ErrNotFound            = errors.New("not found")               // unknown, of another project or workspace, or not kept: checks that ended as EXPIRED or ERROR are not
	ErrConflict            = errors.New("conflict")                // the state of the resource does not allow it; see Fragment
	ErrNotMobileIP         = errors.New("not a mobile IP address") // the device is not on its mobile data connection
	ErrNetworkNotSupported = errors.New("network not supported")   // the mobile network cannot do it: fall back to another way
	ErrRateLimited         = errors.New("rate limited")            // see RetryAfter
	ErrIPMismatch          = errors.New("IP address mismatch")     // the address is not that of the device with the phone number
)

// problems is the error catalogue: specification, section 7, and the contract, section 6. A fragment that is not in it is judged by its status, the first row with that status.
var problems = []struct {
	status   int
	fragment string
	is       error
	hint     string // what to do, where we know it
}{
	{400, wire.BadRequest, ErrBadRequest, ""},
	{400, wire.PhoneFormatInvalid, ErrPhoneFormat, "7 to 15 digits in international format, without plus"},
	{400, wire.MNONotSupported, ErrNetworkNotSupported, "verify in another way"},
	{401, wire.Unauthorized, ErrUnauthorized, "a new token was refused, too: do the credentials belong to this service?"},
	{402, wire.InsufficientBalance, ErrInsufficientBalance, "top up, or use a sandbox project"},
	{403, wire.Forbidden, ErrForbidden, "the scope of the credentials or the role of their member does not allow it"},
	{404, wire.NotFound, ErrNotFound, ""},
	{404, wire.CheckNotFound, ErrNotFound, "checks that ended as EXPIRED or ERROR are not kept: only their callback shows them"},
	{404, wire.TraceNotFound, ErrNotFound, ""},
	{404, wire.WorkspaceNotFound, ErrNotFound, ""},
	{405, wire.MethodNotAllowed, ErrBadRequest, ""},
	{409, wire.ProjectNameTaken, ErrConflict, ""},
	{409, wire.CredentialsLimitReached, ErrConflict, "a project has at most two pairs of credentials: delete one first"},
	{409, wire.CompanyDetailsRequired, ErrConflict, "Billing.UpdateAccount"},
	{409, wire.PaymentDetailsRequired, ErrConflict, "Billing.AddPaymentMethod"},
	{409, wire.CurrencyFixed, ErrConflict, "the first top-up chose the currency for good"},
	{409, wire.CurrencyNotSupported, ErrConflict, ""},
	{409, wire.IPMSISDNMismatch, ErrIPMismatch, ""},
	{410, wire.TraceGone, ErrNotFound, "traces are kept for seven days"},
	{412, wire.NotMobileIP, ErrNotMobileIP, "the device must use its mobile data connection"},
	{413, wire.PayloadTooLarge, ErrBadRequest, ""},
	{415, wire.UnsupportedMediaType, ErrBadRequest, ""},
	{429, wire.TooManyRequests, ErrRateLimited, ""},
	{501, wire.MNORedirectUnsupported, ErrNetworkNotSupported, "verify in another way"},
}

// Error is the service's refusal of an operation: a problem document (specification, section 7), or what stood in its place.
//
// Decide with errors.Is and the sentinels, such as [ErrNotMobileIP], or by [Error.Fragment]; Title and Detail are for people. Neither they nor the error's text hold phone numbers, addresses, tokens or URLs, whatever the service wrote.
// The text ends with the RequestID, so no two are alike: count and group errors by Operation, Status and Fragment.
type Error struct {
	Status    int    // HTTP status
	Type      string // URI of the problem, ending in its fragment
	Title     string // standard text of the status
	Detail    string // short explanation; of an answer that is no problem document, how it begins
	Operation string // what was tried, for example "create PhoneCheck"

	RetryAfter time.Duration // how long the service asks to wait; 0 when it does not say
	RateLimit  *RateLimit    // nil when the service does not say
	RequestID  string        // the service's name for the call, to quote to its support; may be empty

	unknown     bool   // the operation is not idempotent, and may have been processed
	unknownHint string // what to do then
	attempts    int
}

// RateLimit is what the service says of its limit on requests.
type RateLimit struct {
	Limit     int       // requests in the period
	Remaining int       // requests left in it
	Reset     time.Time // when the next period begins
}

// Fragment names the problem, for example "not_mobile_ip". It is empty for an answer that is no problem document.
func (e *Error) Fragment() string {
	_, fragment, _ := strings.Cut(e.Type, "#")
	return fragment
}

// Error implements error: operation, status, fragment, detail, what to do, and what to quote.
func (e *Error) Error() string {
	return errorText(e.Operation, e.Status, e.Fragment(), e.Detail, e.hint()) + errorSuffix(e.RequestID, e.attempts)
}

// Is makes errors.Is find the sentinel that e means.
func (e *Error) Is(target error) bool { return e.sentinel() == target }

func (e *Error) sentinel() error {
	for _, p := range problems {
		if p.fragment == e.Fragment() {
			return p.is
		}
	}
	for _, p := range problems {
		if p.status == e.Status {
			return p.is
		}
	}
	return nil
}

func (e *Error) hint() string {
	switch {
	case e.unknown:
		return e.unknownHint
	case e.RetryAfter > 0 && isTransient(e.Status):
		return retryAfterText(e.RetryAfter)
	case e.Status >= 300 && e.Status <= 399:
		return redirectHint
	case e.Fragment() == "" && (e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed):
		return "is the base URL that of the service?"
	}
	for _, p := range problems {
		if p.fragment == e.Fragment() {
			return p.hint
		}
	}
	return ""
}

// unknownHint returns the advice for a failed op that may have been processed.
func unknownHint(op wire.Operation) string {
	switch op {
	case wire.CreatePhoneCheck, wire.CreateSIMCheck, wire.CreateSubscriberCheck:
		return "outcome unknown: the check may exist and may have been charged; search by ReferenceID before you retry"
	case wire.CreateTopUp:
		return "outcome unknown: the top-up may have been charged; look for it in Billing.TopUps before you retry"
	case wire.CompletePhoneCheck, wire.CompleteSubscriberCheck:
		return "outcome unknown: the code may have been used; read the check before you retry"
	}
	return "outcome unknown: it may have been processed; read the current state before you retry"
}

// retryAfterText advises a wait; of a nonsensical one it says no more than that it is long.
func retryAfterText(wait time.Duration) string {
	if wait > 24*time.Hour {
		return "try again much later: the service asks for more than a day"
	}
	return "try again in " + wait.Round(time.Second).String()
}

const redirectHint = "redirects are not followed, so that credentials stay with the host of the base URL: is the base URL right?"

// errorText is the one form of our errors.
func errorText(operation string, status int, name, detail, hint string) string {
	if name == "" {
		name = http.StatusText(status)
	}
	s := fmt.Sprintf("idverify: %s: %d", operation, status)
	if name != "" {
		s += " " + name
	}
	if detail != "" {
		s += ": " + detail
	}
	if hint != "" {
		s += " (" + hint + ")"
	}
	return s
}

// errorSuffix is what leads from an error to the records of the service and to our log.
func errorSuffix(requestID string, attempts int) string {
	switch {
	case requestID != "" && attempts > 1:
		return fmt.Sprintf(" [request %s, %d tries]", requestID, attempts)
	case requestID != "":
		return fmt.Sprintf(" [request %s]", requestID)
	case attempts > 1:
		return fmt.Sprintf(" [%d tries]", attempts)
	}
	return ""
}

// TokenError is the token endpoint's refusal (RFC 6749, section 5.2). It is [ErrUnauthorized] when the credentials are refused, and [ErrRateLimited] after status 429.
type TokenError struct {
	Status      int    // HTTP status
	Code        string // for example "invalid_client" or "invalid_scope"; empty for an answer that is not the endpoint's own
	Description string // for people
	Scope       string // what was asked for: scopes separated by a space

	RetryAfter time.Duration // how long the service asks to wait; 0 when it does not say
	RequestID  string        // may be empty
}

// Error implements error.
func (e *TokenError) Error() string {
	hint := ""
	switch {
	case e.RetryAfter > 0:
		hint = retryAfterText(e.RetryAfter)
	case e.Code == wire.InvalidClient:
		hint = "check client ID and secret; a project's secret cannot be reset: create new credentials"
	case e.Code == wire.InvalidScope:
		hint = "credentials of a project are for products and go with NewClient, those of a workspace are for management and go with NewConsole"
	case e.Status >= 300 && e.Status <= 399:
		hint = redirectHint
	}
	return errorText(tokenOperation(e.Scope), e.Status, e.Code, e.Description, hint) + errorSuffix(e.RequestID, 1)
}

// Is makes errors.Is find [ErrUnauthorized] and [ErrRateLimited].
func (e *TokenError) Is(target error) bool {
	switch target {
	case ErrUnauthorized:
		return e.Code == wire.InvalidClient || e.Status == http.StatusUnauthorized
	case ErrRateLimited:
		return e.Status == http.StatusTooManyRequests
	}
	return false
}

// DecodeError is a 2xx response that cannot be used: it is not JSON, lacks a field that the client
// needs, or is about another resource or phone number than the request.
//
// After a POST or PATCH the outcome is unknown: the service may have performed the operation.
type DecodeError struct {
	Operation string // for example "create PhoneCheck"
	Status    int    // HTTP status
	Reason    string // why the response cannot be used
	RequestID string // the X-Request-Id header of the response, or empty

	hint string // what to do if the outcome is unknown; empty for an idempotent operation
}

// Error implements error.
func (e *DecodeError) Error() string {
	s := fmt.Sprintf("idverify: %s: %d, but the answer cannot be used: %s", e.Operation, e.Status, e.Reason)
	if e.hint != "" {
		s += " (" + e.hint + ")"
	}
	return s + errorSuffix(e.RequestID, 1)
}

// sendError is the error of an operation without a response. It never wraps a *url.Error, which
// contains the URL.
type sendError struct {
	operation string
	written   bool   // the service may have received the whole request
	unknown   bool   // written, by an operation that is not idempotent
	hint      string // what to do then
	err       error
	text      string // of err, redacted; empty if the service had no part in it
	attempts  int
}

// Error implements error.
func (e *sendError) Error() string {
	s := "idverify: " + e.operation + ": " + cmp.Or(e.text, causeText(e.err))
	if e.unknown {
		s += " (" + e.hint + ")"
	}
	return s + errorSuffix("", e.attempts)
}

// Unwrap makes errors.Is find context.Canceled, context.DeadlineExceeded and the errors of package net.
func (e *sendError) Unwrap() error { return e.err }
