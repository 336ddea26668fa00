package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"net/http"
	"strings"

	"github.com/idverify/idverify-go"
)

// payoutRequest requests a payout to a customer.
type payoutRequest struct {
	ID       string `json:"id"` // 1 to 64 printable ASCII characters, unique for each sign-up
	SignupID string `json:"signup_id"`
	Amount   int64  `json:"amount"` // in cents
}

// payout checks the SIM of a customer before money leaves. The caller must be signed in with the
// number of the sign-up: the sign-up does not prove who sends this request.
//
// If the request is repeated with the same ID, payout responds with the stored decision and creates
// no other check. Use the ID as the idempotency key of the transfer, too.
func (s *shop) payout(w http.ResponseWriter, r *http.Request) {
	var request payoutRequest
	if !read(w, r, &request) {
		return
	}
	notPrintable := func(c rune) bool { return c < ' ' || c > '~' }
	if n := len(request.ID); n < 1 || n > 64 || strings.ContainsFunc(request.ID, notPrintable) || request.Amount <= 0 {
		respond(w, http.StatusUnprocessableEntity, map[string]string{"error": "invalid_id_or_amount"})
		return
	}
	ctx, cancel := detach(r)
	defer cancel()
	number, ok := s.payee(ctx, w, r, request.SignupID)
	if !ok {
		return
	}
	reference := rand.Text()
	err := s.plan(ctx, idverify.ProductSIMCheck, reference, "INSERT INTO payouts (signup_id, id, reference, amount) VALUES ($1, $2, $3, $4) ON CONFLICT (signup_id, id) DO NOTHING",
		request.SignupID, request.ID, reference, request.Amount)
	switch {
	case errors.Is(err, errStored):
		s.repeatedPayout(ctx, w, r, request)
		return
	case err != nil:
		s.unavailable(w, r, "payout not stored", err)
		return
	}
	check, err := s.checks.CreateSIMCheck(ctx, s.client, idverify.SIMCheckParams{PhoneNumber: number, ReferenceID: reference})
	switch {
	case err == nil:
		decided(w, payoutDecision(check.NoSIMChange))
	case errors.Is(err, idverify.ErrOutcomeUnknown):
		// There may be a check, so no other is created. The payout stays pending until Reconcile has
		// read the check.
		s.log.ErrorContext(ctx, "payout without a result", "reference", reference, "error", err)
		decided(w, pending)
	default:
		// There is no check, so the request may be repeated with the same ID.
		if _, dbErr := s.db.ExecContext(ctx, "DELETE FROM payouts WHERE reference = $1 AND decision = 'pending'", reference); dbErr != nil {
			s.log.ErrorContext(ctx, "payout not deleted", "reference", reference, "error", dbErr)
		}
		s.notCreated(w, r, err)
	}
}

// payee returns the number of a verified sign-up if the caller is signed in with it. Otherwise
// payee responds.
func (s *shop) payee(ctx context.Context, w http.ResponseWriter, r *http.Request, signupID string) (number string, ok bool) {
	var status string
	signedIn, err := s.signedIn(ctx, r)
	if errors.Is(err, sql.ErrNoRows) {
		respond(w, http.StatusUnauthorized, map[string]string{"error": "not_signed_in"})
		return "", false
	}
	if err == nil {
		err = s.db.QueryRowContext(ctx, "SELECT phone_number, status FROM signups WHERE id = $1", signupID).Scan(&number, &status)
	}
	switch {
	case errors.Is(err, sql.ErrNoRows):
		respond(w, http.StatusNotFound, map[string]string{"error": "not_found"})
	case err != nil:
		s.unavailable(w, r, "payee not read", err)
	case number != signedIn:
		respond(w, http.StatusForbidden, map[string]string{"error": "other_number"})
	case status != verified:
		respond(w, http.StatusConflict, map[string]string{"error": "not_verified"})
	default:
		return number, true
	}
	return "", false
}

// repeatedPayout responds with the stored decision.
func (s *shop) repeatedPayout(ctx context.Context, w http.ResponseWriter, r *http.Request, request payoutRequest) {
	var amount int64
	var decision string
	err := s.db.QueryRowContext(ctx, "SELECT amount, decision FROM payouts WHERE signup_id = $1 AND id = $2", request.SignupID, request.ID).Scan(&amount, &decision)
	switch {
	case err != nil:
		s.unavailable(w, r, "payout not read", err)
	case amount != request.Amount:
		respond(w, http.StatusUnprocessableEntity, map[string]string{"error": "other_amount"})
	default:
		decided(w, decision)
	}
}

// decided responds with a decision.
func decided(w http.ResponseWriter, decision string) {
	switch decision {
	case "allowed":
		respond(w, http.StatusOK, map[string]bool{"allowed": true})
	case "held":
		respond(w, http.StatusConflict, map[string]any{"allowed": false, "error": "sim_changed"})
	default: // unknown, or pending: repeat the request later
		respond(w, http.StatusServiceUnavailable, map[string]any{"allowed": false, "error": decision})
	}
}

// payoutDecision returns the decision for the result of a SIMCheck.
func payoutDecision(unchanged idverify.Verdict) string {
	switch unchanged {
	case idverify.VerdictYes:
		return "allowed"
	case idverify.VerdictNo:
		return "held" // a person reviews the payout
	}
	return "unknown" // ask the customer for another proof of identity
}
