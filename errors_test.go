package idverify_test

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/internal/tooltest"
)

func TestError_CreateText(t *testing.T) {
	t.Parallel()
	redirect := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusFound) }
	for _, tt := range []struct {
		name    string
		respond http.HandlerFunc
		want    string
	}{
		{"problem", respondWithProblem(402, "insufficient_balance", "the workspace's balance does not cover the check"),
			"idverify: create PhoneCheck: 402 insufficient_balance: the workspace's balance does not cover the check (top up the workspace; use another verification method until then)"},
		{"problem of the fixture", respondWith(412, string(fixture(t, "problem.json"))),
			"idverify: create PhoneCheck: 412 not_mobile_ip: Not a mobile IP (the device must use its mobile data connection)"},
		{"problem without status", respondWith(404, `{"type":"https://docs.sandbox.test/reference/api-errors#not_found","title":"Not Found","detail":"No Reach"}`),
			"idverify: create PhoneCheck: 404 not_found: No Reach (check the ID, the version and the base URL)"},
		{"page of a proxy", respondWith(502, "<html>\n<h1>Bad\tgateway</h1>"),
			`idverify: create PhoneCheck: 502 Bad Gateway: outcome unknown: body begins "<html> <h1>Bad gateway</h1>"; the check may exist and may have been charged (call FindByReferenceID; do not create the check again automatically)`},
		{"status of a proxy", respondWith(520, ""),
			"idverify: create PhoneCheck: 520: outcome unknown: empty body; the check may exist and may have been charged (call FindByReferenceID; do not create the check again automatically)"},
		{"nothing", respondWith(500, ""),
			"idverify: create PhoneCheck: 500 Internal Server Error: outcome unknown: empty body; the check may exist and may have been charged (call FindByReferenceID; do not create the check again automatically)"},
		{"other JSON", respondWith(400, `{"message":"no"}`),
			`idverify: create PhoneCheck: 400 Bad Request: body begins "{\"message\":\"no\"}"`},
		{"redirect", redirect,
			"idverify: create PhoneCheck: 302 Found: outcome unknown: empty body; the check may exist and may have been charged (call FindByReferenceID; do not create the check again automatically; redirects are not followed: check the base URL)"},
		{"redirect to an invalid location", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/%zz?access_token=token-1&secret=s3cret-of-client-1")
			redirect(w, r)
		}, "idverify: create PhoneCheck: 302 Found: outcome unknown: empty body; the check may exist and may have been charged (call FindByReferenceID; do not create the check again automatically; redirects are not followed: check the base URL)"},
		{"rate limit", withRequestID("req-7", withRetryAfter("3600", respondWithProblem(429, "too_many_requests", "slow down"))),
			"idverify: create PhoneCheck: 429 too_many_requests: slow down (retry after 1h0m0s) [request req-7, 1 attempt]"},
		{"unavailable", withRetryAfter("30", respondWithProblem(503, "", "overloaded")),
			"idverify: create PhoneCheck: 503 Service Unavailable: outcome unknown: overloaded; the check may exist and may have been charged (call FindByReferenceID; do not create the check again automatically; the service requests a delay of 30s)"},
		{"unavailable for days", withRetryAfter("172800", respondWithProblem(503, "", "overloaded")),
			"idverify: create PhoneCheck: 503 Service Unavailable: outcome unknown: overloaded; the check may exist and may have been charged (call FindByReferenceID; do not create the check again automatically; the service requests a delay of more than a day)"},
		{"page instead of a check", respondWith(200, "<html>Welcome to the airport"),
			`idverify: create PhoneCheck: 200 OK: outcome unknown: unusable response: invalid JSON: body begins "<html>Welcome to the airport"; the check may exist and may have been charged (call FindByReferenceID; do not create the check again automatically)`},
		{"object without check_id", respondWith(201, `{"id":1}`),
			"idverify: create PhoneCheck: 201 Created: outcome unknown: unusable response: missing check_id; the check may exist and may have been charged (call FindByReferenceID; do not create the check again automatically)"},
		{"wrong type", respondWith(201, `{"check_id":447700900000,"status":"ACCEPTED"}`),
			`idverify: create PhoneCheck: 201 Created: outcome unknown: unusable response: wrong type of field "check_id"; the check may exist and may have been charged (call FindByReferenceID; do not create the check again automatically)`},
		{"null", respondWith(200, `null`),
			`idverify: create PhoneCheck: 200 OK: outcome unknown: unusable response: missing check_id: body begins "null"; the check may exist and may have been charged (call FindByReferenceID; do not create the check again automatically)`},
		{"body too long", func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 10<<20+1)) },
			"idverify: create PhoneCheck: 200 OK: outcome unknown: unusable response: longer than 10 MiB; the check may exist and may have been charged (call FindByReferenceID; do not create the check again automatically)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := newService(t, tt.respond)

			_, err := srv.client(t, withoutRetries).PhoneChecks.Create(t.Context(), createParams)

			if err == nil || err.Error() != tt.want {
				t.Errorf("error\n%v\nwant\n%s", err, tt.want)
			}
		})
	}
}

// withRetryAfter adds a Retry-After header to the response of respond.
func withRetryAfter(value string, respond http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", value)
		respond(w, r)
	}
}

