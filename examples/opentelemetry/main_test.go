package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// telemetry runs the program and returns its spans, metrics and logs.
func telemetry(t *testing.T, httpSpans bool) (spans []sdktrace.ReadOnlySpan, metrics metricdata.ResourceMetrics, logs string) {
	t.Helper()
	recorder, reader := tracetest.NewSpanRecorder(), sdkmetric.NewManualReader()
	var output bytes.Buffer

	err := run(t.Context(), sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)), sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), &output, httpSpans)

	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Collect(t.Context(), &metrics); err != nil {
		t.Fatal(err)
	}
	return recorder.Ended(), metrics, output.String()
}

func TestRun_Spans(t *testing.T) {
	t.Parallel()
	spans, _, _ := telemetry(t, false)

	got := tree(spans)

	want := []string{
		"POST /callbacks",
		"sign up",
		"sign up > idverify coverage.device_ip",
		"sign up > idverify coverage.device_ip",
		"sign up > idverify coverage.device_ip > idverify token.create",
		"sign up > idverify phone_check.create",
		"sign up > idverify phone_check.create > idverify token.create",
	}
	if !slices.Equal(got, want) {
		t.Errorf("spans = %q, want %q", got, want)
	}
}

// TestRun_HTTPSpans checks that spans of otelhttp are children of those of the attempts, and of the
// callback.
func TestRun_HTTPSpans(t *testing.T) {
	t.Parallel()
	spans, _, _ := telemetry(t, true)

	var got []string
	for _, path := range tree(spans) {
		if strings.HasSuffix(path, " > HTTP GET") || strings.HasSuffix(path, " > HTTP POST") {
			got = append(got, path)
		}
	}

	want := []string{
		"POST /callbacks > HTTP GET", // the key set
		"sign up > idverify coverage.device_ip > HTTP GET",
		"sign up > idverify coverage.device_ip > HTTP GET",
		"sign up > idverify coverage.device_ip > idverify token.create > HTTP POST",
		"sign up > idverify phone_check.create > HTTP POST",
		"sign up > idverify phone_check.create > idverify token.create > HTTP POST",
	}
	if !slices.Equal(got, want) {
		t.Errorf("spans of otelhttp = %q, want %q", got, want)
	}
}

func TestRun_Metrics(t *testing.T) {
	t.Parallel()
	_, metrics, _ := telemetry(t, false)

	var got []string
	for _, scope := range metrics.ScopeMetrics {
		if want := (instrumentation.Scope{Name: "github.com/idverify/idverify-go/otelidverify", SchemaURL: scope.Scope.SchemaURL}); scope.Scope != want {
			t.Errorf("scope = %+v, want %+v", scope.Scope, want)
		}
		for _, m := range scope.Metrics {
			got = append(got, m.Name)
		}
	}
	slices.Sort(got)

	want := []string{"idverify.client.attempt.duration", "idverify.client.retry.wait", "idverify.jwks.age", "idverify.verification.duration"}
	if !slices.Equal(got, want) {
		t.Errorf("metrics = %q, want %q", got, want)
	}
}

func TestRun_NoPersonalData(t *testing.T) {
	t.Parallel()
	spans, metrics, logs := telemetry(t, false)

	output := fmt.Sprintf("%s %+v %+v", logs, tracetest.SpanStubsFromReadOnlySpans(spans), metrics)

	for _, secret := range []string{"447700900012", "192.0.2.10", "Bearer", "Basic", "shop.example.com"} {
		if strings.Contains(output, secret) {
			t.Errorf("spans, metrics or logs contain %q", secret)
		}
	}
	for _, record := range []string{"level=DEBUG msg=\"idverify: attempt\" operation=coverage.device_ip attempt=1", "status=503", "level=WARN msg=\"idverify: retry\" operation=coverage.device_ip attempt=1", "attempt=2"} {
		if !strings.Contains(logs, record) {
			t.Errorf("log does not contain %q:\n%s", record, logs)
		}
	}
}

// tree returns the sorted paths of spans from their roots.
func tree(spans []sdktrace.ReadOnlySpan) []string {
	byID := make(map[trace.SpanID]sdktrace.ReadOnlySpan)
	for _, s := range spans {
		byID[s.SpanContext().SpanID()] = s
	}
	var paths []string
	for _, s := range spans {
		path := s.Name()
		for parent := byID[s.Parent().SpanID()]; parent != nil; parent = byID[parent.Parent().SpanID()] {
			path = parent.Name() + " > " + path
		}
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}
