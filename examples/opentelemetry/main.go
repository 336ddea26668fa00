// Opentelemetry prints the spans, metrics and logs of a sign-up: a reachability lookup, which is
// retried once, a check, and the verification of its callback. None contains personal data.
//
//	go run .
//	go run . -http   # also a span for each HTTP request, which contains its URL
//
// The functions of package otelidverify create the spans and metrics. This program runs them with a
// fake of the service.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/stdout/stdoutmetric"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/otelidverify"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

func main() {
	httpSpans := flag.Bool("http", false, "create a span for each HTTP request")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := runWithExporters(ctx, *httpSpans); err != nil {
		fmt.Fprintln(os.Stderr, "opentelemetry:", err)
		os.Exit(1)
	}
}

// runWithExporters prints spans and metrics. In production, use exporters that send to a collector.
func runWithExporters(ctx context.Context, httpSpans bool) error {
	spans, err := stdouttrace.New(stdouttrace.WithPrettyPrint())
	if err != nil {
		return err
	}
	metrics, err := stdoutmetric.New(stdoutmetric.WithPrettyPrint())
	if err != nil {
		return err
	}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(metrics)))
	err = run(ctx, tracers, meters, os.Stderr, httpSpans)
	return errors.Join(err, tracers.Shutdown(ctx), meters.Shutdown(ctx))
}

func run(ctx context.Context, tracers trace.TracerProvider, meters metric.MeterProvider, logs io.Writer, httpSpans bool) error {
	// The fake fails the first lookup once, so that the output shows a retry.
	service, err := sandboxfake.Start()
	if err != nil {
		return err
	}
	defer service.Close()
	service.Inject(sandboxfake.Match{Operation: "coverage.device_ip"}, sandboxfake.Fault{Status: http.StatusServiceUnavailable})

	// In production, use &http.Client{Transport: http.DefaultTransport}.
	httpClient := service.HTTPClient()
	if httpSpans {
		httpClient.Transport = otelhttp.NewTransport(httpClient.Transport, otelhttp.WithTracerProvider(tracers))
	}
	// Programs that set the global providers do not need this argument.
	providers := []otelidverify.Config{otelidverify.WithTracerProvider(tracers), otelidverify.WithMeterProvider(meters)}
	client, err := idverify.NewClient(service.URL(), service.Credentials(),
		otelidverify.Option(providers...),
		idverify.WithHTTPClient(httpClient),
		idverify.WithLogger(slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	if err != nil {
		return err
	}
	keys, err := client.NewJWKS(nil)
	if err != nil {
		return err
	}
	verifier, err := signature.NewVerifier(keys, []string{"shop.example.com"}, &signature.VerifierOptions{
		Observe: otelidverify.ObserveVerifier(providers...),
	})
	if err != nil {
		return err
	}
	if _, err := otelidverify.RegisterJWKS(keys, providers...); err != nil {
		return err
	}

	tracer := tracers.Tracer("github.com/idverify/idverify-go/examples/opentelemetry")
	service.Handle("shop.example.com", serve(tracer, idverify.CallbackHandler(verifier, func(context.Context, *idverify.Callback) error {
		return nil // store the result
	})))

	// The spans of the client are children of this one.
	ctx, span := tracer.Start(ctx, "sign up", trace.WithSpanKind(trace.SpanKindServer))
	defer span.End()
	if err := signUp(ctx, client, service); err != nil {
		span.SetStatus(codes.Error, err.Error()) // errors of package idverify contain no personal data
		return err
	}
	return nil
}

// serve creates a span for each request, as otelhttp.NewHandler does.
func serve(tracer trace.Tracer, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, span := tracer.Start(r.Context(), "POST /callbacks", trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func signUp(ctx context.Context, client *idverify.Client, service *sandboxfake.Server) error {
	if _, err := client.Reachability.Lookup(ctx, netip.MustParseAddr("192.0.2.10")); err != nil {
		return err
	}
	check, err := client.PhoneChecks.Create(ctx, idverify.PhoneCheckParams{
		PhoneNumber: "447700900012",
		CallbackURL: "https://shop.example.com/callbacks",
	})
	if err != nil {
		return err
	}
	// In production, the user's device opens the Check URL.
	if _, err := service.Device().Open(ctx, check.CheckURL); err != nil {
		return err
	}
	_, err = service.AwaitDelivery(ctx, func(d sandboxfake.Delivery) bool { return d.Acknowledged() })
	return err
}
