// Passwordless serves a web page that signs people in by their phone number. It needs no setup: a
// fake of the service runs in the same process.
//
//	go run ./examples/passwordless
//
// Open the printed address in a browser on this machine. The Check URL belongs to the fake, whose
// certificate browsers do not trust. Your browser warns you once; continue to 127.0.0.1. There is
// no such warning with the real service.
//
// Copy the package internal/signin. This file runs it in one process, with a store in memory.
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

	"github.com/idverify/idverify-go/checkflow"
	"github.com/idverify/idverify-go/examples/passwordless/internal/signin"
	"github.com/idverify/idverify-go/sandboxfake"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "loopback `address` to listen on; port 0 selects a free port")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", *addr)
	if err == nil {
		fmt.Printf("Open http://%s in a browser on this machine. Press Ctrl-C to stop.\n", listener.Addr())
		err = run(ctx, listener, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "passwordless:", err)
		os.Exit(1)
	}
}

// run serves the page on listener until ctx ends.
func run(ctx context.Context, listener net.Listener, log *slog.Logger) error {
	// In production, use the service's base URL and your project's credentials. A browser on this
	// machine can reach this fake.
	service, err := sandboxfake.Start()
	if err != nil {
		return err
	}
	defer service.Close()
	handler, err := signin.New(signin.Config{
		Config: checkflow.Config{
			Client:   service.Client(),
			Verifier: service.Verifier([]string{"127.0.0.1:*"}, nil), // in production the host of BaseURL
			Store:    checkflow.NewMemoryStore(0),
			Allow:    func(*http.Request, string) error { return nil }, // in production, limit checks: each one costs money
			Logger:   log,
		},
		BaseURL: "http://" + listener.Addr().String(),
		Demo:    true,
	})
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err = <-served:
	case <-ctx.Done():
		// Let requests in flight finish. Return takes up to 36 s.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 40*time.Second)
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
