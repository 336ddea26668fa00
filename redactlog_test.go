package idverify_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	idverify "github.com/idverify/idverify-go"
)

func TestClient_RedactsErrorsAndLogs(t *testing.T) {
	t.Parallel()
	logs := new(syncBuffer)
	var printed strings.Builder
	const ip = "192.0.2.77"
	everything := "number " + testNumber + " or +44 7700 900-000 at " + ip + " and [2001:db8::77]:443, Bearer token-1, Basic Y2xpZW50, token-1, s3cret-of-client-1, https://user.example/?a=" + testNumber
	srv := newService(t, nil)
	hide := []string{testNumber, "7700 900", ip, "2001:db8::77", "token-1", "Y2xpZW50", "s3cret", "user.example", srv.URL}
	logger := slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c := srv.client(t, idverify.WithLogger(logger))
	console, err := idverify.NewConsole(srv.URL, credentials, idverify.WithHTTPClient(srv.Client()))
	if err != nil {
		t.Fatal(err)
	}

	for _, respond := range []http.HandlerFunc{
		respondWithProblem(400, "bad_request", everything),
		respondWithProblem(429, "too_many_requests", everything),
		respondWithProblem(400, testNumber, "the fragment itself"),
		respondWith(502, everything),
		respondWith(200, everything),
		respondWith(200, `{"check_id":`+testNumber+`}`),
		withRequestID(everything, respondWith(500, "")),
		withRequestID("s3cret-of-client-1", respondWith(500, "")),
		withRequestID("id-of-token-1", respondWith(403, "")),
		withRequestID("id-of-token-1", respondWith(200, "{}")),
		drop,
	} {
		srv.respond = respond
		_, err := c.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: testNumber, PhoneIP: netip.MustParseAddr(ip)})
		formatAll(&printed, err)
		_, err = c.Reachability.Lookup(t.Context(), netip.MustParseAddr(ip))
		formatAll(&printed, err)
	}
	_, err = c.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: testNumber + "000000"})
	formatAll(&printed, err)
	srv.Close()
	_, err = c.Reachability.Lookup(t.Context(), netip.MustParseAddr(ip))
	formatAll(&printed, err)
	fmt.Fprintf(&printed, "%+v %#v %+v %#v %v %s %q %x\n", *c, *c, *console, *console, credentials, credentials, credentials, credentials)

	for _, secret := range hide {
		if strings.Contains(printed.String(), secret) {
			t.Errorf("an error or %%+v of the client contains %q:\n%s", secret, lineContaining(printed.String(), secret))
		}
		if strings.Contains(logs.String(), secret) {
			t.Errorf("the log contains %q:\n%s", secret, lineContaining(logs.String(), secret))
		}
	}
	for _, want := range []string{"level=DEBUG", "level=WARN", "operation=token.create", "scope=phone_check"} {
		if !strings.Contains(logs.String(), want) {
			t.Errorf("the log does not contain %s:\n%s", want, logs)
		}
	}
}

func TestError_RedactsDetail(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ detail, want string }{
		{"ip:10.1.2.3", "ip:[REDACTED]"},
		{"client IP:203.0.113.9", "client IP:[REDACTED]"},
		{"addr 203.0.113.9:denied", "addr [REDACTED]:denied"},
		{"IP 203.0.113.9.Bad", "IP [REDACTED].Bad"},
		{"203.0.113.9:99999", "[REDACTED]"},
		{"ip:2001:db8::7", "ip[REDACTED]"},
		{"at [2001:db8::7]:443", "at [[REDACTED]]:443"},
		{"44 7700 900 012", "[REDACTED]"},
		{"07700-900-012", "[REDACTED]"},
		{"(07700) 900012 is taken", "[REDACTED] is taken"},
		{"basic:abcdef==", "[REDACTED]"},
		{"Bearer aaaaaaaaaaaaaaaaaaaaaaaaaaaa", "[REDACTED]"},
		// These texts remain unchanged.
		{"Bearer token expired", "Bearer token expired"},
		{"the Basic header is missing", "the Basic header is missing"},
		{"since 03:04:05", "since 03:04:05"},
		{"valid until 2026-11-21T03:04:05Z", "valid until 2026-11-21T03:04:05Z"},
		{"between 60 and 540000 minutes", "between 60 and 540000 minutes"},
		{"use v0.2", "use v0.2"},
	} {
		t.Run(tt.detail, func(t *testing.T) {
			t.Parallel()
			srv := newService(t, respondWith(400, fmt.Sprintf(`{"type":"https://docs.example/#bad_request","detail":%q}`, tt.detail)))

			_, err := srv.client(t).PhoneChecks.Get(t.Context(), "a")

			if e, ok := errors.AsType[*idverify.Error](err); !ok || e.Detail != tt.want {
				t.Errorf("error = %v, want the detail %q", err, tt.want)
			}
		})
	}
}

func TestError_KeepsRequestID(t *testing.T) {
	t.Parallel()
	const id = "1d79ee4c-2021-4123-9456-426614174000"
	srv := newService(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", id)
		w.WriteHeader(http.StatusForbidden)
	})

	_, err := srv.client(t).PhoneChecks.Get(t.Context(), "a")

	if e, ok := errors.AsType[*idverify.Error](err); !ok || e.RequestID != id {
		t.Errorf("error = %+v, want request ID %s", err, id)
	}
}

// formatAll prints err and all errors that it wraps, as tools do that log the chain of an error.
func formatAll(b *strings.Builder, err error) {
	if err == nil {
		return
	}
	fmt.Fprintf(b, "%v\n%+v\n%#v\n%q\n", err, err, err, err)
	switch e := err.(type) {
	case *idverify.Error:
		fmt.Fprintf(b, "%+v\n", *e)
	case interface{ Unwrap() error }:
		formatAll(b, e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, wrapped := range e.Unwrap() {
			formatAll(b, wrapped)
		}
	}
}

func lineContaining(text, s string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, s) {
			return line
		}
	}
	return ""
}
