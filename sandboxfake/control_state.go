package sandboxfake

import (
	"encoding/json"
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
