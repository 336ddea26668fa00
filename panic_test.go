package idverify_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/synctest"

	idverify "github.com/idverify/idverify-go"
)

// panicBody panics when it is read.
type panicBody struct{ end func() }

func (b panicBody) Read([]byte) (int, error) { b.end(); return 0, io.EOF }
func (panicBody) Close() error               { return nil }

// failingError is an error whose Error method panics.
type failingError struct{}

func (failingError) Error() string { panic("no text") }

// endlessError is an error whose Error method panics with the error itself.
type endlessError struct{}

func (e endlessError) Error() string { panic(e) }

// The caller's code also runs on the goroutine that fetches a token for all callers. A panic there
// must neither end the process nor block the callers.
func TestClient_TokenFetchPanic(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func()
		want string
	}{
		{"panic", func() { panic("no s3cret-of-client-1 for 447700900000 at 192.0.2.7") }, "a value of type string"},
		{"error", func() { panic(errors.New("Basic Y2xpZW50LTE6czNjcmV0LW9mLWNsaWVudC0x")) }, "a value of type *errors.errorString"},
		{"runtime error", func() { var list []int; _ = list[len(list)] }, "index out of range"},
		{"nil", func() { panic(nil) }, "nil"},
		{"value", func() { panic(struct{ secret string }{"s3cret-of-client-1"}) }, "a value of type struct"},
		{"error with failing Error method", func() { panic(failingError{}) }, "a value of type idverify_test.failingError"},
		{"error that panics with itself", func() { panic(endlessError{}) }, "a value of type idverify_test.endlessError"},
		{"Goexit", runtime.Goexit, "called runtime.Goexit"},
	} {
		for _, place := range []string{"transport", "body", "clock", "logger"} {
			t.Run(tt.name+" in "+place, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var failed atomic.Bool
					var calls atomic.Int32 // of the clock
					fail := func(here string) {
						if place == here && failed.CompareAndSwap(false, true) {
							tt.end()
						}
					}
					e := newMemoryService()
					transport := roundTripperFunc(func(r *http.Request) (*http.Response, error) {
						if r.URL.Path == tokenPath {
							time.Sleep(time.Second) // until every caller is waiting
							fail("transport")
						}
						resp, err := e.RoundTrip(r)
						if r.URL.Path == tokenPath && place == "body" && !failed.Load() {
							resp.Body = panicBody{func() { fail("body") }}
						}
						return resp, err
					})
					const callers = 20
					opts := []idverify.Option{idverify.WithHTTPClient(&http.Client{Transport: transport})}
					if place == "clock" {
						opts = append(opts, idverify.WithClock(func() time.Time {
							if calls.Add(1) == 2 { // the second call is part of the fetch
								fail("clock")
							}
							return time.Now()
						}))
					}
					if place == "logger" {
						opts = append(opts, idverify.WithLogger(slog.New(failingHandler{func() { fail("logger") }})))
					}
					c, err := idverify.NewClient("https://idverify.sandbox.test", credentials, opts...)
					if err != nil {
						t.Fatal(err)
					}

					errs := make(chan error, callers)
					for range callers {
						go func() { errs <- errorOf(c.PhoneChecks.Get(t.Context(), "a")) }()
						if place == "clock" {
							synctest.Wait() // the first caller starts the fetch alone
						}
					}
					for range callers {
						err := <-errs
						if place == "clock" && err == nil {
							continue // this call started after the failed fetch
						}
						if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), `idverify: get token for scope "phone_check": failed: `) {
							t.Errorf("error = %v, want it to contain %q", err, tt.want)
						}
						for _, secret := range []string{"s3cret", "Y2xp", "4477", "192.0"} {
							if strings.Contains(fmt.Sprintf("%+v %#v", err, err), secret) {
								t.Errorf("error = %+v, want it without %q", err, secret)
							}
						}
					}
					if !failed.Load() {
						t.Fatal("tt.end was not called")
					}
					if err := errorOf(c.PhoneChecks.Get(t.Context(), "a")); err != nil {
						t.Errorf("next call: error = %v, want nil", err)
					}
				})
			})
		}
	}
}

