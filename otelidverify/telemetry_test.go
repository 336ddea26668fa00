package otelidverify_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/otelidverify"
)

// telemetry records spans and metrics in memory.
type telemetry struct {
	recorder *spanRecorder
	reader   *sdkmetric.ManualReader
	tracers  *sdktrace.TracerProvider
	meters   *sdkmetric.MeterProvider
}

func newTelemetry() *telemetry {
	recorder, reader := newSpanRecorder(), sdkmetric.NewManualReader()
	return &telemetry{
		recorder: recorder,
		reader:   reader,
		tracers:  sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)),
		meters:   sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
	}
}

// wantSpans checks the spans that have ended.
func (r *telemetry) wantSpans(t testing.TB, want []string) {
	t.Helper()
	wantEqual(t, want, r.spans(), "spans")
}

// wantSpan checks the n-th span that has ended, counted from 0.
func (r *telemetry) wantSpan(t testing.TB, n int, want string) {
	t.Helper()
	if got := r.spans(); len(got) <= n || got[n] != want {
		t.Errorf("spans = %q, want %q as number %d", got, want, n)
	}
}

// wantMetric checks the first series.
func (r *telemetry) wantMetric(t testing.TB, want string) {
	t.Helper()
	if got := r.series(t); len(got) == 0 || got[0] != want {
		t.Errorf("metrics = %q, want %q as the first", got, want)
	}
}

// wantSeries checks the series of all metrics.
func (r *telemetry) wantSeries(t testing.TB, want []string) {
	t.Helper()
	wantEqual(t, want, r.series(t), "metrics")
}

// spanRecorder records spans. Operations and their HTTP requests do not wait for the end of the
// span of a token request. The recorder makes them wait, so that the order of the spans is that of
// the requests.
type spanRecorder struct {
	*tracetest.SpanRecorder
	unordered bool // do not wait

	mu     sync.Mutex            // guards tokens
	tokens map[trace.SpanID]bool // spans of token requests that have not ended
	ended  *sync.Cond
}

const tokenSpan = "idverify token.create"

func newSpanRecorder() *spanRecorder {
	r := &spanRecorder{SpanRecorder: tracetest.NewSpanRecorder(), tokens: make(map[trace.SpanID]bool)}
	r.ended = sync.NewCond(&r.mu)
	return r
}

func (r *spanRecorder) OnStart(ctx context.Context, s sdktrace.ReadWriteSpan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.Name() == tokenSpan {
		r.tokens[s.SpanContext().SpanID()] = true
	}
	r.SpanRecorder.OnStart(ctx, s)
}

func (r *spanRecorder) OnEnd(s sdktrace.ReadOnlySpan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.Name() == tokenSpan {
		delete(r.tokens, s.SpanContext().SpanID())
		r.ended.Broadcast()
	}
	// The HTTP request of a token is part of the token request.
	operation := s.Name() != tokenSpan && strings.HasPrefix(s.Name(), "idverify ") || s.Name() == "HTTP" && !r.tokens[s.Parent().SpanID()]
	for !r.unordered && operation && len(r.tokens) > 0 {
		r.ended.Wait()
	}
	r.SpanRecorder.OnEnd(s)
}

// providers returns the arguments that select the providers of r.
func (r *telemetry) providers() []otelidverify.Option {
	return []otelidverify.Option{otelidverify.WithTracerProvider(r.tracers), otelidverify.WithMeterProvider(r.meters)}
}

// caller starts a span as the code that uses the client does.
func (r *telemetry) caller(ctx context.Context) (context.Context, trace.Span) {
	return r.tracers.Tracer("test").Start(ctx, "caller")
}

// spans returns one line for each span in the order of their ends: its name, parent, status and
// attributes, except the request ID, the operation and false values.
func (r *telemetry) spans() []string {
	names := make(map[trace.SpanID]string)
	for _, s := range r.recorder.Started() {
		names[s.SpanContext().SpanID()] = s.Name()
	}
	var lines []string
	for _, s := range r.recorder.Ended() {
		var line strings.Builder
		line.WriteString(s.Name() + " < " + names[s.Parent().SpanID()] + ": " + s.Status().Code.String())
		attributes := slices.Clone(s.Attributes())
		slices.SortFunc(attributes, func(a, b attribute.KeyValue) int { return strings.Compare(string(a.Key), string(b.Key)) })
		for _, a := range attributes {
			if a.Key != "idverify.request_id" && a.Key != "idverify.operation" && a.Value.String() != "false" {
				line.WriteString(fmt.Sprintf(" %s=%s", a.Key, a.Value.String()))
			}
		}
		lines = append(lines, line.String())
	}
	return lines
}

// series returns one sorted line for each time series: metric, attributes, and the count of a
// histogram or the value of a gauge.
func (r *telemetry) series(t testing.TB) []string {
	t.Helper()
	var lines []string
	add := func(name string, set attribute.Set, value any) {
		var labels []string
		for _, a := range set.ToSlice() {
			labels = append(labels, fmt.Sprintf("%s=%s", a.Key, a.Value.String()))
		}
		lines = append(lines, fmt.Sprintf("%s{%s} %v", name, strings.Join(labels, ","), value))
	}
	for _, m := range r.metrics(t) {
		switch data := m.Data.(type) {
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				add(m.Name, p.Attributes, p.Count)
			}
		case metricdata.Gauge[int64]:
			for _, p := range data.DataPoints {
				add(m.Name, p.Attributes, p.Value)
			}
		case metricdata.Gauge[float64]:
			for _, p := range data.DataPoints {
				add(m.Name, p.Attributes, p.Value)
			}
		default:
			t.Fatalf("metric %s has data of type %T", m.Name, m.Data)
		}
	}
	slices.Sort(lines)
	return lines
}

// sums returns the sums of the histograms over all attributes.
func (r *telemetry) sums(t testing.TB) map[string]float64 {
	t.Helper()
	sums := make(map[string]float64)
	for _, m := range r.metrics(t) {
		if data, ok := m.Data.(metricdata.Histogram[float64]); ok {
			for _, p := range data.DataPoints {
				sums[m.Name] += p.Sum
			}
		}
	}
	return sums
}

// metrics returns the recorded metrics.
func (r *telemetry) metrics(t testing.TB) []metricdata.Metrics {
	t.Helper()
	var data metricdata.ResourceMetrics
	noError(t, r.reader.Collect(context.Background(), &data))
	var all []metricdata.Metrics
	for _, scope := range data.ScopeMetrics {
		all = append(all, scope.Metrics...)
	}
	return all
}

// text returns everything that was recorded, for a search for personal data.
func (r *telemetry) text(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("%+v\n%+v", tracetest.SpanStubsFromReadOnlySpans(r.recorder.Ended()), r.metrics(t))
}

// noError and must fail the test if err is not nil. must returns v.
var noError = tooltest.NoError

func must[T any](v T, err error) func(testing.TB) T { return tooltest.Must(v, err) }

// wantEqual reports the difference between want and got, if any.
func wantEqual(t testing.TB, want, got any, format string, args ...any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", fmt.Sprintf(format, args...), diff)
	}
}
