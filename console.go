package idverify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// Console manages a workspace and its projects. It uses the credentials of a member of the
// workspace; calls to the products use project credentials and a [Client]. A Console caches access
// tokens: create one with [NewConsole] and reuse it. It is safe for concurrent use.
//
// A Console works in the workspace of its credentials. [Console.ForWorkspace] returns a Console for
// another workspace. The operations that a member may call depend on the member's [Role]. If the
// role does not permit an operation, the error is [ErrForbidden]. Resources of other workspaces are
// reported as [ErrNotFound].
type Console struct {
	Workspaces           *WorkspaceService            // name and balance, and the member's other workspaces
	Members              *MemberService               // users of the workspace
	Invitations          *InvitationService           // invitations of new members
	WorkspaceCredentials *WorkspaceCredentialsService // credentials for NewConsole
	Projects             *ProjectService              // sandbox and live projects
	ProjectCredentials   *ProjectCredentialsService   // credentials for NewClient
	Billing              *BillingService              // company details and balance
	PaymentMethods       *PaymentMethodService        // cards for top-ups
	TopUps               *TopUpService                // payments
	Usage                *UsageService                // number and cost of checks

	workspace *boundWorkspace
}

// boundWorkspace is the workspace in which a Console works.
type boundWorkspace struct {
	*api
	id   string
	main bool // it is the workspace of the credentials; id is then "default"
}

// NewConsole returns a Console for the service at baseURL with the credentials of a member of a
// workspace: see [NewClient]. It sends no request: wrong credentials cause a [*TokenError] in the
// first call.
func NewConsole(baseURL string, c CredentialsSource, opts ...Option) (*Console, error) {
	api, err := newAPI(baseURL, c, opts)
	if err != nil {
		return nil, fmt.Errorf("idverify: new console: %w", err)
	}
	return newConsole(&boundWorkspace{api: api, id: wire.DefaultWorkspace, main: true}), nil
}

// ForWorkspace returns a Console for the workspace with the given ID. The member whose credentials
// c uses must also be a member of that workspace. The new Console shares the access tokens of c.
// ForWorkspace sends no request.
func (c *Console) ForWorkspace(id string) *Console {
	return newConsole(&boundWorkspace{api: c.workspace.api, id: id})
}

func newConsole(w *boundWorkspace) *Console {
	return &Console{
		Workspaces:           &WorkspaceService{w},
		Members:              &MemberService{w},
		Invitations:          &InvitationService{w},
		WorkspaceCredentials: &WorkspaceCredentialsService{w},
		Projects:             &ProjectService{w},
		ProjectCredentials:   &ProjectCredentialsService{w},
		Billing:              &BillingService{w},
		PaymentMethods:       &PaymentMethodService{w},
		TopUps:               &TopUpService{w},
		Usage:                &UsageService{w},
		workspace:            w,
	}
}

// ids returns the IDs in a path below the workspace.
func (w *boundWorkspace) ids(rest ...string) []string { return append([]string{w.id}, rest...) }

// sendIn performs an operation in the workspace with send.
func sendIn[J resourceJSON[T], T any](ctx context.Context, w *boundWorkspace, op wire.Operation, body any, ids ...string) (*T, error) {
	return send[J](ctx, w.api, op, body, w.ids(ids...)...)
}

// listIn reads a collection of the workspace with list.
func listIn[J resourceJSON[T], T any](ctx context.Context, w *boundWorkspace, op wire.Operation, o ListOptions, name string, ids ...string) (*Page[T], error) {
	return list[J](ctx, w.api, listOf(op, o, w.ids(ids...)...), name)
}

// remove sends a DELETE and discards the response.
func (w *boundWorkspace) remove(ctx context.Context, op wire.Operation, ids ...string) error {
	return w.do(ctx, request{op: op, ids: ids}, nil)
}

// Role is the role of a member in a workspace. It determines the operations that the member may
// call. Unknown values are kept as the service sent them.
type Role string

// The roles. A workspace has exactly one owner. Every role may read the balance and the usage.
const (
	RoleOwner  Role = "OWNER"  // all operations
	RoleAdmin  Role = "ADMIN"  // all operations except billing
	RoleViewer Role = "VIEWER" // read access except to billing and invitations; can manage the member's own credentials
)

// Workspace contains members and projects, and has a balance.
type Workspace struct {
	WorkspaceID   string
	Name          string
	DataResidency string // for example "EU"
	CreatedAt     time.Time
	Balance       Balance
	Me            Member // the member whose credentials were used
}

// Balance is the balance of a workspace.
type Balance struct {
	Currency        string      // "API" until the first top-up
	AmountAvailable json.Number // decimal
	AmountReserved  json.Number // decimal
	CreditLimit     json.Number // decimal
}

// Member is a user of a workspace.
type Member struct {
	MemberID string
	Name     string
	Role     Role
}

// WorkspaceService reads and renames workspaces. It is available as [Console].Workspaces.
type WorkspaceService struct{ workspace *boundWorkspace }

// Get returns the workspace of the Console.
func (s *WorkspaceService) Get(ctx context.Context) (*Workspace, error) {
	return sendIn[workspaceJSON](ctx, s.workspace, wire.GetWorkspace, nil)
}

