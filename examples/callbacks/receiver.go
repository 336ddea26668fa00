package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/signature"
)

// receiver is the handler for the callback URL. It verifies a callback, stores it with its check
// and acknowledges it. The function work processes it afterwards.
//
// A verified callback need not belong to one of our checks. Another customer of the service can
// create a check with our callback URL and a phone number and ReferenceID of their choice, and the
// service signs that callback for our host. They cannot choose the check_id, so store accepts only
// the checks that our backend created and stored.
//
// Consider idverify.CallbackHandler, which needs less code. This handler also makes the service
// retry callbacks of recent unknown checks, and logs each outcome.
type receiver struct {
	verifier *signature.Verifier
	store    func(context.Context, *idverify.Callback) (outcome, error)
	log      *slog.Logger
}

func (rc *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	message, err := rc.verifier.VerifyCallback(r)
	if err != nil {
		rc.log.WarnContext(r.Context(), "callback not verified", "error", err)
		if e, ok := errors.AsType[*signature.Error](err); ok && e.Retryable() {
			// The callback may be valid. The service retries after a 5xx status only.
			w.Header().Set("Retry-After", "10")
			http.Error(w, "verification unavailable", http.StatusServiceUnavailable)
			return
		}
		http.Error(w, "invalid callback", http.StatusBadRequest)
		return
	}

	callback, err := idverify.ParseCallback(message)
	if err != nil {
		// The service signed it, so the fault is ours. Make the service deliver it again.
		rc.log.ErrorContext(r.Context(), "callback not parsed", "error", err)
		http.Error(w, "callback not parsed", http.StatusInternalServerError)
		return
	}
	outcome, err := rc.store(r.Context(), callback)
	if err != nil {
		rc.log.ErrorContext(r.Context(), "callback not stored", "check_id", callback.CheckID, "error", err)
		http.Error(w, "callback not stored", http.StatusInternalServerError)
		return
	}
	rc.log.InfoContext(r.Context(), "callback verified", "check_id", callback.CheckID, "status", callback.Status, "outcome", outcome)
	if outcome == unknown && recent(callback, message.Date) {
		http.Error(w, "unknown check", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// maxCreateTime is longer than our backend needs to store a check that the service has created.
const maxCreateTime = time.Minute

// recent reports whether an unknown check may be one that our backend has not stored yet. A device
// can open the Check URL, and the callback can arrive, before our backend has stored the check. A
// callback acknowledged then is lost; after a 5xx status, the service makes up to six attempts over
// minutes.
//
// An older check belongs to someone else, or its Create failed on our side and nobody waits for it.
// Both times come from the service, so our clock does not matter.
func recent(c *idverify.Callback, signed time.Time) bool {
	return c.CreatedAt.IsZero() || signed.Sub(c.CreatedAt) < maxCreateTime
}