func TestError_TruncatedBody(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondTruncated(http.StatusPaymentRequired, `{"type":"https://docs.sandbox.test/`))

	_, err := srv.client(t).PhoneChecks.Get(t.Context(), "a")

	if !errors.Is(err, idverify.ErrInsufficientBalance) || len(srv.calls()) != 1 {
		t.Errorf("error = %v after %d attempts, want ErrInsufficientBalance after 1", err, len(srv.calls()))
	}
}

func TestError_TextSuffix(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name           string
		token, respond http.HandlerFunc
		want           string
	}{
		{"error", nil, withRequestID("req-7", respondWith(404, "")), " [request req-7, 1 attempt]"},
		{"error after retries", nil, withRequestID("req-7", respondWith(503, "")), " [request req-7, 3 attempts]"},
		{"error without a request ID", nil, respondWith(503, ""), " [3 attempts]"},
		{"connection lost", nil, drop, " [3 attempts]"},
		{"unusable response", nil, withRequestID("req-7", respondWith(200, "{}")), " [request req-7, 1 attempt]"},
		{"token request rejected", withRequestID("req-7", respondWith(401, "")), nil, " [request req-7]"},
		{"unusable token response", withRequestID("req-7", respondWith(200, "<html>")), nil, " [request req-7]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := newService(t, tt.respond)
			srv.token = tt.token
			srv.Client().Transport.(*http.Transport).DisableKeepAlives = true

			_, err := srv.client(t, idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 3, MinWait: 1, MaxWait: 1})).PhoneChecks.Get(t.Context(), "a")

			if err == nil || !strings.HasSuffix(err.Error(), tt.want) || strings.Count(err.Error(), "[") != 1 {
				t.Errorf("error = %v, want the suffix %s", err, tt.want)
			}
		})
	}
}

// withRequestID adds a request ID to the response of respond.
func withRequestID(requestID string, respond http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", requestID)
		respond(w, r)
	}
}

func TestClient_LogsNothingByDefault(t *testing.T) {
	// This test is not parallel: it changes the default logger of the process.
	logs := new(tooltest.Buffer)
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug})))
	t.Cleanup(func() { slog.SetDefault(before) })
	srv := newService(t, respondWith(500, ""))

	_, _ = srv.client(t).PhoneChecks.Get(t.Context(), "a")

	if logs.String() != "" {
		t.Errorf("log = %s, want nothing", logs)
	}
}

// withoutRetries and oneAttempt permit one attempt. oneAttempt has the default attempt timeout.
var (
	withoutRetries = idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1, AttemptTimeout: patience})
	oneAttempt     = idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1})
)

