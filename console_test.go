package idverify_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// TestConsole_DecodesFixtures decodes each fixture of the console.
func TestConsole_DecodesFixtures(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const projectID, memberID, clientID = "e6a8c0d2-7b9d-4e1f-8a3c-8b0d2f4a6c7e", "f7b9d1e3-8c0e-4f2a-9b4d-9c1e3a5b7d8f", "08c0e2f4-9d1f-4a3b-8c5e-0d2f4b6c8e9a"
	secret := idverify.NewSecret("shown-once-project-secret")
	issued := &idverify.IssuedCredentials{
		Credentials: idverify.Credentials{ClientID: clientID, ClientSecret: secret},
		Scopes:      []idverify.Scope{idverify.ScopePhoneCheck, idverify.ScopeSIMCheck, idverify.ScopeSubscriberCheck, idverify.ScopeReachability},
		CreatedAt:   created,
	}
	balance := idverify.Balance{Currency: "API", AmountAvailable: "100", AmountReserved: "0", CreditLimit: "5"}

	for _, tt := range []struct {
		fixture string
		do      func(context.Context, *idverify.Console) (any, error)
		want    any
	}{
		{"project.json", func(ctx context.Context, c *idverify.Console) (any, error) { return c.Projects.Get(ctx, projectID) }, &idverify.Project{
			ProjectID: projectID, Name: "Shop", Mode: idverify.ModeSandbox, CallbackURL: "https://shop.sandbox.test/callbacks",
			PhoneCheckURLs:      idverify.ProductURLs{CallbackURL: "https://shop.sandbox.test/callbacks/phone", RedirectURL: "https://shop.sandbox.test/return/phone"},
			SubscriberCheckURLs: idverify.ProductURLs{CallbackURL: "https://shop.sandbox.test/callbacks/subscriber", RedirectURL: "https://shop.sandbox.test/return/subscriber"},
			MemberID:            memberID, CreatedAt: created, UpdatedAt: created.Add(time.Second)}},
		{"project_created.json", func(ctx context.Context, c *idverify.Console) (any, error) {
			return c.Projects.Create(ctx, idverify.ProjectParams{Name: "Shop", Mode: idverify.ModeLive})
		}, &idverify.Project{
			ProjectID: projectID, Name: "Shop", Mode: idverify.ModeLive, MemberID: memberID, CreatedAt: created, UpdatedAt: created, Credentials: []*idverify.IssuedCredentials{issued}}},
		{"credentials.json", func(ctx context.Context, c *idverify.Console) (any, error) {
			return c.ProjectCredentials.Create(ctx, "p")
		}, issued},
		{"credentials.json", func(ctx context.Context, c *idverify.Console) (any, error) {
			return c.WorkspaceCredentials.ResetSecret(ctx, "m", clientID)
		}, issued},
		{"workspace.json", func(ctx context.Context, c *idverify.Console) (any, error) { return c.Workspaces.Get(ctx) }, &idverify.Workspace{
			WorkspaceID: "19d1f3a5-0e2a-4b4c-9d6f-1e3a5c7d9f0b", Name: "Sandbox Ltd", DataResidency: "EU", CreatedAt: created, Balance: balance,
			Me: idverify.Member{MemberID: memberID, Name: "Ada", Role: idverify.RoleOwner}}},
		{"workspace.json", func(ctx context.Context, c *idverify.Console) (any, error) { return c.Billing.Balance(ctx) }, &balance},
		{"member.json", func(ctx context.Context, c *idverify.Console) (any, error) { return c.Members.Get(ctx, memberID) }, &idverify.Member{MemberID: memberID, Name: "Ada", Role: idverify.RoleOwner}},
		{"invitation.json", func(ctx context.Context, c *idverify.Console) (any, error) {
			return c.Invitations.Create(ctx, idverify.InvitationParams{Name: "Grace", Role: idverify.RoleAdmin})
		}, &idverify.Invitation{InvitationID: "2ae2a4b6-1f3b-4c5d-8e7a-2f4b6d8e0a1c", Name: "Grace", Role: idverify.RoleAdmin, Reference: "ticket 12"}},
		{"billing_account.json", func(ctx context.Context, c *idverify.Console) (any, error) { return c.Billing.Get(ctx) }, &idverify.BillingAccount{
			CompanyName: "Sandbox Ltd", ContactName: "Ada", ContactEmail: "ada@sandbox.test", Address1: "1 Test Street", Address2: "Floor 2", City: "Testville", Zip: "TE5 7ST", Country: "GB"}},
		{"payment_method.json", func(ctx context.Context, c *idverify.Console) (any, error) {
			return c.PaymentMethods.Get(ctx, "3bf3b5c7-2a4c-4d6e-9f8b-3a5c7e9f1b2d")
		}, &idverify.PaymentMethod{
			PaymentMethodID: "3bf3b5c7-2a4c-4d6e-9f8b-3a5c7e9f1b2d", LastFourDigits: "4242", ExpiryMonth: 12, ExpiryYear: 2030, Currencies: []string{"EUR", "GBP"}}},
		{"top_up.json", func(ctx context.Context, c *idverify.Console) (any, error) {
			return c.TopUps.Create(ctx, idverify.TopUpParams{Amount: "25.50"})
		}, &idverify.TopUp{
			TopUpID: "4ca4c6d8-3b5d-4e7f-8a9c-4b6d8f0a2c3e", PaymentMethodID: "3bf3b5c7-2a4c-4d6e-9f8b-3a5c7e9f1b2d", Currency: "EUR", Amount: "25.50", CreatedAt: created}},
		{"usage.json", func(ctx context.Context, c *idverify.Console) (any, error) {
			return c.Usage.Hourly(ctx, idverify.UsageQuery{From: created})
		}, []idverify.Usage{{
			Date: created.Truncate(time.Hour), Product: idverify.ProductPhoneCheck, ProjectID: projectID, Count: 3, Amount: "3", Currency: "API"}}},
	} {
		t.Run(tt.fixture, func(t *testing.T) {
			t.Parallel()
			srv := newService(t, respondWith(200, string(fixture(t, tt.fixture))))

			got := must(tt.do(t.Context(), srv.console(t)))(t)

			wantEqual(t, tt.want, got, "result")
			if strings.Contains(fmt.Sprintf("%+v %#v", got, got), secret.Reveal()) {
				t.Error("formatted result contains the secret")
			}
		})
	}
}

