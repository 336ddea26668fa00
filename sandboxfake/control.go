package sandboxfake

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/wire"
)

// controlPath is the path of the control plane, alongside the service's own paths.
const controlPath = "/_sandbox/"

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

// authorized reports whether a request contains the control token or the cookie of a session. If
// it has an Authorization header, only that is valid.
func (s *Server) authorized(r *http.Request) bool {
	if r.Header["Authorization"] != nil {
		return s.hasControlToken(r)
	}
	return s.hasSession(r) && !fromOtherOrigin(r)
}

// hasSession reports whether a request contains the cookie of a session.
func (s *Server) hasSession(r *http.Request) bool {
	want := s.session()
	for _, got := range r.CookiesNamed(want.Name) {
		if subtle.ConstantTimeCompare([]byte(got.Value), []byte(want.Value)) == 1 {
			return true
		}
	}
	return false
}

// fromOtherOrigin reports whether the browser of a request sends it for a page of another origin.
// Browsers also send a cookie to other ports of its host, and for GET requests of their pages.
func fromOtherOrigin(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "":
		origin, err := url.Parse(r.Header.Get("Origin"))
		return err != nil || r.Header.Get("Origin") != "" && origin.Host != r.Host
	}
	return true
}

// session returns the cookie of a session. It does not disclose the control token, and the server
// stores nothing. The name depends on the token, because the servers of one host share its cookies.
func (s *Server) session() *http.Cookie {
	derive := func(purpose string) []byte {
		mac := hmac.New(sha256.New, []byte(s.ControlToken()))
		mac.Write([]byte(purpose))
		return mac.Sum(nil)
	}
	return &http.Cookie{
		Name:     "sandboxfake_" + hex.EncodeToString(derive("sandboxfake session name")[:4]),
		Value:    base64.RawURLEncoding.EncodeToString(derive("sandboxfake session")),
		Path:     controlPath,
		Secure:   true,
		HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
	}
}

// controlSession handles GET /_sandbox/session. The guard has authorized the request.
func (s *Server) controlSession(*http.Request) (any, error) { return nil, nil }

func (s *Server) controlOpenSession(*http.Request) (any, error) {
	return setCookie(s.session()), nil
}

func (s *Server) controlEndSession(*http.Request) (any, error) {
	cookie := s.session()
	cookie.Value, cookie.MaxAge = "", -1
	return setCookie(cookie), nil
}

// setCookie returns a response without a body that sets a cookie.
func setCookie(cookie *http.Cookie) *response {
	return &response{status: http.StatusNoContent, header: http.Header{"Set-Cookie": {cookie.String()}}}
}

// Paths of the page, below controlPath.
const (
	assetsPath  = controlPath + "page/"
	privatePath = assetsPath + "private/" // guarded as the control plane
	openPath    = controlPath + "open/"
	caPath      = controlPath + "ca"
)

// withPage passes the requests for the page to its handler, and all others to next. The guard of
// the control plane checks those below privatePath first.
func (s *Server) withPage(next http.Handler) http.Handler {
	if s.page == nil {
		return next
	}
	private := s.guardControl(s.page)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == controlPath {
			w.Header().Set("Vary", "Accept")
		}
		switch {
		case !isPage(r):
			next.ServeHTTP(w, r)
		case strings.HasPrefix(r.URL.Path, privatePath):
			private.ServeHTTP(w, r)
		default:
			s.page.ServeHTTP(w, r)
		}
	})
}

// isPage reports whether a request is for the page. A path with dot segments or escapes is not,
// because two routers could interpret it differently, and the page requires no token.
func isPage(r *http.Request) bool {
	p := r.URL.Path
	if p == controlPath {
		return (r.Method == http.MethodGet || r.Method == http.MethodHead) && acceptsHTML(r)
	}
	if r.URL.RawPath != "" || path.Clean(p) != strings.TrimSuffix(p, "/") {
		return false
	}
	return p == caPath || strings.HasPrefix(p, caPath+"/") || strings.HasPrefix(p, assetsPath) || strings.HasPrefix(p, openPath)
}

