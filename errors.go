package idverify

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/idverify/idverify-go/internal/redact"
	"github.com/idverify/idverify-go/internal/wire"
)

// Sentinel errors for errors.Is. An [*Error] can match ErrOutcomeUnknown and at most one of the
// others.
var (
	// ErrOutcomeUnknown means that the service may have processed a POST or PATCH that failed: the
	// status is 3xx, invalid, or 5xx other than 501; the 2xx response cannot be used; or there was no
	// response after the request was written, also because of a timeout or cancellation. The error can
	// also match another error, such as context.Canceled: test for ErrOutcomeUnknown first.
	//
	// Do not repeat the operation. After Create, find the check with FindByReferenceID. After
	// Complete, read the check with Get.
	//
	// The client does not send the request again: see [RetryPolicy]. Errors of GET, PUT and DELETE
	// never match ErrOutcomeUnknown. Neither do errors of requests that were rejected with status 4xx
	// or 501, or were not sent. A request whose body the HTTP transport has not read to its end counts
	// as not sent, because the service cannot process it.
	ErrOutcomeUnknown = errors.New("outcome unknown")

	// ErrBadRequest means that an argument is missing, malformed or out of range. Errors for
	// arguments that the client rejects before it sends a request match it too, except malformed
	// phone numbers, which match ErrPhoneFormat.
	ErrBadRequest = errors.New("bad request")

	// ErrPhoneFormat means that a phone number is malformed. See [NormalizePhoneNumber].
	ErrPhoneFormat = errors.New("malformed phone number")

	// ErrUnauthorized means that the service rejected the credentials, or an access token that was
	// issued for them. A [*TokenError] with status 401 and no Code matches it too, but is not a
	// response of the token endpoint: check the base URL and any proxy.
	ErrUnauthorized = errors.New("unauthorized")

	// ErrInsufficientBalance means that the balance of the workspace does not cover the operation.
	ErrInsufficientBalance = errors.New("insufficient balance")

	// ErrForbidden means that the scope of the credentials or the role of the member does not allow
	// the operation. A [*TokenError] with code invalid_scope matches it too.
	ErrForbidden = errors.New("forbidden")

	// ErrNotFound means that the resource does not exist, belongs to another project or workspace, or
	// is not stored, such as a check that ended as EXPIRED or ERROR: see [CheckStatus].
	ErrNotFound = errors.New("not found")

	// ErrConflict means that the state of the resource does not allow the operation.
	// [Error.Code] contains the reason.
	ErrConflict = errors.New("conflict")

	// ErrNotMobileIP means that the IP address does not belong to a mobile network: the device is
	// not using its mobile data connection.
	ErrNotMobileIP = errors.New("not a mobile IP address")

	// ErrNetworkNotSupported means that the mobile network does not support the product. Verify in
	// another way.
	ErrNetworkNotSupported = errors.New("network not supported")

	// ErrRateLimited means that the client sent too many requests. Wait for RetryAfter of the [Error]
	// or [TokenError].
	ErrRateLimited = errors.New("rate limited")

	// ErrIPMismatch means that PhoneIP does not belong to the phone number (ip_msisdn_mismatch).
	ErrIPMismatch = errors.New("IP address mismatch")

	// ErrSandbox means that Create or FindByReferenceID got a check that was not charged. The check
	// exists; do not use it. See [WithLiveOnly].
	ErrSandbox = errors.New("sandbox check")
)

// isSentinel reports whether err is one of the sentinel errors.
func isSentinel(err error) bool {
	switch err {
	case ErrOutcomeUnknown, ErrBadRequest, ErrPhoneFormat, ErrUnauthorized, ErrInsufficientBalance, ErrForbidden, ErrNotFound,
		ErrConflict, ErrNotMobileIP, ErrNetworkNotSupported, ErrRateLimited, ErrIPMismatch, ErrSandbox:
		return true
	}
	return false
}

