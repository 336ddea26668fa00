package signature_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/signature"
)

// bubbleKeys serves a key set without sockets, in a bubble. Each request takes a second.
type bubbleKeys struct {
	requests []time.Time // begin of each request
	fail     error
}

func (b *bubbleKeys) RoundTrip(r *http.Request) (*http.Response, error) {
	b.requests = append(b.requests, time.Now()) // the JWKS has one request at a time
	fail := b.fail
	select {
	case <-time.After(time.Second):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if fail != nil {
		return nil, fail
	}
	return oneKey(r)
}

func TestJWKS_RefreshCoalesces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const callers = 1000
		server := new(bubbleKeys)
		j := jwksOver(t, server, signature.JWKSOptions{})
		var wg sync.WaitGroup
		errs := make(chan error, 2*callers)

		for range callers {
			wg.Go(func() { errs <- j.Refresh(t.Context()) })
			wg.Go(func() { _, err := j.PublicKey(t.Context(), "a"); errs <- err })
		}
		wg.Wait()
		close(errs)

		for err := range errs {
			if err != nil {
				t.Fatalf("error = %v, want none", err)
			}
		}
		if len(server.requests) != 1 {
			t.Errorf("%d requests for %d calls and as many lookups, want 1", len(server.requests), callers)
		}
	})
}

// TestJWKS_RefreshPauses calls Refresh every 100 ms, for a minute with a working service, for a
// minute of an outage, and again for a minute.
func TestJWKS_RefreshPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := new(bubbleKeys)
		j := jwksOver(t, server, signature.JWKSOptions{})
		began := time.Now()
		failed := make(map[bool]int)

		for phase := range 3 {
			server.fail = nil
			if phase == 1 {
				server.fail = errors.New("connection refused")
			}
			for time.Since(began) < time.Duration(phase+1)*time.Minute {
				before := len(server.requests)
				err := j.Refresh(t.Context())
				if err != nil {
					failed[len(server.requests) > before]++
				}
				if err != nil && (!errors.Is(err, signature.ErrKeySource) || err.Error() != "signature: key set refresh: get key set: connection refused") {
					t.Fatalf("error = %v, want that of the last fetch", err)
				}
				time.Sleep(100 * time.Millisecond)
			}
		}

		var starts []string
		for _, start := range server.requests {
			starts = append(starts, start.Sub(began).Round(time.Second).String())
		}
		// A successful fetch is followed by 30 s without a request. The pauses after failed ones are
		// 1, 2, 4, 8, 16 and 30 s, counted from the end of the request, which takes 1 s.
		want := "0s 31s 1m2s 1m4s 1m7s 1m12s 1m21s 1m38s 2m9s 2m40s"
		if got := strings.Join(starts, " "); got != want {
			t.Errorf("requests at %s, want %s", got, want)
		}
		if failed[true] != 6 || failed[false] == 0 {
			t.Errorf("%d failed calls with a request and %d without, want 6 and some", failed[true], failed[false])
		}
	})
}

func TestJWKS_RefreshRemovesKey(t *testing.T) {
	t.Parallel()
	s := newKeyServer(t, jwk("stolen", "service-1"), jwk("b", "service-2"))
	s.cacheControl = "max-age=86400"
	j := s.jwks(t, signature.JWKSOptions{})
	s.want(t, j, "stolen", "service-1")
	s.publish(jwk("b", "service-2"))

	s.advance(30*time.Second - time.Nanosecond)
	young := j.Refresh(t.Context())
	s.want(t, j, "stolen", "service-1")
	requests := s.fetches()
	s.advance(time.Nanosecond)
	old := j.Refresh(t.Context())

	if young != nil || requests != 1 {
		t.Errorf("before MinRefetch: error = %v and %d requests, want none and only the first", young, requests)
	}
	if old != nil || s.fetches() != 2 {
		t.Errorf("after MinRefetch: error = %v and %d requests in total, want none and 2", old, s.fetches())
	}
	s.wantError(t, j, "stolen", signature.ErrUnknownKey)
}

