package sandboxfake_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// outcomeText returns the result in the body of a callback: status, match, SIM change, and error
// code.
func outcomeText(c *idverify.Callback) string {
	var body struct {
		Match       *bool `json:"match"`
		NoSIMChange *bool `json:"no_sim_change"`
	}
	if err := json.Unmarshal(c.Body, &body); err != nil {
		return err.Error()
	}
	show := func(b *bool) string {
		if b == nil {
			return "-"
		}
		return fmt.Sprint(*b)
	}
	return fmt.Sprintf("%s %s %s %s", c.Status, show(body.Match), show(body.NoSIMChange), c.ErrorCode)
}

// errorCodes are the error codes of checks.
var errorCodes = []string{
	"not_mobile_ip", "mno_not_supported", "mno_timeout", "mno_user_not_found", "mno_response_error",
	"mno_server_error", "mno_no_data_available", "ip_mismatch", "ip_msisdn_mismatch",
}

func TestServer_ControlOutcomes(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)

	got := a.control(http.MethodGet, "outcomes", "")

	want := []any{
		map[string]any{"as": "phone", "status": "COMPLETED", "match": true},
		map[string]any{"as": "other_sim", "status": "COMPLETED", "match": false},
		map[string]any{"as": "offline", "status": "EXPIRED"},
	}
	for _, code := range errorCodes {
		want = append(want, map[string]any{"as": code, "status": "ERROR", "match": false, "error_code": code})
	}
	outcomes, _ := got.json["outcomes"].([]any)
	for _, outcome := range outcomes {
		for _, text := range []string{"title", "description"} {
			if outcome.(map[string]any)[text] == "" {
				t.Errorf("%v has no %s", outcome, text)
			}
			delete(outcome.(map[string]any), text)
		}
	}
	if diff := cmp.Diff(want, outcomes); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

// Every choice, for both products and versions: the callback and the redirect verify, and have the
// chosen result whatever the number.
func TestServer_ControlOpenAs(t *testing.T) {
	t.Parallel()
	type row struct {
		product, number, as string
		want                string // result in the callback
	}
	rows := []row{
		{"phone_check", "447700900012", "", "COMPLETED true - "},
		{"phone_check", "447700900013", "", "COMPLETED false - "},
		{"phone_check", "447700900099", "", "ERROR false - mno_server_error"},
		{"phone_check", "447700900013", "phone", "COMPLETED true - "},
		{"phone_check", "447700900099", "phone", "COMPLETED true - "},
		{"phone_check", "447700900012", "other_sim", "COMPLETED false - "},
		{"phone_check", "447700900012", "offline", "EXPIRED - - "},
		{"subscriber_check", "447700900018", "", "COMPLETED true false "},
		{"subscriber_check", "447700900018", "phone", "COMPLETED true false "},
		{"subscriber_check", "447700900012", "phone", "COMPLETED true true "},
		{"subscriber_check", "447700900013", "phone", "COMPLETED true true "},
		{"subscriber_check", "447700900055", "phone", "COMPLETED true true "},
		{"subscriber_check", "447700900012", "other_sim", "COMPLETED false - "},
		{"subscriber_check", "447700900012", "offline", "EXPIRED - - "},
	}
	for _, code := range errorCodes {
		for _, product := range []string{"phone_check", "subscriber_check"} {
			rows = append(rows, row{product, "447700900012", code, "ERROR false - " + code})
		}
	}
	for _, row := range rows {
		for _, version := range []string{"v0.1", "v0.2"} {
			t.Run(strings.Join([]string{row.product, version, row.number, row.as}, " "), func(t *testing.T) {
				t.Parallel()
				a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))
				a.token = a.tokenFor(a.srv.Credentials(), "phone_check subscriber_check")
				shop := newShop(a.srv)
				id := a.controlCreate(fmt.Sprintf(`{"product":%q,"version":%q,"phone_number":%q,"callback_url":"%s/callbacks","redirect_url":"%s/back"}`, row.product, version, row.number, shop.url, shop.url)).checkID()

				opened := a.controlOpen(id, row.as, true)

				_, redirects := shop.received(t)
				failed := strings.HasPrefix(row.want, "ERROR")
				redirected := version == "v0.2" && row.as != "offline"
				if redirected != (len(redirects) == 1) {
					t.Fatalf("%d redirects verified, want %v", len(redirects), redirected)
				}
				if redirected {
					r := redirects[0]
					if r.CheckID != id || (r.Code == "") != failed || failed && (!strings.HasSuffix(row.want, " "+r.ErrorCode) || r.ErrorDescription == "") {
						t.Errorf("redirect %v, want check %s with a code or the error of %q", r, id, row.want)
					}
					if !failed {
						a.exchange("/"+row.product+"/v0.2/checks", id, r.Code)
					}
				}
				if err := a.srv.Idle(t.Context()); err != nil {
					t.Fatal(err)
				}
				callbacks, _ := shop.received(t)
				if len(callbacks) != 1 || callbacks[0].CheckID != id || string(callbacks[0].Product) != row.product || outcomeText(callbacks[0]) != row.want {
					t.Errorf("%d callbacks, want one with %q", len(callbacks), row.want)
					for _, c := range callbacks {
						t.Logf("got %q", outcomeText(c))
					}
				}
				wantStatus := 200.0
				switch {
				case redirected:
					wantStatus = 302
				case row.as == "not_mobile_ip":
					wantStatus = 412
				case row.as == "offline":
					wantStatus = 0
				}
				if opened.statusOf() != wantStatus {
					t.Errorf("open = %s, want status %v", opened.body, wantStatus)
				}
				_, events := a.timeline(id)
				if as := fmt.Sprint(events[1]["as"]); row.as != "offline" && row.as != "" && as != row.as {
					t.Errorf("timeline shows %v, want as %q", events[1], row.as)
				}
			})
		}
	}
}

