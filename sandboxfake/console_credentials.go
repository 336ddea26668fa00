package sandboxfake

import (
	"slices"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/sandboxfake/internal/rsql"
)

// maxCredentials is the maximum number of credential pairs of a project.
const maxCredentials = 2

// credentialView is the JSON form of credentials.
//
// Protocol: docs/protocol.md, section 10.
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