// TestJWKS_RefreshKeepsUnknownKeyPause checks that readiness probes do not delay the lookup of a
// new key, and do not permit more fetches for invented ones.
func TestJWKS_RefreshKeepsUnknownKeyPause(t *testing.T) {
	t.Parallel()
	s := newKeyServer(t, jwk("a", "service-1"))
	j := s.jwks(t, signature.JWKSOptions{})
	refresh := func() { t.Helper(); noError(t, j.Refresh(t.Context())) }
	refresh()
	s.publish(jwk("a", "service-1"), jwk("new", "service-2"))

	s.want(t, j, "new", "service-2")

	s.advance(29 * time.Second)
	refresh()
	s.wantError(t, j, "invented", signature.ErrKeySource)
	if s.fetches() != 2 {
		t.Errorf("%d fetches, want 2: the refresh, and one for unknown keys", s.fetches())
	}
}

// waitingContext calls begun when a call starts to wait for it.
type waitingContext struct {
	context.Context
	begun func()
}

func (c waitingContext) Done() <-chan struct{} { c.begun(); return c.Context.Done() }

// TestJWKS_KeyPublishedDuringFetch publishes a key after a fetch in progress has read the set. A
// lookup of the key that waits for this fetch must fetch again.
func TestJWKS_KeyPublishedDuringFetch(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*signature.JWKS) error{
		"lookup":  func(j *signature.JWKS) error { _, err := j.PublicKey(t.Context(), "a"); return err },
		"refresh": func(j *signature.JWKS) error { return j.Refresh(t.Context()) },
	} {
		s := newKeyServer(t, jwk("a", "service-1"))
		j := s.jwks(t, signature.JWKSOptions{})
		requested, published := make(chan struct{}), make(chan struct{})
		s.respond(func(w http.ResponseWriter, _ *http.Request) {
			close(requested)
			<-published
			fmt.Fprint(w, keySet(jwk("a", "service-1")))
		})
		first := make(chan error, 1)
		go func() { first <- start(j) }()
		<-requested
		s.respond(nil)
		s.publish(jwk("a", "service-1"), jwk("new", "service-2"))
		waiting := waitingContext{t.Context(), sync.OnceFunc(func() { close(published) })}

		_, err := j.PublicKey(waiting, "new")

		if err := <-first; err != nil {
			t.Errorf("first %s: error = %v, want none", name, err)
		}
		if err != nil {
			t.Errorf("lookup during a %s: error = %v, want none: the key was published before", name, err)
		}
	}
}

func TestJWKS_RefreshCanceled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := new(bubbleKeys)
		j := jwksOver(t, server, signature.JWKSOptions{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()

		err := j.Refresh(ctx)
		_, before := j.Age()
		time.Sleep(time.Second)
		age, after := j.Age()

		if !errors.Is(err, signature.ErrKeySource) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v, want ErrKeySource and that of the context", err)
		}
		if before || !after || age != time.Second/2 {
			t.Errorf("fetched = %v, later %v and %v ago; want the fetch to continue and end after 1 s", before, after, age)
		}
	})
}

// TestJWKS_ClockPanicReleasesLock makes the clock panic in each of its calls on the caller's
// goroutine. The call panics, but must not keep the lock.
func TestJWKS_ClockPanicReleasesLock(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(*signature.JWKS){
		"PublicKey": func(j *signature.JWKS) { _, _ = j.PublicKey(t.Context(), "a") },
		"Refresh":   func(j *signature.JWKS) { _ = j.Refresh(t.Context()) },
	} {
		for reads, panicked := 1, true; panicked; reads++ {
			s := newKeyServer(t, jwk("a", "service-1"), jwk("b", "service-2"))
			armed, read := false, 0
			j := s.jwks(t, signature.JWKSOptions{Now: func() time.Time {
				if read++; armed && read == reads {
					panic("broken clock")
				}
				return s.clock()
			}})
			s.want(t, j, "a", "service-1")
			s.advance(time.Hour)
			s.respond(respondWith(503, "", ""))
			s.wantError(t, j, "c", signature.ErrKeySource) // starts a pause, so that only calls read the clock
			armed, read = true, 0

			panicked = func() (panicked bool) {
				defer func() { panicked = recover() != nil }()
				call(j)
				return false
			}()
			armed = false
			s.want(t, j, "b", "service-2")

			if !panicked && reads < 3 {
				t.Errorf("%s reads the clock %d times, want at least 2", name, reads-1)
			}
		}
	}
}

