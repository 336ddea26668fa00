package sandboxfake

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/sandboxfake/internal/rsql"
)

// memberView is the JSON form of a member.
//
// Protocol: docs/protocol.md, section 10.
type memberView struct {
	MemberID string `json:"member_id"`
	Name     string `json:"name"`
	Role     role   `json:"role"`
}

func (m *member) view() memberView { return memberView{m.id, m.user.name, m.role} }

// memberListing describes lists of members.
var memberListing = listing[*member]{
	embedded: "members",
	created:  func(m *member) time.Time { return m.created },
	fields: map[string]rsql.Field[*member]{
		"member_id": rsql.Text(func(m *member) string { return m.id }),
		"name":      rsql.Text(func(m *member) string { return m.user.name }),
		"role":      rsql.Text(func(m *member) string { return string(m.role) }),
	},
	view: func(_ *service, m *member) any { return m.view() },
}

// listMembers handles GET …/workspaces/{workspace_id}/members.
func (s *service) listMembers(c *call, m *member) (any, error) {
	return listPage(s, c, memberListing, m.workspace.members)
}

// getMember handles GET …/members/{member_id}.
func (s *service) getMember(c *call, m *member) (any, error) {
	found, err := m.findMember(c)
	if err != nil {
		return nil, err
	}
	return found.view(), nil
}

// findMember returns the member in the path if they belong to m's workspace, or a 404 problem.
func (m *member) findMember(c *call) (*member, error) {
	i := slices.IndexFunc(m.workspace.members, func(other *member) bool { return other.id == c.ids["member_id"] })
	if i < 0 {
		return nil, newProblem(wire.NotFound, "member not found")
	}
	return m.workspace.members[i], nil
}

// invitation invites a user to a workspace. It is open until a user signs up with it.
type invitation struct {
	id, name, reference string
	role                role
	workspace           *workspace
	created             time.Time
}

// invitationView is the JSON form of an invitation.
type invitationView struct {
	InvitationID string `json:"invitation_id"`
	Name         string `json:"name"`
	Role         role   `json:"role"`
	Reference    string `json:"reference,omitempty"`
}

func (i *invitation) view() invitationView { return invitationView{i.id, i.name, i.role, i.reference} }

// invitationParams is the body of a request to invite a user.
type invitationParams struct {
	Name      *string `json:"name"`
	Role      role    `json:"role"`
	Reference string  `json:"reference"`
}

// createInvitation handles POST …/workspaces/{workspace_id}/invitations.
func (s *service) createInvitation(c *call, m *member) (any, error) {
	var params invitationParams
	if err := c.decode(&params); err != nil {
		return nil, err
	}
	if err := checkName(params.Name); err != nil {
		return nil, err
	}
	// A workspace has exactly one owner: the user whose sign-up created it.
	if params.Role != roleAdmin && params.Role != roleViewer {
		return nil, newProblem(wire.BadRequest, "role must be ADMIN or VIEWER")
	}
	w := m.workspace
	i := &invitation{
		id:        s.ids.uuid("invitation", w.id, &w.counter),
		name:      *params.Name,
		reference: params.Reference,
		role:      params.Role,
		workspace: w,
		created:   wireTime(s.clock.Now()),
	}
	w.invitations = append(w.invitations, i)
	return i.view(), nil
}

// invitationListing describes lists of open invitations.
var invitationListing = listing[*invitation]{
	embedded: "invitations",
	created:  func(i *invitation) time.Time { return i.created },
	fields: map[string]rsql.Field[*invitation]{
		"invitation_id": rsql.Text(func(i *invitation) string { return i.id }),
		"name":          rsql.Text(func(i *invitation) string { return i.name }),
		"role":          rsql.Text(func(i *invitation) string { return string(i.role) }),
		"reference":     rsql.Text(func(i *invitation) string { return i.reference }),
	},
	view: func(_ *service, i *invitation) any { return i.view() },
}

// listInvitations handles GET …/workspaces/{workspace_id}/invitations.
func (s *service) listInvitations(c *call, m *member) (any, error) {
	return listPage(s, c, invitationListing, m.workspace.invitations)
}

// openInvitation returns the open invitation of any workspace with the given ID, or nil.
func (a *accounts) openInvitation(id string) *invitation {
	for _, w := range a.workspaces {
		for _, i := range w.invitations {
			if i.id == id {
				return i
			}
		}
	}
	return nil
}

// signUp creates a user with a workspace of their own, and adds the user to the workspaces of the
// invitations. If it fails, it changes nothing.
func (s *service) signUp(name, workspaceName string, invitationIDs []string) (*Account, error) {
	if err := errors.Join(checkName(&name), checkName(&workspaceName)); err != nil {
		return nil, fmt.Errorf("sign up: %w", err)
	}
	var accepted []*invitation
	for _, id := range invitationIDs {
		i := s.accounts.openInvitation(id)
		switch {
		case i == nil:
			return nil, errors.New("sign up: invitation not found or already accepted")
		case slices.ContainsFunc(accepted, func(other *invitation) bool { return other.workspace == i.workspace }):
			return nil, errors.New("sign up: two invitations are for the same workspace")
		}
		accepted = append(accepted, i)
	}
	u := s.newUser(name, workspaceName)
	account := s.newAccount(u.memberships[0])
	for _, i := range accepted {
		i.workspace.invitations = without(i.workspace.invitations, i)
		account.Joined = append(account.Joined, s.newAccount(s.join(u, i.workspace, i.role)))
	}
	s.noteChange()
	return account, nil
}
