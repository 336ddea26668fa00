package sandboxfake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// controlPath is where the control plane is, beside the service's own paths.
const controlPath = "/_sandbox/"

// WithControlPlane has the server answer under /_sandbox/ as well: what the methods of [Server] do, as plain JSON, for tests in other languages. GET /_sandbox/ says what there is.
//
// It takes no credentials, so it answers connections from this machine alone, see [WithRemoteControl], and not the pages of other sites in a browser on it.
// What it does is in no journal and costs no call of a rate limit.
func WithControlPlane() Option {
	return func(o *options) error {
		o.control = true
		return nil
	}
}

// WithRemoteControl is [WithControlPlane] for every address that reaches the server, such as that of another container. Whoever reaches it can read what the journals hold, phone numbers among it.
func WithRemoteControl() Option {
	return func(o *options) error {
		o.control, o.remoteControl = true, true
		return nil
	}
}

// controls is the table of the control plane, and its help page.
var controls = []struct {
	method, path string
	example      string // a body; empty where none is read
	does         string
	handle       func(*Server, *http.Request) (any, error)
}{
	{"GET", "time", "", "the time on the server's clock", (*Server).controlTime},
	{"POST", "advance", `{"seconds": 120}`, "moves the clock, does what falls due on the way, and answers when that is done", (*Server).controlAdvance},
	{"POST", "idle", "", "answers when no callback is in flight and none is due now", (*Server).controlIdle},
	{"GET", "faults", "", "the faults that were injected, and how many are still to come", (*Server).controlFaults},
	{"POST", "faults", `{"match": {"operation": "phone_check.create"}, "faults": [{"status": 503}]}`, "breaks the next calls that match, one fault a call", (*Server).controlInject},
	{"DELETE", "faults", "", "takes all faults back", (*Server).controlClearFaults},
	{"GET", "deliveries", "", "the callbacks and their tries; with ?check_id=…&wait_seconds=10 those of one check, as soon as they are done", (*Server).controlDeliveries},
	{"POST", "redeliver", `{"delivery_id": "…"}`, "sends a callback once more", (*Server).controlRedeliver},
	{"GET", "requests", "", "the calls that the service saw", (*Server).controlRequests},
	{"POST", "signup", `{"name": "Ada", "invitation_ids": []}`, "signs a user up, who owns a new workspace and joins those of the invitations; answers their credentials", (*Server).controlSignUp},
	{"POST", "keys", "", "has a new key sign; the old one stays published for five minutes", (*Server).controlRotateKeys},
	{"POST", "reset", "", "brings everything back to what it was at the start", (*Server).controlReset},
}

// controlPlane serves the table, or nothing where the option is not set.
func (s *Server) controlPlane() http.Handler {
	if !s.opts.control {
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+controlPath+"{$}", s.controlHelp)
	for _, row := range controls {
		mux.HandleFunc(row.method+" "+controlPath+row.path, func(w http.ResponseWriter, r *http.Request) {
			body, err := row.handle(s, r)
			writeControl(w, body, err)
		})
	}
	return http.NewCrossOriginProtection().Handler(s.guardControl(mux))
}

// isControl reports whether a request is for the control plane.
func (s *Server) isControl(r *http.Request) bool {
	return s.control != nil && strings.HasPrefix(r.URL.Path, controlPath)
}

