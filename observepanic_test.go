package idverify_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	idverify "github.com/idverify/idverify-go"
)

// failOnce calls end at the first call of fail.
type failOnce struct {
	end    func()
	failed atomic.Bool
}

func (f *failOnce) fail() {
	if f.failed.CompareAndSwap(false, true) {
		f.end()
	}
}

// observing returns an observer that calls start and end with the name of the operation.
func observing(start, end func(operation string)) idverify.Option {
	return idverify.WithObserver(func(ctx context.Context, operation string) (context.Context, func(idverify.Attempt)) {
		start(operation)
		return ctx, func(a idverify.Attempt) { end(a.Operation) }
	})
}

// A panic in an attempt reaches the caller. All observers that were called learn the end of the
// attempt.
func TestWithObserver_PanicInAttempt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		place  string
		before int  // attempts of the observer before the one that may fail
		after  int  // attempts of the observer after it
		failed bool // the attempt was not successful
		text   string
	}{
		{"transport before the body", 1, 1, true, "create PhoneCheck: ended by a panic"},
		{"transport after the body", 1, 1, true, "create PhoneCheck: outcome unknown: ended by a panic"},
		{"start of an observer", 1, 0, true, "create PhoneCheck: ended by a panic"},
		{"end of an observer", 1, 1, false, ""},
	} {
		for name, end := range map[string]func(){"panic": func() { panic("a bug of the caller") }, "Goexit": runtime.Goexit} {
			t.Run(name+" in "+tt.place, func(t *testing.T) {
				t.Parallel()
				before, after := new(attemptLog), new(attemptLog)
				once := &failOnce{end: end}
				failAt := func(place string) {
					if place == tt.place {
						once.fail()
					}
				}
				ifCreate := func(place string) func(string) {
					return func(operation string) {
						if operation == "phone_check.create" {
							failAt(place)
						}
					}
				}
				c := newTransportClient(t, func(r *http.Request) (*http.Response, error) {
					failAt("transport before the body")
					if _, err := io.Copy(io.Discard, r.Body); err != nil {
						return nil, err
					}
					failAt("transport after the body")
					return response(201, fixture(t, "phone_check_created.json")), nil
				}, before.option(), observing(ifCreate("start of an observer"), ifCreate("end of an observer")), after.option())
				tokenFor(t, c, idverify.ScopePhoneCheck)

				got := make(chan any, 1)
				go func() {
					defer func() { got <- recover() }()
					_, err := c.PhoneChecks.Create(t.Context(), createParams)
					t.Errorf("Create returned %v, want it to end", err)
				}()

				if p := <-got; name == "panic" && p != "a bug of the caller" || name == "Goexit" && p != nil {
					t.Errorf("panic = %v, want the caller's", p)
				}
				for _, observer := range []struct {
					log  *attemptLog
					want int
				}{{before, tt.before}, {after, tt.after}} {
					attempts := observer.log.all(t)[1:] // without the token request
					if len(attempts) != observer.want {
						t.Fatalf("attempts = %+v, want %d", attempts, observer.want)
					}
					for _, a := range attempts {
						if failed := a.Err != nil; failed != tt.failed || a.Number != 1 || a.Retry {
							t.Errorf("attempt = %+v, failed: %v, want %v", a, failed, tt.failed)
						}
						if a.Err != nil && !strings.Contains(a.Err.Error(), tt.text) {
							t.Errorf("error = %v, want it to contain %q", a.Err, tt.text)
						}
					}
				}
				if _, err := c.PhoneChecks.Create(t.Context(), createParams); err != nil {
					t.Errorf("next call: error = %v, want nil", err)
				}
			})
		}
	}
}

// A panic in a token request becomes its error, because it would otherwise end the process.
func TestWithObserver_PanicInTokenRequest(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"transport", "start of an observer", "end of an observer"} {
		for name, end := range map[string]func(){"panic": func() { panic("a bug of 447700900000") }, "Goexit": runtime.Goexit} {
			t.Run(name+" in "+place, func(t *testing.T) {
				t.Parallel()
				log := new(attemptLog)
				once := &failOnce{end: end}
				ifToken := func(here string) func(string) {
					return func(operation string) {
						if operation == "token.create" && here == place {
							once.fail()
						}
					}
				}
				transport := roundTripperFunc(func(*http.Request) (*http.Response, error) {
					ifToken("transport")("token.create")
					return issuedToken(), nil
				})
				c := must(idverify.NewClient("https://idverify.sandbox.test", credentials, withoutRetries, idverify.WithHTTPClient(&http.Client{Transport: transport}),
					log.option(), observing(ifToken("start of an observer"), ifToken("end of an observer"))))(t)

				_, err := c.Token(t.Context(), idverify.ScopeReachability)

				dropped := place == "end of an observer" // the token has been obtained by then
				if dropped && err != nil || !dropped && (err == nil || !strings.HasPrefix(err.Error(), `idverify: get token for scope "coverage": failed: `) || strings.Contains(err.Error(), testNumber)) {
					t.Errorf("error = %v, want nil if it occurred at the end, or else an error that names the token request", err)
				}
				attempts := log.all(t)
				if len(attempts) != 1 {
					t.Fatalf("attempts = %+v, want 1", attempts)
				}
				if got := attempts[0].Err; got != err {
					t.Errorf("error of the attempt = %v, want %v", got, err)
				}
				if _, err := c.Token(t.Context(), idverify.ScopeReachability); err != nil {
					t.Errorf("next call: error = %v, want nil", err)
				}
			})
		}
	}
}

