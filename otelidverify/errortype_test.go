package otelidverify_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/otelidverify"
	"github.com/idverify/idverify-go/sandboxfake"
)

// wantErrorType checks that operation had one error.type in the metric of attempts, for the given
// error.
func (r *telemetry) wantErrorType(t *testing.T, operation, want string, err error) {
	t.Helper()
	var got []string
	for _, line := range r.series(t) {
		_, after, found := strings.Cut(line, "idverify.client.attempt.duration{error.type=")
		if found && strings.Contains(line, "idverify.operation="+operation+",") {
			value, _, _ := strings.Cut(after, ",")
			got = append(got, value)
		}
	}
	if len(got) != 1 || got[0] != want {
		t.Errorf("error.type of %s = %q, want %q for %v", operation, got, want, err)
	}
	if err == nil {
		t.Error("error = nil, want one")
	}
}

func TestClientOption_ErrorType(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault sandboxfake.Fault
		want  string
	}{
		"known fragment":      {sandboxfake.Fault{Status: http.StatusPaymentRequired}, "insufficient_balance"},
		"unknown fragment":    {sandboxfake.Fault{Status: http.StatusBadRequest, Code: "made_up"}, "400"},
		"server error":        {sandboxfake.Fault{Status: http.StatusGatewayTimeout}, "504"},
		"redirect":            {sandboxfake.Fault{Status: http.StatusFound}, "302"},
		"no problem document": {sandboxfake.Fault{Status: http.StatusForbidden, Body: "<html>"}, "403"},
		"unusable response":   {sandboxfake.Fault{Body: "{}"}, "unusable_response"},
		"lost connection":     {sandboxfake.Fault{Drop: true}, "no_response"},
		"truncated response":  {sandboxfake.Fault{Truncate: true}, "no_response"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTelemetry()
			srv, client := observed(t, r, idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1}))
			srv.Inject(sandboxfake.Match{Operation: "phone_check.list", Repeat: true}, c.fault) // net/http retries a lost connection itself

			_, err := client.PhoneChecks.List(t.Context(), idverify.ListOptions{})

			r.wantErrorType(t, "phone_check.list", c.want, err)
		})
	}
}

func TestClientOption_ErrorTypeOfTransport(t *testing.T) {
	t.Parallel()
	for want, transportErr := range map[string]error{
		"timeout":     context.DeadlineExceeded,
		"canceled":    context.Canceled,
		"no_response": io.ErrClosedPipe,
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			r := newTelemetry()
			client := newStub(t, r, func(req *http.Request) (int, string) { return 0, "" }, transportErr)

			_, err := client.PhoneChecks.List(t.Context(), idverify.ListOptions{})

			r.wantErrorType(t, "phone_check.list", want, err)
		})
	}
}

func TestClientOption_ErrorTypeOfCertificate(t *testing.T) {
	t.Parallel()
	dialer := func(err error) func(*http.Transport) {
		return func(t *http.Transport) {
			t.DialTLSContext = func(context.Context, string, string) (net.Conn, error) { return nil, err }
		}
	}
	for name, change := range map[string]func(*http.Transport){
		"unknown authority": func(t *http.Transport) { t.TLSClientConfig.RootCAs = x509.NewCertPool() },
		"other host":        func(t *http.Transport) { t.TLSClientConfig.ServerName = "other.example.com" },
		"expired": func(t *http.Transport) {
			t.TLSClientConfig.Time = func() time.Time { return time.Now().AddDate(100, 0, 0) }
		},
		"unknown authority, unwrapped": dialer(x509.UnknownAuthorityError{}),
		"other host, unwrapped":        dialer(x509.HostnameError{Certificate: new(x509.Certificate), Host: "other.example.com"}),
		"expired, unwrapped":           dialer(x509.CertificateInvalidError{Reason: x509.Expired}),
		"other reason":                 dialer(&tls.CertificateVerificationError{Err: errors.New("other")}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTelemetry()
			srv := sandboxfake.New(t, sandboxfake.WithInMemory())
			httpClient := srv.HTTPClient()
			transport := httpClient.Transport.(*http.Transport).Clone()
			change(transport)
			httpClient.Transport = transport
			client := srv.Client(idverify.WithHTTPClient(httpClient), otelidverify.ClientOption(r.providers()...))

			_, err := client.PhoneChecks.List(t.Context(), idverify.ListOptions{})

			r.wantErrorType(t, "token.create", "certificate", err)
			r.wantErrorType(t, "phone_check.list", "certificate", err)
		})
	}
}

