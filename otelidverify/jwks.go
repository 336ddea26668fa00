package otelidverify

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"

	"github.com/idverify/idverify-go/signature"
)

// jwksAge is the name of the key set's metric.
const jwksAge = "idverify.jwks.age"

// RegisterJWKS registers the gauge idverify.jwks.age, the time since the last successful fetch of
// keys in seconds. Before the first one, the gauge has no value. The gauge does not fetch the key
// set.
//
// The gauge has no attributes: register only one key set for each MeterProvider. To stop, call
// Unregister of the result. RegisterJWKS returns an error if keys is nil or the meter fails. The
// error does not affect keys: log it and continue.
func RegisterJWKS(keys *signature.JWKS, opts ...Option) (metric.Registration, error) {
	if keys == nil {
		return nil, errors.New("otelidverify: register key set: keys is nil")
	}
	meter := newConfig(opts).meter()
	gauge, err := meter.Float64ObservableGauge(jwksAge, metric.WithUnit("s"),
		metric.WithDescription("Time since the last successful fetch of the key set."))
	if err != nil {
		return nil, fmt.Errorf("otelidverify: create %s: %w", jwksAge, err)
	}
	registration, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		if age, fetched := keys.Age(); fetched {
			o.ObserveFloat64(gauge, age.Seconds())
		}
		return nil
	}, gauge)
	if err != nil {
		return nil, fmt.Errorf("otelidverify: register key set: %w", err)
	}
	return registration, nil
}
