// Callbacks shows a callback handler for production. It verifies a callback, stores it once with
// its check and acknowledges it. A worker processes it afterwards.
//
//	go run ./examples/callbacks
//
// Copy receiver.go, checks.go and worker.go. This file runs them with a fake, which delivers a
// valid callback for each check, one of them twice, and a forged one.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := run(ctx, os.Stdout, slog.New(slog.NewTextHandler(os.Stderr, nil))); err != nil {
		fmt.Fprintln(os.Stderr, "callbacks:", err)
		os.Exit(1)
	}
}

// host is the public host name of our backend.
const host = "shop.sandbox.test"

func run(ctx context.Context, out io.Writer, log *slog.Logger) error {
	// In production, use the service's base URL and your project's credentials.
	service, err := sandboxfake.Start()
	if err != nil {
		return err
	}
	defer service.Close()
	client := service.Client()

	// No replay store is needed: checks stores only one callback per check.
	keys, err := client.NewJWKS(nil)
	if err != nil {
		return err
	}
	verifier, err := signature.NewVerifier(keys, []string{host}, nil)
	if err != nil {
		return err
	}
	store := newChecks()
	mux := http.NewServeMux()
	mux.Handle("POST /callbacks", &receiver{verifier: verifier, store: store.put, log: log})

	results := make(chan string)
	var worker sync.WaitGroup
	defer worker.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	worker.Go(func() {
		work(ctx, store, log, func(ctx context.Context, customer string, c *idverify.Callback) error {
			select {
			case results <- customer + ": " + describe(c):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})

	// The fake delivers callbacks to our handler, and phone opens Check URLs.
	callbackURL := service.Handle(host, mux) + "/callbacks"
	phone := service.Device()
	for _, number := range []string{"447700900012", "447700900013", "447700900099"} {
		check, err := client.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: number, CallbackURL: callbackURL})
		if err != nil {
			return err
		}
		// Store the check before anyone gets its Check URL: the receiver accepts callbacks of stored
		// checks only.
		if err := store.add(ctx, check.CheckID, idverify.ProductPhoneCheck, "customer "+number[10:]); err != nil {
			return err
		}
		if _, err := phone.Open(ctx, check.CheckURL); err != nil {
			return err
		}
		select {
		case v := <-results:
			fmt.Fprintln(out, v)
		case <-ctx.Done():
			return ctx.Err()
		}
	}

	// Deliver the first callback again, then with a signature by an unpublished key. Neither is
	// processed.
	first := service.Deliveries()[0].ID
	if err := service.Redeliver(ctx, first); err != nil {
		return err
	}
	if err := service.Idle(ctx); err != nil {
		return err
	}
	service.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback}, sandboxfake.Fault{WrongKey: true})
	if err := service.Redeliver(ctx, first); err != nil {
		return err
	}
	return service.Idle(ctx)
}
