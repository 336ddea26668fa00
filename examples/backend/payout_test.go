package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/sandboxfake"
)

// signUp stores a sign-up of number.
func (s *site) signUp(t *testing.T, number, status string) (id string) {
	t.Helper()
	return s.value(t, "INSERT INTO signups (id, phone_number, status) VALUES ($1, $2, $3) RETURNING id", "signup of "+number, number, status)
}

// signedIn returns a browser that has signed in.
func (s *site) signedIn(t *testing.T, number string) *browser {
	t.Helper()
	b := s.browser(t)
	b.do("GET", b.redirectOf(b.begin(number)), "")
	s.awaitDecision(t)
	if got := b.get("/session"); got.status != http.StatusOK {
		t.Fatalf("session of %s = %v, want signed_in", number, got.body)
	}
	return b
}

// payOut requests a payout.
func (b *browser) payOut(id, signupID string, amount int) reply {
	b.t.Helper()
	return b.post("/payouts", fmt.Sprintf(`{"id": %q, "signup_id": %q, "amount": %d}`, id, signupID, amount))
}

// Each request is sent twice. The second one creates another check only if the first one has
// definitely created none.
func TestShop_Payout(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for n, row := range []struct {
		name, number, signup string
		fault                sandboxfake.Fault
		want                 int
		error, again         string // the errors of both responses
		decision             string // empty if there is no result
		creates              int
	}{
		{"unchanged SIM", "447700900012", verified, sandboxfake.Fault{}, http.StatusOK, "", "", "allowed", 1},
		{"new SIM", "447700900018", verified, sandboxfake.Fault{}, http.StatusConflict, "sim_changed", "sim_changed", "held", 1},
		{"no result", "447700900099", verified, sandboxfake.Fault{}, http.StatusServiceUnavailable, "unknown", "unknown", "unknown", 1},
		{"balance too low", "447700900032", verified, sandboxfake.Fault{Status: http.StatusPaymentRequired}, http.StatusServiceUnavailable, "unavailable", "unavailable", "", 2},
		{"outcome unknown", "447700900042", verified, sandboxfake.Fault{Drop: true}, http.StatusServiceUnavailable, pending, pending, "", 1},
		{"not verified", "447700900052", pending, sandboxfake.Fault{}, http.StatusConflict, "not_verified", "not_verified", "", 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			id := s.signUp(t, row.number, row.signup)
			other := fmt.Sprintf("4477009%03d10", n) // the shop limits the sign-ins of a number
			b := s.signedIn(t, other)
			// A number without a result cannot sign in.
			s.value(t, "UPDATE sessions SET phone_number = $1 WHERE phone_number = $2 RETURNING ''", row.number, other)
			before := s.calls("sim_check.create")
			remove := s.service.Inject(sandboxfake.Match{Operation: "sim_check.create"}, row.fault, row.fault)
			defer remove()

			first := b.payOut("p-1", id, 5000)
			if row.decision != "" {
				s.awaitDecision(t)
			}
			second := b.payOut("p-1", id, 5000)

			if first.status != row.want || first.text("error") != row.error || first.body["allowed"] == true != (row.want == http.StatusOK) {
				t.Errorf("response = %d %v, want %d %s", first.status, first.body, row.want, row.error)
			}
			if second.status != row.want || second.text("error") != row.again || second.body["allowed"] == true != (row.want == http.StatusOK) {
				t.Errorf("second response = %d %v, want %d %s", second.status, second.body, row.want, row.again)
			}
			if n := s.calls("sim_check.create") - before; n != row.creates {
				t.Errorf("%d creates, want %d: each one is charged", n, row.creates)
			}
			if row.decision == "" {
				return
			}
			if decision := s.value(t, "SELECT string_agg(decision, ' ') FROM payouts WHERE signup_id = $1", id); decision != row.decision {
				t.Errorf("stored decisions = %q, want %q", decision, row.decision)
			}
		})
	}
}

// The result of the check cannot be stored.
func TestShop_PayoutNotRecorded(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.signUp(t, "447700900012", verified)
	b := s.signedIn(t, "447700900012")
	must(s.db.Exec(t.Context(), `
		CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'failed'; END $$;
		CREATE TRIGGER fail BEFORE UPDATE ON idverify_checks FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION fail()`))(t)

	first, second := b.payOut("p-1", id, 5000), b.payOut("p-1", id, 5000)

	for _, got := range []reply{first, second} {
		if got.status != http.StatusServiceUnavailable || got.text("error") != pending {
			t.Errorf("response = %d %v, want 503 pending", got.status, got.body)
		}
	}
	if n := s.calls("sim_check.create"); n != 1 {
		t.Errorf("%d creates, want 1: each one is charged", n)
	}
	if got := s.value(t, "SELECT string_agg(decision, ' ') FROM payouts"); got != pending {
		t.Errorf("stored decisions = %q, want pending", got)
	}
}

// An attacker may have sent the Check URL of the sign-up to its victim.
func TestShop_PayoutRequiresSession(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.signUp(t, "447700900012", verified)
	started, expired := s.browser(t), s.signedIn(t, "447700900012")
	started.begin("447700900012")
	s.value(t, "UPDATE sessions SET created_at = created_at - interval '12 hours' RETURNING ''")
	for _, row := range []struct {
		name  string
		b     *browser
		want  int
		error string
	}{
		{"no session", s.browser(t), http.StatusUnauthorized, "not_signed_in"},
		{"started sign-in", started, http.StatusUnauthorized, "not_signed_in"},
		{"expired session", expired, http.StatusUnauthorized, "not_signed_in"},
		{"session of another number", s.signedIn(t, "447700900014"), http.StatusForbidden, "other_number"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := row.b.payOut("p-1", id, 5000)

			if got.status != row.want || got.text("error") != row.error {
				t.Errorf("response = %d %v, want %d %s", got.status, got.body, row.want, row.error)
			}
			if n := s.calls("sim_check.create"); n != 0 {
				t.Errorf("%d checks, want 0", n)
			}
		})
	}
}

func TestShop_PayoutRejectsRequest(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.signUp(t, "447700900012", verified)
	b := s.signedIn(t, "447700900012")
	b.payOut("stored", id, 5000)
	for _, row := range []struct {
		name, id, signup string
		amount, want     int
	}{
		{"unknown sign-up", "p-1", "x", 5000, http.StatusNotFound},
		{"no amount", "p-1", id, 0, http.StatusUnprocessableEntity},
		{"negative amount", "p-1", id, -1, http.StatusUnprocessableEntity},
		{"no ID", "", id, 5000, http.StatusUnprocessableEntity},
		{"long ID", strings.Repeat("p", 65), id, 5000, http.StatusUnprocessableEntity},
		{"control character in the ID", "p\n1", id, 5000, http.StatusUnprocessableEntity},
		{"other amount with the same ID", "stored", id, 5001, http.StatusUnprocessableEntity},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := b.payOut(row.id, row.signup, row.amount)

			if got.status != row.want || s.calls("sim_check.create") != 1 {
				t.Errorf("status = %d and %d checks, want %d and 1", got.status, s.calls("sim_check.create"), row.want)
			}
		})
	}
	if got := b.post("/payouts", "x"); got.status != http.StatusBadRequest {
		t.Errorf("status without JSON = %d, want 400", got.status)
	}
}
