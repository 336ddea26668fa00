package sandboxfake_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// onEachClock runs a test for each kind of clock, in a bubble.
func onEachClock(t *testing.T, test func(*testing.T, *sandboxfake.Server)) {
	t.Helper()
	t.Parallel()
	for name, opts := range map[string][]sandboxfake.Option{"running": nil, "frozen": {sandboxfake.WithFrozenClock(frozenAt)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, sandboxfake.New(t, append(opts, sandboxfake.WithInMemory())...)) })
		})
	}
}

// onEachEnd runs a test for Reset and for Close, with each kind of clock. want is the error of the
// methods that wait.
func onEachEnd(t *testing.T, test func(t *testing.T, srv *sandboxfake.Server, end func(), want error)) {
	t.Helper()
	t.Parallel()
	t.Run("Reset", func(t *testing.T) {
		onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) { test(t, srv, srv.Reset, sandboxfake.ErrReset) })
	})
	t.Run("Close", func(t *testing.T) {
		onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
			test(t, srv, func() { srv.Close() }, sandboxfake.ErrClosed)
		})
	})
}

// startAdvance calls Advance in a goroutine and returns a channel for its error.
func startAdvance(ctx context.Context, srv *sandboxfake.Server, d time.Duration) <-chan error {
	done := make(chan error, 1)
	go func() { done <- srv.Advance(ctx, d) }()
	return done
}

func TestServer_AdvanceWaitsForDelivery(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		app := newBlockingReceiver()
		newAPI(t, srv).completeCheck(srv.Handle("app.sandbox.test", app))
		<-app.received
		before := srv.Now()

		done := startAdvance(t.Context(), srv, time.Hour)
		synctest.Wait()
		if now := srv.Now(); !now.Equal(before) {
			t.Errorf("clock moved by %v while a delivery was in flight, want no change", now.Sub(before))
		}
		app.respond <- http.StatusNoContent

		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if got := srv.Now().Sub(before); got != time.Hour {
			t.Errorf("Advance moved the clock by %v, want 1h0m0s", got)
		}
	})
}

func TestServer_AdvanceRunsEventsInOrder(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		a := newAPI(t, srv)
		began := srv.Now()
		var mu sync.Mutex // guards the variables below
		var seen []string
		var at []time.Duration
		host := srv.Handle("app.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// Handling takes time of the bubble, but not of the server's clock during Advance.
			early := srv.Now()
			<-time.After(3 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			if late := srv.Now(); !late.Equal(early) {
				t.Errorf("clock moved by %v while the callback was handled, want no change", late.Sub(early))
			}
			seen, at = append(seen, r.URL.Path), append(at, early.Sub(began))
			w.WriteHeader(http.StatusInternalServerError)
		}))
		// Both expire at the same time. Callbacks keep the order of creation.
		for _, name := range []string{"/first", "/second"} {
			a.create(phoneChecks, `{"phone_number":"447700900012","callback_url":"`+host+name+`"}`)
		}

		advance(t, srv, 140*time.Second)

		wantEqual(t, []string{"/first", "/second", "/first", "/second"}, seen, "order of the callbacks")
		wantEqual(t, []time.Duration{120 * time.Second, 120 * time.Second, 130 * time.Second, 130 * time.Second}, at, "server's clock at the callbacks")
		if got := srv.Now().Sub(began); got != 140*time.Second {
			t.Errorf("Advance moved the clock by %v, want 140 s", got)
		}
		for _, d := range srv.Deliveries() {
			if d.Done || len(d.Attempts) != 2 || !d.NextAttempt.Equal(began.Add(150*time.Second)) {
				t.Errorf("delivery: done = %v, %d attempts, next after %v, want a third one at 150 s", d.Done, len(d.Attempts), d.NextAttempt.Sub(began))
			}
		}
	})
}

func TestServer_ClockAfterAdvance(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		began := srv.Now()
		advance(t, srv, time.Hour)

		<-time.After(time.Minute)

		want := time.Hour
		if !began.Equal(frozenAt) {
			want += time.Minute
		}
		if got := srv.Now().Sub(began); got != want {
			t.Errorf("clock moved by %v in an Advance of an hour and one minute, want %v", got, want)
		}
	})
}

