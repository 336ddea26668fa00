package sandboxfake

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/sandboxfake/internal/rsql"
)

// projectView is the JSON form of a project.
type projectView struct {
	ProjectID string `json:"project_id"`
	settingsView
	MemberID  string               `json:"member_id"`
	CreatedAt string               `json:"created_at"`
	UpdatedAt string               `json:"updated_at"`
	Embedded  *embeddedCredentials `json:"_embedded,omitempty"` // only in the response to create
	Links     selfLink             `json:"_links"`
}

type embeddedCredentials struct {
	Credentials []credentialView `json:"credentials"`
}

// settingsView contains the fields that a PATCH can change.
type settingsView struct {
	Name          string                     `json:"name"`
	Mode          mode                       `json:"mode"`
	CallbackURL   string                     `json:"callback_url,omitempty"`
	Configuration map[string]productURLsView `json:"configuration"`
}

type productURLsView struct {
	CallbackURL string `json:"callback_url,omitempty"`
	RedirectURL string `json:"redirect_url,omitempty"`
}

// configuredProducts are the products with a Check URL and callbacks. A project can configure URLs
// for each.
var configuredProducts = []string{wire.PhoneCheck, wire.SubscriberCheck}

func (s settings) view() settingsView {
	v := settingsView{Name: s.name, Mode: s.mode, CallbackURL: s.callbackURL, Configuration: make(map[string]productURLsView)}
	for _, product := range configuredProducts {
		v.Configuration[product] = productURLsView{s.products[product].callbackURL, s.products[product].redirectURL}
	}
	return v
}

// projectView returns the view of a project. Its self link contains the workspace if the path of
// the call does.
func (s *service) projectView(c *call, p *project) projectView {
	path := s.url + "/console/" + c.version
	if _, below := c.ids["workspace_id"]; below {
		path = s.workspacePath(c, p.workspace)
	}
	return projectView{
		ProjectID:    p.id,
		settingsView: p.settings.view(),
		MemberID:     p.member.id,
		CreatedAt:    formatTime(p.created),
		UpdatedAt:    formatTime(p.updated),
		Links:        selfLink{link{path + "/projects/" + p.id}},
	}
}

// projectParams is the body of a create request.
type projectParams struct {
	Name          *string                    `json:"name"`
	Mode          *string                    `json:"mode"`
	CallbackURL   string                     `json:"callback_url"`
	Configuration map[string]json.RawMessage `json:"configuration"`
}

// settings validates the parameters and converts them to settings.
func (p *projectParams) settings() (settings, error) {
	if err := checkName(p.Name); err != nil {
		return settings{}, err
	}
	chosen := settings{name: *p.Name, mode: modeLive, callbackURL: p.CallbackURL, products: make(map[string]productURLs)}
	if p.Mode != nil {
		chosen.mode = mode(*p.Mode)
	}
	if chosen.mode != modeLive && chosen.mode != modeSandbox {
		return settings{}, newProblem(wire.BadRequest, "mode must be live or sandbox")
	}
	if err := validateURLs(chosen.callbackURL, ""); err != nil {
		return settings{}, err
	}
	for _, product := range configuredProducts {
		if raw, ok := p.Configuration[product]; ok {
			urls, err := parseProductURLs(raw)
			if err != nil {
				return settings{}, err
			}
			chosen.products[product] = urls
		}
	}
	return chosen, nil
}

// parseProductURLs parses the configuration of one product.
func parseProductURLs(raw json.RawMessage) (productURLs, error) {
	// Field names are case-sensitive. A struct would ignore the case.
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return productURLs{}, newProblem(wire.BadRequest, "the configuration of a product must be an object")
	}
	var urls productURLs
	for name, url := range map[string]*string{"callback_url": &urls.callbackURL, "redirect_url": &urls.redirectURL} {
		if raw, ok := fields[name]; ok && (json.Unmarshal(raw, url) != nil || string(raw) == "null") {
			return productURLs{}, newProblem(wire.BadRequest, "the URLs of a product must be strings")
		}
	}
	return urls, validateURLs(urls.callbackURL, urls.redirectURL)
}

// createProject handles POST /console/{version}/projects. It also creates the first credentials.
func (s *service) createProject(c *call, m *member) (any, error) {
	var params projectParams
	if err := c.decode(&params); err != nil {
		return nil, err
	}
	p, credentials, err := s.addProject(m, &params)
	if err != nil {
		return nil, err
	}
	view := s.projectView(c, p)
	view.Embedded = &embeddedCredentials{[]credentialView{credentials}}
	return view, nil
}

// addProject creates a project with its first credentials in m's workspace, for HTTP requests and
// [Server.NewProject].
func (s *service) addProject(m *member, params *projectParams) (*project, credentialView, error) {
	chosen, err := params.settings()
	if err != nil {
		return nil, credentialView{}, err
	}
	if m.workspace.hasProject(chosen.name) {
		return nil, credentialView{}, newProblem(wire.ProjectNameTaken, "")
	}
	p := s.newProject(m, chosen)
	credential, secret := s.newCredential(m, p)
	return p, credential.view(secret), nil
}

