package otelidverify

import (
	"context"
	"errors"

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
// Unregister of the result. If keys is nil or the meter fails, the gauge has no value, and the
// global error handler receives the error.
func RegisterJWKS(keys *signature.JWKS, opts ...Option) metric.Registration {
	if keys == nil {
		return registered(jwksAge, nil, errors.New("keys is nil"))
	}
	meter := newConfig(opts).meter()
	gauge, err := meter.Float64ObservableGauge(jwksAge, metric.WithUnit("s"),
		metric.WithDescription("Time since the last successful fetch of the key set."))
	if err != nil {
		return registered(jwksAge, nil, err)
	}
	registration, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		if age, fetched := keys.Age(); fetched {
			o.ObserveFloat64(gauge, age.Seconds())
		}
		return nil
	}, gauge)
	return registered(jwksAge, registration, err)
}
