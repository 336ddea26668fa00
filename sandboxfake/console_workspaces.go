package sandboxfake

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/sandboxfake/internal/rsql"
)

// dataResidency is the data_residency of every workspace.
const dataResidency = "EU"

// workspaceView is the JSON form of a workspace.
//
// Protocol: docs/protocol.md, section 10.
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
