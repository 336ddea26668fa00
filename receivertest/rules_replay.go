package receivertest

import (
	"context"
	"fmt"
	"time"

	"github.com/idverify/idverify-go/internal/attack"
)

// replayRules returns the rules about messages that are sent twice, and about checks that must have
// no effect.
func replayRules(kind Kind) []rule {
	rules := []rule{{
		name: "effect", severity: SeverityHigh, run: (*examination).effect,
		title:  "The receiver acts once on a valid message",
		reason: "A result that is acknowledged but has no effect is lost.",
	}, {
		name: "replay", severity: SeverityHigh, run: (*examination).replay,
		title:  "The receiver does not act again on a copy of a message",
		reason: "Anyone who has recorded a message can send it again within the clock skew.",
	}}
	if kind == KindRedirect {
		return append(rules, rule{
			name: "other-session", severity: SeverityCritical, run: (*examination).otherSession,
			title:  "The receiver does not act on a redirect in the session of another user",
			reason: "An attacker can send the redirect of an own check to a victim, or open the redirect of a victim.",
		}, rule{
			name: "other-check", severity: SeverityHigh, run: (*examination).otherCheck,
			title:  "The receiver compares the check that the service signed with that of the session",
			reason: "Another customer of the service can sign a redirect to your host with two check IDs, and anyone can add one to the query.",
		})
	}
	return append(rules, rule{
		name: "duplicate", severity: SeverityHigh, run: (*examination).duplicate,
		title:  "The receiver acknowledges a second callback about a check, and does not act again",
		reason: "The service may send a callback more than once, each time with a new signature.",
	}, rule{
		name: "unknown-check", severity: SeverityHigh, run: (*examination).unknownCheckIgnored,
		title:  "The receiver does not act on a check that its backend has not created",
		reason: "Another customer of the service can create a check with your callback URL.",
	}, rule{
		name: "other-product", severity: SeverityHigh, run: (*examination).otherProduct,
		title:  "The receiver does not act on a callback of another product than that of the check",
		reason: "A check of a weaker product must not be used in place of the one that was created.",
	})
}

const (
	withoutEffects = "needs a probe with Effects (GET), which observes whether the receiver acts"
	withoutCreated = "needs a probe with Created (PUT), so that the receiver knows some checks and not others"
	withoutSession = "needs a probe with Session (POST), which starts sessions"
	withoutEffect  = "the receiver does not act on a valid message, see the rule effect"
)

// acceptedOnce sends a valid message about a new check and waits for its effect. If o is not empty,
// the rule ends with it.
func (e *examination) acceptedOnce(ctx context.Context) (s subject, a attempt, n int, o outcome, err error) {
	if s, err = e.newSubject(ctx, phoneCheck); err != nil {
		return
	}
	if a, err = e.sendPatiently(ctx, s, e.signed); err != nil {
		return
	}
	if !e.accepted(a) {
		o = notApplicable("the first message is not accepted: " + describe(a.response))
		return
	}
	if n, err = e.awaitEffect(ctx, s.checkID); unsupported(err) {
		n, err = 0, nil
	} else if err == nil && n == 0 {
		o = notApplicable(withoutEffect)
	}
	return
}

// ensureActs sends a valid message unless the receiver has already acted on one. If o is not empty,
// missing effects prove nothing, and the rule ends with it.
func (e *examination) ensureActs(ctx context.Context) (o outcome, err error) {
	if !e.acts {
		_, _, _, o, err = e.acceptedOnce(ctx)
	}
	return o, err
}

func (e *examination) effect(ctx context.Context) (outcome, error) {
	if e.Probe.Effects == nil {
		return notApplicable(withoutEffects), nil
	}
	s, err := e.newSubject(ctx, phoneCheck)
	if err != nil {
		return outcome{}, err
	}
	a, err := e.sendPatiently(ctx, s, e.signed)
	if err != nil {
		return outcome{}, err
	}
	n, err := e.awaitEffect(ctx, s.checkID)
	if err != nil {
		return outcome{}, err
	}
	if n == 1 {
		n, err = e.settled(ctx, s.checkID)
	}
	switch {
	case err != nil:
		return outcome{}, err
	case n == 0 && !s.known:
		return notApplicable("no effect, because the receiver does not know the check: " + withoutCreated), nil
	case n == 0:
		return failed("", a, "did not act on a valid message within "+seconds(effectTimeout), describe(a.response)), nil
	case n > 1:
		return failed("", a, fmt.Sprintf("acted %d times on one message", n), describe(a.response)), nil
	}
	return passed(""), nil
}

func (e *examination) replay(ctx context.Context) (outcome, error) {
	for range 3 {
		s, a, n, o, err := e.acceptedOnce(ctx)
		if err != nil || o.result != "" {
			return o, err
		}
		again, err := e.send(ctx, a.message, s, a.date)
		if err != nil {
			return outcome{}, err
		}
		if !e.rejected(again) || e.Now().Sub(a.date) < maxDelay {
			return e.secondMessage(ctx, again, n)
		}
	}
	return notApplicable("the receiver is too slow: it may have rejected the copy because of its old date"), nil
}

