package sandboxfake_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

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
		if diff := cmp.Diff(byAddress.json, byCaller.json); diff != "" {
			t.Errorf("%s: the response by caller differs from the lookup by address (-address +caller):\n%s", row.ip, diff)
		}
		if diff := cmp.Diff(byCaller.json, a.get("/coverage/v0.1/device_ip").json); diff != "" {
			t.Errorf("%s: the response with a token differs (-without +with):\n%s", row.ip, diff)
		}
	}
}

func TestWithCallerIP_DefaultsToConnection(t *testing.T) {
	t.Parallel()
	for name, srv := range map[string]*sandboxfake.Server{
		"in memory":     sandboxfake.New(t, sandboxfake.WithInMemory()),
		"over loopback": sandboxfake.New(t),
	} {
		browser := &api{t: t, srv: srv}
		if r := browser.get(callerPath); r.status != 412 || r.fragment() != "not_mobile_ip" {
			t.Errorf("%s: %d %s, want 412: 127.0.0.1 is not a mobile IP", name, r.status, r.body)
		}
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
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, callerPath, nil)
		request.RemoteAddr = from
		recorder := httptest.NewRecorder()

		sandboxfake.Serve(srv, recorder, request)

		if recorder.Code != status {
			t.Errorf("caller %s: %d, want %d", from, recorder.Code, status)
		}
	}
}

// A browser sends a preflight request without a token when a script adds a header.
func TestWithCallerIP_Preflight(t *testing.T) {
	t.Parallel()
	a := &api{t: t, srv: sandboxfake.New(t, sandboxfake.WithInMemory())}
	request := a.request(http.MethodOptions, callerPath, "")
	request.Header.Set("Origin", "https://app.sandbox.test")
	request.Header.Set("Access-Control-Request-Method", "GET")
	request.Header.Set("Access-Control-Request-Headers", "x-sdk-version")

	r := a.do(request)

	got := []any{r.status, r.header.Get("Access-Control-Allow-Origin"), r.header.Get("Access-Control-Allow-Methods"), r.header.Get("Access-Control-Allow-Headers"), len(r.body)}
	if diff := cmp.Diff([]any{204, "*", "GET, POST, PUT, PATCH, DELETE, OPTIONS", "x-sdk-version", 0}, got); diff != "" {
		t.Errorf("preflight (-want +got):\n%s", diff)
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
		srv, err := sandboxfake.Start(sandboxfake.WithInMemory(), sandboxfake.WithCallerIP(ip))
		if err == nil {
			srv.Close()
			t.Errorf("WithCallerIP accepts %v, want an error", ip)
		}
	}
}
