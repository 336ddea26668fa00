package otelidverify

import (
	"cmp"
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/idverify/idverify-go/signature"
)

// verificationDuration is the name of the verifier's metric.
const verificationDuration = "idverify.verification.duration"

// ObserveVerifier returns a function for [signature.VerifierOptions].Observe. It records the metric
// idverify.verification.duration and adds attributes to the span in the request's context, if any.
// It does not set the status of that span, which belongs to the HTTP server's instrumentation.
func ObserveVerifier(opts ...Option) func(context.Context, signature.Verification) {
	duration := durations(newConfig(opts).meter(), verificationDuration, "Duration of the verification of callbacks and redirects.")
	return func(ctx context.Context, v signature.Verification) {
		span := trace.SpanFromContext(ctx)
		attributes := []attribute.KeyValue{operationKey.String(v.Operation)}
		if v.Product != "" {
			attributes = append(attributes, productKey.String(v.Product))
		}
		span.SetAttributes(attributes...)
		if v.Err == nil {
			span.SetAttributes(keyIDKey.String(v.KeyID))
		} else {
			reason := cmp.Or(v.Reason, semconv.ErrorTypeOther.Value.AsString())
			span.SetAttributes(reasonKey.String(reason))
			attributes = append(attributes, semconv.ErrorTypeKey.String(reason))
			if v.Alert {
				span.SetAttributes(alertKey.Bool(true))
				attributes = append(attributes, alertKey.Bool(true))
			}
		}
		duration.Record(ctx, v.Duration.Seconds(), metric.WithAttributes(attributes...))
	}
}
