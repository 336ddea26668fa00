package idverify

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
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
	{400, wire.PhoneFormatInvalid, ErrPhoneFormat, "use 7 to 15 digits in international format"},
	{400, wire.MNONotSupported, ErrNetworkNotSupported, "use another verification method"},
	{401, wire.Unauthorized, ErrUnauthorized, "a new token was rejected too: check that the credentials belong to this service"},
	{402, wire.InsufficientBalance, ErrInsufficientBalance, "top up, or use a sandbox project"},
	{403, wire.Forbidden, ErrForbidden, "the scope of the credentials or the role of the member does not allow it"},
	{404, wire.NotFound, ErrNotFound, ""},
	{404, wire.CheckNotFound, ErrNotFound, "a check that ended as EXPIRED or ERROR cannot be read: use its callback"},
	{404, wire.TraceNotFound, ErrNotFound, ""},
	{404, wire.WorkspaceNotFound, ErrNotFound, ""},
	{405, wire.MethodNotAllowed, ErrBadRequest, ""},
	{409, wire.ProjectNameTaken, ErrConflict, ""},
	{409, wire.CredentialsLimitReached, ErrConflict, "a project has at most two pairs of credentials: delete one"},
	{409, wire.CompanyDetailsRequired, ErrConflict, "call Billing.UpdateAccount first"},
	{409, wire.PaymentDetailsRequired, ErrConflict, "call Billing.AddPaymentMethod first"},
	{409, wire.CurrencyFixed, ErrConflict, "the first top-up sets the currency permanently"},
	{409, wire.CurrencyNotSupported, ErrConflict, ""},
	{409, wire.IPMSISDNMismatch, ErrIPMismatch, ""},
	{410, wire.TraceGone, ErrNotFound, "traces are kept for seven days"},
	{412, wire.NotMobileIP, ErrNotMobileIP, "the device must use its mobile data connection"},
	{413, wire.PayloadTooLarge, ErrBadRequest, ""},
	{415, wire.UnsupportedMediaType, ErrBadRequest, ""},
	{429, wire.TooManyRequests, ErrRateLimited, ""},
	{501, wire.MNORedirectUnsupported, ErrNetworkNotSupported, "use another verification method"},
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
	Operation string // the name of the operation as in logs, for example "phone_check.create"

	RetryAfter time.Duration // how long the service asks to wait; 0 when it does not say
	RateLimit  *RateLimit    // nil when the service does not say
	RequestID  string        // the service's name for the call, to quote to its support; may be empty

	unknown  *unknownOutcome // nil if the outcome is known
	attempts int
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
	return errorMessage{
		operation: wire.Title(e.Operation),
		status:    statusText(e.Status, e.Fragment()),
		detail:    e.Detail,
		unknown:   e.unknown,
		hint:      e.hint(),
		requestID: e.RequestID,
		attempts:  e.attempts,
	}.String()
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
	case e.RetryAfter > 0 && isTransient(e.Status):
		return retryAfterText(e.RetryAfter)
	case e.Status >= 300 && e.Status <= 399:
		return redirectHint
	case e.Fragment() == "" && (e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed):
		return "check the base URL"
	}
	for _, p := range problems {
		if p.fragment == e.Fragment() {
			return p.hint
		}
	}
	return ""
}

// retryAfterText advises a wait; of a nonsensical one it says no more than that it is long.
func retryAfterText(wait time.Duration) string {
	if wait > 24*time.Hour {
		return "retry later: the service asks for more than a day"
	}
	return "retry after " + wait.Round(time.Second).String()
}

const redirectHint = "redirects are not followed: check the base URL"

// unknownOutcome describes the possible effect of a failed operation that is not idempotent and
// may have been processed.
type unknownOutcome struct {
	effect string
	action string // what to do before a retry
}

// outcomeOf returns the possible effect of op, or nil if op is idempotent.
func outcomeOf(op wire.Operation) *unknownOutcome {
	if idempotent(op) {
		return nil
	}
	switch op {
	case wire.CreatePhoneCheck, wire.CreateSIMCheck, wire.CreateSubscriberCheck:
		return &unknownOutcome{"the check may exist and may have been charged", "search by ReferenceID before you retry"}
	case wire.CreateTopUp:
		return &unknownOutcome{"the top-up may have been charged", "look for it in Billing.TopUps before you retry"}
	case wire.CompletePhoneCheck, wire.CompleteSubscriberCheck:
		return &unknownOutcome{"the code may have been used", "get the check before you retry"}
	}
	return &unknownOutcome{"the operation may have been performed", "read the current state before you retry"}
}

