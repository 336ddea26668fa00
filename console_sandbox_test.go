package idverify_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestConsole_FromSetupToPaidCheck(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t)
	console, ctx := srv.Console(), t.Context()

	if _, err := console.Billing.Get(ctx); !errors.Is(err, idverify.ErrNotFound) {
		t.Errorf("billing account before the company details: error = %v, want ErrNotFound", err)
	}
	card := idverify.PaymentMethodParams{CardNumber: idverify.NewSecret("4000056655665556"), ExpiryMonth: 12, ExpiryYear: 2030, Currencies: []string{"EUR", "GBP"}}
	if _, err := console.PaymentMethods.Create(ctx, card); !errors.Is(err, idverify.ErrConflict) {
		t.Errorf("payment method before the company details: error = %v, want ErrConflict", err)
	}
	if _, err := console.Billing.Update(ctx, idverify.BillingAccount{CompanyName: "Sandbox Ltd", Country: "GB"}); err != nil {
		t.Fatal(err)
	}
	method, err := console.PaymentMethods.Create(ctx, card)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := console.TopUps.Create(ctx, idverify.TopUpParams{PaymentMethodID: method.PaymentMethodID, Currency: "EUR", Amount: "25.50"}); err != nil {
		t.Fatal(err)
	}
	project, err := console.Projects.Create(ctx, idverify.ProjectParams{Name: "Shop", Mode: idverify.ModeLive})
	if err != nil {
		t.Fatal(err)
	}
	client, err := idverify.NewClient(srv.URL(), project.Credentials[0].Credentials, idverify.WithHTTPClient(srv.HTTPClient()))
	if err != nil {
		t.Fatal(err)
	}
	check, err := client.SIMChecks.Create(ctx, idverify.SIMCheckParams{PhoneNumber: matchingNumber})
	if err != nil {
		t.Fatal(err)
	}
	balance, err := console.Billing.Balance(ctx)
	if err != nil {
		t.Fatal(err)
	}
	usage, err := console.Usage.Daily(ctx, idverify.UsageQuery{From: srv.Now(), To: srv.Now().Add(time.Hour), GroupBy: []idverify.UsageGroup{idverify.UsageByProduct, idverify.UsageByProject}})
	if err != nil {
		t.Fatal(err)
	}

	if method.LastFourDigits != "5556" || balance.Currency != "EUR" || balance.AmountAvailable != check.SnapshotBalance {
		t.Errorf("card = %+v, balance = %+v, want a card ending in 5556, and the balance in EUR of check %+v", method, balance, check)
	}
	if len(usage) != 1 || usage[0].Product != idverify.ProductSIMCheck || usage[0].ProjectID != project.ProjectID || usage[0].Counter != 1 || usage[0].Amount != check.ChargeAmount {
		t.Errorf("usage = %+v, want that of check %+v", usage, check)
	}
}

