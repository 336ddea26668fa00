package otelidverify_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/otelidverify"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// receiver is a service that sends callbacks to a handler with an observed verifier.
type receiver struct {
	*telemetry
	srv  *sandboxfake.Server
	keys *signature.JWKS
}

func newReceiver(t *testing.T, opts ...sandboxfake.Option) *receiver {
	t.Helper()
	r := &receiver{telemetry: newTelemetry(), srv: sandboxfake.New(t, append(opts, sandboxfake.WithInMemory())...)}
	r.keys = newKeys(t, r.srv, nil)
	verifier := must(signature.NewVerifier(r.keys, []string{"shop.example.com"}, &signature.VerifierOptions{
		ClockSkew: 24 * time.Hour, // independent of the speed of the machine
		Observe:   otelidverify.ObserveVerifier(r.providers()...),
	}))(t)
	handler := idverify.CallbackHandler(verifier, func(context.Context, *idverify.Callback) error { return nil })
	r.srv.Handle("shop.example.com", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx, span := r.tracers.Tracer("test").Start(req.Context(), "POST /callbacks") // as otelhttp.NewHandler does
		defer span.End()
		handler.ServeHTTP(w, req.WithContext(ctx))
	}))
	return r
}

// deliver returns the response to one attempt of a callback.
func (r *receiver) deliver(t *testing.T) (status int) {
	t.Helper()
	params := number
	params.CallbackURL = "https://shop.example.com/callbacks"
	check := must(r.srv.Client().PhoneChecks.Create(t.Context(), params))(t)
	must(r.srv.Device().Open(t.Context(), check.CheckURL))(t)
	must(r.srv.WaitDelivery(t.Context(), func(d sandboxfake.Delivery) bool {
		if d.CheckID != check.CheckID || len(d.Attempts) == 0 {
			return false
		}
		status = d.Attempts[0].Status
		return true
	}))(t)
	return status
}

func TestObserveVerifier_Verified(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)

	status := r.deliver(t)

	if status != http.StatusNoContent {
		t.Fatalf("response = %d, want 204", status)
	}
	keyID := ""
	for _, a := range r.recorder.Ended()[0].Attributes() {
		if a.Key == "idverify.key_id" {
			keyID = a.Value.AsString()
		}
	}
	if _, err := r.keys.PublicKey(t.Context(), keyID); err != nil {
		t.Errorf("idverify.key_id = %q, want the ID of a key of the service: %v", keyID, err)
	}
	r.wantSpans(t, []string{"POST /callbacks < : Unset idverify.key_id=" + keyID + " idverify.product=phone_check"})
	r.wantSeries(t, []string{"idverify.verification.duration{idverify.operation=callback,idverify.product=phone_check} 1"})
}

func TestObserveVerifier_Rejected(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		match        sandboxfake.Match
		fault        sandboxfake.Fault
		status       int
		span, series string
	}{
		"forged": {
			sandboxfake.Match{Operation: sandboxfake.OperationCallback}, sandboxfake.Fault{WrongKey: true}, http.StatusBadRequest,
			"idverify.reason=ErrSignature", "error.type=ErrSignature",
		},
		"key set outage": {
			sandboxfake.Match{Operation: "jwks.get", Repeat: true}, sandboxfake.Fault{Status: http.StatusBadGateway}, http.StatusServiceUnavailable,
			"idverify.alert=true idverify.reason=ErrKeySource", "error.type=ErrKeySource,idverify.alert=true",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t)
			r.srv.Inject(tt.match, tt.fault)

			status := r.deliver(t)

			if status != tt.status {
				t.Fatalf("response = %d, want %d", status, tt.status)
			}
			r.wantSpans(t, []string{"POST /callbacks < : Unset " + tt.span})
			r.wantSeries(t, []string{"idverify.verification.duration{" + tt.series + ",idverify.operation=callback} 1"})
		})
	}
}

func TestObserveVerifier_Redirect(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	verifier := must(signature.NewVerifier(r.keys, []string{"shop.example.com"}, &signature.VerifierOptions{
		Observe: otelidverify.ObserveVerifier(r.providers()...),
	}))(t)
	r.srv.Handle("shop.example.com", verifier.RequireRedirect(http.NotFoundHandler()))

	resp := must(r.srv.HTTPClient().Get("https://shop.example.com/back?check_id=c1&code=1"))(t)
	resp.Body.Close()
	r.wantSeries(t, []string{"idverify.verification.duration{error.type=ErrMalformed,idverify.operation=redirect} 1"})
}

func TestObserveVerifier_Reasons(t *testing.T) {
	t.Parallel()
	replayStore := signature.Verification{Operation: "redirect", Reason: "ErrReplayStore", Err: signature.ErrReplayStore, Duration: 1500 * time.Millisecond} // the browser was closed
	alert := replayStore
	alert.Alert = true
	for name, tt := range map[string]struct {
		verification signature.Verification
		span, series string
	}{
		"no alert":  {replayStore, "idverify.reason=ErrReplayStore", "error.type=ErrReplayStore,idverify.operation=redirect"},
		"alert":     {alert, "idverify.alert=true idverify.reason=ErrReplayStore", "error.type=ErrReplayStore,idverify.alert=true,idverify.operation=redirect"},
		"no reason": {signature.Verification{Operation: "callback", Err: errors.New("other"), Duration: 1500 * time.Millisecond}, "idverify.reason=_OTHER", "error.type=_OTHER,idverify.operation=callback"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTelemetry()
			ctx, span := r.caller(t.Context())

			otelidverify.ObserveVerifier(r.providers()...)(ctx, tt.verification)

			span.End()
			r.wantSpans(t, []string{"caller < : Unset " + tt.span})
			r.wantSeries(t, []string{"idverify.verification.duration{" + tt.series + "} 1"})
			if got := r.sums(t)["idverify.verification.duration"]; got != 1.5 {
				t.Errorf("sum of durations = %v s, want 1.5 s", got)
			}
		})
	}
}