// Error is a response with which the service rejected an operation: a problem document (RFC 9457)
// or any other response without success, for example from a proxy.
//
// To handle it, use errors.Is with a sentinel such as [ErrNotMobileIP], or compare [Error.Code]
// with a constant. Title and Detail are for people; phone numbers, addresses, tokens, URLs and the
// code of a Complete in them are redacted, as in the text of the error. The text contains the
// RequestID: group errors by Operation, Status and Code instead.
type Error struct {
	Status    int    // HTTP status
	Type      string // URI of the problem, which ends with its fragment
	Title     string // short text for the status
	Detail    string // explanation; the start of the body if it is not a problem document
	Operation string // the name of the operation as in logs, for example "phone_check.create"

	RetryAfter time.Duration // the Retry-After header; 0 if missing or malformed
	RateLimit  *RateLimit    // the X-RateLimit headers; nil if missing or malformed
	RequestID  string        // the X-Request-Id header, or empty; include it in support requests

	unknown     *unknownOutcome // nil if the outcome is known
	budgetEmpty bool            // as in call
	attempts    int
}

// RateLimit is the request limit that the service reports. A response whose X-RateLimit-Limit or
// X-RateLimit-Remaining is missing or malformed has none.
type RateLimit struct {
	Limit     int       // requests per period
	Remaining int       // requests left in this period
	Reset     time.Time // start of the next period; zero if unknown
}

// Code returns the fragment of Type, which identifies the problem, for example "not_mobile_ip". It
// is empty if the response is not a problem document.
func (e *Error) Code() string {
	_, fragment, _ := strings.Cut(e.Type, "#")
	return fragment
}

// Codes of an [Error] or a [TokenError] that a sentinel error does not distinguish.
const (
	CodeCheckNotFound           = "check_not_found"           // no such check, or it ended as EXPIRED or ERROR
	CodeProjectNameTaken        = "project_name_taken"        // another project has this name
	CodeCredentialsLimitReached = "credentials_limit_reached" // a project has at most two credentials
	CodeCompanyDetailsRequired  = "company_details_required"  // call Billing.Update first
	CodePaymentDetailsRequired  = "payment_details_required"  // call PaymentMethods.Create first
	CodeCurrencyFixed           = "currency_fixed"            // the first top-up sets the currency permanently
	CodeCurrencyNotSupported    = "currency_not_supported"
	CodeInvalidClient           = "invalid_client" // TokenError: the credentials are wrong
)

// Error implements error. The text consists of operation, status, code, "outcome unknown" if
// the service may have processed the operation, detail, advice, request ID and number of attempts.
func (e *Error) Error() string {
	return errorMessage{
		operation:   wire.Title(e.Operation),
		status:      statusText(e.Status, e.Code()),
		detail:      e.Detail,
		unknown:     e.unknown,
		hint:        e.hint(),
		budgetEmpty: e.budgetEmpty,
		requestID:   e.RequestID,
		attempts:    e.attempts,
	}.String()
}

// Is reports whether target is the sentinel error for the problem, or [ErrOutcomeUnknown] and the
// service may have processed the operation.
func (e *Error) Is(target error) bool {
	return target == ErrOutcomeUnknown && e.unknown != nil || target == e.sentinel()
}

// TokenError is a response with which the token endpoint rejected a request (RFC 6749, section
// 5.2). It matches [ErrUnauthorized] for code invalid_client and for status 401, [ErrForbidden] for
// code invalid_scope, and [ErrRateLimited] for status 429.
type TokenError struct {
	Status      int    // HTTP status
	Code        string // for example "invalid_client"; empty if the body is not an OAuth error
	Description string // explanation for people, redacted like Error.Detail
	Operation   string // "token.create", as in logs
	Scope       string // the requested scopes, separated by a space

	RetryAfter time.Duration // the Retry-After header; 0 if missing or malformed
	RequestID  string        // the X-Request-Id header, or empty

	pause time.Duration // until the next token request, if that is why no other one was made
}

