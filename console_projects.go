package idverify

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// ProjectMode is the mode of a project: live or sandbox. Unknown values are kept as the
// service sent them.
type ProjectMode string

// The modes of a project.
const (
	ModeLive    ProjectMode = "live"    // checks query the mobile networks and are charged
	ModeSandbox ProjectMode = "sandbox" // checks are free; the number's last digits determine the result
)

// Project is a set of checks with common settings and credentials.
type Project struct {
	ProjectID           string
	Name                string // unique in its workspace
	Mode                ProjectMode
	CallbackURL         string      // for products that have no callback URL of their own
	PhoneCheckURLs      ProductURLs // defaults for PhoneChecks
	SubscriberCheckURLs ProductURLs // defaults for SubscriberChecks
	MemberID            string      // the member who created the project
	CreatedAt           time.Time
	UpdatedAt           time.Time

	// Credentials contains the first pair in the result of Create, otherwise nothing. Store the
	// secret: it cannot be retrieved later.
	Credentials []*IssuedCredentials
}

// ProductURLs are the default URLs for the checks of one product.
type ProductURLs struct {
	CallbackURL string // receives results
	RedirectURL string // receives devices with a code; version v0.2
}

// ProjectParams are the parameters of [ProjectService.Create]. Only Name and Mode are required.
type ProjectParams struct {
	Name                string
	Mode                ProjectMode // ModeSandbox or ModeLive
	CallbackURL         string
	PhoneCheckURLs      ProductURLs
	SubscriberCheckURLs ProductURLs
}

// ProjectUpdate contains the changes of [ProjectService.Update]. Nil fields are left unchanged.
type ProjectUpdate struct {
	Name                *string           // unique in the workspace
	Mode                *ProjectMode      // applies to checks that are created afterwards
	CallbackURL         *string           // for products without a callback URL of their own; "" removes it
	PhoneCheckURLs      ProductURLsUpdate // defaults for PhoneChecks
	SubscriberCheckURLs ProductURLsUpdate // defaults for SubscriberChecks
}

// ProductURLsUpdate contains the changes of the default URLs for the checks of one product. Nil
// fields are left unchanged.
type ProductURLsUpdate struct {
	CallbackURL *string // "" removes it: results go to the callback URL of the project
	RedirectURL *string // "" removes it: devices receive the code as JSON
}

// ProjectService manages projects. It is available as [Console].Projects. Create, Update and Delete
// require an owner or an admin.
type ProjectService struct{ workspace *boundWorkspace }

// Create creates a project with its first pair of credentials. Store the secret: it cannot be
// retrieved later. If the name is already used in the workspace, the error is [ErrConflict].
//
// If Mode is empty, the error is [ErrBadRequest], because the service would create a live project,
// whose checks are charged.
func (s *ProjectService) Create(ctx context.Context, p ProjectParams) (*Project, error) {
	if p.Mode == "" {
		return nil, invalidArgument(wire.CreateProject, "Mode is empty (set ModeSandbox or ModeLive)")
	}
	body := projectJSON{Name: p.Name, Mode: p.Mode, CallbackURL: p.CallbackURL}
	body.Configuration.PhoneCheck = productURLsJSON(p.PhoneCheckURLs)
	body.Configuration.SubscriberCheck = productURLsJSON(p.SubscriberCheckURLs)
	op, ids := s.workspace.projects(wire.CreateProject, wire.CreateProjectIn)
	return send[projectJSON](ctx, s.workspace.api, op, body, ids...)
}

// Get returns a project.
func (s *ProjectService) Get(ctx context.Context, projectID string) (*Project, error) {
	op, ids := s.workspace.projects(wire.GetProject, wire.GetProjectIn, projectID)
	return send[projectJSON](ctx, s.workspace.api, op, nil, ids...)
}

// List returns one page of the projects in the workspace.
func (s *ProjectService) List(ctx context.Context, o ListOptions) (*Page[Project], error) {
	op, ids := s.workspace.projects(wire.ListProjects, wire.ListProjectsIn)
	return list[projectJSON](ctx, s.workspace.api, listOf(op, o, ids...), "projects")
}

