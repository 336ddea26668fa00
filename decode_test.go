package idverify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/wire"
)

func TestPhoneCheckService_DecodesTimes(t *testing.T) {
	t.Parallel()
	want := time.Date(2020, 6, 1, 16, 43, 30, 0, time.UTC)
	for text, want := range map[string]time.Time{
		`"2020-06-01T16:43:30+0000"`:       want,
		`"2020-06-01T16:43:30+00:00"`:      want,
		`"2020-06-01T16:43:30Z"`:           want,
		`"2020-06-01T16:43:30z"`:           want,
		`"2020-06-01T16:43:30\u002b0000"`:  want, // with an escaped plus sign
		`"2020-06-01T18:43:30+0200"`:       want,
		`"2020-06-01T11:13:30-05:30"`:      want,
		`"2020-06-01T16:43:30.250+0000"`:   want.Add(250 * time.Millisecond),
		`"2020-06-01T16:43:30.000000001Z"`: want.Add(1),
		`""`:                               {},
		`null`:                             {},
	} {
		check, err := decodeCheck(t, `{"check_id":"a","status":"COMPLETED","created_at":`+text+`}`)

		if err != nil || !check.CreatedAt.Equal(want) || check.CreatedAt.Location() != time.UTC {
			t.Errorf("time from %s = %v (error %v), want %v", text, check, err, want)
		}
	}
	for _, text := range []string{`"yesterday"`, `1591029810`, `"2020-06-01"`, `"2020-06-01T16:43:30"`, `"2020-13-01T16:43:30Z"`, `{}`} {
		if _, err := decodeCheck(t, `{"check_id":"a","status":"COMPLETED","created_at":`+text+`}`); !isDecodeError(err) {
			t.Errorf("%s: error = %v, want a *DecodeError", text, err)
		}
	}
}

func TestPhoneCheckService_UnknownFields(t *testing.T) {
	t.Parallel()

	for ttl, want := range map[string]time.Duration{"1e9": 1e9 * time.Second, `"90"`: 90 * time.Second} { // a number may be quoted
		check, err := decodeCheck(t, `{"check_id":"a","status":"FROZEN","new":{"deep":[1,null]},"ttl":`+ttl+`,"charge_amount":"0.10","_links":{"next":{"href":7}}}`)

		if err != nil || check.Status != "FROZEN" || check.ChargeAmount != "0.10" || check.TTL != want {
			t.Errorf("ttl %s: check = %+v, error = %v, want status FROZEN with amount and ttl", ttl, check, err)
		}
	}
	sim, err := newService(t, respondWith(200, `{"check_id":"a","status":"COMPLETED","ttl":90}`)).client(t).SIMChecks.Get(t.Context(), "a")
	if err != nil || sim.TTL != 90*time.Second {
		t.Errorf("SIMCheck with a ttl = %+v, error = %v, want 90 s", sim, err)
	}
}

func TestReachabilityService_SupportedProducts(t *testing.T) {
	t.Parallel()
	all := []idverify.Product{idverify.ProductPhoneCheck, idverify.ProductSIMCheck, idverify.ProductSubscriberCheck}
	for body, want := range map[string][]idverify.Product{
		`"supported_products":["PhoneCheck","SIMCheck","SubscriberCheck"]`:                                                                                                      all,
		`"supported_products":["phone check","SIM check","subscriber check"]`:                                                                                                   all,
		`"supported_products":["phone_check","sim_check","subscriber_check"]`:                                                                                                   all,
		`"products":[{"product_id":"pck"},{"product_id":"sck"},{"product_id":"suk","product_name":"SubscriberCheck"}]`:                                                          all,
		`"products":[{"product_id":"PCK","product_name":"Phone Check"},{"product_id":"SCK","product_name":"Sim Check"},{"product_id":"SUK","product_name":"Subscriber Check"}]`: all,
		`"products":[{"product_name":"Phone Check"},{"product_id":"7","product_name":"SIM-CHECK"},{"product_id":"subscriber-check"}]`:                                           all,
		`"products":[{"product_id":"LCK","product_name":"Location Check"}]`:                                                                                                     {"LCK"},
		`"supported_products":["LocationCheck"]`:                                                                                                                                {"LocationCheck"},
		`"supported_products":[],"products":[{"product_id":"pck"}]`:                                                                                                             nil,
		`"network_name":"n"`: nil,
	} {
		srv := newService(t, respondWith(200, `{"network_id":"00101",`+body+`}`))

		r, err := srv.client(t).Reachability.Lookup(t.Context(), netip.MustParseAddr("::ffff:192.0.2.2"))

		if err != nil || !slices.Equal(r.SupportedProducts, want) {
			t.Errorf("products from %s = %v (error %v), want %v", body, r, err, want)
			continue
		}
		if r.Supports(idverify.ProductSIMCheck) != slices.Contains(want, idverify.ProductSIMCheck) {
			t.Errorf("%s: Supports and SupportedProducts differ, want the same products", body)
		}
		if got := srv.calls()[0].uri; got != "/coverage/v0.1/device_ips/192.0.2.2" {
			t.Errorf("path = %q, want the IPv4 address of an IPv4-mapped address", got)
		}
	}
}

