package idverify

import (
	"context"
	"fmt"

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
//
// Protocol: docs/protocol.md, section 10.
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
	Usage                *UsageService                // number and cost of calls

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
