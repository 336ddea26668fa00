package signature_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/synctest"

	"github.com/idverify/idverify-go/signature"
)

// faultyHandler is a slog.Handler that calls fail for each record.
type faultyHandler struct {
	slog.Handler
	fail func()
}

func (h faultyHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h faultyHandler) Handle(context.Context, slog.Record) error { h.fail(); return nil }

// TestJWKS_RecoversFromPanics makes the caller's transport, clock or logger panic or call
// runtime.Goexit.
func TestJWKS_RecoversFromPanics(t *testing.T) {
	t.Parallel()
	const secret = "https://user:secret@10.0.0.7/"
	var none []int
	for _, fault := range []struct {
		name, text string
		fail       func()
	}{
		{"panic", ": a value of type *errors.errorString", func() { panic(errors.New(secret)) }},
		{"panic with a string", ": a value of type string", func() { panic(secret) }},
		{"runtime error", ": runtime error: index out of range [7] with length 0", func() { _ = none[7] }},
		{"Goexit", "called runtime.Goexit", runtime.Goexit},
	} {
		for _, place := range []string{"transport", "clock", "clock after the response", "logger"} {
			t.Run(fault.name+" in the "+place, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					broken, fetching := true, false
					transport := roundTrip(func(r *http.Request) (*http.Response, error) {
						time.Sleep(time.Millisecond) // until all callers are waiting
						if broken && place == "transport" {
							fault.fail()
						}
						if broken && place == "logger" {
							return nil, errors.New("connection refused")
						}
						fetching = true
						w := httptest.NewRecorder()
						fmt.Fprint(w, keySet(jwk("a", "service-1")))
						return w.Result(), nil
					})
					reads := 0
					clock := func() time.Time {
						if fetching {
							reads++
						}
						if broken && (place == "clock" && reads == 1 || place == "clock after the response" && reads == 2) {
							fault.fail()
						}
						return time.Now()
					}
					j, err := signature.NewJWKS("https://eu.example.com/jwks.json", &signature.JWKSOptions{
						HTTPClient: &http.Client{Transport: transport},
						Now:        clock,
						Logger: slog.New(faultyHandler{slog.DiscardHandler, func() {
							if place == "logger" {
								fault.fail()
							}
						}}),
					})
					if err != nil {
						t.Fatal(err)
					}
					const callers = 3
					results := make(chan error, callers)

					for range callers {
						go func() { _, err := j.PublicKey(t.Context(), "a"); results <- err }()
					}
					time.Sleep(time.Millisecond)
					synctest.Wait()

					if len(results) != callers {
						t.Fatalf("%d of %d callers are still waiting", callers-len(results), callers)
					}
					for range callers {
						err := <-results
						if !errors.Is(err, signature.ErrKeySource) || strings.Contains(err.Error(), "secret") {
							t.Errorf("error = %v, want ErrKeySource without the panic's value", err)
						}
						if place != "logger" && !strings.Contains(err.Error(), fault.text) {
							t.Errorf("error = %v, want the cause %q", err, fault.text)
						}
						if site := "panicked in github.com/idverify/idverify-go/signature_test.TestJWKS_RecoversFromPanics.func"; place != "logger" && fault.name != "Goexit" && !strings.Contains(err.Error(), site) {
							t.Errorf("error = %v, want the function that panicked", err)
						}
					}
					broken = false
					if place == "logger" {
						time.Sleep(time.Second) // the failed fetch is followed by a pause
					}
					if _, err := j.PublicKey(t.Context(), "a"); err != nil {
						t.Errorf("next call: error = %v, want none", err)
					}
				})
			})
		}
	}
}

// TestJWKS_PausesAfterRepeatedPanics makes every fetch panic. Only the first two lookups may fetch.
func TestJWKS_PausesAfterRepeatedPanics(t *testing.T) {
	t.Parallel()
	fetches := 0
	transport := roundTrip(func(*http.Request) (*http.Response, error) { fetches++; panic("broken") })
	j, err := signature.NewJWKS("https://eu.example.com/jwks.json", &signature.JWKSOptions{HTTPClient: &http.Client{Transport: transport}, Now: clock})
	if err != nil {
		t.Fatal(err)
	}

	for range 10 {
		if _, err := j.PublicKey(t.Context(), "a"); !errors.Is(err, signature.ErrKeySource) {
			t.Errorf("error = %v, want ErrKeySource", err)
		}
	}

	if fetches != 2 {
		t.Errorf("%d fetches, want 2: the first one, and one without a pause", fetches)
	}
}

// TestJWKS_ClockPanicReleasesLock makes the clock panic on the caller's goroutine. The call panics,
// but must not keep the lock.
func TestJWKS_ClockPanicReleasesLock(t *testing.T) {
	t.Parallel()
	for reads := 1; ; reads++ {
		s := newKeyServer(t, jwk("a", "service-1"), jwk("b", "service-2"))
		read := 0
		armed := false
		j, err := signature.NewJWKS(s.srv.URL, &signature.JWKSOptions{HTTPClient: s.srv.Client(), Now: func() time.Time {
			if armed {
				if read++; read == reads {
					panic("broken clock")
				}
			}
			return s.clock()
		}})
		if err != nil {
			t.Fatal(err)
		}
		s.want(t, j, "a", "service-1")
		s.advance(time.Hour)
		s.respond(respondWith(503, "", ""))
		s.wantError(t, j, "c", signature.ErrKeySource) // starts a pause, so that only calls read the clock
		armed = true

		panicked := func() (panicked bool) {
			defer func() { panicked = recover() != nil }()
			j.PublicKey(t.Context(), "a")
			return false
		}()
		armed = false
		s.want(t, j, "b", "service-2")

		if !panicked {
			if reads < 3 {
				t.Errorf("the clock was read %d times, want at least 2", reads-1)
			}
			return
		}
	}
}
