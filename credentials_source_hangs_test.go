package idverify_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
)

// hangingSource is a source whose first calls ignore their contexts until release is closed.
type hangingSource struct {
	hanging int
	release chan struct{}

	mu    sync.Mutex // guards calls
	calls int
}

func (s *hangingSource) get(context.Context) (idverify.Credentials, error) {
	s.mu.Lock()
	s.calls++
	n := s.calls
	s.mu.Unlock()
	if n <= s.hanging {
		<-s.release
		return pair("late-secret"), nil
	}
	return pair("valid-secret"), nil
}

// count returns the number of calls.
func (s *hangingSource) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// A call that never returns must not stop the client: another one replaces it.
func TestCredentialsSource_Hangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &secretService{secret: "valid-secret"}
		source := &hangingSource{hanging: 1, release: make(chan struct{})}
		var log bytes.Buffer
		c := s.client(t, source.get, idverify.WithHTTPClient(&http.Client{Transport: s, Timeout: time.Hour}), withoutRetries,
			idverify.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		start := time.Now()

		for err := range concurrently(3, func() error { return errorOf(c.Token(t.Context(), idverify.ScopeReachability)) }) {
			if !errors.Is(err, context.DeadlineExceeded) || !strings.HasSuffix(err.Error(), "credentials source failed: no result within the timeout of a token request") {
				t.Errorf("error = %v, want a timeout of the source", err)
			}
		}
		took, calls := time.Since(start), source.count()
		time.Sleep(time.Second) // the pause
		err := errorOf(c.Token(t.Context(), idverify.ScopeReachability))
		close(source.release)
		synctest.Wait()
		late := errorOf(c.Token(t.Context(), idverify.ScopePhoneCheck))

		if took != 30*time.Second || calls != 1 {
			t.Errorf("requests failed after %v with %d calls of the source, want 30s and 1", took, calls)
		}
		if err != nil || late != nil || source.count() != 3 {
			t.Errorf("errors = %v and %v after %d calls, want nil: the second and third call return credentials", err, late, source.count())
		}
		if strings.Contains(log.String(), "credentials changed") {
			t.Errorf("log =\n%swant the late result of the first call to be ignored", log.String())
		}
	})
}

// A token request that joins a call does not fail when the context of that call ends first.
func TestCredentialsSource_ReplacesCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &secretService{secret: "valid-secret"}
		source := &hangingSource{hanging: 1, release: make(chan struct{})}
		defer close(source.release)
		c := s.client(t, source.get, withoutRetries)
		first := make(chan error)
		go func() { first <- errorOf(c.Token(t.Context(), idverify.ScopeReachability)) }()
		time.Sleep(10 * time.Second)

		err := errorOf(c.Token(t.Context(), idverify.ScopePhoneCheck))

		if firstErr := <-first; err != nil || firstErr == nil || source.count() != 2 || time.Since(bubbleStart) != 30*time.Second {
			t.Errorf("errors = %v and %v after %d calls and %v, want only the first, 2 calls and 30s", firstErr, err, source.count(), time.Since(bubbleStart))
		}
	})
}

func TestCredentialsSource_LimitsCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &secretService{secret: "valid-secret"}
		source := &hangingSource{hanging: 5, release: make(chan struct{})}
		c := s.client(t, source.get, withoutRetries)

		for range 8 {
			if err := errorOf(c.Token(t.Context(), idverify.ScopeReachability)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error = %v, want a timeout of the source", err)
			}
			time.Sleep(time.Minute) // longer than the pause
		}
		calls := source.count()
		close(source.release)
		synctest.Wait()
		err := errorOf(c.Token(t.Context(), idverify.ScopeReachability))

		if calls != 5 || err != nil {
			t.Errorf("%d calls of the source that did not return, then error = %v; want 5 and nil", calls, err)
		}
	})
}

// The error of a caller with a short deadline names the source.
func TestCredentialsSource_NamedInTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &secretService{secret: "valid-secret"}
		source := &hangingSource{hanging: 1, release: make(chan struct{})}
		defer close(source.release)
		c := s.client(t, source.get)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()

		_, err := c.PhoneChecks.Create(ctx, createParams)

		if want := `idverify: get token for scope "phone_check": context deadline exceeded while waiting for the credentials source`; !errors.Is(err, context.DeadlineExceeded) || err.Error() != want {
			t.Errorf("error = %v, want %s", err, want)
		}
	})
}
