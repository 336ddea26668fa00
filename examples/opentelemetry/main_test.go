package main

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

func TestRun_SpansAndLogs(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	var logs bytes.Buffer

	err := run(t.Context(), sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)), &logs)

	if err != nil {
		t.Fatal(err)
	}
	spans := recorder.Ended()
	names := make([]string, len(spans))
	for i, span := range spans {
		names[i] = span.Name()
		if caller := spans[len(spans)-1].SpanContext().SpanID(); i < len(spans)-1 && span.Parent().SpanID() != caller {
			t.Errorf("span %q is not a child of the caller's span", span.Name())
		}
	}
	want := []string{
		"POST /oauth2/v1/token",
		"GET /coverage/v0.1/device_ips/{}",
		"GET /coverage/v0.1/device_ips/{}",
		"POST /oauth2/v1/token",
		"POST /phone_check/v0.1/checks",
		"sign up",
	}
	if !slices.Equal(names, want) {
		t.Errorf("spans = %q, want %q", names, want)
	}
	output := logs.String() + fmt.Sprintf("%+v", tracetest.SpanStubsFromReadOnlySpans(spans))
	for _, secret := range []string{"447700900012", "192.0.2.10", "Bearer", "Basic"} {
		if strings.Contains(output, secret) {
			t.Errorf("spans or logs contain %q", secret)
		}
	}
	for _, record := range []string{"level=DEBUG msg=\"idverify: attempt\" operation=coverage.device_ip attempt=1", "status=503", "level=WARN msg=\"idverify: retry\" operation=coverage.device_ip attempt=1", "attempt=2"} {
		if !strings.Contains(logs.String(), record) {
			t.Errorf("log does not contain %q:\n%s", record, logs.String())
		}
	}
}

func TestRouteOf(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/oauth2/v1/token":                        "/oauth2/v1/token",
		"/phone_check/v0.2/checks":                "/phone_check/v0.2/checks",
		"/phone_check/v0.2/checks/0b288539":       "/phone_check/v0.2/checks/{}",
		"/phone_check/v0.2/checks/a/traces/b":     "/phone_check/v0.2/checks/{}/traces/{}",
		"/coverage/v0.1/device_ips/2001:db8::1":   "/coverage/v0.1/device_ips/{}",
		"/coverage/v0.1/countries/GB":             "/coverage/v0.1/countries/{}",
		"/console/v0.1/projects/p/credentials/c":  "/console/v0.1/projects/{}/credentials/{}",
		"/console/v0.1/workspaces/default/topups": "/console/v0.1/workspaces/{}/topups",
		"/sim_check/v3/checks":                    "/sim_check/{}/checks",
		"":                                        "",
		"/":                                       "/",
	} {
		if got := routeOf(path); got != want {
			t.Errorf("routeOf(%q) = %q, want %q", path, got, want)
		}
	}
}

func TestTracingTransport_RedactsError(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("")
	client := http.Client{Transport: &tracingTransport{next: failingTransport{}, tracer: tracer}}

	_, err := client.Get("https://service.example.com/coverage/v0.1/device_ips/192.0.2.10")

	if err == nil {
		t.Fatal("err = nil, want the transport's error")
	}
	span := fmt.Sprintf("%+v", tracetest.SpanStubsFromReadOnlySpans(recorder.Ended()))
	if !strings.Contains(span, "request failed") || strings.Contains(span, "192.0.2.10") {
		t.Errorf("span = %s, want the failure without the address", span)
	}
}

// failingTransport returns errors that contain the URL.
type failingTransport struct{}

func (failingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("dial for %s", r.URL)
}
