package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/idverify/idverify-go"
)

// The waits after work that failed: doubled each time, up to the last.
const (
	minWait = time.Second
	maxWait = time.Minute
)

// work does what the stored callbacks are for, one after another, until ctx ends. What fails is put off and done again after a wait, and the others go on meanwhile: one that fails for ever must not hold up the rest.
// do must bear being called twice for one check, since the process may end between the work and its record.
func work(ctx context.Context, cs *checks, log *slog.Logger, do func(ctx context.Context, customer string, c *idverify.Callback) error) {
	for ctx.Err() == nil {
		c, ok := cs.next()
		if wait := time.Until(c.due); !ok || wait > 0 {
			sleep(ctx, cs.arrived, ok, wait)
			continue
		}
		id := c.callback.CheckID
		err := do(ctx, c.customer, c.callback)
		if err == nil {
			cs.finish(id)
			continue
		}
		wait := maxWait
		if c.attempts < 6 { // 64 s and more are over the last wait
			wait = minWait << c.attempts
		}
		log.ErrorContext(ctx, "callback not worked off", "check_id", id, "tries", c.attempts+1, "wait", wait, "error", err)
		cs.postpone(id, wait)
	}
}

// rest returns when a callback arrives, when ctx ends, and, if timed, after wait.
func sleep(ctx context.Context, arrived <-chan struct{}, timed bool, wait time.Duration) {
	var due <-chan time.Time
	if timed {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-arrived:
	case <-due:
	case <-ctx.Done():
	}
}

// verdict is what a callback means for the customer. Status comes first: only a COMPLETED check has an answer, and Match is nil where there is none.
func describe(c *idverify.Callback) string {
	switch {
	case c.Status == idverify.StatusExpired:
		return "the Check URL was not opened in time: offer another try"
	case c.Status == idverify.StatusError:
		return "the network gave no answer (" + c.ErrorCode + "): verify in another way"
	case c.Status != idverify.StatusCompleted || c.Match == nil:
		return "not known: verify in another way"
	case *c.Match:
		return "verified"
	}
	return "not verified: the number is another phone's"
}
