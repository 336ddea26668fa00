// Quickstart runs each kind of check with a fake of the service in the same process. It needs no
// configuration and costs nothing.
//
//	go run ./examples/quickstart
//
// Read run from top to bottom. Comments mark the code that only the fake requires. Production code
// does not need it.
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
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// host is the public host name of our backend.
const host = "shop.sandbox.test"

func run(ctx context.Context, out io.Writer) error {
	// Fake: a service with a sandbox project. In production, use the service's base URL and your
	// project's credentials.
	service, err := sandboxfake.Start()
	if err != nil {
		return err
	}
	defer service.Close()

	// A client for the project. WithHTTPClient is needed only because of the fake's certificate.
	client, err := idverify.NewClient(service.URL(), service.Credentials(), idverify.WithHTTPClient(service.HTTPClient()),
		idverify.WithVersions(idverify.Versions{SubscriberCheck: "v0.2"})) // with code exchange
	if err != nil {
		return err
	}

	// A verifier for messages to our host. It uses the keys that the service publishes.
	keys, err := client.NewJWKS(nil)
	if err != nil {
		return err
	}
	verifier, err := signature.NewVerifier(keys, []string{host}, nil)
	if err != nil {
		return err
	}

	// Our backend handles callbacks and redirects. Handle makes it reachable for the fake.
	shop := &backend{client: client, callbacks: make(chan *idverify.Callback, 1), redirects: make(chan *idverify.SubscriberCheck, 1)}
	mux := http.NewServeMux()
	mux.Handle("POST /callbacks", idverify.CallbackHandler(verifier, shop.callback))
	mux.Handle("GET /verified", idverify.RedirectHandler(verifier, shop.redirect))
	shop.url = service.Handle(host, mux)

	// Fake: a phone that opens Check URLs over its mobile data connection.
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

// phoneChecks checks whether numbers belong to the phone that opens the Check URL. The result
// arrives by callback. It is unknown if the check ends without a result: verify in another way.
func phoneChecks(ctx context.Context, table *tabwriter.Writer, shop *backend, phone *sandboxfake.Device) error {
	fmt.Fprintln(table, "PhoneCheck: does the number belong to this phone?\nNUMBER\tSTATUS\tMATCH\tCALLBACK")
	for _, number := range []string{"+44 7700 900-012", "+44 7700 900-013", "+44 7700 900-099"} {
		check, err := shop.client.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: number, CallbackURL: shop.url + "/callbacks"})
		if err != nil {
			return err
		}
		// Your app opens check.CheckURL on the device. If your server opened it, the service could not
		// identify the device.
		if _, err := phone.Open(ctx, check.CheckURL); err != nil {
			return err
		}
		select {
		case result := <-shop.callbacks:
			fmt.Fprintf(table, "%s\t%s\t%s\tverified\n", number, result.Status, result.Match)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// simChecks checks whether SIMs changed recently. The response to Create contains the result.
func simChecks(ctx context.Context, table *tabwriter.Writer, shop *backend, _ *sandboxfake.Device) error {
	fmt.Fprintln(table, "\nSIMCheck: has the SIM stayed the same for a week?\nNUMBER\tSTATUS\tNO SIM CHANGE")
	for _, number := range []string{"+44 7700 900-012", "+44 7700 900-016", "+44 7700 900-099"} {
		check, err := shop.client.SIMChecks.Create(ctx, idverify.SIMCheckParams{PhoneNumber: number, Period: 7 * 24 * time.Hour})
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", number, check.Status, check.NoSIMChange)
	}
	return nil
}

// subscriberChecks checks both the number and the SIM. In version v0.2 the phone returns to our
// redirect URL with a code, which we exchange for the result.
func subscriberChecks(ctx context.Context, table *tabwriter.Writer, shop *backend, phone *sandboxfake.Device) error {
	fmt.Fprintln(table, "\nSubscriberCheck: both, with a code exchange\nNUMBER\tSTATUS\tMATCH\tNO SIM CHANGE")
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
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", number, result.Status, result.Match, result.NoSIMChange)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// reachability looks up whether a check can work from an IP address. Use it, for example, to choose
// between a PhoneCheck and a text message.
func reachability(ctx context.Context, table *tabwriter.Writer, shop *backend, _ *sandboxfake.Device) error {
	fmt.Fprintln(table, "\nReachability: is this the address of a phone on mobile data?\nADDRESS\tREACHABLE")
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

// backend handles callbacks from the service and the redirects that phones follow.
type backend struct {
	client    *idverify.Client
	url       string
	callbacks chan *idverify.Callback
	redirects chan *idverify.SubscriberCheck
}

// callback handles a verified callback. If it returns an error, the service retries.
func (b *backend) callback(ctx context.Context, c *idverify.Callback) error {
	select {
	case b.callbacks <- c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// redirect handles a verified redirect. A production backend must first check that this browser
// started the check: see examples/passwordless.
func (b *backend) redirect(w http.ResponseWriter, r *http.Request, redirect *idverify.Redirect) {
	result, err := b.client.SubscriberChecks.Complete(r.Context(), redirect.CheckID, redirect.Code)
	if err != nil {
		http.Error(w, "the check could not be completed", http.StatusBadGateway)
		return
	}
	b.redirects <- result
	fmt.Fprintln(w, "Thank you. You can return to the shop.")
}
