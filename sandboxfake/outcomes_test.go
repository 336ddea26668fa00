package sandboxfake_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// sandboxTables contains the expected outcomes, written by hand: for each last digit, and for the
// two-digit suffixes that take precedence. Each text is the status, match and no_sim_change: yes,
// no, or - if not applicable.
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
// whether overrides contains the suffix.
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
			receiver, host := newRecordingReceiver(srv)
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
					waitIdle(t, srv)
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

// The outcome is returned by the API, in the callback, and in the redirect of an ERROR.
func TestWithOutcomeFunc_Outcome(t *testing.T) {
	t.Parallel()
	outcomes := map[string]sandboxfake.Outcome{
		"447700900001": {Status: idverify.StatusCompleted, Match: idverify.VerdictYes, NoSIMChange: idverify.VerdictNo},
		"447700900002": {Status: idverify.StatusCompleted, Match: idverify.VerdictNo, NoSIMChange: idverify.VerdictYes},
		"447700900003": {Status: idverify.StatusCompleted},
		"447700900004": {Status: idverify.StatusError, Match: idverify.VerdictNo, ErrorCode: "mno_timeout"},
		"447700900005": {Status: idverify.StatusError, ErrorCode: "ip_mismatch"},
	}
	srv := consoleServer(t, sandboxfake.WithLiveProject(), sandboxfake.WithOutcomeFunc(func(_ idverify.Product, number string) sandboxfake.Outcome { return outcomes[number] }))
	received, host := newRecordingReceiver(srv)
	product := newProductAPI(t, srv, srv.Credentials())
	show := func(o sandboxfake.Outcome) string {
		fields := map[string]any{"status": string(o.Status)}
		if o.Match != idverify.VerdictUnknown {
			fields["match"] = o.Match == idverify.VerdictYes
		}
		if o.NoSIMChange != idverify.VerdictUnknown {
			fields["no_sim_change"] = o.NoSIMChange == idverify.VerdictYes
		}
		return outcome(fields)
	}
	errorCode := func(body map[string]any) string {
		code, _ := body["error_code"].(string)
		return code
	}
	for number, want := range outcomes {
		for _, path := range []string{phoneChecks, "/subscriber_check/v0.1/checks"} {
			id := product.create(path, fmt.Sprintf(`{"phone_number":%q,"callback_url":%q}`, number, host))
			product.want(200, http.MethodGet, path+"/"+id+"/redirect", "")
			waitIdle(t, srv)

			got := received.last(t)
			if got["check_id"] != id || outcome(got) != show(want) || errorCode(got) != want.ErrorCode {
				t.Errorf("%s %s: callback = %v, want %s %q", path, number, got, show(want), want.ErrorCode)
			}
			if read := product.get(path + "/" + id); want.Status == idverify.StatusError && read.status != 404 || want.Status == idverify.StatusCompleted && outcome(read.json) != show(want) {
				t.Errorf("%s %s: read = %d %s, want %s", path, number, read.status, read.body, show(want))
			}
		}

		sim := product.post("/sim_check/v0.1/checks", fmt.Sprintf(`{"phone_number":%q}`, number))
		if sim.status != 201 || outcome(sim.json) != show(want) || errorCode(sim.json) != want.ErrorCode {
			t.Errorf("SIMCheck %s: %d %s, want %s %q", number, sim.status, sim.body, show(want), want.ErrorCode)
		}

		opened := product.get(phoneChecks02 + "/" + product.create(phoneChecks02, fmt.Sprintf(`{"phone_number":%q,"redirect_url":"https://app.sandbox.test/back"}`, number)) + "/redirect")
		if location := opened.header.Get("Location"); want.ErrorCode != "" && !strings.Contains(location, "&error="+want.ErrorCode+"&") {
			t.Errorf("%s: redirect = %s, want error %s", number, location, want.ErrorCode)
		}
	}
}

// The outcome functions include the error code.
func TestPhoneCheckOutcome_ErrorCode(t *testing.T) {
	t.Parallel()
	unknown := sandboxfake.Outcome{Status: idverify.StatusError, ErrorCode: "mno_server_error"}
	mismatch := unknown
	mismatch.Match = idverify.VerdictNo
	for name, row := range map[string]struct{ got, want sandboxfake.Outcome }{
		"PhoneCheck":                     {sandboxfake.PhoneCheckOutcome("447700900055"), mismatch},
		"SIMCheck":                       {sandboxfake.SIMCheckOutcome("447700900099"), unknown},
		"SubscriberCheck":                {sandboxfake.SubscriberCheckOutcome("447700900099"), mismatch},
		"PhoneCheck without digits":      {sandboxfake.PhoneCheckOutcome("no digits"), unknown},
		"SIMCheck without digits":        {sandboxfake.SIMCheckOutcome(""), unknown},
		"SubscriberCheck without digits": {sandboxfake.SubscriberCheckOutcome("x"), unknown},
	} {
		wantEqual(t, row.want, row.got, "%s", name)
	}
}

// sim_change_within is the longest span that the period covers, or 525601 without a SIM change.
func TestServer_SIMChangeWithin(t *testing.T) {
	t.Parallel()
	a := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory()))
	spans := []int{60, 360, 720, 1440, 2880, 4320, 10080, 43200, 129600, 259200, 525600}
	for i, span := range spans {
		last := 540000
		if i+1 < len(spans) {
			last = spans[i+1] - 1
		}
		for _, period := range []int{span, last} {
			for number, want := range map[string]int{"447700900005": span, "447700900000": 525601} {
				r := a.post("/sim_check/v0.1/checks", fmt.Sprintf(`{"phone_number":%q,"period":%d}`, number, period))

				if got := r.json["sim_change_within"]; got != float64(want) || r.json["no_sim_change_period"] != float64(period) {
					t.Errorf("number %s, period %d: sim_change_within = %v for period %v, want %d", number, period, got, r.json["no_sim_change_period"], want)
				}
			}
		}
	}
}
