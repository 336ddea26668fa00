package sandboxfake

import (
	"slices"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/sandboxfake/internal/rsql"
)

// maxCredentials is how many pairs a project has at most (specification, section 8).
const maxCredentials = 2

// credentialView is a pair as it is answered (contract, section 3).
type credentialView struct {
	ClientID     string   `json:"client_id"`
	ClientSecret string   `json:"client_secret,omitempty"` // only where it was just made
	Scopes       []string `json:"scopes"`
	CreatedAt    string   `json:"created_at"`
}

// view shows a pair, with its secret where that was just made.
func (c *credential) view(secret string) credentialView {
	return credentialView{ClientID: c.clientID, ClientSecret: secret, Scopes: c.scopes(), CreatedAt: formatTime(c.created)}
}

// credentialListing lists pairs, of a project or of a member.
var credentialListing = listing[*credential]{
	embedded: "credentials",
	created:  func(c *credential) time.Time { return c.created },
	fields: map[string]rsql.Field[*credential]{
		"client_id":  rsql.Text(func(c *credential) string { return c.clientID }),
		"created_at": rsql.Time(func(c *credential) time.Time { return c.created }),
	},
	view: func(_ *service, c *credential) any { return c.view("") },
}

// credentialOf finds the pair of the path among some.
func credentialOf(c *call, among []*credential) (*credential, error) {
	i := slices.IndexFunc(among, func(other *credential) bool { return other.clientID == c.ids["client_id"] })
	if i < 0 {
		return nil, newProblem(wire.NotFound, "There are no such credentials")
	}
	return among[i], nil
}

// createProjectCredentials is POST …/projects/{project_id}/credentials. The pair is the caller's own: credentials are not shared (specification, section 2, "Credential rules").
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

// listProjectCredentials is GET …/projects/{project_id}/credentials.
func (s *service) listProjectCredentials(c *call, m *member) (any, error) {
	p, err := s.ownProject(c, m)
	if err != nil {
		return nil, err
	}
	return listPage(s, c, credentialListing, p.credentials)
}

// projectCredential finds the pair of the path.
func (s *service) projectCredential(c *call, m *member) (*credential, error) {
	p, err := s.ownProject(c, m)
	if err != nil {
		return nil, err
	}
	return credentialOf(c, p.credentials)
}

// getProjectCredentials is GET …/projects/{project_id}/credentials/{client_id}.
func (s *service) getProjectCredentials(c *call, m *member) (any, error) {
	found, err := s.projectCredential(c, m)
	if err != nil {
		return nil, err
	}
	return found.view(""), nil
}

// deleteProjectCredentials is DELETE …/projects/{project_id}/credentials/{client_id}.
func (s *service) deleteProjectCredentials(c *call, m *member) (any, error) {
	found, err := s.projectCredential(c, m)
	if err != nil {
		return nil, err
	}
	if found.member != m && !m.role.covers(roleAdmin) {
		return nil, newProblem(wire.Forbidden, "A viewer may only delete credentials of their own")
	}
	s.removeCredential(found)
	return &response{status: c.op.Success}, nil
}

// ownCredentials refuses a path that leads to another member's pairs: nobody sees the secret of another, and a viewer nothing of them.
func ownCredentials(c *call, m *member) error {
	if c.ids["member_id"] != m.id {
		return newProblem(wire.Forbidden, "These credentials are for their member alone")
	}
	return nil
}

// visibleCredentials are the pairs of the path's member, for that member, and for owner and admin, who may delete them.
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

// createWorkspaceCredentials is POST …/members/{member_id}/credentials.
func (s *service) createWorkspaceCredentials(c *call, m *member) (any, error) {
	if err := ownCredentials(c, m); err != nil {
		return nil, err
	}
	credential, secret := s.newCredential(m, nil)
	return credential.view(secret), nil
}

// listWorkspaceCredentials is GET …/members/{member_id}/credentials.
func (s *service) listWorkspaceCredentials(c *call, m *member) (any, error) {
	visible, err := visibleCredentials(c, m)
	if err != nil {
		return nil, err
	}
	return listPage(s, c, credentialListing, visible)
}

// workspaceCredential finds the pair of the path.
func (s *service) workspaceCredential(c *call, m *member) (*credential, error) {
	visible, err := visibleCredentials(c, m)
	if err != nil {
		return nil, err
	}
	return credentialOf(c, visible)
}

// getWorkspaceCredentials is GET …/members/{member_id}/credentials/{client_id}.
func (s *service) getWorkspaceCredentials(c *call, m *member) (any, error) {
	found, err := s.workspaceCredential(c, m)
	if err != nil {
		return nil, err
	}
	return found.view(""), nil
}

// deleteWorkspaceCredentials is DELETE …/members/{member_id}/credentials/{client_id}.
func (s *service) deleteWorkspaceCredentials(c *call, m *member) (any, error) {
	found, err := s.workspaceCredential(c, m)
	if err != nil {
		return nil, err
	}
	s.removeCredential(found)
	return &response{status: c.op.Success}, nil
}

// resetWorkspaceCredentials is POST …/members/{member_id}/credentials/{client_id}/reset: another secret, and the end of the tokens that the old one got.
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