// Error implements error.
func (e *TokenError) Error() string {
	var hint string
	switch {
	case e.pause > 0:
		hint = pausedHint(e.pause)
	case e.RetryAfter > 0:
		hint = retryAfterText(e.RetryAfter)
	case e.Code == wire.InvalidClient:
		hint = "check client ID and secret; project secrets cannot be reset: create new credentials if the secret is lost"
	case e.Code == wire.InvalidScope:
		hint = "use project credentials with NewClient and workspace credentials with NewConsole"
	case e.Code == wire.InvalidRequest:
		hint = proxyHint
	case e.Code == wire.UnsupportedGrantType, e.Status == http.StatusNotFound, e.Status == http.StatusMethodNotAllowed:
		hint = baseURLHint
	case e.Code == "" && (e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden), e.Status == http.StatusNotImplemented:
		hint = "not a response of the token endpoint: check the base URL and any proxy"
	case e.Status >= 300 && e.Status <= 399:
		hint = redirectHint
	default:
		hint = retryLater(e.Status)
	}
	return errorMessage{
		operation: tokenOperation(e.Scope),
		status:    statusText(e.Status, e.Code),
		detail:    e.Description,
		hint:      hint,
		requestID: e.RequestID,
	}.String()
}

// Is reports whether target is [ErrUnauthorized], [ErrForbidden] or [ErrRateLimited] and applies to
// e.
func (e *TokenError) Is(target error) bool {
	switch target {
	case ErrUnauthorized:
		return e.Code == wire.InvalidClient || e.Status == http.StatusUnauthorized
	case ErrForbidden:
		return e.Code == wire.InvalidScope
	case ErrRateLimited:
		return e.Status == http.StatusTooManyRequests
	}
	return false
}

// DecodeError is a 2xx response that the client cannot use: it is not JSON, is too large, lacks a
// required field, or describes another resource or phone number than the request. After a POST or
// PATCH it matches [ErrOutcomeUnknown]: the service may have performed the operation.
type DecodeError struct {
	Operation string // the name of the operation as in logs, for example "phone_check.create"
	Status    int    // HTTP status
	Reason    string // why the response cannot be used
	RequestID string // the X-Request-Id header of the response, or empty

	scope     string          // of a token request
	wrongHost bool            // the response is probably not from the token endpoint
	unknown   *unknownOutcome // nil if the operation is idempotent
	attempts  int             // 0 means unknown
}

// Error implements error.
func (e *DecodeError) Error() string {
	operation, hint := wire.Title(e.Operation), ""
	if e.scope != "" {
		operation = tokenOperation(e.scope)
	}
	if e.wrongHost {
		hint = baseURLHint
	}
	return errorMessage{
		operation: operation,
		status:    statusText(e.Status, ""),
		detail:    "unusable response: " + e.Reason,
		unknown:   e.unknown,
		hint:      hint,
		requestID: e.RequestID,
		attempts:  e.attempts,
	}.String()
}

// Is reports whether target is [ErrOutcomeUnknown] and the operation was a POST or PATCH.
func (e *DecodeError) Is(target error) bool { return target == ErrOutcomeUnknown && e.unknown != nil }

// sendError is the error of an operation without a response.
type sendError struct {
	operation   string          // as in the text of the error
	written     bool            // the service may have received the whole request
	unknown     *unknownOutcome // nil unless written, by an operation that is not idempotent
	err         error           // redacted
	text        string          // of err; empty means causeText(err)
	budgetEmpty bool            // as in call
	pause       time.Duration   // as in TokenError
	attempts    int             // 0 means unknown
}

// Error implements error.
func (e *sendError) Error() string {
	detail := cmp.Or(e.text, causeText(e.err))
	hint := causeHint(e.err, detail)
	if e.pause > 0 {
		hint = pausedHint(e.pause) // a temporary error
	}
	return errorMessage{
		operation:   e.operation,
		detail:      detail,
		unknown:     e.unknown,
		hint:        hint,
		budgetEmpty: e.budgetEmpty,
		attempts:    e.attempts,
	}.String()
}