func TestServer_CreateDuringAdvance(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		a := newAPI(t, srv)
		began := srv.Now()
		var at []time.Duration
		var host string
		host = srv.Handle("app.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if at = append(at, srv.Now().Sub(began)); len(at) == 1 {
				a.completeCheck(host)                                                                      // sends its callback immediately
				a.create(phoneChecks, `{"phone_number":"447700900012","callback_url":"`+host+`/expired"}`) // expires during the Advance
			}
		}))
		a.create(phoneChecks, `{"phone_number":"447700900012","callback_url":"`+host+`"}`)

		advance(t, srv, 240*time.Second)

		wantEqual(t, []time.Duration{120 * time.Second, 120 * time.Second, 240 * time.Second}, at, "times of the callbacks")
	})
}

func TestServer_ConcurrentAdvance(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		app := newBlockingReceiver()
		newAPI(t, srv).completeCheck(srv.Handle("app.sandbox.test", app))
		<-app.received
		began := srv.Now()

		one, other := startAdvance(t.Context(), srv, time.Minute), startAdvance(t.Context(), srv, time.Hour)
		app.respond <- http.StatusNoContent

		noError(t, errors.Join(<-one, <-other))
		if got := srv.Now().Sub(began); got != time.Hour+time.Minute {
			t.Errorf("clock moved by %v, want the sum of both", got)
		}
	})
}

func TestServer_AdvanceRejectsArguments(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		began := srv.Now()

		if err := srv.Advance(t.Context(), -1); err == nil {
			t.Error("Advance accepts a negative duration, want an error")
		}
		if err := srv.Advance(t.Context(), 0); err != nil {
			t.Errorf("Advance by 0 = %v, want nil", err)
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		if err := srv.Advance(canceled, time.Minute); !errors.Is(err, context.Canceled) {
			t.Errorf("Advance with a canceled context = %v, want context.Canceled", err)
		}

		if now := srv.Now(); !now.Equal(began) {
			t.Errorf("clock moved by %v, want no change", now.Sub(began))
		}
	})
}

// Advance is interrupted while the callback of an expired check is in flight.
func TestServer_AdvanceInterrupted(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		end  func(srv *sandboxfake.Server, cancel func())
		want error
		at   time.Duration // of the clock afterwards, relative to its start
	}{
		{"context canceled", func(_ *sandboxfake.Server, cancel func()) { cancel() }, context.Canceled, 120 * time.Second},
		{"Reset", func(srv *sandboxfake.Server, _ func()) { srv.Reset() }, sandboxfake.ErrReset, 0},
		{"Close", func(srv *sandboxfake.Server, _ func()) { srv.Close() }, sandboxfake.ErrClosed, 120 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
				app := newBlockingReceiver()
				host := srv.Handle("app.sandbox.test", app)
				newAPI(t, srv).create(phoneChecks, `{"phone_number":"447700900012","callback_url":"`+host+`"}`)
				began := srv.Now()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := startAdvance(ctx, srv, time.Hour)
				<-app.received

				row.end(srv, cancel)

				if err := <-done; !errors.Is(err, row.want) {
					t.Errorf("Advance returned %v, want %v", err, row.want)
				}
				if got := srv.Now().Sub(began); got != row.at {
					t.Errorf("clock moved by %v, want %v", got, row.at)
				}
				if row.want != context.Canceled {
					return
				}
				app.respond <- http.StatusNoContent
				if err := srv.Advance(t.Context(), time.Second); err != nil {
					t.Errorf("next Advance = %v, want nil", err)
				}
			})
		})
	}
}

func TestServer_WaitIdleIgnoresRetries(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		app := newBlockingReceiver()
		newAPI(t, srv).completeCheck(srv.Handle("app.sandbox.test", app))
		<-app.received
		began := srv.Now()
		done := make(chan error, 1)
		go func() { done <- srv.WaitIdle(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("WaitIdle returned %v while a delivery was in flight", err)
		default:
		}

		app.respond <- http.StatusServiceUnavailable

		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if d := srv.Deliveries()[0]; d.Done || len(d.Attempts) != 1 || !d.NextAttempt.Equal(began.Add(10*time.Second)) {
			t.Errorf("after WaitIdle: %d attempts, done = %v, want 1 and a retry in 10 s", len(d.Attempts), d.Done)
		}
	})
}