// A probe that waits for less than a fetch takes succeeds at last, and costs a request per max-age.
func TestJWKS_ReadyRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := new(bubbleKeys)
		j := jwksOver(t, server, signature.JWKSOptions{})
		began, waits := time.Now(), 0

		for time.Since(began) < 11*time.Minute { // a set is used for five
			ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
			before := time.Now()
			err := j.Ready(ctx)
			cancel()
			if time.Since(before) > 0 {
				waits++
			}
			if first := before.Equal(began); (err != nil) != first || first && !(errors.Is(err, signature.ErrKeySource) && errors.Is(err, context.DeadlineExceeded)) {
				t.Fatalf("after %s: error = %v, want ErrKeySource and DeadlineExceeded from the first call only", before.Sub(began), err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()

		if len(server.requests) != 3 || waits != 2 {
			t.Errorf("%d requests, %d calls that waited; want 3, and 2 because a set that is too old is used during its fetch", len(server.requests), waits)
		}
	})
}

func TestJWKS_ReadyUntilMaxStale(t *testing.T) {
	t.Parallel()
	const maxStale = time.Hour
	s := newKeyServer(t, jwk("a", "service-1"))
	s.respond(respondWith(503, "", ""))
	j := s.jwks(t, signature.JWKSOptions{MaxStale: maxStale})
	type step struct {
		name  string
		wait  time.Duration
		down  bool
		ready bool
	}

	for _, st := range []step{
		{"started in an outage", 0, true, false},
		{"first set", time.Minute, false, true},
		{"outage", time.Minute, true, true},
		{"at MaxStale", maxStale - time.Minute, true, true},
		{"after MaxStale", time.Nanosecond, true, false},
		{"recovered", time.Minute, false, true},
	} {
		s.respond(nil)
		if st.down {
			s.respond(respondWith(503, "", ""))
		}
		s.advance(st.wait)

		if err := j.Ready(t.Context()); (err == nil) != st.ready || err != nil && !errors.Is(err, signature.ErrKeySource) {
			t.Errorf("%s: error = %v, want none: %v", st.name, err, st.ready)
		}
		if _, err := j.PublicKey(t.Context(), "a"); (err == nil) != st.ready {
			t.Errorf("%s: lookup error = %v, want one only if not ready", st.name, err)
		}
	}
}

// cachedSet responds with a key set that is age seconds old.
func cachedSet(age int, keys ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "max-age=86400")
		w.Header().Set("Age", fmt.Sprint(age))
		fmt.Fprint(w, keySet(keys...))
	}
}

// wantAge checks the age of the key set.
func wantAge(t *testing.T, j *signature.JWKS, want time.Duration) {
	t.Helper()
	if age, fetched := j.Age(); !fetched || age != want {
		t.Errorf("Age = %v, %t, want %v", age, fetched, want)
	}
}

// wantCached checks that Refresh reports a copy from a cache, after the given number of fetches.
func (s *keyServer) wantCached(t *testing.T, j *signature.JWKS, fetches int) {
	t.Helper()
	err := j.Refresh(t.Context())
	if !errors.Is(err, signature.ErrKeySource) || !strings.Contains(fmt.Sprint(err), "signature: key set refresh: key set came from a cache") {
		t.Errorf("Refresh = %v, want ErrKeySource because of a cache", err)
	}
	if got := s.fetches(); got != fetches {
		t.Errorf("%d fetches, want %d", got, fetches)
	}
}

// A cache ignores the request for a new copy, so a removed key may still be in it.
func TestJWKS_RefreshReportsCache(t *testing.T) {
	t.Parallel()
	s := newKeyServer(t, jwk("removed", "service-1"))
	j := s.jwks(t, signature.JWKSOptions{})
	s.want(t, j, "removed", "service-1")
	s.respond(cachedSet(3600, jwk("removed", "service-1")))
	s.advance(70 * time.Minute)

	s.wantCached(t, j, 2)
	wantAge(t, j, time.Hour)
	s.advance(29 * time.Second)
	s.wantCached(t, j, 2)
	s.advance(time.Second)
	s.wantCached(t, j, 3)
	wantAge(t, j, time.Hour)
}

