package signature_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/signature"
)

// TestJWKS_UsesOldKeysInOutage repeats each lookup, so that some occur in the pauses between
// fetches. TestJWKS_BadResponseKeepsKeySet sets MaxStale.
func TestJWKS_UsesOldKeysInOutage(t *testing.T) {
	t.Parallel()
	s := newKeyServer(t, jwk("a", "service-1"))
	j := s.jwks(t, signature.JWKSOptions{})
	s.want(t, j, "a", "service-1")
	s.respond(respondWith(503, "", ""))
	s.advance(24*time.Hour - time.Minute)

	for range 3 {
		s.want(t, j, "a", "service-1")
		s.wantError(t, j, "b", signature.ErrKeySource)
	}
	s.advance(time.Minute)
	s.want(t, j, "a", "service-1")
	s.advance(time.Nanosecond)
	for range 2 {
		s.wantError(t, j, "a", signature.ErrKeySource)
	}
}

// TestJWKS_SecondOutageResetsPauses checks that the pauses of a second outage start at 1 s.
func TestJWKS_SecondOutageResetsPauses(t *testing.T) {
	t.Parallel()
	s := newKeyServer(t, jwk("a", "service-1"))
	synctest.Test(t, func(t *testing.T) {
		log := new(logRecorder)
		j := s.jwks(t, signature.JWKSOptions{Logger: slog.New(log), HTTPClient: s.inMemory()})
		for _, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			s.respond(respondWith(503, "", ""))
			s.wantError(t, j, "a", signature.ErrKeySource)
			synctest.Wait() // until the fetch is logged
			s.advance(pause)
		}
		s.respond(nil)
		s.want(t, j, "a", "service-1")
		s.advance(25 * time.Hour)
		s.respond(respondWith(503, "", ""))

		s.wantError(t, j, "a", signature.ErrKeySource)
		synctest.Wait()
		failed := s.fetches()
		s.advance(time.Second)
		s.wantError(t, j, "a", signature.ErrKeySource)
		synctest.Wait()

		if s.fetches() != failed+1 {
			t.Errorf("%d fetches 1 s after the first failure, want one more than %d", s.fetches(), failed)
		}
		var failures []any
		for _, r := range log.at(slog.LevelError) {
			failures = append(failures, r.Attrs["failures"])
		}
		if got := fmt.Sprint(failures); got != "[1 2 3 1 2]" {
			t.Errorf("logged failures = %s, want [1 2 3 1 2]", got)
		}
	})
}

// TestJWKS_SlowLogger checks that a logger that blocks delays neither the callers that wait for a
// fetch nor the next fetch.
func TestJWKS_SlowLogger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down, blocked := true, make(chan struct{})
		transport := roundTrip(func(r *http.Request) (*http.Response, error) {
			if down {
				return nil, errors.New("connection refused")
			}
			return oneKey(r)
		})
		records := 0
		j := jwksOver(t, transport, signature.JWKSOptions{Now: time.Now, Logger: slog.New(faultyHandler{slog.DiscardHandler, func() {
			<-blocked
			records++
		}})})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()

		_, failed := j.PublicKey(ctx, "a")
		time.Sleep(time.Second) // the pause after the failed fetch
		down = false
		_, err := j.PublicKey(ctx, "a")

		if !errors.Is(failed, signature.ErrKeySource) || errors.Is(failed, context.DeadlineExceeded) || err != nil {
			t.Errorf("errors = %v, then %v; want that of the fetch, then none", failed, err)
		}
		close(blocked)
		synctest.Wait()
		if records != 1 {
			t.Errorf("%d records, want 1", records)
		}
	})
}

// TestJWKS_ErrorTexts checks that the error contains the cause, and no host name or address.
func TestJWKS_ErrorTexts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&net.DNSError{Err: "no such host", Name: "keys.internal", Server: "10.0.0.2:53"}, "host lookup failed: no such host"},
		{&net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 443}, Err: errors.New("connection refused")}, "dial: connection refused"},
		{&net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 443}, Err: &net.DNSError{Err: "timeout", Name: "keys.internal"}}, "host lookup failed: timeout"},
		{x509.HostnameError{Certificate: new(x509.Certificate), Host: "keys.internal"}, "certificate is for another host"},
		{x509.UnknownAuthorityError{}, "x509: certificate signed by unknown authority"},
	} {
		t.Run(tt.want, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				transport := roundTrip(func(*http.Request) (*http.Response, error) { return nil, tt.err })

				_, err := jwksOver(t, transport, signature.JWKSOptions{}).PublicKey(t.Context(), "a")

				if want := "signature: key lookup: verification unavailable: get key set: " + tt.want; err == nil || err.Error() != want || !errors.Is(err, tt.err) {
					t.Errorf("error = %v, want %q, which matches the error of the transport", err, want)
				}
				if strings.Contains(err.Error(), "internal") || strings.Contains(err.Error(), "example") || strings.Contains(err.Error(), "10.0") {
					t.Errorf("error = %v contains an address", err)
				}
			})
		})
	}
	for status, want := range map[string]string{
		"404":                      "get key set: 404 Not Found (check the URL of the key set)",
		"304":                      "get key set: 304 Not Modified (check the URL of the key set)",
		"body above 1 MiB":         "body is larger than 1 MiB",
		"HTML":                     "body is not a JSON Web Key Set (check the URL of the key set and any proxy)",
		"no keys":                  "no usable key",
		"truncated body":           "read body: unexpected EOF",
		"redirect to another host": "redirected to another host",
		"redirect loop":            "too many redirects",
	} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			s := newKeyServer(t)
			s.respond(badResponses[status])
			s.srv.Client().Transport.(*http.Transport).DisableKeepAlives = true // a connection would keep the bubble open
			// The bubble's clock does not advance during a request to the server, which is outside of it.
			synctest.Test(t, func(t *testing.T) {
				if _, err := s.jwks(t, signature.JWKSOptions{}).PublicKey(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error = %v, want %q", err, want)
				}
			})
		})
	}
}

