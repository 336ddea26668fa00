package sandboxfake

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

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
	// One allocation instead of four.
	values := []string{"*", c.received.Format(http.TimeFormat), c.id}
	header["Access-Control-Allow-Origin"], header["Date"], header[wire.RequestIDHeader] = values[0:1:1], values[1:2:2], values[2:3:3]
	c.rate.set(header)
	s.opts.log.call(c, resp.status, time.Since(started))
	c.fault.write(w, resp)
}

// respond performs a call on the current service in one critical section, except for the latency of
// a fault.
func (s *Server) respond(c *call) *response {
	svc := s.lock()
	defer svc.mu.Unlock()
	c.received = svc.clock.Now()
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

// bodyTimeout limits how long a client can take to send the body of a request, by the system's
// clock.
const bodyTimeout = 30 * time.Second

// limitBodyTime makes reads of the body of a request fail after bodyTimeout. Otherwise a client
// that never sends the rest of a body could keep its connection forever.
func limitBodyTime(w http.ResponseWriter, r *http.Request) {
	if r.Body != http.NoBody {
		// Do not wait for a read by a handler: net/http discards a body that nobody reads. At the end
		// of the body it removes the deadline, so that the response may take longer.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	}
}

// errBodyTooLarge is returned for a body larger than wire.MaxBody.
var errBodyTooLarge = errors.New("the body is too large")

func readBody(r *http.Request) ([]byte, error) { return readBodyUpTo(wire.MaxBody, r) }

// readBodyUpTo reads the body of a request, which may have at most limit bytes.
func readBodyUpTo(limit int, r *http.Request) ([]byte, error) {
	if r.Body == http.NoBody {
		return nil, nil
	}
	if 0 <= r.ContentLength && r.ContentLength <= int64(limit) {
		// The journal keeps the body: use no more memory than it needs.
		body := make([]byte, r.ContentLength)
		n, err := io.ReadFull(r.Body, body)
		return body[:n], err
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, int64(limit)+1))
	if len(body) > limit {
		return nil, errBodyTooLarge
	}
	return body, err
}

// respond performs a call and adds it to the journal. The caller holds s.mu, which is unlocked
// during the latency of a fault.
func (s *service) respond(c *call) *response {
	s.runDue()
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

// bodyMedia are the accepted media types of a JSON request body.
//
// Protocol: docs/protocol.md, section 3.
var bodyMedia = []string{wire.MediaJSON, wire.MediaHAL}

// decode decodes a JSON body into v.
func (c *call) decode(v any) error { return c.decodeAs(bodyMedia, v) }

// decodeAs decodes a JSON body with one of the given media types into v. It checks for the errors
// 415, 413 and 400, in this order.
//
// Protocol: docs/protocol.md, section 1.
func (c *call) decodeAs(media []string, v any) error {
	switch {
	case !isMedia(c.r.Header.Get("Content-Type"), media):
		return newProblem(wire.UnsupportedMediaType, "the body must be "+strings.Join(media, " or "))
	case errors.Is(c.bodyErr, errBodyTooLarge):
		return newProblem(wire.PayloadTooLarge, "")
	case c.bodyErr != nil:
		return newProblem(wire.BadRequest, "the body is truncated")
	}
	if err := json.Unmarshal(exactFields(c.body, v), v); err != nil {
		return newProblem(wire.BadRequest, badJSON(c.body, err))
	}
	return nil
}

// isMedia reports whether a Content-Type is one of the given media types, with or without
// parameters.
func isMedia(contentType string, media []string) bool {
	if slices.Contains(media, contentType) {
		return true
	}
	got, _, err := mime.ParseMediaType(contentType)
	return err == nil && slices.Contains(media, got)
}

// exactFields removes the fields of a JSON object that do not exactly match a field of the struct
// that v points to. encoding/json ignores case and would accept "Phone_Number" for "phone_number".
// The service does not.
func exactFields(body []byte, v any) []byte {
	// All fields are in lower case, so that lower-case text contains no other form of them.
	if isLower(body) {
		return body
	}
	kind := reflect.TypeOf(v).Elem()
	var fields map[string]json.RawMessage
	if kind.Kind() != reflect.Struct || json.Unmarshal(body, &fields) != nil {
		return body
	}
	known := make(map[string]bool)
	for field := range kind.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		known[name] = true
	}
	before := len(fields)
	maps.DeleteFunc(fields, func(name string, _ json.RawMessage) bool { return !known[name] })
	if len(fields) == before {
		return body
	}
	// These values were unmarshaled, so they can be marshaled.
	exact, _ := json.Marshal(fields)
	return exact
}

// isLower reports whether text has only ASCII characters without upper-case letters and without
// backslashes, which could begin an escape sequence of such a letter.
func isLower(text []byte) bool {
	return !slices.ContainsFunc(text, func(c byte) bool { return 'A' <= c && c <= 'Z' || c == '\\' || c >= utf8.RuneSelf })
}

// badJSON describes why a body was not decoded, without quoting it.
func badJSON(body []byte, err error) string {
	if wrongType, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if wrongType.Field != "" {
			return "the field " + wrongType.Field + " has the wrong type"
		}
		return "the body has the wrong JSON type"
	}
	var first json.RawMessage
	switch err := json.NewDecoder(bytes.NewReader(body)).Decode(&first); err {
	case nil:
		return "unexpected text after the JSON value in the body"
	case io.EOF:
		return "the body is empty"
	case io.ErrUnexpectedEOF:
		return "the JSON in the body is truncated"
	}
	return "the body is not valid JSON"
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
		header["Content-Type"] = []string{r.media}
	}
	if r.status != http.StatusNoContent {
		header["Content-Length"] = []string{strconv.Itoa(length)}
	}
	w.WriteHeader(r.status)
}
