package otelidverify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/idverify/idverify-go/inbox"
)

// The names of the inbox's metrics.
const (
	inboxDuration   = "idverify.inbox.operation.duration"
	inboxLag        = "idverify.inbox.lag"
	inboxPending    = "idverify.inbox.pending"
	inboxOldestAge  = "idverify.inbox.oldest.age"
	inboxStopped    = "idverify.inbox.stopped"
	inboxInProgress = "idverify.inbox.in_progress"
	inboxOverdue    = "idverify.inbox.overdue"
)

// ObserveInbox returns a function for [inbox.Options].Observe. It records the metrics
// idverify.inbox.operation.duration and, for processed results, idverify.inbox.lag. It creates no
// spans.
func ObserveInbox(opts ...Option) func(context.Context, inbox.Event) {
	meter := newConfig(opts).meter()
	duration := durations(meter, inboxDuration, "Duration of storing and processing results.")
	lag, err := meter.Float64Histogram(inboxLag, metric.WithUnit("s"), metric.WithDescription("Time from storing a result to processing it."),
		metric.WithExplicitBucketBoundaries(0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200))
	report(inboxLag, err)
	if lag == nil {
		lag = noop.Float64Histogram{}
	}
	return func(ctx context.Context, e inbox.Event) {
		attributes := []attribute.KeyValue{operationKey.String(e.Operation), outcomeKey.String(string(e.Outcome))}
		var product []attribute.KeyValue
		if e.Product != "" {
			product = append(product, productKey.String(string(e.Product)))
		}
		duration.Record(ctx, e.Duration.Seconds(), metric.WithAttributes(append(attributes, product...)...))
		if e.Outcome == inbox.OutcomeDone {
			lag.Record(ctx, e.Lag.Seconds(), metric.WithAttributes(product...))
		}
	}
}

// statsTimeout limits the time that a slow database can delay the export of all metrics.
const statsTimeout = 2 * time.Second

// RegisterInbox registers gauges with the values of [inbox.Inbox.Stats]: idverify.inbox.pending,
// idverify.inbox.oldest.age, idverify.inbox.stopped, idverify.inbox.in_progress and
// idverify.inbox.overdue. They describe the table, so one process for each database is enough. If
// the database fails or does not respond within two seconds, the gauges have no value, and the
// global error handler receives the error.
//
// The gauges have no attributes: register only one Inbox for each MeterProvider. To stop, call
// Unregister of the result. RegisterInbox returns an error if checks is nil or the meter fails. The
// error does not affect checks: log it and continue.
func RegisterInbox(checks *inbox.Inbox, opts ...Option) (metric.Registration, error) {
	if checks == nil {
		return nil, errors.New("otelidverify: register inbox: checks is nil")
	}
	meter := newConfig(opts).meter()
	counts := []struct {
		name, unit, description string
		value                   func(inbox.Stats) int
		gauge                   metric.Int64ObservableGauge
	}{
		{inboxPending, "{result}", "Results that wait for Work.", func(s inbox.Stats) int { return s.Pending }, nil},
		{inboxStopped, "{result}", "Results whose processing has stopped.", func(s inbox.Stats) int { return s.Stopped }, nil},
		{inboxInProgress, "{check}", "Checks that have not ended.", func(s inbox.Stats) int { return s.InProgress }, nil},
		{inboxOverdue, "{check}", "Checks that Reconcile has to read.", func(s inbox.Stats) int { return s.Overdue }, nil},
	}
	oldest, err := meter.Float64ObservableGauge(inboxOldestAge, metric.WithUnit("s"),
		metric.WithDescription("Largest difference between the current time and the time at which a result that waits for Work was stored."))
	if err != nil {
		return nil, fmt.Errorf("otelidverify: create %s: %w", inboxOldestAge, err)
	}
	gauges := []metric.Observable{oldest}
	for n := range counts {
		c := &counts[n]
		if c.gauge, err = meter.Int64ObservableGauge(c.name, metric.WithUnit(c.unit), metric.WithDescription(c.description)); err != nil {
			return nil, fmt.Errorf("otelidverify: create %s: %w", c.name, err)
		}
		gauges = append(gauges, c.gauge)
	}
	registration, err := meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, statsTimeout)
		defer cancel()
		stats, err := checks.Stats(ctx)
		if err != nil {
			// An error of the callback would make the reader discard the metrics of all instruments.
			otel.Handle(fmt.Errorf("otelidverify: observe inbox: %w", err))
			return nil
		}
		o.ObserveFloat64(oldest, stats.OldestAge.Seconds())
		for _, c := range counts {
			o.ObserveInt64(c.gauge, int64(c.value(stats)))
		}
		return nil
	}, gauges...)
	if err != nil {
		return nil, fmt.Errorf("otelidverify: register inbox: %w", err)
	}
	return registration, nil
}
