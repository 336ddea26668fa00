package idverify_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
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

func TestPhoneCheckService_MissingMatch(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{``: "unknown", `,"match":null`: "unknown", `,"match":false`: "no", `,"match":true`: "yes"} {
		check, err := decodeCheck(t, `{"check_id":"a","status":"COMPLETED"`+text+`}`)
		if err != nil {
			t.Fatal(err)
		}

		got := check.Match.String()
		if got != want {
			t.Errorf("match%s decoded as %s, want %s", text, got, want)
		}
	}
}

func TestPhoneCheckService_UnknownFields(t *testing.T) {
	t.Parallel()

	check, err := decodeCheck(t, `{"check_id":"a","status":"FROZEN","new":{"deep":[1,null]},"ttl":1e9,"charge_amount":"0.10","_links":{"next":{"href":7}}}`)

	if err != nil || check.Status != "FROZEN" || check.ChargeAmount != "0.10" || check.TTL <= 0 {
		t.Errorf("check = %+v, error = %v, want status FROZEN with amount and ttl", check, err)
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
	c := newTransportClient(t, func(*http.Request) (*http.Response, error) { return response(200, []byte(body)), nil })
	return c.PhoneChecks.Get(t.Context(), "a")
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
		c := newTransportClient(t, func(*http.Request) (*http.Response, error) {
			r := response(429, nil)
			r.Header["Retry-After"] = []string{after}
			r.Header["X-Ratelimit-Limit"] = []string{"1"}
			r.Header["X-Ratelimit-Remaining"] = []string{"0"}
			r.Header["X-Ratelimit-Reset"] = []string{reset}
			return r, nil
		}, withoutRetries)
		_, err := c.PhoneChecks.Get(t.Context(), "a")
		e, ok := errors.AsType[*idverify.Error](err)
		if !ok || e.RetryAfter < 0 {
			t.Errorf("Retry-After %q: error = %v, want an *Error with a RetryAfter that is not negative", after, err)
		}
	})
}
