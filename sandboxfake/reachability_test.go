package sandboxfake_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"

	"github.com/idverify/idverify-go/sandboxfake"
)

const callerPath = "/public/coverage/v0.1/device_ip"

// Web SDKs request the reachability of their own address from a browser, without a token.
func TestWithCallerIP_NoToken(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		ip       string
		status   int
		fragment string
	}{
		{"192.0.2.2", 200, ""},
		{"192.0.2.1", 412, "not_mobile_ip"},
		{"192.0.2.99", 400, "mno_not_supported"},
		{"2001:db8::a", 200, ""},
		{"2001:db8::b", 412, "not_mobile_ip"},
		{"::ffff:192.0.2.2", 200, ""},
	} {
		a := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithCallerIP(netip.MustParseAddr(row.ip))))
		browser := &api{t: t, srv: a.srv}

		// An address in the query is ignored: looking it up requires the scope coverage.
		for _, path := range []string{callerPath, callerPath + "?ip=192.0.2.1", callerPath + "?ip=192.0.2.2"} {
			r := browser.get(path)

			if r.status != row.status || r.fragment() != row.fragment || r.header.Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("%s for %s: %d %s, allowed origin %q, want %d %q, any origin", path, row.ip, r.status, r.body, r.header.Get("Access-Control-Allow-Origin"), row.status, row.fragment)
			}
		}
		byCaller, byAddress := browser.get(callerPath), a.get("/coverage/v0.1/device_ips/"+row.ip)
		wantEqual(t, byAddress.json, byCaller.json, "%s: response by caller, compared with the lookup by address", row.ip)
		wantEqual(t, byCaller.json, a.get("/coverage/v0.1/device_ip").json, "%s: response with a token, compared with the one without", row.ip)
	}
}

func TestWithCallerIP_DefaultsToConnection(t *testing.T) {
	t.Parallel()
	for name, srv := range map[string]*sandboxfake.Server{
		"in memory":     sandboxfake.New(t, sandboxfake.WithInMemory()),
		"over loopback": sandboxfake.New(t),
	} {
		a := newAPI(t, srv)
		for _, path := range []string{callerPath, "/coverage/v0.1/device_ip"} {
			if r := a.get(path); r.status != 412 || r.fragment() != "not_mobile_ip" {
				t.Errorf("%s, %s: %d %s, want 412: 127.0.0.1 is not a mobile IP", name, path, r.status, r.body)
			}
		}
		a.get("/coverage/v0.1/device_ip?ip=").wantProblem(t, 400, "bad_request")
	}
}

// The real service sees no private addresses. Other callers keep their address.
func TestWithCallerIP_LocalCallers(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithCallerIP(netip.MustParseAddr("192.0.2.10")))
	for from, status := range map[string]int{
		"127.0.0.1:5000": 200, "127.8.9.1:5000": 200, "[::1]:5000": 200, "[::ffff:127.0.0.1]:5000": 200,
		"10.0.0.1:5000": 200, "172.16.0.1:5000": 200, "192.168.1.1:5000": 200, "169.254.0.1:5000": 200, "[fd00::1]:5000": 200, "[fe80::1%eth0]:5000": 200,
		"198.51.100.1:5000": 412, "198.51.100.2:5000": 200, "198.51.100.99:5000": 400, "[2001:db8::1]:5000": 412, "": 400,
	} {
		if got := serveFrom(t, srv, from, nil, http.MethodGet, callerPath, nil); got.Code != status {
			t.Errorf("caller %s: %d, want %d", from, got.Code, status)
		}
	}
}

func TestWithCallerIP_OtherRequests(t *testing.T) {
	t.Parallel()
	a := &api{t: t, srv: sandboxfake.New(t, sandboxfake.WithInMemory())}

	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		r := a.call(method, callerPath, "")
		r.wantProblem(t, 405, "method_not_allowed")
		if got := r.header.Get("Allow"); got != "GET" {
			t.Errorf("%s: Allow %q, want GET", method, got)
		}
	}
	// No other path is public.
	for _, path := range []string{"/public", "/public/coverage/v9/device_ip", "/public/coverage/v0.1/device_ips/192.0.2.2", "/public/coverage/v0.1/countries/GB", "/public/phone_check/v0.1/checks", "/coverage/v0.1/device_ip", "/public/public/coverage/v0.1/device_ip"} {
		a.get(path).wantProblem(t, 401, "unauthorized")
	}
}