// guardControl refuses who is not to control the server. A page of another site can have a browser post to this machine, but not as JSON without asking first, which is never granted here.
func (s *Server) guardControl(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		switch {
		case !s.opts.remoteControl && (!fromLoopback(r) || !s.forThisMachine(r)):
			writeControl(w, nil, newProblem(wire.Forbidden, "The control plane answers this machine alone, unless the server is told otherwise"))
		case r.Method == http.MethodPost && media != wire.MediaJSON:
			writeControl(w, nil, newProblem(wire.UnsupportedMediaType, "Send Content-Type: application/json, also without a body"))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func fromLoopback(r *http.Request) bool {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// forThisMachine tells a call that was meant for this machine from one that a tunnel or a proxy on it has brought here, which comes from loopback, too.
func (s *Server) forThisMachine(r *http.Request) bool {
	for name := range r.Header {
		if name == "Forwarded" || name == "Via" || strings.HasPrefix(name, "X-Forwarded-") {
			return false
		}
	}
	host := hostName(r.Host)
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.Unmap().IsLoopback() || host == "localhost" || host == hostName(strings.TrimPrefix(s.url, "https://"))
}

// controlHelp is GET /_sandbox/.
func (s *Server) controlHelp(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "sandboxfake, the control plane of %s\n\n", s.url)
	for _, row := range controls {
		fmt.Fprintf(w, "%-6s %s%s\n       %s\n", row.method, controlPath, row.path, row.does)
		if row.example != "" {
			fmt.Fprintf(w, "       %s\n", row.example)
		}
	}
	fmt.Fprintf(w, `
Every POST needs the header Content-Type: application/json. Errors are problem documents.

A match:  operation (as the requests name it, or "callback"), project, workspace, repeat
A fault:  one of status (with fragment, retry_after_seconds, body), drop, truncate, body, wrong_key; latency_seconds with any of them

Do not advance, wait or reset from the handler of a callback: they wait for its answer.
`)
}

// writeControl answers with JSON, or with the problem that err is.
func writeControl(w http.ResponseWriter, body any, err error) {
	a := &answer{status: http.StatusOK, media: wire.MediaJSON, body: body}
	if p, ok := errors.AsType[*problem](err); ok {
		a = problemAnswer(p)
	} else if err != nil {
		a = problemAnswer(newProblem(wire.BadRequest, err.Error()))
	} else if body == nil {
		a = &answer{status: http.StatusNoContent}
	}
	a.write(w)
}

// decodeControl reads a body into v. A name that it does not know is an error: a slip of the pen would have a test pass for the wrong reason.
func decodeControl(r *http.Request, v any) error {
	body, err := readBody(r.Body)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		return fmt.Errorf("the body: %w", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errors.New("the body has text after its JSON")
	}
	return nil
}

// maxControlSeconds is a hundred years, well inside a time.Duration.
const maxControlSeconds = 100 * 365 * 24 * 3600

// controlSpan is a span as the control plane has it, in seconds.
func controlSpan(name string, seconds float64) (time.Duration, error) {
	if !(seconds >= 0 && seconds <= maxControlSeconds) { // so that NaN is refused too
		return 0, fmt.Errorf("%s must be from 0 to %d", name, int64(maxControlSeconds))
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// controlTimeView is the time of the server's clock.
type controlTimeView struct {
	Now time.Time `json:"now"`
}

func (s *Server) controlTime(*http.Request) (any, error) { return controlTimeView{s.Now()}, nil }

func (s *Server) controlAdvance(r *http.Request) (any, error) {
	var params struct {
		Seconds *float64 `json:"seconds"`
	}
	if err := decodeControl(r, &params); err != nil {
		return nil, err
	}
	if params.Seconds == nil {
		return nil, errors.New("seconds is missing")
	}
	d, err := controlSpan("seconds", *params.Seconds)
	if err != nil {
		return nil, err
	}
	if err := s.Advance(r.Context(), d); err != nil {
		return nil, err
	}
	return controlTimeView{s.Now()}, nil
}

func (s *Server) controlIdle(r *http.Request) (any, error) { return nil, s.Idle(r.Context()) }

func (s *Server) controlRotateKeys(*http.Request) (any, error) {
	s.RotateKeys()
	s.mu.Lock()
	defer s.mu.Unlock()
	return struct {
		KeyID string `json:"key_id"`
	}{s.keys.keys[len(s.keys.keys)-1].id}, nil
}

func (s *Server) controlReset(*http.Request) (any, error) {
	s.Reset()
	return nil, nil
}

// controlFaultView is a Fault on the wire.
type controlFaultView struct {
	Status            int     `json:"status,omitempty"`
	Fragment          string  `json:"fragment,omitempty"`
	RetryAfterSeconds float64 `json:"retry_after_seconds,omitempty"`
	LatencySeconds    float64 `json:"latency_seconds,omitempty"`
	Drop              bool    `json:"drop,omitempty"`
	Truncate          bool    `json:"truncate,omitempty"`
	Body              string  `json:"body,omitempty"`
	WrongKey          bool    `json:"wrong_key,omitempty"`
}

func (v controlFaultView) fault() (Fault, error) {
	retryAfter, err := controlSpan("retry_after_seconds", v.RetryAfterSeconds)
	if err != nil {
		return Fault{}, err
	}
	latency, err := controlSpan("latency_seconds", v.LatencySeconds)
	if err != nil {
		return Fault{}, err
	}
	return Fault{v.Status, v.Fragment, retryAfter, latency, v.Drop, v.Truncate, v.Body, v.WrongKey}, nil
}

func newControlFaultView(f *Fault) *controlFaultView {
	if f == nil {
		return nil
	}
	return &controlFaultView{f.Status, f.Fragment, f.RetryAfter.Seconds(), f.Latency.Seconds(), f.Drop, f.Truncate, f.Body, f.WrongKey}
}

// controlMatchView is a Match on the wire.
type controlMatchView struct {
	Operation string `json:"operation,omitempty"`
	Project   string `json:"project,omitempty"`
	Workspace string `json:"workspace,omitempty"`
	Repeat    bool   `json:"repeat,omitempty"`
}

// controlInjectionView is an Inject on the wire.
type controlInjectionView struct {
	Match  controlMatchView    `json:"match"`
	Faults []*controlFaultView `json:"faults"`
	Left   *int                `json:"left,omitempty"` // answered: how many of the faults are still to come in this round
}

func (s *Server) controlFaults(*http.Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	view := struct {
		Faults []controlInjectionView `json:"injections"`
	}{[]controlInjectionView{}}
	for _, i := range s.injections {
		v := controlInjectionView{Match: controlMatchView(i.match), Left: new(len(i.faults) - i.next)}
		for _, f := range i.faults {
			v.Faults = append(v.Faults, newControlFaultView(&f))
		}
		view.Faults = append(view.Faults, v)
	}
	return view, nil
}

func (s *Server) controlInject(r *http.Request) (any, error) {
	var params controlInjectionView
	if err := decodeControl(r, &params); err != nil {
		return nil, err
	}
	match := Match(params.Match)
	if err := match.check(); err != nil {
		return nil, err
	}
	if len(params.Faults) == 0 {
		return nil, errors.New("faults is empty")
	}
	var faults []Fault
	for _, v := range params.Faults {
		if v == nil {
			return nil, errors.New("a fault is null: {} is the one that lets a call pass")
		}
		f, err := v.fault()
		if err != nil {
			return nil, err
		}
		if err := f.check(!s.opts.frozenAt.IsZero()); err != nil {
			return nil, err
		}
		faults = append(faults, f)
	}
	s.Inject(match, faults...)
	return nil, nil
}

func (s *Server) controlClearFaults(*http.Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.injections = slices.Delete(s.injections, 0, len(s.injections))
	return nil, nil
}
