package idverify

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/idverify/idverify-go/internal/redact"
	"github.com/idverify/idverify-go/internal/wire"
)

// outcomeUnknown reports whether the service may have processed a request that got this status. The
// status may come from a proxy that lost its connection to the service. A redirect may follow a
// request that was processed, as 303 does. A proxy can also send an invalid status, such as nginx's
// 0 for a response that is not HTTP. 501 is a rejection: see mno_redirect_unsupported.
func outcomeUnknown(status int) bool {
	return status < 400 && !isSuccess(status) || status >= 500 && status != http.StatusNotImplemented
}

// problemType matches the type of a problem: a URI that ends with a fragment.
var problemType = regexp.MustCompile(`^[!-~]{0,400}#[\w-]{1,100}$`)

// sanitizeType returns a problem type. If the part before the fragment must be redacted, it returns
// only the fragment. If the type is malformed or the fragment must be redacted, it returns an empty
// string.
func sanitizeType(s string, secrets ...string) string {
	base, fragment, _ := strings.Cut(s, "#")
	if !problemType.MatchString(s) || redact.Text(fragment, secrets...) != fragment {
		return ""
	}
	if address := strings.TrimPrefix(base, "https://"); redact.Text(address, secrets...) != address {
		return "#" + fragment
	}
	return s
}

// bodyStart returns the sanitized start of an unexpected body, for use in an error.
func bodyStart(body []byte, secrets ...string) string {
	text := redact.Text(string(body[:min(len(body), 64<<10)]), secrets...)
	if text == "" {
		return "empty body"
	}
	return "body begins " + strconv.Quote(text)
}

// newTokenError returns the error for a response of the token endpoint that is not 2xx.
func newTokenError(scope string, resp *http.Response, body []byte, secrets []string) *TokenError {
	e := &TokenError{Status: resp.StatusCode, Operation: wire.Token.Name, Scope: scope, RetryAfter: retryAfter(resp.Header), RequestID: requestID(resp.Header, secrets...)}
	var p struct {
		Code        string `json:"error"`
		Description string `json:"error_description"`
	}
	_ = json.Unmarshal(body, &p)
	if p.Code == "" {
		e.Description = bodyStart(body, secrets...)
		return e
	}
	e.Code = redact.Text(p.Code, secrets...)
	e.Description = redact.Text(p.Description, secrets...)
	return e
}

// newDecodeError returns the error for an unusable body. The error contains the start of the body,
// but not if the body is a JSON object or array, which may contain personal data.
func newDecodeError(op wire.Operation, status int, body []byte, err error, secrets ...string) *DecodeError {
	reason := decodeReason(err)
	if trimmed := strings.TrimSpace(string(body[:min(len(body), 16)])); trimmed != "" && trimmed[0] != '{' && trimmed[0] != '[' {
		reason += ": " + bodyStart(body, secrets...)
	}
	return &DecodeError{Operation: op.Name, Status: status, Reason: reason}
}

// decodeReason returns the text of a decoder's error without the value that caused it.
func decodeReason(err error) string {
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return "invalid JSON"
	}
	if typeErr, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		switch field := wire.Field(typeErr); {
		case field != "":
			return "wrong type of field " + strconv.Quote(field)
		case typeErr.Type != nil && typeErr.Type.Kind() == reflect.Struct:
			return "not a JSON object"
		}
		return "invalid value of a field"
	}
	// Other errors of encoding/json repeat the value, for example an invalid json.Number.
	if reason := redact.Text(err.Error()); !strings.HasPrefix(reason, "json: ") {
		return reason
	}
	return "invalid value of a field"
}

// retryAfter returns the delay in a Retry-After header, in seconds or as a date (RFC 9110, section
// 10.2.3). It returns 0 if the header is missing or malformed.
func retryAfter(h http.Header) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0
	}
	if strings.Trim(v, "0123456789") == "" {
		seconds, err := strconv.ParseInt(v, 10, 64)
		if err != nil || seconds > math.MaxInt64/int64(time.Second) {
			return math.MaxInt64
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	return max(0, time.Until(at))
}

// longestReset is a year in seconds. A value of X-RateLimit-Reset up to a year is the time until
// the reset, because no period is longer. A higher value is a Unix time.
const longestReset = 366 * 24 * 60 * 60

// rateLimit reads the X-RateLimit headers. It returns nil if X-RateLimit-Limit or
// X-RateLimit-Remaining is missing or malformed.
func rateLimit(h http.Header, now time.Time) *RateLimit {
	limit, err := strconv.Atoi(h.Get("X-Ratelimit-Limit")) // the canonical form, which Get need not convert
	if err != nil {
		return nil
	}
	remaining, err := strconv.Atoi(h.Get("X-Ratelimit-Remaining"))
	if err != nil {
		return nil // 0 would look like an exhausted limit
	}
	r := &RateLimit{Limit: limit, Remaining: remaining}
	if reset, err := strconv.ParseInt(h.Get("X-Ratelimit-Reset"), 10, 64); err == nil && reset >= 0 {
		if reset <= longestReset {
			r.Reset = now.Add(time.Duration(reset) * time.Second)
		} else {
			r.Reset = time.Unix(reset, 0)
		}
	}
	return r
}

// isPlainID reports whether id cannot be a phone number or an address: it contains a letter, and
// only letters, digits, hyphens and underscores.
func isPlainID(id string) bool {
	letter := false
	for _, c := range []byte(id) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
			letter = true
		case '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return letter
}

// requestID returns the X-Request-Id header, as sanitizeID does.
func requestID(h http.Header, secrets ...string) string {
	return sanitizeID(h.Get(wire.RequestIDHeader), secrets...)
}

// sanitizeID returns an ID of the service, redacted, or an empty string if it has more than 128
// bytes or contains characters that are unusual in an ID and could imitate the rest of an error
// text.
func sanitizeID(id string, secrets ...string) string {
	if len(id) > 128 || strings.ContainsFunc(id, notVisible) || strings.ContainsAny(id, "[](){}<>\"'`,;|\\") {
		return ""
	}
	if redact.Contains(id, secrets) {
		return redacted
	}
	// Support needs the whole ID, even if digits in it look like a phone number.
	if isPlainID(id) {
		return id
	}
	return redact.Text(id)
}
