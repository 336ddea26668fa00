package otelidverify_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/otelidverify"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

var errBroken = errors.New("no instruments")

// brokenMeters is a MeterProvider that cannot create instruments.
type brokenMeters struct{ noop.MeterProvider }

func (brokenMeters) Meter(string, ...metric.MeterOption) metric.Meter { return brokenMeter{} }

type brokenMeter struct{ noop.Meter }

func (brokenMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return nil, errBroken
}

func (brokenMeter) Int64Gauge(string, ...metric.Int64GaugeOption) (metric.Int64Gauge, error) {
	return nil, errBroken
}

func (brokenMeter) Int64ObservableGauge(string, ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	return nil, errBroken
}

func (brokenMeter) Float64ObservableGauge(string, ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	return nil, errBroken
}

func TestInstruments_ScopeAndBuckets(t *testing.T) {
	t.Parallel()
	r := newTelemetry()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	must(srv.Client(otelidverify.ClientOption(r.providers()...)).PhoneChecks.List(t.Context(), idverify.ListOptions{}))(t)
	observeInbox(t, r)
	const name = "github.com/idverify/idverify-go/otelidverify"

	var data metricdata.ResourceMetrics
	noError(t, r.reader.Collect(t.Context(), &data))

	if len(data.ScopeMetrics) != 1 {
		t.Fatalf("%d scopes of metrics, want one", len(data.ScopeMetrics))
	}
	scopes := []instrumentation.Scope{data.ScopeMetrics[0].Scope, r.recorder.Ended()[0].InstrumentationScope()}
	for _, scope := range scopes {
		if scope.Name != name || scope.SchemaURL != semconv.SchemaURL {
			t.Errorf("scope = %+v, want %s with the schema %s", scope, name, semconv.SchemaURL)
		}
	}
	buckets := make(map[string][]float64)
	for _, m := range data.ScopeMetrics[0].Metrics {
		if h, ok := m.Data.(metricdata.Histogram[float64]); ok {
			buckets[m.Name] = h.DataPoints[0].Bounds
		}
	}
	boundaries := []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
	wantEqual(t, map[string][]float64{
		"idverify.client.attempt.duration":  boundaries,
		"idverify.inbox.operation.duration": boundaries,
		"idverify.inbox.lag":                {0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200},
	}, buckets, "bucket boundaries")
}

// TestClientOption_BrokenMeter is not parallel: it replaces the global error handler.
func TestClientOption_BrokenMeter(t *testing.T) {
	var handled []error
	previous := otel.GetErrorHandler()
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { handled = append(handled, err) }))
	defer otel.SetErrorHandler(previous)
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithRateLimit(10))

	client := srv.Client(otelidverify.ClientOption(otelidverify.WithMeterProvider(brokenMeters{})), fastRetries())
	srv.Inject(sandboxfake.Match{Operation: "phone_check.list"}, sandboxfake.Fault{Status: http.StatusBadGateway})
	_, err := client.PhoneChecks.List(t.Context(), idverify.ListOptions{})
	broken := otelidverify.WithMeterProvider(brokenMeters{})
	otelidverify.ObserveVerifier(broken)(t.Context(), signature.Verification{Operation: "callback"})
	registrations := []metric.Registration{
		otelidverify.RegisterJWKS(must(client.NewJWKS(nil))(t), broken),
		otelidverify.RegisterInbox(func(context.Context) (attrs, error) { return stats, nil }, broken),
	}
	for _, err := range handled {
		if !errors.Is(err, errBroken) {
			t.Errorf("handled error = %v, want the meter's", err)
		}
	}
	registrations = append(registrations, otelidverify.RegisterJWKS(nil), otelidverify.RegisterInbox[attrs](nil))

	if err != nil {
		t.Errorf("error of the operation = %v, want none: metrics must not affect it", err)
	}
	for _, r := range registrations {
		noError(t, r.Unregister())
	}
	if len(handled) != 9 { // four instruments of the client, one of the verifier, four registrations
		t.Errorf("handled errors = %q, want one for each instrument and registration", handled)
	}
}

func TestClientOption_NilProviders(t *testing.T) {
	t.Parallel()
	opts := []otelidverify.Option{nil, otelidverify.WithTracerProvider(nil), otelidverify.WithMeterProvider(nil)}
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	client := srv.Client(otelidverify.ClientOption(opts...))
	keys := must(signature.NewJWKS(client.JWKSURL(), nil))(t)

	_, err := client.PhoneChecks.Create(t.Context(), number)
	otelidverify.ObserveVerifier(opts...)(t.Context(), signature.Verification{Operation: "callback"})
	registration := otelidverify.RegisterJWKS(keys, opts...)

	if err := errors.Join(err, registration.Unregister()); err != nil {
		t.Error(err)
	}
}

// TestClientOption_GlobalProviders is not parallel: it replaces the global providers.
func TestClientOption_GlobalProviders(t *testing.T) {
	r := newTelemetry()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	tracers, meters := otel.GetTracerProvider(), otel.GetMeterProvider()
	otel.SetTracerProvider(r.tracers)
	otel.SetMeterProvider(r.meters)
	defer otel.SetTracerProvider(tracers)
	defer otel.SetMeterProvider(meters)
	client := srv.Client(otelidverify.ClientOption())

	must(client.PhoneChecks.Create(t.Context(), number))(t)
	if spans, series := r.spans(), r.series(t); len(spans) != 2 || len(series) != 2 {
		t.Errorf("spans = %q and metrics = %q, want two each", spans, series)
	}
}

func TestClientOption_Repeated(t *testing.T) {
	t.Parallel()
	first, second := newTelemetry(), newTelemetry()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	client := srv.Client(otelidverify.ClientOption(first.providers()...), otelidverify.ClientOption(second.providers()...))

	must(client.PhoneChecks.Create(t.Context(), number))(t)
	for i, r := range []*telemetry{first, second} {
		if spans, series := r.spans(), r.series(t); len(spans) != 2 || len(series) != 2 {
			t.Errorf("option %d: spans = %q and metrics = %q, want two each", i+1, spans, series)
		}
	}
}

func TestClientOption_Concurrent(t *testing.T) {
	t.Parallel()
	r := newTelemetry()
	_, client := observed(t, r)
	observe := otelidverify.ObserveVerifier(r.providers()...)

	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			if _, err := client.PhoneChecks.List(t.Context(), idverify.ListOptions{}); err != nil {
				t.Error(err)
			}
			observe(context.Background(), signature.Verification{Operation: "callback", Product: "phone_check"})
		})
	}
	all.Wait()

	r.wantSeries(t, []string{
		"idverify.client.attempt.duration{http.response.status_code=200,idverify.operation=phone_check.list,idverify.retry=false} 1000",
		"idverify.client.attempt.duration{http.response.status_code=200,idverify.operation=token.create,idverify.retry=false} 1",
		"idverify.verification.duration{idverify.operation=callback,idverify.product=phone_check} 1000",
	})
	if got := len(r.spans()); got != 1001 {
		t.Errorf("%d spans ended, want 1,001", got)
	}
}