// List returns one page of the workspaces that the member belongs to.
func (s *WorkspaceService) List(ctx context.Context, o ListOptions) (*Page[Workspace], error) {
	return list[workspaceJSON](ctx, s.workspace.api, listOf(wire.ListWorkspaces, o), "workspaces")
}

// All returns an iterator over the workspaces that the member belongs to, starting with o.Page. It
// stops after the first error.
func (s *WorkspaceService) All(ctx context.Context, o ListOptions) iter.Seq2[*Workspace, error] {
	return all(ctx, o, s.List)
}

// Rename changes the name of the workspace. It requires an owner or an admin.
func (s *WorkspaceService) Rename(ctx context.Context, name string) (*Workspace, error) {
	return sendIn[workspaceJSON](ctx, s.workspace, wire.UpdateWorkspace, []patchOperation{{Op: "replace", Path: "/name", Value: name}})
}

// MemberService reads the members of a workspace. It is available as [Console].Members.
type MemberService struct{ workspace *boundWorkspace }

// List returns one page of the members.
func (s *MemberService) List(ctx context.Context, o ListOptions) (*Page[Member], error) {
	return listIn[memberJSON](ctx, s.workspace, wire.ListMembers, o, "members")
}

// All returns an iterator over the members, starting with o.Page. It stops after the first error.
func (s *MemberService) All(ctx context.Context, o ListOptions) iter.Seq2[*Member, error] {
	return all(ctx, o, s.List)
}

// Get returns a member.
func (s *MemberService) Get(ctx context.Context, memberID string) (*Member, error) {
	return sendIn[memberJSON](ctx, s.workspace, wire.GetMember, nil, memberID)
}

// InvitationParams are the parameters of [InvitationService.Create]. Name and Role are required.
type InvitationParams struct {
	Name      string
	Role      Role   // RoleAdmin or RoleViewer
	Reference string // your own reference; the service returns it with the invitation
}

// Invitation is an invitation to join a workspace. A person accepts it by signing up, which is not
// part of this API.
type Invitation struct {
	InvitationID string
	Name         string
	Role         Role
	Reference    string
}

// InvitationService manages invitations to a workspace. Its methods require an owner or an admin.
// It is available as [Console].Invitations.
type InvitationService struct{ workspace *boundWorkspace }

// Create creates an invitation.
func (s *InvitationService) Create(ctx context.Context, p InvitationParams) (*Invitation, error) {
	return sendIn[invitationJSON](ctx, s.workspace, wire.CreateInvitation, invitationJSON{Name: p.Name, Role: p.Role, Reference: p.Reference})
}

// List returns one page of the invitations.
func (s *InvitationService) List(ctx context.Context, o ListOptions) (*Page[Invitation], error) {
	return listIn[invitationJSON](ctx, s.workspace, wire.ListInvitations, o, "invitations")
}

// All returns an iterator over the invitations, starting with o.Page. It stops after the first
// error.
func (s *InvitationService) All(ctx context.Context, o ListOptions) iter.Seq2[*Invitation, error] {
	return all(ctx, o, s.List)
}

type workspaceJSON struct {
	WorkspaceID   string    `json:"workspace_id"`
	Name          string    `json:"name"`
	DataResidency string    `json:"data_residency"`
	CreatedAt     timestamp `json:"created_at"`
	Embedded      struct {
		Balance struct {
			Currency        string      `json:"currency"`
			AmountAvailable json.Number `json:"amount_available"`
			AmountReserved  json.Number `json:"amount_reserved"`
			CreditLimit     json.Number `json:"credit_limit"`
		} `json:"balance"`
		Me struct {
			MemberID string `json:"member_id"`
			Name     string `json:"name"`
			Role     Role   `json:"role"`
		} `json:"me"`
	} `json:"_embedded"`
}

func (j workspaceJSON) id() string { return j.WorkspaceID }

func (j workspaceJSON) value() (*Workspace, error) {
	if j.WorkspaceID == "" {
		return nil, errors.New("missing workspace_id")
	}
	return &Workspace{
		WorkspaceID:   j.WorkspaceID,
		Name:          j.Name,
		DataResidency: j.DataResidency,
		CreatedAt:     j.CreatedAt.Time,
		Balance:       Balance(j.Embedded.Balance),
		Me:            Member(j.Embedded.Me),
	}, nil
}

type memberJSON struct {
	MemberID string `json:"member_id"`
	Name     string `json:"name"`
	Role     Role   `json:"role"`
}

func (j memberJSON) id() string { return j.MemberID }

func (j memberJSON) value() (*Member, error) {
	if j.MemberID == "" {
		return nil, errors.New("missing member_id")
	}
	return new(Member(j)), nil
}

type invitationJSON struct {
	InvitationID string `json:"invitation_id,omitempty"`
	Name         string `json:"name"`
	Role         Role   `json:"role"`
	Reference    string `json:"reference,omitempty"`
}

func (j invitationJSON) value() (*Invitation, error) {
	if j.InvitationID == "" {
		return nil, errors.New("missing invitation_id")
	}
	return new(Invitation(j)), nil
}
