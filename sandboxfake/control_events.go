package sandboxfake

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"time"
)

// Limits of event streams.
const (
	maxStreams    = 32
	eventInterval = 250 * time.Millisecond // minimum time between two events
	pingInterval  = 15 * time.Second
	eventTimeout  = 10 * time.Second // of a write, for a client that does not read
)

// controlEvents handles GET /_sandbox/events, a stream of server-sent events. The first event is
// sent immediately. Its data is a controlChange.
func (s *Server) controlEvents(r *http.Request) (any, error) {
	if s.streams.Add(1) > maxStreams {
		s.streams.Add(-1)
		return nil, &problem{
			Type:   "about:blank",
			Title:  http.StatusText(http.StatusServiceUnavailable),
			Status: http.StatusServiceUnavailable,
			Detail: fmt.Sprintf("the server has %d event streams: close one first", maxStreams),
		}
	}
	return controlStream(func(w http.ResponseWriter) {
		defer s.streams.Add(-1)
		s.streamEvents(w, r)
	}), nil
}

// controlChange identifies a state of the server. After a reset, generation has increased and
// revision starts again.
type controlChange struct {
	generation, revision uint64
}

// change returns the current state, and a channel that is closed at the next change. It returns an
// error if the server is closed.
func (s *Server) change() (controlChange, <-chan struct{}, error) {
	svc := s.lock()
	defer svc.mu.Unlock()
	return controlChange{svc.generation, svc.revision}, svc.nextChange(), svc.ended
}

// streamEvents sends events until the client disconnects or the server is closed.
func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // for proxies that buffer responses
	if r.Method == http.MethodHead {
		return
	}
	stream := http.NewResponseController(w)
	defer func() { _ = stream.SetWriteDeadline(time.Time{}) }()
	ping := time.NewTicker(pingInterval)
	defer ping.Stop()
	sent := controlChange{revision: math.MaxUint64} // differs from every state
	for {
		now, changed, err := s.change()
		if err != nil || r.Context().Err() != nil {
			return
		}
		var text string
		if now != sent {
			text = fmt.Sprintf("event: change\ndata: {\"generation\":%d,\"revision\":%d}\n\n", now.generation, now.revision)
			sent = now
		} else {
			select {
			case <-changed:
				continue
			case <-ping.C:
				text = ": ping\n\n"
			case <-r.Context().Done():
				return
			}
		}
		if err := sendEvent(w, stream, text); err != nil {
			return
		}
		wait(r.Context(), eventInterval)
	}
}

// sendEvent writes text to a stream, at most for eventTimeout.
func sendEvent(w io.Writer, stream *http.ResponseController, text string) error {
	if err := stream.SetWriteDeadline(time.Now().Add(eventTimeout)); err != nil {
		return err
	}
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	return stream.Flush()
}
