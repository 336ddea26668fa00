package sandboxfake

import (
	"context"
	"fmt"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// Advance moves the server's clock forward by d and runs every event that becomes due, in order:
// checks expire, and callbacks are retried. A running clock continues from the new time.
//
// Advance first waits until no delivery is in flight, and for token renewals as WaitIdle does. It
// then runs each event with the clock held at the event's time, and waits until all deliveries in
// flight have ended and their next attempts are queued, and again for token renewals. Finally it
// sets the clock to the time at which the first wait ended, plus d.
//
// If ctx ends, or the server is reset or closed, Advance returns an error and the clock keeps the
// time that it has reached. A negative d is an error. Do not call it from a handler.
func (s *Server) Advance(ctx context.Context, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("sandboxfake: advance: negative duration %v", d)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("sandboxfake: advance: %w", err)
	}
	svc := s.lock()
	defer svc.mu.Unlock()
	svc.recent.add(recent{kind: recentAdvance, at: svc.clock.Now(), took: d})
	err := svc.advance(ctx, d)
	if err != nil {
		svc.recent.add(recent{kind: recentStopped, at: svc.clock.Now(), text: err.Error()})
		return fmt.Errorf("sandboxfake: advance: %w", err)
	}
	return nil
}

// WaitIdle waits until no delivery is in flight and no event is due now. It does not wait for
// attempts that are due later. Do not call it from a handler.
//
// A client renews its access token in the background while it still uses the current one. WaitIdle
// also waits for the renewals that operations of the server's clients started before they returned:
// those of [Server.Client], [Project.Client], [Server.Console] and [Account.Console]. It waits for
// them for at most 5 seconds, and not for a token request that a [Fault] delays.
func (s *Server) WaitIdle(ctx context.Context) error {
	svc := s.lock()
	defer svc.mu.Unlock()
	w := &renewalWait{service: svc}
	defer w.stop()
	if err := svc.await(ctx, func() bool { return !svc.clock.Held() && svc.idle() && w.done() }); err != nil {
		return fmt.Errorf("sandboxfake: wait idle: %w", err)
	}
	return nil
}

// awaitRenewals waits for token renewals as WaitIdle does.
func (s *Server) awaitRenewals() {
	svc := s.lock()
	defer svc.mu.Unlock()
	w := &renewalWait{service: svc}
	defer w.stop()
	_ = svc.await(context.Background(), w.done) // the server was reset or closed
}

// Expire makes a check of any project expire now, without moving the clock: the check becomes
// EXPIRED, it can no longer be read, and its callback is queued. If there is no such check, or if
// the check has already ended, the test fails.
func (s *Server) Expire(checkID string) {
	if err := s.expire(checkID); err != nil {
		s.must(fmt.Errorf("expire: %w", err))
	}
}

func (s *Server) expire(checkID string) error {
	svc := s.lock()
	defer svc.mu.Unlock()
	return svc.expire(checkID)
}

// advance implements Advance. The caller holds s.mu, which is unlocked while it waits.
func (s *service) advance(ctx context.Context, d time.Duration) error {
	w := &renewalWait{service: s}
	defer w.stop()
	if err := s.await(ctx, func() bool { return !s.clock.Held() && s.idle() && w.done() }); err != nil {
		return err
	}
	s.clock.Hold()
	defer func() {
		s.clock.Release()
		s.wakes = time.Time{} // set the timer again: the clock has moved
		if s.ended == nil {
			s.noteChange()
			s.runDue()
		}
	}()
	target := s.clock.Now().Add(d)
	for e := s.clock.NextBy(target); e != nil; e = s.clock.NextBy(target) {
		if e.Due().After(s.clock.Now()) {
			s.clock.Set(e.Due())
		}
		e.Run()
		s.noteChange()
		if err := s.await(ctx, func() bool { return s.inFlight == 0 && w.done() }); err != nil {
			return err
		}
	}
	s.clock.Set(target)
	return nil
}

// maxRenewalWait limits the wait for token renewals: a transport of the test may hold them back.
const maxRenewalWait = 5 * time.Second

// renewalWait is a wait for the token renewals of the server's clients, which service.await
// performs. The mutex of the service guards it.
type renewalWait struct {
	service *service
	timer   *time.Timer // wakes the wait after maxRenewalWait; nil while no renewal is in progress
	expired bool        // do not wait any longer
}

// done reports whether the wait is over. A token request that a fault delays may be that of a
// renewal, which would not end before the delay.
func (w *renewalWait) done() bool {
	if w.expired || w.service.renewals.InProgress() <= w.service.delayed {
		w.stop()
		return true
	}
	if w.timer == nil {
		w.timer = time.AfterFunc(maxRenewalWait, w.expire)
	}
	return false
}

func (w *renewalWait) expire() {
	w.service.mu.Lock()
	defer w.service.mu.Unlock()
	w.expired = true
	w.service.signal()
}

// stop stops the timer.
func (w *renewalWait) stop() {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}

// idle reports whether no delivery is in flight and no event is due now. The caller holds s.mu.
func (s *service) idle() bool { return s.inFlight == 0 && !s.clock.DueBy(s.clock.Now()) }

// runDue runs the events that are due now, and sets the timer for the next one. While Advance runs
// the events, it does nothing. The caller holds s.mu.
func (s *service) runDue() {
	if s.ended != nil || s.clock.Held() {
		return
	}
	now := s.clock.Now()
	for e := s.clock.NextBy(now); e != nil; e = s.clock.NextBy(now) {
		e.Run()
		s.noteChange()
		now = s.clock.Now()
	}
	due, ok := s.clock.Next()
	if s.clock.Frozen() || !ok || due.Equal(s.wakes) {
		return
	}
	s.wakes = due
	wait := due.Sub(now)
	if s.timer == nil {
		s.timer = time.AfterFunc(wait, s.wake)
	} else {
		s.timer.Reset(wait)
	}
}

// wake is called by the timer.
func (s *service) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakes = time.Time{}
	s.runDue()
}

// expire implements Expire. The caller holds s.mu.
func (s *service) expire(checkID string) error {
	s.runDue()
	ck := s.checks[checkID]
	switch {
	case s.ended != nil:
		return s.ended
	case ck == nil:
		return newProblem(wire.CheckNotFound, "check not found: it does not exist, has expired, or ended in ERROR")
	case ck.expiry == nil:
		return newProblem(wire.BadRequest, "the check has already ended")
	}
	s.finish(ck, rule{status: wire.StatusExpired})
	s.noteChange()
	s.runDue()
	return nil
}
