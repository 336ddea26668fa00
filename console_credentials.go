package idverify

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

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
//
// Protocol: docs/protocol.md, section 10.
func (s *ProjectCredentialsService) Create(ctx context.Context, projectID string) (*IssuedCredentials, error) {
	op, ids := s.workspace.projects(wire.CreateProjectCredentials, wire.CreateProjectCredentialsIn, projectID)
	return send[createdCredentialsJSON](ctx, s.workspace.api, op, struct{}{}, ids...)
}

// List returns one page of a project's credentials, without secrets.
//
// Protocol: docs/protocol.md, section 10.
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
//
// Protocol: docs/protocol.md, section 10.
func (s *ProjectCredentialsService) Get(ctx context.Context, projectID, clientID string) (*IssuedCredentials, error) {
	op, ids := s.workspace.projects(wire.GetProjectCredentials, wire.GetProjectCredentialsIn, projectID, clientID)
	return send[issuedJSON](ctx, s.workspace.api, op, nil, ids...)
}

// Delete deletes a credential pair and revokes its tokens.
//
// Protocol: docs/protocol.md, section 10.
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
//
// Protocol: docs/protocol.md, section 10.
func (s *WorkspaceCredentialsService) Create(ctx context.Context, memberID string) (*IssuedCredentials, error) {
	return sendIn[createdCredentialsJSON](ctx, s.workspace, wire.CreateWorkspaceCredentials, struct{}{}, memberID)
}

// List returns one page of a member's credentials, without secrets.
//
// Protocol: docs/protocol.md, section 10.
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
//
// Protocol: docs/protocol.md, section 10.
func (s *WorkspaceCredentialsService) Get(ctx context.Context, memberID, clientID string) (*IssuedCredentials, error) {
	return sendIn[issuedJSON](ctx, s.workspace, wire.GetWorkspaceCredentials, nil, memberID, clientID)
}

// Delete deletes a credential pair and revokes its tokens. Viewers can delete only their own pairs.
//
// Protocol: docs/protocol.md, section 10.
func (s *WorkspaceCredentialsService) Delete(ctx context.Context, memberID, clientID string) error {
	return s.workspace.remove(ctx, wire.DeleteWorkspaceCredentials, s.workspace.ids(memberID, clientID)...)
}

// ResetSecret replaces the secret of a credential pair and returns the pair with the new secret.
// Store it: it cannot be retrieved later. The old secret and its tokens are revoked.
//
// Protocol: docs/protocol.md, section 10.
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
