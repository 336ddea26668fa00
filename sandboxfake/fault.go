package sandboxfake

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// OperationCallback is the operation of [Match] that means the tries of callbacks.
const OperationCallback = "callback"

// Match chooses the calls that [Server.Inject] breaks. The zero Match is every call of the service, callbacks not among them.
type Match struct {
	Operation string // such as "phone_check.create", as [Request] names it, or [OperationCallback]; empty: any but callbacks
	Project   string // its id; empty: any
	Workspace string // its id; empty: any
	Repeat    bool   // begin again with the first fault after the last, until removed
}

// Fault is what goes wrong with one call, or with one try of a callback. The zero Fault is none: it lets a call pass.
// Latency may stand with any other; of the others give one, or Status with Body.
type Fault struct {
	// Status is answered in place of the service's answer, and the call has no effect. The problem document says Fragment, or, when that is empty, what the status is known for.
	// For a callback it is the receiver's answer: the receiver is not called.
	Status   int
	Fragment string
	// RetryAfter is sent with the Status in whole seconds, rounded up; with 429 the X-RateLimit headers say the same.
	RetryAfter time.Duration
	// Latency passes before the call has an effect. It needs a running clock.
	Latency time.Duration
	// Drop cuts the connection: the call has its effect, and the answer is lost. The receiver of a callback sees nothing.
	Drop bool
	// Truncate cuts the answer, or the callback, in the middle of its body: the call has its effect.
	Truncate bool
	// Body is sent in place of the answer's body, or of the callback's, whose headers then do not fit it.
	Body string
}

// injection is one Inject.
type injection struct {
	match  Match
	faults []Fault
	next   int // the fault of the next match
}

// Inject has calls fail: the n-th call that fits m gets the n-th fault, further ones pass. When several injections fit a call, each counts it, and the latest with a fault left breaks it.
// It returns what takes the injection back.
//
// A fault with latency fails the test on a frozen clock, which nothing moves while the call waits: use a running clock in a testing/synctest bubble.
func (s *Server) Inject(m Match, faults ...Fault) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clock.frozen && slices.ContainsFunc(faults, func(f Fault) bool { return f.Latency > 0 }) {
		s.must(errors.New("inject: latency needs a running clock: on a frozen one it would never pass (use a testing/synctest bubble)"))
	}
	st := s.state
	added := &injection{match: m, faults: slices.Clone(faults)}
	st.injections = append(st.injections, added)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		st.injections = slices.DeleteFunc(st.injections, func(i *injection) bool { return i == added })
	}
}

// takeFault finds the fault of a call, or nil.
func (st *state) takeFault(operation string, p *project, w *workspace) *Fault {
	var fault *Fault
	for _, i := range st.injections {
		if !i.match.fits(operation, p, w) {
			continue
		}
		if i.next >= len(i.faults) {
			continue
		}
		if f := i.faults[i.next]; f != (Fault{}) {
			fault = &f
		}
		if i.next++; i.next == len(i.faults) && i.match.Repeat {
			i.next = 0
		}
	}
	return fault
}

func (m Match) fits(operation string, p *project, w *workspace) bool {
	switch {
	case m.Operation == "" && operation == OperationCallback, m.Operation != "" && m.Operation != operation:
		return false
	case m.Project != "" && (p == nil || p.id != m.Project), m.Workspace != "" && (w == nil || w.id != m.Workspace):
		return false
	}
	return true
}

// delay waits for a fault's latency with the mutex free.
func (s *Server) delay(latency time.Duration, done <-chan struct{}) {
	ended := s.ctx.Done()
	s.mu.Unlock()
	defer s.mu.Lock()
	timer := time.NewTimer(latency)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-done:
	case <-ended:
	}
}

// answer is what a fault with a status says in place of the operation op.
func (f *Fault) answer(op wire.Operation, now time.Time) *answer {
	a := &answer{status: f.Status, header: make(http.Header)}
	if f.RetryAfter > 0 {
		seconds := int((f.RetryAfter + time.Second - 1) / time.Second)
		a.header.Set("Retry-After", strconv.Itoa(seconds))
		if f.Status == http.StatusTooManyRequests {
			setRateLimit(a.header, 0, 0, now.Add(f.RetryAfter))
		}
	}
	switch {
	case f.Body != "":
		a.raw, a.media = []byte(f.Body), http.DetectContentType([]byte(f.Body))
	case op.Product() == wire.Token.Product() && f.Status < 500:
		code := f.Fragment
		if code == "" {
			code = wire.InvalidRequest
		}
		a.body, a.media = tokenErrorView{code, "injected"}, wire.MediaJSON
	default:
		a.body, a.media = statusProblem(f.Status, f.Fragment), wire.MediaProblem
	}
	return a
}

// statusProblem is the problem of an injected status, which the service itself may never answer.
func statusProblem(status int, fragment string) *problem {
	for _, kind := range problemKinds {
		if fragment == "" && kind.status == status {
			fragment = kind.fragment
		}
	}
	p := newProblem(fragment, "Injected")
	p.Status, p.Title = status, http.StatusText(status)
	if fragment == "" {
		p.Type = "about:blank"
	}
	return p
}

// setRateLimit sets the headers that go with a 429 (contract, section 6).
func setRateLimit(header http.Header, limit, remaining int, reset time.Time) {
	header.Set("X-RateLimit-Limit", strconv.Itoa(limit))
	header.Set("X-RateLimit-Remaining", strconv.Itoa(remaining))
	header.Set("X-RateLimit-Reset", strconv.FormatInt(reset.Unix(), 10))
}

// write sends an answer as the fault, which may be nil, leaves it.
func (f *Fault) write(w http.ResponseWriter, a *answer) {
	switch {
	case f == nil:
		a.write(w)
	case f.Drop:
		panic(http.ErrAbortHandler) // net/http's own way to cut a connection
	case f.Truncate:
		body := a.marshal()
		a.writeHeader(w, len(body))
		w.Write(body[:len(body)/2])
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case f.Body != "" && f.Status == 0:
		a.body, a.raw = nil, bytes.Clone([]byte(f.Body))
		a.write(w)
	default:
		a.write(w)
	}
}
