// Opentelemetry traces and logs the client's requests: an http.RoundTripper creates the spans, and
// log/slog writes the records. Neither contains personal data.
//
//	go run .
//
// Copy transport.go. This file runs it with a fake of the service and prints the spans and the log.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	// In production, use a batching exporter that sends to a collector.
	exporter, err := stdouttrace.New(stdouttrace.WithPrettyPrint())
	if err == nil {
		provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
		err = errors.Join(run(ctx, provider, os.Stderr), provider.Shutdown(ctx))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "opentelemetry:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, provider trace.TracerProvider, logs io.Writer) error {
	// The fake fails the first lookup once, so that the output shows a retry.
	service, err := sandboxfake.Start()
	if err != nil {
		return err
	}
	defer service.Close()
	service.Inject(sandboxfake.Match{Operation: "coverage.device_ip"}, sandboxfake.Fault{Status: http.StatusServiceUnavailable})

	tracer := provider.Tracer("github.com/idverify/idverify-go/examples/opentelemetry")

	// In production, use &http.Client{Transport: http.DefaultTransport, Timeout: 30 * time.Second}.
	httpClient := service.HTTPClient()
	httpClient.Transport = &tracingTransport{next: httpClient.Transport, tracer: tracer}
	client, err := idverify.NewClient(service.URL(), service.Credentials(),
		idverify.WithHTTPClient(httpClient),
		idverify.WithLogger(slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	if err != nil {
		return err
	}

	// The client's spans are children of this one.
	ctx, span := tracer.Start(ctx, "sign up", trace.WithSpanKind(trace.SpanKindServer))
	defer span.End()
	if err := signUp(ctx, client); err != nil {
		span.SetStatus(codes.Error, err.Error()) // errors of package idverify contain no personal data
		return err
	}
	return nil
}

func signUp(ctx context.Context, client *idverify.Client) error {
	if _, err := client.Reachability.Lookup(ctx, netip.MustParseAddr("192.0.2.10")); err != nil {
		return err
	}
	_, err := client.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{PhoneNumber: "447700900012"})
	return err
}
