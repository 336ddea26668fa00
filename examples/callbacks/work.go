package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/idverify/idverify-go"
)

// The waits after work that failed.
const (
	firstWait = time.Second
	lastWait  = time.Minute
)

// work does what the stored callbacks are for, one after another, until ctx ends. What fails stays at the head of the inbox and is done again after a wait:
// do must bear being called twice for one check, since the process may end between the work and its record.
func work(ctx context.Context, b *inbox, log *slog.Logger, do func(context.Context, *idverify.Callback) error) {
	wait := firstWait
	for {
		callback := b.oldest()
		if callback == nil {
			select {
			case <-b.arrived:
				continue
			case <-ctx.Done():
				return
			}
		}
		err := do(ctx, callback)
		if err == nil {
			b.done()
			wait = firstWait
			continue
		}
		log.ErrorContext(ctx, "callback not worked off", "check_id", callback.CheckID, "wait", wait, "error", err)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		wait = min(2*wait, lastWait)
	}
}

// verdict is what a callback means for the customer. Status comes first: only a COMPLETED check has an answer, and Match is nil where there is none.
func verdict(c *idverify.Callback) string {
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
