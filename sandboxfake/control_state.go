package sandboxfake

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/wire"
)

// stateView is the JSON form of the state of a server.
type stateView struct {
	URL             string           `json:"url"`
	PublicURL       string           `json:"public_url,omitempty"` // of WithPublicURL
	Generation      uint64           `json:"generation"`           // number of resets
	Revision        uint64           `json:"revision"`             // incremented by each change; starts again after a reset
	Now             time.Time        `json:"now"`
	Frozen          bool             `json:"frozen"`
	Dates           string           `json:"dates"` // as in controlDatesView
	CallbackHeader  string           `json:"callback_header"`
	Keys            []keyView        `json:"keys"`
	Workspaces      []workspaceState `json:"workspaces"` // at most maxStateItems, oldest first
	WorkspacesTotal int              `json:"workspaces_total"`
	Projects        []projectState   `json:"projects"` // at most maxStateItems, by workspace, oldest first
	ProjectsTotal   int              `json:"projects_total"`
	Credentials     struct {
		Project   *initialCredentials `json:"project,omitempty"`
		Workspace *initialCredentials `json:"workspace,omitempty"`
	} `json:"credentials"` // without those that were deleted, or have a new secret
	Checks     countView  `json:"checks"`
	Requests   countView  `json:"requests"`
	Deliveries countView  `json:"deliveries"`
	InFlight   int        `json:"in_flight"`
	NextEvent  *time.Time `json:"next_event,omitempty"`
}

// maxStateItems is the maximum number of workspaces, and of projects, in a stateView.
const maxStateItems = 100

// keyView is the JSON form of a published signing key.
type keyView struct {
	KeyID     string     `json:"key_id"`
	Signing   bool       `json:"signing"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"` // of a retired key
}

// workspaceState is the JSON form of a workspace.
type workspaceState struct {
	WorkspaceID string      `json:"workspace_id"`
	Name        string      `json:"name"`
	Currency    string      `json:"currency"`
	Balance     json.Number `json:"balance"`
}

// projectState is the JSON form of a project.
type projectState struct {
	ProjectID       string          `json:"project_id"`
	WorkspaceID     string          `json:"workspace_id"`
	Name            string          `json:"name"`
	Mode            mode            `json:"mode"`
	CallbackURL     string          `json:"callback_url,omitempty"`
	PhoneCheck      productURLsView `json:"phone_check"`
	SubscriberCheck productURLsView `json:"subscriber_check"`
}

// initialCredentials is the JSON form of the credentials of the initial project or workspace.
type initialCredentials struct {
	credentialsPair
	ProjectID   string `json:"project_id,omitempty"`
	WorkspaceID string `json:"workspace_id,omitempty"`
}

// countView is the size of a journal, and the number of entries that it has dropped.
type countView struct {
	Total   int `json:"total"`
	Dropped int `json:"dropped"`
}

// controlState handles GET /_sandbox/state.
func (s *Server) controlState(*http.Request) (any, error) {
	svc := s.lock()
	defer svc.mu.Unlock()
	v := &stateView{
		URL:             s.url,
		PublicURL:       s.publicURL,
		Generation:      svc.generation,
		Revision:        svc.revision,
		Now:             svc.clock.Now(),
		Frozen:          svc.clock.Frozen(),
		Dates:           svc.dates.clock(),
		CallbackHeader:  s.opts.callbackHeader,
		WorkspacesTotal: len(svc.accounts.workspaces),
		ProjectsTotal:   len(svc.accounts.projects),
		Checks:          svc.history.records.count(),
		Requests:        svc.requests.count(),
		Deliveries:      svc.deliveries.count(),
		InFlight:        svc.inFlight,
	}
	for i, key := range svc.keys.keys {
		shown := keyView{KeyID: key.id, Signing: i == len(svc.keys.keys)-1}
		if !key.removed.IsZero() {
			shown.ExpiresAt = &key.removed
		}
		v.Keys = append(v.Keys, shown)
	}
	v.addAccounts(svc)
	if due, ok := svc.clock.Next(); ok {
		v.NextEvent = &due
	}
	return v, nil
}

