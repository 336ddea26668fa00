// Simswap runs a SIMCheck before each payout. It stops payouts to an attacker who has taken over a
// phone number with a new SIM. A customer whose check fails must prove their identity in another
// way.
//
//	go run ./examples/simswap
//
// Copy decide.go. This file runs it with a fake of the service.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"text/tabwriter"
	"time"

	"github.com/idverify/idverify-go/sandboxfake"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, os.Stdout, slog.New(slog.NewTextHandler(os.Stderr, nil))); err != nil {
		fmt.Fprintln(os.Stderr, "simswap:", err)
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
	g := &guard{client: service.Client(), log: log}

	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PAYOUT\tDECISION")
	for _, p := range []payout{
		{"unchanged SIM", 50000, "447700900012"},
		{"new SIM", 50000, "447700900017"},
		{"no result", 50000, "447700900099"},
		{"small amount", 500, "447700900017"},
	} {
		d, err := g.decide(ctx, p)
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%s\n", p.ID, d)
	}
	return table.Flush()
}