// acceptsHTML reports whether a client accepts a page.
func acceptsHTML(r *http.Request) bool {
	for media := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		name, params, err := mime.ParseMediaType(media)
		if err == nil && name == "text/html" && (params["q"] == "" || strings.Trim(params["q"], "0.") != "") {
			return true
		}
	}
	return false
}

// isNavigation reports whether a browser sent a request to show the response in a window or a tab.
//
// Browsers that send no Sec-Fetch-Mode, such as Safari before 16.4, are recognized by the
// User-Agent that every browser has, together with Accept-Language. Native clients that accept
// text/html lack at least one of them.
func isNavigation(r *http.Request) bool {
	if mode := r.Header.Get("Sec-Fetch-Mode"); mode != "" {
		dest := r.Header.Get("Sec-Fetch-Dest") // an iframe cannot show the page
		return mode == "navigate" && (dest == "" || dest == "document")
	}
	return acceptsHTML(r) && r.Header.Get("Accept-Language") != "" && strings.HasPrefix(r.Header.Get("User-Agent"), "Mozilla/5.0 (")
}

// redirectBrowser redirects a browser that opens the root path to the control page and, if
// PhonePage is set, one that opens a Check URL to the phone page. It reports whether it did.
func (s *Server) redirectBrowser(w http.ResponseWriter, r *http.Request) bool {
	if s.page == nil || r.Method != http.MethodGet {
		return false
	}
	target := ""
	if r.URL.Path == "/" && acceptsHTML(r) {
		target = controlPath
	} else if route := routes().find(r.URL.EscapedPath()); route != nil && s.opts.control.PhonePage && isNavigation(r) {
		if route.methods[http.MethodGet].op.Action() == "open" {
			target = openPath + url.PathEscape(route.ids["check_id"])
		}
	}
	if target == "" {
		return false
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Location", target)
	w.WriteHeader(http.StatusSeeOther)
	return true
}

// badControl returns a bad_request problem.
func badControl(format string, args ...any) error {
	return newProblem(wire.BadRequest, fmt.Sprintf(format, args...))
}

// decodeControl decodes the body of a request into v. Unknown fields are errors, because a
// misspelled field could let a test pass for the wrong reason.
func decodeControl(r *http.Request, v any) error { return decodeControlUpTo(wire.MaxBody, r, v) }

// decodeControlUpTo is decodeControl for a body of at most limit bytes.
func decodeControlUpTo(limit int, r *http.Request, v any) error {
	body, err := readBodyUpTo(limit, r)
	switch {
	case errors.Is(err, errBodyTooLarge):
		return badControl("the body is too large")
	case err != nil:
		return badControl("the body is truncated")
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		// encoding/json has no type for this error.
		if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return badControl("unknown field %s", field)
		}
		return badControl("%s", badJSON(body, err))
	}
	if _, err := decoder.Token(); err != io.EOF {
		return badControl("unexpected text after the JSON value in the body")
	}
	return nil
}

// checkControlQuery rejects query parameters that are not in known, because a misspelled parameter
// would have no effect.
func checkControlQuery(r *http.Request, known []string) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badControl("the query is malformed")
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.Contains(known, name) {
			return badControl("unknown query parameter %q", name)
		}
	}
	return nil
}

// maxControlSeconds is 100 years, well within the range of time.Duration.
const maxControlSeconds = 100 * 365 * 24 * 3600

// controlSpan returns a number of seconds as a duration. The number must be between 0 and limit.
func controlSpan(name string, seconds float64, limit int64) (time.Duration, error) {
	if !(seconds >= 0 && seconds <= float64(limit)) { // rejects NaN too
		return 0, badControl("%s must be from 0 to %d", name, limit)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}
