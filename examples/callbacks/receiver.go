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

// receiver is the handler of the callback URL: it verifies a callback, stores it with the check of ours that it is about, and acknowledges it. What the callback is for is done afterwards, by work.
//
// That a callback verifies does not make it one of ours. Whoever creates a check names its callback URL, so another customer of the service can name this one, with a phone number and a ReferenceID of their choice,
// and the service signs their callback for our host. What they cannot choose is the check_id: store therefore takes those alone that our backend stored when it created the check.
//
// idverify.CallbackHandler does the same in fewer lines. This one is written out because it also tells a young check from an old one, and logs what it refuses, and why.
type receiver struct {
	verifier *signature.Verifier
	store    func(context.Context, *idverify.Callback) (outcome, error)
	log      *slog.Logger
}

func (rc *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	message, err := rc.verifier.VerifyCallback(r)
	if err != nil {
		rc.log.WarnContext(r.Context(), "callback not accepted", "error", err)
		if e, ok := errors.AsType[*signature.Error](err); ok && e.Retryable() {
			// It may be a good one. The service tries again after a 5XX, and after nothing else.
			w.Header().Set("Retry-After", "10")
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		http.Error(w, "bad callback", http.StatusBadRequest)
		return
	}

	callback, err := idverify.ParseCallback(message)
	if err != nil {
		// Signed by the service, and yet we cannot read it: that is ours to mend, so it must come again.
		rc.log.ErrorContext(r.Context(), "callback not read", "error", err)
		http.Error(w, "try again", http.StatusInternalServerError)
		return
	}
	outcome, err := rc.store(r.Context(), callback)
	if err != nil {
		rc.log.ErrorContext(r.Context(), "callback not stored", "check_id", callback.CheckID, "error", err)
		http.Error(w, "try again", http.StatusInternalServerError)
		return
	}
	rc.log.InfoContext(r.Context(), "callback verified", "check_id", callback.CheckID, "status", callback.Status, "outcome", outcome)
	if outcome == unknown && recent(callback, message.Date) {
		http.Error(w, "try again", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// createTime is more than our backend takes from the service's creating a check until it stored the check.
const maxCreateTime = time.Minute

// young tells that an unknown check may be ours all the same: a device can be quicker than the answer to Create and the row that we write then, and so can its callback.
// Acknowledged, such a callback would be lost. Refused with a 5XX, it comes again, six times in all over minutes, and finds the row.
// An older check is somebody else's, or one whose Create failed on our side, which nobody waits for: its callback need not come again.
// Both times are the service's, so our clock does not matter.
func recent(c *idverify.Callback, signed time.Time) bool {
	return c.CreatedAt.IsZero() || signed.Sub(c.CreatedAt) < maxCreateTime
}
