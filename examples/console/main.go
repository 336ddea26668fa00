// Console sets up a workspace, creates its first paid check and prints each step. It uses a fake of
// the service in the same process.
//
//	go run ./examples/console
//
// The service requires this order: company details, payment method, top-up. In production, sign up
// on the service's web pages and start with the credentials of your workspace.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "console:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	// Signing up creates a workspace and its credentials.
	service, err := sandboxfake.Start(sandboxfake.WithPrices(map[idverify.Product]string{idverify.ProductPhoneCheck: "0.05"}))
	if err != nil {
		return err
	}
	defer service.Close()
	owner := service.SignUp("Ada")

	console, err := idverify.NewConsole(service.URL(), owner.Credentials, idverify.WithHTTPClient(service.HTTPClient()))
	if err != nil {
		return err
	}
	balance, err := console.Billing.Balance(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "1. Ada signed up; her workspace has an initial balance of %s %s\n", balance.AmountAvailable, balance.Currency)

	project, err := console.Projects.Create(ctx, idverify.ProjectParams{Name: "Shop", Mode: idverify.ModeSandbox})
	if err != nil {
		return err
	}
	// The secret is returned only once: store it in your secret manager.
	shop := project.Credentials[0].Credentials
	fmt.Fprintf(out, "2. Created project %s in mode %s; logs show its secret as %v\n", project.Name, project.Mode, shop.ClientSecret)

	// A top-up out of order fails, and the error contains the missing step.
	_, err = console.TopUps.Create(ctx, idverify.TopUpParams{PaymentMethodID: "none-yet", Currency: "EUR", Amount: "25"})
	rejected, ok := errors.AsType[*idverify.Error](err)
	if !ok || !errors.Is(err, idverify.ErrConflict) {
		return fmt.Errorf("top up before the company details: got %w, want ErrConflict", err)
	}
	fmt.Fprintf(out, "3. Top-up failed: %s: %s\n", rejected.Code(), rejected.Detail)

	if err := topUp(ctx, out, console); err != nil {
		return err
	}

	project, err = console.Projects.Update(ctx, project.ProjectID, idverify.ProjectUpdate{Mode: new(idverify.ModeLive)})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "7. Project %s is in mode %s: checks are now charged\n", project.Name, project.Mode)

	return firstPaidCheck(ctx, out, service, console, shop)
}

// topUp adds company details and a payment method, and tops up the balance.
func topUp(ctx context.Context, out io.Writer, console *idverify.Console) error {
	company, err := console.Billing.Update(ctx, idverify.BillingAccount{
		CompanyName: "Ada Ltd", ContactName: "Ada", ContactEmail: "ada@example.com",
		Address1: "1 Engine Street", City: "London", Zip: "N1 1AA", Country: "GB",
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "4. Company details: %s, %s\n", company.CompanyName, company.City)

	card, err := console.PaymentMethods.Create(ctx, idverify.PaymentMethodParams{
		CardNumber: idverify.NewSecret("4242424242424242"), ExpiryMonth: 12, ExpiryYear: time.Now().Year() + 3, Currencies: []string{"EUR", "GBP"},
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "5. Payment method: card ending in %s\n", card.LastFourDigits)

	if _, err := console.TopUps.Create(ctx, idverify.TopUpParams{PaymentMethodID: card.PaymentMethodID, Currency: "EUR", Amount: "25"}); err != nil {
		return err
	}
	balance, err := console.Billing.Balance(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "6. Topped up: %s %s; the currency is now fixed, and the initial balance is gone\n", balance.AmountAvailable, balance.Currency)
	return nil
}

// firstPaidCheck creates a check with the project's credentials and prints its cost.
func firstPaidCheck(ctx context.Context, out io.Writer, service *sandboxfake.Server, console *idverify.Console, shop idverify.Credentials) error {
	client, err := idverify.NewClient(service.URL(), shop, idverify.WithHTTPClient(service.HTTPClient()))
	if err != nil {
		return err
	}
	check, err := client.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: "+44 7700 900-012"})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "8. First paid check: it cost %s %s; the balance is %s\n", check.ChargeAmount, check.ChargeCurrency, check.SnapshotBalance)

	days, err := console.Usage.Daily(ctx, idverify.UsageQuery{From: time.Now().Add(-24 * time.Hour), GroupBy: []idverify.UsageGroup{idverify.UsageByProduct}})
	if err != nil {
		return err
	}
	for _, day := range days {
		if day.Amount != "0" {
			fmt.Fprintf(out, "9. Usage: %d %s for %s %s\n", day.Count, day.Product, day.Amount, day.Currency)
		}
	}
	return nil
}
