package signature_test

import (
	"context"
	"crypto/rsa"
	"errors"
	"testing"

	"github.com/idverify/idverify-go/internal/attack"
	"github.com/idverify/idverify-go/signature"
)

// rejectedEarly contains the reasons that must be found without a key lookup.
var rejectedEarly = map[error]bool{signature.ErrMalformed: true, signature.ErrAlgorithm: true, signature.ErrCoverage: true, signature.ErrHost: true, signature.ErrSkew: true, signature.ErrTooLarge: true}

func TestVerifier_RejectsAttacks(t *testing.T) {
	t.Parallel()
	for _, kind := range messageKinds {
		for _, a := range kind.attacks() {
			t.Run(kind.name+"/"+a.Name, func(t *testing.T) {
				t.Parallel()
				lookups := 0
				source := keyFunc(func(ctx context.Context, id string) (*rsa.PublicKey, error) {
					lookups++
					return serviceKeys().PublicKey(ctx, id)
				})
				v := verifierFor(t, source, signature.VerifierOptions{}, host)

				m, err := kind.verify(v, request(t, a.Message(kind.setup)))

				if m != nil || !errors.Is(err, a.Want) {
					t.Fatalf("message returned: %v, error = %v, want %v", m != nil, err, a.Want)
				}
				if e, ok := errors.AsType[*signature.Error](err); !ok || e.Retryable() {
					t.Errorf("error = %v is retryable, so the service would send the message again", err)
				}
				if rejectedEarly[a.Want] && lookups > 0 {
					t.Error("the key was looked up: anyone could trigger key lookups")
				}
			})
		}
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
	for _, kind := range messageKinds {
		for _, variant := range kind.accepted() {
			if _, err := kind.verify(v, request(t, variant.Message(kind.setup))); err != nil {
				t.Errorf("%s: %s: error = %v, want none", kind.name, variant.Name, err)
			}
		}
	}
}