func TestServer_WaitIdleWaitsForExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := sandboxfake.New(t, sandboxfake.WithInMemory())
		a := newAPI(t, srv)
		// The test and the expiry wake at the same time. In 25 rounds each of them is sometimes first.
		for range 25 {
			woken := time.After(2 * time.Minute)
			id := a.create(phoneChecks, `{"phone_number":"447700900012"}`)

			<-woken
			waitIdle(t, srv)

			a.get(phoneChecks+"/"+id).wantProblem(t, 404, "check_not_found")
		}
	})
}

func TestServer_RunningClockExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := sandboxfake.New(t, sandboxfake.WithInMemory())
		a := newAPI(t, srv)
		host := srv.Handle("app.sandbox.test", new(recordingReceiver))
		a.create(phoneChecks, `{"phone_number":"447700900012","callback_url":"`+host+`"}`)
		// Time added by Advance counts for the expiry.
		advance(t, srv, 100*time.Second)
		began := time.Now()

		delivery := must(srv.WaitDelivery(t.Context(), sandboxfake.Delivery.Acknowledged))(t)

		if waited := time.Since(began); waited != 20*time.Second || delivery.Status != "EXPIRED" {
			t.Errorf("callback after %v with status %s, want EXPIRED after the remaining 20 s", waited, delivery.Status)
		}
	})
}

func TestServer_ResetAndCloseEndWaits(t *testing.T) {
	onEachEnd(t, func(t *testing.T, srv *sandboxfake.Server, end func(), want error) {
		app := newBlockingReceiver()
		newAPI(t, srv).completeCheck(srv.Handle("app.sandbox.test", app))
		<-app.received
		idle, delivered := make(chan error, 1), make(chan error, 1)
		go func() { idle <- srv.WaitIdle(t.Context()) }()
		go func() {
			_, err := srv.WaitDelivery(t.Context(), sandboxfake.Delivery.Acknowledged)
			delivered <- err
		}()
		synctest.Wait()

		end()

		if err := <-idle; !errors.Is(err, want) {
			t.Errorf("WaitIdle returned %v, want %v", err, want)
		}
		if err := <-delivered; !errors.Is(err, want) {
			t.Errorf("WaitDelivery returned %v, want %v", err, want)
		}
	})
}

func TestServer_MethodsAfterClose(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	srv.Close()
	srv.Close()
	srv.Reset()

	_, awaited := srv.WaitDelivery(t.Context(), sandboxfake.Delivery.Acknowledged)
	for operation, err := range map[string]error{
		"advance":           srv.Advance(t.Context(), time.Second),
		"wait idle":         srv.WaitIdle(t.Context()),
		"redeliver":         srv.Redeliver(t.Context(), "any"),
		"wait for delivery": awaited,
	} {
		if want := "sandboxfake: " + operation + ": server closed"; !errors.Is(err, sandboxfake.ErrClosed) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error = %v, want ErrClosed with the text %q", err, want)
		}
	}
}

// untilRenewal is the time after which a client renews a token in the background.
const untilRenewal = 59*time.Minute + 30*time.Second

// startRenewal performs a call whose token is due for renewal.
func startRenewal(t *testing.T, srv *sandboxfake.Server, call func() error) {
	t.Helper()
	noError(t, errors.Join(call(), srv.Advance(t.Context(), untilRenewal), call()))
}

// tokenCall returns a call of c.
func tokenCall(t *testing.T, c *idverify.Client) func() error {
	return func() error {
		_, err := c.Token(t.Context(), idverify.ScopePhoneCheck)
		return err
	}
}

// tokenRequests returns the token requests in the journal.
func tokenRequests(srv *sandboxfake.Server) []sandboxfake.Request {
	return slices.DeleteFunc(srv.Requests(), func(r sandboxfake.Request) bool { return r.Operation != "token.create" })
}

