package sandboxfake

import (
	"net/http"
	"time"
)

// controlTimeView is the time on the server's clock.
type controlTimeView struct {
	Now time.Time `json:"now"`
}

func (s *Server) controlTime(*http.Request) (any, error) { return controlTimeView{s.Now()}, nil }

func (s *Server) controlAdvance(r *http.Request) (any, error) {
	var params struct {
		Seconds *float64 `json:"seconds"`
	}
	if err := decodeControl(r, &params); err != nil {
		return nil, err
	}
	if params.Seconds == nil {
		return nil, badControl("seconds is missing")
	}
	d, err := controlSpan("seconds", *params.Seconds, maxControlSeconds)
	if err != nil {
		return nil, err
	}
	if err := s.Advance(r.Context(), d); err != nil {
		return nil, err
	}
	return controlTimeView{s.Now()}, nil
}

func (s *Server) controlExpire(r *http.Request) (any, error) {
	var params struct {
		CheckID string `json:"check_id"`
	}
	if err := decodeControl(r, &params); err != nil {
		return nil, err
	}
	if params.CheckID == "" {
		return nil, badControl("%s", noControlCheckID)
	}
	return nil, s.expire(params.CheckID)
}

// controlDatesView names the clock that dates signatures.
type controlDatesView struct {
	Clock string `json:"clock"`
}

// Values of controlDatesView.Clock.
const (
	systemClock  = "system"
	sandboxClock = "sandbox"
)

func (s *Server) controlDates(*http.Request) (any, error) {
	svc := s.lock()
	defer svc.mu.Unlock()
	return controlDatesView{svc.dates.clock()}, nil
}

// clock returns the name of the clock that dates signatures.
func (d *messageDates) clock() string {
	if d.system {
		return systemClock
	}
	return sandboxClock
}

func (s *Server) controlSetDates(r *http.Request) (any, error) {
	var params controlDatesView
	if err := decodeControl(r, &params); err != nil {
		return nil, err
	}
	if params.Clock != systemClock && params.Clock != sandboxClock {
		return nil, badControl("clock must be %s or %s", systemClock, sandboxClock)
	}
	svc := s.lock()
	defer svc.mu.Unlock()
	svc.dates.system = params.Clock == systemClock
	svc.noteChange()
	return nil, nil
}

func (s *Server) controlIdle(r *http.Request) (any, error) { return nil, s.Idle(r.Context()) }

func (s *Server) controlRotateKeys(*http.Request) (any, error) {
	s.RotateKeys()
	svc := s.lock()
	defer svc.mu.Unlock()
	return struct {
		KeyID string `json:"key_id"`
	}{svc.keys.keys[len(svc.keys.keys)-1].id}, nil
}

// controlReset handles POST /_sandbox/reset. The body is optional.
func (s *Server) controlReset(r *http.Request) (any, error) {
	var params struct {
		Seed *uint64 `json:"seed"`
	}
	if r.ContentLength != 0 {
		if err := decodeControl(r, &params); err != nil {
			return nil, err
		}
	}
	s.reset(params.Seed)
	return nil, nil
}
