package idverify_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	idverify "github.com/idverify/idverify-go"
)

func TestTokenError_Is(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status int
		code   string
		want   error // nil: none
		hint   string
	}{
		{401, "invalid_client", idverify.ErrUnauthorized, "client ID and secret"},
		{400, "invalid_client", idverify.ErrUnauthorized, "client ID and secret"},
		{401, "", idverify.ErrUnauthorized, "(not a response of the token endpoint: check the base URL and any proxy)"},
		{401, "another_code", idverify.ErrUnauthorized, ""},
		{400, "invalid_scope", nil, "NewConsole"},
		{400, "invalid_request", nil, "(check for a proxy that changes requests)"},
		{400, "unsupported_grant_type", nil, "(check the base URL)"},
		{400, "", nil, ""},
		{402, "", nil, ""},
		{403, "", nil, ""},
		{404, "", nil, "(check the base URL)"},
		{405, "", nil, "(check the base URL)"},
		{428, "", nil, ""},
		{429, "", idverify.ErrRateLimited, ""},
		{430, "", nil, ""},
		{500, "", nil, ""},
		{503, "server_error", nil, ""},
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
		srv.token = func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", seconds)
			w.WriteHeader(429)
		}

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

		if _, ok := errors.AsType[*idverify.DecodeError](err); !ok || err.Error() != prefix+want {
			t.Errorf("body %q: error = %v, want %s", body, err, prefix+want)
		}
	}
}
