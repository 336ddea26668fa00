package otelidverify_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/otelidverify"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// TestClientOption_Cardinality sends distinct paths and receives distinct texts of a service.
func TestClientOption_Cardinality(t *testing.T) {
	t.Parallel()
	for name, stubbed := range map[string][]string{"operation": nil, "token": {"token"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTelemetry()
			n := 0
			client := newStub(t, r, func(*http.Request) (int, string) {
				n++
				return http.StatusBadRequest, fmt.Sprintf(`{"type":"https://docs.example.com/errors#made_up_%d","title":"t%d","detail":"d%d","status":400,"error":"made_up_%d","error_description":"d%d"}`, n, n, n, n, n)
			}, nil, stubbed...)

			for i := range 1000 {
				if _, err := client.PhoneChecks.Get(t.Context(), fmt.Sprintf("check-%d", i)); err == nil {
					t.Fatal("error = nil, want status 400")
				}
			}

			series := r.series(t)
			if n != 1000 || len(series) != 2 {
				t.Errorf("after %d requests, metrics = %q; want 1,000 requests and two time series, of the operation and its token request", n, series)
			}
			if strings.Contains(strings.Join(series, "\n"), "made_up") {
				t.Errorf("metrics = %q, want no text of the service", series)
			}
		})
	}
}

// TestObserveVerifier_Cardinality sends forged messages with distinct paths, products and key IDs.
func TestObserveVerifier_Cardinality(t *testing.T) {
	t.Parallel()
	r := newTelemetry()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	verifier := srv.Verifier([]string{"shop.example.com"}, &signature.VerifierOptions{
		ClockSkew: 24 * time.Hour, // independent of the speed of the machine
		Observe:   otelidverify.ObserveVerifier(r.providers()...),
	})
	date := srv.Now().UTC().Format(http.TimeFormat)

	for i := range 1000 {
		ctx, span := r.caller(t.Context())
		req := httptest.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("https://shop.example.com/callbacks/invented-%d", i), strings.NewReader("{}"))
		req.Header.Set("Date", date)
		req.Header.Set("X-Service-Callback", fmt.Sprintf("invented-product-%d", i))
		req.Header.Set("Digest", "SHA-256=RBNvo1WzZ4oRRq0W9+hknpT7T8If536DEMBg9hyq/4o=")
		req.Header.Set("Authorization", fmt.Sprintf(`Signature keyId="invented-key-%d",algorithm="rsa-sha256",headers="(request-target) host date x-service-callback digest",signature="AAAA"`, i))
		if _, err := verifier.VerifyCallback(req); err == nil {
			t.Fatal("error = nil, want a rejected message")
		}
		span.End()
	}

	series := r.series(t)
	for _, line := range series {
		if !strings.Contains(line, "{error.type=ErrKeySource,idverify.operation=callback}") && !strings.Contains(line, "{error.type=ErrUnknownKey,idverify.operation=callback}") {
			t.Errorf("metric = %q, want only the reasons ErrUnknownKey and ErrKeySource", line)
		}
	}
	if len(series) == 0 || strings.Contains(r.text(t), "invented") {
		t.Errorf("spans or metrics %q contain a text of the sender, or are missing", series)
	}
}

// TestTelemetry_NoPersonalData uses every argument that is personal or secret, with and without
// success, and searches for it in the spans and metrics.
func TestTelemetry_NoPersonalData(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	srv := r.srv
	client := srv.Client(fastRetries(), otelidverify.ClientOption(r.providers()...))
	console := srv.Console(fastRetries(), otelidverify.ClientOption(r.providers()...))
	token := must(client.Token(t.Context(), idverify.ScopePhoneCheck))(t)
	// A service or proxy can echo these in an error. The client redacts them.
	echoed := []string{
		"447700900012", "192.0.2.10", "2001:db8::7", "https://shop.example.com/callbacks",
		token.AccessToken, srv.Credentials().ClientSecret.Reveal(),
	}
	echo := sandboxfake.Fault{Status: http.StatusInternalServerError, Body: strings.Join(echoed, " ")}
	drop := sandboxfake.Fault{Drop: true}
	personal := append(echoed, "order-4711", "shop.example.com", "person@example.com", "Person-4712", srv.ConsoleCredentials().ClientSecret.Reveal(), srv.Credentials().ClientID)

	params := number
	params.ReferenceID, params.CallbackURL = "order-4711", "https://shop.example.com/callbacks"
	for _, fault := range []sandboxfake.Fault{{}, echo, drop} {
		remove := srv.Inject(sandboxfake.Match{Project: srv.Requests()[0].ProjectID, Repeat: true}, fault)
		if check, err := client.PhoneChecks.Create(t.Context(), params); err == nil {
			personal = append(personal, check.CheckID)
			_, _ = client.PhoneChecks.Get(t.Context(), check.CheckID)
			_, _ = srv.Device().Open(t.Context(), check.CheckURL)
		}
		_, _ = client.PhoneChecks.Get(t.Context(), personal[len(personal)-1])
		_, _ = client.PhoneChecks.List(t.Context(), idverify.ListOptions{Search: `reference_id=="order-4711"`})
		_, _ = client.Reachability.Lookup(t.Context(), netip.MustParseAddr("192.0.2.10"))
		_, _ = client.Reachability.Lookup(t.Context(), netip.MustParseAddr("2001:db8::7"))
		_, _ = console.Invitations.Create(t.Context(), idverify.InvitationParams{Name: "Person-4712", Reference: "person@example.com", Role: idverify.RoleViewer})
		remove()
	}
	const code = "code-of-a-redirect-4713"
	srv.Inject(sandboxfake.Match{Operation: "phone_check.complete"}, sandboxfake.Fault{Status: http.StatusForbidden, Body: "unknown code " + code})
	_, _ = client.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}).PhoneChecks.Complete(t.Context(), "a", code)
	personal = append(personal, code)
	noError(t, srv.WaitIdle(t.Context()))

	text := r.text(t)
	for i, s := range personal {
		if strings.Contains(text, s) {
			t.Errorf("spans or metrics contain personal[%d] = %q", i, s)
		}
	}
	for _, want := range []string{"idverify phone_check.create", "idverify phone_check.complete", "idverify reachability.device_ip", "idverify invitations.create", "idverify.key_id"} {
		if !strings.Contains(text, want) {
			t.Errorf("spans do not contain %q: the test does not cover it", want)
		}
	}
}
