package idverify

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// ProjectMode says what a project's checks do (specification, section 1). Values that this package does not know survive as the service wrote them.
type ProjectMode string

// The modes of a project.
const (
	ModeLive    ProjectMode = "live"    // checks go to the mobile networks and cost balance
	ModeSandbox ProjectMode = "sandbox" // checks cost nothing and answer by the number's last digits
)

// Project is how an application reaches the products (specification, section 2).
type Project struct {
	ProjectID       string
	Name            string // unique in its workspace
	Mode            ProjectMode
	CallbackURL     string      // for every product whose own is empty
	PhoneCheck      ProductURLs // of PhoneChecks
	SubscriberCheck ProductURLs // of SubscriberChecks
	MemberID        string      // who created it
	CreatedAt       time.Time
	UpdatedAt       time.Time

	// Credentials are the first pair, only on creation. Their secret is shown this once: store it.
	Credentials []*IssuedCredentials
}

// ProductURLs are the addresses that a project's checks of one product use when they name none themselves.
type ProductURLs struct {
	CallbackURL string // where results go
	RedirectURL string // where devices go on with a code; version v0.2
}

// ProjectParams are the arguments of [ProjectService.Create]. Only Name is needed.
type ProjectParams struct {
	Name            string
	Mode            ProjectMode // ModeLive by default
	CallbackURL     string
	PhoneCheck      ProductURLs
	SubscriberCheck ProductURLs
}

// ProjectService manages projects. Get it from [Console].Projects. Creating, changing and deleting take an owner or an admin.
type ProjectService struct{ workspace *boundWorkspace }

// Create creates a project with its first pair of credentials, whose secret cannot be had again.
//
// Contract: POST /console/{version}/projects.
func (s *ProjectService) Create(ctx context.Context, p ProjectParams) (*Project, error) {
	body := projectJSON{Name: p.Name, Mode: p.Mode, CallbackURL: p.CallbackURL}
	body.Configuration.PhoneCheck = productURLsJSON(p.PhoneCheck)
	body.Configuration.SubscriberCheck = productURLsJSON(p.SubscriberCheck)
	op, ids := s.workspace.projects(wire.CreateProject, wire.CreateProjectIn)
	return send[projectJSON](ctx, s.workspace.api, op, body, ids...)
}

// Get reads a project.
//
// Contract: GET /console/{version}/projects/{project_id}.
func (s *ProjectService) Get(ctx context.Context, projectID string) (*Project, error) {
	op, ids := s.workspace.projects(wire.GetProject, wire.GetProjectIn, projectID)
	return send[projectJSON](ctx, s.workspace.api, op, nil, ids...)
}

// List returns one page of the projects.
//
// Contract: GET /console/{version}/projects.
func (s *ProjectService) List(ctx context.Context, o ListOptions) (*Page[Project], error) {
	op, ids := s.workspace.projects(wire.ListProjects, wire.ListProjectsIn)
	return list[projectJSON](ctx, s.workspace.api, listOf(op, o, ids...), "projects")
}

// All yields the projects; an error is the last thing it yields.
func (s *ProjectService) All(ctx context.Context, o ListOptions) iter.Seq2[*Project, error] {
	return all(ctx, o, s.List)
}

// Update makes all changes, or none of them. Without changes it reads the project.
//
// Contract: PATCH /console/{version}/projects/{project_id}.
func (s *ProjectService) Update(ctx context.Context, projectID string, changes ...ProjectChange) (*Project, error) {
	patch := make([]patchOperation, len(changes))
	for i, c := range changes {
		if c.operation.Op == "" {
			return nil, invalidArgument(wire.UpdateProject, "a change is the zero ProjectChange: use functions such as SetName")
		}
		patch[i] = c.operation
	}
	op, ids := s.workspace.projects(wire.UpdateProject, wire.UpdateProjectIn, projectID)
	return send[projectJSON](ctx, s.workspace.api, op, patch, ids...)
}

// Delete deletes a project. Its credentials, tokens and checks end with it.
//
// Contract: DELETE /console/{version}/projects/{project_id}.
func (s *ProjectService) Delete(ctx context.Context, projectID string) error {
	op, ids := s.workspace.projects(wire.DeleteProject, wire.DeleteProjectIn, projectID)
	return s.workspace.remove(ctx, op, ids...)
}

// projects is the operation on the projects of the workspace, with the ids of its path: the main workspace's have a path, and a scope, of their own.
func (w *boundWorkspace) projects(main, below wire.Operation, ids ...string) (wire.Operation, []string) {
	if w.main {
		return main, ids
	}
	return below, w.ids(ids...)
}

// ProjectChange is one change for [ProjectService.Update].
type ProjectChange struct{ operation patchOperation }

// SetName gives the project another name, unique in its workspace.
func SetName(name string) ProjectChange {
	return ProjectChange{patchOperation{Op: "replace", Path: "/name", Value: name}}
}

// SetMode makes the project live or a sandbox.
func SetMode(mode ProjectMode) ProjectChange {
	return ProjectChange{patchOperation{Op: "replace", Path: "/mode", Value: mode}}
}

// SetCallbackURL sets the callback URL for every product that has none of its own.
func SetCallbackURL(url string) ProjectChange { return setMember("/callback_url", url) }

// RemoveCallbackURL takes that away. It is [ErrBadRequest] when there is none, as with the other removals.
func RemoveCallbackURL() ProjectChange { return removeMember("/callback_url") }

// SetProductCallbackURL sets where the results of p's checks go: [ProductPhoneCheck] or [ProductSubscriberCheck].
func SetProductCallbackURL(p Product, url string) ProjectChange {
	return setMember("/configuration/"+string(p)+"/callback_url", url)
}

// RemoveProductCallbackURL has the results of p's checks go to the project's callback URL.
func RemoveProductCallbackURL(p Product) ProjectChange {
	return removeMember("/configuration/" + string(p) + "/callback_url")
}

// SetProductRedirectURL sets where the devices of p's checks go on with a code.
func SetProductRedirectURL(p Product, url string) ProjectChange {
	return setMember("/configuration/"+string(p)+"/redirect_url", url)
}

// RemoveProductRedirectURL has the devices of p's checks get their code as JSON.
func RemoveProductRedirectURL(p Product) ProjectChange {
	return removeMember("/configuration/" + string(p) + "/redirect_url")
}

// setMember works whether there was a value or not: that is what "add" means for a member of an object (RFC 6902, section 4.1).
func setMember(path, value string) ProjectChange {
	return ProjectChange{patchOperation{Op: "add", Path: path, Value: value}}
}

func removeMember(path string) ProjectChange {
	return ProjectChange{patchOperation{Op: "remove", Path: path}}
}

// projectJSON is a project on the wire, in both directions.
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
		ProjectID:       j.ProjectID,
		Name:            j.Name,
		Mode:            j.Mode,
		CallbackURL:     j.CallbackURL,
		PhoneCheck:      ProductURLs(j.Configuration.PhoneCheck),
		SubscriberCheck: ProductURLs(j.Configuration.SubscriberCheck),
		MemberID:        j.MemberID,
		CreatedAt:       j.CreatedAt.Time,
		UpdatedAt:       j.UpdatedAt.Time,
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