func TestClient_TokenFetchPanicText(t *testing.T) {
	t.Parallel()
	c, err := idverify.NewClient("https://idverify.sandbox.test", credentials, idverify.WithHTTPClient(&http.Client{Transport: brokenTransport{}}))
	if err != nil {
		t.Fatal(err)
	}

	_, err = c.Token(t.Context(), idverify.ScopeReachability)

	if err == nil || !strings.Contains(err.Error(), "panic in github.com/idverify/idverify-go_test.brokenTransport.RoundTrip: runtime error: ") {
		t.Errorf("error = %v, want the name of the function that panicked", err)
	}
}

type brokenTransport struct{ tripper *roundTripperFunc }

func (b brokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return (*b.tripper)(r)
}

func TestClient_TokenRefreshPanic(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(){"panic": func() { panic("a bug") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newMemoryService()
				failing := false
				fetches := 0
				c, err := idverify.NewClient("https://idverify.sandbox.test", credentials, idverify.WithHTTPClient(&http.Client{Transport: roundTripperFunc(func(r *http.Request) (*http.Response, error) {
					if fetches++; failing {
						end()
					}
					return e.RoundTrip(r)
				})}))
				if err != nil {
					t.Fatal(err)
				}
				tokenFor(t, c, idverify.ScopeReachability)
				time.Sleep(59*time.Minute + time.Second) // the refresh is due
				failing = true

				for range 20 {
					if got := tokenFor(t, c, idverify.ScopeReachability); got != "token-1" {
						t.Fatalf("token = %q, want token-1, which is still valid", got)
					}
					synctest.Wait()
				}
				immediate := fetches
				failing = false
				time.Sleep(10 * time.Second)
				tokenFor(t, c, idverify.ScopeReachability)
				synctest.Wait()

				if got := tokenFor(t, c, idverify.ScopeReachability); immediate != 2 || got != "token-2" {
					t.Errorf("%d token requests, then token %q; want 2, because a failed refresh pauses, and token-2", immediate, got)
				}
			})
		})
	}
}

// The client does not recover from a panic on the caller's goroutine.
func TestClient_PanicOnCallerGoroutine(t *testing.T) {
	t.Parallel()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, opt := range map[string]func(fail func()) []idverify.Option{
		"transport": func(fail func()) []idverify.Option {
			return []idverify.Option{idverify.WithHTTPClient(&http.Client{Transport: tokenTransport(func(*http.Request) (*http.Response, error) {
				fail()
				return response(200, []byte(`{"check_id":"a","status":"COMPLETED"}`)), nil
			})})}
		},
		"cookie jar": func(fail func()) []idverify.Option {
			return []idverify.Option{idverify.WithHTTPClient(&http.Client{Jar: failingJar{jar, fail}, Transport: newMemoryService()})}
		},
		"clock": func(fail func()) []idverify.Option {
			return []idverify.Option{idverify.WithHTTPClient(&http.Client{Transport: newMemoryService()}), idverify.WithClock(func() time.Time { fail(); return time.Now() })}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var failed atomic.Bool
			fail := func() {
				if failed.CompareAndSwap(false, true) {
					panic("a bug of the caller")
				}
			}
			c, err := idverify.NewClient("https://idverify.sandbox.test", credentials, opt(fail)...)
			if err != nil {
				t.Fatal(err)
			}

			got := func() (p any) {
				defer func() { p = recover() }()
				_, err := c.PhoneChecks.Get(t.Context(), "a")
				t.Errorf("Get returned %v, want a panic", err)
				return nil
			}()

			if got != "a bug of the caller" {
				t.Errorf("panic = %v, want the caller's", got)
			}
			if _, err := c.PhoneChecks.Get(t.Context(), "a"); err != nil {
				t.Errorf("next call: error = %v, want nil", err)
			}
		})
	}
}

type failingJar struct {
	http.CookieJar
	fail func()
}

func (j failingJar) Cookies(u *url.URL) []*http.Cookie { j.fail(); return j.CookieJar.Cookies(u) }

// failingHandler is a slog.Handler that calls fail for each record of a token request.
type failingHandler struct{ fail func() }

func (h failingHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h failingHandler) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h failingHandler) WithGroup(string) slog.Handler            { return h }
func (h failingHandler) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Value.String() == "token.create" {
			h.fail()
		}
		return true
	})
	return nil
}
