package sandboxfake_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/sandboxfake"
)

// sandboxTables contains the expected outcomes, written by hand: for each last digit, and for the
// two-digit suffixes that take precedence. Each text is the status, match and no_sim_change: yes,
// no, or - if not applicable.
//
// Protocol: docs/protocol.md, section 4.
var sandboxTables = []sandboxTable{
	{
		path:      "/phone_check/v0.1/checks",
		digits:    [10]string{"COMPLETED yes -", "COMPLETED no -", "COMPLETED yes -", "COMPLETED no -", "COMPLETED yes -", "COMPLETED no -", "COMPLETED yes -", "COMPLETED no -", "COMPLETED yes -", "COMPLETED no -"},
		overrides: map[string]string{"00": "ERROR no -", "55": "ERROR no -", "99": "ERROR no -"},
		opened:    true,
	},
	{
		path:      "/sim_check/v0.1/checks",
		digits:    [10]string{"COMPLETED - yes", "COMPLETED - yes", "COMPLETED - yes", "COMPLETED - yes", "COMPLETED - yes", "COMPLETED - no", "COMPLETED - no", "COMPLETED - no", "COMPLETED - no", "COMPLETED - no"},
		overrides: map[string]string{"99": "ERROR - -"},
	},
	{
		path:      "/subscriber_check/v0.1/checks",
		digits:    [10]string{"COMPLETED yes yes", "COMPLETED no -", "COMPLETED yes yes", "COMPLETED no -", "COMPLETED yes yes", "COMPLETED no -", "COMPLETED yes no", "COMPLETED no -", "COMPLETED yes no", "COMPLETED no -"},
		overrides: map[string]string{"00": "ERROR no -", "55": "ERROR no -", "99": "ERROR no -"},
		opened:    true,
	},
}

// sandboxTable contains the outcomes of a product.
type sandboxTable struct {
	path      string
	digits    [10]string
	overrides map[string]string
	opened    bool // whether the Check URL must be opened
}

// outcome returns i as a suffix of two digits, the expected outcome of numbers that end in it, and
// whether the table contains both digits of it.
func (s *sandboxTable) outcome(i int) (suffix, want string, overrides bool) {
	suffix = fmt.Sprintf("%02d", i)
	want, overrides = s.overrides[suffix]
	if !overrides {
		want = s.digits[i%10]
	}
	return suffix, want, overrides
}

func TestServer_SandboxOutcomes(t *testing.T) {
	t.Parallel()
	for _, table := range sandboxTables {
		t.Run(table.path, func(t *testing.T) {
			t.Parallel()
			srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
			a := newAPI(t, srv)
			var receiver recordingReceiver
			host := srv.Handle("app.sandbox.test", &receiver)
			for i := range 100 {
				suffix, want, overrides := table.outcome(i)

				created := a.post(table.path, `{"phone_number":"4477009000`+suffix+`","callback_url":"`+host+`"}`)
				if created.status != http.StatusCreated {
					t.Fatalf("%s: create: %d %s", suffix, created.status, created.body)
				}
				id := created.json["check_id"].(string)
				final := created
				if table.opened {
					if got := outcome(created.json); got != "ACCEPTED - -" {
						t.Errorf("%s: created = %q, want no outcome before the Check URL is opened", suffix, got)
					}
					if r := a.get(table.path + "/" + id + "/redirect"); r.status != http.StatusOK {
						t.Fatalf("%s: open: %d %s, want 200", suffix, r.status, r.body)
					}
					if err := srv.Idle(t.Context()); err != nil {
						t.Fatal(err)
					}
					final.json = receiver.last(t)
				}
				if got := outcome(final.json); got != want {
					t.Errorf("%s: result = %q, want %q", suffix, got, want)
				}

				read := a.get(table.path + "/" + id)
				if overrides {
					read.wantProblem(t, 404, "check_not_found")
				} else if got := outcome(read.json); got != want {
					t.Errorf("%s: read = %q, want %q", suffix, got, want)
				}
			}
		})
	}
}

// outcome returns a check's result in the notation of sandboxTables.
func outcome(check map[string]any) string {
	var text strings.Builder
	text.WriteString(fmt.Sprint(check["status"]))
	for _, name := range []string{"match", "no_sim_change"} {
		switch check[name] {
		case true:
			text.WriteString(" yes")
		case false:
			text.WriteString(" no")
		default:
			text.WriteString(" -")
		}
	}
	return text.String()
}

func TestServer_ReachabilityBySuffix(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	a := newAPI(t, srv)
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
			if diff := cmp.Diff(want, byPath.json["supported_products"]); diff != "" {
				t.Errorf("%s: supported_products (-want +got):\n%s", ip, diff)
			}
			want = []any{
				map[string]any{"product_id": "PCK", "product_name": "Phone Check"},
				map[string]any{"product_id": "SCK", "product_name": "Sim Check"},
				map[string]any{"product_id": "SUK", "product_name": "Subscriber Check"},
			}
			if diff := cmp.Diff(want, byPath.json["products"]); diff != "" {
				t.Errorf("%s: products (-want +got):\n%s", ip, diff)
			}
		}
		if diff := cmp.Diff(byPath.json, byQuery.json); diff != "" {
			t.Errorf("%s: response by query differs from the one by path (-path +query):\n%s", ip, diff)
		}
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

func TestServer_ReachabilityOfCaller(t *testing.T) {
	t.Parallel()
	a := newAPI(t, sandboxfake.New(t))

	a.get("/coverage/v0.1/device_ip").wantProblem(t, 412, "not_mobile_ip") // 127.0.0.1
	a.get("/coverage/v0.1/device_ip?ip=").wantProblem(t, 400, "bad_request")
}
