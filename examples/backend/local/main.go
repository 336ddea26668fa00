// Command local runs the example backend on this machine, with everything that it needs: two
// replicas behind nginx, PostgreSQL and a fake of the service.
//
//	go run -C examples/backend ./local
//
// It prints what runs where, and commands to run in another terminal. Ctrl-C stops everything and
// removes all data.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/idverify/idverify-go/examples/backend/internal/stack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "local:", err)
		os.Exit(1)
	}
}

// run runs the stack until ctx ends.
func run(ctx context.Context, w io.Writer) error {
	fmt.Fprintln(w, "Starting PostgreSQL, nginx, the service and two replicas …")
	s, err := stack.Start(ctx, &stack.Options{OTEL: "stdout"})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil // stopped during the start
	case err != nil:
		return err
	}
	defer s.Close()
	fmt.Fprint(w, announcement(s))
	<-ctx.Done()
	fmt.Fprintln(w, "\nStopping …")
	return nil
}
