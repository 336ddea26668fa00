package sandboxfake

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// Fault is what goes wrong with one call, or with one try of a callback. The zero Fault is none: it lets a call pass.
// Latency may stand with any other; of the others give one, or Status with Fragment, RetryAfter and Body.
type Fault struct {
	// Status, 200 to 599, is answered in place of the service's answer, and the call has no effect. The problem document says Fragment, or, when that is empty, what the status is known for.
	// For a callback it is the receiver's answer: the receiver is not called.
	Status   int
	Fragment string
	// RetryAfter is sent with the Status in whole seconds, rounded up; with 429 the X-RateLimit headers say the same.
	RetryAfter time.Duration
	// Latency passes before the call has its effect, or before the callback is sent; a callback that is held up for 10 s has timed out. It needs a running clock.
	Latency time.Duration
	// Drop cuts the connection: the call has its effect, and the answer is lost. The receiver of a callback sees nothing.
	Drop bool
	// Truncate cuts the answer, or the callback, in the middle of its body: the call has its effect.
	Truncate bool
	// Body is sent in place of the answer's body, or of the callback's, whose Digest then does not fit it.
	Body string
	// WrongKey signs a callback, or the redirect of a Check URL, with a key that is not published, in the name of the one that is: the signature does not verify.
	WrongKey bool
}

// Match chooses the calls that [Server.Inject] breaks. The zero Match is every call of the service, callbacks not among them.
type Match struct {
	Operation string // such as "phone_check.create", as [Request] names it, or [OperationCallback]; empty: any but callbacks
	Project   string // its id; empty: any
	Workspace string // its id; empty: any
	Repeat    bool   // begin again with the first fault after the last, until removed
}

// OperationCallback is the operation of [Match] that means the tries of callbacks.
const OperationCallback = "callback"

// injection is one Inject.
type injection struct {
	match  Match
	faults []Fault
	next   int // the fault of the next match
}

// Inject has calls fail: the n-th call that fits m gets the n-th fault, further ones pass. Calls that are refused for their token, path, scope or rate are not counted.
// When several injections fit a call, each counts it, and the latest with a fault left breaks it. The function it returns takes the injection back; so does [Server.Reset].
//
// It fails the test when no call could ever fit m, or when a fault contradicts itself. So does latency on a frozen clock, which nothing moves while the call waits: use a running clock in a testing/synctest bubble.
func (s *Server) Inject(m Match, faults ...Fault) (remove func()) {
	s.mustInject(m.check())
	svc := s.lock()
	defer svc.mu.Unlock()
	for _, f := range faults {
		s.mustInject(f.check(svc.clock.Frozen()))
	}
	added := &injection{match: m, faults: slices.Clone(faults)}
	svc.injections = append(svc.injections, added)
	return func() {
		svc.mu.Lock()
		defer svc.mu.Unlock()
		svc.injections = slices.DeleteFunc(svc.injections, func(i *injection) bool { return i == added })
	}
}

// mustInject is must for an argument of Inject.
func (s *Server) mustInject(err error) {
	if err != nil {
		s.must(fmt.Errorf("inject: %w", err))
	}
}

// check rejects an unknown operation, because a misspelled name would let a test pass for the wrong
// reason. Its errors, and those of Fault.check, also reach callers of the control plane: they name
// no Go identifiers.
func (m Match) check() error {
	if m.Operation == "" || m.Operation == OperationCallback || slices.ContainsFunc(wire.Operations(), func(op wire.Operation) bool { return op.Name == m.Operation }) {
		return nil
	}
	return fmt.Errorf("there is no operation %q: use a name such as %q or %q", m.Operation, wire.CreatePhoneCheck.Name, OperationCallback)
}

func (f Fault) check(frozen bool) error {
	kinds := 0
	for _, given := range []bool{f.Status != 0, f.Drop, f.Truncate, f.Body != "" && f.Status == 0, f.WrongKey} {
		if given {
			kinds++
		}
	}
	switch {
	case kinds > 1:
		return errors.New("a fault is one of status, drop, truncate, body and wrong key; only a status can have a body")
	case f.Status != 0 && (f.Status < 200 || f.Status > 599):
		return fmt.Errorf("status %d is not a final HTTP status from 200 to 599", f.Status)
	case f.Status == 0 && (f.Fragment != "" || f.RetryAfter != 0):
		return errors.New("a fragment or a time to retry after needs a status")
	case f.Latency < 0 || f.RetryAfter < 0:
		return errors.New("the latency and the time to retry after must not be negative")
	case f.Latency > 0 && frozen:
		return errors.New("latency needs a running clock: on a frozen one it would never pass")
	}
	return nil
}

// takeFault finds the fault of a call, or nil.
func (s *service) takeFault(operation string, p *project, w *workspace) *Fault {
	var fault *Fault
	for _, i := range s.injections {
		if !i.match.matches(operation, p, w) {
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

func (m Match) matches(operation string, p *project, w *workspace) bool {
	switch {
	case m.Operation == "" && operation == OperationCallback, m.Operation != "" && m.Operation != operation:
		return false
	case m.Project != "" && (p == nil || p.id != m.Project), m.Workspace != "" && (w == nil || w.id != m.Workspace):
		return false
	}
	return true
}

// delay keeps a call waiting for its fault's latency, with the mutex free. A caller who gives up, or Close, ends the wait; Reset ends the call, which is of neither state.
func (s *service) delay(c *call) {
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	s.mu.Unlock()
	wait(ctx, c.fault.Latency)
	s.mu.Lock()
	if errors.Is(s.ended, ErrReset) {
		panic(http.ErrAbortHandler)
	}
	s.runDue()
}

// wait waits for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// response is what a fault with a status says in place of the operation op, to a caller with a rate limit.
func (f *Fault) response(op wire.Operation, now time.Time, limit int) *response {
	resp := &response{status: f.Status, header: make(http.Header)}
	if f.RetryAfter > 0 {
		resp.header.Set("Retry-After", wholeSeconds(f.RetryAfter))
		if f.Status == http.StatusTooManyRequests {
			(&rateLimit{limit: max(limit, 1), reset: now.Add(f.RetryAfter)}).set(resp.header)
		}
	}
	switch {
	case f.Body != "":
		resp.raw, resp.media = []byte(f.Body), http.DetectContentType([]byte(f.Body))
	case op.Product() == wire.Token.Product() && f.Status < 500:
		code := f.Fragment
		switch {
		case code != "":
		case f.Status == http.StatusUnauthorized:
			code = wire.InvalidClient
		default:
			code = wire.InvalidRequest
		}
		resp.body, resp.media = tokenErrorView{code, "injected"}, wire.MediaJSON
	default:
		resp.body, resp.media = statusProblem(f.Status, f.Fragment), wire.MediaProblem
	}
	return resp
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

// write sends an answer as the fault, which may be nil, leaves it.
func (f *Fault) write(w http.ResponseWriter, resp *response) {
	switch {
	case f == nil:
		resp.write(w)
	case f.Drop:
		panic(http.ErrAbortHandler) // net/http's own way to cut a connection
	case f.Truncate:
		body := resp.marshal()
		resp.writeHeader(w, len(body))
		w.Write(body[:len(body)/2])
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case f.Body != "" && f.Status == 0:
		resp.body, resp.raw = nil, []byte(f.Body)
		resp.write(w)
	default:
		resp.write(w)
	}
}
