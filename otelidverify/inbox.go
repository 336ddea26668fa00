package otelidverify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
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

// ObserveInbox returns a function for inbox.Options.Observe: use ObserveInbox[inbox.Event](). It
// records the metrics idverify.inbox.operation.duration and, for processed results,
// idverify.inbox.lag. It creates no spans.
//
// The values come from inbox.Event.LogValue, so that this package does not depend on module inbox.
func ObserveInbox[E slog.LogValuer](opts ...Option) func(context.Context, E) {
	meter := newConfig(opts).meter()
	duration := durations(meter, inboxDuration, "Duration of storing and processing results.")
	lag, err := meter.Float64Histogram(inboxLag, metric.WithUnit("s"), metric.WithDescription("Time from storing a result to processing it."),
		metric.WithExplicitBucketBoundaries(0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200))
	report(inboxLag, err)
	if lag == nil {
		lag = noop.Float64Histogram{}
	}
	return func(ctx context.Context, e E) {
		event := groupOf(e)
		product := event.appendText(nil, productKey, "product")
		if v, ok := event.find("duration", slog.KindDuration); ok {
			attributes := event.appendText(product, operationKey, "operation")
			attributes = event.appendText(attributes, outcomeKey, "outcome")
			duration.Record(ctx, v.Duration().Seconds(), metric.WithAttributes(attributes...))
		}
		if v, ok := event.find("lag", slog.KindDuration); ok {
			lag.Record(ctx, v.Duration().Seconds(), metric.WithAttributes(product...))
		}
	}
}

// statsTimeout limits the time that a slow database can delay the export of all metrics.
const statsTimeout = 2 * time.Second

// RegisterInbox registers gauges with the values of inbox.Inbox.Stats: use
// RegisterInbox(checks.Stats). They are idverify.inbox.pending, idverify.inbox.oldest.age,
// idverify.inbox.stopped, idverify.inbox.in_progress and idverify.inbox.overdue. They describe the
// table, so one process for each database is enough. If stats is nil, the meter fails, or the
// database fails or does not respond within two seconds, the gauges have no value, and the global
// error handler receives the error.
//
// The gauges have no attributes: register only one Inbox for each MeterProvider. To stop, call
// Unregister of the result.
func RegisterInbox[S slog.LogValuer](stats func(context.Context) (S, error), opts ...Option) metric.Registration {
	if stats == nil {
		return registered(inboxPending, nil, errors.New("stats is nil"))
	}
	meter := newConfig(opts).meter()
	counts := []struct {
		name, unit, description string
		key                     string // in the group that stats returns
		gauge                   metric.Int64ObservableGauge
	}{
		{inboxPending, "{result}", "Results that wait for Work.", "pending", nil},
		{inboxStopped, "{result}", "Results whose processing has stopped.", "stopped", nil},
		{inboxInProgress, "{check}", "Checks that have not ended.", "in_progress", nil},
		{inboxOverdue, "{check}", "Checks that Reconcile has to read.", "overdue", nil},
	}
	oldest, err := meter.Float64ObservableGauge(inboxOldestAge, metric.WithUnit("s"),
		metric.WithDescription("Largest difference between the current time and the time at which a result that waits for Work was stored."))
	if err != nil {
		return registered(inboxOldestAge, nil, err)
	}
	gauges := []metric.Observable{oldest}
	for n := range counts {
		c := &counts[n]
		if c.gauge, err = meter.Int64ObservableGauge(c.name, metric.WithUnit(c.unit), metric.WithDescription(c.description)); err != nil {
			return registered(c.name, nil, err)
		}
		gauges = append(gauges, c.gauge)
	}
	registration, err := meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, statsTimeout)
		defer cancel()
		current, err := stats(ctx)
		if err != nil {
			// An error of the callback would make the reader discard the metrics of all instruments.
			otel.Handle(fmt.Errorf("otelidverify: observe inbox: %w", err))
			return nil
		}
		values := groupOf(current)
		if v, ok := values.find("oldest_age", slog.KindDuration); ok {
			o.ObserveFloat64(oldest, v.Duration().Seconds())
		}
		for _, c := range counts {
			if v, ok := values.find(c.key, slog.KindInt64); ok {
				o.ObserveInt64(c.gauge, v.Int64())
			}
		}
		return nil
	}, gauges...)
	return registered(inboxPending, registration, err)
}

// group contains the attributes of an inbox.Event or inbox.Stats. Another version of module inbox
// can have more or fewer of them.
type group []slog.Attr

// groupOf returns the attributes of a group, and nil for any other value.
func groupOf(v slog.LogValuer) group {
	value := slog.AnyValue(v).Resolve()
	if value.Kind() != slog.KindGroup {
		return nil
	}
	return value.Group()
}

// find returns the value of an attribute, and whether it exists and is of the given kind.
func (g group) find(key string, kind slog.Kind) (slog.Value, bool) {
	for _, a := range g {
		if a.Key == key {
			return a.Value, a.Value.Kind() == kind
		}
	}
	return slog.Value{}, false
}

// appendText appends the text of an attribute, if it exists, as attribute name.
func (g group) appendText(attributes []attribute.KeyValue, name attribute.Key, key string) []attribute.KeyValue {
	if v, ok := g.find(key, slog.KindString); ok {
		attributes = append(attributes, name.String(v.String()))
	}
	return attributes
}
