package main

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/idverify/idverify-go/sandboxfake"
)

// signUp stores a sign-up of number.
func (s *site) signUp(t *testing.T, number, status string) (id string) {
	t.Helper()
	return s.value(t, "INSERT INTO signups (id, phone_number, status) VALUES ($1, $2, $3) RETURNING id", "signup of "+number, number, status)
}

func TestShop_Payout(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, row := range []struct {
		name, number, status string
		fault                sandboxfake.Fault
		want                 int
		error, decision      string // decision is empty if there is no check
	}{
		{"unchanged SIM", "447700900012", verified, sandboxfake.Fault{}, http.StatusOK, "", "allowed"},
		{"new SIM", "447700900017", verified, sandboxfake.Fault{}, http.StatusConflict, "sim_changed", "held"},
		{"no result", "447700900099", verified, sandboxfake.Fault{}, http.StatusServiceUnavailable, "unknown", "unknown"},
		{"balance too low", "447700900022", verified, sandboxfake.Fault{Status: http.StatusPaymentRequired}, http.StatusServiceUnavailable, "unavailable", ""},
		{"outcome unknown", "447700900032", verified, sandboxfake.Fault{Drop: true}, http.StatusServiceUnavailable, "unavailable", ""},
		{"not verified", "447700900042", pending, sandboxfake.Fault{}, http.StatusConflict, "not_verified", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			id := s.signUp(t, row.number, row.status)
			remove := s.service.Inject(sandboxfake.Match{Operation: "sim_check.create"}, row.fault)
			defer remove()

			got := s.browser(t).post("/payouts", fmt.Sprintf(`{"signup_id": %q, "amount": 5000}`, id))

			allowed, _ := got.body["allowed"].(bool)
			if got.status != row.want || got.text("error") != row.error || allowed != (row.want == http.StatusOK) {
				t.Errorf("response = %d %v, want %d %s", got.status, got.body, row.want, row.error)
			}
			if row.decision != "" {
				s.awaitDecision(t)
				if decision := s.value(t, "SELECT decision FROM payouts WHERE signup_id = $1 AND amount = 5000", id); decision != row.decision {
					t.Errorf("stored decision = %q, want %q", decision, row.decision)
				}
			}
		})
	}
}

func TestShop_PayoutRejectsRequest(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.signUp(t, "447700900012", verified)
	for _, row := range []struct {
		name, body string
		want       int
	}{
		{"unknown sign-up", `{"signup_id": "x", "amount": 5000}`, http.StatusNotFound},
		{"no amount", fmt.Sprintf(`{"signup_id": %q}`, id), http.StatusUnprocessableEntity},
		{"negative amount", fmt.Sprintf(`{"signup_id": %q, "amount": -1}`, id), http.StatusUnprocessableEntity},
		{"no JSON", `x`, http.StatusBadRequest},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := s.browser(t).post("/payouts", row.body)

			if got.status != row.want || s.calls("sim_check.create") != 0 {
				t.Errorf("status = %d and %d checks, want %d and 0", got.status, s.calls("sim_check.create"), row.want)
			}
		})
	}
}
