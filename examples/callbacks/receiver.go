package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/signature"
)

// receiver is the handler of the callback URL: it verifies a callback, stores it, and acknowledges it. What the callback is for is done afterwards, by work.
//
// idverify.CallbackHandler does the same in one line. This one is written out because it also logs what it refuses, and why.
type receiver struct {
	verifier *signature.Verifier
	store    func(context.Context, *idverify.Callback) (fresh bool, err error)
	log      *slog.Logger
}

func (rc *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	message, err := rc.verifier.VerifyCallback(r)
	if err != nil {
		rc.log.WarnContext(r.Context(), "callback not accepted", "error", err)
		if e, ok := errors.AsType[*signature.Error](err); ok && e.Undecided() {
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
	fresh, err := rc.store(r.Context(), callback)
	if err != nil {
		rc.log.ErrorContext(r.Context(), "callback not stored", "check_id", callback.CheckID, "error", err)
		http.Error(w, "try again", http.StatusInternalServerError)
		return
	}
	rc.log.InfoContext(r.Context(), "callback stored", "check_id", callback.CheckID, "status", callback.Status, "fresh", fresh)
	w.WriteHeader(http.StatusNoContent)
}

// inbox keeps callbacks until they are worked off, each check once.
//
// This one is lost with the process. Yours is a table, and put and done are one statement each:
//
//	CREATE TABLE callbacks (check_id text PRIMARY KEY, body bytea NOT NULL, done boolean NOT NULL DEFAULT false)
//	INSERT INTO callbacks (check_id, body) VALUES ($1, $2) ON CONFLICT (check_id) DO NOTHING
//	UPDATE callbacks SET done = true WHERE check_id = $1
type inbox struct {
	arrived chan struct{} // holds one when something waits

	mu      sync.Mutex      // guards what follows
	seen    map[string]bool // by check id
	waiting []*idverify.Callback
}

func newInbox() *inbox {
	return &inbox{arrived: make(chan struct{}, 1), seen: make(map[string]bool)}
}

// put stores c unless its check is stored already: a check ends once, so a second callback of it says nothing new.
func (b *inbox) put(_ context.Context, c *idverify.Callback) (fresh bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen[c.CheckID] {
		return false, nil
	}
	b.seen[c.CheckID] = true
	b.waiting = append(b.waiting, c)
	select {
	case b.arrived <- struct{}{}:
	default: // it holds one already
	}
	return true, nil
}

// oldest is the callback that has waited longest, nil for none.
func (b *inbox) oldest() *idverify.Callback {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		return nil
	}
	return b.waiting[0]
}

// done takes the oldest out.
func (b *inbox) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = b.waiting[1:]
}
