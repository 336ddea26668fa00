package sandboxfake_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// untilRenewal is the time after which a client renews a token in the background.
const untilRenewal = 59*time.Minute + 30*time.Second

// startRenewal performs a call whose token is due for renewal.
func startRenewal(t *testing.T, srv *sandboxfake.Server, call func() error) {
	t.Helper()
	if err := errors.Join(call(), srv.Advance(t.Context(), untilRenewal), call()); err != nil {
		t.Fatal(err)
	}
}

// tokenCall returns a call of c.
func tokenCall(t *testing.T, c *idverify.Client) func() error {
	return func() error {
		_, err := c.Token(t.Context(), idverify.ScopePhoneCheck)
		return err
	}
}

// tokenRequests returns the token requests in the journal.
func tokenRequests(srv *sandboxfake.Server) (tokens []sandboxfake.Request) {
	for _, r := range srv.Requests() {
		if r.Operation == "token.create" {
			tokens = append(tokens, r)
		}
	}
	return tokens
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

func TestServer_IdleWaitsForRenewal(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		transport := new(tokenTransport)
		startRenewal(t, srv, tokenCall(t, clientWith(srv, transport)))

		err := srv.Idle(t.Context())

		if n := transport.completed.Load(); err != nil || n != 2 {
			t.Errorf("Idle = %v after %d token requests, want nil after 2", err, n)
		}
	})
}

func TestServer_AdvanceWaitsForRenewal(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		startRenewal(t, srv, tokenCall(t, srv.Client()))
		renewed := srv.Now()

		if err := srv.Advance(t.Context(), 20*time.Minute); err != nil {
			t.Fatal(err)
		}

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
		if err := errors.Join(call(), srv.Advance(t.Context(), 59*time.Minute-5*time.Second)); err != nil {
			t.Fatal(err)
		}
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

		if err := srv.Advance(t.Context(), 20*time.Minute); err != nil {
			t.Fatal(err)
		}

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
		err := errors.Join(srv.Idle(t.Context()), srv.Advance(t.Context(), time.Second))

		if took := time.Since(start); during != 1 || err != nil || took > 0 {
			t.Errorf("%d token requests and error %v after %v, want 1 and nil without a wait", during, err, took)
		}
		time.Sleep(time.Minute)
		if n := len(tokenRequests(srv)); n != 2 {
			t.Errorf("%d token requests after the delay, want 2", n)
		}
	})
}

// A test may hold back the renewal itself.
func TestServer_RenewalHeldByTest(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		release := make(chan struct{})
		startRenewal(t, srv, tokenCall(t, clientWith(srv, &tokenTransport{renew: func() { <-release }})))
		defer close(release)

		for name, wait := range map[string]func(context.Context) error{
			"Requests": func(context.Context) error { srv.Requests(); return nil },
			"Idle":     srv.Idle,
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
		srv.Idle(t.Context())
		time.Sleep(time.Second)
		after := len(tokenRequests(srv))

		if during != 1 || after != 2 {
			t.Errorf("%d token requests during the renewal and %d after it, want 1 and 2", during, after)
		}
	})
}

func TestServer_RenewalAtReset(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(*sandboxfake.Server)
		want error
	}{
		"reset": {(*sandboxfake.Server).Reset, sandboxfake.ErrReset},
		"close": {func(srv *sandboxfake.Server) { srv.Close() }, sandboxfake.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
				release := make(chan struct{})
				startRenewal(t, srv, tokenCall(t, clientWith(srv, &tokenTransport{renew: func() { <-release }})))
				defer close(release)
				idle, requests := make(chan error), make(chan int)
				go func() { idle <- srv.Idle(t.Context()) }()
				go func() { requests <- len(srv.Requests()) }()
				synctest.Wait()
				start := time.Now()

				tt.end(srv)

				if err := <-idle; !errors.Is(err, tt.want) {
					t.Errorf("Idle = %v, want %v", err, tt.want)
				}
				<-requests
				if took := time.Since(start); took > 0 {
					t.Errorf("methods returned after %v, want at once", took)
				}
			})
		})
	}
}