func decodeCheck(t testing.TB, body string) (*idverify.PhoneCheck, error) {
	t.Helper()
	return newTransportClient(t, always(200, []byte(body))).PhoneChecks.Get(t.Context(), "a")
}

func isDecodeError(err error) bool {
	_, ok := errors.AsType[*idverify.DecodeError](err)
	return ok
}

func FuzzDecodeCheck(f *testing.F) {
	for _, name := range []string{"phone_check.json", "phone_check_created.json", "phone_check_error.json", "subscriber_check.json", "problem.json"} {
		f.Add(fixture(f, name))
	}
	f.Add([]byte(`{"check_id":"a","status":"b","ttl":"1e400"}`))
	f.Add([]byte(`{"check_id":"a","status":"b","ttl":-9e18,"created_at":"0000-01-01T00:00:00.5z"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		check, err := decodeCheck(t, string(body))
		switch {
		case err != nil && !isDecodeError(err):
			t.Errorf("error = %v, want a *DecodeError", err)
		case err == nil && (check.CheckID == "" || check.Status == ""):
			t.Errorf("check without ID or status from %s, want an error", body)
		case err == nil && !json.Valid(body):
			t.Errorf("check from a body that is not JSON, want an error: %s", body)
		}
	})
}

func FuzzTime(f *testing.F) {
	for _, s := range []string{"2020-06-01T16:43:30+0000", "2020-06-01T16:43:30.5+00:00", "2020-06-01T16:43:30z", "", "0000-00-00T00:00:00Z", "9999-12-31T23:59:59-2359"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text, err := json.Marshal(s)
		if err != nil {
			return
		}
		check, err := decodeCheck(t, `{"check_id":"a","status":"COMPLETED","created_at":`+string(text)+`}`)
		if err != nil {
			if !isDecodeError(err) {
				t.Errorf("%q: error = %v, want a *DecodeError", s, err)
			}
			return
		}
		if y := check.CreatedAt.Year(); check.CreatedAt.IsZero() || y < 0 || y > 9999 { // other years do not fit the format
			return
		}
		decoded, err := decodeCheck(t, `{"check_id":"a","status":"COMPLETED","created_at":"`+check.CreatedAt.Format(time.RFC3339Nano)+`"}`)
		if err != nil || !decoded.CreatedAt.Equal(check.CreatedAt) {
			t.Errorf("%q decoded as %v, encoded and decoded again as %v, want the same time (error %v)", s, check.CreatedAt, decoded, err)
		}
	})
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"0", "3600", "-1", "1e3", "99999999999999999999", "Sat, 01 Jan 2000 00:00:05 GMT", "Sat, 01 Jan 9999 00:00:05 GMT", "soon", " 5 "} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, after, reset string) {
		c := newTransportClient(t, always(429, nil, "Retry-After", after, "X-RateLimit-Limit", "1", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", reset), withoutRetries)
		_, err := c.PhoneChecks.Get(t.Context(), "a")
		e, ok := errors.AsType[*idverify.Error](err)
		if !ok || e.RetryAfter < 0 {
			t.Errorf("Retry-After %q: error = %v, want an *Error with a RetryAfter that is not negative", after, err)
		}
	})
}

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
			CheckID: simCheckID, Status: idverify.StatusCompleted, PhoneNumber: testNumber, NoSIMChange: idverify.VerdictYes, Period: 7 * 24 * time.Hour, SIMChangeWithin: 525601 * time.Minute,
			ChargeAmount: "1", ChargeCurrency: "API", SnapshotBalance: "98", CreatedAt: created, UpdatedAt: created, NetworkID: "00101", ReferenceID: "payment 7"}},
		{"sim_check_error.json", getSIMCheck, &idverify.SIMCheck{
			CheckID: simCheckID, Status: idverify.StatusError, PhoneNumber: "447700900099", Period: 7 * 24 * time.Hour,
			ChargeAmount: "1", ChargeCurrency: "API", SnapshotBalance: "97", CreatedAt: created, UpdatedAt: created, ErrorCode: "mno_server_error"}},
		{"subscriber_check_created.json", getSubscriberCheck, &idverify.SubscriberCheck{
			CheckID: subscriberCheckID, Status: idverify.StatusAccepted, PhoneNumber: "447700900006", CheckURL: base + "/subscriber_check/v0.1/checks/" + subscriberCheckID + "/redirect", Period: 24 * time.Hour,
			ChargeAmount: "2", ChargeCurrency: "EUR", SnapshotBalance: "97.5", CreatedAt: created, UpdatedAt: created, TTL: 2 * time.Minute}},
		{"subscriber_check.json", getSubscriberCheck, &idverify.SubscriberCheck{
			CheckID: subscriberCheckID, Status: idverify.StatusCompleted, PhoneNumber: "447700900006", Match: idverify.VerdictYes, NoSIMChange: idverify.VerdictNo, Period: 24 * time.Hour, SIMChangeWithin: 12 * time.Hour,
			ChargeAmount: "2", ChargeCurrency: "EUR", CreatedAt: created, UpdatedAt: after(8 * time.Second), TTL: 2 * time.Minute, NetworkID: "00101", ReferenceID: "log-in 9", CallbackURL: callbackURL}},
		{"device_reachability.json", func(ctx context.Context, c *idverify.Client) (any, error) {
			return c.Reachability.Lookup(ctx, netip.MustParseAddr("192.0.2.2"))
		}, &idverify.DeviceReachability{
			NetworkID: "00101", NetworkName: "Sandbox Mobile", CountryCode: "GB",
			SupportedProducts: []idverify.Product{idverify.ProductPhoneCheck, idverify.ProductSIMCheck, idverify.ProductSubscriberCheck}}},
		{"country.json", func(ctx context.Context, c *idverify.Client) (any, error) {
			return c.Reachability.LookupCountry(ctx, "GB")
		}, &idverify.CountryReachability{
			CountryCode: "GB", DialingCode: 44, Products: []idverify.ProductReachability{
				{Product: idverify.ProductPhoneCheck, Name: "PhoneCheck", Coverage: "FULL", Networks: []idverify.NetworkReachability{
					{NetworkID: "00101", NetworkName: "Sandbox Mobile", Prices: []idverify.Price{{Currency: "API", Amount: "1"}, {Currency: "EUR", Amount: "0.025"}}},
				}},
				{Product: idverify.ProductSubscriberCheck, Name: "SubscriberCheck", Coverage: "COMING_SOON"},
			}}},
		{"traces.json", func(ctx context.Context, c *idverify.Client) (any, error) { return c.SIMChecks.Traces(ctx, "a") }, []idverify.Trace{
			{TraceID: "b4c6d8e0-5f7a-4b9c-8d1e-6f8a0b2c4d5e", Logs: []idverify.TraceLog{{Timestamp: created, Message: "check accepted", Attributes: map[string]any{"product": "phone_check", "version": "v0.1"}}}},
			{TraceID: "c5d7e9f1-6a8b-4c0d-9e2f-7a9b1c3d5e6f", Logs: []idverify.TraceLog{}},
		}},
	} {
		t.Run(tt.fixture, func(t *testing.T) {
			t.Parallel()
			srv := newService(t, respondWith(200, string(fixture(t, tt.fixture))))

			got := must(tt.get(t.Context(), srv.client(t)))(t)

			wantEqual(t, tt.want, got, "result")
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

	token := must(srv.client(t, idverify.WithClock(clock.now)).Token(t.Context(), idverify.ScopePhoneCheck))(t)

	if token.AccessToken != "eyJvcGFxdWUiOnRydWV9.sandbox-access-token" || token.Type() != "Bearer" || !token.Expiry.Equal(clock.now().Add(time.Hour)) || token.ExpiresIn != 3600 {
		t.Errorf("token type = %s, expiry = %v, want the Bearer token of the fixture, valid for an hour", token.Type(), token.Expiry)
	}
}

// TestClient_SendsParameters sends each parameter of the create operations.
func TestClient_SendsParameters(t *testing.T) {
	t.Parallel()
	ip := netip.MustParseAddr("::ffff:192.0.2.7")
	for _, tt := range []struct {
		name string
		do   func(*idverify.Client) error
		want string
	}{
		{"PhoneCheck", func(c *idverify.Client) error {
			return errorOf(c.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "+44 (7700) 900-000", CallbackURL: "https://a/?b=c&d", RedirectURL: "https://e/", ReferenceID: "f", PhoneIP: ip}))
		}, `{"phone_number":"447700900000","callback_url":"https://a/?b=c&d","redirect_url":"https://e/","reference_id":"f","phone_ip":"192.0.2.7"}`},
		{"SIMCheck", func(c *idverify.Client) error {
			return errorOf(c.SIMChecks.Create(t.Context(), idverify.SIMCheckParams{PhoneNumber: "+44 (7700) 900-000", ReferenceID: "f", PhoneIP: netip.MustParseAddr("2001:db8::7"), Period: 90 * time.Minute}))
		}, `{"phone_number":"447700900000","reference_id":"f","phone_ip":"2001:db8::7","period":90}`},
		{"SubscriberCheck", func(c *idverify.Client) error {
			return errorOf(c.SubscriberChecks.Create(t.Context(), idverify.SubscriberCheckParams{PhoneNumber: "+44 (7700) 900-000", CallbackURL: "https://a/", RedirectURL: "https://e/", ReferenceID: "f", PhoneIP: ip, Period: 540000 * time.Minute}))
		}, `{"phone_number":"447700900000","callback_url":"https://a/","redirect_url":"https://e/","reference_id":"f","phone_ip":"192.0.2.7","period":540000}`},
		{"PhoneCheck, only required", func(c *idverify.Client) error { return errorOf(c.PhoneChecks.Create(t.Context(), createParams)) }, `{"phone_number":"447700900000"}`},
		{"SIMCheck, only required", func(c *idverify.Client) error {
			return errorOf(c.SIMChecks.Create(t.Context(), idverify.SIMCheckParams{PhoneNumber: testNumber}))
		}, `{"phone_number":"447700900000"}`},
		{"SubscriberCheck, only required", func(c *idverify.Client) error {
			return errorOf(c.SubscriberChecks.Create(t.Context(), idverify.SubscriberCheckParams{PhoneNumber: testNumber}))
		}, `{"phone_number":"447700900000"}`},
		{"code exchange", func(c *idverify.Client) error { return errorOf(c.PhoneChecks.Complete(t.Context(), "a", "b<c")) }, `[{"op":"add","path":"/code","value":"b<c"}]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := newService(t, respondWithProblem(404, "check_not_found", ""))

			_ = tt.do(srv.client(t, v02))

			wantBody(t, srv.calls()[0], tt.want)
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

// wantBody compares the JSON of a request with want.
func wantBody(t *testing.T, r recordedRequest, want string) {
	t.Helper()
	var got, wanted any
	noError(t, errors.Join(json.Unmarshal(r.body, &got), json.Unmarshal([]byte(want), &wanted)))
	if !reflect.DeepEqual(got, wanted) {
		t.Errorf("body = %s, want %s", r.body, want)
	}
}

// operation is a row of operations.json.
type operation struct {
	Operation, Method, Path, Scope string
	Success                        int
}

// withoutIDs is a response about a resource, or a page with one, in which every field is missing.
const withoutIDs = `{"page":{},"_embedded":{"checks":[{}],"traces":[{}],"workspaces":[{}],"members":[{}],"invitations":[{}],"payment_methods":[{}],
	"top_ups":[{}],"projects":[{}],"credentials":[{}],"usage":[{}]}}`

// TestClient_OperationRequests sends each operation of operations.json, those of the console for
// the default workspace and for another one. The service responds with 404, and then without an ID.
func TestClient_OperationRequests(t *testing.T) {
	t.Parallel()
	values := ids{"check_id": "CHECK", "code": "GB", "project_id": "PROJECT", "client_id": "CLIENT", "member_id": "MEMBER", "payment_method_id": "METHOD", "name": "n"}
	replaced := strings.NewReplacer("{check_id}", "CHECK", "{ip}", "203.0.113.8", "{code}", "GB", "{project_id}", "PROJECT", "{client_id}", "CLIENT",
		"{member_id}", "MEMBER", "{payment_method_id}", "METHOD", "{period}", "daily")
	for _, op := range operations(t) {
		if op.Scope == "" || strings.HasSuffix(op.Operation, ".trace") || strings.HasSuffix(op.Path, "/device_ip") {
			continue // not an operation of a client, or another form of one
		}
		calls := operationsNamed(op.Operation)
		if len(calls) == 0 {
			t.Errorf("no method calls %s", op.Operation)
		}
		for _, workspace := range []string{"default", "ANOTHER"} {
			nested := strings.Contains(op.Path, "{workspace_id}/projects")
			if workspace == "ANOTHER" && !strings.HasPrefix(op.Path, "/console/") || strings.HasPrefix(op.Operation, "project") && nested != (workspace == "ANOTHER") {
				continue // another form of the same operation
			}
			for _, m := range calls {
				t.Run(op.Operation+" in "+workspace, func(t *testing.T) {
					t.Parallel()
					srv := newService(t, respondInTurn(respondWithProblem(404, "not_found", ""), respondWith(op.Success, withoutIDs)))
					s := &matrixTest{t: t, client: srv.client(t, v02), console: srv.console(t), id: values.get}
					if workspace == "ANOTHER" {
						s.console = s.console.ForWorkspace("ANOTHER")
					}

					err := m.do(t.Context(), s)
					unusable := m.do(t.Context(), s)

					if !errors.Is(err, idverify.ErrNotFound) {
						t.Errorf("error = %v, want ErrNotFound", err)
					}
					if _, ok := errors.AsType[*idverify.DecodeError](unusable); !ok && op.Method != http.MethodDelete {
						t.Errorf("error = %v, want a *DecodeError: without it, the caller gets nil, or a resource that it cannot find again", unusable)
					}
					version := "v0.1"
					if strings.HasPrefix(op.Path, "/phone_check/") || strings.HasPrefix(op.Path, "/subscriber_check/") {
						version = "v0.2"
					}
					sent := srv.calls()[0]
					path, _, _ := strings.Cut(sent.uri, "?")
					want := strings.NewReplacer("{v}", version, "{workspace_id}", workspace).Replace(replaced.Replace(op.Path))
					if sent.method != op.Method || path != want {
						t.Errorf("request = %s %s, want %s %s", sent.method, path, op.Method, want)
					}
					if got := scopeOf(t, srv.tokens()[0]); got != op.Scope {
						t.Errorf("scope = %q, want %q", got, op.Scope)
					}
				})
			}
		}
	}
}

// operationsNamed returns the methods that send the operation.
func operationsNamed(name string) (found []matrixOperation) {
	for _, m := range matrixOperations {
		if m.op.Name == name {
			found = append(found, m)
		}
	}
	return found
}

func operations(t testing.TB) []operation {
	t.Helper()
	var ops []operation
	noError(t, json.Unmarshal(fixture(t, "operations.json"), &ops))
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

// withIDs returns the operations with methods whose path contains IDs, with their placeholders. A
// caller cannot choose an IP address freely: it is a netip.Addr.
func withIDs(t testing.TB) map[wire.Operation][]string {
	t.Helper()
	found := make(map[wire.Operation][]string)
	for _, op := range wire.Operations() {
		for segment := range strings.SplitSeq(op.Path, "/") {
			name := strings.Trim(segment, "{}")
			if name != segment && name != "v" && name != "period" && name != "ip" && len(operationsNamed(op.Name)) > 0 {
				found[op] = append(found[op], name)
			}
		}
	}
	if len(found) < 40 {
		t.Errorf("operations with IDs = %d, want at least 40", len(found))
	}
	return found
}

// callWithIDs sends op, a form of m. Operations of a workspace use id("workspace_id").
func (s *service) callWithIDs(t testing.TB, op wire.Operation, m matrixOperation, id func(string) string) error {
	t.Helper()
	c := &matrixTest{t: t, client: s.client(t, v02), console: s.console(t), id: id}
	if strings.Contains(op.Path, "{workspace_id}") {
		c.console = c.console.ForWorkspace(id("workspace_id"))
	}
	return m.do(t.Context(), c)
}

func TestClient_RejectsUnsafeIDs(t *testing.T) {
	t.Parallel()
	unsafe := []string{
		"", ".", "..", "..;", "..;v=1", " .. ", "..?", "p?", "p#x",
		"../../project-2", "a/b", "/", `..\..\project-2`, `a\b`,
		"a%2fb", "%2e%2e", "a%", "a\x00", "a\r\nb", "a\tb", "a\x7f", "a\u0085b", "a\xff",
	}
	for op, placeholders := range withIDs(t) {
		for _, m := range operationsNamed(op.Name) {
			t.Run(op.Method+" "+op.Path, func(t *testing.T) {
				t.Parallel()
				srv := newService(t, respondWith(500, ""))
				for _, placeholder := range placeholders {
					for _, bad := range unsafe {
						if placeholder == "code" && strings.TrimSpace(bad) != bad {
							continue // Country trims spaces around the code
						}

						err := srv.callWithIDs(t, op, m, func(name string) string {
							if name == placeholder {
								return bad
							}
							return "good"
						})

						if !errors.Is(err, idverify.ErrBadRequest) {
							t.Errorf("%s %q: error = %v, want ErrBadRequest", placeholder, bad, err)
						}
						if len(bad) > 2 && strings.Contains(fmt.Sprint(err), bad) {
							t.Errorf("%s %q: error = %q, want it without the ID", placeholder, bad, err)
						}
					}
				}
				if n := len(srv.calls()) + len(srv.tokens()); n != 0 {
					t.Errorf("requests = %d, want 0: a proxy may decode the path", n)
				}
			})
		}
	}
}

func TestClient_EscapesIDs(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"a b":    "a%20b",
		"a;b":    "a%3Bb",
		"...":    "...",
		"..a":    "..a",
		"größe":  "gr%C3%B6%C3%9Fe",
		"a+b@:c": "a+b@:c",
	} {
		srv := newService(t, respondWithProblem(http.StatusNotFound, "check_not_found", "no such check"))

		_, err := srv.client(t).PhoneChecks.Get(t.Context(), id)

		if !errors.Is(err, idverify.ErrNotFound) {
			t.Fatalf("Get(%q): error = %v, want ErrNotFound", id, err)
		}
		if got := srv.calls()[0].uri; got != "/phone_check/v0.1/checks/"+want {
			t.Errorf("Get(%q): URI = %q, want %q", id, got, "/phone_check/v0.1/checks/"+want)
		}
	}
}

// resourceWithIDs returns JSON with every kind of ID. All IDs are id.
func resourceWithIDs(id string) string {
	return fmt.Sprintf(`{"check_id":%[1]q,"status":"COMPLETED","match":true,"trace_id":%[1]q,"project_id":%[1]q,"client_id":%[1]q,"client_secret":"new-secret",
		"workspace_id":%[1]q,"member_id":%[1]q,"payment_method_id":%[1]q}`, id)
}

func TestClient_RejectsMismatchedIDs(t *testing.T) {
	t.Parallel()
	const requested, other = "requested-1", "requested-2"
	for op, placeholders := range withIDs(t) {
		// The end of the path is the kind of the resource in the response.
		path := strings.TrimSuffix(op.Path, "/reset")
		if !strings.HasSuffix(path, "_id}") || op.Method == http.MethodDelete {
			continue
		}
		for _, m := range operationsNamed(op.Name) {
			t.Run(op.Method+" "+op.Path, func(t *testing.T) {
				t.Parallel()
				last := placeholders[len(placeholders)-1]
				id := func(name string) string {
					if name == last {
						return requested
					}
					return other // the parents are not in the response
				}

				matchErr := newService(t, respondWith(op.Success, resourceWithIDs(requested))).callWithIDs(t, op, m, id)
				srv := newService(t, withRequestID("req-7", respondWith(op.Success, resourceWithIDs(other))))
				err := srv.callWithIDs(t, op, m, id)

				if matchErr != nil {
					t.Errorf("response about the requested resource: error = %v, want nil", matchErr)
				}
				e, ok := errors.AsType[*idverify.DecodeError](err)
				if !ok {
					t.Fatalf("error = %v, want a *DecodeError: the response is about another resource", err)
				}
				if e.Status != op.Success || e.Operation != op.Name || e.RequestID != "req-7" {
					t.Errorf("error = %+v, want status, operation and request ID of the response", e)
				}
				unknown := errors.Is(err, idverify.ErrOutcomeUnknown)
				if want := op.Method == http.MethodPost || op.Method == http.MethodPatch; unknown != want {
					t.Errorf("error = %v, matches ErrOutcomeUnknown: %t, want %t", err, unknown, want)
				}
				if strings.Contains(err.Error(), "requested-") {
					t.Errorf("error = %q contains an ID", err)
				}
				sent := srv.requests(func(r recordedRequest) bool { return r.uri != tokenPath && r.method == op.Method })
				if len(sent) != 1 {
					t.Errorf("%d requests, want 1", len(sent))
				}
			})
		}
	}
}

func TestConsole_AcceptsDefaultWorkspace(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondWith(200, resourceWithIDs("workspace-7")))

	for _, c := range []*idverify.Console{srv.console(t), srv.console(t).ForWorkspace("default"), srv.console(t).ForWorkspace("workspace-7")} {
		w, err := c.Workspaces.Get(t.Context())
		if err != nil || w.WorkspaceID != "workspace-7" {
			t.Errorf("workspace = %+v, error = %v, want workspace-7", w, err)
		}
	}
}

func TestClient_CreateComparesPhoneNumber(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, number string // as JSON in the response
		same         bool
	}{
		{"same number", `,"phone_number":"447700900012"`, true},
		{"same number in another notation", `,"phone_number":"+44 7700 900012"`, true},
		{"absent", ``, true},
		{"null", `,"phone_number":null`, true},
		{"empty", `,"phone_number":""`, true},
		{"number of another person", `,"phone_number":"447700900001"`, false},
		{"longer", `,"phone_number":"4477009000121"`, false},
		{"not a number", `,"phone_number":"4477009xxxxx"`, false},
	} {
		for _, p := range referenceProducts {
			t.Run(p.name+"/"+tt.name, func(t *testing.T) {
				t.Parallel()
				srv := newService(t, respondWith(201, `{"check_id":"a","status":"ACCEPTED"`+tt.number+`}`))

				_, err := p.create(t.Context(), srv.client(t), "r")

				if tt.same {
					if err != nil {
						t.Errorf("error = %v, want nil", err)
					}
					return
				}
				if _, ok := errors.AsType[*idverify.DecodeError](err); !ok || !errors.Is(err, idverify.ErrOutcomeUnknown) {
					t.Errorf("error = %v, want a *DecodeError that matches ErrOutcomeUnknown", err)
				}
				if strings.Contains(fmt.Sprint(err), "4477009") {
					t.Errorf("error = %q contains a phone number", err)
				}
				if n := len(srv.calls()); n != 1 {
					t.Errorf("%d creates, want 1: each one is charged", n)
				}
			})
		}
	}
}