// All returns an iterator over the projects in the workspace, starting with o.Page. It stops
// after the first error.
func (s *ProjectService) All(ctx context.Context, o ListOptions) iter.Seq2[*Project, error] {
	return all(ctx, o, s.List)
}

// Update makes all changes of u, or none if one of them fails. Without changes it returns the
// project as it is.
//
// If Name or Mode points to an empty string, the error is [ErrBadRequest], and nothing is sent. The
// error is also [ErrBadRequest] if u removes a URL that is not set.
func (s *ProjectService) Update(ctx context.Context, projectID string, u ProjectUpdate) (*Project, error) {
	switch {
	case u.Name != nil && *u.Name == "":
		return nil, invalidArgument(wire.UpdateProject, "Name is empty")
	case u.Mode != nil && *u.Mode == "":
		return nil, invalidArgument(wire.UpdateProject, "Mode is empty (set ModeSandbox or ModeLive)")
	}
	op, ids := s.workspace.projects(wire.UpdateProject, wire.UpdateProjectIn, projectID)
	return send[projectJSON](ctx, s.workspace.api, op, u.patch(), ids...)
}

// Delete deletes a project with its credentials, tokens and checks.
func (s *ProjectService) Delete(ctx context.Context, projectID string) error {
	op, ids := s.workspace.projects(wire.DeleteProject, wire.DeleteProjectIn, projectID)
	return s.workspace.remove(ctx, op, ids...)
}

// projects returns the operation on projects of the workspace, and the IDs in its path. In the
// workspace of the credentials it returns main, whose path has no workspace ID and whose scope
// differs. In other workspaces it returns below.
func (w *boundWorkspace) projects(main, below wire.Operation, ids ...string) (wire.Operation, []string) {
	if w.main {
		return main, ids
	}
	return below, w.ids(ids...)
}

// patch returns u as a JSON Patch.
func (u ProjectUpdate) patch() []patchOperation {
	patch := []patchOperation{} // not null without changes
	if u.Name != nil {
		patch = append(patch, patchOperation{Op: "replace", Path: "/name", Value: *u.Name})
	}
	if u.Mode != nil {
		patch = append(patch, patchOperation{Op: "replace", Path: "/mode", Value: *u.Mode})
	}
	for _, change := range []struct {
		path string
		url  *string
	}{
		{"/callback_url", u.CallbackURL},
		{"/configuration/phone_check/callback_url", u.PhoneCheckURLs.CallbackURL},
		{"/configuration/phone_check/redirect_url", u.PhoneCheckURLs.RedirectURL},
		{"/configuration/subscriber_check/callback_url", u.SubscriberCheckURLs.CallbackURL},
		{"/configuration/subscriber_check/redirect_url", u.SubscriberCheckURLs.RedirectURL},
	} {
		switch {
		case change.url == nil:
		case *change.url == "":
			patch = append(patch, patchOperation{Op: "remove", Path: change.path})
		default:
			// "add" replaces an existing member of an object (RFC 6902, section 4.1).
			patch = append(patch, patchOperation{Op: "add", Path: change.path, Value: *change.url})
		}
	}
	return patch
}

// projectJSON is the JSON of a project in requests and responses.
type projectJSON struct {
	ProjectID     string      `json:"project_id,omitempty"`
	Name          string      `json:"name"`
	Mode          ProjectMode `json:"mode,omitempty"`
	CallbackURL   string      `json:"callback_url,omitempty"`
	Configuration struct {
		PhoneCheck      productURLsJSON `json:"phone_check,omitzero"`
		SubscriberCheck productURLsJSON `json:"subscriber_check,omitzero"`
	} `json:"configuration,omitzero"`
	MemberID  string    `json:"member_id,omitempty"`
	CreatedAt timestamp `json:"created_at,omitzero"`
	UpdatedAt timestamp `json:"updated_at,omitzero"`
	Embedded  struct {
		Credentials []issuedJSON `json:"credentials"`
	} `json:"_embedded,omitzero"`
}

type productURLsJSON struct {
	CallbackURL string `json:"callback_url,omitempty"`
	RedirectURL string `json:"redirect_url,omitempty"`
}

