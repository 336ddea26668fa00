package sandboxfake

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// handlers returns the handler of each operation in the route table. Console handlers also check
// the required role.
func handlers() map[string]handler {
	return map[string]handler{
		wire.Token.Name:  (*service).issueTokenFor,
		wire.Revoke.Name: (*service).revokeToken,
		wire.JWKS.Name:   (*service).keySet,

		wire.CreatePhoneCheck.Name:     (*service).createCheck,
		wire.GetPhoneCheck.Name:        (*service).getCheck,
		wire.ListPhoneChecks.Name:      (*service).listChecks,
		wire.OpenPhoneCheck.Name:       (*service).openCheck,
		wire.CompletePhoneCheck.Name:   (*service).completeCheck,
		wire.ListPhoneCheckTraces.Name: (*service).listTraces,
		wire.GetPhoneCheckTrace.Name:   (*service).getTrace,

		wire.CreateSubscriberCheck.Name:     (*service).createCheck,
		wire.GetSubscriberCheck.Name:        (*service).getCheck,
		wire.ListSubscriberChecks.Name:      (*service).listChecks,
		wire.OpenSubscriberCheck.Name:       (*service).openCheck,
		wire.CompleteSubscriberCheck.Name:   (*service).completeCheck,
		wire.ListSubscriberCheckTraces.Name: (*service).listTraces,
		wire.GetSubscriberCheckTrace.Name:   (*service).getTrace,

		wire.CreateSIMCheck.Name:     (*service).createCheck,
		wire.GetSIMCheck.Name:        (*service).getCheck,
		wire.ListSIMChecks.Name:      (*service).listChecks,
		wire.ListSIMCheckTraces.Name: (*service).listTraces,
		wire.GetSIMCheckTrace.Name:   (*service).getTrace,

		wire.LookupDeviceIP.Name: (*service).deviceIP,
		wire.LookupCallerIP.Name: (*service).callerIP,
		wire.GetCountry.Name:     (*service).country,

		wire.CreateProject.Name: console(roleAdmin, (*service).createProject),
		wire.ListProjects.Name:  console(roleViewer, (*service).listProjects),
		wire.GetProject.Name:    console(roleViewer, (*service).getProject),
		wire.UpdateProject.Name: console(roleAdmin, (*service).updateProject),
		wire.DeleteProject.Name: console(roleAdmin, (*service).deleteProject),

		wire.CreateProjectCredentials.Name: console(roleViewer, (*service).createProjectCredentials),
		wire.ListProjectCredentials.Name:   console(roleViewer, (*service).listProjectCredentials),
		wire.GetProjectCredentials.Name:    console(roleViewer, (*service).getProjectCredentials),
		wire.DeleteProjectCredentials.Name: console(roleViewer, (*service).deleteProjectCredentials),

		wire.ListWorkspaces.Name:  console(roleViewer, (*service).listWorkspaces),
		wire.GetWorkspace.Name:    console(roleViewer, (*service).getWorkspace),
		wire.UpdateWorkspace.Name: console(roleAdmin, (*service).updateWorkspace),

		wire.ListMembers.Name:      console(roleViewer, (*service).listMembers),
		wire.GetMember.Name:        console(roleViewer, (*service).getMember),
		wire.CreateInvitation.Name: console(roleAdmin, (*service).createInvitation),
		wire.ListInvitations.Name:  console(roleAdmin, (*service).listInvitations),

		wire.CreateWorkspaceCredentials.Name: console(roleViewer, (*service).createWorkspaceCredentials),
		wire.ListWorkspaceCredentials.Name:   console(roleViewer, (*service).listWorkspaceCredentials),
		wire.GetWorkspaceCredentials.Name:    console(roleViewer, (*service).getWorkspaceCredentials),
		wire.DeleteWorkspaceCredentials.Name: console(roleViewer, (*service).deleteWorkspaceCredentials),
		wire.ResetWorkspaceCredentials.Name:  console(roleViewer, (*service).resetWorkspaceCredentials),

		wire.GetBillingAccount.Name:    console(roleOwner, (*service).getBillingAccount),
		wire.UpdateBillingAccount.Name: console(roleOwner, (*service).updateBillingAccount),
		wire.AddPaymentMethod.Name:     console(roleOwner, (*service).addPaymentMethod),
		wire.ListPaymentMethods.Name:   console(roleOwner, (*service).listPaymentMethods),
		wire.GetPaymentMethod.Name:     console(roleOwner, (*service).getPaymentMethod),
		wire.DeletePaymentMethod.Name:  console(roleOwner, (*service).deletePaymentMethod),
		wire.CreateTopUp.Name:          console(roleOwner, (*service).createTopUp),
		wire.ListTopUps.Name:           console(roleOwner, (*service).listTopUps),
		wire.GetUsage.Name:             console(roleViewer, (*service).getUsage),
	}
}