// addAccounts adds the workspaces, projects and initial credentials.
func (v *stateView) addAccounts(svc *service) {
	v.Workspaces, v.Projects = []workspaceState{}, []projectState{}
	for _, w := range svc.accounts.inOrder {
		if len(v.Workspaces) < maxStateItems {
			v.Workspaces = append(v.Workspaces, workspaceState{w.id, w.name, w.currency, w.balance.number()})
		}
		for _, p := range w.projects[:min(len(w.projects), maxStateItems-len(v.Projects))] {
			v.Projects = append(v.Projects, newProjectState(p))
		}
		if len(v.Workspaces) == maxStateItems && len(v.Projects) == maxStateItems {
			break
		}
	}
	valid := func(c idverify.Credentials) *initialCredentials {
		if svc.accounts.authenticate(c.ClientID, c.ClientSecret.Reveal()) == nil {
			return nil
		}
		return &initialCredentials{credentialsPair: credentialsPair{c.ClientID, c.ClientSecret.Reveal()}}
	}
	initial := &svc.initial
	if v.Credentials.Project = valid(initial.project); v.Credentials.Project != nil {
		v.Credentials.Project.ProjectID = initial.projectID
	}
	if v.Credentials.Workspace = valid(initial.workspace); v.Credentials.Workspace != nil {
		v.Credentials.Workspace.WorkspaceID = initial.workspaceID
	}
}

func newProjectState(p *project) projectState {
	v := p.settings.view()
	return projectState{p.id, p.workspace.id, v.Name, v.Mode, v.CallbackURL, v.Configuration[wire.PhoneCheck], v.Configuration[wire.SubscriberCheck]}
}

// count returns the size of the journal.
func (j *journal[T]) count() countView { return countView{len(j.entries), j.dropped} }

// controlTimeView is the time on the server's clock.
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
		return nil, badControl("seconds is missing")
	}
	d, err := controlSpan("seconds", *params.Seconds, maxControlSeconds)
	if err != nil {
		return nil, err
	}
	if err := s.Advance(r.Context(), d); err != nil {
		return nil, err
	}
	return controlTimeView{s.Now()}, nil
}

func (s *Server) controlExpire(r *http.Request) (any, error) {
	var params struct {
		CheckID string `json:"check_id"`
	}
	if err := decodeControl(r, &params); err != nil {
		return nil, err
	}
	if params.CheckID == "" {
		return nil, badControl("%s", noControlCheckID)
	}
	return nil, s.expire(params.CheckID)
}

// controlDatesView names the clock that dates signatures.
type controlDatesView struct {
	Clock string `json:"clock"`
}

// Values of controlDatesView.Clock.
const (
	systemClock  = "system"
	sandboxClock = "sandbox"
)

func (s *Server) controlDates(*http.Request) (any, error) {
	svc := s.lock()
	defer svc.mu.Unlock()
	return controlDatesView{svc.dates.clock()}, nil
}

// clock returns the name of the clock that dates signatures.
func (d *messageDates) clock() string {
	if d.system {
		return systemClock
	}
	return sandboxClock
}

func (s *Server) controlSetDates(r *http.Request) (any, error) {
	var params controlDatesView
	if err := decodeControl(r, &params); err != nil {
		return nil, err
	}
	if params.Clock != systemClock && params.Clock != sandboxClock {
		return nil, badControl("clock must be %s or %s", systemClock, sandboxClock)
	}
	svc := s.lock()
	defer svc.mu.Unlock()
	svc.dates.system = params.Clock == systemClock
	svc.noteChange()
	return nil, nil
}

func (s *Server) controlIdle(r *http.Request) (any, error) { return nil, s.WaitIdle(r.Context()) }

func (s *Server) controlRotateKeys(*http.Request) (any, error) {
	s.RotateKeys()
	svc := s.lock()
	defer svc.mu.Unlock()
	return struct {
		KeyID string `json:"key_id"`
	}{svc.keys.keys[len(svc.keys.keys)-1].id}, nil
}

// controlReset handles POST /_sandbox/reset. The body is optional.
func (s *Server) controlReset(r *http.Request) (any, error) {
	var params struct {
		Seed *uint64 `json:"seed"`
	}
	if r.ContentLength != 0 {
		if err := decodeControl(r, &params); err != nil {
			return nil, err
		}
	}
	s.reset(params.Seed)
	return nil, nil
}

