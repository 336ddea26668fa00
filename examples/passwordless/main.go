// Passwordless serves a web page that signs people in by their phone number. It needs no setup: a
// fake of the service runs in the same process.
//
//	go run ./examples/passwordless
//
// Open the printed address in a browser on this machine. The Check URL belongs to the fake, whose
// certificate browsers do not trust. Your browser warns you once; continue to 127.0.0.1. There is
// no such warning with the real service. Safari does not store Secure cookies for http://127.0.0.1;
// other browsers do.
//
// Copy the package internal/signin. This file runs it in one process. Several processes must share
// a replay store, such as package replaystore/redis, in signature.VerifierOptions, and a session
// store in package signin.
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
	"github.com/idverify/idverify-go/signature"
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
	client := service.Client(idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}))
	verifier, err := newVerifier(client, service)
	if err != nil {
		return err
	}

	server := &http.Server{
		Handler: signin.New(signin.Config{
			Client:   client,
			Verifier: verifier,
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
		// Let requests in flight finish.
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

// newVerifier returns a verifier that accepts each message once.
func newVerifier(client *idverify.Client, service *sandboxfake.Server) (*signature.Verifier, error) {
	keys, err := client.NewJWKS(nil)
	if err != nil {
		return nil, err
	}
	hosts := []string{"127.0.0.1:*"} // in production the host of BaseURL
	return signature.NewVerifier(keys, hosts, &signature.VerifierOptions{
		Replay: signature.NewMemoryReplayStore(0), // several processes must share their store
		Now:    service.Now,
	})
}
