package otelidverify

import (
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// scopeName is the instrumentation scope of the spans and metrics.
const scopeName = "github.com/idverify/idverify-go/otelidverify"

// Attributes for which OpenTelemetry has no semantic convention.
const (
	operationKey      = attribute.Key("idverify.operation")
	retryKey          = attribute.Key("idverify.retry")
	outcomeUnknownKey = attribute.Key("idverify.outcome_unknown")
	requestIDKey      = attribute.Key("idverify.request_id")
	keyIDKey          = attribute.Key("idverify.key_id")
	reasonKey         = attribute.Key("idverify.reason")
	alertKey          = attribute.Key("idverify.alert")
	outcomeKey        = attribute.Key("idverify.outcome")
	productKey        = attribute.Key("idverify.product")
)

// Option configures [ClientOption], [ObserveVerifier], [RegisterJWKS], [ObserveInbox] and
// [RegisterInbox]. A nil Option has no effect.
type Option func(*config)

type config struct {
	tracers trace.TracerProvider
	meters  metric.MeterProvider
}

// WithTracerProvider sets the provider of the tracer for [ClientOption]. The other functions create
// no spans. The default, also for nil, is the global provider, even if it is set later.
func WithTracerProvider(p trace.TracerProvider) Option { return func(c *config) { c.tracers = p } }

// WithMeterProvider sets the provider of the meter. The default, also for nil, is the global
// provider, even if it is set later.
func WithMeterProvider(p metric.MeterProvider) Option { return func(c *config) { c.meters = p } }

// newConfig applies opts and the defaults.
func newConfig(opts []Option) *config {
	c := new(config)
	for _, set := range opts {
		if set != nil {
			set(c)
		}
	}
	if c.tracers == nil {
		c.tracers = otel.GetTracerProvider()
	}
	if c.meters == nil {
		c.meters = otel.GetMeterProvider()
	}
	return c
}

func (c *config) tracer() trace.Tracer {
	return c.tracers.Tracer(scopeName, trace.WithSchemaURL(semconv.SchemaURL))
}

func (c *config) meter() metric.Meter {
	return c.meters.Meter(scopeName, metric.WithSchemaURL(semconv.SchemaURL))
}

// durations returns a histogram in seconds with the bucket boundaries of the semantic conventions
// for HTTP. If the meter fails, the global error handler receives the error and the histogram may
// record nothing.
func durations(meter metric.Meter, name, description string) metric.Float64Histogram {
	h, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
		metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10))
	report(name, err)
	if h == nil {
		return noop.Float64Histogram{}
	}
	return h
}

// requests returns a gauge that counts requests, with the error handling of durations.
func requests(meter metric.Meter, name, description string) metric.Int64Gauge {
	g, err := meter.Int64Gauge(name, metric.WithUnit("{request}"), metric.WithDescription(description))
	report(name, err)
	if g == nil {
		return noop.Int64Gauge{}
	}
	return g
}

// report passes the error of creating an instrument to the global error handler.
func report(instrument string, err error) {
	if err != nil {
		otel.Handle(fmt.Errorf("otelidverify: create %s: %w", instrument, err))
	}
}

// registered returns the registration of a gauge, with the error handling of durations.
func registered(gauge string, r metric.Registration, err error) metric.Registration {
	report(gauge, err)
	if err != nil {
		return noop.Registration{}
	}
	return r
}
