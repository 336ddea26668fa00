package idverify_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
)

// The rows contain every fragment of docs/protocol.md, section 8, and statuses without a known
// fragment.
func TestError_IsExactlyOneSentinel(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status   int
		fragment string
		want     error // nil: none
	}{
		{400, "bad_request", idverify.ErrBadRequest},
		{400, "phone_format_invalid", idverify.ErrPhoneFormat},
		{400, "mno_not_supported", idverify.ErrNetworkNotSupported},
		{401, "unauthorized", idverify.ErrUnauthorized},
		{402, "insufficient_balance", idverify.ErrInsufficientBalance},
		{403, "forbidden", idverify.ErrForbidden},
		{404, "not_found", idverify.ErrNotFound},
		{404, "check_not_found", idverify.ErrNotFound},
		{404, "trace_not_found", idverify.ErrNotFound},
		{404, "workspace_not_found", idverify.ErrNotFound},
		{405, "method_not_allowed", idverify.ErrBadRequest},
		{415, "unsupported_media_type", idverify.ErrBadRequest},
		{409, "project_name_taken", idverify.ErrConflict},
		{409, "credentials_limit_reached", idverify.ErrConflict},
		{409, "company_details_required", idverify.ErrConflict},
		{409, "payment_details_required", idverify.ErrConflict},
		{409, "currency_fixed", idverify.ErrConflict},
		{409, "currency_not_supported", idverify.ErrConflict},
		{409, "ip_msisdn_mismatch", idverify.ErrIPMismatch},
		{410, "trace_gone", idverify.ErrNotFound},
		{412, "not_mobile_ip", idverify.ErrNotMobileIP},
		{413, "payload_too_large", idverify.ErrBadRequest},
		{429, "too_many_requests", idverify.ErrRateLimited},
		{501, "mno_redirect_unsupported", idverify.ErrNetworkNotSupported},

		{400, "new_kind_of_error", idverify.ErrBadRequest}, // unknown fragment: the status decides
		{404, "", idverify.ErrNotFound},
		{409, "", idverify.ErrConflict},
		{412, "", idverify.ErrNotMobileIP},
		{418, "teapot", nil},
		{500, "", nil},
		{503, "", nil},
	} {
		t.Run(fmt.Sprint(tt.status, " ", tt.fragment), func(t *testing.T) {
			t.Parallel()
			srv := newService(t, respondWithProblem(tt.status, tt.fragment, "the reason"))

			_, err := srv.client(t, withoutRetries).PhoneChecks.Create(t.Context(), createParams)

			e, ok := errors.AsType[*idverify.Error](err)
			if !ok || e.Status != tt.status || e.Code() != tt.fragment || e.Detail != "the reason" || e.Title != http.StatusText(tt.status) || e.Operation != "phone_check.create" {
				t.Fatalf("error = %#v, want an *Error with status, fragment, detail, title and operation", err)
			}
			for _, sentinel := range otherSentinels {
				if got := errors.Is(err, sentinel); got != (sentinel == tt.want) {
					t.Errorf("errors.Is(err, %q) = %v, want the opposite", sentinel, got)
				}
			}
		})
	}
}

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
	srv := newService(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.WriteHeader(http.StatusPaymentRequired)
		w.Write([]byte(`{"type":"https://docs.sandbox.test/`))
	})

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

func TestError_RateLimit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		reset string
		want  func(now, reset time.Time) bool
	}{
		{"1767323045", func(_, reset time.Time) bool { return reset.Equal(time.Unix(1767323045, 0)) }},
		{"30", func(now, reset time.Time) bool { return reset.Sub(now).Round(10*time.Second) == 30*time.Second }},
		{"", func(_, reset time.Time) bool { return reset.IsZero() }},
		{"-1", func(_, reset time.Time) bool { return reset.IsZero() }},
	} {
		srv := newService(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.Header().Set("X-RateLimit-Limit", "10")
			w.Header().Set("X-RateLimit-Remaining", "0")
			w.Header().Set("X-RateLimit-Reset", tt.reset)
			w.Header().Set("X-Request-Id", "req-7")
			respondWithProblem(429, "too_many_requests", "slow down")(w, r)
		})

		_, err := srv.client(t).PhoneChecks.Create(t.Context(), createParams)

		e, ok := errors.AsType[*idverify.Error](err)
		if !ok || e.RetryAfter != time.Hour || e.RequestID != "req-7" || e.RateLimit == nil || e.RateLimit.Limit != 10 || e.RateLimit.Remaining != 0 {
			t.Fatalf("error = %#v, want an *Error with RetryAfter, RequestID and RateLimit", err)
		}
		if !tt.want(time.Now(), e.RateLimit.Reset) {
			t.Errorf("X-RateLimit-Reset %q: Reset = %v, want another time", tt.reset, e.RateLimit.Reset)
		}
		if want := "idverify: create PhoneCheck: 429 too_many_requests: slow down (retry after 1h0m0s) [request req-7, 1 attempt]"; err.Error() != want {
			t.Errorf("error\n%v\nwant\n%s", err, want)
		}
		if n := len(srv.calls()); n != 1 {
			t.Errorf("%d attempts, want 1: an hour is longer than MaxWait", n)
		}
	}
}

func TestError_InvalidLocation(t *testing.T) {
	t.Parallel()
	srv := newService(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/%zz?access_token=token-1&secret=s3cret-of-client-1")
		w.WriteHeader(http.StatusFound)
	})

	_, err := srv.client(t).PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: testNumber})

	if e, ok := errors.AsType[*idverify.Error](err); !ok || e.Status != http.StatusFound || strings.Contains(err.Error(), "token-1") {
		t.Errorf("error = %v, want status 302 without the Location", err)
	}
}

func TestPhoneCheckService_WaitNotFoundWithoutProblem(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondWith(404, "<html>no such page"))

	_, err := srv.client(t).PhoneChecks.Wait(t.Context(), "a")

	if _, ended := errors.AsType[*idverify.CheckEndedError](err); ended || !errors.Is(err, idverify.ErrNotFound) {
		t.Errorf("error = %v, want ErrNotFound and no *CheckEndedError", err)
	}
}

func TestClient_LogsNothingByDefault(t *testing.T) {
	// This test is not parallel: it changes the default logger of the process.
	logs := new(syncBuffer)
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug})))
	t.Cleanup(func() { slog.SetDefault(before) })
	srv := newService(t, respondWith(500, ""))

	_, _ = srv.client(t).PhoneChecks.Get(t.Context(), "a")

	if logs.String() != "" {
		t.Errorf("log = %s, want nothing", logs)
	}
}

// withoutRetries permits one attempt.
var withoutRetries = idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1})

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
		c := newTransportClient(t, func(*http.Request) (*http.Response, error) { return response(status, body), nil }, withoutRetries)
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
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("error\n%s\nwant\n%s", got, tt.want)
		}
	}
}
