package main

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"net/http"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
)

// signUp creates a check for a new customer. The app opens the Check URL on the phone, over its
// mobile data connection.
//
// A sign-up that is verified proves that the phone which opened the Check URL has the number, and
// that its SIM is not new. It does not prove that this is the phone of the app that signed up:
// anyone can send the Check URL to somebody else, who opens it. So what costs money or shows
// personal data requires a session: see payout.
//
// Each request costs a check. nginx limits them by address; limit them by number, too, as allow
// limits sign-ins.
func (s *shop) signUp(w http.ResponseWriter, r *http.Request) {
	number, ok := phoneNumber(w, r)
	if !ok {
		return
	}
	ctx, cancel := detach(r)
	defer cancel()
	id := rand.Text()
	if err := s.plan(ctx, idverify.ProductSubscriberCheck, id, "INSERT INTO signups (id, phone_number) VALUES ($1, $2)", id, number); err != nil {
		s.unavailable(w, r, "sign-up not stored", err)
		return
	}
	check, err := s.checks.CreateSubscriberCheck(ctx, s.client, idverify.SubscriberCheckParams{PhoneNumber: number, ReferenceID: id, CallbackURL: s.url("/callbacks")})
	switch {
	case err == nil:
		respond(w, http.StatusCreated, map[string]string{"id": id, "check_url": check.CheckURL})
	case errors.Is(err, idverify.ErrOutcomeUnknown):
		// There may be a check, so no other is created. The sign-up stays pending until its callback
		// arrives or Reconcile has read the check.
		s.log.ErrorContext(ctx, "sign-up without a Check URL", "signup", id, "error", err)
		respond(w, http.StatusAccepted, map[string]string{"id": id, "status": pending})
	default:
		if _, dbErr := s.db.ExecContext(ctx, "UPDATE signups SET status = 'failed' WHERE id = $1 AND status = 'pending'", id); dbErr != nil {
			s.log.ErrorContext(ctx, "sign-up not ended", "signup", id, "error", dbErr)
		}
		s.notCreated(w, r, err)
	}
}

// signUpStatus responds with the status of a sign-up, and nothing else. The ID is not a secret: it
// is the reference of the check, which the service stores and logs contain.
func (s *shop) signUpStatus(w http.ResponseWriter, r *http.Request) {
	var status string
	err := s.db.QueryRowContext(r.Context(), "SELECT status FROM signups WHERE id = $1", r.PathValue("id")).Scan(&status)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		respond(w, http.StatusNotFound, map[string]string{"error": "not_found"})
	case err != nil:
		s.unavailable(w, r, "sign-up not read", err)
	default:
		respond(w, http.StatusOK, map[string]string{"status": status})
	}
}

// The statuses of a sign-up.
const (
	pending  = "pending"
	verified = "verified" // the phone has the number, and its SIM is not new
	rejected = "rejected" // the phone does not have the number, or its SIM is new
	failed   = "failed"   // no result: verify in another way
)

// signupStatus returns the status for the result of a SubscriberCheck.
func signupStatus(e *inbox.Entry) string {
	switch matched, unchanged := e.Match, e.NoSIMChange; {
	case matched == idverify.VerdictNo, unchanged == idverify.VerdictNo:
		return rejected
	case matched == idverify.VerdictYes && unchanged == idverify.VerdictYes:
		return verified
	}
	return failed
}
