// Reachability chooses between a silent check over the mobile network and a text message.
//
//	go run ./examples/reachability
//
// Copy choose.go. This file runs it with a fake of the service, whose result depends on the last
// digits of the address.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"text/tabwriter"
	"time"

	"github.com/idverify/idverify-go/sandboxfake"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, os.Stdout, slog.New(slog.NewTextHandler(os.Stderr, nil))); err != nil {
		fmt.Fprintln(os.Stderr, "reachability:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, log *slog.Logger) error {
	// In production, call idverify.NewClient with the service's base URL and your project's
	// credentials.
	service, err := sandboxfake.Start()
	if err != nil {
		return err
	}
	defer service.Close()
	c := &chooser{client: service.Client(), log: log}

	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ADDRESS\tMETHOD")
	for _, address := range []string{"192.0.2.10", "192.0.2.11", "192.0.2.99", "2001:db8::a"} {
		fmt.Fprintf(table, "%s\t%s\n", address, c.choose(ctx, netip.MustParseAddr(address)))
	}
	return table.Flush()
}
