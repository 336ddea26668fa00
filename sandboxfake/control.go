package sandboxfake

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/wire"
)

// controlPath is the path of the control plane, alongside the service's own paths.
const controlPath = "/_sandbox/"

// WithControl adds a control plane: a JSON API below /_sandbox/ that shows and controls a [Server],
// for tests in other languages and, with a page, for people. GET /_sandbox/ lists its operations.
// If the option is repeated, the last one applies.
//
// With a control plane, the server also keeps checks with their events. It keeps the newest 10,000
// checks, or the limit of [WithJournalLimit] if that is larger, including those that ended as
// EXPIRED or ERROR.
//
// The list of operations, GET /_sandbox/health and GET /_sandbox/service.json, which is [OpenAPI],
// are open to any address. All other requests require a connection from this machine, unless Remote
// is set, and the header "Authorization: Bearer" with the token that [Server.ControlToken] returns,
// or the cookie that POST /_sandbox/session returns for it. Requests from web pages of other
// origins are rejected. Requests to the control plane are not recorded and do not count toward a
// rate limit.
func WithControl(c ControlOptions) Option {
	return func(o *options) error {
		o.control = new(c)
		return nil
	}
}

// ControlOptions configures [WithControl]. The zero value is a control plane for this machine, with
// a random token and without a page.
type ControlOptions struct {
	// Token has 16 to 256 letters, digits or characters of -._~+/= (RFC 6750). If it is empty, the
	// server generates a random token.
	Token idverify.Secret

	// Remote accepts connections from any address, for example from other containers. Anyone with
	// the token can read the journals, which contain phone numbers.
	Remote bool

	// Page returns a page for browsers. [New] and [Start] call it once, before the server accepts
	// requests. The handler receives GET and HEAD requests for /_sandbox/ whose Accept header
	// contains text/html, and all requests for /_sandbox/ca and below /_sandbox/page/,
	// /_sandbox/open/ and /_sandbox/ca/. A browser that opens the server's URL is redirected to
	// /_sandbox/.
	//
	// These requests require no token and are open to any address, so the handler must not disclose
	// anything in its responses. Requests below /_sandbox/page/private/ are the exception: the
	// handler receives only those that the control plane accepts. The page itself calls the
	// operations of the control plane: it sends the token to POST /_sandbox/session, whose cookie
	// authorizes its further requests.
	Page func(*Server) http.Handler

	// PhonePage redirects a browser that opens a Check URL to /_sandbox/open/{check_id} of Page,
	// where a person chooses the result. Other clients open the Check URL: native SDKs, even if
	// they accept text/html, and scripts and images of web pages. It requires Page.
	PhonePage bool
}

// Minimum and maximum length of a control token, in characters.
const (
	minControlToken = 16
	maxControlToken = 256
)

// complete validates c and sets its token. c may be nil.
func (c *ControlOptions) complete() error {
	if c == nil {
		return nil
	}
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/="
	token := c.Token.Reveal()
	switch {
	case c.PhonePage && c.Page == nil:
		return errors.New("control: the phone page requires a page (set Page)")
	case token == "":
		// Random, because others may know the seed.
		c.Token = idverify.NewSecret(rand.Text())
	case len(token) < minControlToken || len(token) > maxControlToken || strings.Trim(token, allowed) != "":
		return fmt.Errorf("control token must have %d to %d letters, digits or characters of -._~+/=", minControlToken, maxControlToken)
	}
	return nil
}

// ControlToken returns the bearer token of the control plane, or "" if there is no control plane.
// [Server.Reset] does not change it.
func (s *Server) ControlToken() string {
	if s.opts.control == nil {
		return ""
	}
	return s.opts.control.Token.Reveal()
}

