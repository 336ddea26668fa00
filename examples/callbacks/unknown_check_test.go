package main

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
)

// The attacker is another customer of the service, who checks their own number with our callback
// URL and puts the victim's number into the reference. The service signs this callback for our
// host.
func TestReceiver_CheckOfOtherCustomer(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		age  time.Duration // of the check when the attacker opens it
		want []int
	}{
		{"recent check", 0, []int{500, 500, 500, 204}},
		{"old check", 90 * time.Second, []int{204}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.start(t, "447700900013", false)
			attacker := s.service.NewWorkspace("Attacker").NewProject(idverify.ProjectParams{Name: "Attack", Mode: idverify.ModeSandbox}).Client()
			check := s.create(t, attacker, "447700900012", "447700900013")
			s.advance(t, row.age)

			s.open(t, check)
			s.advance(t, 3*time.Minute)

			if got := statuses(s.service.Deliveries()[0]); !slices.Equal(got, row.want) {
				t.Errorf("statuses = %v, want %v", got, row.want)
			}
			want := []string{"447700900013: the Check URL was not opened in time: offer a new check"}
			if diff := cmp.Diff(want, s.drain(t, len(want))); diff != "" {
				t.Errorf("an attacker decided a customer's check; results (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReceiver_CallbackBeforeStoredCheck(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	check := s.create(t, s.client, "447700900012", "")
	s.open(t, check)

	s.add(t, check.CheckID, "447700900012")
	s.advance(t, time.Minute)

	if got := statuses(s.service.Deliveries()[0]); !slices.Equal(got, []int{http.StatusInternalServerError, http.StatusNoContent}) {
		t.Errorf("statuses = %v, want 500 until the check is stored, then 204", got)
	}
	if diff := cmp.Diff([]string{"447700900012: verified"}, s.drain(t, 1)); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

// The fake does not send such callbacks.
func TestChecks_Put(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string
		callback idverify.Callback
		want     outcome
	}{
		{"unknown product", idverify.Callback{Product: "invoice", CheckID: "ours", Status: idverify.StatusCompleted}, notFinal},
		{"product without callbacks", idverify.Callback{Product: idverify.ProductSIMCheck, CheckID: "ours", Status: idverify.StatusCompleted}, notFinal},
		{"status that is not final", idverify.Callback{Product: idverify.ProductPhoneCheck, CheckID: "ours", Status: idverify.StatusPending}, notFinal},
		{"unknown status", idverify.Callback{Product: idverify.ProductPhoneCheck, CheckID: "ours", Status: "FROZEN"}, notFinal},
		{"missing status", idverify.Callback{Product: idverify.ProductPhoneCheck, CheckID: "ours"}, notFinal},
		{"another product", idverify.Callback{Product: idverify.ProductSubscriberCheck, CheckID: "ours", Status: idverify.StatusCompleted}, unknown},
		{"another check", idverify.Callback{Product: idverify.ProductPhoneCheck, CheckID: "theirs", Status: idverify.StatusCompleted}, unknown},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			store := newChecks()
			if err := store.add(t.Context(), "ours", idverify.ProductPhoneCheck, "customer"); err != nil {
				t.Fatal(err)
			}

			got, err := store.put(t.Context(), &row.callback)

			if got != row.want || err != nil {
				t.Errorf("put = %q, %v, want %q", got, err, row.want)
			}
			final := idverify.Callback{Product: idverify.ProductPhoneCheck, CheckID: "ours", Status: idverify.StatusExpired}
			if got, err := store.put(t.Context(), &final); got != stored || err != nil {
				t.Errorf("put of the final result = %q, %v, want it stored", got, err)
			}
		})
	}
}
