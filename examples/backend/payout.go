package main

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"net/http"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
)

// payout checks the SIM of a customer before money leaves. It is for the shop's own payment system,
// which authenticates the customer.
func (s *shop) payout(w http.ResponseWriter, r *http.Request) {
	var request struct {
		SignupID string `json:"signup_id"`
		Amount   int64  `json:"amount"` // in cents
	}
	if !read(w, r, &request) {
		return
	}
	if request.Amount <= 0 {
		respond(w, http.StatusUnprocessableEntity, map[string]string{"error": "invalid_amount"})
		return
	}
	ctx, cancel := detach(r)
	defer cancel()
	var number, status string
	err := s.db.QueryRowContext(ctx, "SELECT phone_number, status FROM signups WHERE id = $1", request.SignupID).Scan(&number, &status)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		respond(w, http.StatusNotFound, map[string]string{"error": "not_found"})
		return
	case err != nil:
		s.unavailable(w, r, "sign-up not read", err)
		return
	case status != verified:
		respond(w, http.StatusConflict, map[string]string{"error": "not_verified"})
		return
	}
	reference := rand.Text()
	err = s.plan(ctx, idverify.ProductSIMCheck, reference, "INSERT INTO payouts (reference, signup_id, amount) VALUES ($1, $2, $3)", reference, request.SignupID, request.Amount)
	var check *idverify.SIMCheck
	if err == nil {
		check, err = s.client.SIMChecks.Create(ctx, idverify.SIMCheckParams{PhoneNumber: number, ReferenceID: reference})
	}
	if err == nil {
		_, err = s.checks.Record(ctx, inbox.ResultOf(check))
	}
	if err != nil {
		s.unavailable(w, r, "payout not checked", err)
		return
	}
	switch payoutDecision(check.SIMUnchanged()) {
	case "allowed":
		respond(w, http.StatusOK, map[string]bool{"allowed": true})
	case "held":
		respond(w, http.StatusConflict, map[string]any{"allowed": false, "error": "sim_changed"})
	default:
		respond(w, http.StatusServiceUnavailable, map[string]any{"allowed": false, "error": "unknown"})
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