// A copy that is younger than MinRefetch is as good as the set itself, until it is older.
func TestJWKS_RefreshAcceptsYoungCopy(t *testing.T) {
	t.Parallel()
	s := newKeyServer(t, jwk("removed", "service-1"))
	j := s.jwks(t, signature.JWKSOptions{})
	s.want(t, j, "removed", "service-1")
	s.respond(cachedSet(10, jwk("b", "service-2")))
	s.advance(time.Hour)

	err := j.Refresh(t.Context())

	if err != nil {
		t.Errorf("Refresh = %v, want nil", err)
	}
	s.wantError(t, j, "removed", signature.ErrKeySource)
	wantAge(t, j, 10*time.Second)
	fetches := s.fetches()
	s.advance(20*time.Second - 1)
	if err := j.Refresh(t.Context()); err != nil || s.fetches() != fetches {
		t.Errorf("Refresh = %v after %d fetches, want nil and no fetch", err, s.fetches()-fetches)
	}
	s.advance(1)
	s.wantCached(t, j, fetches)
	s.advance(10 * time.Second)
	if err := j.Refresh(t.Context()); err != nil || s.fetches() != fetches+1 {
		t.Errorf("Refresh = %v after %d fetches, want nil and one fetch", err, s.fetches()-fetches)
	}
}

// Another cache has an older copy, with a key that was removed in the meantime.
func TestJWKS_OlderCopyKeepsSet(t *testing.T) {
	t.Parallel()
	s := newKeyServer(t, jwk("b", "service-2"))
	s.cacheControl = "max-age=3600"
	j := s.jwks(t, signature.JWKSOptions{MaxStale: 2 * time.Hour})
	s.want(t, j, "b", "service-2")
	s.respond(cachedSet(40_000, jwk("removed", "service-1"), jwk("b", "service-2")))
	s.advance(31 * time.Second)

	s.wantError(t, j, "removed", signature.ErrKeySource)
	wantAge(t, j, 31*time.Second)
	s.want(t, j, "b", "service-2")
	before := s.fetches()
	s.advance(59*time.Minute + 29*time.Second - 1) // the max-age of the first response
	s.want(t, j, "b", "service-2")
	if s.fetches() != before {
		t.Errorf("%d fetches before the max-age, want none", s.fetches()-before)
	}
	for range 60 {
		s.advance(time.Minute)
		s.want(t, j, "b", "service-2")
		s.want(t, j, "b", "service-2") // without a fetch
	}
	if n := s.fetches() - before; n != 60 {
		t.Errorf("%d fetches in an hour after the max-age, want one each minute", n)
	}
	wantAge(t, j, 2*time.Hour-1)
	s.advance(time.Minute)
	s.wantError(t, j, "b", signature.ErrKeySource)
	s.wantError(t, j, "removed", signature.ErrKeySource)
	s.respond(nil)
	s.advance(time.Minute)
	s.want(t, j, "b", "service-2")
}

// A cache that has the same copy for days is all that a receiver gets. The Age of the copy does not
// grow exactly with the clock.
func TestJWKS_CachedCopyStaysInUse(t *testing.T) {
	t.Parallel()
	s := newKeyServer(t)
	age := 90_000
	s.respond(func(w http.ResponseWriter, r *http.Request) { cachedSet(age, jwk("b", "service-2"))(w, r) })
	j := s.jwks(t, signature.JWKSOptions{MaxStale: time.Minute})

	for i := range 10 {
		age = 90_000 + 60*i + 4*(i%2)
		s.want(t, j, "b", "service-2")
		s.advance(time.Minute)
	}

	if n := s.fetches(); n != 10 {
		t.Errorf("%d fetches, want one each minute", n)
	}
}