func TestConsole_RequestBodies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		do   func(context.Context, *idverify.Console) error
		want string
	}{
		{"project without URLs", func(ctx context.Context, c *idverify.Console) error {
			return errorOf(c.Projects.Create(ctx, idverify.ProjectParams{Name: "Shop", Mode: idverify.ModeLive}))
		}, `{"name":"Shop","mode":"live"}`},
		{"project with all fields", func(ctx context.Context, c *idverify.Console) error {
			return errorOf(c.Projects.Create(ctx, idverify.ProjectParams{Name: "Shop", Mode: idverify.ModeSandbox, CallbackURL: "https://a/",
				PhoneCheckURLs: idverify.ProductURLs{CallbackURL: "https://b/", RedirectURL: "https://c/"}, SubscriberCheckURLs: idverify.ProductURLs{RedirectURL: "https://d/"}}))
		}, `{"name":"Shop","mode":"sandbox","callback_url":"https://a/","configuration":{"phone_check":{"callback_url":"https://b/","redirect_url":"https://c/"},"subscriber_check":{"redirect_url":"https://d/"}}}`},
		{"no change", func(ctx context.Context, c *idverify.Console) error {
			return errorOf(c.Projects.Update(ctx, "p", idverify.ProjectUpdate{}))
		}, `[]`},
		{"all fields of a project", func(ctx context.Context, c *idverify.Console) error {
			return errorOf(c.Projects.Update(ctx, "p", idverify.ProjectUpdate{
				Name: new("n"), Mode: new(idverify.ModeLive), CallbackURL: new("https://a/"),
				PhoneCheckURLs:      idverify.ProductURLsUpdate{CallbackURL: new("https://b/"), RedirectURL: new("https://c/")},
				SubscriberCheckURLs: idverify.ProductURLsUpdate{CallbackURL: new("https://d/"), RedirectURL: new("https://e/")},
			}))
		}, `[{"op":"replace","path":"/name","value":"n"},{"op":"replace","path":"/mode","value":"live"},{"op":"add","path":"/callback_url","value":"https://a/"},
			{"op":"add","path":"/configuration/phone_check/callback_url","value":"https://b/"},{"op":"add","path":"/configuration/phone_check/redirect_url","value":"https://c/"},
			{"op":"add","path":"/configuration/subscriber_check/callback_url","value":"https://d/"},{"op":"add","path":"/configuration/subscriber_check/redirect_url","value":"https://e/"}]`},
		{"all removals from a project", func(ctx context.Context, c *idverify.Console) error {
			none := idverify.ProductURLsUpdate{CallbackURL: new(""), RedirectURL: new("")}
			return errorOf(c.Projects.Update(ctx, "p", idverify.ProjectUpdate{CallbackURL: new(""), PhoneCheckURLs: none, SubscriberCheckURLs: none}))
		}, `[{"op":"remove","path":"/callback_url"},
			{"op":"remove","path":"/configuration/phone_check/callback_url"},{"op":"remove","path":"/configuration/phone_check/redirect_url"},
			{"op":"remove","path":"/configuration/subscriber_check/callback_url"},{"op":"remove","path":"/configuration/subscriber_check/redirect_url"}]`},
		{"empty name", func(ctx context.Context, c *idverify.Console) error { return errorOf(c.Workspaces.Rename(ctx, "")) }, `[{"op":"replace","path":"/name","value":""}]`},
		{"invitation", func(ctx context.Context, c *idverify.Console) error {
			return errorOf(c.Invitations.Create(ctx, idverify.InvitationParams{Name: "Grace", Role: idverify.RoleViewer, Reference: "r"}))
		}, `{"name":"Grace","role":"VIEWER","reference":"r"}`},
		{"billing account", func(ctx context.Context, c *idverify.Console) error {
			return errorOf(c.Billing.Update(ctx, idverify.BillingAccount{CompanyName: "a", ContactName: "b", ContactEmail: "c", Address1: "d", City: "f", Zip: "g", Country: "h"}))
		}, `{"company_name":"a","contact_name":"b","contact_email":"c","address1":"d","address2":"","city":"f","zip":"g","country":"h"}`},
		{"payment method", func(ctx context.Context, c *idverify.Console) error {
			return errorOf(c.PaymentMethods.Create(ctx, idverify.PaymentMethodParams{CardNumber: idverify.NewSecret("4000056655665556"), ExpiryMonth: 12, ExpiryYear: 2030, Currencies: []string{"EUR"}}))
		}, `{"card_number":"4000056655665556","expiry_month":12,"expiry_year":2030,"currencies":["EUR"]}`},
		{"top-up", func(ctx context.Context, c *idverify.Console) error {
			return errorOf(c.TopUps.Create(ctx, idverify.TopUpParams{PaymentMethodID: "m", Currency: "EUR", Amount: "25.50"}))
		}, `{"payment_method_id":"m","currency":"EUR","amount":25.50}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := newService(t, respondWithProblem(400, "bad_request", "no"))

			_ = tt.do(t.Context(), srv.console(t))

			wantBody(t, srv.calls()[0], tt.want)
		})
	}
}

func TestConsole_InvalidArguments(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondWith(500, ""))
	c := srv.console(t)
	ctx := t.Context()

	for name, err := range map[string]error{
		"project without mode":  errorOf(c.Projects.Create(ctx, idverify.ProjectParams{Name: "Shop"})),
		"empty project name":    errorOf(c.Projects.Update(ctx, "p", idverify.ProjectUpdate{Name: new("")})),
		"empty project mode":    errorOf(c.Projects.Update(ctx, "p", idverify.ProjectUpdate{Mode: new(idverify.ProjectMode(""))})),
		"invalid amount":        errorOf(c.TopUps.Create(ctx, idverify.TopUpParams{Amount: "a lot"})),
		"usage without a start": errorOf(c.Usage.Monthly(ctx, idverify.UsageQuery{})),
	} {
		if !errors.Is(err, idverify.ErrBadRequest) {
			t.Errorf("%s: error = %v, want ErrBadRequest", name, err)
		}
	}
	if n := len(srv.calls()) + len(srv.tokens()); n != 0 {
		t.Errorf("%d requests sent, want 0", n)
	}
}

func TestUsageService_Periods(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 1, 2, 4, 4, 5, 0, time.FixedZone("", 3600))
	q := idverify.UsageQuery{From: from, To: from.Add(48 * time.Hour), GroupBy: []idverify.UsageGroup{idverify.UsageByProduct, idverify.UsageByProject}}
	for _, tt := range []struct {
		do   func(*idverify.UsageService, context.Context, idverify.UsageQuery) ([]idverify.Usage, error)
		want string
	}{
		{(*idverify.UsageService).Hourly, "hourly date>=2026-01-02T03;date<=2026-01-04T03"},
		{(*idverify.UsageService).Daily, "daily date>=2026-01-02;date<=2026-01-04"},
		{(*idverify.UsageService).Monthly, "monthly date>=2026-01;date<=2026-01"},
	} {
		var got string
		srv := newService(t, func(w http.ResponseWriter, r *http.Request) {
			got = r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:] + " " + r.FormValue("search")
			if r.FormValue("group_by") != "product_id,project_id" {
				t.Errorf("group_by = %q, want product_id,project_id", r.FormValue("group_by"))
			}
			w.Write([]byte(`{"page":{"number":1,"total_pages":1},"_embedded":{"usage":[{"date":"2026-01-02"},{"date":"2026-01"}]}}`))
		})

		usage, err := tt.do(srv.console(t).Usage, t.Context(), q)

		if err != nil || len(usage) != 2 {
			t.Errorf("usage = %v, error = %v, want two entries", usage, err)
		}
		if got != tt.want {
			t.Errorf("request = %q, want %q", got, tt.want)
		}
	}
}

func TestProjectCredentialsService_RotateErrors(t *testing.T) {
	t.Parallel()
	created := respondWith(201, string(fixture(t, "credentials.json")))
	for _, tt := range []struct {
		name      string
		responses []http.HandlerFunc
		calls     string
		issued    bool
		err       error
	}{
		{"success", []http.HandlerFunc{created, respondWith(204, "")}, "POST DELETE", true, nil},
		{"limit reached", []http.HandlerFunc{respondWithProblem(409, "credentials_limit_reached", "two already")}, "POST", false, idverify.ErrConflict},
		{"credentials of another member", []http.HandlerFunc{created, respondWithProblem(403, "forbidden", "not yours")}, "POST DELETE", true, idverify.ErrForbidden},
	} {
		srv := newService(t, respondInTurn(tt.responses...))

		issued, err := srv.console(t).ProjectCredentials.Rotate(t.Context(), "p", "old")

		var calls []string
		for _, r := range srv.calls() {
			calls = append(calls, r.method)
		}
		if strings.Join(calls, " ") != tt.calls {
			t.Errorf("%s: methods = %q, want %q", tt.name, calls, tt.calls)
		}
		if (issued != nil) != tt.issued || !errors.Is(err, tt.err) {
			t.Errorf("%s: credentials = %v, error = %v", tt.name, issued, err)
		}
		if issued != nil && issued.ClientSecret.Reveal() == "" {
			t.Errorf("%s: secret is empty, want the new secret", tt.name)
		}
	}
}

func TestProjectCredentialsService_MissingSecret(t *testing.T) {
	t.Parallel()
	srv := newService(t, respondWith(200, `{"client_id":"a","created_at":"2026-01-02T03:04:05+0000"}`))
	c := srv.console(t)

	read, err := c.ProjectCredentials.Get(t.Context(), "p", "a")
	if err != nil || read.ClientSecret.Reveal() != "" {
		t.Errorf("get: credentials = %v, error = %v", read, err)
	}
	if _, err := c.ProjectCredentials.Create(t.Context(), "p"); !isDecodeError(err) {
		t.Errorf("create: error = %v, want a *DecodeError", err)
	}
}

// console returns a Console for s with fast retries.
func (s *service) console(t testing.TB) *idverify.Console {
	t.Helper()
	return must(idverify.NewConsole(s.URL, credentials, idverify.WithHTTPClient(s.Client()), idverify.WithRetry(fastRetries)))(t)
}

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
	must(console.Billing.Update(ctx, idverify.BillingAccount{CompanyName: "Sandbox Ltd", Country: "GB"}))(t)
	method := must(console.PaymentMethods.Create(ctx, card))(t)
	must(console.TopUps.Create(ctx, idverify.TopUpParams{PaymentMethodID: method.PaymentMethodID, Currency: "EUR", Amount: "25.50"}))(t)
	project := must(console.Projects.Create(ctx, idverify.ProjectParams{Name: "Shop", Mode: idverify.ModeLive}))(t)
	client := must(idverify.NewClient(srv.URL(), project.Credentials[0].Credentials, idverify.WithHTTPClient(srv.HTTPClient())))(t)
	check := must(client.SIMChecks.Create(ctx, idverify.SIMCheckParams{PhoneNumber: matchingNumber}))(t)
	balance := must(console.Billing.Balance(ctx))(t)
	usage := must(console.Usage.Daily(ctx, idverify.UsageQuery{From: srv.Now(), To: srv.Now().Add(time.Hour), GroupBy: []idverify.UsageGroup{idverify.UsageByProduct, idverify.UsageByProject}}))(t)

	if method.LastFourDigits != "5556" || balance.Currency != "EUR" || balance.AmountAvailable != check.SnapshotBalance {
		t.Errorf("card = %+v, balance = %+v, want a card ending in 5556, and the balance in EUR of check %+v", method, balance, check)
	}
	if len(usage) != 1 || usage[0].Product != idverify.ProductSIMCheck || usage[0].ProjectID != project.ProjectID || usage[0].Count != 1 || usage[0].Amount != check.ChargeAmount {
		t.Errorf("usage = %+v, want that of check %+v", usage, check)
	}
}

func TestProjectCredentialsService_Rotate(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t)
	console, ctx := srv.Console(), t.Context()
	project := must(console.Projects.Create(ctx, idverify.ProjectParams{Name: "Shop", Mode: idverify.ModeSandbox}))(t)
	old := project.Credentials[0]

	fresh := must(console.ProjectCredentials.Rotate(ctx, project.ProjectID, old.ClientID))(t)

	getToken := func(c *idverify.IssuedCredentials) error {
		client := must(idverify.NewClient(srv.URL(), c.Credentials, idverify.WithHTTPClient(srv.HTTPClient())))(t)
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
