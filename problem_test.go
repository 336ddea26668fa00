package idverify_test

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
)

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
		want     error // nil: none
		hint     string
	}{
		{400, "bad_request", idverify.ErrBadRequest, ""},
		{400, "phone_format_invalid", idverify.ErrPhoneFormat, "7 to 15 digits"},
		{400, "mno_not_supported", idverify.ErrNetworkNotSupported, "use another verification method"},
		{401, "unauthorized", idverify.ErrUnauthorized, "belong to this service"},
		{402, "insufficient_balance", idverify.ErrInsufficientBalance, "top up the workspace; use another"},
		{403, "forbidden", idverify.ErrForbidden, "scope"},
		{404, "not_found", idverify.ErrNotFound, "check the ID"},
		{404, "check_not_found", idverify.ErrNotFound, "callback"},
		{404, "trace_not_found", idverify.ErrNotFound, ""},
		{404, "workspace_not_found", idverify.ErrNotFound, ""},
		{405, "method_not_allowed", idverify.ErrBadRequest, "check the version"},
		{409, "project_name_taken", idverify.ErrConflict, ""},
		{409, "credentials_limit_reached", idverify.ErrConflict, "two pairs"},
		{409, "company_details_required", idverify.ErrConflict, "Billing.Update"},
		{409, "payment_details_required", idverify.ErrConflict, "PaymentMethods.Create"},
		{409, "currency_fixed", idverify.ErrConflict, "first top-up"},
		{409, "currency_not_supported", idverify.ErrConflict, ""},
		{409, "ip_msisdn_mismatch", idverify.ErrIPMismatch, "another verification method"},
		{410, "trace_gone", idverify.ErrNotFound, "seven days"},
		{412, "not_mobile_ip", idverify.ErrNotMobileIP, "mobile data"},
		{413, "payload_too_large", idverify.ErrBadRequest, "shorten the arguments"},
		{415, "unsupported_media_type", idverify.ErrBadRequest, "proxy that changes requests"},
		{429, "too_many_requests", idverify.ErrRateLimited, ""},
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
		{429, "future_problem", idverify.ErrRateLimited, ""},
		{430, "future_problem", nil, ""},
		{500, "future_problem", nil, ""},
		{501, "future_problem", idverify.ErrNetworkNotSupported, ""},
		{502, "future_problem", nil, ""},
		{503, "future_problem", nil, ""},
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
			if e, ok := errors.AsType[*idverify.Error](err); !ok || e.Code() != tt.fragment || e.Status != tt.status || e.Detail != "because" || e.Title != http.StatusText(tt.status) {
				t.Errorf("error = %#v, want an *Error with fragment, status, detail and title", err)
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
			title := tt.title
			if title == "" {
				title = http.StatusText(tt.status)
			}
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
	if _, err := srv.client(t).PhoneChecks.Get(t.Context(), "a"); err == nil || err.Error() != prefix+"longer than 10 MiB [request req-7, 1 attempt]" {
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
		c := newTransportClient(t, func(*http.Request) (*http.Response, error) {
			resp := response(403, nil)
			resp.Header.Set("X-Request-Id", id)
			return resp, nil
		})

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
		c := newTransportClient(t, func(*http.Request) (*http.Response, error) {
			resp := response(403, nil)
			resp.Header.Set("Retry-After", value)
			return resp, nil
		})

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
				c, err := idverify.NewClient("https://idverify.sandbox.test", credentials, withoutRetries, idverify.WithHTTPClient(&http.Client{
					Transport: roundTripperFunc(func(r *http.Request) (*http.Response, error) {
						if r.URL.Path == tokenPath && at == "operation" {
							return response(200, []byte(`{"access_token":"token-1"}`)), nil
						}
						return nil, tt.err
					}),
				}))
				if err != nil {
					t.Fatal(err)
				}

				_, err = c.PhoneChecks.Get(t.Context(), "a")

				want := map[string]string{"operation": "idverify: get PhoneCheck: ", "token": `idverify: get token for scope "phone_check": `}[at] + tt.want
				if err == nil || err.Error() != want || !errors.Is(err, tt.err) {
					t.Errorf("error =\n%v\nwant\n%s", err, want)
				}
			})
		}
	}
}