// router is a node in the tree of path segments.
type router struct {
	segments map[string]*router // by literal text
	param    *router            // any one segment
	name     string             // of the parameter, if the segment is one
	methods  map[string]endpoint
	public   bool // an operation of the path requires no token
}

// endpoint is an operation at a path.
type endpoint struct {
	op     wire.Operation
	handle handler
}

// routes returns the route table as a tree. All servers share it.
var routes = sync.OnceValue(func() *router {
	root := new(router)
	table := handlers()
	for _, op := range wire.Operations() {
		if handle, ok := table[op.Name]; ok {
			root.add(op, handle)
		}
	}
	return root
})

func (n *router) add(op wire.Operation, handle handler) {
	for segment := range strings.SplitSeq(op.Path[1:], "/") {
		name, isParam := strings.CutPrefix(segment, "{")
		switch {
		case isParam:
			if n.param == nil {
				n.param = &router{name: strings.TrimSuffix(name, "}")}
			}
			n = n.param
		default:
			if n.segments == nil {
				n.segments = make(map[string]*router)
			}
			if n.segments[segment] == nil {
				n.segments[segment] = new(router)
			}
			n = n.segments[segment]
		}
	}
	if n.methods == nil {
		n.methods = make(map[string]endpoint)
	}
	n.methods[op.Method] = endpoint{op, handle}
	n.public = n.public || op.Scope == ""
}

// route is the result of a lookup.
type route struct {
	*router
	version string
	ids     map[string]string
}

// find returns the route of a path, or nil for an unknown path or version. The path is still
// escaped, so that %2F can be part of a parameter.
func (n *router) find(escapedPath string) *route {
	found := &route{}
	product := ""
	for segment := range strings.SplitSeq(strings.TrimPrefix(escapedPath, "/"), "/") {
		text, err := url.PathUnescape(segment)
		if err != nil || text == "" {
			return nil
		}
		if product == "" || product == wire.Public {
			product = text
		}
		literal := n.segments[text]
		switch {
		case literal != nil:
			n = literal
		case n.param == nil:
			return nil
		case n.param.name == "v":
			if !slices.Contains(wire.Versions[product], text) {
				return nil
			}
			n, found.version = n.param, text
		default:
			n = n.param
			if found.ids == nil {
				found.ids = make(map[string]string)
			}
			found.ids[n.name] = text
		}
	}
	if n.methods == nil {
		return nil
	}
	found.router = n
	return found
}

// requiresToken reports whether the operations of a path require a bearer token. Those of unknown
// paths do. The token endpoints, the key set, Check URLs, and the reachability of the caller do
// not.
func (r *route) requiresToken() bool { return r == nil || !r.public }

// allow returns the value of the Allow header.
func (r *route) allow() string {
	var methods []string
	for _, method := range slices.Sorted(maps.Keys(r.methods)) {
		if r.methods[method].serves(r.version) {
			methods = append(methods, method)
		}
	}
	return strings.Join(methods, ", ")
}

// serves reports whether the operation exists in version. Version 0.1 has no code exchange.
func (e endpoint) serves(version string) bool {
	return version == wire.V02 || e.op.Action() != "complete"
}

// problem is an error of the service and its problem document (RFC 9457).
type problem struct {
	Type   string      `json:"type"`
	Title  string      `json:"title"`
	Status int         `json:"status"`
	Detail string      `json:"detail"`
	header http.Header // additional headers of the response
}

func (p *problem) Error() string { return p.Detail }