// controls lists the operations of the control plane, for its routes and its help page.
var controls = []struct {
	method, path string
	example      string // example body; empty if the operation has none
	does         string
	query        []string // accepted query parameters
	handle       func(*Server, *http.Request) (any, error)
}{
	{"GET", "health", "", "returns 200 as soon as the service is up; requires no token", nil, (*Server).controlHealth},
	{"GET", "service.json", "", "returns a description of the service in OpenAPI 3.1; requires no token", nil, (*Server).controlService},
	{"GET", "operations", "", "lists the operation names of the service, which faults and requests use", nil, (*Server).controlOperations},
	{"GET", "state", "", "returns the state of the server: clock, keys, workspaces, projects, the initial credentials, and the sizes of the journals", nil, (*Server).controlState},
	{"GET", "checks", "", "returns the checks, newest first, including those that ended as EXPIRED or ERROR; ?limit=50 (at most 200), ?before=… (next of the previous page), ?product=…, ?status=…, ?search=… (in check ID, phone number and reference ID)", []string{"limit", "before", "product", "status", "search"}, (*Server).controlChecks},
	{"POST", "checks", `{"product": "phone_check", "version": "v0.1", "phone_number": "447700900012", "callback_url": "https://…"}`, "creates a check as a client of the initial project, or of project_id, does; also accepts redirect_url, reference_id and period; the status is 200 even if the service rejects the call, see response.status", nil, (*Server).controlCreateCheck},
	{"GET", "outcomes", "", "lists the results that open can choose", nil, (*Server).controlOutcomes},
	{"POST", "open", `{"check_id": "…", "as": "phone", "follow": true}`, "opens the Check URL as a phone; the result is that of the number or, with as, one that outcomes lists; follow also opens the redirect URL; the status is 200 even if the service rejects the call, see response.status", nil, (*Server).controlOpen},
	{"GET", "timeline", "", "returns the check of ?check_id=… with its events and the attempts of its callbacks", []string{"check_id"}, (*Server).controlTimeline},
	{"GET", "time", "", "returns the time on the server's clock", nil, (*Server).controlTime},
	{"POST", "advance", `{"seconds": 120}`, "moves the clock, runs every event that becomes due, and returns when they are done", nil, (*Server).controlAdvance},
	{"POST", "expire", `{"check_id": "…"}`, "makes a check expire now, without moving the clock", nil, (*Server).controlExpire},
	{"GET", "dates", "", "returns the clock that dates the signatures of callbacks and redirects", nil, (*Server).controlDates},
	{"POST", "dates", `{"clock": "sandbox"}`, `sets the clock that dates signatures: "sandbox" (the server's) or "system"`, nil, (*Server).controlSetDates},
	{"POST", "idle", "", "returns when no callback is in flight and no event is due now", nil, (*Server).controlIdle},
	{"GET", "faults", "", "returns the injected faults, and how many are left", nil, (*Server).controlFaults},
	{"POST", "faults", `{"match": {"operation": "phone_check.create"}, "faults": [{"status": 503}]}`, "makes the next matching calls fail, one per fault", nil, (*Server).controlInject},
	{"DELETE", "faults", "", "removes all faults", nil, (*Server).controlClearFaults},
	{"GET", "deliveries", "", "returns the callbacks with their attempts; ?check_id=… selects one check; &wait_seconds=10 waits until all attempts of one of its callbacks have ended", []string{"check_id", "wait_seconds"}, (*Server).controlDeliveries},
	{"POST", "callbacks", `{"url": "https://…", "product": "phone_check", "body": "{}", "check_id": "…"}`, "sends a callback with this body, signed and retried as any other; check_id is optional and adds it to the timeline of a check", nil, (*Server).controlSendCallback},
	{"POST", "redeliver", `{"delivery_id": "…"}`, "sends a callback again, as a new delivery, and returns its ID", nil, (*Server).controlRedeliver},
	{"GET", "requests", "", "returns the requests that the service received, oldest first; ?operation=…, ?status=404 or 4xx, ?search=… (in the path); with ?limit=50 (at most 200) or ?before=… (next of the previous page), newest first", []string{"operation", "limit", "before", "status", "search"}, (*Server).controlRequests},
	{"POST", "signup", `{"name": "Ada", "invitation_ids": []}`, "signs up a user with a new workspace, accepts the invitations, and returns the credentials", nil, (*Server).controlSignUp},
	{"POST", "keys", "", "rotates the signing key; the old key stays published for five minutes", nil, (*Server).controlRotateKeys},
	{"GET", "events", "", "streams an event for each change, as text/event-stream: the number of resets, and a revision that increases", nil, (*Server).controlEvents},
	{"GET", "session", "", "returns 204 if the request is authorized", nil, (*Server).controlSession},
	{"POST", "session", "", "sets a cookie that authorizes a browser as the control token does", nil, (*Server).controlOpenSession},
	{"DELETE", "session", "", "removes the cookie", nil, (*Server).controlEndSession},
	{"POST", "reset", `{"seed": 2}`, "restores the initial state, with the same credentials; an optional seed determines the IDs until the next reset", nil, (*Server).controlReset},
}

// controlPlane returns the handler of the control plane, or nil without [WithControl].
func (s *Server) controlPlane() http.Handler {
	if s.opts.control == nil {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+strings.TrimSuffix(controlPath, "/"), http.RedirectHandler(controlPath, http.StatusTemporaryRedirect))
	mux.HandleFunc("GET "+controlPath+"{$}", s.controlHelp)
	for _, row := range controls {
		mux.HandleFunc(row.method+" "+controlPath+row.path, func(w http.ResponseWriter, r *http.Request) {
			if err := checkControlQuery(r, row.query); err != nil {
				writeControl(w, nil, err)
				return
			}
			body, err := row.handle(s, r)
			writeControl(w, body, err)
		})
	}
	mux.HandleFunc(controlPath, controlNotFound)
	return http.NewCrossOriginProtection().Handler(s.withPage(s.guardControl(mux)))
}

// isControl reports whether a request is for the control plane.
func (s *Server) isControl(r *http.Request) bool {
	return s.control != nil && strings.HasPrefix(r.URL.Path+"/", controlPath)
}

