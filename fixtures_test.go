package idverify_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	idverify "github.com/idverify/idverify-go"
)

// TestClient_DecodesFixtures decodes each fixture. Tests of the fake compare its responses with the
// same files.
func TestClient_DecodesFixtures(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	after := func(d time.Duration) time.Time { return created.Add(d) }
	const base, callbackURL = "https://idverify.sandbox.test", "https://shop.sandbox.test/callbacks?source=idverify"

	for _, tt := range []struct {
		fixture string
		get     func(context.Context, *idverify.Client) (any, error)
		want    any
	}{
		{"phone_check_created.json", getPhoneCheck, &idverify.PhoneCheck{
			CheckID: phoneCheckID, Status: idverify.StatusAccepted, PhoneNumber: testNumber, CheckURL: base + "/phone_check/v0.1/checks/" + phoneCheckID + "/redirect",
			ChargeAmount: "1", ChargeCurrency: "API", SnapshotBalance: "99", CreatedAt: created, UpdatedAt: created, TTL: 2 * time.Minute, ReferenceID: "sign-up 42", CallbackURL: callbackURL}},
		{"phone_check.json", getPhoneCheck, &idverify.PhoneCheck{
			CheckID: phoneCheckID, Status: idverify.StatusCompleted, PhoneNumber: testNumber, Match: idverify.VerdictYes,
			ChargeAmount: "1", ChargeCurrency: "API", CreatedAt: created, UpdatedAt: after(6 * time.Second), TTL: 2 * time.Minute, NetworkID: "00101", ReferenceID: "sign-up 42", CallbackURL: callbackURL}},
		{"phone_check_error.json", getPhoneCheck, &idverify.PhoneCheck{
			CheckID: phoneCheckID, Status: idverify.StatusError, PhoneNumber: "447700900055",
			ChargeAmount: "1", ChargeCurrency: "API", CreatedAt: created, UpdatedAt: after(6 * time.Second), TTL: 2 * time.Minute, ErrorCode: "mno_server_error"}},
		{"phone_checks.json", func(ctx context.Context, c *idverify.Client) (any, error) {
			return c.PhoneChecks.List(ctx, idverify.ListOptions{})
		}, &idverify.Page[idverify.PhoneCheck]{
			Number: 2, Size: 2, TotalPages: 3, TotalElements: 5, Items: []*idverify.PhoneCheck{
				{CheckID: "6f0e2d4c-8b1a-4c3d-9e5f-1a2b3c4d5e6f", Status: idverify.StatusCompleted, PhoneNumber: "447700900001", Match: idverify.VerdictNo,
					ChargeAmount: "1", ChargeCurrency: "API", CreatedAt: after(55 * time.Second), UpdatedAt: after(63 * time.Second), TTL: 2 * time.Minute, NetworkID: "00101"},
				{CheckID: phoneCheckID, Status: idverify.StatusPending, PhoneNumber: testNumber,
					ChargeAmount: "1", ChargeCurrency: "API", CreatedAt: created, UpdatedAt: after(2 * time.Second), TTL: 2 * time.Minute},
			}}},
		{"sim_check.json", getSIMCheck, &idverify.SIMCheck{
			CheckID: simCheckID, Status: idverify.StatusCompleted, PhoneNumber: testNumber, NoSIMChange: idverify.VerdictYes, NoSIMChangePeriod: 7 * 24 * time.Hour, SIMChangeWithin: 525601 * time.Minute,
			ChargeAmount: "1", ChargeCurrency: "API", SnapshotBalance: "98", CreatedAt: created, UpdatedAt: created, NetworkID: "00101", ReferenceID: "payment 7"}},
		{"sim_check_error.json", getSIMCheck, &idverify.SIMCheck{
			CheckID: simCheckID, Status: idverify.StatusError, PhoneNumber: "447700900099", NoSIMChangePeriod: 7 * 24 * time.Hour,
			ChargeAmount: "1", ChargeCurrency: "API", SnapshotBalance: "97", CreatedAt: created, UpdatedAt: created, ErrorCode: "mno_server_error"}},
		{"subscriber_check_created.json", getSubscriberCheck, &idverify.SubscriberCheck{
			CheckID: subscriberCheckID, Status: idverify.StatusAccepted, PhoneNumber: "447700900006", CheckURL: base + "/subscriber_check/v0.1/checks/" + subscriberCheckID + "/redirect", NoSIMChangePeriod: 24 * time.Hour,
			ChargeAmount: "2", ChargeCurrency: "EUR", SnapshotBalance: "97.5", CreatedAt: created, UpdatedAt: created, TTL: 2 * time.Minute}},
		{"subscriber_check.json", getSubscriberCheck, &idverify.SubscriberCheck{
			CheckID: subscriberCheckID, Status: idverify.StatusCompleted, PhoneNumber: "447700900006", Match: idverify.VerdictYes, NoSIMChange: idverify.VerdictNo, NoSIMChangePeriod: 24 * time.Hour, SIMChangeWithin: 12 * time.Hour,
			ChargeAmount: "2", ChargeCurrency: "EUR", CreatedAt: created, UpdatedAt: after(8 * time.Second), TTL: 2 * time.Minute, NetworkID: "00101", ReferenceID: "log-in 9", CallbackURL: callbackURL}},
		{"device_reachability.json", func(ctx context.Context, c *idverify.Client) (any, error) {
			return c.Reachability.Lookup(ctx, netip.MustParseAddr("192.0.2.2"))
		}, &idverify.DeviceReachability{
			NetworkID: "00101", NetworkName: "Sandbox Mobile", CountryCode: "GB",
			SupportedProducts: []idverify.Product{idverify.ProductPhoneCheck, idverify.ProductSIMCheck, idverify.ProductSubscriberCheck}}},
		{"country.json", func(ctx context.Context, c *idverify.Client) (any, error) { return c.Reachability.Country(ctx, "GB") }, &idverify.CountryReachability{
			CountryCode: "GB", DialingCode: 44, Products: []idverify.ProductReachability{
				{Product: idverify.ProductPhoneCheck, Name: "PhoneCheck", Coverage: "FULL", Networks: []idverify.NetworkReachability{
					{NetworkID: "00101", NetworkName: "Sandbox Mobile", Prices: []idverify.Price{{Currency: "API", Amount: "1"}, {Currency: "EUR", Amount: "0.025"}}},
				}},
				{Product: idverify.ProductSubscriberCheck, Name: "SubscriberCheck", Coverage: "COMING_SOON"},
			}}},
		{"traces.json", func(ctx context.Context, c *idverify.Client) (any, error) { return c.SIMChecks.Traces(ctx, "a") }, []idverify.Trace{
			{TraceID: "b4c6d8e0-5f7a-4b9c-8d1e-6f8a0b2c4d5e", Logs: []idverify.TraceLog{{Timestamp: created, Message: "check accepted"}}},
			{TraceID: "c5d7e9f1-6a8b-4c0d-9e2f-7a9b1c3d5e6f", Logs: []idverify.TraceLog{}},
		}},
	} {
		t.Run(tt.fixture, func(t *testing.T) {
			t.Parallel()
			srv := newService(t, respondWith(200, string(fixture(t, tt.fixture))))

			got, err := tt.get(t.Context(), srv.client(t))

			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func getPhoneCheck(ctx context.Context, c *idverify.Client) (any, error) {
	return c.PhoneChecks.Get(ctx, phoneCheckID)
}
func getSIMCheck(ctx context.Context, c *idverify.Client) (any, error) {
	return c.SIMChecks.Get(ctx, simCheckID)
}
func getSubscriberCheck(ctx context.Context, c *idverify.Client) (any, error) {
	return c.SubscriberChecks.Get(ctx, subscriberCheckID)
}

func TestClient_DecodesToken(t *testing.T) {
	t.Parallel()
	srv := newService(t, nil)
	srv.token = respondWith(200, string(fixture(t, "token.json")))
	clock := newClock()

	token, err := srv.client(t, idverify.WithClock(clock.now)).Token(t.Context(), idverify.ScopePhoneCheck)

	if err != nil {
		t.Fatal(err)
	}
	if token.AccessToken != "eyJvcGFxdWUiOnRydWV9.sandbox-access-token" || token.Type() != "Bearer" || !token.Expiry.Equal(clock.now().Add(time.Hour)) || token.ExpiresIn != 3600 {
		t.Errorf("token type = %s, expiry = %v, want the Bearer token of the fixture, valid for an hour", token.Type(), token.Expiry)
	}
}

// TestClient_SendsParameters sends each parameter of the create operations.
func TestClient_SendsParameters(t *testing.T) {
	t.Parallel()
	ip := netip.MustParseAddr("::ffff:192.0.2.7")
	v02 := idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2", SubscriberCheck: "v0.2"})
	for _, tt := range []struct {
		name string
		do   func(*idverify.Client) error
		want string
	}{
		{"PhoneCheck", func(c *idverify.Client) error {
			return errorOf(c.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: testNumber, CallbackURL: "https://a/?b=c&d", RedirectURL: "https://e/", ReferenceID: "f", PhoneIP: ip}))
		}, `{"phone_number":"447700900000","callback_url":"https://a/?b=c&d","redirect_url":"https://e/","reference_id":"f","phone_ip":"192.0.2.7"}`},
		{"SIMCheck", func(c *idverify.Client) error {
			return errorOf(c.SIMChecks.Create(t.Context(), idverify.SIMCheckParams{PhoneNumber: testNumber, ReferenceID: "f", PhoneIP: netip.MustParseAddr("2001:db8::7"), Period: 90 * time.Minute}))
		}, `{"phone_number":"447700900000","reference_id":"f","phone_ip":"2001:db8::7","period":90}`},
		{"SubscriberCheck", func(c *idverify.Client) error {
			return errorOf(c.SubscriberChecks.Create(t.Context(), idverify.SubscriberCheckParams{PhoneNumber: testNumber, CallbackURL: "https://a/", RedirectURL: "https://e/", ReferenceID: "f", PhoneIP: ip, Period: 540000 * time.Minute}))
		}, `{"phone_number":"447700900000","callback_url":"https://a/","redirect_url":"https://e/","reference_id":"f","phone_ip":"192.0.2.7","period":540000}`},
		{"code exchange", func(c *idverify.Client) error { return errorOf(c.PhoneChecks.Complete(t.Context(), "a", "b<c")) }, `[{"op":"add","path":"/code","value":"b<c"}]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := newService(t, respondWithProblem(404, "check_not_found", ""))

			_ = tt.do(srv.client(t, v02))

			var got, want any
			if err := json.Unmarshal(srv.calls()[0].body, &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("body = %s, want %s", srv.calls()[0].body, tt.want)
			}
			wantType := "application/json"
			if srv.calls()[0].method == http.MethodPatch {
				wantType = "application/json-patch+json"
			}
			if got := srv.calls()[0].header.Get("Content-Type"); got != wantType {
				t.Errorf("Content-Type = %q, want %q", got, wantType)
			}
		})
	}
}

// operation is a row of operations.json.
type operation struct {
	Operation, Method, Path, Scope string
	Success                        int
}

// TestClient_SendsOperations sends each product operation of operations.json.
func TestClient_SendsOperations(t *testing.T) {
	t.Parallel()
	v02 := idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2", SubscriberCheck: "v0.2"})
	do := map[string]func(context.Context, *idverify.Client){
		"phone_check.create":   func(ctx context.Context, c *idverify.Client) { _, _ = c.PhoneChecks.Create(ctx, createParams) },
		"phone_check.get":      func(ctx context.Context, c *idverify.Client) { _, _ = c.PhoneChecks.Get(ctx, "CHECK") },
		"phone_check.list":     func(ctx context.Context, c *idverify.Client) { _, _ = c.PhoneChecks.List(ctx, idverify.ListOptions{}) },
		"phone_check.complete": func(ctx context.Context, c *idverify.Client) { _, _ = c.PhoneChecks.Complete(ctx, "CHECK", "code") },
		"phone_check.traces":   func(ctx context.Context, c *idverify.Client) { _, _ = c.PhoneChecks.Traces(ctx, "CHECK") },
		"subscriber_check.create": func(ctx context.Context, c *idverify.Client) {
			_, _ = c.SubscriberChecks.Create(ctx, idverify.SubscriberCheckParams{PhoneNumber: testNumber})
		},
		"subscriber_check.get": func(ctx context.Context, c *idverify.Client) { _, _ = c.SubscriberChecks.Get(ctx, "CHECK") },
		"subscriber_check.list": func(ctx context.Context, c *idverify.Client) {
			_, _ = c.SubscriberChecks.List(ctx, idverify.ListOptions{})
		},
		"subscriber_check.complete": func(ctx context.Context, c *idverify.Client) {
			_, _ = c.SubscriberChecks.Complete(ctx, "CHECK", "code")
		},
		"subscriber_check.traces": func(ctx context.Context, c *idverify.Client) { _, _ = c.SubscriberChecks.Traces(ctx, "CHECK") },
		"sim_check.create": func(ctx context.Context, c *idverify.Client) {
			_, _ = c.SIMChecks.Create(ctx, idverify.SIMCheckParams{PhoneNumber: testNumber})
		},
		"sim_check.get":    func(ctx context.Context, c *idverify.Client) { _, _ = c.SIMChecks.Get(ctx, "CHECK") },
		"sim_check.list":   func(ctx context.Context, c *idverify.Client) { _, _ = c.SIMChecks.List(ctx, idverify.ListOptions{}) },
		"sim_check.traces": func(ctx context.Context, c *idverify.Client) { _, _ = c.SIMChecks.Traces(ctx, "CHECK") },
		"reachability.device_ip": func(ctx context.Context, c *idverify.Client) {
			_, _ = c.Reachability.Lookup(ctx, netip.MustParseAddr("192.0.2.7"))
		},
		"reachability.country": func(ctx context.Context, c *idverify.Client) { _, _ = c.Reachability.Country(ctx, "GB") },
	}
	ids := strings.NewReplacer("{check_id}", "CHECK", "{ip}", "192.0.2.7", "{code}", "GB")
	for _, op := range operations(t) {
		call, ok := do[op.Operation]
		if !ok || strings.HasSuffix(op.Path, "/device_ip") { // another form of the same operation
			if op.Scope != "" && !strings.HasPrefix(op.Path, "/console/") && !strings.HasSuffix(op.Operation, ".trace") && ok != strings.HasSuffix(op.Path, "/device_ip") {
				t.Errorf("no method calls %s", op.Operation)
			}
			continue
		}
		t.Run(op.Operation, func(t *testing.T) {
			t.Parallel()
			srv := newService(t, respondWithProblem(404, "not_found", ""))

			call(t.Context(), srv.client(t, v02))

			version := "v0.1"
			if strings.HasPrefix(op.Path, "/phone_check/") || strings.HasPrefix(op.Path, "/subscriber_check/") {
				version = "v0.2"
			}
			sent := srv.calls()[0]
			path, _, _ := strings.Cut(sent.uri, "?")
			if want := strings.Replace(ids.Replace(op.Path), "{v}", version, 1); sent.method != op.Method || path != want {
				t.Errorf("request = %s %s, want %s %s", sent.method, path, op.Method, want)
			}
			if got := scopeOf(t, srv.tokens()[0]); got != op.Scope {
				t.Errorf("scope = %q, want %q", got, op.Scope)
			}
		})
	}
}

func operations(t testing.TB) []operation {
	t.Helper()
	var ops []operation
	if err := json.Unmarshal(fixture(t, "operations.json"), &ops); err != nil {
		t.Fatal(err)
	}
	return ops
}

// scopeOf returns the scope of a token request.
func scopeOf(t testing.TB, r recordedRequest) string {
	t.Helper()
	_, rest, ok := strings.Cut(string(r.body), "name=\"scope\"\r\n\r\n")
	if !ok {
		t.Fatalf("form has no scope: %q", r.body)
	}
	scope, _, _ := strings.Cut(rest, "\r\n")
	return scope
}