// hasProject reports whether w has a project with the given name. Names are case-sensitive.
func (w *workspace) hasProject(name string) bool {
	return slices.ContainsFunc(w.projects, func(p *project) bool { return p.name == name })
}

// listProjects handles GET /console/{version}/projects. The parameter name selects the project with
// exactly that name.
func (s *service) listProjects(c *call, m *member) (any, error) {
	query, err := c.query()
	if err != nil {
		return nil, err
	}
	projects := m.workspace.projects
	if query.Has("name") {
		projects = slices.DeleteFunc(slices.Clone(projects), func(p *project) bool { return p.name != query.Get("name") })
	}
	return listPage(s, c, projectListing(c), projects)
}

// projectListing describes lists of projects. c is the call whose version and path the links have.
func projectListing(c *call) listing[*project] {
	created := func(p *project) time.Time { return p.created }
	updated := func(p *project) time.Time { return p.updated }
	name := func(p *project) string { return p.name }
	return listing[*project]{
		embedded: "projects",
		created:  created,
		updated:  updated,
		name:     name,
		fields: map[string]rsql.Field[*project]{
			"project_id": rsql.Text(func(p *project) string { return p.id }),
			"name":       rsql.Text(name),
			"mode":       rsql.Text(func(p *project) string { return string(p.mode) }),
			"member_id":  rsql.Text(func(p *project) string { return p.member.id }),
			"created_at": rsql.Time(created),
			"updated_at": rsql.Time(updated),
		},
		view: func(s *service, p *project) any { return s.projectView(c, p) },
	}
}

// ownProject returns the project in the path. Another workspace's project is also reported as not
// found, so that its existence does not leak.
func (s *service) ownProject(c *call, m *member) (*project, error) {
	p := s.accounts.projects[c.ids["project_id"]]
	if p == nil || p.workspace != m.workspace {
		return nil, newProblem(wire.NotFound, "project not found")
	}
	return p, nil
}

// getProject handles GET /console/{version}/projects/{project_id}.
func (s *service) getProject(c *call, m *member) (any, error) {
	p, err := s.ownProject(c, m)
	if err != nil {
		return nil, err
	}
	return s.projectView(c, p), nil
}

// updateProject handles PATCH /console/{version}/projects/{project_id}. It applies the whole JSON
// Patch or, if an operation is invalid, nothing.
func (s *service) updateProject(c *call, m *member) (any, error) {
	p, err := s.ownProject(c, m)
	if err != nil {
		return nil, err
	}
	patch, err := c.decodePatch()
	if err != nil {
		return nil, err
	}
	patched := p.settings
	for _, op := range patch {
		if patched, err = patched.with(op); err != nil {
			return nil, err
		}
	}
	if patched.name != p.name && p.workspace.hasProject(patched.name) {
		return nil, newProblem(wire.ProjectNameTaken, "")
	}
	if len(patch) > 0 {
		p.settings, p.updated = patched, wireTime(s.clock.Now())
	}
	return s.projectView(c, p), nil
}

// deleteProject handles DELETE /console/{version}/projects/{project_id}.
func (s *service) deleteProject(c *call, m *member) (any, error) {
	p, err := s.ownProject(c, m)
	if err != nil {
		return nil, err
	}
	s.removeProject(p)
	return &response{status: c.op.Success}, nil
}

// maxCredentials is the maximum number of credential pairs of a project.
const maxCredentials = 2

// credentialView is the JSON form of credentials.
type credentialView struct {
	ClientID     string   `json:"client_id"`
	ClientSecret string   `json:"client_secret,omitempty"` // only in responses to create and reset
	Scopes       []string `json:"scopes"`
	CreatedAt    string   `json:"created_at"`
}

// view returns the view of c. The secret is empty unless it was just generated.
func (c *credential) view(secret string) credentialView {
	return credentialView{ClientID: c.clientID, ClientSecret: secret, Scopes: c.scopes(), CreatedAt: formatTime(c.created)}
}

// credentialListing describes lists of the credentials of a project or a member.
var credentialListing = listing[*credential]{
	embedded: "credentials",
	created:  func(c *credential) time.Time { return c.created },
	fields: map[string]rsql.Field[*credential]{
		"client_id":  rsql.Text(func(c *credential) string { return c.clientID }),
		"created_at": rsql.Time(func(c *credential) time.Time { return c.created }),
	},
	view: func(_ *service, c *credential) any { return c.view("") },
}

// credentialOf returns the credentials with the client ID in the path, or a 404 problem.
func credentialOf(c *call, among []*credential) (*credential, error) {
	i := slices.IndexFunc(among, func(other *credential) bool { return other.clientID == c.ids["client_id"] })
	if i < 0 {
		return nil, newProblem(wire.NotFound, "credentials not found")
	}
	return among[i], nil
}

