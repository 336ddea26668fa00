package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/stdout/stdoutmetric"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// startTelemetry sets the global providers of OpenTelemetry, and returns a function that exports
// the rest. In production, use OTLP exporters here.
func startTelemetry(exporter string, w io.Writer) (stop func(context.Context) error, err error) {
	switch exporter {
	case "", "none":
		return func(context.Context) error { return nil }, nil
	case "stdout":
	default:
		return nil, fmt.Errorf("OTEL is %q, want stdout or none", exporter)
	}
	spans, err := stdouttrace.New(stdouttrace.WithWriter(w))
	if err != nil {
		return nil, err
	}
	metrics, err := stdoutmetric.New(stdoutmetric.WithWriter(w))
	if err != nil {
		return nil, err
	}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithBatcher(spans))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(metrics)))
	otel.SetTracerProvider(tracers)
	otel.SetMeterProvider(meters)
	return func(ctx context.Context) error { return errors.Join(tracers.Shutdown(ctx), meters.Shutdown(ctx)) }, nil
}

// traced creates a span for each request. It does not contain the URL, because that of a redirect
// contains a code.
func traced(pattern string, next http.Handler) http.Handler {
	tracer := otel.Tracer("github.com/idverify/idverify-go/examples/backend")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, span := tracer.Start(r.Context(), pattern, trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