func (j projectJSON) id() string { return j.ProjectID }

func (j projectJSON) value() (*Project, error) {
	if j.ProjectID == "" {
		return nil, errors.New("missing project_id")
	}
	p := &Project{
		ProjectID:           j.ProjectID,
		Name:                j.Name,
		Mode:                j.Mode,
		CallbackURL:         j.CallbackURL,
		PhoneCheckURLs:      ProductURLs(j.Configuration.PhoneCheck),
		SubscriberCheckURLs: ProductURLs(j.Configuration.SubscriberCheck),
		MemberID:            j.MemberID,
		CreatedAt:           j.CreatedAt.Time,
		UpdatedAt:           j.UpdatedAt.Time,
	}
	for _, c := range j.Embedded.Credentials {
		issued, err := c.value()
		if err != nil {
			return nil, err
		}
		p.Credentials = append(p.Credentials, issued)
	}
	return p, nil
}

// IssuedCredentials is a pair of credentials that the service has issued. Pass the embedded
// [Credentials] to [NewClient] or [NewConsole].
type IssuedCredentials struct {
	Credentials           // ClientSecret is empty unless the pair was just created or its secret reset
	Scopes      []Scope   // the scopes for which the pair can obtain tokens
	CreatedAt   time.Time // in UTC
}

// ProjectCredentialsService manages the credentials of projects. A project has at most two
// credential pairs. Each pair belongs to the member who created it; viewers can delete only their
// own pairs. It is available as [Console].ProjectCredentials.
type ProjectCredentialsService struct{ workspace *boundWorkspace }

// Create creates a credential pair. Store its secret: it cannot be retrieved or reset later. If the
// project already has two pairs, the error is [ErrConflict].
func (s *ProjectCredentialsService) Create(ctx context.Context, projectID string) (*IssuedCredentials, error) {
	op, ids := s.workspace.projects(wire.CreateProjectCredentials, wire.CreateProjectCredentialsIn, projectID)
	return send[createdCredentialsJSON](ctx, s.workspace.api, op, struct{}{}, ids...)
}

// List returns one page of a project's credentials, without secrets.
func (s *ProjectCredentialsService) List(ctx context.Context, projectID string, o ListOptions) (*Page[IssuedCredentials], error) {
	op, ids := s.workspace.projects(wire.ListProjectCredentials, wire.ListProjectCredentialsIn, projectID)
	return list[issuedJSON](ctx, s.workspace.api, listOf(op, o, ids...), "credentials")
}

// All returns an iterator over a project's credentials, starting with o.Page. It stops after the
// first error.
func (s *ProjectCredentialsService) All(ctx context.Context, projectID string, o ListOptions) iter.Seq2[*IssuedCredentials, error] {
	return all(ctx, o, func(ctx context.Context, o ListOptions) (*Page[IssuedCredentials], error) {
		return s.List(ctx, projectID, o)
	})
}

// Get returns a credential pair, without its secret.
func (s *ProjectCredentialsService) Get(ctx context.Context, projectID, clientID string) (*IssuedCredentials, error) {
	op, ids := s.workspace.projects(wire.GetProjectCredentials, wire.GetProjectCredentialsIn, projectID, clientID)
	return send[issuedJSON](ctx, s.workspace.api, op, nil, ids...)
}

// Delete deletes a credential pair and revokes its tokens.
func (s *ProjectCredentialsService) Delete(ctx context.Context, projectID, clientID string) error {
	op, ids := s.workspace.projects(wire.DeleteProjectCredentials, wire.DeleteProjectCredentialsIn, projectID, clientID)
	return s.workspace.remove(ctx, op, ids...)
}

// Rotate creates a credential pair and then deletes the pair with clientID, whose tokens are
// revoked. To deploy the new pair before the old one is revoked, call Create and Delete instead.
//
// If the project already has two pairs, Rotate changes nothing and the error is [ErrConflict]. If
// the new pair was created but the old one could not be deleted, Rotate returns both the new pair
// and an error: store the pair and call Delete again.
func (s *ProjectCredentialsService) Rotate(ctx context.Context, projectID, clientID string) (*IssuedCredentials, error) {
	issued, err := s.Create(ctx, projectID)
	if err != nil {
		return nil, err
	}
	return issued, s.Delete(ctx, projectID, clientID)
}

