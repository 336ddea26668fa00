package signature_test

import (
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/signature"
)

// TestVerifier_KeyStrength uses keys that did not sign the message. A key that is strong enough is
// used and fails with ErrSignature.
func TestVerifier_KeyStrength(t *testing.T) {
	t.Parallel()
	modulus := func(bits int) *big.Int {
		n := new(big.Int).Lsh(big.NewInt(1), uint(bits-1))
		return n.SetBit(n, 0, 1)
	}
	even := new(big.Int).Lsh(big.NewInt(1), 2047)
	for _, tt := range []struct {
		name string
		key  rsa.PublicKey
		want error
	}{
		{"2048 bits", rsa.PublicKey{N: modulus(2048), E: 65537}, signature.ErrSignature},
		{"2047 bits", rsa.PublicKey{N: modulus(2047), E: 65537}, signature.ErrAlgorithm},
		{"4096 bits", rsa.PublicKey{N: modulus(4096), E: 65537}, signature.ErrSignature},
		{"4097 bits", rsa.PublicKey{N: modulus(4097), E: 65537}, signature.ErrAlgorithm},
		{"even modulus", rsa.PublicKey{N: even, E: 65537}, signature.ErrAlgorithm},
		{"no modulus", rsa.PublicKey{E: 65537}, signature.ErrAlgorithm},
		{"exponent 3", rsa.PublicKey{N: modulus(2048), E: 3}, signature.ErrSignature},
		{"exponent 1", rsa.PublicKey{N: modulus(2048), E: 1}, signature.ErrAlgorithm},
		{"exponent 2", rsa.PublicKey{N: modulus(2048), E: 2}, signature.ErrAlgorithm},
		{"exponent 4", rsa.PublicKey{N: modulus(2048), E: 4}, signature.ErrAlgorithm},
		{"exponent 0", rsa.PublicKey{N: modulus(2048)}, signature.ErrAlgorithm},
		{"exponent -3", rsa.PublicKey{N: modulus(2048), E: -3}, signature.ErrAlgorithm},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := verifierFor(t, signature.StaticKeys{keyID: &tt.key}, signature.VerifierOptions{}, host)

			_, err := v.VerifyCallback(request(t, signedCallback()))

			if !errors.Is(err, tt.want) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
		})
	}
}

// TestVerifier_KeySourceErrors makes a key source fail, also with errors of this package. Only
// ErrUnknownKey may reject the message permanently.
func TestVerifier_KeySourceErrors(t *testing.T) {
	t.Parallel()
	outage := errors.New("vault sealed")
	type row struct {
		source keyFunc
		wraps  error
	}
	rows := map[string]row{
		"error":               {failingKeys(outage), outage},
		"no key and no error": {failingKeys(nil), signature.ErrKeySource},
		"canceled context":    {func(ctx context.Context, _ string) (*rsa.PublicKey, error) { return nil, ctx.Err() }, context.Canceled},
	}
	for _, reason := range []error{signature.ErrSignature, signature.ErrReplay, signature.ErrMalformed, signature.ErrReplayStore, signature.ErrTooLate, signature.ErrKeySource} {
		for name, cause := range map[string]error{
			"reason":         reason,
			"error":          &signature.Error{Operation: "callback", Reason: reason},
			"wrapped":        fmt.Errorf("vault: %w", &signature.Error{Operation: "callback", Reason: reason}),
			"wrapped reason": fmt.Errorf("vault: %w", reason),
		} {
			rows[fmt.Sprint(name, " ", reason)] = row{failingKeys(cause), signature.ErrKeySource}
		}
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tt := range rows {
		t.Run(name, func(t *testing.T) {
			_, err := verifierFor(t, tt.source, signature.VerifierOptions{}, host).VerifyCallback(request(t, signedCallback()).WithContext(canceled))

			wantRetryable(t, err, signature.ErrKeySource, tt.wraps)
			if e, ok := errors.AsType[*signature.Error](err); !ok || e.Reason != signature.ErrKeySource || e.Operation != "callback" {
				t.Errorf("error = %v, want reason ErrKeySource of the callback", err)
			}
		})
	}
	unknown := failingKeys(fmt.Errorf("vault: %w", signature.ErrUnknownKey))
	if _, err := verifierFor(t, unknown, signature.VerifierOptions{}, host).VerifyCallback(request(t, signedCallback())); !errors.Is(err, signature.ErrUnknownKey) || !strings.Contains(err.Error(), "no usable key with this ID") {
		t.Errorf("error = %v, want ErrUnknownKey", err)
	}
}

func TestStaticKeys_PublicKey(t *testing.T) {
	t.Parallel()
	key, err := serviceKeys().PublicKey(t.Context(), keyID)
	_, unknown := signature.StaticKeys{"nil": nil}.PublicKey(t.Context(), "nil")

	if err != nil || key != &keys()["service-1"].PublicKey {
		t.Errorf("key = %v, error = %v; want the key", key, err)
	}
	if want := "signature: key lookup: no key with this ID"; !errors.Is(unknown, signature.ErrUnknownKey) || unknown.Error() != want {
		t.Errorf("error = %v, want ErrUnknownKey with %q", unknown, want)
	}
}