// Is reports whether target is [ErrOutcomeUnknown] and applies to e.
func (e *sendError) Is(target error) bool { return target == ErrOutcomeUnknown && e.unknown != nil }

// Unwrap returns the redacted cause. It matches, for example, context.Canceled or *net.OpError.
func (e *sendError) Unwrap() error { return e.err }

// causeText returns the text of the cause of a sendError.
func causeText(err error) string {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "truncated response"
	case errors.Is(err, io.EOF):
		return "connection closed before the response"
	}
	return redact.ErrorText(err)
}

// causeHint returns what to do about a transport error with the given text, or an empty string.
func causeHint(err error, text string) string {
	if _, ok := err.(*credentialsError); ok {
		return "" // not of the HTTP client
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "to trust another CA, set the HTTP client: see WithHTTPClient"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "check the base URL and any proxy"
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return "check the base URL and any proxy, and that the server runs"
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
		return "check the base URL, any proxy and the DNS server"
	}
	if strings.HasSuffix(text, http.StatusText(http.StatusProxyAuthRequired)) {
		return "set the user and the password of the proxy in its URL"
	}
	return ""
}

// isCertificateError reports whether err is a certificate that the client does not accept. With a
// custom TLS dialer, package tls may not have wrapped the error of package x509.
func isCertificateError(err error) bool {
	_, verification := errors.AsType[*tls.CertificateVerificationError](err)
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	_, host := errors.AsType[x509.HostnameError](err)
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)
	return verification || authority || host || invalid
}

// sandboxError is the error for a check of a sandbox project: see [WithLiveOnly].
type sandboxError struct{ message errorMessage }

// Error implements error.
func (e *sandboxError) Error() string { return e.message.String() }

// Unwrap returns ErrSandbox.
func (e *sandboxError) Unwrap() error { return ErrSandbox }

// errorMessage formats the text of all errors: "idverify: operation: status: detail (hint)
// [request ID, attempts]". Empty fields are omitted.
type errorMessage struct {
	operation   string
	status      string
	detail      string
	unknown     *unknownOutcome // nil if the outcome is known
	hint        string
	budgetEmpty bool // as in call; appended to the hint
	requestID   string
	attempts    int // 0 means unknown
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
		m.hint = strings.TrimSuffix(m.unknown.action+"; "+m.hint, "; ")
	}
	add(m.detail)
	if m.budgetEmpty {
		m.hint = strings.TrimPrefix(m.hint+"; not retried because the retry budget is empty", "; ")
	}

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

// unknownOutcome describes the possible effect of a failed operation that is not idempotent and
// may have been processed.
type unknownOutcome struct {
	effect string
	action string // what to do next
}

// outcomeOf returns the possible effect of op, or nil if op is idempotent.
func outcomeOf(op wire.Operation) *unknownOutcome {
	if idempotent(op) {
		return nil
	}
	switch {
	case op.Action() == "create" && strings.HasSuffix(op.Path, "/checks"):
		return &unknownOutcome{effect: "the check may exist and may have been charged", action: "call FindByReferenceID; do not create the check again automatically"}
	case op == wire.CreateTopUp:
		return &unknownOutcome{effect: "the top-up may have been charged", action: "look for it in TopUps.List before you retry"}
	case op.Action() == "complete":
		return &unknownOutcome{effect: "the code may have been used", action: "get the check, and do not exchange the code again"}
	}
	return &unknownOutcome{effect: "the operation may have been performed", action: "read the current state before you retry"}
}

// credentialsError is a redacted error of a source. Unlike that error, it does not match the errors
// of this package, which would describe the operation that needs the token.
type credentialsError struct{ error }

