package signature_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/signature"
)

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
