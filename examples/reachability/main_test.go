package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestRun_PrintsMethods(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer

	synctest.Test(t, func(t *testing.T) { // whose clock does not advance
		err := run(t.Context(), &out, slog.New(slog.DiscardHandler))

		if err != nil {
			t.Fatal(err)
		}
	})
	want := `ADDRESS      METHOD
192.0.2.10   silent
192.0.2.11   turn off wifi
192.0.2.99   sms
2001:db8::a  silent
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestChooser_Choose(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		addr   string
		fault  sandboxfake.Fault
		want   method
		logged bool
	}{
		{"mobile address", "192.0.2.10", sandboxfake.Fault{}, silent, false},
		{"Wi-Fi address", "192.0.2.11", sandboxfake.Fault{}, mobileData, false},
		{"unsupported network", "192.0.2.99", sandboxfake.Fault{}, sms, false},
		{"network without PhoneCheck", "192.0.2.10", sandboxfake.Fault{Body: `{"network_id":"1","network_name":"One","country_code":"GB","supported_products":["SIMCheck"]}`}, sms, false},
		{"400 for another reason", "192.0.2.10", sandboxfake.Fault{Status: 400, Code: "bad_request"}, sms, true},
		{"error page of a gateway", "192.0.2.10", sandboxfake.Fault{Status: 403, Body: "<html>"}, sms, true},
		{"invalid address", "", sandboxfake.Fault{}, sms, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				service := sandboxfake.New(t, sandboxfake.WithInMemory())
				service.Inject(sandboxfake.Match{Operation: "reachability.device_ip"}, row.fault)
				var log bytes.Buffer
				c := &chooser{client: service.Client(), log: slog.New(slog.NewTextHandler(&log, nil))}
				addr, _ := netip.ParseAddr(row.addr)

				got := c.choose(t.Context(), addr)

				if got != row.want {
					t.Errorf("choose = %q, want %q", got, row.want)
				}
				if logged := log.Len() > 0; logged != row.logged {
					t.Errorf("logged = %t, want %t: faults of ours must be logged: %q", logged, row.logged, log.String())
				}
				if row.addr != "" && strings.Contains(log.String(), row.addr) {
					t.Errorf("the log contains the address: %q", log.String())
				}
			})
		})
	}
}

func TestChooser_ChooseTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service := sandboxfake.New(t, sandboxfake.WithInMemory())
		service.Inject(sandboxfake.Match{Operation: "reachability.device_ip", Repeat: true}, sandboxfake.Fault{Latency: time.Minute})
		c := &chooser{client: service.Client(), log: slog.New(slog.DiscardHandler)}
		start := time.Now()

		got := c.choose(t.Context(), netip.MustParseAddr("192.0.2.10"))

		if waited := time.Since(start); got != sms || waited != timeout {
			t.Errorf("choose = %q after %s, want %q after %s", got, waited, sms, timeout)
		}
	})
}

func TestChooser_UsesConnectionAddress(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, remote string
		want         method
	}{
		{"IPv4", "192.0.2.10:50000", silent},
		{"IPv4 Wi-Fi", "192.0.2.11:50000", mobileData},
		{"IPv6", "[2001:db8::a]:50000", silent},
		{"IPv4-mapped IPv6", "[::ffff:192.0.2.10]:50000", silent},
		{"IPv6 with a zone", "[fe80::a%eth0]:50000", silent},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				service := sandboxfake.New(t, sandboxfake.WithInMemory())
				c := &chooser{client: service.Client(), log: slog.New(slog.DiscardHandler)}
				r := httptest.NewRequestWithContext(t.Context(), "GET", "/method", nil)
				r.RemoteAddr = row.remote
				r.Header.Set("X-Forwarded-For", "192.0.2.99")
				w := httptest.NewRecorder()

				c.ServeHTTP(w, r)

				var got struct{ Method method }
				if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Method != row.want {
					t.Errorf("response = %s (%v), want method %q", w.Body.Bytes(), err, row.want)
				}
			})
		})
	}
}
