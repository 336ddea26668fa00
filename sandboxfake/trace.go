package sandboxfake

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// traceView is the JSON form of a trace, which describes one step of a check.
type traceView struct {
	TraceID string     `json:"trace_id"`
	Logs    []traceLog `json:"logs"`
	at      time.Time
}

type traceLog struct {
	Timestamp  string            `json:"timestamp"`
	Message    string            `json:"message"`
	Attributes map[string]string `json:"attributes,omitempty"`
}

// traceLifetime is the time for which a trace can be read.
const traceLifetime = 7 * 24 * time.Hour

func newTrace(ck *check, n int, at time.Time) *traceView {
	d := sha256.Sum256(fmt.Appendf(nil, "trace %d %s", n, ck.id))
	return &traceView{TraceID: fmt.Sprintf("%x-%x-%x-%x-%x", d[0:4], d[4:6], d[6:8], d[8:10], d[10:16]), at: at}
}

func (t *traceView) log(message string, attributes map[string]string) *traceView {
	t.Logs = append(t.Logs, traceLog{formatTime(t.at), message, attributes})
	return t
}

// traces derives the traces of a check from its state, so that they take no memory.
func (c *check) traces() []*traceView {
	traces := []*traceView{newTrace(c, 1, c.created).log("check accepted", map[string]string{"product": c.product.name, "version": c.version})}
	if !c.opened.IsZero() {
		traces = append(traces, newTrace(c, 2, wireTime(c.opened)).log("Check URL opened", nil))
	}
	if c.status == wire.StatusCompleted {
		traces = append(traces, newTrace(c, 3, c.updated).
			log("network operator queried", map[string]string{"network_id": sandboxNetwork.NetworkID}).
			log("check finished", map[string]string{"status": c.status}))
	}
	return traces
}

// traceListing describes lists of traces.
var traceListing = listing[*traceView]{
	embedded: "traces",
	created:  func(t *traceView) time.Time { return t.at },
	oldFirst: true,
	view:     func(_ *service, t *traceView) any { return t },
}

// listTraces handles GET /{product}/{version}/checks/{check_id}/traces. It omits expired traces.
func (s *service) listTraces(c *call) (any, error) {
	ck, err := s.ownCheck(c)
	if err != nil {
		return nil, err
	}
	var readable []*traceView
	for _, t := range ck.traces() {
		if s.clock.Now().Sub(t.at) <= traceLifetime {
			readable = append(readable, t)
		}
	}
	return listPage(s, c, traceListing, readable)
}

// getTrace handles GET /{product}/{version}/checks/{check_id}/traces/{trace_id}.
func (s *service) getTrace(c *call) (any, error) {
	ck, err := s.ownCheck(c)
	if err != nil {
		return nil, err
	}
	for _, t := range ck.traces() {
		switch {
		case t.TraceID != c.ids["trace_id"]:
		case s.clock.Now().Sub(t.at) > traceLifetime:
			return nil, newProblem(wire.TraceGone, "")
		default:
			return t, nil
		}
	}
	return nil, newProblem(wire.TraceNotFound, "")
}
