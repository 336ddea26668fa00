package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/sandboxfake"
)

func TestShop_VerificationMethod(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, row := range []struct {
		name, addr string
		fault      sandboxfake.Fault
		want       string
		logged     bool
	}{
		{"mobile address", "192.0.2.10", sandboxfake.Fault{}, "phone_check", false},
		{"IPv6", "2001:db8::a", sandboxfake.Fault{}, "phone_check", false},
		{"IPv4-mapped IPv6", "::ffff:192.0.2.10", sandboxfake.Fault{}, "phone_check", false},
		{"Wi-Fi address", "192.0.2.11", sandboxfake.Fault{}, "sms", false},
		{"unsupported network", "192.0.2.99", sandboxfake.Fault{}, "sms", false},
		{"network without PhoneCheck", "192.0.2.10", sandboxfake.Fault{Body: `{"network_id":"1","network_name":"One","country_code":"GB","supported_products":["SIMCheck"]}`}, "sms", false},
		{"error of the service", "192.0.2.10", sandboxfake.Fault{Status: http.StatusForbidden}, "sms", true},
		{"no address", "", sandboxfake.Fault{}, "sms", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			remove := s.service.Inject(sandboxfake.Match{Operation: "reachability.device_ip"}, row.fault)
			defer remove()
			s.deviceIP = row.addr
			before := strings.Count(s.log.String(), "reachability unknown")

			got := s.browser(t).post("/verification-method", "")

			if got.status != http.StatusOK || got.text("method") != row.want {
				t.Errorf("response = %d %v, want %s", got.status, got.body, row.want)
			}
			if logged := strings.Count(s.log.String(), "reachability unknown") > before; logged != row.logged {
				t.Errorf("logged = %t, want %t", logged, row.logged)
			}
			if row.addr != "" && strings.Contains(s.log.String(), row.addr) {
				t.Error("the log contains the address of a device")
			}
		})
	}
}