// tokenTransport sends requests to a server. It passes token requests after the first to renew.
type tokenTransport struct {
	http.RoundTripper
	seen      atomic.Int32 // token requests
	completed atomic.Int32 // token requests with a response
	renew     func()       // may be nil
}

// clientWith returns a client of srv with its own transport.
func clientWith(srv *sandboxfake.Server, transport *tokenTransport) *idverify.Client {
	transport.RoundTripper = srv.HTTPClient().Transport
	return srv.Client(idverify.WithHTTPClient(&http.Client{Transport: transport}))
}

func (t *tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path != "/oauth2/v1/token" {
		return t.RoundTripper.RoundTrip(r)
	}
	if t.seen.Add(1) > 1 && t.renew != nil {
		t.renew()
	}
	resp, err := t.RoundTripper.RoundTrip(r)
	t.completed.Add(1)
	return resp, err
}

func TestServer_RequestsWaitsForRenewal(t *testing.T) {
	calls := map[string]func(*testing.T, *sandboxfake.Server) func() error{
		"Server.Client": func(t *testing.T, srv *sandboxfake.Server) func() error { return tokenCall(t, srv.Client()) },
		"Project.Client": func(t *testing.T, srv *sandboxfake.Server) func() error {
			return tokenCall(t, srv.NewProject(idverify.ProjectParams{Name: "Shop", Mode: idverify.ModeSandbox}).Client())
		},
		"Server.Console": func(t *testing.T, srv *sandboxfake.Server) func() error { return consoleCall(t, srv.Console()) },
		"Account.Console": func(t *testing.T, srv *sandboxfake.Server) func() error {
			return consoleCall(t, srv.NewWorkspace("Shop").Console())
		},
	}
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		for name, call := range calls {
			before := len(tokenRequests(srv))

			startRenewal(t, srv, call(t, srv))

			if n := len(tokenRequests(srv)) - before; n != 2 {
				t.Errorf("%s: %d token requests, want 2: the token was due for renewal", name, n)
			}
		}
	})
}

func consoleCall(t *testing.T, c *idverify.Console) func() error {
	return func() error {
		_, err := c.Projects.List(t.Context(), idverify.ListOptions{})
		return err
	}
}

func TestServer_RequestsWaitsOnLoopback(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithFrozenClock(frozenAt))

	startRenewal(t, srv, tokenCall(t, srv.Client()))

	if n := len(tokenRequests(srv)); n != 2 {
		t.Errorf("%d token requests, want 2: the token was due for renewal", n)
	}
}

func TestServer_WaitIdleWaitsForRenewal(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		transport := new(tokenTransport)
		startRenewal(t, srv, tokenCall(t, clientWith(srv, transport)))

		err := srv.WaitIdle(t.Context())

		if n := transport.completed.Load(); err != nil || n != 2 {
			t.Errorf("WaitIdle = %v after %d token requests, want nil after 2", err, n)
		}
	})
}

func TestServer_AdvanceWaitsForRenewal(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		startRenewal(t, srv, tokenCall(t, srv.Client()))
		renewed := srv.Now()

		advance(t, srv, 20*time.Minute)

		tokens := tokenRequests(srv)
		if len(tokens) != 2 || !tokens[1].Time.Equal(renewed) {
			t.Errorf("token requests = %+v, want the second one at %v, before the clock moved", tokens, renewed)
		}
	})
}

// A receiver that Advance calls can start a renewal as well.
func TestServer_AdvanceWaitsForReceiver(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		call := tokenCall(t, srv.Client())
		noError(t, errors.Join(call(), srv.Advance(t.Context(), 59*time.Minute-5*time.Second)))
		status := http.StatusInternalServerError // of the first attempt; the second one, 10 seconds later, starts a renewal
		var called time.Time
		newAPI(t, srv).completeCheck(srv.Handle("app.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			called = srv.Now()
			if err := call(); err != nil {
				t.Error(err)
			}
			w.WriteHeader(status)
			status = http.StatusNoContent
		})))

		advance(t, srv, 20*time.Minute)

		tokens := tokenRequests(srv)
		if got := tokens[len(tokens)-1].Time; len(tokens) != 3 || !got.Equal(called) {
			t.Errorf("%d token requests, the last one at %v, want 3, at %v: the clock moved during the renewal", len(tokens), got, called)
		}
	})
}