// TestClientOption_DocumentedErrorTypes compares the table of docs/errors.md with values that the
// tests above receive.
func TestClientOption_DocumentedErrorTypes(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(readDocument(t, "errors.md"), "\n## Error types in metrics\n")

	var got []string
	for _, m := range codeRow.FindAllStringSubmatch(section, -1) {
		got = append(got, m[1])
	}
	want := []string{"unusable_response", "certificate", "timeout", "canceled", "no_response"}
	wantEqual(t, want, got, "error types in docs/errors.md")
}

// TestClientOption_DocumentedErrors receives every fragment and token error code of docs/errors.md.
func TestClientOption_DocumentedErrors(t *testing.T) {
	t.Parallel()
	fragments, codes := documentedErrors(t)
	if len(fragments) < 20 || len(codes) < 4 {
		t.Fatalf("docs/errors.md has %d fragments and %d codes, want at least 20 and 4", len(fragments), len(codes))
	}
	for fragment, status := range fragments {
		r := newTelemetry()
		client := newStub(t, r, func(*http.Request) (int, string) {
			return status, fmt.Sprintf(`{"type":"https://docs.example.com/errors#%s","status":%d}`, fragment, status)
		}, nil)

		_, err := client.PhoneChecks.List(t.Context(), idverify.ListOptions{})

		r.wantErrorType(t, "phone_check.list", fragment, err)
	}
	for _, code := range codes {
		r := newTelemetry()
		client := newStub(t, r, func(req *http.Request) (int, string) {
			return http.StatusBadRequest, fmt.Sprintf(`{"error":%q}`, code)
		}, nil, "token")

		_, err := client.PhoneChecks.List(t.Context(), idverify.ListOptions{})

		r.wantErrorType(t, "token.create", code, err)
	}
}

var (
	fragmentRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([0-9]{3}) \\| ")
	codeRow     = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ")
)

// documentedErrors returns the rows of the tables of fragments, with their statuses, and of token
// error codes in docs/errors.md.
func documentedErrors(t *testing.T) (fragments map[string]int, codes []string) {
	t.Helper()
	page := readDocument(t, "errors.md")
	fragments = make(map[string]int)
	for _, m := range fragmentRow.FindAllStringSubmatch(page, -1) {
		fragments[m[1]] = must(strconv.Atoi(m[2]))(t)
	}
	_, section, _ := strings.Cut(page, "\n## Token errors\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, m := range codeRow.FindAllStringSubmatch(section, -1) {
		codes = append(codes, m[1])
	}
	return fragments, codes
}

// newStub returns an observed client, without retries, of a service that responds to operations as
// given, and issues a token first. With "token" in stubbed, it responds to token requests as given.
// If err is not nil, the transport returns it for operations.
func newStub(t *testing.T, r *telemetry, respond func(*http.Request) (status int, body string), err error, stubbed ...string) *idverify.Client {
	t.Helper()
	transport := roundTripper(func(req *http.Request) (*http.Response, error) {
		status, body := http.StatusOK, `{"access_token":"stub-token-7Qx","token_type":"bearer","expires_in":3600}`
		if req.URL.Path != "/oauth2/v1/token" || len(stubbed) > 0 {
			if err != nil {
				return nil, err
			}
			status, body = respond(req)
		}
		if req.Body != nil {
			_, _ = io.Copy(io.Discard, req.Body)
			req.Body.Close()
		}
		return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}, Request: req}, nil
	})
	return must(idverify.NewClient("https://service.example.com", idverify.Credentials{ClientID: "id", ClientSecret: idverify.NewSecret("stub-secret-9Zw")},
		idverify.WithHTTPClient(&http.Client{Transport: transport}), idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1}), otelidverify.ClientOption(r.providers()...)))(t)
}
