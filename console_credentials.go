package idverify

import (
	"context"
	"errors"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// IssuedCredentials are a pair of credentials as the service keeps it. The embedded [Credentials] go to [NewClient] or [NewConsole].
type IssuedCredentials struct {
	Credentials           // ClientSecret is shown once, when the pair is created or its secret is reset, and is empty ever after
	Scopes      []Scope   // what they may be exchanged for
	CreatedAt   time.Time // in UTC
}

// ProjectCredentialsService manages the credentials of projects: at most two pairs each, every pair its member's own. Get it from [Console].ProjectCredentials.
type ProjectCredentialsService struct{ workspace *boundWorkspace }

// Create creates a pair. Its secret is in the answer and cannot be had again, nor reset. With two pairs there already it is [ErrConflict].
//
// Contract: POST /console/{version}/projects/{project_id}/credentials.
func (s *ProjectCredentialsService) Create(ctx context.Context, projectID string) (*IssuedCredentials, error) {
	op, ids := s.workspace.projects(wire.CreateProjectCredentials, wire.CreateProjectCredentialsIn, projectID)
	return send[createdCredentialsJSON](ctx, s.workspace.api, op, struct{}{}, ids...)
}

// List returns one page of a project's pairs, without their secrets.
//
// Contract: GET /console/{version}/projects/{project_id}/credentials.
func (s *ProjectCredentialsService) List(ctx context.Context, projectID string, o ListOptions) (*Page[IssuedCredentials], error) {
	op, ids := s.workspace.projects(wire.ListProjectCredentials, wire.ListProjectCredentialsIn, projectID)
	return list[issuedJSON](ctx, s.workspace.api, listOf(op, o, ids...), "credentials")
}

// Get reads one pair, without its secret.
//
// Contract: GET /console/{version}/projects/{project_id}/credentials/{client_id}.
func (s *ProjectCredentialsService) Get(ctx context.Context, projectID, clientID string) (*IssuedCredentials, error) {
	op, ids := s.workspace.projects(wire.GetProjectCredentials, wire.GetProjectCredentialsIn, projectID, clientID)
	return send[issuedJSON](ctx, s.workspace.api, op, nil, ids...)
}

// Delete deletes a pair; its tokens end at once.
//
// Contract: DELETE /console/{version}/projects/{project_id}/credentials/{client_id}.
func (s *ProjectCredentialsService) Delete(ctx context.Context, projectID, clientID string) error {
	op, ids := s.workspace.projects(wire.DeleteProjectCredentials, wire.DeleteProjectCredentialsIn, projectID, clientID)
	return s.workspace.remove(ctx, op, ids...)
}

// Rotate creates a new pair, then deletes the one with clientID, so that there is no moment without credentials. The tokens of the old pair end at once: hand out the new one first by Create and Delete where that matters.
//
// With two pairs there already it is [ErrConflict], and nothing has changed. When the new pair was created but the old one could not be deleted, both the new pair and an error are returned: store the pair, then delete again.
func (s *ProjectCredentialsService) Rotate(ctx context.Context, projectID, clientID string) (*IssuedCredentials, error) {
	issued, err := s.Create(ctx, projectID)
	if err != nil {
		return nil, err
	}
	return issued, s.Delete(ctx, projectID, clientID)
}

// WorkspaceCredentialsService manages the credentials of a workspace's members. Get it from [Console].WorkspaceCredentials.
type WorkspaceCredentialsService struct{ workspace *boundWorkspace }

// Create creates a pair for a member. Its secret is in the answer and cannot be had again; [WorkspaceCredentialsService.ResetSecret] makes another.
//
// Contract: POST /console/{version}/workspaces/{workspace_id}/members/{member_id}/credentials.
func (s *WorkspaceCredentialsService) Create(ctx context.Context, memberID string) (*IssuedCredentials, error) {
	return sendIn[createdCredentialsJSON](ctx, s.workspace, wire.CreateWorkspaceCredentials, struct{}{}, memberID)
}

// List returns one page of a member's pairs, without their secrets.
//
// Contract: GET /console/{version}/workspaces/{workspace_id}/members/{member_id}/credentials.
func (s *WorkspaceCredentialsService) List(ctx context.Context, memberID string, o ListOptions) (*Page[IssuedCredentials], error) {
	return listIn[issuedJSON](ctx, s.workspace, wire.ListWorkspaceCredentials, o, "credentials", memberID)
}

// Get reads one pair, without its secret.
//
// Contract: GET /console/{version}/workspaces/{workspace_id}/members/{member_id}/credentials/{client_id}.
func (s *WorkspaceCredentialsService) Get(ctx context.Context, memberID, clientID string) (*IssuedCredentials, error) {
	return sendIn[issuedJSON](ctx, s.workspace, wire.GetWorkspaceCredentials, nil, memberID, clientID)
}

// Delete deletes a pair; its tokens end at once. Viewers delete only their own.
//
// Contract: DELETE /console/{version}/workspaces/{workspace_id}/members/{member_id}/credentials/{client_id}.
func (s *WorkspaceCredentialsService) Delete(ctx context.Context, memberID, clientID string) error {
	return s.workspace.remove(ctx, wire.DeleteWorkspaceCredentials, s.workspace.ids(memberID, clientID)...)
}

// ResetSecret gives a pair another secret, which is in the answer and cannot be had again. The old one and its tokens end at once.
//
// Contract: POST /console/{version}/workspaces/{workspace_id}/members/{member_id}/credentials/{client_id}/reset.
func (s *WorkspaceCredentialsService) ResetSecret(ctx context.Context, memberID, clientID string) (*IssuedCredentials, error) {
	return sendIn[createdCredentialsJSON](ctx, s.workspace, wire.ResetWorkspaceCredentials, struct{}{}, memberID, clientID)
}

// issuedJSON is a pair on the wire.
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

// createdCredentialsJSON is a pair in the only response that contains its secret.
type createdCredentialsJSON issuedJSON

func (j createdCredentialsJSON) id() string { return j.ClientID }

func (j createdCredentialsJSON) value() (*IssuedCredentials, error) {
	if j.ClientSecret == nil || j.ClientSecret.Reveal() == "" {
		return nil, errors.New("missing client_secret")
	}
	return issuedJSON(j).value()
}