// After the clock was set back, it is unknown which copy is older.
func TestJWKS_CopyAfterClockSetBack(t *testing.T) {
	t.Parallel()
	s := newKeyServer(t, jwk("a", "service-1"))
	j := s.jwks(t, signature.JWKSOptions{})
	s.want(t, j, "a", "service-1")
	s.respond(cachedSet(3600, jwk("b", "service-2")))
	s.advance(-time.Second)

	s.want(t, j, "b", "service-2")
	wantAge(t, j, time.Hour)
}

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

// TestJWKS_BothClocks makes the wall clock and the monotonic clock differ. A key set that is
// expired by either clock must be fetched again, or a removed key remains in use.
func TestJWKS_BothClocks(t *testing.T) {
	t.Parallel()
	const maxAge, maxStale = 5 * time.Minute, time.Hour
	for _, tt := range []struct {
		name         string
		later, slept time.Duration // since the fetch by the monotonic clock, and additionally by the wall clock
		wallOnly     bool          // there is no monotonic clock
		age          time.Duration // of the set
		refreshed    bool          // Refresh fetches
		expired      bool          // a lookup fetches
		unusable     bool          // without another set
	}{
		{"just fetched", 0, 0, false, 0, false, false, false},
		{"30 s later", 30 * time.Second, 0, false, 30 * time.Second, true, false, false},
		{"suspended for 72 h", time.Minute, 72 * time.Hour, false, 72*time.Hour + time.Minute, true, true, true},
		{"suspended for less than the max-age", 0, maxAge - time.Second, false, maxAge - time.Second, true, false, false},
		{"suspended beyond MaxStale", time.Minute, maxStale, false, maxStale + time.Minute, true, true, true},
		{"wall clock set back while the monotonic clock runs", maxAge, -time.Minute, false, maxAge, true, true, false},
		{"wall clock set back, monotonic clock beyond MaxStale", maxStale + time.Nanosecond, -time.Minute, false, maxStale + time.Nanosecond, true, true, true},
		{"wall clock set back to before the fetch", time.Second, -time.Hour, false, math.MaxInt64, true, true, true},
		{"both clocks before the fetch", -time.Hour, 0, false, math.MaxInt64, true, true, true},
		{"both clocks at MaxStale", maxStale, 0, false, maxStale, true, true, false},
		{"no monotonic clock, before the fetch", -time.Nanosecond, 0, true, math.MaxInt64, true, true, true},
		{"no monotonic clock, 1 s later", time.Second, 0, true, time.Second, false, false, false},
		{"no monotonic clock, max-age not reached", maxAge - time.Nanosecond, 0, true, maxAge - time.Nanosecond, true, false, false},
		{"no monotonic clock, max-age reached", maxAge, 0, true, maxAge, true, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			later := func() (*keyServer, *signature.JWKS) {
				s, fetched := newKeyServer(t, jwk("revoked", "service-1"), jwk("other", "service-2")), time.Now()
				s.set(fetched)
				j := s.jwks(t, signature.JWKSOptions{MaxStale: maxStale})
				s.want(t, j, "revoked", "service-1")
				s.publish(jwk("other", "service-2"))
				read := fetched.Add(tt.later)
				if tt.slept != 0 {
					read = afterSuspend(t, read, tt.slept)
				}
				if tt.wallOnly {
					read = read.Round(0)
				}
				s.set(read)
				return s, j
			}

			s, j := later()
			if age, ok := j.Age(); age != tt.age || !ok {
				t.Errorf("Age() = %v, %v; want %v, true", age, ok, tt.age)
			}
			err := j.Refresh(t.Context())
			if refreshed := s.fetches() == 2; err != nil || refreshed != tt.refreshed {
				t.Errorf("Refresh fetched: %v, error = %v; want %v and none", refreshed, err, tt.refreshed)
			}

			s, j = later()
			if tt.expired {
				s.wantError(t, j, "revoked", signature.ErrUnknownKey)
			} else {
				s.want(t, j, "revoked", "service-1")
			}
			s.want(t, j, "other", "service-2")

			s, j = later()
			s.respond(respondWith(503, "", ""))
			if tt.unusable {
				s.wantError(t, j, "revoked", signature.ErrKeySource)
			} else {
				s.want(t, j, "revoked", "service-1")
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
