package receivertest

import (
	"context"
	"fmt"
	"time"

	"github.com/idverify/idverify-go/internal/attack"
)

// storeRules returns the rules about a store that hangs.
func storeRules() []rule {
	return []rule{{
		name: "slow-store", severity: High, run: (*examination).slowStore,
		title:  "The receiver responds with 5XX within 10 s while its store hangs",
		reason: "After a timeout or any other response the service does not send the callback again, so the result is lost.",
	}, {
		name: "slow-store-retry", severity: High, run: (*examination).slowStoreRetry,
		title:  "The receiver accepts the callback that the service sends after a 5XX, and acts once",
		reason: "A receiver that has marked the callback as received before it stored it loses the result.",
	}}
}

// retryPatience is how long a receiver may respond with 5XX after its store has recovered.
const retryPatience = 30 * time.Second

// slowStoreResult is the result of a message while the store hangs.
type slowStoreResult struct {
	subject subject
	attempt attempt
}

// withSlowStore makes the store hang and sends a message, once per examination.
func (e *examination) withSlowStore(ctx context.Context) (result *slowStoreResult, err error) {
	if e.slow != nil {
		return e.slow, nil
	}
	s, err := e.newSubject(ctx, phoneCheck)
	if err != nil {
		return nil, err
	}
	if err := e.probeSlowStore(ctx, true); err != nil {
		return nil, err
	}
	defer func() {
		// The store must work again even if ctx is done.
		if restored := e.probeSlowStore(context.WithoutCancel(ctx), false); err == nil {
			err = restored
		}
	}()
	a, err := e.sendValid(ctx, s, nil)
	if err != nil {
		return nil, err
	}
	e.slow = &slowStoreResult{subject: s, attempt: a}
	return e.slow, nil
}

const withoutSlowStore = "needs a probe with SlowStore (POST), which makes the store hang"

func (e *examination) slowStore(ctx context.Context) (outcome, error) {
	if e.Probe.SlowStore == nil {
		return notApplicable(withoutSlowStore), nil
	}
	r, err := e.withSlowStore(ctx)
	if err != nil {
		return outcome{}, err
	}
	if r.attempt.failure == responded && r.attempt.status/100 == 5 {
		return passed(""), nil
	}
	return failed("", r.attempt, "did not respond with 5XX while its store hung", describe(r.attempt.response)), nil
}

func (e *examination) slowStoreRetry(ctx context.Context) (outcome, error) {
	if e.Probe.SlowStore == nil {
		return notApplicable(withoutSlowStore), nil
	}
	r, err := e.withSlowStore(ctx)
	if err != nil {
		return outcome{}, err
	}
	if r.attempt.failure != responded || r.attempt.status/100 != 5 {
		return notApplicable("the service does not send the callback again after: " + describe(r.attempt.response)), nil
	}
	for started := time.Now(); ; {
		// The date differs from that of the first message.
		a, err := e.sendValid(ctx, r.subject, func(s *attack.Setup) { s.Now = s.Now.Add(time.Second) })
		switch {
		case err != nil:
			return outcome{}, err
		case e.accepted(a):
			return e.actedOnce(ctx, r.subject, a)
		case a.failure != responded || a.status/100 != 5:
			return failed("", a, "rejected the callback that the service sends after a 5XX", describe(a.response)+", so the result is lost"+excerpt(a.response)), nil
		case time.Since(started) >= retryPatience:
			return failed("", a, "did not accept the callback that the service sends after a 5XX within "+seconds(retryPatience), describe(a.response)), nil
		}
		if err := pause(ctx, time.Second); err != nil {
			return outcome{}, err
		}
	}
}

// actedOnce returns the outcome of an accepted message, which must have one effect.
func (e *examination) actedOnce(ctx context.Context, s subject, a attempt) (outcome, error) {
	if e.Probe.Effects == nil {
		return passed(""), nil
	}
	if o, err := e.ensureActs(ctx); unsupported(err) || o.result != "" {
		return passed(""), nil
	} else if err != nil {
		return o, err
	}
	n, err := e.awaitEffect(ctx, s.checkID)
	if err == nil && n > 0 {
		n, err = e.settled(ctx, s.checkID)
	}
	if err != nil {
		return outcome{}, err
	}
	if n != 1 {
		return failed("", a, fmt.Sprintf("acted %d times on a callback that the service sent twice", n), describe(a.response)), nil
	}
	return passed(""), nil
}