// WorkspaceCredentialsService manages the credentials of a workspace's members. It is available as
// [Console].WorkspaceCredentials.
type WorkspaceCredentialsService struct{ workspace *boundWorkspace }

// Create creates a credential pair for a member. Store its secret: it cannot be retrieved later,
// only replaced with [WorkspaceCredentialsService.ResetSecret]. Members can call both methods only
// for themselves; for another member the error is [ErrForbidden].
func (s *WorkspaceCredentialsService) Create(ctx context.Context, memberID string) (*IssuedCredentials, error) {
	return sendIn[createdCredentialsJSON](ctx, s.workspace, wire.CreateWorkspaceCredentials, struct{}{}, memberID)
}

// List returns one page of a member's credentials, without secrets.
func (s *WorkspaceCredentialsService) List(ctx context.Context, memberID string, o ListOptions) (*Page[IssuedCredentials], error) {
	return listIn[issuedJSON](ctx, s.workspace, wire.ListWorkspaceCredentials, o, "credentials", memberID)
}

// All returns an iterator over a member's credentials, starting with o.Page. It stops after the
// first error.
func (s *WorkspaceCredentialsService) All(ctx context.Context, memberID string, o ListOptions) iter.Seq2[*IssuedCredentials, error] {
	return all(ctx, o, func(ctx context.Context, o ListOptions) (*Page[IssuedCredentials], error) {
		return s.List(ctx, memberID, o)
	})
}

// Get returns a credential pair, without its secret.
func (s *WorkspaceCredentialsService) Get(ctx context.Context, memberID, clientID string) (*IssuedCredentials, error) {
	return sendIn[issuedJSON](ctx, s.workspace, wire.GetWorkspaceCredentials, nil, memberID, clientID)
}

// Delete deletes a credential pair and revokes its tokens. Viewers can delete only their own pairs.
func (s *WorkspaceCredentialsService) Delete(ctx context.Context, memberID, clientID string) error {
	return s.workspace.remove(ctx, wire.DeleteWorkspaceCredentials, s.workspace.ids(memberID, clientID)...)
}

// ResetSecret replaces the secret of a credential pair and returns the pair with the new secret.
// Store it: it cannot be retrieved later. The old secret and its tokens are revoked.
func (s *WorkspaceCredentialsService) ResetSecret(ctx context.Context, memberID, clientID string) (*IssuedCredentials, error) {
	return sendIn[createdCredentialsJSON](ctx, s.workspace, wire.ResetWorkspaceCredentials, struct{}{}, memberID, clientID)
}

// issuedJSON is the JSON of an IssuedCredentials.
type issuedJSON struct {
	ClientID     string    `json:"client_id"`
	ClientSecret *Secret   `json:"client_secret"`
	Scopes       []Scope   `json:"scopes"`
	CreatedAt    timestamp `json:"created_at"`
}

func (j issuedJSON) id() string { return j.ClientID }

func (j issuedJSON) value() (*IssuedCredentials, error) {
	if j.ClientID == "" {
		return nil, errors.New("missing client_id")
	}
	c := &IssuedCredentials{Credentials: Credentials{ClientID: j.ClientID}, Scopes: j.Scopes, CreatedAt: j.CreatedAt.Time}
	if j.ClientSecret != nil {
		c.ClientSecret = *j.ClientSecret
	}
	return c, nil
}

// createdCredentialsJSON is the JSON of a new pair or a pair with a new secret. Unlike other
// responses, it contains the secret.
type createdCredentialsJSON issuedJSON

func (j createdCredentialsJSON) id() string { return j.ClientID }

func (j createdCredentialsJSON) value() (*IssuedCredentials, error) {
	if j.ClientSecret == nil || j.ClientSecret.Reveal() == "" {
		return nil, errors.New("missing client_secret")
	}
	return issuedJSON(j).value()
}