func TestServer_RenewalDelayedByFault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := sandboxfake.New(t, sandboxfake.WithInMemory())
		srv.Inject(sandboxfake.Match{Operation: "token.create"}, sandboxfake.Fault{}, sandboxfake.Fault{Latency: 20 * time.Second})
		startRenewal(t, srv, tokenCall(t, srv.Client()))
		start := time.Now()

		during := len(tokenRequests(srv))
		err := errors.Join(srv.WaitIdle(t.Context()), srv.Advance(t.Context(), time.Second))

		if took := time.Since(start); during != 1 || err != nil || took > 0 {
			t.Errorf("%d token requests and error %v after %v, want 1 and nil without a wait", during, err, took)
		}
		time.Sleep(time.Minute)
		if n := len(tokenRequests(srv)); n != 2 {
			t.Errorf("%d token requests after the delay, want 2", n)
		}
	})
}

// Waits end although a test blocks the renewal.
func TestServer_BlockedRenewal(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		release := make(chan struct{})
		startRenewal(t, srv, tokenCall(t, clientWith(srv, &tokenTransport{renew: func() { <-release }})))
		defer close(release)

		for name, wait := range map[string]func(context.Context) error{
			"Requests": func(context.Context) error { srv.Requests(); return nil },
			"WaitIdle": srv.WaitIdle,
			"Advance":  func(ctx context.Context) error { return srv.Advance(ctx, 0) },
		} {
			start := time.Now()
			err := wait(t.Context())
			if took := time.Since(start); err != nil || took != 5*time.Second {
				t.Errorf("%s = %v after %v, want nil after 5s", name, err, took)
			}
			if name == "Requests" {
				continue
			}

			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			start = time.Now()
			err = wait(ctx)
			cancel()
			if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != time.Second {
				t.Errorf("%s = %v after %v, want the error of the context after 1s", name, err, took)
			}
		}
	})
}

// A transport runs as part of the renewal, so Requests cannot wait for it.
func TestServer_RequestsWithinRenewal(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		var during int
		transport := &tokenTransport{renew: func() { during = len(tokenRequests(srv)) }}

		startRenewal(t, srv, tokenCall(t, clientWith(srv, transport)))
		srv.WaitIdle(t.Context())
		time.Sleep(time.Second)
		after := len(tokenRequests(srv))

		if during != 1 || after != 2 {
			t.Errorf("%d token requests during the renewal and %d after it, want 1 and 2", during, after)
		}
	})
}

func TestServer_RenewalAtReset(t *testing.T) {
	onEachEnd(t, func(t *testing.T, srv *sandboxfake.Server, end func(), want error) {
		release := make(chan struct{})
		startRenewal(t, srv, tokenCall(t, clientWith(srv, &tokenTransport{renew: func() { <-release }})))
		defer close(release)
		idle, requests := make(chan error), make(chan int)
		go func() { idle <- srv.WaitIdle(t.Context()) }()
		go func() { requests <- len(srv.Requests()) }()
		synctest.Wait()
		start := time.Now()

		end()

		if err := <-idle; !errors.Is(err, want) {
			t.Errorf("WaitIdle = %v, want %v", err, want)
		}
		<-requests
		if took := time.Since(start); took > 0 {
			t.Errorf("methods returned after %v, want at once", took)
		}
	})
}

