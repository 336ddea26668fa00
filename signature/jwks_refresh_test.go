package signature_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
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
	w := httptest.NewRecorder()
	fmt.Fprint(w, keySet(jwk("a", "service-1")))
	return w.Result(), nil
}

func (b *bubbleKeys) jwks(t *testing.T) *signature.JWKS {
	t.Helper()
	j, err := signature.NewJWKS("https://eu.example.com/jwks.json", &signature.JWKSOptions{HTTPClient: &http.Client{Transport: b}})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestJWKS_RefreshCoalesces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const callers = 1000
		server := new(bubbleKeys)
		j := server.jwks(t)
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
		j := server.jwks(t)
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
				failed[len(server.requests) > before] += count(err != nil)
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

// count returns 1 for true.
func count(b bool) int {
	if b {
		return 1
	}
	return 0
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
	refresh := func() {
		t.Helper()
		if err := j.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
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

// TestJWKS_RefreshBeforeLookup starts a refresh before a key is published. A lookup of the key that
// waits for this fetch must fetch again.
func TestJWKS_RefreshBeforeLookup(t *testing.T) {
	t.Parallel()
	s := newKeyServer(t, jwk("a", "service-1"))
	j := s.jwks(t, signature.JWKSOptions{})
	requested, published := make(chan struct{}), make(chan struct{})
	s.respond(func(w http.ResponseWriter, _ *http.Request) {
		close(requested)
		<-published
		fmt.Fprint(w, keySet(jwk("a", "service-1")))
	})
	refreshed := make(chan error, 1)
	go func() { refreshed <- j.Refresh(t.Context()) }()
	<-requested
	s.respond(nil)
	s.publish(jwk("a", "service-1"), jwk("new", "service-2"))
	waiting := waitingContext{t.Context(), sync.OnceFunc(func() { close(published) })}

	_, lookupErr := j.PublicKey(waiting, "new")

	if lookupErr != nil {
		t.Errorf("lookup: error = %v, want none", lookupErr)
	}
	if err := <-refreshed; err != nil {
		t.Errorf("Refresh: error = %v, want none", err)
	}
}

func TestJWKS_RefreshCanceled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := new(bubbleKeys)
		j := server.jwks(t)
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

// TestJWKS_RefreshClockPanic makes the clock panic in each of its calls. Refresh panics, but must
// not keep the lock.
func TestJWKS_RefreshClockPanic(t *testing.T) {
	t.Parallel()
	const reads = 2 // on the caller's goroutine
	for broken := range reads {
		s := newKeyServer(t, jwk("a", "service-1"))
		armed, read := false, 0
		j, err := signature.NewJWKS(s.srv.URL, &signature.JWKSOptions{HTTPClient: s.srv.Client(), Now: func() time.Time {
			if read++; armed && read == broken+1 {
				panic("broken clock")
			}
			return s.clock()
		}})
		if err != nil {
			t.Fatal(err)
		}
		s.want(t, j, "a", "service-1")
		s.advance(time.Hour)
		armed, read = true, 0

		panicked := func() (panicked bool) {
			defer func() { panicked = recover() != nil }()
			_ = j.Refresh(t.Context())
			return false
		}()
		armed = false

		if !panicked {
			t.Errorf("read %d: Refresh did not panic, want the clock's panic", broken+1)
		}
		s.want(t, j, "a", "service-1")
	}
}

// TestJWKS_AgeByBothClocks also checks that Refresh uses the same age.
func TestJWKS_AgeByBothClocks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		read    func(tb testing.TB, fetched time.Time) time.Time
		want    time.Duration
		fetches bool // Refresh fetches
	}{
		{"just fetched", func(_ testing.TB, fetched time.Time) time.Time { return fetched }, 0, false},
		{"both clocks", func(_ testing.TB, fetched time.Time) time.Time { return fetched.Add(30 * time.Second) }, 30 * time.Second, true},
		{"suspended", func(tb testing.TB, fetched time.Time) time.Time {
			return afterSuspend(tb, fetched.Add(time.Second), 72*time.Hour)
		}, 72*time.Hour + time.Second, true},
		{"wall clock set back", func(tb testing.TB, fetched time.Time) time.Time {
			return afterSuspend(tb, fetched.Add(time.Minute), -30*time.Second)
		}, time.Minute, true},
		{"wall clock before the fetch", func(tb testing.TB, fetched time.Time) time.Time {
			return afterSuspend(tb, fetched.Add(time.Second), -time.Hour)
		}, math.MaxInt64, true},
		{"no monotonic clock", func(_ testing.TB, fetched time.Time) time.Time { return fetched.Round(0).Add(time.Second) }, time.Second, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newKeyServer(t, jwk("a", "service-1"))
			fetched := time.Now()
			s.set(fetched)
			j := s.jwks(t, signature.JWKSOptions{})
			s.want(t, j, "a", "service-1")

			s.set(tt.read(t, fetched))
			age, ok := j.Age()
			err := j.Refresh(t.Context())

			if age != tt.want || !ok {
				t.Errorf("Age() = %v, %v; want %v, true", age, ok, tt.want)
			}
			if refetched := s.fetches() == 2; err != nil || refetched != tt.fetches {
				t.Errorf("Refresh fetched: %v, error = %v; want %v and none", refetched, err, tt.fetches)
			}
		})
	}
}

// A probe that waits for less than a fetch takes succeeds at last, and costs a request per max-age.
func TestJWKS_ReadyRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := new(bubbleKeys)
		j := server.jwks(t)
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
func TestJWKS_SameCopyExtendsUse(t *testing.T) {
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