// newProblem returns a problem with the given type fragment. If detail is empty, the default from
// problemKinds is used.
func newProblem(fragment, detail string) *problem {
	p := &problem{Type: docsURL + "/reference/api-errors#" + fragment, Status: http.StatusInternalServerError, Detail: detail}
	for _, kind := range problemKinds {
		if kind.fragment == fragment {
			p.Status = kind.status
			if detail == "" {
				p.Detail = kind.detail
			}
		}
	}
	p.Title = http.StatusText(p.Status)
	if fragment == wire.Unauthorized {
		p.header = http.Header{"Www-Authenticate": {`Bearer realm="api"`}}
	}
	return p
}

// docsURL is the base URL of problem types.
const docsURL = "https://docs.sandbox.test"

// problemKinds is the table of problems, with their default details.
var problemKinds = []struct {
	status   int
	fragment string
	detail   string
}{
	{400, wire.BadRequest, "malformed or out-of-range body or parameter"},
	{400, wire.PhoneFormatInvalid, "phone_number must be 7 to 15 digits in international format, optionally after a plus sign"},
	{400, wire.MNONotSupported, "MNO not supported"},
	{401, wire.Unauthorized, "missing, malformed, expired or revoked access token"},
	{402, wire.InsufficientBalance, "the balance does not cover the price"},
	{403, wire.Forbidden, "the token's scope or the member's role does not allow this operation"},
	{404, wire.NotFound, "resource not found"},
	{404, wire.CheckNotFound, "check not found"},
	{404, wire.TraceNotFound, "trace not found"},
	{404, wire.WorkspaceNotFound, "workspace not found"},
	{405, wire.MethodNotAllowed, "the path does not support this method"},
	{415, wire.UnsupportedMediaType, "unsupported media type of the body"},
	{409, wire.ProjectNameTaken, "the workspace already has a project with this name"},
	{409, wire.CredentialsLimitReached, "the project already has two pairs of credentials"},
	{409, wire.CompanyDetailsRequired, "add the company details first"},
	{409, wire.PaymentDetailsRequired, "add a payment method first"},
	{409, wire.CurrencyFixed, "the first top-up fixed the account's currency"},
	{409, wire.CurrencyNotSupported, "the payment method does not support the currency"},
	{409, wire.IPMSISDNMismatch, "the IP address does not belong to the phone number"},
	{410, wire.TraceGone, "the trace has expired: traces are kept for seven days"},
	{412, wire.NotMobileIP, "Not a mobile IP"},
	{413, wire.PayloadTooLarge, "the body is larger than 64 KiB"},
	{429, wire.TooManyRequests, "too many requests: retry after the delay in Retry-After"},
	{501, wire.MNORedirectUnsupported, "the operator does not support the redirect"},
}

// rateWindow counts the calls of a workspace in one hour.
type rateWindow struct {
	ends  time.Time
	calls int
}

// rateWindowLength is the period of a rate limit.
const rateWindowLength = time.Hour

// limitRate applies the workspace's rate limit to a call. Beyond the limit, it returns a 429
// problem.
func (s *service) limitRate(c *call) error {
	if s.opts.rateLimit == 0 || c.credential == nil {
		return nil
	}
	now := s.clock.Now()
	window := s.windows[c.credential.workspace]
	if window == nil || !now.Before(window.ends) {
		window = &rateWindow{ends: now.Add(rateWindowLength)}
		s.windows[c.credential.workspace] = window
	}
	window.calls++
	c.rate = &rateLimit{limit: s.opts.rateLimit, remaining: max(0, s.opts.rateLimit-window.calls), reset: window.ends}
	if window.calls <= s.opts.rateLimit {
		return nil
	}
	p := newProblem(wire.TooManyRequests, "")
	p.header = http.Header{"Retry-After": {wholeSeconds(window.ends.Sub(now))}}
	return p
}

// rateLimit contains the values of the X-RateLimit headers.
type rateLimit struct {
	limit, remaining int
	reset            time.Time
}

// set sets the headers. It does nothing if l is nil. The reset is rounded up, so that a client that
// waits for it does not retry too early.
func (l *rateLimit) set(header http.Header) {
	if l == nil {
		return
	}
	reset := l.reset.Add(time.Second - 1).Unix()
	header.Set("X-RateLimit-Limit", strconv.Itoa(l.limit))
	header.Set("X-RateLimit-Remaining", strconv.Itoa(l.remaining))
	header.Set("X-RateLimit-Reset", strconv.FormatInt(reset, 10))
}

// wholeSeconds formats a duration for Retry-After, rounded up.
func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
