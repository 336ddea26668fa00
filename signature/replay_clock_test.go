package signature_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/attack"
	"github.com/idverify/idverify-go/internal/synctest"

	"github.com/idverify/idverify-go/signature"
)

// bubbleStart is the initial time of every synctest bubble.
var bubbleStart = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// messageKind signs and verifies messages of one kind, callbacks or redirects.
type messageKind struct {
	name   string
	make   func() *attack.Message
	verify func(*signature.Verifier, *http.Request) (*signature.Message, error)
}

var messageKinds = []messageKind{
	{"callback", newCallback, (*signature.Verifier).VerifyCallback},
	{"redirect", newRedirect, (*signature.Verifier).VerifyRedirect},
}

// signedAt returns a signed message with the given date.
func (k messageKind) signedAt(date time.Time) *attack.Message {
	w := k.make()
	w.Set("Date", date.Format(http.TimeFormat))
	w.Sign()
	return w
}

// TestVerifier_ClaimOutlivesDate sends a copy of a message while its date is valid by the clock of
// the verifier. That clock differs from the one at the time of the original: it belongs to another
// replica, or it was set.
func TestVerifier_ClaimOutlivesDate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name             string
		original, copied time.Duration // how far the clock is ahead of the service's clock
		after            time.Duration
	}{
		{"second replica 4 s behind", 4 * time.Second, 0, 3800 * time.Millisecond},
		{"clock set back by 4 s", 4 * time.Second, 0, 4500 * time.Millisecond},
		{"clocks at both edges of the skew", 5 * time.Second, -5 * time.Second, 10 * time.Second},
		{"second replica 4 s ahead", 0, 4 * time.Second, time.Second},
		{"same clock at the edge", 0, 0, 5 * time.Second},
	} {
		for _, kind := range messageKinds {
			w := kind.signedAt(bubbleStart) // outside the bubble, because FIPS mode cannot sign in one
			t.Run(kind.name+", "+tt.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					offset := tt.original
					v := newVerifier(t, signature.VerifierOptions{
						Replay: signature.NewMemoryReplayStore(0),
						Now:    func() time.Time { return time.Now().Add(offset) },
					})
					if _, err := kind.verify(v, request(t, w)); err != nil {
						t.Fatal(err)
					}

					time.Sleep(tt.after) // the bubble's clock
					offset = tt.copied
					_, err := kind.verify(v, request(t, w))

					if !errors.Is(err, signature.ErrReplay) {
						t.Errorf("copy after %v: error = %v, want ErrReplay", tt.after, err)
					}
				})
			})
		}
	}
}

// TestVerifier_ReplayUnderSecondKeyID resends a message with another ID of the same key. The key ID
// is not signed, so anyone can change it.
func TestVerifier_ReplayUnderSecondKeyID(t *testing.T) {
	t.Parallel()
	key := &keys()["service-1"].PublicKey
	source := signature.StaticKeys{keyID: key, "other": key}
	for _, kind := range messageKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			v := verifierFor(t, source, signature.VerifierOptions{Replay: signature.NewMemoryReplayStore(0)}, host)
			copied := kind.make()
			copied.KeyID = "other"
			copied.Sign() // PKCS #1 v1.5 signatures are deterministic, so only the key ID differs

			_, first := kind.verify(v, request(t, kind.signedAt(now)))
			_, second := kind.verify(v, request(t, copied))

			if first != nil || !errors.Is(second, signature.ErrReplay) {
				t.Errorf("original: error = %v, copy: error = %v; want nil and ErrReplay", first, second)
			}
		})
	}
}

// TestVerifier_ChecksDateAfterBody delays the body of a message whose headers arrived in time.
func TestVerifier_ChecksDateAfterBody(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		store signature.ReplayStore
		delay time.Duration
		want  error
	}{
		{"9 s, no replay store", nil, 9 * time.Second, signature.ErrTooLate},
		{"9 s, replay store", signature.NewMemoryReplayStore(0), 9 * time.Second, signature.ErrTooLate},
		{"just beyond the skew", nil, 5*time.Second + time.Nanosecond, signature.ErrTooLate},
		{"exactly the skew", nil, 5 * time.Second, nil},
		{"clock set back by 9 s", nil, -9 * time.Second, signature.ErrTooLate},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			clock := now
			v := newVerifier(t, signature.VerifierOptions{Replay: tt.store, Now: func() time.Time { return clock }})
			r := request(t, signedCallback())
			delayed := func([]byte) (int, error) {
				clock = now.Add(tt.delay)
				return 0, io.EOF
			}
			r.Body = io.NopCloser(io.MultiReader(readerFunc(delayed), r.Body))
			passed := false
			response := httptest.NewRecorder()

			v.RequireCallback(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed = true })).ServeHTTP(response, r)

			if tt.want == nil {
				if !passed {
					t.Errorf("response = %d, want the callback handled", response.Code)
				}
				return
			}
			if passed || response.Code != http.StatusServiceUnavailable {
				t.Errorf("handled: %v, response = %d; want 503, so that the service retries", passed, response.Code)
			}
			clock = now
			r = request(t, signedCallback())
			r.Body = io.NopCloser(io.MultiReader(readerFunc(delayed), r.Body))
			if _, err := v.VerifyCallback(r); !errors.Is(err, tt.want) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
		})
	}
}

// TestVerifier_ChecksDateAfterKeyLookup delays the key lookup.
func TestVerifier_ChecksDateAfterKeyLookup(t *testing.T) {
	t.Parallel()
	for _, kind := range messageKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			clock := now
			store := signature.NewMemoryReplayStore(0)
			v, err := signature.NewVerifier(slowKeys{serviceKeys(), func() { clock = now.Add(6 * time.Second) }}, []string{host}, &signature.VerifierOptions{
				Replay: store,
				Now:    func() time.Time { return clock },
			})
			if err != nil {
				t.Fatal(err)
			}

			_, err = kind.verify(v, request(t, kind.signedAt(now)))

			if e, ok := errors.AsType[*signature.Error](err); !ok || !e.Retryable() || !errors.Is(err, signature.ErrTooLate) {
				t.Errorf("error = %v, want ErrTooLate, which is retryable", err)
			} else if !strings.Contains(err.Error(), "it is now 6s old") {
				t.Errorf("error = %v, want the age of the date", err)
			}
			if store.Claims() != 0 {
				t.Error("the message was claimed, want no claim")
			}
		})
	}
}