// errorMessage formats the text of all errors: "idverify: operation: status: detail (hint)
// [request ID, attempts]". Empty fields are omitted.
type errorMessage struct {
	operation string
	status    string
	detail    string
	unknown   *unknownOutcome // nil if the outcome is known; it replaces the hint
	hint      string
	requestID string
	attempts  int // 0: unknown
}

func (m errorMessage) String() string {
	parts := []string{"idverify"}
	add := func(part string) {
		if part != "" {
			parts = append(parts, part)
		}
	}
	add(m.operation)
	add(m.status)
	if m.unknown != nil {
		add("outcome unknown")
		m.detail = strings.TrimPrefix(m.detail+"; "+m.unknown.effect, "; ")
		m.hint = m.unknown.action
	}
	add(m.detail)

	s := strings.Join(parts, ": ")
	if m.hint != "" {
		s += " (" + m.hint + ")"
	}
	attempts := fmt.Sprintf("%d attempts", m.attempts)
	if m.attempts == 1 {
		attempts = "1 attempt"
	}
	switch {
	case m.requestID != "" && m.attempts > 0:
		s += " [request " + m.requestID + ", " + attempts + "]"
	case m.requestID != "":
		s += " [request " + m.requestID + "]"
	case m.attempts > 1:
		s += " [" + attempts + "]"
	}
	return s
}

// statusText returns the HTTP status with name, or with its standard text if name is empty.
func statusText(status int, name string) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + cmp.Or(name, http.StatusText(status)))
}

// TokenError is the token endpoint's refusal (RFC 6749, section 5.2). It is [ErrUnauthorized] when the credentials are refused, and [ErrRateLimited] after status 429.
type TokenError struct {
	Status      int    // HTTP status
	Code        string // for example "invalid_client" or "invalid_scope"; empty for an answer that is not the endpoint's own
	Description string // for people
	Operation   string // "token.create", as in logs
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
		hint = "check client ID and secret; project secrets cannot be reset: create new credentials if the secret is lost"
	case e.Code == wire.InvalidScope:
		hint = "use project credentials with NewClient and workspace credentials with NewConsole"
	case e.Status >= 300 && e.Status <= 399:
		hint = redirectHint
	}
	return errorMessage{
		operation: tokenOperation(e.Scope),
		status:    statusText(e.Status, e.Code),
		detail:    e.Description,
		hint:      hint,
		requestID: e.RequestID,
	}.String()
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
	Operation string // the name of the operation as in logs, for example "phone_check.create"
	Status    int    // HTTP status
	Reason    string // why the response cannot be used
	RequestID string // the X-Request-Id header of the response, or empty

	scope    string          // of a token request
	unknown  *unknownOutcome // nil if the operation is idempotent
	attempts int             // 0: unknown
}

// Error implements error.
func (e *DecodeError) Error() string {
	operation := wire.Title(e.Operation)
	if e.scope != "" {
		operation = tokenOperation(e.scope)
	}
	return errorMessage{
		operation: operation,
		status:    statusText(e.Status, ""),
		detail:    "unusable response: " + e.Reason,
		unknown:   e.unknown,
		requestID: e.RequestID,
		attempts:  e.attempts,
	}.String()
}

// sendError is the error of an operation without a response. It never wraps a *url.Error, which
// contains the URL.
type sendError struct {
	operation string          // as in the text of the error
	written   bool            // the service may have received the whole request
	unknown   *unknownOutcome // nil unless written, by an operation that is not idempotent
	err       error
	text      string // of err, redacted; empty if the service had no part in it
	attempts  int    // 0: unknown
}

// Error implements error.
func (e *sendError) Error() string {
	return errorMessage{
		operation: e.operation,
		detail:    cmp.Or(e.text, causeText(e.err)),
		unknown:   e.unknown,
		attempts:  e.attempts,
	}.String()
}

// Unwrap makes errors.Is find context.Canceled, context.DeadlineExceeded and the errors of package net.
func (e *sendError) Unwrap() error { return e.err }