// Responses of the service must not put personal data or secrets into an Attempt.
func TestAttempt_Redacted(t *testing.T) {
	t.Parallel()
	const everything = "number " + testNumber + " or +44 7700 900-000 at 192.0.2.77, Bearer token-1, token-1, s3cret-of-client-1, https://user.example/?a=" + testNumber
	headers := []string{testNumber, "192.0.2.77", "token-1", "id-of-token-1", "s3cret-of-client-1", "https://user.example/", everything}
	hide := []string{testNumber, "7700 900", "192.0.2", "token-1", "s3cret", "user.example", phoneCheckID}
	for i, header := range headers {
		for _, tt := range []struct {
			name    string
			respond http.HandlerFunc
		}{
			{"success", respondWith(200, string(fixture(t, "phone_check.json")))},
			{"problem", respondWithProblem(400, "bad_request", everything)},
			{"fragment", respondWithProblem(429, testNumber, everything)},
			{"page of a proxy", respondWith(502, everything)},
			{"unusable", respondWith(200, everything)},
			{"another check", respondWith(200, `{"check_id":"`+testNumber+`","status":"COMPLETED"}`)},
			{"lost", drop},
		} {
			t.Run(fmt.Sprint(tt.name, " ", i), func(t *testing.T) {
				t.Parallel()
				hostile := func(respond http.HandlerFunc) http.HandlerFunc {
					return func(w http.ResponseWriter, r *http.Request) {
						w.Header().Set("X-RateLimit-Limit", header)
						w.Header().Set("Retry-After", header)
						withRequestID(header, respond)(w, r)
					}
				}
				log := new(attemptLog)
				srv := newService(t, hostile(tt.respond))
				srv.token = hostile(issueToken)
				c := srv.client(t, log.option())
				first := errorOf(c.PhoneChecks.Get(t.Context(), phoneCheckID))
				srv.token = hostile(respondWith(400, everything))
				second := errorOf(c.Reachability.Country(t.Context(), "GB"))

				attempts := log.all(t)

				if len(attempts) < 4 || second == nil {
					t.Errorf("attempts = %d, errors = %v and %v, want the token requests and the operations", len(attempts), first, second)
				}
				for _, a := range attempts {
					for _, text := range []string{fmt.Sprintf("%+v", a), fmt.Sprintf("%+v", errors.Unwrap(a.Err)), a.RequestID} {
						for _, secret := range hide {
							if strings.Contains(text, secret) && !strings.Contains(srv.URL, secret) {
								t.Errorf("an attempt contains %q: %s", secret, text)
							}
						}
					}
				}
			})
		}
	}
}

func TestWithObserver_Concurrent(t *testing.T) {
	t.Parallel()
	const callers = 1000
	log := new(attemptLog)
	var n atomic.Int32
	c := newTransportClient(t, func(*http.Request) (*http.Response, error) {
		if n.Add(1)%3 == 0 {
			return response(503, nil), nil
		}
		return response(200, fixture(t, "phone_check.json")), nil
	}, log.option(), withSpan("a"), idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 100, MinWait: 1, MaxWait: 1000, Budget: -1}))

	for err := range concurrently(callers, func() error { return errorOf(c.PhoneChecks.Get(t.Context(), phoneCheckID)) }) {
		if err != nil {
			t.Fatal(err)
		}
	}

	succeeded, retried := 0, 0
	for _, a := range log.all(t) {
		switch {
		case a.Operation != "phone_check.get":
		case a.Err == nil && !a.Retry && a.Status == 200:
			succeeded++
		case a.Err != nil && a.Retry && a.Status == 503:
			retried++
		default:
			t.Fatalf("attempt = %+v, want a success or a retry", a)
		}
	}
	if want := int(n.Load()) - callers; succeeded != callers || retried != want {
		t.Errorf("successes = %d, retries = %d, want %d and %d", succeeded, retried, callers, want)
	}
}
