package signature_test

import (
	"context"
	"crypto/rsa"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/idverify/idverify-go/internal/attack"
	"github.com/idverify/idverify-go/signature"
)

// countingKeys counts key lookups.
type countingKeys struct {
	signature.StaticKeys
	lookups atomic.Int32
}

func (k *countingKeys) PublicKey(ctx context.Context, id string) (*rsa.PublicKey, error) {
	k.lookups.Add(1)
	return k.StaticKeys.PublicKey(ctx, id)
}

// rejectedEarly contains the reasons that must be found without a key lookup.
var rejectedEarly = map[error]bool{signature.ErrMalformed: true, signature.ErrAlgorithm: true, signature.ErrCoverage: true, signature.ErrHost: true, signature.ErrSkew: true, signature.ErrTooLarge: true}

func TestVerifier_RejectsCallbackAttacks(t *testing.T) {
	t.Parallel()
	for _, a := range attack.Callbacks() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			reject(t, a, setupFor("/callbacks/phone", "tenant=7"), (*signature.Verifier).VerifyCallback)
		})
	}
}

func TestVerifier_RejectsRedirectAttacks(t *testing.T) {
	t.Parallel()
	for _, a := range attack.Redirects() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			reject(t, a, setupFor("/back", ""), (*signature.Verifier).VerifyRedirect)
		})
	}
}

func reject(t *testing.T, a attack.Attack, s attack.Setup, verify func(*signature.Verifier, *http.Request) (*signature.Message, error)) {
	source := &countingKeys{StaticKeys: serviceKeys()}
	v := verifierFor(t, source, signature.VerifierOptions{}, host)

	m, err := verify(v, request(t, a.Message(s)))

	if m != nil || !errors.Is(err, a.Want) {
		t.Fatalf("message returned: %v, error = %v, want %v", m != nil, err, a.Want)
	}
	e, ok := errors.AsType[*signature.Error](err)
	if !ok || e.Retryable() {
		t.Errorf("error = %v is retryable, so the service would send the message again", err)
	}
	if n := source.lookups.Load(); rejectedEarly[a.Want] && n > 0 {
		t.Errorf("the key was looked up: anyone could trigger key lookups")
	}
}

// TestVerifier_AttackCounts finds rows that were lost: a removed row makes no other test fail.
func TestVerifier_AttackCounts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ got, want int }{
		"callbacks":          {len(attack.Callbacks()), 167},
		"redirects":          {len(attack.Redirects()), 85},
		"accepted callbacks": {len(attack.AcceptedCallbacks()), 31},
		"accepted redirects": {len(attack.AcceptedRedirects()), 7},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %d rows, want %d", name, tt.got, tt.want)
		}
	}
}

func TestVerifier_AcceptsTable(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, signature.VerifierOptions{})
	for _, variant := range attack.AcceptedCallbacks() {
		if _, err := v.VerifyCallback(request(t, variant.Message(setupFor("/callbacks/phone", "tenant=7")))); err != nil {
			t.Errorf("callback: %s: error = %v, want none", variant.Name, err)
		}
	}
	for _, variant := range attack.AcceptedRedirects() {
		if _, err := v.VerifyRedirect(request(t, variant.Message(setupFor("/back", "")))); err != nil {
			t.Errorf("redirect: %s: error = %v, want none", variant.Name, err)
		}
	}
}
