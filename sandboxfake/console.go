package sandboxfake

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/idverify/idverify-go/internal/wire"
)

// role is what a member may do in a workspace (specification, section 1, "Roles").
type role string

const (
	roleOwner  role = "OWNER"  // everything, and alone what concerns billing
	roleAdmin  role = "ADMIN"  // everything but billing
	roleViewer role = "VIEWER" // has credentials, and reads
)

// covers reports whether r may do what the role least may.
func (r role) covers(least role) bool {
	ranks := []role{roleViewer, roleAdmin, roleOwner}
	return slices.Index(ranks, r) >= slices.Index(ranks, least)
}

// consoleHandler answers an operation of the console for a user as a member of the workspace that the path means.
type consoleHandler func(s *service, c *call, m *member) (any, error)

// console is a handler for members whose role covers least. A workspace is not there for those who are no members of it; a role that is too low is told before what the path names further (contract, section 1).
func console(least role, handle consoleHandler) handler {
	return func(s *service, c *call) (any, error) {
		m := s.memberOf(c)
		if m == nil {
			return nil, newProblem(wire.WorkspaceNotFound, "")
		}
		if !m.role.covers(least) {
			return nil, newProblem(wire.Forbidden, "The member's role does not allow this")
		}
		return handle(s, c, m)
	}
}

// memberOf is the caller as a member of the workspace of the path; of the one that the credentials belong to where the path names none, or "default".
func (s *service) memberOf(c *call) *member {
	id, named := c.ids["workspace_id"]
	if !named || id == "default" {
		return c.credential.member
	}
	return c.credential.member.user.in(s.accounts.workspaces[id])
}

// maxNameLength is that of the names of users, workspaces, projects and invitations, in characters.
const maxNameLength = 255

// checkName refuses a name that is missing, blank, too long, or holds control characters.
func checkName(name *string) error {
	switch {
	case name == nil:
		return newProblem(wire.BadRequest, "name is missing")
	case strings.TrimSpace(*name) == "" || utf8.RuneCountInString(*name) > maxNameLength || strings.ContainsFunc(*name, unicode.IsControl):
		return newProblem(wire.BadRequest, "name must be 1 to 255 characters, not all of them spaces and none a control character")
	}
	return nil
}

// workspacePath is where a workspace is, for the links of what it holds.
func (s *service) workspacePath(c *call, w *workspace) string {
	return s.url + "/console/" + c.version + "/workspaces/" + w.id
}
