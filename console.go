package idverify

import (
	"context"
	"fmt"

	"github.com/idverify/idverify-go/internal/wire"
)

// Console manages workspaces and projects with the credentials of a workspace. Make it with [NewConsole]; it is safe for concurrent use and wants to be shared: it caches access tokens.
//
// It is bound to the workspace that the credentials belong to; [Console.Workspace] binds it to another. Product calls take project credentials and a [Client].
// What a member may do depends on the role, see [Role]; an error is [ErrForbidden] for a role too low, and [ErrNotFound] for what is another workspace's.
type Console struct {
	Workspaces           *WorkspaceService            // name and balance
	Members              *MemberService               // who belongs to it
	Invitations          *InvitationService           // who is asked to
	WorkspaceCredentials *WorkspaceCredentialsService // for NewConsole
	Projects             *ProjectService              // how applications reach the products
	ProjectCredentials   *ProjectCredentialsService   // for NewClient
	Billing              *BillingService              // the owner's alone
	Usage                *UsageService                // what was used, and what it cost

	workspace *boundWorkspace
}

// boundWorkspace is the workspace that a Console works in.
type boundWorkspace struct {
	*api
	id   string
	main bool // the caller's own, which the service knows as "default"
}

// NewConsole returns a console for the service at baseURL, as [NewClient] takes it, with the credentials of a workspace. It sends nothing: wrong credentials show at the first call, as a [*TokenError].
func NewConsole(baseURL string, c Credentials, opts ...Option) (*Console, error) {
	api, err := newAPI(baseURL, c, opts)
	if err != nil {
		return nil, fmt.Errorf("idverify: new console: %w", err)
	}
	return newConsole(&boundWorkspace{api: api, id: wire.DefaultWorkspace, main: true}), nil
}

// Workspace returns the same console bound to the workspace with that id, of which its user is a member. It sends nothing, and shares the tokens of c.
func (c *Console) Workspace(id string) *Console {
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
		Usage:                &UsageService{w},
		workspace:            w,
	}
}

// ids are the ids of a path below the workspace.
func (w *boundWorkspace) ids(rest ...string) []string { return append([]string{w.id}, rest...) }

// sendIn is send for an operation below the workspace.
func sendIn[J resourceJSON[T], T any](ctx context.Context, w *boundWorkspace, op wire.Operation, body any, ids ...string) (*T, error) {
	return send[J](ctx, w.api, op, body, w.ids(ids...)...)
}

// listIn is list for a collection below the workspace.
func listIn[J resourceJSON[T], T any](ctx context.Context, w *boundWorkspace, op wire.Operation, o ListOptions, name string, ids ...string) (*Page[T], error) {
	return list[J](ctx, w.api, listOf(op, o, w.ids(ids...)...), name)
}

// remove carries out a DELETE, whose answer says nothing.
func (w *boundWorkspace) remove(ctx context.Context, op wire.Operation, ids ...string) error {
	_, err := w.do(ctx, request{op: op, ids: ids})
	return err
}