// Is reports whether the error of the source matches target.
func (e *credentialsError) Is(target error) bool {
	return !isSentinel(target) && errors.Is(e.error, target)
}

// As is errors.As for the error of the source.
func (e *credentialsError) As(target any) bool {
	switch target.(type) {
	case **Error, **TokenError, **DecodeError, **NoResultError, **sendError:
		return false
	}
	return errors.As(e.error, target)
}

// errTokenTimeout is the error of a token request that exceeded tokenTimeout.
var errTokenTimeout = fmt.Errorf("no response within the timeout of a token request: %w", context.DeadlineExceeded)

// pausedError returns a copy of err that mentions the remaining pause.
func pausedError(err error, pause time.Duration) error {
	switch e := err.(type) {
	case *TokenError:
		paused := *e
		paused.pause = pause
		return &paused
	case *sendError:
		paused := *e
		paused.pause = pause
		return &paused
	}
	return err
}

// pausedHint returns the advice of an error that an operation returned because of a pause.
func pausedHint(pause time.Duration) string {
	return "token requests are paused after a failure; " + retryAfterText(max(pause, time.Second))
}

// tokenOperation returns the title of a token request in errors.
func tokenOperation(scope string) string { return wire.Token.Title + " for scope \"" + scope + "\"" }

// errAttemptTimeout is the error of an attempt or token request that ended because of the attempt
// timeout, not because of the caller's context.
var errAttemptTimeout = fmt.Errorf("no response within the attempt timeout (see RetryPolicy.AttemptTimeout and WithHTTPClient): %w", context.DeadlineExceeded)

// problems lists the known problems. An error with an unknown or missing code matches the
// sentinel of the first row with its status, if there is one, and gets no hint from the table.
var problems = []struct {
	status int
	code   string
	is     error  // sentinel error
	hint   string // what to do; may be empty
}{
	{400, wire.BadRequest, ErrBadRequest, "correct the arguments"},
	{400, wire.PhoneFormatInvalid, ErrPhoneFormat, "use 7 to 15 digits in international format"},
	{400, wire.MNONotSupported, ErrNetworkNotSupported, "use another verification method"},
	{401, wire.Unauthorized, ErrUnauthorized, "the service also rejected a new token: check that the credentials belong to this service"},
	{402, wire.InsufficientBalance, ErrInsufficientBalance, "top up the workspace; use another verification method until then"},
	{403, wire.Forbidden, ErrForbidden, "the token's scope or the member's role does not permit this operation"},
	{404, wire.NotFound, ErrNotFound, "check the ID, the version and the base URL"},
	{404, wire.CheckNotFound, ErrNotFound, "a check that ended as EXPIRED or ERROR cannot be read: use what its callback, redirect or Create reported"},
	{404, wire.TraceNotFound, ErrNotFound, ""},
	{404, wire.WorkspaceNotFound, ErrNotFound, "check the ID of the workspace and the membership"},
	{405, wire.MethodNotAllowed, ErrBadRequest, "check the version and the base URL"},
	{409, wire.ProjectNameTaken, ErrConflict, "choose another name"},
	{409, wire.CredentialsLimitReached, ErrConflict, "a project has at most two pairs of credentials: delete one"},
	{409, wire.CompanyDetailsRequired, ErrConflict, "call Billing.Update first"},
	{409, wire.PaymentDetailsRequired, ErrConflict, "call PaymentMethods.Create first"},
	{409, wire.CurrencyFixed, ErrConflict, "the first top-up sets the currency permanently"},
	{409, wire.CurrencyNotSupported, ErrConflict, "use a payment method that supports the currency"},
	{409, wire.IPMSISDNMismatch, ErrIPMismatch, "use another verification method"},
	{410, wire.TraceGone, ErrNotFound, "traces are kept for seven days"},
	{412, wire.NotMobileIP, ErrNotMobileIP, "the device must use its mobile data connection"},
	{413, wire.PayloadTooLarge, ErrBadRequest, "shorten the arguments"},
	{415, wire.UnsupportedMediaType, ErrBadRequest, "check for a proxy that changes requests"},
	{429, wire.TooManyRequests, ErrRateLimited, ""},
	{501, wire.MNORedirectUnsupported, ErrNetworkNotSupported, "use another verification method"},
}

