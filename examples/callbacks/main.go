// Callbacks shows a backend that loses no callback and processes each result once. It stores its
// checks and their results with package inbox in a SQLite file.
//
//	go run -C examples/callbacks .
//	go run -C examples/callbacks . "$PWD/shop.db"   # keep the database
//
// Copy backend.go. This file runs it with a fake, which delivers a valid callback for each check,
// one of them twice, and a forged one.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if err := runFile(ctx, os.Stdout, log, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "callbacks:", err)
		os.Exit(1)
	}
}

// runFile runs the program with the database file in args, or with a temporary one.
func runFile(ctx context.Context, out io.Writer, log *slog.Logger, args []string) error {
	if len(args) > 0 {
		return run(ctx, out, log, args[0])
	}
	dir, err := os.MkdirTemp("", "callbacks")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return run(ctx, out, log, filepath.Join(dir, "shop.db"))
}

func run(ctx context.Context, out io.Writer, log *slog.Logger, file string) error {
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	db, err := openDB(ctx, file)
	if err != nil {
		return err
	}
	defer db.Close()

	// In production, use the service's base URL and your project's credentials. The seed lets each
	// fake return other check IDs, because the file may contain those of an earlier one.
	service, err := sandboxfake.Start(sandboxfake.WithSeed(rand.Uint64()))
	if err != nil {
		return err
	}
	defer service.Close()
	client := service.Client()
	b, err := newBackend(ctx, db, client, &inbox.Options{Logger: log})
	if err != nil {
		return err
	}

	// No replay store is needed: package inbox stores only one result per check.
	keys, err := client.NewJWKS(nil)
	if err != nil {
		return err
	}
	verifier, err := signature.NewVerifier(keys, []string{host}, &signature.VerifierOptions{Logger: log})
	if err != nil {
		return err
	}
	service.Handle(host, b.handler(verifier)) // in production, use http.Server and its Shutdown

	// A result that is stored after the worker has stopped is processed after the next start.
	stopWork := b.checks.Start(ctx, client, finish)
	defer stopWork() // before db.Close
	return demonstrate(ctx, out, b, service)
}

// demonstrate signs up customers, opens their Check URLs on a phone and prints their results.
func demonstrate(ctx context.Context, out io.Writer, b *backend, service *sandboxfake.Server) error {
	phone := service.Device()
	for _, number := range []string{"447700900012", "447700900013", "447700900099"} {
		customer := "customer " + number[10:]
		reference, checkURL, err := b.signUp(ctx, customer, number)
		if err != nil {
			return err
		}
		if _, err := phone.Open(ctx, checkURL); err != nil {
			return err
		}
		text, err := await(ctx, b, reference)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %s\n", customer, text)
	}

	// Deliver the first callback again, then with a signature by an unpublished key. Neither is
	// processed.
	first := service.Deliveries()[0].ID
	if err := service.Redeliver(ctx, first); err != nil {
		return err
	}
	if err := service.WaitIdle(ctx); err != nil {
		return err
	}
	service.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback}, sandboxfake.Fault{WrongKey: true})
	if err := service.Redeliver(ctx, first); err != nil {
		return err
	}
	return service.WaitIdle(ctx)
}

// await reads the result of a sign-up until it is stored, as the app does.
func await(ctx context.Context, b *backend, reference string) (string, error) {
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		text, err := b.result(ctx, reference)
		if text != "" || err != nil {
			return text, err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}
