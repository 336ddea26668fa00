// Package wire defines the parts of the protocol in docs/protocol.md that the client and the fake
// share: the route table, versions, scopes, the time format and the names of problems.
//
// The fixtures in testdata are written by hand. The client and the fake are each tested against
// them, so that the tests detect mistakes in the shared tables.
package wire

// Scopes of access tokens.
const (
	ScopePhoneCheck      = "phone_check"
	ScopeSIMCheck        = "sim_check"
	ScopeSubscriberCheck = "subscriber_check"
	ScopeCoverage        = "coverage"
	ScopeProjects        = "projects"
	ScopeWorkspaces      = "workspaces"
	ScopeConsole         = "console" // an alias for both projects and workspaces
)

// Names of products in paths, in Versions and in the x-service-callback header.
const (
	PhoneCheck      = "phone_check"
	SIMCheck        = "sim_check"
	SubscriberCheck = "subscriber_check"
	Coverage        = "coverage"
	Console         = "console"
)

// Versions of the APIs, as they appear in paths. V02 of a check product adds the code exchange.
const (
	V01 = "v0.1"
	V02 = "v0.2"
)

// Versions lists the versions of each product. The first one is the default.
var Versions = map[string][]string{
	PhoneCheck:      {V01, V02},
	SIMCheck:        {V01},
	SubscriberCheck: {V01, V02},
	Coverage:        {V01},
	Console:         {V01, V02},
}

// TimeFormat is the format of timestamps: ISO 8601 with an offset without a colon.
const TimeFormat = "2006-01-02T15:04:05-0700"

// CallbackHeader is the header that contains the product of a callback.
const CallbackHeader = "x-service-callback"

// RequestIDHeader is the response header that contains the request ID.
const RequestIDHeader = "X-Request-Id"

// Media types of requests and responses.
const (
	MediaJSON      = "application/json"
	MediaHAL       = "application/hal+json"
	MediaProblem   = "application/problem+json"
	MediaJSONPatch = "application/json-patch+json"
	MediaForm      = "application/x-www-form-urlencoded"
	MediaMultipart = "multipart/form-data"
)

// MaxBody is the maximum size of a request body, in bytes.
const MaxBody = 64 << 10

// Statuses of checks.
const (
	StatusAccepted  = "ACCEPTED"
	StatusPending   = "PENDING"
	StatusCompleted = "COMPLETED"
	StatusExpired   = "EXPIRED"
	StatusError     = "ERROR"
)

// Problem type fragments.
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

// Error codes of the token endpoint (RFC 6749, section 5.2).
const (
	InvalidRequest       = "invalid_request"
	InvalidClient        = "invalid_client"
	UnsupportedGrantType = "unsupported_grant_type"
	InvalidScope         = "invalid_scope"
)
