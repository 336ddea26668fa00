package signature_test

import (
	"testing"
	"time"
	"unsafe"

	"github.com/idverify/idverify-go/signature"
)

// afterSuspend returns the reading of time.Now on a machine that was suspended at t. It advances
// only the wall clock, because Linux stops the monotonic clock during a suspend. Package time has
// no function for this.
func afterSuspend(tb testing.TB, t time.Time, slept time.Duration) time.Time {
	tb.Helper()
	woken := t
	// With a monotonic clock, bits 30 to 62 of the first word of a time.Time contain the seconds.
	*(*uint64)(unsafe.Pointer(&woken)) += uint64(slept/time.Second) << 30
	if woken.Sub(t) != 0 || woken.Round(0).Sub(t.Round(0)) != slept {
		tb.Fatal("the layout of time.Time has changed: adapt afterSuspend")
	}
	return woken
}

// TestJWKS_ExpiryByBothClocks makes the wall clock and the monotonic clock differ. A key set that
// is expired by either clock must be fetched again, or a revoked key remains in use.
func TestJWKS_ExpiryByBothClocks(t *testing.T) {
	t.Parallel()
	const maxAge = 5 * time.Minute
	for _, tt := range []struct {
		name      string
		read      func(tb testing.TB, fetched time.Time) time.Time // the clock after the key is revoked
		refetched bool
	}{
		{"suspended for 72 h", func(tb testing.TB, fetched time.Time) time.Time {
			return afterSuspend(tb, fetched.Add(time.Minute), 72*time.Hour)
		}, true},
		{"suspended for less than the max-age", func(tb testing.TB, fetched time.Time) time.Time {
			return afterSuspend(tb, fetched, maxAge-time.Second)
		}, false},
		{"wall clock set back while the monotonic clock runs", func(tb testing.TB, fetched time.Time) time.Time {
			return afterSuspend(tb, fetched.Add(maxAge), -time.Minute)
		}, true},
		{"wall clock set back to before the fetch", func(tb testing.TB, fetched time.Time) time.Time {
			return afterSuspend(tb, fetched.Add(time.Second), -time.Hour)
		}, true},
		{"no monotonic clock, wall clock before the fetch", func(_ testing.TB, fetched time.Time) time.Time {
			return fetched.Round(0).Add(-time.Nanosecond)
		}, true},
		{"no monotonic clock, max-age reached", func(_ testing.TB, fetched time.Time) time.Time {
			return fetched.Round(0).Add(maxAge)
		}, true},
		{"no monotonic clock, max-age not reached", func(_ testing.TB, fetched time.Time) time.Time {
			return fetched.Round(0).Add(maxAge - time.Nanosecond)
		}, false},
		{"both clocks at the fetch", func(_ testing.TB, fetched time.Time) time.Time { return fetched }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newKeyServer(t, jwk("revoked", "service-1"), jwk("other", "service-2"))
			fetched := time.Now()
			s.set(fetched)
			j := s.jwks(t, signature.JWKSOptions{})
			s.want(t, j, "revoked", "service-1")
			s.publish(jwk("other", "service-2"))

			s.set(tt.read(t, fetched))

			if tt.refetched {
				s.wantError(t, j, "revoked", signature.ErrUnknownKey)
			} else {
				s.want(t, j, "revoked", "service-1")
			}
			s.want(t, j, "other", "service-2")
		})
	}
}

// TestJWKS_MaxStaleByBothClocks does the same with a key set that cannot be fetched again.
func TestJWKS_MaxStaleByBothClocks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		read   func(tb testing.TB, fetched time.Time) time.Time
		usable bool
	}{
		{"suspended beyond MaxStale", func(tb testing.TB, fetched time.Time) time.Time {
			return afterSuspend(tb, fetched.Add(time.Minute), time.Hour)
		}, false},
		{"wall clock set back, monotonic clock beyond MaxStale", func(tb testing.TB, fetched time.Time) time.Time {
			return afterSuspend(tb, fetched.Add(time.Hour+time.Nanosecond), -time.Minute)
		}, false},
		{"wall clock before the fetch", func(_ testing.TB, fetched time.Time) time.Time { return fetched.Add(-time.Hour) }, false},
		{"both clocks at MaxStale", func(_ testing.TB, fetched time.Time) time.Time { return fetched.Add(time.Hour) }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newKeyServer(t, jwk("a", "service-1"))
			fetched := time.Now()
			s.set(fetched)
			j := s.jwks(t, signature.JWKSOptions{MaxStale: time.Hour})
			s.want(t, j, "a", "service-1")
			s.respond(respondWith(503, "", ""))

			s.set(tt.read(t, fetched))

			if tt.usable {
				s.want(t, j, "a", "service-1")
			} else {
				s.wantError(t, j, "a", signature.ErrKeySource)
			}
		})
	}
}

// TestJWKS_ClockSetBackEndsPauses uses a clock without monotonic readings. A pause must not
// last until the wall clock has caught up.
func TestJWKS_ClockSetBackEndsPauses(t *testing.T) {
	t.Parallel()
	t.Run("after a failed fetch", func(t *testing.T) {
		t.Parallel()
		s := newKeyServer(t, jwk("a", "service-1"))
		s.respond(respondWith(503, "", ""))
		j := s.jwks(t, signature.JWKSOptions{})
		s.wantError(t, j, "a", signature.ErrKeySource)
		s.respond(nil)

		s.advance(-time.Hour)

		s.want(t, j, "a", "service-1")
	})
	t.Run("after a fetch for an unknown key", func(t *testing.T) {
		t.Parallel()
		s := newKeyServer(t, jwk("a", "service-1"))
		j := s.jwks(t, signature.JWKSOptions{})
		s.want(t, j, "a", "service-1")
		s.wantError(t, j, "b", signature.ErrUnknownKey)
		s.publish(jwk("b", "service-2"))

		s.advance(-time.Hour)

		s.want(t, j, "b", "service-2")
	})
}
