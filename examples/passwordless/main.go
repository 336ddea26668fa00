// Passwordless is a web page that signs people in by their phone number. It needs no setup: the
// service is a fake in the same process.
//
//	go run ./examples/passwordless
//
// Then open the address that it prints in a browser on this machine. The Check URL belongs to the
// fake, whose certificate browsers do not trust: your browser warns you once, and you continue to
// 127.0.0.1. With the real service there is no such warning. Safari does not store Secure cookies
// for http://127.0.0.1; other browsers do.
//
// Copy the package internal/signin. This file runs it in one process. With several processes, pass
// signature.VerifierOptions a replay store that all of them share, such as package
// replaystore/redis, and keep the sessions of package signin in a shared store, too.
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
	// In production these are the base URL of the service and your project's credentials. Here the
	// service is a fake that a browser on this machine can reach.
	service, err := sandboxfake.Start()
	if err != nil {
		return err
	}
	defer service.Close()
	client := service.Client(idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}))
	verifier, err := newVerifier(service, client.JWKSURL())
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
func newVerifier(service *sandboxfake.Server, keySetURL string) (*signature.Verifier, error) {
	keys, err := signature.NewJWKS(keySetURL, &signature.JWKSOptions{
		HTTPClient: service.HTTPClient(), // only this client trusts the fake's certificate
		Now:        service.Now,
	})
	if err != nil {
		return nil, err
	}
	hosts := []string{"127.0.0.1:*"} // in production the host of BaseURL
	return signature.NewVerifier(keys, hosts, &signature.VerifierOptions{
		Replay: signature.NewMemoryReplayStore(0), // several processes must share their store
		Now:    service.Now,
	})
}
