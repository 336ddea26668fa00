package sandboxfake

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/idverify/idverify-go/internal/wire"
)

// role is the role of a member in a workspace.
//
// Protocol: docs/protocol.md, section 10.
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