// The server's clock is advanced by decades, so that a timestamp of the system's clock differs.
func TestServer_TimestampsUseServerClock(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		advance(t, srv, 20*365*24*time.Hour)
		a := newAPI(t, srv)
		now := srv.Now()
		srv.Inject(sandboxfake.Match{Operation: "phone_check.list"}, sandboxfake.Fault{Status: 429, RetryAfter: time.Minute})
		host := srv.Handle("app.sandbox.test", new(recordingReceiver))

		id := a.completeCheck(host)
		read := a.get(phoneChecks + "/" + id)
		limited := a.get(phoneChecks)
		trace := a.get(phoneChecks + "/" + id + "/traces").json["_embedded"].(map[string]any)["traces"].([]any)[0].(map[string]any)
		redirected := a.get(phoneChecks02 + "/" + a.create(phoneChecks02, `{"phone_number":"447700900012","redirect_url":"`+host+`"}`) + "/redirect")
		waitIdle(t, srv)
		attempt := srv.Deliveries()[0].Attempts[0]
		location := must(url.Parse(redirected.header.Get("Location")))(t)
		date, _ := base64.StdEncoding.DecodeString(location.Query().Get("date"))

		wire, http1 := now.Format("2006-01-02T15:04:05-0700"), now.Format(http.TimeFormat)
		for _, row := range []struct{ what, got, want string }{
			{"Date of a response", read.header.Get("Date"), http1},
			{"created_at", read.json["created_at"].(string), wire},
			{"updated_at", read.json["updated_at"].(string), wire},
			{"timestamp of a trace", trace["logs"].([]any)[0].(map[string]any)["timestamp"].(string), wire},
			{"Date of a callback", attempt.Header.Get("Date"), http1},
			{"date of a redirect", string(date), http1},
			{"time of a delivery attempt", attempt.Time.Format(http.TimeFormat), http1},
			{"time of a request", srv.Requests()[0].Time.Format(http.TimeFormat), http1},
			{"X-RateLimit-Reset", limited.header.Get("X-RateLimit-Reset"), strconv.FormatInt(now.Add(time.Minute).Unix(), 10)},
		} {
			if row.got != row.want {
				t.Errorf("%s = %q, want %q of the server's clock", row.what, row.got, row.want)
			}
		}
	})
}

func TestServer_Expire(t *testing.T) {
	t.Parallel()
	expirers := map[string]func(*api, string){
		"Go": func(a *api, id string) { a.srv.Expire(id) },
		"control plane": func(a *api, id string) {
			if got := a.control(http.MethodPost, "expire", `{"check_id":"`+id+`"}`); got.status != http.StatusNoContent {
				a.t.Errorf("expire: %d %s", got.status, got.body)
			}
		},
	}
	for name, expire := range expirers {
		for _, path := range []string{phoneChecks, phoneChecks02} {
			t.Run(name+path, func(t *testing.T) {
				t.Parallel()
				a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))
				var receiver recordingReceiver
				id := a.create(path, `{"phone_number":"447700900012","callback_url":"`+a.srv.Handle("app.sandbox.test", &receiver)+`"}`)
				other := a.create(path, `{"phone_number":"447700900012"}`)
				if path == phoneChecks02 {
					a.get(path + "/" + id + "/redirect") // PENDING expires too
				}

				expire(a, id)

				waitIdle(t, a.srv)
				if !a.srv.Now().Equal(frozenAt) {
					t.Errorf("clock = %v, want it unchanged", a.srv.Now())
				}
				a.get(path+"/"+id).wantProblem(t, 404, "check_not_found")
				if got := a.get(path + "/" + other); got.status != http.StatusOK {
					t.Errorf("other check = %d, want 200", got.status)
				}
				if body := receiver.last(t); body["check_id"] != id || body["status"] != "EXPIRED" || body["match"] != nil {
					t.Errorf("callback = %v, want EXPIRED without match", body)
				}
			})
		}
	}
}

func TestServer_ExpireEndedCheck(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t)
	id := a.create(phoneChecks, `{"phone_number":"447700900012"}`)
	a.get(phoneChecks + "/" + id + "/redirect")

	got := a.control(http.MethodPost, "expire", `{"check_id":"`+id+`"}`)

	got.wantProblem(t, http.StatusBadRequest, "bad_request")
	if check := a.get(phoneChecks + "/" + id); check.json["status"] != "COMPLETED" {
		t.Errorf("check = %s, want COMPLETED as before", check.body)
	}
}

func TestServer_ExpireUnknownCheck(t *testing.T) {
	t.Parallel()
	tb := fatalTB{t}
	srv := sandboxfake.New(tb, sandboxfake.WithInMemory())

	message := tb.catch(func() { srv.Expire("unknown") })

	if !strings.Contains(message, "expire") {
		t.Errorf("failure of the test = %q, want one that names Expire", message)
	}
}
