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

// Fault describes how one call, or one attempt of a callback, fails. The zero Fault lets it pass.
// Set one of Status, Drop, Truncate, Body and WrongKey. With Status, you can also set Code,
// RetryAfter and Body. Latency can be set alone or with any of them.
type Fault struct {
	// Status, from 200 to 599, replaces the service's response, and the call has no effect. Code is
	// the code of the problem or token error. By default it is the usual code for the status. For a
	// callback, Status replaces the receiver's response, and the receiver is not called.
	Status int
	Code   string
	// RetryAfter sets the Retry-After header of a response with Status, rounded up to whole seconds.
	// With status 429, it also sets the X-RateLimit headers.
	RetryAfter time.Duration
	// Latency is a delay before the call is processed, or before the callback is sent. If the client
	// cancels the request, the delay ends and the call is processed. A callback that is delayed for 10
	// seconds times out. Latency requires a running clock.
	Latency time.Duration
	// Drop closes the connection. The call is processed, but its response is lost. A callback does not
	// reach its receiver.
	Drop bool
	// Truncate sends half of the body of the response, or of the callback, and closes the connection.
	// The call is processed.
	Truncate bool
	// Body replaces the body of the response, or of the callback. The callback's Digest then does not
	// match its body.
	Body string
	// WrongKey signs a callback, or the redirect of a Check URL, with an unpublished key under the ID
	// of the current signing key, so that its verification fails.
	WrongKey bool
}

// Match selects the calls for [Server.Inject]. The zero Match selects all calls of the service, but
// no callbacks.
type Match struct {
	Operation string // such as "phone_check.create", or [OperationCallback]; empty for all but callbacks
	Project   string // project ID; empty for all
	Workspace string // workspace ID; empty for all
	CheckID   string // only with OperationCallback: the check of the callback; empty for all
	Repeat    bool   // repeat the faults in a cycle until they are removed
}

// OperationCallback is the operation of [Match] for delivery attempts of callbacks.
const OperationCallback = "callback"

// injection is the state of one Inject call.
type injection struct {
	match  Match
	faults []Fault
	next   int // index of the fault for the next matching call
}

// Inject makes calls fail: the n-th call that matches m gets the n-th fault, and further calls
// pass. Calls that are rejected because of their token, path, scope or rate limit are not counted.
// If several injections match, each counts the call. The most recent injection with a non-zero
// fault for it applies.
//
// remove ends the injection, as [Server.Reset] does.
//
// If the operation of m is unknown, or if a fault is contradictory, the test fails. It also fails
// for a fault with latency on a frozen clock, because the latency would never pass. In a
// testing/synctest bubble, use a running clock.
func (s *Server) Inject(m Match, faults ...Fault) (remove func()) {
	s.mustInject(m.check())
	svc := s.lock()
	defer svc.mu.Unlock()
	for _, f := range faults {
		s.mustInject(f.check(svc.clock.Frozen()))
	}
	added := &injection{match: m, faults: slices.Clone(faults)}
	svc.injections = append(svc.injections, added)
	s.recent.add(recent{kind: recentInject, at: svc.clock.Now(), ref: added})
	svc.noteChange()
	return func() {
		svc.mu.Lock()
		defer svc.mu.Unlock()
		before := len(svc.injections)
		svc.injections = slices.DeleteFunc(svc.injections, func(i *injection) bool { return i == added })
		if len(svc.injections) < before {
			s.recent.add(recent{kind: recentRemove, at: svc.clock.Now(), ref: added})
		}
		svc.noteChange()
	}
}

// mustInject fails the test if err is not nil.
func (s *Server) mustInject(err error) {
	if err != nil {
		s.must(fmt.Errorf("inject: %w", err))
	}
}

// check rejects an unknown operation, because a misspelled name would let a test pass for the wrong
// reason. Its errors, and those of Fault.check, are also sent to callers of the control plane. They
// must not contain Go identifiers.
func (m Match) check() error {
	if m.CheckID != "" && m.Operation != OperationCallback {
		return fmt.Errorf("a check ID requires the operation %q", OperationCallback)
	}
	if m.Operation == "" || m.Operation == OperationCallback || slices.ContainsFunc(wire.Operations(), func(op wire.Operation) bool { return op.Name == m.Operation }) {
		return nil
	}
	return fmt.Errorf("unknown operation %q: use %q or a name from docs/protocol.md, section 1, such as %q", m.Operation, OperationCallback, wire.CreatePhoneCheck.Name)
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
		return errors.New("only one of status, drop, truncate, body and wrong key can be set, except that status can have a body")
	case f.Status != 0 && (f.Status < 200 || f.Status > 599):
		return fmt.Errorf("status must be from 200 to 599, not %d", f.Status)
	case f.Status == 0 && (f.Code != "" || f.RetryAfter != 0):
		return errors.New("code and retry-after require a status")
	case f.Latency < 0 || f.RetryAfter < 0:
		return errors.New("latency and retry-after must not be negative")
	case f.Latency > 0 && frozen:
		return errors.New("latency requires a running clock (a delay on a frozen clock would never end)")
	}
	return nil
}

// takeFault returns the fault for a call, or nil, and counts the call in each matching injection.
// checkID is the check of a callback, and otherwise empty.
func (s *service) takeFault(operation string, p *project, w *workspace, checkID string) *Fault {
	var fault *Fault
	for _, i := range s.injections {
		if !i.match.matches(operation, p, w, checkID) {
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

func (m Match) matches(operation string, p *project, w *workspace, checkID string) bool {
	switch {
	case m.CheckID != "" && m.CheckID != checkID:
		return false
	case m.Operation == "" && operation == OperationCallback, m.Operation != "" && m.Operation != operation:
		return false
	case m.Project != "" && (p == nil || p.id != m.Project), m.Workspace != "" && (w == nil || w.id != m.Workspace):
		return false
	}
	return true
}

// delay waits for the latency of the call's fault, with the mutex unlocked. It returns early if the
// caller cancels the request or the server is closed. If the server is reset, it aborts the call.
func (s *service) delay(c *call) {
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	if c.op == wire.Token {
		s.delayed++
		s.signal() // see renewalWait
		defer func() { s.delayed-- }()
	}
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

// response returns the response with which f replaces a call of op. limit is the server's rate
// limit, or 0.
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
		code := f.Code
		switch {
		case code != "":
		case f.Status == http.StatusUnauthorized:
			code = wire.InvalidClient
		default:
			code = wire.InvalidRequest
		}
		resp.body, resp.media = tokenErrorView{code, "injected"}, wire.MediaJSON
	default:
		resp.body, resp.media = statusProblem(f.Status, f.Code), wire.MediaProblem
	}
	return resp
}

// statusProblem returns a problem with the given status, which may be a status that the service
// never sends. If code is empty, it uses the usual code for the status.
func statusProblem(status int, code string) *problem {
	for _, kind := range problemKinds {
		if code == "" && kind.status == status {
			code = kind.fragment
		}
	}
	p := newProblem(code, "injected")
	p.Status, p.Title = status, http.StatusText(status)
	if code == "" {
		p.Type = "about:blank"
	}
	return p
}

// write writes resp as modified by f, which may be nil.
func (f *Fault) write(w http.ResponseWriter, resp *response) {
	switch {
	case f == nil:
		resp.write(w)
	case f.Drop:
		panic(http.ErrAbortHandler) // closes the connection
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