func (e *examination) duplicate(ctx context.Context) (outcome, error) {
	s, _, n, o, err := e.acceptedOnce(ctx)
	if err != nil || o.result != "" {
		return o, err
	}
	// With the same date, the message would be a copy. Receivers allow some clock skew.
	again, err := e.sendPatiently(ctx, s, func(s attack.Setup) *attack.Message {
		s.Now = s.Now.Add(time.Second)
		return e.signed(s)
	})
	if err != nil {
		return outcome{}, err
	}
	if !e.accepted(again) {
		return failed(SeverityLow, again, "did not acknowledge a second callback about a check", describe(again.response)+": the service counts the delivery as failed, and after 5XX sends it again"), nil
	}
	return e.secondMessage(ctx, again, n)
}

// secondMessage returns the outcome after a second message about a check with n effects.
func (e *examination) secondMessage(ctx context.Context, again attempt, n int) (outcome, error) {
	after, err := e.settled(ctx, again.checkID)
	switch {
	case err != nil && !unsupported(err):
		return outcome{}, err
	case err == nil && after > n:
		return failed("", again, fmt.Sprintf("acted again on the check (%d effects)", after), describe(again.response)), nil
	case e.rejected(again):
		return passed(""), nil
	case !e.accepted(again):
		return failed(SeverityLow, again, "neither rejected nor acknowledged a second message about a check", describe(again.response)+", want 400 or 2XX"), nil
	case unsupported(err):
		return notApplicable("accepted, which is harmless if the receiver does not act again: " + withoutEffects), nil
	}
	return passed(""), nil
}

func (e *examination) unknownCheckIgnored(ctx context.Context) (outcome, error) {
	known, err := e.newSubject(ctx, phoneCheck)
	if err != nil {
		return outcome{}, err
	}
	if !known.known {
		return notApplicable(withoutCreated), nil
	}
	return e.noEffect(ctx, subject{checkID: newCheckID(), header: e.Header}, "a check that its backend has not created")
}

func (e *examination) otherProduct(ctx context.Context) (outcome, error) {
	s, err := e.newSubject(ctx, subscriberCheck)
	if err != nil {
		return outcome{}, err
	}
	if !s.known {
		return notApplicable(withoutCreated), nil
	}
	return e.noEffect(ctx, s, "a callback of another product than that of the check")
}

// noEffect sends a valid message about a check, which must have no effect whatever the response is.
// what describes the message.
func (e *examination) noEffect(ctx context.Context, s subject, what string) (outcome, error) {
	if e.Probe.Effects == nil {
		return notApplicable(withoutEffects), nil
	}
	if o, err := e.ensureActs(ctx); err != nil || o.result != "" {
		return o, err
	}
	a, err := e.sendValid(ctx, s, nil)
	if err != nil {
		return outcome{}, err
	}
	n, err := e.settled(ctx, s.checkID)
	if err != nil {
		return outcome{}, err
	}
	if n > 0 {
		return failed("", a, "acted on "+what, describe(a.response)), nil
	}
	return passed(""), nil
}

func (e *examination) otherSession(ctx context.Context) (outcome, error) {
	if e.Probe.Session == nil {
		return notApplicable(withoutSession), nil
	}
	if o, err := e.ensureActs(ctx); err != nil || o.result != "" {
		return o, err
	}
	own, err := e.newSubject(ctx, phoneCheck)
	if err != nil {
		return outcome{}, err
	}
	other, err := e.newSubject(ctx, phoneCheck)
	if err != nil {
		return outcome{}, err
	}
	own.header = other.header
	a, err := e.sendValid(ctx, own, nil)
	if err != nil {
		return outcome{}, err
	}
	for _, id := range []string{own.checkID, other.checkID} {
		n, err := e.settled(ctx, id)
		if unsupported(err) {
			break
		}
		if err != nil {
			return outcome{}, err
		}
		if n > 0 {
			return failed("", a, "acted on a redirect in the session of another user", describe(a.response)), nil
		}
	}
	switch {
	case e.rejected(a), e.Probe.Effects != nil && e.acts:
		return passed(""), nil
	case a.status/100 == 3 && location(a) == location(e.valid):
		return failed("", a, "accepted a redirect in the session of another user", describe(a.response)+", as in the session that started the check"), nil
	}
	return notApplicable(describe(a.response) + ": " + withoutEffects), nil
}

// storeRules returns the rules about a store that hangs.
func storeRules() []rule {
	return []rule{{
		name: "slow-store", severity: SeverityHigh, run: (*examination).slowStore,
		title:  "The receiver responds with 5XX within 10 s while its store hangs",
		reason: "After a timeout or any other response the service does not send the callback again, so the result is lost.",
	}, {
		name: "slow-store-retry", severity: SeverityHigh, run: (*examination).slowStoreRetry,
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