func TestWithCallerIP_RejectsInvalidAddresses(t *testing.T) {
	t.Parallel()
	for _, ip := range []netip.Addr{{}, netip.MustParseAddr("fe80::1%eth0")} {
		if startError(sandboxfake.WithInMemory(), sandboxfake.WithCallerIP(ip)) == nil {
			t.Errorf("WithCallerIP accepts %v, want an error", ip)
		}
	}
}

func TestServer_ReachabilityBySuffix(t *testing.T) {
	t.Parallel()
	a := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory()))
	for i := range 256 {
		ip := fmt.Sprintf("192.0.2.%d", i)

		byPath, byQuery := a.get("/coverage/v0.1/device_ips/"+ip), a.get("/coverage/v0.1/device_ip?ip="+ip)

		switch {
		case i%100 == 99:
			byPath.wantProblem(t, 400, "mno_not_supported")
			if byPath.json["detail"] != "MNO not supported" || byPath.json["title"] != "Bad Request" {
				t.Errorf("%s: problem = %s, want the standard title and detail", ip, byPath.body)
			}
		case i%2 == 1:
			byPath.wantProblem(t, 412, "not_mobile_ip")
			if byPath.json["detail"] != "Not a mobile IP" || byPath.json["title"] != "Precondition Failed" {
				t.Errorf("%s: problem = %s, want the standard title and detail", ip, byPath.body)
			}
		default:
			if byPath.status != 200 {
				t.Errorf("%s: %d, want 200", ip, byPath.status)
			}
			want := []any{"PhoneCheck", "SIMCheck", "SubscriberCheck"}
			wantEqual(t, want, byPath.json["supported_products"], "%s: supported_products", ip)
			want = []any{
				map[string]any{"product_id": "PCK", "product_name": "Phone Check"},
				map[string]any{"product_id": "SCK", "product_name": "Sim Check"},
				map[string]any{"product_id": "SUK", "product_name": "Subscriber Check"},
			}
			wantEqual(t, want, byPath.json["products"], "%s: products", ip)
		}
		wantEqual(t, byPath.json, byQuery.json, "%s: response by query, compared with that by path", ip)
		if status, fragment := sandboxfake.ReachabilityOutcome(netip.MustParseAddr(ip)); status != byPath.status || fragment != byPath.fragment() {
			t.Errorf("%s: ReachabilityOutcome = %d %q, want %d %q as the service responds", ip, status, fragment, byPath.status, byPath.fragment())
		}
	}
}

func TestServer_ReachabilityIPv6(t *testing.T) {
	t.Parallel()
	a := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory()))
	for _, row := range []struct {
		ip       string
		status   int
		fragment string
	}{
		{"2001:db8::a", 200, ""},
		{"2001:db8::b", 412, "not_mobile_ip"},
		{"2001:db8::c", 200, ""},
		{"2001:db8::d", 412, "not_mobile_ip"},
		{"2001:db8::e", 200, ""},
		{"2001:db8::f", 412, "not_mobile_ip"},
		{"2001:db8::", 200, ""},
		{"2001:db8::99", 400, "mno_not_supported"},
		{"2001:db8::9", 412, "not_mobile_ip"},
		{"::ffff:192.0.2.99", 400, "mno_not_supported"},
		{"fe80::2%25eth0", 400, "bad_request"},
		{"not-an-address", 400, "bad_request"},
		{"192.0.2", 400, "bad_request"},
	} {
		r := a.get("/coverage/v0.1/device_ips/" + row.ip)

		if r.status != row.status || r.fragment() != row.fragment {
			t.Errorf("%s: %d %q, want %d %q", row.ip, r.status, r.fragment(), row.status, row.fragment)
		}
	}
}

// The zero Addr has no digits.
func TestReachabilityOutcome_ZeroAddr(t *testing.T) {
	t.Parallel()
	if status, fragment := sandboxfake.ReachabilityOutcome(netip.Addr{}); status != 400 || fragment != "bad_request" {
		t.Errorf("ReachabilityOutcome = %d %q, want 400 bad_request", status, fragment)
	}
}

func TestServer_Countries(t *testing.T) {
	t.Parallel()
	a := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory()))
	for _, row := range []struct {
		code, country string
	}{{"GB", "GB"}, {"gb", "GB"}, {"44", "GB"}, {"DE", "DE"}, {"1", "US"}} {
		if r := a.get("/coverage/v0.1/countries/" + row.code); r.json["country_code"] != row.country {
			t.Errorf("%s: %d %s, want %s", row.code, r.status, r.body, row.country)
		}
	}

	r := a.get("/coverage/v0.1/countries/XX")

	r.wantProblem(t, 404, "not_found")
	if r.json["detail"] != "No Reach" {
		t.Errorf("detail = %q, want No Reach", r.json["detail"])
	}
}