func TestJWKS_RequestAndResponse(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 500} {
		body := &watchedBody{Reader: strings.NewReader(keySet(jwk("a", "service-1")))}
		var header http.Header
		var method string
		transport := roundTrip(func(r *http.Request) (*http.Response, error) {
			header, method = r.Header, r.Method
			return &http.Response{StatusCode: status, Body: body}, nil
		})

		_, err := jwksOver(t, transport, signature.JWKSOptions{}).PublicKey(t.Context(), "a")

		if (err == nil) != (status == 200) {
			t.Errorf("status %d: error = %v, want one unless the status is 200", status, err)
		}
		if !body.closed {
			t.Errorf("status %d: the response body is not closed: connections leak", status)
		}
		if got := header.Get("Accept"); method != http.MethodGet || got != "application/json" {
			t.Errorf("%s with Accept %q, want GET with application/json", method, got)
		}
	}
}

// TestJWKS_KeyFetchedByOtherLookup makes another lookup fetch the set between the two reads of a
// lookup.
func TestJWKS_KeyFetchedByOtherLookup(t *testing.T) {
	t.Parallel()
	s := newKeyServer(t, jwk("a", "service-1"))
	var j *signature.JWKS
	armed := false
	j = s.jwks(t, signature.JWKSOptions{Now: func() time.Time {
		if armed {
			armed = false
			s.want(t, j, "a", "service-1")
		}
		return s.clock()
	}})
	s.want(t, j, "a", "service-1")
	s.advance(time.Hour)
	armed = true

	s.want(t, j, "a", "service-1")

	if s.fetches() != 2 {
		t.Errorf("%d fetches, want 2: the set is fresh", s.fetches())
	}
}

// TestJWKS_DoesNotWaitInOutage lets all fetches except the first hang. Only the first lookup after
// that waits.
func TestJWKS_DoesNotWaitInOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var fetches int
		transport := roundTrip(func(r *http.Request) (*http.Response, error) {
			if fetches++; fetches == 1 {
				return oneKey(r)
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		j := jwksOver(t, transport, signature.JWKSOptions{})
		for i, step := range []struct{ wait, want time.Duration }{
			{0, 0},
			{5 * time.Minute, 3 * time.Second},
			{time.Second, 0},
			{0, 0},
			{time.Minute, 0},
		} {
			time.Sleep(step.wait) // the bubble's clock
			began := time.Now()

			if _, err := j.PublicKey(t.Context(), "a"); err != nil {
				t.Errorf("step %d: error = %v, want none", i, err)
			}

			if got := time.Since(began); got != step.want {
				t.Errorf("step %d: waited %v, want %v", i, got, step.want)
			}
		}
		time.Sleep(3 * time.Second) // until the last fetch has timed out
		synctest.Wait()
		if fetches != 4 {
			t.Errorf("%d fetches, want 4: one successful, one with a waiting caller, two in the background", fetches)
		}
	})
}

// TestJWKS_FetchTimeout runs in a bubble, which also detects leaked goroutines.
func TestJWKS_FetchTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hanging := roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		j := jwksOver(t, hanging, signature.JWKSOptions{})
		began := time.Now()
		leaving, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()

		_, left := j.PublicKey(leaving, "a")
		leftAfter := time.Since(began)
		_, stayed := j.PublicKey(t.Context(), "a")
		stayedFor := time.Since(began)

		if !errors.Is(left, signature.ErrKeySource) || !errors.Is(left, context.DeadlineExceeded) || leftAfter != 2*time.Second {
			t.Errorf("caller with a 2 s deadline: error = %v after %v, want ErrKeySource and DeadlineExceeded after 2 s", left, leftAfter)
		}
		if !errors.Is(stayed, signature.ErrKeySource) || stayedFor != 3*time.Second || !strings.Contains(stayed.Error(), "no response within 3 s") {
			t.Errorf("caller without deadline: error = %v after %v, want a fetch timeout after 3 s", stayed, stayedFor)
		}
	})
}

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
						return oneKey(r)
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
					j := jwksOver(t, transport, signature.JWKSOptions{Now: clock, Logger: slog.New(faultyHandler{slog.DiscardHandler, func() {
						if place == "logger" {
							fault.fail()
						}
					}})})
					const callers = 3
					results := make(chan error, callers)

					go func() { results <- j.Refresh(t.Context()) }()
					for range callers - 1 {
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
	j := jwksOver(t, transport, signature.JWKSOptions{Now: clock})

	for range 10 {
		if _, err := j.PublicKey(t.Context(), "a"); !errors.Is(err, signature.ErrKeySource) {
			t.Errorf("error = %v, want ErrKeySource", err)
		}
	}

	if fetches != 2 {
		t.Errorf("%d fetches, want 2: the first one, and one without a pause", fetches)
	}
}
