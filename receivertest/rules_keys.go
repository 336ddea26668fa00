package receivertest

import (
	"context"
	"fmt"
	"time"

	"github.com/idverify/idverify-go/internal/attack"
)

// keySetRules returns the rules about the key set.
func keySetRules() []rule {
	const lost = "The message is genuine. After 4XX or a timeout the service does not send it again, so the result is lost."
	fault := func(name, what string, f keySetFault) rule {
		return rule{
			name: name, severity: SeverityHigh,
			title:  "The receiver responds with 5XX to a message with a new key while the key set " + what,
			reason: lost,
			run:    func(e *examination, ctx context.Context) (outcome, error) { return e.keySetFails(ctx, f) },
		}
	}
	return []rule{
		fault("key-set-error", "responds with 500", keySetError),
		fault("key-set-malformed", "is malformed", keySetMalformed),
		fault("key-set-hangs", "does not respond", keySetHangs),
		{
			name: "key-rotation", severity: SeverityHigh, run: (*examination).keyRotation,
			title:  "The receiver accepts a new key within a minute",
			reason: "When the service changes its key, a receiver that does not fetch the key set again loses all results.",
		},
	}
}

const (
	// keySetPatience is how long a receiver may go without a request for the key set: the default of
	// JWKSOptions.MinRefetch and of other libraries, and some seconds.
	keySetPatience = 35 * time.Second

	// rotationPatience is how soon a receiver must accept a new key. It is a minute, the shortest time
	// for which package signature uses a key set, and some seconds.
	rotationPatience = 65 * time.Second
)

// createNewKey creates the new key of this examination, without publishing it.
func (e *examination) createNewKey() (err error) {
	if e.newKey != nil {
		return nil
	}
	if e.newKey, err = e.Keys.generate(); err != nil {
		return fmt.Errorf("new key: %w", err)
	}
	return nil
}

// removeNewKey removes the new key from the key set.
func (e *examination) removeNewKey() {
	if e.newKey != nil {
		e.Keys.remove(&e.newKey.PublicKey)
	}
}

// sendWithNewKey sends a valid message that is signed with the new key. It reports whether the
// receiver requested the key set.
func (e *examination) sendWithNewKey(ctx context.Context) (a attempt, requested bool, err error) {
	before, _ := e.Keys.requested()
	s, err := e.newSubject(ctx, phoneCheck)
	if err != nil {
		return attempt{}, false, err
	}
	a, err = e.sendValid(ctx, s, func(s *attack.Setup) { s.Key, s.KeyID = e.newKey, keyIDOf(&e.newKey.PublicKey) })
	after, _ := e.Keys.requested()
	return a, after > before, err
}

// keySetFails sends messages with a new key until the receiver requests the key set, which fails.
// The key is not published, because a receiver may request the key set before the fault.
func (e *examination) keySetFails(ctx context.Context, fault keySetFault) (outcome, error) {
	if err := e.createNewKey(); err != nil {
		return outcome{}, err
	}
	e.Keys.setFault(fault)
	defer e.Keys.setFault(keySetWorks)
	for started := time.Now(); ; {
		a, requested, err := e.sendWithNewKey(ctx)
		late := time.Since(started) >= keySetPatience
		unavailable := a.failure == responded && a.status/100 == 5
		switch {
		case err != nil:
			return outcome{}, err
		case e.accepted(a):
			return unknownKey(SeverityCritical, a, "accepted"), nil
		case unavailable && requested:
			return e.withoutEffect(ctx, a, "")
		case unavailable && late:
			return e.withoutEffect(ctx, a, "without a request for the key set within "+seconds(keySetPatience))
		case requested || a.failure == silent:
			return failed("", a, "did not respond with 5XX while it could not fetch the key of a message", describe(a.response)+excerpt(a.response)), nil
		case late:
			return notApplicable("the receiver did not request the key set within " + seconds(keySetPatience) + "; see the rule key-rotation"), nil
		}
		if err := pause(ctx, time.Second); err != nil {
			return outcome{}, err
		}
	}
}

// unknownKey returns the outcome of a receiver that accepted or acted on a message without its key.
func unknownKey(severity Severity, a attempt, verb string) outcome {
	o := failed(severity, a, verb+" a message with a key that it cannot know", describe(a.response))
	o.reason = "Only keys that the service publishes prove that a message is from the service."
	return o
}

// withoutEffect returns the outcome of a message that is not accepted and must have no effect.
func (e *examination) withoutEffect(ctx context.Context, a attempt, detail string) (outcome, error) {
	n, err := e.settled(ctx, a.checkID)
	switch {
	case err != nil && !unsupported(err):
		return outcome{}, err
	case err == nil && n > 0:
		return unknownKey("", a, "acted on"), nil
	}
	return passed(detail), nil
}

// keyRotation sends messages with a new key until they are accepted.
func (e *examination) keyRotation(ctx context.Context) (outcome, error) {
	if err := e.createNewKey(); err != nil {
		return outcome{}, err
	}
	e.Keys.publish(&e.newKey.PublicKey)
	published, _ := e.Keys.requested()
	for started := time.Now(); ; {
		before, _ := e.Keys.requested()
		a, _, err := e.sendWithNewKey(ctx)
		late := time.Since(started) >= rotationPatience
		rejected := a.failure == responded && a.status/100 != 5
		switch {
		case err != nil:
			return outcome{}, err
		case e.accepted(a):
			return passed(""), nil
		case rejected && before > published:
			return failed("", a, "rejected a message although the key set that it has requested contains the key", describe(a.response)+excerpt(a.response)), nil
		case late || a.failure == silent:
			return failed("", a, "did not accept a new key within "+seconds(rotationPatience), describe(a.response)), nil
		}
		if err := pause(ctx, time.Second); err != nil {
			return outcome{}, err
		}
	}
}
