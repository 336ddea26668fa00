package idverify_test

import (
	"context"
	"fmt"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/wire"
)

// consoleOperations are all operations of a Console, for the fault matrix.
var consoleOperations = []matrixOperation{
	{wire.CreateProject, aName, func(ctx context.Context, s *stage) error {
		return second(s.console.Projects.Create(ctx, idverify.ProjectParams{Name: s.ids[0]}))
	}},
	{wire.ListProjects, nil, func(ctx context.Context, s *stage) error {
		return second(s.console.Projects.List(ctx, idverify.ListOptions{}))
	}},
	{wire.GetProject, aProject, func(ctx context.Context, s *stage) error { return second(s.console.Projects.Get(ctx, s.ids[0])) }},
	{wire.UpdateProject, aProject, func(ctx context.Context, s *stage) error {
		return second(s.console.Projects.Update(ctx, s.ids[0], idverify.SetMode(idverify.ModeSandbox)))
	}},
	{wire.DeleteProject, aProject, func(ctx context.Context, s *stage) error { return s.console.Projects.Delete(ctx, s.ids[0]) }},

	{wire.CreateProjectCredentials, aProject, func(ctx context.Context, s *stage) error {
		return second(s.console.ProjectCredentials.Create(ctx, s.ids[0]))
	}},
	{wire.ListProjectCredentials, aProject, func(ctx context.Context, s *stage) error {
		return second(s.console.ProjectCredentials.List(ctx, s.ids[0], idverify.ListOptions{}))
	}},
	{wire.GetProjectCredentials, aProject, func(ctx context.Context, s *stage) error {
		return second(s.console.ProjectCredentials.Get(ctx, s.ids[0], s.ids[1]))
	}},
	{wire.DeleteProjectCredentials, aProject, func(ctx context.Context, s *stage) error {
		return s.console.ProjectCredentials.Delete(ctx, s.ids[0], s.ids[1])
	}},

	{wire.ListWorkspaces, nil, func(ctx context.Context, s *stage) error {
		return second(s.console.Workspaces.List(ctx, idverify.ListOptions{}))
	}},
	{wire.GetWorkspace, nil, func(ctx context.Context, s *stage) error { return second(s.console.Workspaces.Get(ctx)) }},
	{wire.UpdateWorkspace, aName, func(ctx context.Context, s *stage) error { return second(s.console.Workspaces.Rename(ctx, s.ids[0])) }},

	{wire.ListMembers, nil, func(ctx context.Context, s *stage) error {
		return second(s.console.Members.List(ctx, idverify.ListOptions{}))
	}},
	{wire.GetMember, aMember, func(ctx context.Context, s *stage) error { return second(s.console.Members.Get(ctx, s.ids[0])) }},

	{wire.CreateInvitation, aName, func(ctx context.Context, s *stage) error {
		return second(s.console.Invitations.Create(ctx, idverify.InvitationParams{Name: s.ids[0], Role: idverify.RoleViewer}))
	}},
	{wire.ListInvitations, nil, func(ctx context.Context, s *stage) error {
		return second(s.console.Invitations.List(ctx, idverify.ListOptions{}))
	}},

	{wire.CreateWorkspaceCredentials, aMember, func(ctx context.Context, s *stage) error {
		return second(s.console.WorkspaceCredentials.Create(ctx, s.ids[0]))
	}},
	{wire.ListWorkspaceCredentials, aMember, func(ctx context.Context, s *stage) error {
		return second(s.console.WorkspaceCredentials.List(ctx, s.ids[0], idverify.ListOptions{}))
	}},
	{wire.GetWorkspaceCredentials, aMembersCredentials, func(ctx context.Context, s *stage) error {
		return second(s.console.WorkspaceCredentials.Get(ctx, s.ids[0], s.ids[1]))
	}},
	{wire.DeleteWorkspaceCredentials, aMembersCredentials, func(ctx context.Context, s *stage) error {
		return s.console.WorkspaceCredentials.Delete(ctx, s.ids[0], s.ids[1])
	}},
	{wire.ResetWorkspaceCredentials, aMembersCredentials, func(ctx context.Context, s *stage) error {
		return second(s.console.WorkspaceCredentials.ResetSecret(ctx, s.ids[0], s.ids[1]))
	}},

	{wire.GetBillingAccount, aBillingAccount, func(ctx context.Context, s *stage) error { return second(s.console.Billing.Account(ctx)) }},
	{wire.UpdateBillingAccount, nil, func(ctx context.Context, s *stage) error {
		return second(s.console.Billing.UpdateAccount(ctx, idverify.BillingAccount{CompanyName: "Shop Ltd"}))
	}},
	{wire.AddPaymentMethod, aBillingAccount, func(ctx context.Context, s *stage) error {
		return second(s.console.Billing.AddPaymentMethod(ctx, aCard))
	}},
	{wire.ListPaymentMethods, aPaymentMethod, func(ctx context.Context, s *stage) error {
		return second(s.console.Billing.PaymentMethods(ctx, idverify.ListOptions{}))
	}},
	{wire.GetPaymentMethod, aPaymentMethod, func(ctx context.Context, s *stage) error {
		return second(s.console.Billing.PaymentMethod(ctx, s.ids[0]))
	}},
	{wire.DeletePaymentMethod, aPaymentMethod, func(ctx context.Context, s *stage) error {
		return s.console.Billing.DeletePaymentMethod(ctx, s.ids[0])
	}},
	{wire.CreateTopUp, aPaymentMethod, func(ctx context.Context, s *stage) error {
		return second(s.console.Billing.TopUp(ctx, idverify.TopUpParams{PaymentMethodID: s.ids[0], Currency: "EUR", Amount: "5"}))
	}},
	{wire.ListTopUps, nil, func(ctx context.Context, s *stage) error {
		return second(s.console.Billing.TopUps(ctx, idverify.ListOptions{}))
	}},
	{wire.GetUsage, nil, func(ctx context.Context, s *stage) error {
		return second(s.console.Usage.Daily(ctx, idverify.UsageQuery{From: s.srv.Now().Add(-time.Hour)}))
	}},
}

var aCard = idverify.PaymentMethodParams{CardNumber: idverify.NewSecret("4242424242424242"), ExpiryMonth: 12, ExpiryYear: 2080, Currencies: []string{"EUR"}}

// The preparations.

func aName(s *stage) []string {
	s.named++
	return []string{fmt.Sprint("name ", s.named)}
}

func aProject(s *stage) []string {
	p := must(s.console.Projects.Create(s.t.Context(), idverify.ProjectParams{Name: aName(s)[0]}))(s.t)
	return []string{p.ProjectID, p.Credentials[0].ClientID}
}

func aMember(s *stage) []string {
	return []string{must(s.console.Members.List(s.t.Context(), idverify.ListOptions{}))(s.t).Items[0].MemberID}
}

func aMembersCredentials(s *stage) []string {
	member := aMember(s)[0]
	return []string{member, must(s.console.WorkspaceCredentials.Create(s.t.Context(), member))(s.t).ClientID}
}

func aBillingAccount(s *stage) []string {
	must(s.console.Billing.UpdateAccount(s.t.Context(), idverify.BillingAccount{CompanyName: "Shop Ltd"}))(s.t)
	return nil
}

func aPaymentMethod(s *stage) []string {
	aBillingAccount(s)
	return []string{must(s.console.Billing.AddPaymentMethod(s.t.Context(), aCard))(s.t).PaymentMethodID}
}
