// Passwordless is a web page that signs people in by their phone number. It needs no set-up: the service is a fake in the same process.
//
//	go run ./examples/passwordless
//
// Then open the address that it prints, with a browser on this machine. The Check URL is the fake's, whose certificate no browser knows: it warns you once, and you go on to 127.0.0.1. With the real service there is no such warning.
// Safari keeps no Secure cookies for http://127.0.0.1; other browsers do.
//
// Package signin, below, is what you copy. This file runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/examples/passwordless/internal/signin"
	"github.com/idverify/idverify-go/sandboxfake"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "the loopback `address` to listen on; port 0 takes a free one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", *addr)
	if err == nil {
		fmt.Printf("Open http://%s in a browser on this machine. Ctrl-C ends.\n", listener.Addr())
		err = run(ctx, listener, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "passwordless:", err)
		os.Exit(1)
	}
}

// run serves the page on listener until ctx ends.
func run(ctx context.Context, listener net.Listener, log *slog.Logger) error {
	// The service's side. In production this is its base URL and your project's credentials; here it is a fake, which a browser on this machine can reach.
	service, err := sandboxfake.Start()
	if err != nil {
		return err
	}
	defer service.Close()

	server := &http.Server{
		Handler: signin.New(signin.Config{
			Client:   service.Client(idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"})),
			Verifier: service.Verifier("127.0.0.1:*"), // in production the host of BaseURL, and the keys of signature.NewJWKS
			BaseURL:  "http://" + listener.Addr().String(),
			Log:      log,
			Demo:     true,
		}),
		ReadHeaderTimeout: 5 * time.Second,
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err = <-served:
	case <-ctx.Done():
		// The page may be asking for news once more.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = server.Shutdown(end)
		if closed := <-served; err == nil {
			err = closed // http.ErrServerClosed
		}
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
