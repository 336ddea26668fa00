// Quickstart shows the whole way of the service's checks, on the fake in this process: nothing to configure, nothing to pay.
//
//	go run ./examples/quickstart
//
// Read run from top to bottom; the service's side (the fake, and the phone) is marked. In production only that part goes away.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"text/tabwriter"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// host is where our backend is reached from outside.
const host = "shop.sandbox.test"

func run(ctx context.Context, out io.Writer) error {
	// The service's side: a fake of it, with a sandbox project. In production this is the service's base URL and your project's credentials.
	service, err := sandboxfake.Start()
	if err != nil {
		return err
	}
	defer service.Close()

	// A client for the project. WithHTTPClient is for the fake's certificate alone.
	client, err := idverify.NewClient(service.URL(), service.Credentials(), idverify.WithHTTPClient(service.HTTPClient()),
		idverify.WithVersions(idverify.Versions{SubscriberCheck: "v0.2"})) // the version with the code exchange
	if err != nil {
		return err
	}

	// A verifier of what the service sends us: with the keys that it publishes, for messages to our own host.
	keys, err := signature.NewJWKS(client.JWKSURL(), &signature.JWKSOptions{HTTPClient: service.HTTPClient()})
	if err != nil {
		return err
	}
	verifier, err := signature.NewVerifier(keys, []string{host}, nil)
	if err != nil {
		return err
	}

	// Our backend: one handler for callbacks, one for redirects. The service's side makes it reachable.
	shop := &backend{client: client, callbacks: make(chan *idverify.Callback, 1), redirects: make(chan *idverify.SubscriberCheck, 1)}
	mux := http.NewServeMux()
	mux.Handle("POST /callbacks", idverify.CallbackHandler(verifier, shop.callback))
	mux.Handle("GET /verified", idverify.RedirectHandler(verifier, shop.redirect))
	shop.url = service.Handle(host, mux)

	// The service's side: a phone, whose browser opens Check URLs over its mobile data connection.
	phone := service.Device()

	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer table.Flush()
	for _, step := range []func(context.Context, *tabwriter.Writer, *backend, *sandboxfake.Device) error{
		phoneChecks, simChecks, subscriberChecks, reachability,
	} {
		if err := step(ctx, table, shop, phone); err != nil {
			return err
		}
	}
	return nil
}

// phoneChecks asks whether numbers belong to the phone that opens the Check URL. The answer comes by callback.
func phoneChecks(ctx context.Context, table *tabwriter.Writer, shop *backend, phone *sandboxfake.Device) error {
	fmt.Fprintln(table, "PhoneCheck: does the number belong to this phone?\nNUMBER\tSTATUS\tMATCH\tTHE CALLBACK WAS")
	for _, number := range []string{"+44 7700 900-012", "+44 7700 900-013", "+44 7700 900-099"} {
		check, err := shop.client.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: number, CallbackURL: shop.url + "/callbacks"})
		if err != nil {
			return err
		}
		// Your app hands check.CheckURL to the device; opened by the server it would tell nothing.
		if _, err := phone.Open(ctx, check.CheckURL); err != nil {
			return err
		}
		select {
		case result := <-shop.callbacks:
			fmt.Fprintf(table, "%s\t%s\t%s\tsigned by the service\n", number, result.Status, yesNo(result.Status, result.Match))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// simChecks asks whether SIMs were changed lately. The answer comes at once.
func simChecks(ctx context.Context, table *tabwriter.Writer, shop *backend, _ *sandboxfake.Device) error {
	fmt.Fprintln(table, "\nSIMCheck: is the SIM the same as a week ago?\nNUMBER\tSTATUS\tNO SIM CHANGE")
	for _, number := range []string{"+44 7700 900-012", "+44 7700 900-016", "+44 7700 900-099"} {
		check, err := shop.client.SIMChecks.Create(ctx, idverify.SIMCheckParams{PhoneNumber: number, Period: 7 * 24 * time.Hour})
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", number, check.Status, yesNo(check.Status, check.NoSIMChange))
	}
	return nil
}

// subscriberChecks asks both. With version v0.2 the phone comes back to us with a code, which we exchange for the answer.
func subscriberChecks(ctx context.Context, table *tabwriter.Writer, shop *backend, phone *sandboxfake.Device) error {
	fmt.Fprintln(table, "\nSubscriberCheck: both, by a code that the phone brings back\nNUMBER\tSTATUS\tMATCH\tNO SIM CHANGE")
	for _, number := range []string{"+44 7700 900-012", "+44 7700 900-016", "+44 7700 900-013"} {
		check, err := shop.client.SubscriberChecks.Create(ctx, idverify.SubscriberCheckParams{PhoneNumber: number, RedirectURL: shop.url + "/verified"})
		if err != nil {
			return err
		}
		if _, err := phone.Open(ctx, check.CheckURL); err != nil {
			return err
		}
		select {
		case result := <-shop.redirects:
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", number, result.Status, yesNo(result.Status, result.Match), yesNo(result.Status, result.NoSIMChange))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// reachability asks whether a check can work at all from an address, before you choose it over a text message.
func reachability(ctx context.Context, table *tabwriter.Writer, shop *backend, _ *sandboxfake.Device) error {
	fmt.Fprintln(table, "\nReachability: is this the address of a phone on mobile data?\nADDRESS\tANSWER")
	for _, address := range []string{"192.0.2.10", "192.0.2.11", "192.0.2.99"} {
		network, err := shop.client.Reachability.Lookup(ctx, netip.MustParseAddr(address))
		switch {
		case err == nil:
			fmt.Fprintf(table, "%s\tyes: %s\n", address, network.NetworkName)
		case errors.Is(err, idverify.ErrNotMobileIP):
			fmt.Fprintf(table, "%s\tno: not a mobile address (is it on Wi-Fi?)\n", address)
		case errors.Is(err, idverify.ErrNetworkNotSupported):
			fmt.Fprintf(table, "%s\tno: its network is not supported\n", address)
		default:
			return err
		}
	}
	return nil
}

// backend is ours: it gets the service's callbacks, and the phone when it comes back from a Check URL.
type backend struct {
	client    *idverify.Client
	url       string
	callbacks chan *idverify.Callback
	redirects chan *idverify.SubscriberCheck
}

// callback handles a verified callback. An error would have the service try again later.
func (b *backend) callback(ctx context.Context, c *idverify.Callback) error {
	select {
	case b.callbacks <- c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// redirect handles a verified redirect. A real backend first makes sure that this browser is the one that began the check: see examples/passwordless.
func (b *backend) redirect(w http.ResponseWriter, r *http.Request, redirect *idverify.Redirect) {
	result, err := b.client.SubscriberChecks.Complete(r.Context(), redirect.CheckID, redirect.Code)
	if err != nil {
		http.Error(w, "the check could not be completed", http.StatusBadGateway)
		return
	}
	b.redirects <- result
	fmt.Fprintln(w, "Thank you. You can go back to the shop.")
}

// yesNo formats a result. It is valid only when status is COMPLETED, and may be nil even then.
func yesNo(status idverify.CheckStatus, result *bool) string {
	switch {
	case status != idverify.StatusCompleted || result == nil:
		return "-"
	case *result:
		return "yes"
	}
	return "no"
}