func TestServer_ControlOpenHops(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	host := a.srv.Handle("app.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/back":
			http.SetCookie(w, &http.Cookie{Name: "seen", Value: "1"})
			http.Redirect(w, r, "/welcome", http.StatusSeeOther)
		case "/welcome":
			if _, err := r.Cookie("seen"); err != nil {
				w.WriteHeader(http.StatusForbidden)
			}
		case "/loop":
			http.Redirect(w, r, r.URL.String(), http.StatusFound)
		case "/gone":
			http.Redirect(w, r, "https://nowhere.sandbox.test/", http.StatusFound)
		}
	}))
	for _, row := range []struct {
		path   string
		follow bool
		want   []string // path and status
		err    string   // of the last hop
	}{
		{"/back", true, []string{"/redirect 302", "/back 303", "/welcome 200"}, ""},
		{"/back", false, []string{"/redirect 302"}, ""},
		{"/gone", true, []string{"/redirect 302", "/gone 302", "/ 0"}, "connection failed"},
		{"/loop", true, append([]string{"/redirect 302"}, slices.Repeat([]string{"/loop 302"}, 20)...), "too many redirects"},
	} {
		id := a.controlCreate(`{"version":"v0.2","phone_number":"447700900012","redirect_url":"` + host + row.path + `"}`).checkID()

		got := a.controlOpen(id, "", row.follow)

		var hops []string
		last := map[string]any{}
		for _, hop := range got.json["hops"].([]any) {
			last = hop.(map[string]any)
			u, err := url.Parse(last["url"].(string))
			if err != nil {
				t.Fatal(err)
			}
			hops = append(hops, fmt.Sprint(u.Path[strings.LastIndex(u.Path, "/"):], " ", last["status"]))
		}
		if diff := cmp.Diff(row.want, hops); diff != "" {
			t.Errorf("%s, follow %v: hops (-want +got):\n%s", row.path, row.follow, diff)
		}
		if text, _ := last["error"].(string); row.err == "" && text != "" || !strings.Contains(text, row.err) {
			t.Errorf("%s: error = %q, want %q", row.path, text, row.err)
		}
		if got.statusOf() != 302.0 || !strings.HasPrefix(fmt.Sprint(got.json["response"].(map[string]any)["location"]), host+row.path+"?check_id="+id) {
			t.Errorf("%s: %s, want status 302 and the redirect URL", row.path, got.body)
		}
	}
}

func TestServer_ControlOpenIsACall(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	id := a.controlCreate(`{"phone_number":"447700900012"}`).checkID()
	a.srv.Inject(sandboxfake.Match{Operation: "phone_check.open"}, sandboxfake.Fault{Status: 503})

	failed := a.controlOpen(id, "other_sim", false)
	opened := a.controlOpen(id, "", false)
	again := a.controlOpen(id, "", false)

	if failed.statusOf() != 503.0 || opened.statusOf() != 200.0 || again.statusOf() != 404.0 {
		t.Errorf("statuses %v, %v, %v, want 503 of the fault, 200, and 404 because it was opened", failed.statusOf(), opened.statusOf(), again.statusOf())
	}
	if check := a.get(phoneChecks + "/" + id); check.json["match"] != true {
		t.Errorf("check = %s, want a match: the choice of a call that failed must have no effect", check.body)
	}
	if n := len(a.srv.Requests()); n != 6 { // token, create, open three times, read
		t.Errorf("journal has %d requests, want 6", n)
	}
}

func TestServer_ControlOpenTakesPrecedence(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithOutcomeFunc(func(idverify.Product, string) sandboxfake.Outcome {
		return sandboxfake.Outcome{Status: idverify.StatusError, ErrorCode: "mno_timeout"}
	}))
	project := a.srv.NewProject(idverify.ProjectParams{Name: "live", Mode: idverify.ModeLive})
	create := func() string {
		return a.controlCreate(`{"phone_number":"447700900013","project_id":"` + project.ProjectID + `"}`).checkID()
	}
	byFunc, chosen := create(), create()

	a.controlOpen(byFunc, "", false)
	a.controlOpen(chosen, "phone", false)

	checks, _ := a.checks("")
	if checks[0]["status"] != "COMPLETED" || checks[0]["match"] != true || checks[1]["status"] != "ERROR" || checks[1]["error_code"] != "mno_timeout" {
		t.Errorf("checks = %v, want the chosen result, and that of WithOutcomeFunc", checks)
	}
}

func TestServer_ControlOpenInvalid(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	sim := a.controlCreate(`{"product":"sim_check","phone_number":"447700900012"}`).checkID()
	expired := a.controlCreate(`{"phone_number":"447700900012"}`).checkID()
	a.srv.Expire(expired)

	a.control(http.MethodPost, "open", `{"check_id":"x"}`).wantProblem(t, http.StatusNotFound, "check_not_found")
	a.control(http.MethodPost, "open", `{"check_id":"`+sim+`"}`).wantProblem(t, http.StatusBadRequest, "bad_request")
	a.control(http.MethodPost, "open", `{"check_id":"`+expired+`","as":"offline"}`).wantProblem(t, http.StatusNotFound, "check_not_found")
	if got := a.controlOpen(expired, "phone", true); got.statusOf() != 404.0 {
		t.Errorf("opening an expired check = %s, want the service's 404", got.body)
	}
}
