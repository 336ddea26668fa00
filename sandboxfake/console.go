package sandboxfake

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/sandboxfake/internal/rsql"
)

// role is the role of a member in a workspace.
type role string

const (
	roleOwner  role = "OWNER"  // full access
	roleAdmin  role = "ADMIN"  // full access, except for billing
	roleViewer role = "VIEWER" // own credentials, and read access except for billing and invitations
)

// covers reports whether r has at least the permissions of least.
func (r role) covers(least role) bool {
	ranks := []role{roleViewer, roleAdmin, roleOwner}
	return slices.Index(ranks, r) >= slices.Index(ranks, least)
}

// consoleHandler handles an operation of the console. m is the caller's membership of the workspace
// in the path.
type consoleHandler func(s *service, c *call, m *member) (any, error)

// console returns a handler for members whose role covers least. A user who is not a member of the
// workspace gets workspace_not_found. The role is checked before the rest of the path: a role that
// is too low gets forbidden even if the project or member does not exist.
func console(least role, handle consoleHandler) handler {
	return func(s *service, c *call) (any, error) {
		m := s.memberOf(c)
		if m == nil {
			return nil, newProblem(wire.WorkspaceNotFound, "")
		}
		if !m.role.covers(least) {
			return nil, newProblem(wire.Forbidden, "the member's role does not allow this operation")
		}
		return handle(s, c, m)
	}
}

// memberOf returns the caller's membership of the workspace in the path, or nil if there is none.
// If the path has no workspace, or "default", memberOf uses the workspace of the credentials.
func (s *service) memberOf(c *call) *member {
	id, named := c.ids["workspace_id"]
	if !named || id == "default" {
		return c.credential.member
	}
	return c.credential.member.user.in(s.accounts.workspaces[id])
}

// maxNameLength is the maximum length, in characters, of a user, workspace, project or invitation
// name.
const maxNameLength = 255

// checkName rejects a name that is missing, blank or too long, or contains control characters.
func checkName(name *string) error {
	switch {
	case name == nil:
		return newProblem(wire.BadRequest, "name is missing")
	case strings.TrimSpace(*name) == "" || utf8.RuneCountInString(*name) > maxNameLength || strings.ContainsFunc(*name, unicode.IsControl):
		return newProblem(wire.BadRequest, "name must have 1 to 255 characters, must not be blank, and must not contain control characters")
	}
	return nil
}

// workspacePath returns the URL of a workspace in the API version of the call.
func (s *service) workspacePath(c *call, w *workspace) string {
	return s.url + "/console/" + c.version + "/workspaces/" + w.id
}

// dataResidency is the data_residency of every workspace.
const dataResidency = "EU"

// workspaceView is the JSON form of a workspace.
type workspaceView struct {
	WorkspaceID   string `json:"workspace_id"`
	Name          string `json:"name"`
	DataResidency string `json:"data_residency"`
	CreatedAt     string `json:"created_at"`
	Embedded      struct {
		Balance balanceView `json:"balance"`
		Me      memberView  `json:"me"`
	} `json:"_embedded"`
	Links selfLink `json:"_links"`
}

// balanceView is the JSON form of a balance. The reserved amount and the credit limit are always 0.
type balanceView struct {
	Currency        string      `json:"currency"`
	AmountAvailable json.Number `json:"amount_available"`
	AmountReserved  json.Number `json:"amount_reserved"`
	CreditLimit     json.Number `json:"credit_limit"`
}

// workspaceView returns m's workspace, with m as "me".
func (s *service) workspaceView(c *call, m *member) workspaceView {
	w := m.workspace
	v := workspaceView{
		WorkspaceID:   w.id,
		Name:          w.name,
		DataResidency: dataResidency,
		CreatedAt:     formatTime(w.created),
		Links:         selfLink{link{s.workspacePath(c, w)}},
	}
	v.Embedded.Balance = balanceView{Currency: w.currency, AmountAvailable: w.balance.number(), AmountReserved: money(0).number(), CreditLimit: money(0).number()}
	v.Embedded.Me = m.view()
	return v
}

// listWorkspaces handles GET /console/{version}/workspaces. It lists every workspace that the
// caller's user belongs to.
func (s *service) listWorkspaces(c *call, m *member) (any, error) {
	memberships := slices.Clone(m.user.memberships)
	// Sort by creation. The user's own workspace comes first in memberships, but is the newest.
	slices.SortFunc(memberships, func(a, b *member) int { return cmp.Compare(a.workspace.seq, b.workspace.seq) })
	return listPage(s, c, workspaceListing(c), memberships)
}

// workspaceListing describes lists of workspaces. c is the call whose version the links have.
func workspaceListing(c *call) listing[*member] {
	created := func(m *member) time.Time { return m.workspace.created }
	return listing[*member]{
		embedded: "workspaces",
		created:  created,
		fields: map[string]rsql.Field[*member]{
			"workspace_id": rsql.Text(func(m *member) string { return m.workspace.id }),
			"name":         rsql.Text(func(m *member) string { return m.workspace.name }),
			"created_at":   rsql.Time(created),
		},
		view: func(s *service, m *member) any { return s.workspaceView(c, m) },
	}
}

// getWorkspace handles GET /console/{version}/workspaces/{workspace_id}.
func (s *service) getWorkspace(c *call, m *member) (any, error) { return s.workspaceView(c, m), nil }

// updateWorkspace handles PATCH /console/{version}/workspaces/{workspace_id}, which renames it.
func (s *service) updateWorkspace(c *call, m *member) (any, error) {
	patch, err := c.decodePatch()
	if err != nil {
		return nil, err
	}
	name := m.workspace.name
	for _, op := range patch {
		// RFC 6902, section 4.1: adding an existing member replaces it.
		if op.verb != "add" && op.verb != "replace" || op.path != "/name" || json.Unmarshal(op.value, &name) != nil {
			return nil, newProblem(wire.BadRequest, "a workspace patch can only add or replace /name with a string")
		}
		if err := checkName(&name); err != nil {
			return nil, err
		}
	}
	m.workspace.name = name
	return s.workspaceView(c, m), nil
}

// memberView is the JSON form of a member.
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
