package otelidverify_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/otelidverify"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// newKeys returns the key set of srv. Its fetches have no time limit, because the machine may be
// busy.
func newKeys(t *testing.T, srv *sandboxfake.Server, now func() time.Time) *signature.JWKS {
	t.Helper()
	return must(srv.Client().NewJWKS(&signature.JWKSOptions{HTTPClient: tooltest.WithoutDeadlines(srv.HTTPClient()), Now: now}))(t)
}

func TestRegisterJWKS_Age(t *testing.T) {
	t.Parallel()
	r := newTelemetry()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	var offset atomic.Int64
	start := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	keys := newKeys(t, srv, func() time.Time { return start.Add(time.Duration(offset.Load())) })
	registration := otelidverify.RegisterJWKS(keys, r.providers()...)

	before := r.series(t)
	requests := len(srv.Requests())
	if _, err := keys.PublicKey(t.Context(), "unknown"); !errors.Is(err, signature.ErrUnknownKey) {
		t.Fatalf("error = %v, want ErrUnknownKey from a fetched key set", err)
	}
	offset.Store(int64(90 * time.Second))
	after := r.series(t)
	noError(t, registration.Unregister())
	unregistered := r.series(t)

	if len(before) != 0 || requests != 0 {
		t.Errorf("before the first fetch, metrics = %q and %d requests were sent, want none", before, requests)
	}
	wantEqual(t, []string{"idverify.jwks.age{} 90"}, after, "metrics")
	if len(unregistered) != 0 {
		t.Errorf("metrics after Unregister = %q, want none", unregistered)
	}
}
