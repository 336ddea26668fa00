package main

import (
	"fmt"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// tracingTransport makes a span of every try that the client sends: operations, their retries, and the token requests between them.
//
// The usual instrumentation of net/http records the URL, and the URLs of this service hold addresses and check ids. These spans hold the route in its place.
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
		// Its text may hold an address; its type is enough to group by.
		span.SetAttributes(attribute.String("error.type", fmt.Sprintf("%T", err)))
		span.SetStatus(codes.Error, "no answer")
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

// words are the fixed segments of the service's paths. Any other segment is an id, a country or an address.
const fixedSegments = " oauth2 token revoke .well-known jwks.json phone_check sim_check subscriber_check coverage console checks traces redirect device_ips device_ip countries projects workspaces credentials members invitations billing_account payment_methods topups usage reset v0.1 v0.2 v1 "

// routeOf is the path with {} for every segment that is not one of words, so that spans are few by name and tell nothing of anybody.
func routeOf(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if s != "" && !strings.Contains(fixedSegments, " "+s+" ") {
			segments[i] = "{}"
		}
	}
	return strings.Join(segments, "/")
}
