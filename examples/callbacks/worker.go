package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/idverify/idverify-go"
)

// The wait after a failure doubles from minWait to maxWait.
const (
	minWait = time.Second
	maxWait = time.Minute
)

// work processes the stored callbacks in turn until ctx ends. A callback whose processing fails is
// retried later and does not delay the others. do must be idempotent: the process may exit after do
// returns and before finish records it.
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
		if c.attempts < 6 { // 2⁶ s exceeds maxWait
			wait = minWait << c.attempts
		}
		log.ErrorContext(ctx, "callback not processed", "check_id", id, "attempt", c.attempts+1, "wait", wait, "error", err)
		cs.postpone(id, wait)
	}
}

// sleep returns when a callback arrives, when ctx ends, or, if timed is set, after wait.
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

// describe returns the message for the customer.
func describe(c *idverify.Callback) string {
	switch c.Matched() {
	case idverify.VerdictYes:
		return "verified"
	case idverify.VerdictNo:
		return "not verified: another phone has this number"
	}
	switch c.Status {
	case idverify.StatusExpired:
		return "the Check URL was not opened in time: offer a new check"
	case idverify.StatusError:
		return "no result from the mobile network (" + c.ErrorCode + "): verify in another way"
	}
	return "no result: verify in another way"
}
