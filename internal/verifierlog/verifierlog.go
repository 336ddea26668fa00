// Package verifierlog passes the logger of a signature.Verifier to the handlers that package
// idverify wraps in it.
package verifierlog

import (
	"context"
	"log/slog"
)

type key struct{}

// NewContext returns a copy of ctx that contains the logger of the verifier.
func NewContext(ctx context.Context, logger *slog.Logger) context.Context {
	return context.WithValue(ctx, key{}, logger)
}

// FromContext returns the logger in ctx, which must be the context of a request that a Verifier
// passed to a handler.
func FromContext(ctx context.Context) *slog.Logger { return ctx.Value(key{}).(*slog.Logger) }
