// Callbacks shows a callback handler as production wants it: verify, store once with the check of ours that it is about, acknowledge, and work afterwards.
//
//	go run ./examples/callbacks
//
// receiver.go, checks.go and work.go are what you copy. This file runs them on the fake, which delivers good callbacks, one of them twice, and a forged one.
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

// host is where our backend is reached from outside.
const host = "shop.sandbox.test"

func run(ctx context.Context, out io.Writer, log *slog.Logger) error {
	// The service's side: a fake of it. In production this is its base URL and your project's credentials.
	service, err := sandboxfake.Start()
	if err != nil {
		return err
	}
	defer service.Close()
	client := service.Client()

	// Our side. It needs no replay store: a copy of a callback is a second one of its check, whose end is stored already.
	keys, err := signature.NewJWKS(client.JWKSURL(), &signature.JWKSOptions{HTTPClient: service.HTTPClient()})
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

	// The service's side again: it reaches our backend, and a phone opens the Check URLs.
	callbackURL := service.Handle(host, mux) + "/callbacks"
	phone := service.Device()
	for _, number := range []string{"447700900012", "447700900013", "447700900099"} {
		check, err := client.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: number, CallbackURL: callbackURL})
		if err != nil {
			return err
		}
		// Before anybody is given the Check URL: a callback counts for the checks alone that are stored here.
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

	// The first once more, and once more with a signature that is not the service's: neither leads to work.
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
