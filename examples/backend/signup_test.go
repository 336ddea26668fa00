package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/idverify/idverify-go/sandboxfake"
)

func TestShop_SignUp(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, row := range []struct{ name, number, want string }{
		{"match", "+44 7700 900-012", verified},
		{"no match", "447700900013", rejected},
		{"new SIM", "447700900016", rejected},
		{"no result", "447700900099", failed},
	} {
		t.Run(row.name, func(t *testing.T) {
			app := s.browser(t)

			begun := app.post("/signups", `{"phone_number": "`+row.number+`"}`)
			before := app.get("/signups/" + begun.text("id"))
			s.open(t, begun.text("check_url"))
			s.awaitDecision(t)
			after := app.get("/signups/" + begun.text("id"))

			if begun.status != http.StatusCreated || before.text("status") != pending {
				t.Errorf("status = %d, then %q, want 201 and pending", begun.status, before.text("status"))
			}
			if after.text("status") != row.want {
				t.Errorf("status = %q, want %q", after.text("status"), row.want)
			}
		})
	}
}

func TestShop_SignUpRejectsRequest(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, row := range []struct {
		name, body string
		status     int
	}{
		{"number without country code", `{"phone_number": "07700900012"}`, http.StatusUnprocessableEntity},
		{"no number", `{}`, http.StatusUnprocessableEntity},
		{"no JSON", `phone_number=447700900012`, http.StatusBadRequest},
		{"large body", `{"phone_number": "` + string(make([]byte, 8<<10)) + `"}`, http.StatusBadRequest},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := s.browser(t).post("/signups", row.body)

			if got.status != row.status || s.calls("subscriber_check.create") != 0 {
				t.Errorf("status = %d and %d creates, want %d and 0", got.status, s.calls("subscriber_check.create"), row.status)
			}
		})
	}
	if got := s.value(t, "SELECT count(*)::text FROM signups"); got != "0" {
		t.Errorf("%s sign-ups stored, want 0", got)
	}
	if got := s.browser(t).get("/signups/unknown"); got.status != http.StatusNotFound {
		t.Errorf("status of an unknown sign-up = %d, want 404", got.status)
	}
}

func TestShop_SignUpNotCreated(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, row := range []struct {
		name  string
		fault sandboxfake.Fault
		want  int
		error string
	}{
		{"balance too low", sandboxfake.Fault{Status: http.StatusPaymentRequired}, http.StatusServiceUnavailable, "unavailable"},
		{"network not supported", sandboxfake.Fault{Status: http.StatusBadRequest, Code: "mno_not_supported"}, http.StatusUnprocessableEntity, "unsupported_network"},
	} {
		t.Run(row.name, func(t *testing.T) {
			created := s.calls("subscriber_check.create")
			remove := s.service.Inject(sandboxfake.Match{Operation: "subscriber_check.create"}, row.fault)
			defer remove()

			got := s.browser(t).post("/signups", `{"phone_number": "447700900012"}`)

			if got.status != row.want || got.text("error") != row.error {
				t.Errorf("response = %d %v, want %d %s", got.status, got.body, row.want, row.error)
			}
			if n := s.calls("subscriber_check.create") - created; n != 1 {
				t.Errorf("%d creates, want 1", n)
			}
			if status := s.value(t, "SELECT status FROM signups ORDER BY created_at DESC LIMIT 1"); status != failed {
				t.Errorf("status = %q, want failed", status)
			}
			if plans := s.value(t, "SELECT count(*)::text FROM idverify_checks"); plans != "0" {
				t.Errorf("%s plans, want 0: there is no check", plans)
			}
		})
	}
}

func TestShop_SignUpServiceDown(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(s *site) { s.env["IDVERIFY_BASE_URL"] = "https://127.0.0.1:9" }) // nothing listens on port 9

	got := s.browser(t).post("/signups", `{"phone_number": "447700900012"}`)

	if got.status != http.StatusServiceUnavailable {
		t.Errorf("status = %d, want 503", got.status)
	}
	if status := s.value(t, "SELECT status FROM signups"); status != failed {
		t.Errorf("status = %q, want failed: nothing was sent", status)
	}
}

// The response to Create is lost, and the process ends. The next process finds the check.
func TestShop_SignUpOutcomeUnknown(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	app := s.browser(t)
	s.service.Inject(sandboxfake.Match{Operation: "subscriber_check.create"}, sandboxfake.Fault{Drop: true})

	begun := app.post("/signups", `{"phone_number": "447700900012"}`)
	between := app.get("/signups/" + begun.text("id"))
	s.stop()
	found, err := s.project.Client().SubscriberChecks.FindByReferenceID(t.Context(), begun.text("id"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%d checks (%v), want 1", len(found), err)
	}
	s.open(t, s.service.URL()+"/subscriber_check/v0.1/checks/"+found[0].CheckID+"/redirect")
	s.value(t, "UPDATE idverify_checks SET reconcile_at = 0 RETURNING reference") // its time has come
	s.start(t)
	s.awaitDecision(t)
	after := app.get("/signups/" + begun.text("id"))

	if begun.status != http.StatusAccepted || between.text("status") != pending || begun.text("check_url") != "" {
		t.Errorf("response = %d %v, then %v, want 202 and pending without a Check URL", begun.status, begun.body, between.body)
	}
	if after.text("status") != verified {
		t.Errorf("status = %q, want verified", after.text("status"))
	}
	if n := s.calls("subscriber_check.create"); n != 1 {
		t.Errorf("%d creates, want 1: each one is charged", n)
	}
}

func TestShop_ProcessesResultOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	app := s.browser(t)
	begun := app.post("/signups", `{"phone_number": "447700900012"}`)
	s.open(t, begun.text("check_url"))
	s.awaitDecision(t)

	noError(t, s.service.Advance(t.Context(), 2*time.Second)) // another date, so not a copy
	for _, d := range s.service.Deliveries() {
		noError(t, s.service.Redeliver(t.Context(), d.ID))
	}
	noError(t, s.service.WaitIdle(t.Context()))

	for _, d := range s.service.Deliveries() {
		if !d.Acknowledged() {
			t.Errorf("delivery %s is not acknowledged: %+v", d.ID, d.Attempts)
		}
	}
	if got := s.value(t, "SELECT count(*)::text FROM river_job WHERE kind = 'idverify_result'"); got != "1" {
		t.Errorf("%s jobs, want 1", got)
	}
	if got := s.value(t, "SELECT string_agg(decision, ' ') FROM decisions"); got != verified {
		t.Errorf("decisions = %q, want one", got)
	}
}
