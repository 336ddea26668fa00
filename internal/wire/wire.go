// Package wire holds what both sides of the wire must agree on: the route table, the versions, the scopes, the time format and the names of problems.
// Client and fake read the same tables; the contract fixtures under testdata, written by hand, check each of them against the specification alone.
package wire

// Scopes: what a token may be used for (specification, sections 4 and 5.2).
const (
	ScopePhoneCheck      = "phone_check"
	ScopeSIMCheck        = "sim_check"
	ScopeSubscriberCheck = "subscriber_check"
	ScopeCoverage        = "coverage"
	ScopeProjects        = "projects"
	ScopeWorkspaces      = "workspaces"
	ScopeConsole         = "console" // an alias of projects and workspaces together
)

// Products, as the paths, the versions and the x-service-callback header name them.
const (
	PhoneCheck      = "phone_check"
	SIMCheck        = "sim_check"
	SubscriberCheck = "subscriber_check"
	Coverage        = "coverage"
	Console         = "console"
)

// Versions of the APIs in the path. The later version of a check product adds the code exchange.
const (
	V01 = "v0.1"
	V02 = "v0.2"
)

// Versions lists what exists of each product, its default first.
var Versions = map[string][]string{
	PhoneCheck:      {V01, V02},
	SIMCheck:        {V01},
	SubscriberCheck: {V01, V02},
	Coverage:        {V01},
	Console:         {V01, V02},
}

// TimeFormat is a timestamp on the wire: ISO 8601 with an offset that has no colon (specification, section 2).
const TimeFormat = "2006-01-02T15:04:05-0700"

// CallbackHeader names the product of a callback (specification, section 5.3).
const CallbackHeader = "x-service-callback"

// RequestIDHeader carries the service's own name for a call, to quote to its support.
const RequestIDHeader = "X-Request-Id"

// Media types of requests and answers (contract, section 3).
const (
	MediaJSON      = "application/json"
	MediaHAL       = "application/hal+json"
	MediaProblem   = "application/problem+json"
	MediaJSONPatch = "application/json-patch+json"
	MediaForm      = "application/x-www-form-urlencoded"
	MediaMultipart = "multipart/form-data"
)

// MaxBody is the largest request body that the service reads, in bytes.
const MaxBody = 64 << 10

// Check statuses (specification, section 3; the two before the end: contract, section 3).
const (
	StatusAccepted  = "ACCEPTED"
	StatusPending   = "PENDING"
	StatusCompleted = "COMPLETED"
	StatusExpired   = "EXPIRED"
	StatusError     = "ERROR"
)

// Fragments of a problem's type (specification, section 7; contract, section 6).
const (
	BadRequest              = "bad_request"
	PhoneFormatInvalid      = "phone_format_invalid"
	MNONotSupported         = "mno_not_supported"
	Unauthorized            = "unauthorized"
	InsufficientBalance     = "insufficient_balance"
	Forbidden               = "forbidden"
	NotFound                = "not_found"
	CheckNotFound           = "check_not_found"
	TraceNotFound           = "trace_not_found"
	WorkspaceNotFound       = "workspace_not_found"
	MethodNotAllowed        = "method_not_allowed"
	UnsupportedMediaType    = "unsupported_media_type"
	ProjectNameTaken        = "project_name_taken"
	CredentialsLimitReached = "credentials_limit_reached"
	CompanyDetailsRequired  = "company_details_required"
	PaymentDetailsRequired  = "payment_details_required"
	CurrencyFixed           = "currency_fixed"
	CurrencyNotSupported    = "currency_not_supported"
	IPMSISDNMismatch        = "ip_msisdn_mismatch"
	TraceGone               = "trace_gone"
	NotMobileIP             = "not_mobile_ip"
	PayloadTooLarge         = "payload_too_large"
	TooManyRequests         = "too_many_requests"
	MNORedirectUnsupported  = "mno_redirect_unsupported"
)

// Errors of the token endpoint (RFC 6749, section 5.2).
const (
	InvalidRequest       = "invalid_request"
	InvalidClient        = "invalid_client"
	UnsupportedGrantType = "unsupported_grant_type"
	InvalidScope         = "invalid_scope"
)
