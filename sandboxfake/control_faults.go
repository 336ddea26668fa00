package sandboxfake

import (
	"net/http"
	"slices"

	"github.com/idverify/idverify-go/internal/wire"
)

// controlFaultView is the JSON form of a [Fault].
type controlFaultView struct {
	Status            int     `json:"status,omitempty"`
	Code              string  `json:"code,omitempty"`
	RetryAfterSeconds float64 `json:"retry_after_seconds,omitempty"`
	LatencySeconds    float64 `json:"latency_seconds,omitempty"`
	Drop              bool    `json:"drop,omitempty"`
	Truncate          bool    `json:"truncate,omitempty"`
	Body              string  `json:"body,omitempty"`
	WrongKey          bool    `json:"wrong_key,omitempty"`
}

func (v controlFaultView) fault() (Fault, error) {
	retryAfter, err := controlSpan("retry_after_seconds", v.RetryAfterSeconds, maxControlSeconds)
	if err != nil {
		return Fault{}, err
	}
	latency, err := controlSpan("latency_seconds", v.LatencySeconds, maxControlSeconds)
	if err != nil {
		return Fault{}, err
	}
	return Fault{
		Status: v.Status, Code: v.Code, RetryAfter: retryAfter, Latency: latency,
		Drop: v.Drop, Truncate: v.Truncate, Body: v.Body, WrongKey: v.WrongKey,
	}, nil
}

func newControlFaultView(f *Fault) *controlFaultView {
	if f == nil {
		return nil
	}
	return &controlFaultView{
		Status: f.Status, Code: f.Code, RetryAfterSeconds: f.RetryAfter.Seconds(), LatencySeconds: f.Latency.Seconds(),
		Drop: f.Drop, Truncate: f.Truncate, Body: f.Body, WrongKey: f.WrongKey,
	}
}

// controlMatchView is the JSON form of a [Match].
type controlMatchView struct {
	Operation string `json:"operation,omitempty"`
	Project   string `json:"project,omitempty"`
	Workspace string `json:"workspace,omitempty"`
	CheckID   string `json:"check_id,omitempty"`
	Repeat    bool   `json:"repeat,omitempty"`
}

// controlInjectionView is the JSON form of the arguments of [Server.Inject].
type controlInjectionView struct {
	Match  controlMatchView    `json:"match"`
	Faults []*controlFaultView `json:"faults"`
	Left   *int                `json:"left,omitempty"` // only in responses: faults left in the current round
}

// operationView is the JSON form of an operation that a match can name. For callbacks, the method
// and path are empty.
type operationView struct {
	Operation string `json:"operation"`
	Method    string `json:"method,omitempty"`
	Path      string `json:"path,omitempty"`
}

// controlOperations handles GET /_sandbox/operations. An operation with two paths is listed twice.
func (s *Server) controlOperations(*http.Request) (any, error) {
	view := struct {
		Operations []operationView `json:"operations"`
	}{}
	for _, op := range wire.Operations() {
		view.Operations = append(view.Operations, operationView{op.Name, op.Method, op.Path})
	}
	view.Operations = append(view.Operations, operationView{Operation: OperationCallback})
	return view, nil
}

func (s *Server) controlFaults(*http.Request) (any, error) {
	svc := s.lock()
	defer svc.mu.Unlock()
	view := struct {
		Injections []controlInjectionView `json:"injections"`
	}{[]controlInjectionView{}}
	for _, i := range svc.injections {
		v := controlInjectionView{Match: controlMatchView(i.match), Left: new(len(i.faults) - i.next)}
		for _, f := range i.faults {
			v.Faults = append(v.Faults, newControlFaultView(&f))
		}
		view.Injections = append(view.Injections, v)
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
		return nil, badControl("%v", err)
	}
	if len(params.Faults) == 0 {
		return nil, badControl("faults must not be empty")
	}
	var faults []Fault
	for _, v := range params.Faults {
		if v == nil {
			return nil, badControl("a fault must not be null (use {} to let a request pass)")
		}
		f, err := v.fault()
		if err != nil {
			return nil, err
		}
		if err := f.check(!s.opts.frozenAt.IsZero()); err != nil {
			return nil, badControl("%v", err)
		}
		faults = append(faults, f)
	}
	if err := s.checkMatch(match); err != nil {
		return nil, err
	}
	s.Inject(match, faults...)
	return nil, nil
}

// checkMatch rejects a match for a project or workspace that does not exist. It would never match,
// because the service chooses the IDs.
func (s *Server) checkMatch(m Match) error {
	svc := s.lock()
	defer svc.mu.Unlock()
	switch {
	case m.Project != "" && svc.accounts.projects[m.Project] == nil:
		return badControl("the project of the match does not exist")
	case m.Workspace != "" && svc.accounts.workspaces[m.Workspace] == nil:
		return badControl("the workspace of the match does not exist")
	}
	return nil
}

func (s *Server) controlClearFaults(*http.Request) (any, error) {
	svc := s.lock()
	defer svc.mu.Unlock()
	svc.injections = slices.Delete(svc.injections, 0, len(svc.injections))
	s.recent.add(recent{kind: recentRemove, at: svc.clock.Now()})
	svc.noteChange()
	return nil, nil
}