func (e *Error) sentinel() error {
	for _, p := range problems {
		if p.code == e.Code() {
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
	case e.RetryAfter > 0 && isTransient(e.Status) && e.unknown != nil:
		return delayText(e.RetryAfter) // do not suggest a retry
	case e.RetryAfter > 0 && isTransient(e.Status):
		return retryAfterText(e.RetryAfter)
	case e.Status >= 300 && e.Status <= 399:
		return redirectHint
	case e.Code() == "" && (e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed):
		return baseURLHint
	}
	for _, p := range problems {
		if p.code == e.Code() && p.hint != "" {
			return p.hint
		}
	}
	if e.unknown != nil {
		return ""
	}
	return retryLater(e.Status)
}

// retryLater returns advice for a temporary status without a Retry-After header, or an empty
// string.
func retryLater(status int) string {
	switch status {
	case http.StatusTooManyRequests:
		return "retry later, and reduce the number of requests"
	case http.StatusServiceUnavailable:
		return "retry later"
	}
	return ""
}

// retryAfterText returns advice for a Retry-After header.
func retryAfterText(wait time.Duration) string {
	if wait > 24*time.Hour {
		return "retry later: " + delayText(wait)
	}
	return "retry after " + wait.Round(time.Second).String()
}

// delayText describes a Retry-After header. It does not print delays of more than a day.
func delayText(wait time.Duration) string {
	if wait > 24*time.Hour {
		return "the service requests a delay of more than a day"
	}
	return "the service requests a delay of " + wait.Round(time.Second).String()
}

// Hints of several errors.
const (
	baseURLHint  = "check the base URL"
	proxyHint    = "check for a proxy that changes requests"
	redirectHint = "redirects are not followed: check the base URL"
)

// NoResultError is the error of Wait for a check that ended without a result, or is still in
// progress after its TTL. It matches [ErrNotFound] if the service did not find the check, which
// ended as EXPIRED or ERROR (see [CheckStatus]) or never existed.
type NoResultError struct {
	CheckID   string
	Status    CheckStatus // the last status that was read; empty if there was none
	ErrorCode string      // of a check that was read with status ERROR

	Operation string // the operation that Wait repeats, for example "phone_check.get"

	title string // "wait for PhoneCheck"
	err   error

	statusText, errorText string // Status and ErrorCode, redacted
}

// Error implements error.
func (e *NoResultError) Error() string {
	s := errorMessage{operation: cmp.Or(e.title, wire.Title(e.Operation))}.String() + ": "
	status := cmp.Or(e.statusText, redact.Text(string(e.Status))) // the caller may have constructed e
	switch {
	case e.err != nil && e.Status == "":
		s += "check not found: it ended as EXPIRED or ERROR, or never existed (set CallbackURL to learn how such checks end)"
	case e.err != nil:
		s += fmt.Sprintf("check not found after status %s: it ended as EXPIRED or ERROR (its callback reports how it ended)", status)
	case e.Status.Final():
		s += "check ended as " + string(e.Status)
		if e.ErrorCode != "" {
			s += ": " + cmp.Or(e.errorText, redact.Text(e.ErrorCode))
		}
	default:
		s += fmt.Sprintf("check is still %s after its TTL", status)
	}
	return s
}

// Unwrap returns the error of the last read, or nil.
func (e *NoResultError) Unwrap() error { return e.err }

// isCheckNotFound reports whether the service did not find the check. Any other 404 comes from a
// wrong version or a proxy and says nothing about the check.
func isCheckNotFound(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code() == wire.CheckNotFound
}