// isOpenControl reports whether a request needs no token, because it discloses and changes nothing.
func isOpenControl(r *http.Request) bool {
	switch r.URL.Path {
	case controlPath, strings.TrimSuffix(controlPath, "/"), controlPath + "health", controlPath + "service.json":
		return r.Method == http.MethodGet || r.Method == http.MethodHead
	}
	return false
}

// guardControl rejects requests without the token, from other machines, or from web forms.
//
// Only the token or its cookie identifies the caller, because a request through a local reverse
// proxy also comes from loopback. The other rules are defense in depth. A page of another origin
// cannot send JSON without a CORS preflight, which is never granted here.
func (s *Server) guardControl(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		switch {
		case isOpenControl(r):
			next.ServeHTTP(w, r)
		case !s.authorized(r):
			p := newProblem(wire.Unauthorized, "missing or wrong control token: send the token that the program prints at startup in the header Authorization: Bearer")
			p.header = http.Header{"Www-Authenticate": {`Bearer realm="control plane"`}}
			writeControl(w, nil, p)
		case !s.opts.control.Remote && !fromThisMachine(r):
			writeControl(w, nil, newProblem(wire.Forbidden, "the control plane accepts only connections from this machine, unless remote control is enabled"))
		case r.Method == http.MethodPost && media != wire.MediaJSON:
			writeControl(w, nil, newProblem(wire.UnsupportedMediaType, "a POST request requires Content-Type: application/json, even without a body"))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// hasControlToken reports whether a request contains the control token.
func (s *Server) hasControlToken(r *http.Request) bool {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	// Hashes have a fixed length, so that the comparison does not disclose the token's length.
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(s.ControlToken()))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// fromThisMachine reports whether a request comes from loopback, or from the address that it was
// sent to: only this machine has that address. Headers such as Forwarded are not read, because
// anyone can send them.
func fromThisMachine(r *http.Request) bool {
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	if remote.Addr().Unmap().IsLoopback() {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && remote.Addr().Unmap() == local.AddrPort().Addr().Unmap()
}

// controlHelp handles GET /_sandbox/.
func (s *Server) controlHelp(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if s.page != nil {
		fmt.Fprintf(w, "Open %s%s in a browser for the inspector, with the fragment that the program prints.\n\n", s.url, controlPath)
	}
	fmt.Fprintf(w, "sandboxfake: the control plane of %s\n\n", s.url)
	for _, row := range controls {
		fmt.Fprintf(w, "%-6s %s%s\n       %s\n", row.method, controlPath, row.path, row.does)
		if row.example != "" {
			fmt.Fprintf(w, "       %s\n", row.example)
		}
	}
	fmt.Fprintf(w, `
All requests below except health and service.json require the header Authorization: Bearer with
the control token, which the program prints at startup. Every POST requires the header Content-Type:
application/json. Errors are problem documents.

A match:  operation (see operations), project, workspace, repeat
A fault:  one of status (with code, retry_after_seconds, body), drop, truncate, body, wrong_key; latency_seconds with any of them

Do not advance, wait or reset in a callback handler: these operations wait for its response.
`)
}

// controlNotFound responds to a request that no route matches.
func controlNotFound(w http.ResponseWriter, r *http.Request) {
	p := newProblem(wire.NotFound, "GET "+controlPath+" returns a list of operations")
	var allowed []string
	for _, row := range controls {
		if controlPath+row.path == r.URL.Path {
			allowed = append(allowed, row.method)
		}
	}
	if len(allowed) > 0 {
		p = newProblem(wire.MethodNotAllowed, "")
		p.header = http.Header{"Allow": {strings.Join(allowed, ", ")}}
	}
	writeControl(w, nil, p)
}

func (s *Server) controlHealth(*http.Request) (any, error) {
	return struct {
		Status string `json:"status"`
	}{"ok"}, nil
}

// writeControl writes a JSON response, or the problem of err.
func writeControl(w http.ResponseWriter, body any, err error) {
	resp := &response{status: http.StatusOK, media: wire.MediaJSON, body: body}
	switch b := body.(type) {
	case nil:
		resp = &response{status: http.StatusNoContent}
	case *response:
		resp = b
	case controlStream:
		b(w)
		return
	}
	if err != nil {
		resp = problemResponse(controlProblem(err))
	}
	resp.write(w)
}

// controlStream writes a response that has no end, such as a stream of events.
type controlStream func(http.ResponseWriter)

// controlProblem returns the problem for err. It replaces the text of other errors, which is
// written for Go callers.
func controlProblem(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	p := &problem{Type: "about:blank", Status: http.StatusServiceUnavailable, Detail: "the request was canceled"}
	switch {
	case errors.Is(err, ErrReset):
		p.Status, p.Detail = http.StatusConflict, "the server was reset during the request"
	case errors.Is(err, ErrClosed):
		p.Detail = "the server is shutting down"
	}
	p.Title = http.StatusText(p.Status)
	return p
}
