package redisstore_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/redisstore"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

const (
	replicas = 16
	host     = "shop.sandbox.test"
)

// shop is an application with many replicas. Each replica has its own key set, verifier and Redis
// client, like a process.
type shop struct {
	handlers []http.Handler
	next     atomic.Uint32 // number of requests, to select the next replica

	mu      sync.Mutex // guards handled
	handled map[string]int
}

func newShop(t testing.TB, service *sandboxfake.Server, store func(testing.TB) *redisstore.Replays) *shop {
	t.Helper()
	s := &shop{handled: make(map[string]int)}
	for range replicas {
		verifier := service.Verifier([]string{host}, &signature.VerifierOptions{
			Replay:    store(t),
			ClockSkew: time.Hour, // on a busy machine, messages can take longer than the default
		})
		s.handlers = append(s.handlers, idverify.CallbackHandler(verifier, func(_ context.Context, c *idverify.Callback) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.handled[c.CheckID]++
			return nil
		}))
	}
	return s
}

// serveNext passes a copy of r to the next replica and returns the status of the response.
func (s *shop) serveNext(r *http.Request, body []byte) int {
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	w := httptest.NewRecorder()
	s.handlers[s.next.Add(1)%replicas].ServeHTTP(w, r)
	return w.Code
}

// handleWith serves the host of the shop and responds to each request with the status from spread.
func handleWith(service *sandboxfake.Server, spread func(*http.Request, []byte) int) (callbackURL string) {
	return service.Handle(host, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.WriteHeader(spread(r, body))
	}))
}

// runChecks runs n PhoneChecks to their end, eight at a time.
func runChecks(t testing.TB, service *sandboxfake.Server, callbackURL string, n int) {
	t.Helper()
	client := service.Client()
	var begun atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			device := service.Device()
			for i := begun.Add(1); i <= int32(n); i = begun.Add(1) {
				check, err := client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{
					PhoneNumber: fmt.Sprintf("44770090%04d", i),
					CallbackURL: callbackURL,
				})
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := device.Open(t.Context(), check.CheckURL); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// resendTimedOut delivers again the callbacks whose last attempt timed out before a replica handled
// them, and returns their number. The service does not retry after a timeout, which can occur with
// a busy disk.
func (s *shop) resendTimedOut(t testing.TB, service *sandboxfake.Server) (resent int) {
	t.Helper()
	for _, d := range service.Deliveries() {
		s.mu.Lock()
		handled := s.handled[d.CheckID] > 0
		s.mu.Unlock()
		if handled || len(d.Attempts) == 0 || d.Attempts[len(d.Attempts)-1].Result != sandboxfake.ResultTimedOut {
			continue
		}
		noError(t, service.Redeliver(t.Context(), d.ID))
		resent++
	}
	noError(t, service.WaitIdle(t.Context()))
	return resent
}

// checkHandled fails the test unless each of n checks was handled exactly once.
func (s *shop) checkHandled(t testing.TB, n int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.handled) != n {
		t.Errorf("handled checks = %d, want %d: the others are lost", len(s.handled), n)
	}
	for id, times := range s.handled {
		if times != 1 {
			t.Errorf("check %s was handled %d times, want once", id, times)
		}
	}
}

func TestReplays_ConcurrentReplicas(t *testing.T) {
	t.Parallel()
	const checks = 100
	srv := startServer(t)
	service := sandboxfake.New(t, sandboxfake.WithInMemory())
	app := newShop(t, service, srv.store)
	var accepted, rejected, other atomic.Int32
	var messages sync.WaitGroup
	url := handleWith(service, func(r *http.Request, body []byte) int {
		messages.Add(1)
		defer messages.Done()
		r = r.WithContext(context.WithoutCancel(r.Context())) // on a busy machine, the copies can outlast the attempt
		var wg sync.WaitGroup
		for range replicas {
			wg.Go(func() {
				switch app.serveNext(r, body) {
				case http.StatusNoContent:
					accepted.Add(1)
				case http.StatusBadRequest:
					rejected.Add(1)
				default:
					other.Add(1)
				}
			})
		}
		wg.Wait()
		return http.StatusNoContent
	})

	runChecks(t, service, url, checks)
	noError(t, service.WaitIdle(t.Context()))
	messages.Wait() // WaitIdle does not wait for handlers of attempts that timed out

	if accepted.Load() != checks || rejected.Load() != checks*(replicas-1) || other.Load() != 0 {
		t.Errorf("%d messages with %d copies each: %d accepted, %d rejected, %d other responses; want %d, %d and 0",
			checks, replicas, accepted.Load(), rejected.Load(), other.Load(), checks, checks*(replicas-1))
	}
	app.checkHandled(t, checks)
}

// message is an accepted message, to be sent again.
type message struct {
	request *http.Request
	body    []byte
}

// TestReplays_RedisRestart kills Redis under load, and restarts it from its append-only file after
// some messages got a 503 response. It sends a copy of every accepted message, and another one
// after the restart. No copy may be accepted.
func TestReplays_RedisRestart(t *testing.T) {
	t.Parallel()
	const checks, killAfter, restartAfter = 300, 100, 20
	srv := startServer(t, "--appendonly", "yes", "--appendfsync", "always")
	service := sandboxfake.New(t, sandboxfake.WithInMemory())
	app := newShop(t, service, srv.store)
	var mu sync.Mutex // guards accepted
	var accepted []message
	var unavailable, rejected, doubled atomic.Int32
	outage := make(chan struct{})
	url := handleWith(service, func(r *http.Request, body []byte) int {
		status := app.serveNext(r, body)
		switch status {
		case http.StatusNoContent:
			if app.serveNext(r, body) == http.StatusNoContent {
				doubled.Add(1)
			}
			mu.Lock()
			accepted = append(accepted, message{r.Clone(t.Context()), body}) // the context of r ends with its response
			n := len(accepted)
			mu.Unlock()
			if n == killAfter {
				srv.kill()
			}
		case http.StatusServiceUnavailable:
			if unavailable.Add(1) == restartAfter {
				close(outage)
			}
		default:
			rejected.Add(1)
		}
		return status
	})

	var load sync.WaitGroup
	load.Go(func() { runChecks(t, service, url, checks) })
	<-outage
	mu.Lock()
	before := accepted // nothing was accepted after the kill
	mu.Unlock()
	srv.start(t)
	var acceptedAgain, unavailableCopies int
	for _, m := range before {
		status := app.serveNext(m.request, m.body)
		for ; status == http.StatusServiceUnavailable; status = app.serveNext(m.request, m.body) {
			unavailableCopies++ // after many failed dials a client dials only once per second
		}
		if status != http.StatusBadRequest {
			acceptedAgain++
		}
	}
	load.Wait()
	for range 5 { // the service waits 10, 20, 30, 40 and 50 s between attempts
		noError(t, service.Advance(t.Context(), 50*time.Second))
	}
	timedOut := app.resendTimedOut(t, service)

	if acceptedAgain != 0 {
		t.Errorf("%d of %d messages from before the restart were accepted again, want 0: their claims are lost", acceptedAgain, len(before))
	}
	if doubled.Load() != 0 || rejected.Load() != 0 {
		t.Errorf("%d copies were accepted, %d messages rejected; want 0 and 0", doubled.Load(), rejected.Load())
	}
	app.checkHandled(t, checks)
	t.Logf("%d accepted, %d of them before the restart; 503 for %d messages in the outage and for %d copies while replicas reconnected; %d timed out", len(accepted), len(before), unavailable.Load(), unavailableCopies, timedOut)
}