func FuzzErrorBody(f *testing.F) {
	f.Add(412, fixture(f, "problem.json"))
	f.Add(502, []byte("<html>\xff\x00"))
	f.Add(400, []byte(`{"type":"#`+testNumber+`","detail":["a"]}`))
	f.Add(401, fixture(f, "token_error.json"))
	f.Add(429, []byte(`{"detail":"call +44 7700 900000 at 10.0.0.1:80 or ::1"}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if status < 300 || status > 599 {
			return
		}
		c := newTransportClient(t, always(status, body), withoutRetries)
		_, err := c.PhoneChecks.Create(t.Context(), createParams)
		text := fmt.Sprintf("%+v", err)
		if err == nil || strings.Contains(text, testNumber) || strings.Contains(text, "token-1") || strings.ContainsAny(text, "\n\r\x00") || len(text) > 2000 {
			t.Errorf("error = %q, want a short line without the number and the token", text)
		}
	})
}

// Callers construct these errors in their own tests.
func TestError_ConstructedByCaller(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&idverify.Error{Status: 412, Type: "#not_mobile_ip", Operation: "reachability.device_ip"},
			"idverify: look up reachability: 412 not_mobile_ip (the device must use its mobile data connection)"},
		{&idverify.Error{Status: 409, Operation: "fetch the moon", RequestID: "req-7"},
			"idverify: fetch the moon: 409 Conflict [request req-7]"},
		{&idverify.Error{Status: 418, Detail: "short"}, "idverify: 418 I'm a teapot: short"},
		{&idverify.DecodeError{Operation: "phone_check.create", Status: 201, Reason: "invalid JSON"},
			"idverify: create PhoneCheck: 201 Created: unusable response: invalid JSON"},
		{&idverify.TokenError{Status: 400, Code: "invalid_request", Scope: "coverage"},
			`idverify: get token for scope "coverage": 400 invalid_request (check for a proxy that changes requests)`},
		{&idverify.NoResultError{Operation: "phone_check.get", Status: idverify.StatusPending}, "idverify: get PhoneCheck: check is still PENDING after its TTL"},
		{&idverify.NoResultError{Operation: "phone_check.get", Status: idverify.StatusError, ErrorCode: "mno_down"}, "idverify: get PhoneCheck: check ended as ERROR: mno_down"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("error\n%s\nwant\n%s", got, tt.want)
		}
	}
}

var sentinels = []error{
	idverify.ErrBadRequest, idverify.ErrPhoneFormat, idverify.ErrUnauthorized, idverify.ErrInsufficientBalance, idverify.ErrForbidden, idverify.ErrNotFound,
	idverify.ErrConflict, idverify.ErrNotMobileIP, idverify.ErrNetworkNotSupported, idverify.ErrRateLimited, idverify.ErrIPMismatch, idverify.ErrSandbox,
}

// matchedSentinels returns the sentinels that err matches.
func matchedSentinels(err error) []error {
	var found []error
	for _, s := range sentinels {
		if errors.Is(err, s) {
			found = append(found, s)
		}
	}
	return found
}

// The rows are written by hand from docs/protocol.md, section 8, followed by statuses with an
// unknown fragment.
func TestError_Is(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status   int
		fragment string
		want     error // nil means none
		hint     string
	}{
		{400, "bad_request", idverify.ErrBadRequest, "correct the arguments"},
		{400, "phone_format_invalid", idverify.ErrPhoneFormat, "7 to 15 digits"},
		{400, "mno_not_supported", idverify.ErrNetworkNotSupported, "use another verification method"},
		{401, "unauthorized", idverify.ErrUnauthorized, "belong to this service"},
		{402, "insufficient_balance", idverify.ErrInsufficientBalance, "top up the workspace; use another"},
		{403, "forbidden", idverify.ErrForbidden, "scope"},
		{404, "not_found", idverify.ErrNotFound, "check the ID"},
		{404, "check_not_found", idverify.ErrNotFound, "callback"},
		{404, "trace_not_found", idverify.ErrNotFound, ""},
		{404, "workspace_not_found", idverify.ErrNotFound, "membership"},
		{405, "method_not_allowed", idverify.ErrBadRequest, "check the version"},
		{409, "project_name_taken", idverify.ErrConflict, "choose another name"},
		{409, "credentials_limit_reached", idverify.ErrConflict, "two pairs"},
		{409, "company_details_required", idverify.ErrConflict, "Billing.Update"},
		{409, "payment_details_required", idverify.ErrConflict, "PaymentMethods.Create"},
		{409, "currency_fixed", idverify.ErrConflict, "first top-up"},
		{409, "currency_not_supported", idverify.ErrConflict, "payment method"},
		{409, "ip_msisdn_mismatch", idverify.ErrIPMismatch, "another verification method"},
		{410, "trace_gone", idverify.ErrNotFound, "seven days"},
		{412, "not_mobile_ip", idverify.ErrNotMobileIP, "mobile data"},
		{413, "payload_too_large", idverify.ErrBadRequest, "shorten the arguments"},
		{415, "unsupported_media_type", idverify.ErrBadRequest, "proxy that changes requests"},
		{429, "too_many_requests", idverify.ErrRateLimited, "(retry later, and reduce the number of requests)"},
		{501, "mno_redirect_unsupported", idverify.ErrNetworkNotSupported, "use another verification method"},
		{400, "not_mobile_ip", idverify.ErrNotMobileIP, "mobile data"}, // the fragment takes precedence

		{400, "future_problem", idverify.ErrBadRequest, ""},
		{401, "future_problem", idverify.ErrUnauthorized, ""},
		{402, "future_problem", idverify.ErrInsufficientBalance, ""},
		{403, "future_problem", idverify.ErrForbidden, ""},
		{404, "future_problem", idverify.ErrNotFound, ""},
		{405, "future_problem", idverify.ErrBadRequest, ""},
		{406, "future_problem", nil, ""},
		{408, "future_problem", nil, ""},
		{409, "future_problem", idverify.ErrConflict, ""},
		{410, "future_problem", idverify.ErrNotFound, ""},
		{411, "future_problem", nil, ""},
		{412, "future_problem", idverify.ErrNotMobileIP, ""},
		{413, "future_problem", idverify.ErrBadRequest, ""},
		{414, "future_problem", nil, ""},
		{415, "future_problem", idverify.ErrBadRequest, ""},
		{416, "future_problem", nil, ""},
		{428, "future_problem", nil, ""},
		{429, "future_problem", idverify.ErrRateLimited, "(retry later, and"},
		{430, "future_problem", nil, ""},
		{500, "future_problem", nil, ""},
		{501, "future_problem", idverify.ErrNetworkNotSupported, ""},
		{502, "future_problem", nil, ""},
		{503, "future_problem", nil, "(retry later)"},

		{404, "", idverify.ErrNotFound, "(check the base URL)"},
		{409, "", idverify.ErrConflict, ""},
		{412, "", idverify.ErrNotMobileIP, ""},
		{500, "", nil, ""},
		{503, "", nil, "(retry later)"},
	} {
		t.Run(fmt.Sprint(tt.status, " ", tt.fragment), func(t *testing.T) {
			t.Parallel()
			srv := newService(t, respondWithProblem(tt.status, tt.fragment, "because"))

			_, err := srv.client(t, withoutRetries).PhoneChecks.Get(t.Context(), "a")

			if got := matchedSentinels(err); tt.want == nil && len(got) != 0 || tt.want != nil && (len(got) != 1 || got[0] != tt.want) {
				t.Errorf("error %v matches %v, want only %v", err, got, tt.want)
			}
			if !strings.Contains(fmt.Sprint(err), tt.hint) || tt.hint == "" && strings.Contains(fmt.Sprint(err), "(") {
				t.Errorf("error = %v, want the hint %q", err, tt.hint)
			}
			if e, ok := errors.AsType[*idverify.Error](err); !ok || e.Code() != tt.fragment || e.Status != tt.status || e.Detail != "because" || e.Title != http.StatusText(tt.status) || e.Operation != "phone_check.get" {
				t.Errorf("error = %#v, want an *Error with fragment, status, detail, title and operation", err)
			}
		})
	}
}

func TestError_Text(t *testing.T) {
	t.Parallel()
	const docs = "https://docs.sandbox.test/reference/api-errors"
	long := strings.Repeat("a", 300)
	for _, tt := range []struct {
		name   string
		status int
		header map[string]string
		body   string
		want   string // the text after the operation
		typ    string // of a problem
		title  string // empty: the standard text of the status
	}{
		{name: "only a type", status: 412, body: `{"type":"` + docs + `#not_mobile_ip"}`,
			want: "412 not_mobile_ip (the device must use its mobile data connection)", typ: docs + "#not_mobile_ip"},
		{name: "only a title", status: 403, body: `{"title":"Not Yours"}`, want: "403 Forbidden", title: "Not Yours"},
		{name: "only a detail", status: 418, body: `{"detail":"short"}`, want: "418 I'm a teapot: short"},
		{name: "detail of the wrong type", status: 412, body: `{"type":"` + docs + `#not_mobile_ip","detail":["a"]}`,
			want: "412 not_mobile_ip (the device must use its mobile data connection)", typ: docs + "#not_mobile_ip"},
		{name: "relative type", status: 412, body: `{"type":"#not_mobile_ip"}`, want: "412 not_mobile_ip (the device must use its mobile data connection)", typ: "#not_mobile_ip"},
		{name: "type with an address", status: 412, body: `{"type":"https://docs.example/192.0.2.7#not_mobile_ip"}`,
			want: "412 not_mobile_ip (the device must use its mobile data connection)", typ: "#not_mobile_ip"},
		{name: "type without a fragment", status: 418, body: `{"type":"about:blank","detail":"d"}`, want: "418 I'm a teapot: d"},
		{name: "fragment with a space", status: 418, body: `{"type":"` + docs + `#not mobile","detail":"d"}`, want: "418 I'm a teapot: d"},
		{name: "fragment with a phone number", status: 418, body: `{"type":"` + docs + `#447700900000","detail":"d"}`, want: "418 I'm a teapot: d"},
		{name: "type with a control character", status: 418, body: `{"type":"` + docs + `\u0007#a","detail":"d"}`, want: "418 I'm a teapot: d"},
		{name: "control characters", status: 418, body: `{"detail":"a\u0000b\r\nc\td\u001b[31me\u0085f\u2028g\ufffdh\u200bi"}`, want: "418 I'm a teapot: a b c d [31me f g h i"},
		{name: "control characters in a plain body", status: 502, body: "a\x00b\x1b[2Jc\xffd\u009be", want: `502 Bad Gateway: body begins "a b [2Jc d e"`},
		{name: "300 characters", status: 418, body: `{"detail":"` + long + `"}`, want: "418 I'm a teapot: " + long},
		{name: "301 characters", status: 418, body: `{"detail":"` + long + `b"}`, want: "418 I'm a teapot: " + long + "…"},
		{name: "300 wide characters", status: 418, body: `{"detail":"` + strings.Repeat("é", 300) + `"}`, want: "418 I'm a teapot: " + strings.Repeat("é", 300)},
		{name: "404 without a problem", status: 404, want: "404 Not Found: empty body (check the base URL)"},
		{name: "405 without a problem", status: 405, want: "405 Method Not Allowed: empty body (check the base URL)"},
		{name: "403 without a problem", status: 403, want: "403 Forbidden: empty body"},
		{name: "406 without a problem", status: 406, want: "406 Not Acceptable: empty body"},
		{name: "300", status: 300, want: "300 Multiple Choices: empty body (redirects are not followed: check the base URL)"},
		{name: "399", status: 399, want: "399: empty body (redirects are not followed: check the base URL)"},
		{name: "400", status: 400, want: "400 Bad Request: empty body"},
		{name: "503 with Retry-After", status: 503, header: map[string]string{"Retry-After": "60"}, want: "503 Service Unavailable: empty body (retry after 1m0s)"},
		{name: "403 with Retry-After", status: 403, header: map[string]string{"Retry-After": "60"}, want: "403 Forbidden: empty body"},
		{name: "too many JSON values", status: 418, body: strings.Repeat(",", 70_000), want: `418 I'm a teapot: body begins "` + strings.Repeat(",", 300) + `…"`},
		{name: "long body", status: 418, body: strings.Repeat("a", 2<<20), want: `418 I'm a teapot: body begins "` + long + `…"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := newService(t, func(w http.ResponseWriter, r *http.Request) {
				for name, value := range tt.header {
					w.Header().Set(name, value)
				}
				respondWith(tt.status, tt.body)(w, r)
			})

			_, err := srv.client(t, withoutRetries).PhoneChecks.Get(t.Context(), "a")

			if want := "idverify: get PhoneCheck: " + tt.want; err == nil || err.Error() != want {
				t.Errorf("error =\n%v\nwant\n%s", err, want)
			}
			title := cmp.Or(tt.title, http.StatusText(tt.status))
			if e, ok := errors.AsType[*idverify.Error](err); !ok || e.Type != tt.typ || e.Title != title {
				t.Errorf("Type = %q, Title = %q, want %q and %q", e.Type, e.Title, tt.typ, title)
			}
		})
	}
}

func TestDecodeError_Text(t *testing.T) {
	t.Parallel()
	const prefix = "idverify: get PhoneCheck: 200 OK: unusable response: "
	for _, tt := range []struct{ body, want string }{
		{`[]`, "not a JSON object"},
		{`[447700900000]`, "not a JSON object"},
		{`7`, `not a JSON object: body begins "7"`},
		{`"447700900000"`, `not a JSON object: body begins "\"[REDACTED]\""`},
		{`{`, "invalid JSON"},
		{"\n\t {\"check_id\":447700900000}", `wrong type of field "check_id"`},
		{"<p>447700900000", `invalid JSON: body begins "<p>[REDACTED]"`},
		{"a\x00\x1b", `invalid JSON: body begins "a"`},
		{``, "invalid JSON"},
		{`{"check_id":"a","status":"COMPLETED","created_at":"447700900000"}`, "malformed timestamp (want yyyy-MM-ddTHH:mm:ss+0000)"},
		{`{"check_id":"a","status":"COMPLETED","ttl":1e999}`, "number out of range"},
		{`{"check_id":"a","status":"COMPLETED","ttl":"soon"}`, "invalid number"},
		{`{"check_id":"a","status":"COMPLETED","charge_amount":"of Ada"}`, "invalid value of a field"},
		{`{"check_id":"a","status":"COMPLETED","charge_amount":true}`, "invalid value of a field"},
	} {
		srv := newService(t, withRequestID("req-7", respondWith(200, tt.body)))

		_, err := srv.client(t).PhoneChecks.Get(t.Context(), "a")

		if want := prefix + tt.want + " [request req-7, 1 attempt]"; err == nil || err.Error() != want {
			t.Errorf("%q: error =\n%v\nwant\n%s", tt.body, err, want)
		}
	}
	// The text does not depend on the version of Go, and contains no name that the service chooses.
	for _, tt := range []struct{ log, want string }{
		{`7`, `wrong type of field "logs"`},
		{`{"message":7}`, `wrong type of field "logs.message"`},
		{`{"attributes":"x"}`, `wrong type of field "logs.attributes"`},
		{`{"attributes":{"number +447700900000":1e400}}`, "invalid value of a field"},
	} {
		srv := newService(t, withRequestID("req-7", respondWith(200, `{"_embedded":{"traces":[{"trace_id":"b","logs":[{},`+tt.log+`]}]}}`)))

		_, err := srv.client(t).PhoneChecks.Traces(t.Context(), "a")

		if want := "idverify: list traces of PhoneCheck: 200 OK: unusable response: " + tt.want + " [request req-7, 1 attempt]"; err == nil || err.Error() != want {
			t.Errorf("log %s: error =\n%v\nwant\n%s", tt.log, err, want)
		}
	}
	srv := newService(t, withRequestID("req-7", respondWith(200, strings.Repeat(" ", 10<<20+1))))
	if _, err := srv.client(t, withoutRetries).PhoneChecks.Get(t.Context(), "a"); err == nil || err.Error() != prefix+"longer than 10 MiB [request req-7, 1 attempt]" {
		t.Errorf("more than 10 MiB: error = %v, want one that names the limit", err)
	}
	srv = newService(t, withRequestID("req-7", respondWith(200, `{"check_id":"a","status":"COMPLETED","new":[`+strings.Repeat("0,", 65_536)+`0]}`)))
	if _, err := srv.client(t).PhoneChecks.Get(t.Context(), "a"); err == nil || err.Error() != prefix+"more than 65,536 values [request req-7, 1 attempt]" {
		t.Errorf("more than 65,536 values: error = %v, want one that names the limit", err)
	}
}

func TestError_RequestID(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"req-7":                                "req-7",
		"1d79ee4c-2021-4123-9456-426614174000": "1d79ee4c-2021-4123-9456-426614174000",
		strings.Repeat("a", 128):               strings.Repeat("a", 128),
		strings.Repeat("a", 129):               "",
		"a b":                                  "",
		"a\tb":                                 "",
		"a~!b":                                 "a~!b",
		"réq":                                  "",
		"a\x80":                                "",
		"":                                     "",
		"192.0.2.7":                            "[REDACTED]",
		"447700900000":                         "[REDACTED]",
		"call-192.0.2.7":                       "call-[REDACTED]",
		"id-s3cret-of-client-1":                "[REDACTED]",
		"1234":                                 "1234",
		"a.b:c":                                "a.b:c",
		"ok]:200(retry)[request:y":             "",
	} {
		c := newTransportClient(t, always(403, nil, "X-Request-Id", id))

		_, err := c.PhoneChecks.Get(t.Context(), "a")

		if e, ok := errors.AsType[*idverify.Error](err); !ok || e.RequestID != want {
			t.Errorf("X-Request-Id %q: RequestID = %q, want %q", id, e.RequestID, want)
		}
	}
}

func TestError_RetryAfter(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"":                              0,
		"0":                             0,
		"1":                             time.Second,
		" 90 ":                          90 * time.Second,
		"9223372036":                    9223372036 * time.Second,
		"9223372037":                    1<<63 - 1,
		"9223372036854775808":           1<<63 - 1,
		"-1":                            0,
		"1.5":                           0,
		"1s":                            0,
		"soon":                          0,
		"Fri, 31 Dec 1999 00:00:00 GMT": 0,
	} {
		c := newTransportClient(t, always(403, nil, "Retry-After", value))

		_, err := c.PhoneChecks.Get(t.Context(), "a")

		if e, ok := errors.AsType[*idverify.Error](err); !ok || e.RetryAfter != want {
			t.Errorf("Retry-After %q: RetryAfter = %v, want %v", value, e.RetryAfter, want)
		}
	}
}

// The error of the transport is reported without addresses and secrets.
func TestClient_TransportErrorText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"DNS", &net.DNSError{Err: "no such host", Name: "eu.api.example.com", Server: "192.0.2.53:53"}, "host lookup failed: no such host"},
		{"dial", &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 443}, Err: errors.New("connection refused")}, "dial: connection refused"},
		{"unknown host", &net.DNSError{Err: "no such host", Name: "eu.api.example.com", IsNotFound: true}, "host lookup failed: no such host (check the base URL, any proxy and the DNS server)"},
		{"closed port", &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}, "dial: connection refused (check the base URL and any proxy, and that the server runs)"},
		{"operation without a cause", &net.OpError{Op: "dial", Net: "tcp"}, "dial"},
		{"certificate of a proxy", &net.OpError{Op: "proxyconnect", Err: x509.HostnameError{Certificate: new(x509.Certificate), Host: "proxy.internal"}}, "proxyconnect: certificate is for another host (check the base URL and any proxy)"},
		{"untrusted certificate", x509.UnknownAuthorityError{}, "x509: certificate signed by unknown authority (to trust another CA, set the HTTP client: see WithHTTPClient)"},
		{"EOF", io.EOF, "connection closed before the response"},
		{"unexpected EOF", io.ErrUnexpectedEOF, "truncated response"},
		{"other error", errors.New("no s3cret-of-client-1, Basic Y2xpZW50LTE6czNjcmV0LW9mLWNsaWVudC0x or 192.0.2.7"), "no [REDACTED], Basic [REDACTED] or [REDACTED]"},
		{"cause with a secret", &net.OpError{Op: "write", Err: errors.New("s3cret-of-client-1")}, "write: [REDACTED]"},
	} {
		for _, at := range []string{"operation", "token"} {
			t.Run(tt.name+"/"+at, func(t *testing.T) {
				t.Parallel()
				c := clientOver(t, roundTripperFunc(func(r *http.Request) (*http.Response, error) {
					if r.URL.Path == tokenPath && at == "operation" {
						return issuedToken(), nil
					}
					return nil, tt.err
				}), withoutRetries)

				_, err := c.PhoneChecks.Get(t.Context(), "a")

				want := map[string]string{"operation": "idverify: get PhoneCheck: ", "token": `idverify: get token for scope "phone_check": `}[at] + tt.want
				if err == nil || err.Error() != want || !errors.Is(err, tt.err) {
					t.Errorf("error =\n%v\nwant\n%s", err, want)
				}
			})
		}
	}
}

func TestTokenError_Is(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status int
		code   string
		want   error // nil means none
		hint   string
	}{
		{401, "invalid_client", idverify.ErrUnauthorized, "client ID and secret"},
		{400, "invalid_client", idverify.ErrUnauthorized, "client ID and secret"},
		{401, "", idverify.ErrUnauthorized, "(not a response of the token endpoint: check the base URL and any proxy)"},
		{401, "another_code", idverify.ErrUnauthorized, ""},
		{400, "invalid_scope", idverify.ErrForbidden, "NewConsole"},
		{400, "invalid_request", nil, "(check for a proxy that changes requests)"},
		{400, "unsupported_grant_type", nil, "(check the base URL)"},
		{400, "", nil, ""},
		{402, "", nil, ""},
		{403, "", nil, "check the base URL and any proxy"},
		{403, "access_denied", nil, ""},
		{404, "", nil, "(check the base URL)"},
		{405, "", nil, "(check the base URL)"},
		{428, "", nil, ""},
		{429, "", idverify.ErrRateLimited, "(retry later, and"},
		{430, "", nil, ""},
		{500, "", nil, ""},
		{501, "", nil, "check the base URL and any proxy"},
		{503, "server_error", nil, "(retry later)"},
		{300, "", nil, "redirects are not followed"},
		{302, "", nil, "redirects are not followed"},
		{399, "", nil, "redirects are not followed"},
	} {
		t.Run(fmt.Sprint(tt.status, " ", tt.code), func(t *testing.T) {
			t.Parallel()
			srv := newService(t, nil)
			body := "<html>"
			if tt.code != "" {
				body = `{"error":"` + tt.code + `","error_description":"because"}`
			}
			srv.token = withRequestID("req-7", respondWith(tt.status, body))

			_, err := srv.client(t, withoutRetries).PhoneChecks.Get(t.Context(), "a")

			if got := matchedSentinels(err); tt.want == nil && len(got) != 0 || tt.want != nil && (len(got) != 1 || got[0] != tt.want) {
				t.Errorf("error %v matches %v, want only %v", err, got, tt.want)
			}
			if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
				t.Errorf("error %v matches io.EOF or context.Canceled, want neither", err)
			}
			if !strings.Contains(fmt.Sprint(err), tt.hint) || tt.hint == "" && strings.Contains(fmt.Sprint(err), "(") {
				t.Errorf("error = %v, want the hint %q", err, tt.hint)
			}
			e, ok := errors.AsType[*idverify.TokenError](err)
			if !ok || e.Code != tt.code || e.Status != tt.status || e.Operation != "token.create" || e.Scope != "phone_check" || e.RequestID != "req-7" {
				t.Fatalf("error = %#v, want a *TokenError with code, status, operation, scope and request ID", err)
			}
			if want := map[bool]string{true: `body begins "<html>"`, false: "because"}[tt.code == ""]; e.Description != want {
				t.Errorf("Description = %q, want %q", e.Description, want)
			}
		})
	}
}

func TestTokenError_RetryAfter(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[string]string{
		"90":                   "(retry after 1m30s)",
		"86400":                "(retry after 24h0m0s)",
		"86401":                "(retry later: the service requests a delay of more than a day)",
		"9223372036":           "(retry later: the service requests a delay of more than a day)",
		"9223372037":           "(retry later: the service requests a delay of more than a day)",
		"99999999999999999999": "(retry later: the service requests a delay of more than a day)",
	} {
		srv := newService(t, nil)
		srv.token = withRetryAfter(seconds, respondWith(429, ""))

		_, err := srv.client(t).Token(t.Context(), idverify.ScopeReachability)

		e, ok := errors.AsType[*idverify.TokenError](err)
		if !ok || e.RetryAfter <= 0 || !strings.HasSuffix(err.Error(), want) || len(srv.tokens()) != 1 {
			t.Errorf("Retry-After %s: error = %v after %d attempts, want %s after 1", seconds, err, len(srv.tokens()), want)
		}
	}
}

func TestClient_UnusableTokenResponse(t *testing.T) {
	t.Parallel()
	const prefix = `idverify: get token for scope "coverage": 200 OK: unusable response: `
	for body, want := range map[string]string{
		"<html>": "invalid JSON (check the base URL)",
		"":       "invalid JSON (check the base URL)",
		"[]":     "not a JSON object (check the base URL)",
		"{}":     "missing access_token",
	} {
		srv := newService(t, nil)
		srv.token = respondWith(200, body)

		_, err := srv.client(t).Token(t.Context(), idverify.ScopeReachability)

		if _, ok := errors.AsType[*idverify.DecodeError](err); !ok || err.Error() != prefix+want || len(srv.tokens()) != 1 {
			t.Errorf("body %q: error = %v after %d attempts, want %s after 1", body, err, len(srv.tokens()), prefix+want)
		}
	}
}

// failingError is an error whose Error method panics.
type failingError struct{}

func (failingError) Error() string { panic("no text") }

// endlessError is an error whose Error method panics with the error itself.
type endlessError struct{}

func (e endlessError) Error() string { panic(e) }

// The caller's code also runs on the goroutine that fetches a token for all callers. A panic there
// must neither end the process nor block the callers.
func TestClient_TokenFetchPanic(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func()
		want string
	}{
		{"panic", func() { panic("no s3cret-of-client-1 for 447700900000 at 192.0.2.7") }, "a value of type string"},
		{"error", func() { panic(errors.New("Basic Y2xpZW50LTE6czNjcmV0LW9mLWNsaWVudC0x")) }, "a value of type *errors.errorString"},
		{"runtime error", func() { var list []int; _ = list[len(list)] }, "index out of range"},
		{"nil pointer", func() { var f *roundTripperFunc; _, _ = f.RoundTrip(nil) }, "panic in github.com/idverify/idverify-go_test.TestClient_TokenFetchPanic.func4: runtime error: invalid memory address"},
		{"nil", func() { panic(nil) }, "nil"},
		{"value", func() { panic(struct{ secret string }{"s3cret-of-client-1"}) }, "a value of type struct"},
		{"error with failing Error method", func() { panic(failingError{}) }, "a value of type idverify_test.failingError"},
		{"error that panics with itself", func() { panic(endlessError{}) }, "a value of type idverify_test.endlessError"},
		{"Goexit", runtime.Goexit, "called runtime.Goexit"},
	} {
		for _, place := range []string{"transport", "body", "clock", "logger"} {
			t.Run(tt.name+" in "+place, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					once := &failOnce{end: tt.end}
					var calls atomic.Int32 // of the clock
					fail := func(here string) {
						if place == here {
							once.fail()
						}
					}
					e := new(memoryService)
					transport := roundTripperFunc(func(r *http.Request) (*http.Response, error) {
						if r.URL.Path == tokenPath {
							time.Sleep(time.Second) // until every caller is waiting
							fail("transport")
						}
						resp, err := e.RoundTrip(r)
						if r.URL.Path == tokenPath && place == "body" && !once.failed.Load() {
							resp.Body = io.NopCloser(readerFunc(func([]byte) (int, error) { fail("body"); return 0, io.EOF }))
						}
						return resp, err
					})
					const callers = 20
					var opts []idverify.Option
					if place == "clock" {
						opts = append(opts, idverify.WithClock(func() time.Time {
							if calls.Add(1) == 2 { // the second call is part of the fetch
								fail("clock")
							}
							return time.Now()
						}))
					}
					if place == "logger" {
						opts = append(opts, idverify.WithLogger(slog.New(recordHandler(func(r slog.Record) {
							r.Attrs(func(a slog.Attr) bool {
								if a.Value.String() == "token.create" {
									fail("logger")
								}
								return true
							})
						}))))
					}
					c := clientOver(t, transport, opts...)

					errs := make(chan error, callers)
					for range callers {
						go func() { errs <- errorOf(c.PhoneChecks.Get(t.Context(), "a")) }()
						if place == "clock" {
							synctest.Wait() // the first caller starts the fetch alone
						}
					}
					for range callers {
						err := <-errs
						if place == "clock" && err == nil {
							continue // this call started after the failed fetch
						}
						if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), `idverify: get token for scope "phone_check": failed: `) {
							t.Errorf("error = %v, want it to contain %q", err, tt.want)
						}
						for _, secret := range []string{"s3cret", "Y2xp", "4477", "192.0"} {
							if strings.Contains(fmt.Sprintf("%+v %#v", err, err), secret) {
								t.Errorf("error = %+v, want it without %q", err, secret)
							}
						}
					}
					if !once.failed.Load() {
						t.Fatal("tt.end was not called")
					}
					if err := errorOf(c.PhoneChecks.Get(t.Context(), "a")); err != nil {
						t.Errorf("next call: error = %v, want nil", err)
					}
				})
			})
		}
	}
}

// A failed refresh pauses. The token is still valid.
func TestClient_PausesAfterFailedRefresh(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(){"status 503": func() {}, "panic": func() { panic("a bug") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := new(memoryService)
				failing := false
				fetches := 0
				c := clientOver(t, roundTripperFunc(func(r *http.Request) (*http.Response, error) {
					if fetches++; failing {
						end()
						return response(503, nil), nil
					}
					return e.RoundTrip(r)
				}))
				tokenFor(t, c, idverify.ScopeReachability)
				time.Sleep(59*time.Minute + time.Second) // the refresh is due
				failing = true

				for range 20 {
					if got := tokenFor(t, c, idverify.ScopeReachability); got != "token-1" {
						t.Fatalf("token = %q, want token-1, which is still valid", got)
					}
					synctest.Wait()
				}
				immediate := fetches
				failing = false
				time.Sleep(10 * time.Second)
				tokenFor(t, c, idverify.ScopeReachability)
				synctest.Wait()

				if got := tokenFor(t, c, idverify.ScopeReachability); immediate != 2 || got != "token-2" {
					t.Errorf("%d token requests, then token %q; want 2, because a failed refresh pauses, and token-2", immediate, got)
				}
			})
		})
	}
}

// The client does not recover from a panic on the caller's goroutine.
func TestClient_PanicOnCallerGoroutine(t *testing.T) {
	t.Parallel()
	jar := must(cookiejar.New(nil))(t)
	for name, opt := range map[string]func(fail func()) []idverify.Option{
		"transport": func(fail func()) []idverify.Option {
			return []idverify.Option{idverify.WithHTTPClient(&http.Client{Transport: tokenTransport(func(*http.Request) (*http.Response, error) {
				fail()
				return response(200, []byte(`{"check_id":"a","status":"COMPLETED"}`)), nil
			})})}
		},
		"cookie jar": func(fail func()) []idverify.Option {
			return []idverify.Option{idverify.WithHTTPClient(&http.Client{Jar: failingJar{jar, fail}, Transport: new(memoryService)})}
		},
		"clock": func(fail func()) []idverify.Option {
			return []idverify.Option{idverify.WithHTTPClient(&http.Client{Transport: new(memoryService)}), idverify.WithClock(func() time.Time { fail(); return time.Now() })}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			once := &failOnce{end: func() { panic("a bug of the caller") }}
			c := clientOver(t, nil, opt(once.fail)...)

			got := func() (p any) {
				defer func() { p = recover() }()
				_, err := c.PhoneChecks.Get(t.Context(), "a")
				t.Errorf("Get returned %v, want a panic", err)
				return nil
			}()

			if got != "a bug of the caller" {
				t.Errorf("panic = %v, want the caller's", got)
			}
			if _, err := c.PhoneChecks.Get(t.Context(), "a"); err != nil {
				t.Errorf("next call: error = %v, want nil", err)
			}
		})
	}
}

type failingJar struct {
	http.CookieJar
	fail func()
}

func (j failingJar) Cookies(u *url.URL) []*http.Cookie { j.fail(); return j.CookieJar.Cookies(u) }
