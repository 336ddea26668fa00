package signature_test

import (
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/attack"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/signature"
)

func TestVerifier_AcceptsConcurrentCopiesOnce(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, signature.VerifierOptions{Replay: signature.NewMemoryReplayStore(0)})
	w := signedCallback()
	var accepted, replayed atomic.Int32
	var wg sync.WaitGroup

	for range 50 {
		r := request(t, w)
		wg.Go(func() {
			switch _, err := v.VerifyCallback(r); {
			case err == nil:
				accepted.Add(1)
			case errors.Is(err, signature.ErrReplay):
				replayed.Add(1)
			}
		})
	}
	wg.Wait()

	if accepted.Load() != 1 || replayed.Load() != 49 {
		t.Errorf("%d accepted, %d rejected with ErrReplay; want 1 and 49", accepted.Load(), replayed.Load())
	}
}

// TestVerifier_RejectsModifiedCopies changes parts of a copy that the signature does not cover.
func TestVerifier_RejectsModifiedCopies(t *testing.T) {
	t.Parallel()
	reverseParameters := func(w *attack.Message) {
		params := strings.Split(strings.TrimPrefix(w.Get("Authorization"), "Signature "), ",")
		slices.Reverse(params)
		w.Set("Authorization", "Signature "+strings.Join(params, ","))
	}
	for name, respell := range map[string]func(*attack.Message){
		"parameters reordered": reverseParameters,
		"additional parameter": auth("Signature ", `Signature x="1",`),
		"additional header":    add("X-Request-Id", "2"),
		"absolute target":      toTarget("https://" + host + target),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVerifier(t, signature.VerifierOptions{Replay: signature.NewMemoryReplayStore(0)})
			w := signedCallback()
			must(v.VerifyCallback(request(t, w)))(t)
			respell(w)

			_, err := v.VerifyCallback(request(t, w))

			if !errors.Is(err, signature.ErrReplay) {
				t.Errorf("error = %v, want ErrReplay", err)
			}
		})
	}
}

func TestVerifier_ClaimsOnlyValidMessages(t *testing.T) {
	t.Parallel()
	store := signature.NewMemoryReplayStore(0)
	v := newVerifier(t, signature.VerifierOptions{Replay: store})
	changed := signedCallback()
	withBody(strings.ToUpper(body))(changed)

	_, bad := v.VerifyCallback(request(t, changed))
	before := store.Claims()
	_, good := v.VerifyCallback(request(t, signedCallback()))

	if !errors.Is(bad, signature.ErrDigest) || before != 0 {
		t.Errorf("changed copy: error = %v, %d claims; want ErrDigest and none", bad, before)
	}
	if good != nil {
		t.Errorf("original after a changed copy: error = %v, want none", good)
	}
}

func TestVerifier_AcceptsRetry(t *testing.T) {
	t.Parallel()
	later := now
	store := signature.NewMemoryReplayStore(0)
	v := newVerifier(t, signature.VerifierOptions{Replay: store, Now: func() time.Time { return later }})
	_, first := v.VerifyCallback(request(t, signedCallback()))
	later = now.Add(10 * time.Second)

	_, second := v.VerifyCallback(request(t, messageKinds[0].signedAt(later)))

	if first != nil || second != nil {
		t.Errorf("first error = %v, second error = %v; want none: each attempt has a new signature", first, second)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func TestVerifier_ClaimTTL(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ skew, date, want time.Duration }{
		{0, -5 * time.Second, 11 * time.Second},
		{0, 0, 11 * time.Second},
		{0, 5 * time.Second, 11 * time.Second},
		{time.Minute, -time.Minute, 121 * time.Second},
		{24 * time.Hour, 0, 48*time.Hour + time.Second},
	} {
		for _, kind := range messageKinds {
			var got time.Duration
			v := newVerifier(t, signature.VerifierOptions{ClockSkew: tt.skew, Replay: storeFunc(func(_ context.Context, _ [32]byte, ttl time.Duration) (bool, error) {
				got = ttl
				return true, nil
			})})

			must(kind.verify(v, request(t, kind.signedAt(now.Add(tt.date)))))(t)

			if got != tt.want {
				t.Errorf("%s, date %v from now, skew %v: ttl = %v, want %v", kind.name, tt.date, tt.skew, got, tt.want)
			}
		}
	}
}

func TestVerifier_ReplayStoreUnavailable(t *testing.T) {
	t.Parallel()
	outage := errors.New("connection refused")
	full := signature.NewMemoryReplayStore(1)
	must(full.Claim(t.Context(), [32]byte{1}, time.Hour))(t)
	for name, store := range map[string]signature.ReplayStore{"failing": failingStore(outage), "full": full} {
		_, err := newVerifier(t, signature.VerifierOptions{Replay: store}).VerifyCallback(request(t, signedCallback()))

		wantRetryable(t, err, signature.ErrReplayStore)
		if name == "failing" && !errors.Is(err, outage) {
			t.Errorf("error = %v does not wrap its cause", err)
		}
	}
}

// TestMemoryReplayStore_Claim also checks that the store counts each claim until it expires,
// including a claim of an ID whose earlier claim has expired.
func TestMemoryReplayStore_Claim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := signature.NewMemoryReplayStore(3)
		claim := func(id byte, ttl time.Duration) string {
			fresh, err := s.Claim(t.Context(), [32]byte{id}, ttl)
			if !fresh && errors.Is(err, signature.ErrReplayStore) {
				return "full"
			}
			return fmt.Sprint(fresh)
		}
		for _, step := range []struct {
			wait time.Duration
			id   byte
			ttl  time.Duration
			want string
			n    int // claims afterwards
		}{
			{0, 1, 10 * time.Second, "true", 1},
			{0, 1, 10 * time.Second, "false", 1},
			{0, 2, 5 * time.Second, "true", 2},
			{0, 3, 10 * time.Second, "true", 3},
			{0, 4, 10 * time.Second, "full", 3},
			{5 * time.Second, 2, 5 * time.Second, "false", 3}, // inclusive
			{time.Nanosecond, 2, 5 * time.Second, "true", 3},  // expired, although an earlier claim is not
			{0, 4, 10 * time.Second, "full", 3},
			{5*time.Second - time.Nanosecond, 1, 5 * time.Second, "false", 3},
			{time.Nanosecond, 4, 5 * time.Second, "true", 3},
			{0, 5, 5 * time.Second, "full", 3},
			{11 * time.Second, 6, 5 * time.Second, "true", 1}, // all others have expired
			{5*time.Second + time.Nanosecond, 6, 5 * time.Second, "true", 1},
			{0, 6, 5 * time.Second, "false", 1},
		} {
			time.Sleep(step.wait) // the bubble's clock

			if got, n := claim(step.id, step.ttl), s.Claims(); got != step.want || n != step.n {
				t.Fatalf("step %+v: got %s and %d claims", step, got, n)
			}
		}
	})
}