func TestProjectService_Update(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t)
	projects, ctx := srv.Console().Projects, t.Context()
	project, err := projects.Create(ctx, idverify.ProjectParams{Name: "Shop", Mode: idverify.ModeLive})
	if err != nil {
		t.Fatal(err)
	}

	changed, err := projects.Update(ctx, project.ProjectID, idverify.ProjectUpdate{
		Name:            new("Store"),
		Mode:            new(idverify.ModeSandbox),
		CallbackURL:     new("https://a.example/"),
		PhoneCheck:      idverify.ProductURLsUpdate{CallbackURL: new("https://b.example/")},
		SubscriberCheck: idverify.ProductURLsUpdate{RedirectURL: new("https://c.example/")},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, invalidErr := projects.Update(ctx, project.ProjectID, idverify.ProjectUpdate{Name: new("Nowhere"), Mode: new(idverify.ProjectMode("half"))})
	removed, err := projects.Update(ctx, project.ProjectID, idverify.ProjectUpdate{
		CallbackURL:     new(""),
		PhoneCheck:      idverify.ProductURLsUpdate{CallbackURL: new("")},
		SubscriberCheck: idverify.ProductURLsUpdate{RedirectURL: new("")},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, againErr := projects.Update(ctx, project.ProjectID, idverify.ProjectUpdate{CallbackURL: new("")})
	deleted := projects.Delete(ctx, project.ProjectID)
	_, getErr := projects.Get(ctx, project.ProjectID)

	if changed.Name != "Store" || changed.Mode != idverify.ModeSandbox || changed.CallbackURL != "https://a.example/" || changed.PhoneCheck.CallbackURL != "https://b.example/" || changed.SubscriberCheck.RedirectURL != "https://c.example/" {
		t.Errorf("project after the update = %+v, want the new name, mode and URLs", changed)
	}
	if !errors.Is(invalidErr, idverify.ErrBadRequest) || removed.Name != "Store" {
		t.Errorf("invalid update: error = %v, then project = %+v, want no change", invalidErr, removed)
	}
	if removed.CallbackURL != "" || removed.PhoneCheck != (idverify.ProductURLs{}) || removed.SubscriberCheck != (idverify.ProductURLs{}) {
		t.Errorf("project after removing the URLs = %+v, want no URLs", removed)
	}
	if !errors.Is(againErr, idverify.ErrBadRequest) {
		t.Errorf("removing a missing URL: error = %v, want ErrBadRequest", againErr)
	}
	if deleted != nil || !errors.Is(getErr, idverify.ErrNotFound) {
		t.Errorf("delete: error = %v, then get: error = %v, want nil and ErrNotFound", deleted, getErr)
	}
}

func TestProjectCredentialsService_Rotate(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t)
	console, ctx := srv.Console(), t.Context()
	project, err := console.Projects.Create(ctx, idverify.ProjectParams{Name: "Shop", Mode: idverify.ModeSandbox})
	if err != nil {
		t.Fatal(err)
	}
	old := project.Credentials[0]

	fresh, err := console.ProjectCredentials.Rotate(ctx, project.ProjectID, old.ClientID)
	if err != nil {
		t.Fatal(err)
	}

	getToken := func(c *idverify.IssuedCredentials) error {
		client, err := idverify.NewClient(srv.URL(), c.Credentials, idverify.WithHTTPClient(srv.HTTPClient()))
		if err != nil {
			return err
		}
		return errorOf(client.Token(ctx, idverify.ScopePhoneCheck))
	}
	if err := getToken(fresh); err != nil {
		t.Errorf("token with the new credentials: error = %v, want nil", err)
	}
	if err := getToken(old); !errors.Is(err, idverify.ErrUnauthorized) {
		t.Errorf("token with the old credentials: error = %v, want ErrUnauthorized", err)
	}
	page, err := console.ProjectCredentials.List(ctx, project.ProjectID, idverify.ListOptions{})
	if err != nil || len(page.Items) != 1 || page.Items[0].ClientID != fresh.ClientID || page.Items[0].ClientSecret.Reveal() != "" {
		t.Errorf("credentials = %v, error = %v, want only the new ones without their secret", page, err)
	}
}

func TestWorkspaceCredentialsService_ResetSecret(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t)
	console, ctx := srv.Console(), t.Context()
	workspace, err := console.Workspaces.Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := console.WorkspaceCredentials.Create(ctx, workspace.Me.MemberID)
	if err != nil {
		t.Fatal(err)
	}

	reset, err := console.WorkspaceCredentials.ResetSecret(ctx, workspace.Me.MemberID, pair.ClientID)
	if err != nil {
		t.Fatal(err)
	}

	for name, tt := range map[string]struct {
		credentials idverify.Credentials
		want        error
	}{"old": {pair.Credentials, idverify.ErrUnauthorized}, "new": {reset.Credentials, nil}} {
		c, err := idverify.NewConsole(srv.URL(), tt.credentials, idverify.WithHTTPClient(srv.HTTPClient()))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Workspaces.Get(ctx); !errors.Is(err, tt.want) || tt.want == nil && err != nil {
			t.Errorf("get with the %s secret: error = %v, want %v", name, err, tt.want)
		}
	}
}

func TestConsole_ForWorkspace(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t)
	console, ctx := srv.Console(), t.Context()
	workspace, err := console.Workspaces.Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	project, err := console.Projects.Create(ctx, idverify.ProjectParams{Name: "Shop", Mode: idverify.ModeLive})
	if err != nil {
		t.Fatal(err)
	}

	byID := console.ForWorkspace(workspace.WorkspaceID)
	renamed, err := byID.Workspaces.Rename(ctx, "Another Ltd")
	if err != nil {
		t.Fatal(err)
	}
	read, err := byID.Projects.Get(ctx, project.ProjectID)
	if err != nil {
		t.Fatal(err)
	}
	_, unknownErr := console.ForWorkspace("no-such-workspace").Projects.Get(ctx, project.ProjectID)

	if renamed.Name != "Another Ltd" || renamed.WorkspaceID != workspace.WorkspaceID || read.Name != project.Name {
		t.Errorf("renamed workspace = %+v, project = %+v, want the same workspace and project with the new workspace name", renamed, read)
	}
	if !errors.Is(unknownErr, idverify.ErrNotFound) {
		t.Errorf("project of an unknown workspace: error = %v, want ErrNotFound", unknownErr)
	}
}

// Creates a project and a client with its credentials.
func ExampleNewConsole() {
	service, err := sandboxfake.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()
	console, err := idverify.NewConsole(service.URL(), service.ConsoleCredentials(), idverify.WithHTTPClient(service.HTTPClient()))
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	project, err := console.Projects.Create(ctx, idverify.ProjectParams{Name: "Shop", Mode: idverify.ModeSandbox})
	if err != nil {
		fmt.Println(err)
		return
	}
	// The secret is returned only once: store it.
	client, err := idverify.NewClient(service.URL(), project.Credentials[0].Credentials, idverify.WithHTTPClient(service.HTTPClient()))
	if err != nil {
		fmt.Println(err)
		return
	}
	check, err := client.SIMChecks.Create(ctx, idverify.SIMCheckParams{PhoneNumber: "447700900012"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(project.Name, project.Mode, check.Status)
	// Output: Shop sandbox COMPLETED
}
