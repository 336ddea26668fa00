package main

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/sandboxfake"
)

const notOpened = "the Check URL was not opened in time: offer a new check"

func TestBackend_ResultsOfSignUps(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, number string
		open         bool
		want         string
	}{
		{"match", "447700900012", true, "verified"},
		{"no match", "447700900013", true, "not verified: another phone has this number"},
		{"error", "447700900055", true, "no result from the mobile network (mno_server_error): verify in another way"},
		{"not opened", "447700900014", false, notOpened},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			b := s.start(t)
			b.work()

			reference, checkURL := b.mustSignUp(t, row.number)
			if row.open {
				s.open(t, checkURL)
			}
			s.advance(t, 3*time.Minute)

			if got := b.await(t, reference); got != row.want {
				t.Errorf("result = %q, want %q", got, row.want)
			}
		})
	}
}

func TestBackend_CreateWithoutResponse(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	b := s.start(t)
	s.service.Inject(sandboxfake.Match{Operation: "phone_check.create"}, sandboxfake.Fault{Drop: true})

	_, _, err := b.signUp(t.Context(), "customer", "447700900012")
	if !errors.Is(err, idverify.ErrOutcomeUnknown) {
		t.Fatalf("error = %v, want ErrOutcomeUnknown", err)
	}
	s.advance(t, time.Minute)
	noError(t, b.checks.Reconcile(t.Context(), b.client))
	s.advance(t, 2*time.Minute)
	b.work()

	var reference string
	noError(t, b.db.QueryRowContext(t.Context(), "SELECT reference FROM sign_ups").Scan(&reference))
	if got := b.await(t, reference); got != notOpened {
		t.Errorf("result = %q, want %q: the check was lost", got, notOpened)
	}
}

func TestBackend_ContinuesAfterRestart(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	first := s.start(t)
	reference, checkURL := first.mustSignUp(t, "447700900012")
	s.open(t, checkURL)
	first.stop() // the result is stored and not processed
	if got := s.statuses(); !slices.Equal(got, []int{http.StatusNoContent}) {
		t.Fatalf("statuses = %v, want 204", got)
	}

	second := s.start(t)
	second.work()

	if got := second.await(t, reference); got != "verified" {
		t.Errorf("result = %q, want %q", got, "verified")
	}
	second.stop()
	third := s.start(t)
	if e := third.entry(t, reference); e.Attempts != 1 || e.DoneAt.IsZero() {
		t.Errorf("entry = %+v, want one attempt, done", e)
	}
}

// The device opens the Check URL, and the callback arrives, while Create returns and before Bind.
func TestBackend_CallbackBeforeBind(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	b := s.start(t)
	b.client = s.service.Client(idverify.WithHTTPClient(&http.Client{Transport: opener{t, s}}))
	b.work()

	reference, _ := b.mustSignUp(t, "447700900012")
	s.advance(t, time.Minute)

	if got := s.statuses(); !slices.Equal(got, []int{http.StatusServiceUnavailable, http.StatusNoContent}) {
		t.Errorf("statuses = %v, want 503 until the check ID is stored, then 204", got)
	}
	if got := b.await(t, reference); got != "verified" {
		t.Errorf("result = %q, want %q", got, "verified")
	}
}

// The attacker is another customer of the service, who checks their own number with our callback
// URL and the reference of a victim's sign-up. The service signs this callback for our host.
func TestBackend_CheckOfOtherCustomer(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	b := s.start(t)
	b.work()
	reference, _ := b.mustSignUp(t, "447700900013")
	attacker := s.service.NewWorkspace("Attacker").NewProject(idverify.ProjectParams{Name: "Attack", Mode: idverify.ModeSandbox}).Client()
	check := must(attacker.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012", ReferenceID: reference, CallbackURL: callbackURL}))(t)

	s.open(t, check.CheckURL)
	s.advance(t, 3*time.Minute)

	if got := b.await(t, reference); got != notOpened {
		t.Errorf("result = %q, want %q: an attacker decided a customer's check", got, notOpened)
	}
}

func TestDescribe_UnknownResult(t *testing.T) {
	t.Parallel()

	got := describe(&inbox.Entry{Product: idverify.ProductPhoneCheck, Status: inbox.StatusLost})

	if want := "no result: verify in another way"; got != want {
		t.Errorf("describe = %q, want %q", got, want)
	}
}

// noError and must fail the test if err is not nil. must returns v.
var noError = tooltest.NoError

func must[T any](v T, err error) func(testing.TB) T { return tooltest.Must(v, err) }