func TestMemoryReplayStore_Bounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := signature.NewMemoryReplayStore(100)
		for i := range 10_000 {
			if _, err := s.Claim(t.Context(), [32]byte{byte(i), byte(i >> 8)}, 50*time.Millisecond); err != nil {
				t.Fatalf("claim %d: error = %v, want none: expired claims must not count", i, err)
			}
			time.Sleep(time.Millisecond) // the bubble's clock
		}
		if n := s.Claims(); n > 100 {
			t.Errorf("%d claims stored, want at most 100", n)
		}
	})
}

func TestNewMemoryReplayStore_DefaultSize(t *testing.T) {
	t.Parallel()
	const size = 131_072
	s := signature.NewMemoryReplayStore(0)
	for i := range size {
		if fresh, err := s.Claim(t.Context(), [32]byte{byte(i), byte(i >> 8), byte(i >> 16)}, time.Hour); !fresh || err != nil {
			t.Fatalf("claim %d: fresh = %v, error = %v; want true", i, fresh, err)
		}
	}

	if _, err := s.Claim(t.Context(), [32]byte{31: 1}, time.Hour); !errors.Is(err, signature.ErrReplayStore) {
		t.Errorf("claim %d: error = %v, want ErrReplayStore", size, err)
	}
}

func TestVerifier_WithoutReplayStore(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, signature.VerifierOptions{Replay: signature.NewMemoryReplayStore(0)})
	w := signedRedirect()
	must(v.VerifyRedirect(request(t, w)))(t)

	_, err := v.WithoutReplayStore().VerifyRedirect(request(t, w))
	_, original := v.VerifyRedirect(request(t, w))

	if err != nil || !errors.Is(original, signature.ErrReplay) {
		t.Errorf("errors = %v without the store, %v with it; want none and ErrReplay", err, original)
	}
}

// bubbleStart is the initial time of every synctest bubble.
var bubbleStart = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

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
					must(kind.verify(v, request(t, w)))(t)

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
		delay time.Duration
		late  bool
	}{
		{"9 s", 9 * time.Second, true},
		{"just beyond the skew", 5*time.Second + time.Nanosecond, true},
		{"exactly the skew", 5 * time.Second, false},
		{"clock set back by 9 s", -9 * time.Second, true},
	} {
		for name, store := range map[string]*signature.MemoryReplayStore{"no replay store": nil, "replay store": signature.NewMemoryReplayStore(0)} {
			t.Run(tt.name+", "+name, func(t *testing.T) {
				t.Parallel()
				clock := now
				opts := signature.VerifierOptions{Now: func() time.Time { return clock }}
				if store != nil {
					opts.Replay = store
				}
				r := request(t, signedCallback())
				r.Body = io.NopCloser(io.MultiReader(readerFunc(func([]byte) (int, error) {
					clock = now.Add(tt.delay)
					return 0, io.EOF
				}), r.Body))

				_, err := newVerifier(t, opts).VerifyCallback(r)

				if !tt.late {
					if err != nil {
						t.Errorf("error = %v, want none", err)
					}
					return
				}
				wantRetryable(t, err, signature.ErrTooLate)
				if store != nil && store.Claims() != 0 {
					t.Error("the callback was claimed, so the next attempt would be rejected")
				}
			})
		}
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
			slow := keyFunc(func(ctx context.Context, id string) (*rsa.PublicKey, error) {
				clock = now.Add(6 * time.Second)
				return serviceKeys().PublicKey(ctx, id)
			})
			v := verifierFor(t, slow, signature.VerifierOptions{Replay: store, Now: func() time.Time { return clock }}, host)

			_, err := kind.verify(v, request(t, kind.signedAt(now)))

			wantRetryable(t, err, signature.ErrTooLate)
			if want := "it is now 6s old"; !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("error = %v, want %q", err, want)
			}
			if store.Claims() != 0 {
				t.Error("the message was claimed, want no claim")
			}
		})
	}
}