// accountView is the JSON form of an [Account]. It contains the client secret.
type accountView struct {
	WorkspaceID string          `json:"workspace_id"`
	MemberID    string          `json:"member_id"`
	Role        string          `json:"role"`
	Credentials credentialsPair `json:"credentials"`
	Joined      []accountView   `json:"joined,omitempty"`
}

type credentialsPair struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
}

func newAccountView(a *Account) accountView {
	v := accountView{
		WorkspaceID: a.WorkspaceID,
		MemberID:    a.MemberID,
		Role:        string(a.Role),
		Credentials: credentialsPair{a.Credentials.ClientID, a.Credentials.ClientSecret.Reveal()},
	}
	for _, joined := range a.Joined {
		v.Joined = append(v.Joined, newAccountView(joined))
	}
	return v
}

// controlSignUp handles POST /_sandbox/signup. See [Server.SignUp].
func (s *Server) controlSignUp(r *http.Request) (any, error) {
	var params struct {
		Name          string   `json:"name"`
		InvitationIDs []string `json:"invitation_ids"`
	}
	if err := decodeControl(r, &params); err != nil {
		return nil, err
	}
	svc := s.lock()
	defer svc.mu.Unlock()
	account, err := svc.signUp(params.Name, params.Name, params.InvitationIDs)
	if err != nil {
		return nil, badControl("%v", err)
	}
	return newAccountView(account), nil
}

// Limits of event streams.
const (
	maxStreams    = 32
	eventInterval = 250 * time.Millisecond // minimum time between two events
	pingInterval  = 15 * time.Second
	eventTimeout  = 10 * time.Second // of a write, for a client that does not read
)

// controlEvents handles GET /_sandbox/events, a stream of server-sent events. The first event is
// sent immediately. Its data is a controlChange.
func (s *Server) controlEvents(r *http.Request) (any, error) {
	if s.streams.Add(1) > maxStreams {
		s.streams.Add(-1)
		return nil, &problem{
			Type:   "about:blank",
			Title:  http.StatusText(http.StatusServiceUnavailable),
			Status: http.StatusServiceUnavailable,
			Detail: fmt.Sprintf("the server has %d event streams: close one first", maxStreams),
		}
	}
	return controlStream(func(w http.ResponseWriter) {
		defer s.streams.Add(-1)
		s.streamEvents(w, r)
	}), nil
}

// controlChange identifies a state of the server. After a reset, generation has increased and
// revision starts again.
type controlChange struct {
	generation, revision uint64
}

// change returns the current state, and a channel that is closed at the next change. It returns an
// error if the server is closed.
func (s *Server) change() (controlChange, <-chan struct{}, error) {
	svc := s.lock()
	defer svc.mu.Unlock()
	return controlChange{svc.generation, svc.revision}, svc.nextChange(), svc.ended
}

// streamEvents sends events until the client disconnects or the server is closed.
func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // for proxies that buffer responses
	if r.Method == http.MethodHead {
		return
	}
	stream := http.NewResponseController(w)
	defer func() { _ = stream.SetWriteDeadline(time.Time{}) }()
	ping := time.NewTicker(pingInterval)
	defer ping.Stop()
	sent := controlChange{revision: math.MaxUint64} // differs from every state
	for {
		now, changed, err := s.change()
		if err != nil || r.Context().Err() != nil {
			return
		}
		var text string
		if now != sent {
			text = fmt.Sprintf("event: change\ndata: {\"generation\":%d,\"revision\":%d}\n\n", now.generation, now.revision)
			sent = now
		} else {
			select {
			case <-changed:
				continue
			case <-ping.C:
				text = ": ping\n\n"
			case <-r.Context().Done():
				return
			}
		}
		if err := sendEvent(w, stream, text); err != nil {
			return
		}
		wait(r.Context(), eventInterval)
	}
}

// sendEvent writes text to a stream, at most for eventTimeout.
func sendEvent(w io.Writer, stream *http.ResponseController, text string) error {
	if err := stream.SetWriteDeadline(time.Now().Add(eventTimeout)); err != nil {
		return err
	}
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	return stream.Flush()
}
