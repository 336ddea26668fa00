package main

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
)

// The attacker is a customer of the service too. They check their own number, name our callback URL, and put the victim's name into the reference: the service signs that for our host.
func TestACheckOfAnotherCustomerDecidesNothing(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		age  time.Duration // when the attacker's phone opens its Check URL
		want []int
	}{
		{"while it could be ours", 0, []int{500, 500, 500, 204}},
		{"when it is too old for that", 90 * time.Second, []int{204}},
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
				t.Errorf("the service was answered %v, want %v", got, row.want)
			}
			want := []string{"447700900013: the Check URL was not opened in time: offer another try"}
			if diff := cmp.Diff(want, s.drain(t, len(want))); diff != "" {
				t.Errorf("an attacker decided for a customer; verdicts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestACallbackThatComesBeforeItsCheckIsStoredIsNotLost(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	check := s.create(t, s.client, "447700900012", "")
	s.open(t, check)

	s.add(t, check.CheckID, "447700900012")
	s.advance(t, time.Minute)

	if got := statuses(s.service.Deliveries()[0]); !slices.Equal(got, []int{http.StatusInternalServerError, http.StatusNoContent}) {
		t.Errorf("the service was answered %v, want 500 until the check is stored, then 204", got)
	}
	if diff := cmp.Diff([]string{"447700900012: verified"}, s.drain(t, 1)); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
}

// put is given what the service does not send today, so these make the callbacks by hand.
func TestWhatIsNotTheEndOfOurCheckIsNotStored(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string
		callback idverify.Callback
		want     outcome
	}{
		{"a kind of the future", idverify.Callback{Product: "invoice", CheckID: "ours", Status: idverify.StatusCompleted}, notFinal},
		{"a kind that has no callbacks", idverify.Callback{Product: idverify.ProductSIMCheck, CheckID: "ours", Status: idverify.StatusCompleted}, notFinal},
		{"a notice on the way", idverify.Callback{Product: idverify.ProductPhoneCheck, CheckID: "ours", Status: idverify.StatusPending}, notFinal},
		{"a status of the future", idverify.Callback{Product: idverify.ProductPhoneCheck, CheckID: "ours", Status: "FROZEN"}, notFinal},
		{"no status", idverify.Callback{Product: idverify.ProductPhoneCheck, CheckID: "ours"}, notFinal},
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
				t.Errorf("put answers %q, %v, want %q", got, err, row.want)
			}
			final := idverify.Callback{Product: idverify.ProductPhoneCheck, CheckID: "ours", Status: idverify.StatusExpired}
			if got, err := store.put(t.Context(), &final); got != stored || err != nil {
				t.Errorf("the end that comes after it: %q, %v, want it stored: it was swallowed", got, err)
			}
		})
	}
}
