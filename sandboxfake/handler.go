package sandboxfake

import (
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// serve handles a request: it reads the body, performs the call on the current service, and writes
// the response.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	limitBodyTime(w, r)
	if s.isControl(r) {
		s.control.ServeHTTP(w, r)
		return
	}
	if s.redirectBrowser(w, r) {
		return
	}
	c := &call{r: r, started: time.Now()}
	if r.Method == http.MethodOptions {
		s.allowOrigins(w, r)
		return
	}
	c.body, c.bodyErr = readBody(r)
	s.writeCall(w, c, s.respond(c), c.started)
}

// allowOrigins responds to a CORS preflight request of a browser.
func (s *Server) allowOrigins(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", "*")
	header.Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE, OPTIONS")
	header.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
	header.Set("Date", s.Now().Format(http.TimeFormat))
	w.WriteHeader(http.StatusNoContent)
}

// writeCall writes and logs the response to a call. It panics with http.ErrAbortHandler if a fault
// closes the connection.
func (s *Server) writeCall(w http.ResponseWriter, c *call, resp *response, started time.Time) {
	header := w.Header()
	if resp.location != nil {
		if target, err := resp.location(); err != nil {
			resp = problemResponse(err)
		} else {
			header.Set("Location", target)
		}
	}
	header.Set("Access-Control-Allow-Origin", "*")
	header.Set("Date", c.received.Format(http.TimeFormat))
	header.Set(wire.RequestIDHeader, c.id)
	c.rate.set(header)
	s.opts.log.call(c, resp.status, time.Since(started))
	c.fault.write(w, resp)
}

// respond performs a call on the current service in one critical section, except for the latency of
// a fault.
func (s *Server) respond(c *call) *response {
	svc := s.lock()
	defer svc.mu.Unlock()
	return svc.respond(c)
}

// handler performs an operation. It is called with the mutex held, so that a change and its
// consequences become visible together. It returns the body of the response, or a *response, or a
// *problem as the error.
type handler func(*service, *call) (any, error)

// call is a request that is being processed.
type call struct {
	r          *http.Request
	started    time.Time // on the system's clock; zero for a call of the control plane
	received   time.Time // on the server's clock
	seq        uint64    // sequence number among the recent events; 0 if the call has no effects
	id         string    // request ID
	op         wire.Operation
	version    string
	ids        map[string]string // parameters of the path
	handle     handler
	token      *token
	credential *credential
	body       []byte
	bodyErr    error // the body is too long or truncated
	fault      *Fault
	rate       *rateLimit // nil without WithRateLimit
	internal   *token     // of a call that the control plane makes; replaces the Authorization header
	as         string     // what the phone is that opens the Check URL; see chosenResult
	made       *check     // created by the call, or nil
	noted      *event     // event of the history that the call caused, or nil
}

// response is the response to a call.
type response struct {
	status int
	header http.Header
	media  string
	body   any    // marshaled as JSON; nil for none
	raw    []byte // sent if body is nil
	// location returns the Location of a redirect. It is called with the mutex unlocked, because
	// signing is slow.
	location func() (string, error)
}

// respond performs a call and adds it to the journal. The caller holds s.mu, which is unlocked
// during the latency of a fault.
func (s *service) respond(c *call) *response {
	s.runDue()
	c.received = s.clock.Now()
	resp := s.handle(c)
	s.journalRequest(c, resp)
	if c.noted != nil {
		c.noted.requestID = c.id
	}
	s.noteChange()
	s.runDue()
	return resp
}

// handle returns the response to a call, from the operation's handler or an injected fault.
func (s *service) handle(c *call) *response {
	if err := s.admit(c); err != nil {
		return problemResponse(err)
	}
	if err := s.limitRate(c); err != nil {
		return problemResponse(err)
	}
	p, w := s.owner(c)
	if c.fault = s.takeFault(c.op.Name, p, w, ""); c.fault != nil && c.fault.Latency > 0 {
		s.delay(c)
		// The token may have expired during the wait.
		if err := s.admit(c); err != nil {
			return problemResponse(err)
		}
	}
	if c.fault != nil && c.fault.Status != 0 {
		return c.fault.response(c.op, s.clock.Now(), s.opts.rateLimit)
	}
	body, err := s.perform(c)
	if err != nil {
		return problemResponse(err)
	}
	if resp, ok := body.(*response); ok {
		return resp
	}
	return &response{status: c.op.Success, media: wire.MediaHAL, raw: appendJSON(nil, body)}
}

// perform calls the handler of a call. Events of checks until it returns are effects of the call.
func (s *service) perform(c *call) (any, error) {
	c.seq = s.recent.reserve()
	s.performing = c.seq
	defer func() { s.performing = 0 }()
	return c.handle(s, c)
}

func problemResponse(err error) *response {
	p, ok := err.(*problem)
	if !ok {
		p = statusProblem(http.StatusInternalServerError, "")
	}
	return &response{status: p.Status, header: p.header, media: wire.MediaProblem, body: p}
}

// admit finds the operation and the token of a call. It rejects a call in the order 401, 404
// (unknown path), 405, 403.
//
// Protocol: docs/protocol.md, section 1.
func (s *service) admit(c *call) error {
	route := routes().find(c.r.URL.EscapedPath())
	if route.requiresToken() {
		if c.token = s.tokenOf(c); c.token == nil {
			return newProblem(wire.Unauthorized, "")
		}
		c.credential = c.token.credential
	}
	if route == nil {
		return newProblem(wire.NotFound, "")
	}
	endpoint, ok := route.methods[c.r.Method]
	if !ok || !endpoint.serves(route.version) {
		p := newProblem(wire.MethodNotAllowed, "")
		p.header = http.Header{"Allow": {route.allow()}}
		return p
	}
	c.op, c.handle, c.ids, c.version = endpoint.op, endpoint.handle, route.ids, route.version
	if c.op.Scope != "" && !c.token.allows(c.op.Scope) {
		return newProblem(wire.Forbidden, "the token lacks the scope "+c.op.Scope)
	}
	return nil
}

// marshal returns the body to send.
func (r *response) marshal() []byte {
	if r.body == nil {
		return r.raw
	}
	return appendJSON(nil, r.body)
}

func (r *response) write(w http.ResponseWriter) {
	body := r.marshal()
	r.writeHeader(w, len(body))
	w.Write(body)
}

func (r *response) writeHeader(w http.ResponseWriter, length int) {
	header := w.Header()
	maps.Copy(header, r.header)
	if r.media != "" {
		header.Set("Content-Type", r.media)
	}
	if r.status != http.StatusNoContent {
		header.Set("Content-Length", strconv.Itoa(length))
	}
	w.WriteHeader(r.status)
}
