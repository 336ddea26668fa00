package main

import (
	"fmt"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// tracingTransport creates a span for every HTTP request, including retries and token requests.
//
// The standard instrumentation of net/http records the URL, which can contain an address or a check
// ID. These spans record the route instead.
type tracingTransport struct {
	next   http.RoundTripper
	tracer trace.Tracer
}

func (t *tracingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	route := routeOf(r.URL.Path)
	ctx, span := t.tracer.Start(r.Context(), r.Method+" "+route, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("http.request.method", r.Method),
		attribute.String("url.template", route),
		attribute.String("server.address", r.URL.Hostname()),
	))
	defer span.End()

	response, err := t.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		// The message may contain an address; the type suffices for grouping.
		span.SetAttributes(attribute.String("error.type", fmt.Sprintf("%T", err)))
		span.SetStatus(codes.Error, "request failed")
		return nil, err
	}
	span.SetAttributes(attribute.Int("http.response.status_code", response.StatusCode))
	if id := response.Header.Get("X-Request-Id"); id != "" {
		span.SetAttributes(attribute.String("idverify.request_id", id))
	}
	if response.StatusCode >= 400 {
		span.SetStatus(codes.Error, http.StatusText(response.StatusCode))
	}
	return response, nil
}

// fixedSegments lists the path segments that are the same for all requests of an operation. Any
// other segment is an ID, an address, a country or a period.
const fixedSegments = " oauth2 token revoke .well-known jwks.json phone_check sim_check subscriber_check coverage console checks traces redirect device_ips device_ip countries projects workspaces credentials members invitations billing_account payment_methods topups usage reset v0.1 v0.2 v1 "

// routeOf replaces each variable segment of path with {}. The result has few distinct values and
// contains no personal data.
func routeOf(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if s != "" && !strings.Contains(fixedSegments, " "+s+" ") {
			segments[i] = "{}"
		}
	}
	return strings.Join(segments, "/")
}
