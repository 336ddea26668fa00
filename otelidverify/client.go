package otelidverify

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/idverify/idverify-go"
)

// ClientOption returns an option for [idverify.NewClient] and [idverify.NewConsole] that creates a
// span for each attempt of an operation and for each token request, and records the metrics
// idverify.client.*. See the package comment for their attributes.
//
// The option can be used for several clients. Pass it to each of them once: a second one creates a
// second span, and with the same MeterProvider it counts each attempt twice.
func ClientOption(opts ...Option) idverify.Option {
	c := newConfig(opts)
	meter := c.meter()
	o := &clientObserver{
		tracer:    c.tracer(),
		duration:  durations(meter, attemptDuration, "Duration of attempts of operations, and of token requests."),
		wait:      durations(meter, retryWait, "Delay before a retry."),
		limit:     requests(meter, rateLimitLimit, "Requests per period of the rate limit, from the last response that reports it."),
		remaining: requests(meter, rateLimitRemaining, "Requests left in the current period of the rate limit, from the last response that reports it."),
	}
	return idverify.WithObserver(o.start)
}

// Names of the client's metrics.
const (
	attemptDuration    = "idverify.client.attempt.duration"
	retryWait          = "idverify.client.retry.wait"
	rateLimitLimit     = "idverify.client.rate_limit.limit"
	rateLimitRemaining = "idverify.client.rate_limit.remaining"
)

// clientObserver observes the attempts of clients. It is safe for concurrent use.
type clientObserver struct {
	tracer    trace.Tracer
	duration  metric.Float64Histogram
	wait      metric.Float64Histogram
	limit     metric.Int64Gauge
	remaining metric.Int64Gauge
}

// start implements the argument of idverify.WithObserver.
func (o *clientObserver) start(ctx context.Context, operation string) (context.Context, func(idverify.Attempt)) {
	ctx, span := o.tracer.Start(ctx, "idverify "+operation,
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(operationKey.String(operation)))
	return ctx, func(a idverify.Attempt) { o.end(ctx, span, a) }
}

// end records an attempt and ends its span.
func (o *clientObserver) end(ctx context.Context, span trace.Span, a idverify.Attempt) {
	defer span.End()
	attributes := make([]attribute.KeyValue, 0, 5)
	attributes = append(attributes, operationKey.String(a.Operation), retryKey.Bool(a.Retry))
	if a.Status != 0 {
		attributes = append(attributes, semconv.HTTPResponseStatusCode(a.Status))
	}
	if a.Err != nil {
		class := semconv.ErrorTypeKey.String(errorType(a.Err))
		attributes = append(attributes, class)
		if errors.Is(a.Err, idverify.ErrOutcomeUnknown) {
			attributes = append(attributes, outcomeUnknownKey.Bool(true))
		}
		span.SetStatus(codes.Error, a.Err.Error())
		if a.Retry {
			o.wait.Record(ctx, a.Wait.Seconds(), metric.WithAttributes(operationKey.String(a.Operation), class))
		}
	}
	o.duration.Record(ctx, a.Duration.Seconds(), metric.WithAttributes(attributes...))
	if a.RateLimit != nil {
		o.limit.Record(ctx, int64(a.RateLimit.Limit))
		o.remaining.Record(ctx, int64(a.RateLimit.Remaining))
	}

	span.SetAttributes(attributes...)
	if a.Number > 1 {
		span.SetAttributes(semconv.HTTPRequestResendCount(a.Number - 1))
	}
	if a.RequestID != "" {
		span.SetAttributes(requestIDKey.String(a.RequestID))
	}
}