// createProjectCredentials handles POST …/projects/{project_id}/credentials. The credentials belong
// to the caller.
func (s *service) createProjectCredentials(c *call, m *member) (any, error) {
	p, err := s.ownProject(c, m)
	if err != nil {
		return nil, err
	}
	if len(p.credentials) >= maxCredentials {
		return nil, newProblem(wire.CredentialsLimitReached, "")
	}
	credential, secret := s.newCredential(m, p)
	return credential.view(secret), nil
}

// listProjectCredentials handles GET …/projects/{project_id}/credentials.
func (s *service) listProjectCredentials(c *call, m *member) (any, error) {
	p, err := s.ownProject(c, m)
	if err != nil {
		return nil, err
	}
	return listPage(s, c, credentialListing, p.credentials)
}

// projectCredential returns the project credentials in the path.
func (s *service) projectCredential(c *call, m *member) (*credential, error) {
	p, err := s.ownProject(c, m)
	if err != nil {
		return nil, err
	}
	return credentialOf(c, p.credentials)
}

// getProjectCredentials handles GET …/projects/{project_id}/credentials/{client_id}.
func (s *service) getProjectCredentials(c *call, m *member) (any, error) {
	found, err := s.projectCredential(c, m)
	if err != nil {
		return nil, err
	}
	return found.view(""), nil
}

// deleteProjectCredentials handles DELETE …/projects/{project_id}/credentials/{client_id}.
func (s *service) deleteProjectCredentials(c *call, m *member) (any, error) {
	found, err := s.projectCredential(c, m)
	if err != nil {
		return nil, err
	}
	if found.member != m && !m.role.covers(roleAdmin) {
		return nil, newProblem(wire.Forbidden, "a viewer can delete only their own credentials")
	}
	s.removeCredential(found)
	return &response{status: c.op.Success}, nil
}

// ownCredentials rejects a path that names another member. Only the member may know the secret of
// their credentials, and a viewer cannot view the workspace credentials of other members.
func ownCredentials(c *call, m *member) error {
	if c.ids["member_id"] != m.id {
		return newProblem(wire.Forbidden, "this operation is not allowed for the credentials of another member")
	}
	return nil
}

// visibleCredentials returns the workspace credentials of the member in the path. Owners and admins
// can view and delete the credentials of every member, and viewers only their own.
func visibleCredentials(c *call, m *member) ([]*credential, error) {
	if !m.role.covers(roleAdmin) {
		if err := ownCredentials(c, m); err != nil {
			return nil, err
		}
	}
	found, err := m.findMember(c)
	if err != nil {
		return nil, err
	}
	return found.credentials, nil
}

// createWorkspaceCredentials handles POST …/members/{member_id}/credentials.
func (s *service) createWorkspaceCredentials(c *call, m *member) (any, error) {
	if err := ownCredentials(c, m); err != nil {
		return nil, err
	}
	credential, secret := s.newCredential(m, nil)
	return credential.view(secret), nil
}

// listWorkspaceCredentials handles GET …/members/{member_id}/credentials.
func (s *service) listWorkspaceCredentials(c *call, m *member) (any, error) {
	visible, err := visibleCredentials(c, m)
	if err != nil {
		return nil, err
	}
	return listPage(s, c, credentialListing, visible)
}

// workspaceCredential returns the workspace credentials in the path.
func (s *service) workspaceCredential(c *call, m *member) (*credential, error) {
	visible, err := visibleCredentials(c, m)
	if err != nil {
		return nil, err
	}
	return credentialOf(c, visible)
}

// getWorkspaceCredentials handles GET …/members/{member_id}/credentials/{client_id}.
func (s *service) getWorkspaceCredentials(c *call, m *member) (any, error) {
	found, err := s.workspaceCredential(c, m)
	if err != nil {
		return nil, err
	}
	return found.view(""), nil
}

// deleteWorkspaceCredentials handles DELETE …/members/{member_id}/credentials/{client_id}.
func (s *service) deleteWorkspaceCredentials(c *call, m *member) (any, error) {
	found, err := s.workspaceCredential(c, m)
	if err != nil {
		return nil, err
	}
	s.removeCredential(found)
	return &response{status: c.op.Success}, nil
}

// resetWorkspaceCredentials handles POST …/members/{member_id}/credentials/{client_id}/reset. It
// replaces the secret and revokes all access tokens of the credentials.
func (s *service) resetWorkspaceCredentials(c *call, m *member) (any, error) {
	if err := ownCredentials(c, m); err != nil {
		return nil, err
	}
	found, err := s.workspaceCredential(c, m)
	if err != nil {
		return nil, err
	}
	secret := s.newSecret(found)
	s.tokens.revokeAll(found)
	return found.view(secret), nil
}
