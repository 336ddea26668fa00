package sandboxfake

import (
	"fmt"

	"github.com/idverify/idverify-go/internal/wire"
)

// Expire makes a check of any project expire now, as [Server.Advance] does past its time to live,
// but without moving the clock: the check is EXPIRED, can no longer be read, and its callback is
// queued. It fails the test if there is no such check, or if the check has already ended.
func (s *Server) Expire(checkID string) {
	svc := s.lock()
	defer svc.mu.Unlock()
	if err := svc.expire(checkID); err != nil {
		s.must(fmt.Errorf("expire: %w", err))
	}
}

// expire implements Expire. The mutex is held.
func (s *service) expire(checkID string) error {
	s.runDue()
	ck := s.checks[checkID]
	switch {
	case s.ended != nil:
		return s.ended
	case ck == nil:
		return newProblem(wire.CheckNotFound, "There is no such check: it does not exist, or it expired or ended in ERROR")
	case ck.expiry == nil:
		return newProblem(wire.BadRequest, "The check has already ended")
	}
	s.finish(ck, rule{status: wire.StatusExpired})
	s.runDue()
	return nil
}
