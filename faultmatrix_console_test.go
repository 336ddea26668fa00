package idverify_test

import (
	"context"
	"fmt"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/wire"
)

// consoleOperations lists all operations of a Console.
var consoleOperations = []matrixOperation{
	{wire.CreateProject, newName, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.Projects.Create(ctx, idverify.ProjectParams{Name: s.ids[0], Mode: idverify.ModeLive}))
	}},
	{wire.ListProjects, nil, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.Projects.List(ctx, idverify.ListOptions{}))
	}},
	{wire.GetProject, newProject, func(ctx context.Context, s *matrixTest) error { return errorOf(s.console.Projects.Get(ctx, s.ids[0])) }},
	{wire.UpdateProject, newProject, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.Projects.Update(ctx, s.ids[0], idverify.ProjectUpdate{Mode: new(idverify.ModeSandbox)}))
	}},
	{wire.DeleteProject, newProject, func(ctx context.Context, s *matrixTest) error { return s.console.Projects.Delete(ctx, s.ids[0]) }},

	{wire.CreateProjectCredentials, newProject, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.ProjectCredentials.Create(ctx, s.ids[0]))
	}},
	{wire.ListProjectCredentials, newProject, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.ProjectCredentials.List(ctx, s.ids[0], idverify.ListOptions{}))
	}},
	{wire.GetProjectCredentials, newProject, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.ProjectCredentials.Get(ctx, s.ids[0], s.ids[1]))
	}},
	{wire.DeleteProjectCredentials, newProject, func(ctx context.Context, s *matrixTest) error {
		return s.console.ProjectCredentials.Delete(ctx, s.ids[0], s.ids[1])
	}},

	{wire.ListWorkspaces, nil, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.Workspaces.List(ctx, idverify.ListOptions{}))
	}},
	{wire.GetWorkspace, nil, func(ctx context.Context, s *matrixTest) error { return errorOf(s.console.Workspaces.Get(ctx)) }},
	{wire.UpdateWorkspace, newName, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.Workspaces.Rename(ctx, s.ids[0]))
	}},

	{wire.ListMembers, nil, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.Members.List(ctx, idverify.ListOptions{}))
	}},
	{wire.GetMember, newMember, func(ctx context.Context, s *matrixTest) error { return errorOf(s.console.Members.Get(ctx, s.ids[0])) }},

	{wire.CreateInvitation, newName, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.Invitations.Create(ctx, idverify.InvitationParams{Name: s.ids[0], Role: idverify.RoleViewer}))
	}},
	{wire.ListInvitations, nil, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.Invitations.List(ctx, idverify.ListOptions{}))
	}},

	{wire.CreateWorkspaceCredentials, newMember, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.WorkspaceCredentials.Create(ctx, s.ids[0]))
	}},
	{wire.ListWorkspaceCredentials, newMember, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.WorkspaceCredentials.List(ctx, s.ids[0], idverify.ListOptions{}))
	}},
	{wire.GetWorkspaceCredentials, newMemberCredentials, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.WorkspaceCredentials.Get(ctx, s.ids[0], s.ids[1]))
	}},
	{wire.DeleteWorkspaceCredentials, newMemberCredentials, func(ctx context.Context, s *matrixTest) error {
		return s.console.WorkspaceCredentials.Delete(ctx, s.ids[0], s.ids[1])
	}},
	{wire.ResetWorkspaceCredentials, newMemberCredentials, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.WorkspaceCredentials.ResetSecret(ctx, s.ids[0], s.ids[1]))
	}},

	{wire.GetBillingAccount, newBillingAccount, func(ctx context.Context, s *matrixTest) error { return errorOf(s.console.Billing.Get(ctx)) }},
	{wire.UpdateBillingAccount, nil, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.Billing.Update(ctx, idverify.BillingAccount{CompanyName: "Shop Ltd"}))
	}},
	{wire.AddPaymentMethod, newBillingAccount, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.PaymentMethods.Create(ctx, cardParams))
	}},
	{wire.ListPaymentMethods, newPaymentMethod, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.PaymentMethods.List(ctx, idverify.ListOptions{}))
	}},
	{wire.GetPaymentMethod, newPaymentMethod, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.PaymentMethods.Get(ctx, s.ids[0]))
	}},
	{wire.DeletePaymentMethod, newPaymentMethod, func(ctx context.Context, s *matrixTest) error {
		return s.console.PaymentMethods.Delete(ctx, s.ids[0])
	}},
	{wire.CreateTopUp, newPaymentMethod, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.TopUps.Create(ctx, idverify.TopUpParams{PaymentMethodID: s.ids[0], Currency: "EUR", Amount: "5"}))
	}},
	{wire.ListTopUps, nil, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.TopUps.List(ctx, idverify.ListOptions{}))
	}},
	{wire.GetUsage, nil, func(ctx context.Context, s *matrixTest) error {
		return errorOf(s.console.Usage.Daily(ctx, idverify.UsageQuery{From: s.srv.Now().Add(-time.Hour)}))
	}},
}

var cardParams = idverify.PaymentMethodParams{CardNumber: idverify.NewSecret("4242424242424242"), ExpiryMonth: 12, ExpiryYear: 2080, Currencies: []string{"EUR"}}

// Prepare functions.

func newName(s *matrixTest) []string {
	s.names++
	return []string{fmt.Sprint("name ", s.names)}
}

func newProject(s *matrixTest) []string {
	p := must(s.console.Projects.Create(s.t.Context(), idverify.ProjectParams{Name: newName(s)[0], Mode: idverify.ModeLive}))(s.t)
	return []string{p.ProjectID, p.Credentials[0].ClientID}
}

func newMember(s *matrixTest) []string {
	return []string{must(s.console.Members.List(s.t.Context(), idverify.ListOptions{}))(s.t).Items[0].MemberID}
}

func newMemberCredentials(s *matrixTest) []string {
	member := newMember(s)[0]
	return []string{member, must(s.console.WorkspaceCredentials.Create(s.t.Context(), member))(s.t).ClientID}
}

func newBillingAccount(s *matrixTest) []string {
	must(s.console.Billing.Update(s.t.Context(), idverify.BillingAccount{CompanyName: "Shop Ltd"}))(s.t)
	return nil
}

func newPaymentMethod(s *matrixTest) []string {
	newBillingAccount(s)
	return []string{must(s.console.PaymentMethods.Create(s.t.Context(), cardParams))(s.t).PaymentMethodID}
}
