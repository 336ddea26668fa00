package soak_test

import (
	"bytes"
	"context"
	"errors"
	"hash/fnv"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

const host = "shop.sandbox.test"

// shop is the customer of the service: it gets the callbacks and the redirects of a round, and keeps the books.
type shop struct {
	url      string
	callback http.Handler
	redirect http.Handler

	mu     sync.Mutex // guards all below
	round  *round
	ledger *ledger
	codes  map[string]string // by check id, until they are taken
}

// book is what a shop knows of its checks.
type ledger struct {
	known    map[string]sandboxfake.Outcome // those whose create was answered, and how they must end unless they expire
	finished map[string]bool                // those that were seen through: they must not have expired
	handled  map[string]*idverify.Callback  // what was stored, by check id
	failures map[string]int                 // tries answered 5XX, by check id

	attempts, failed, repeated int
}

func newShop(t testing.TB, h *harness) *shop {
	t.Helper()
	s := new(shop)
	keys, err := signature.NewJWKS(h.service.URL()+"/.well-known/jwks.json", &signature.JWKSOptions{
		HTTPClient: h.httpClient(), Now: h.service.Now, MinRefetch: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := signature.NewVerifier(keys, []string{host}, &signature.VerifierOptions{
		Now:       h.service.Now,
		Replay:    signature.NewMemoryReplayStore(1 << 22),
		ClockSkew: time.Minute, // a busy machine must not decide what is accepted
	})
	if err != nil {
		t.Fatal(err)
	}
	s.callback = idverify.CallbackHandler(verifier, s.store)
	s.redirect = idverify.RedirectHandler(verifier, func(w http.ResponseWriter, _ *http.Request, r *idverify.Redirect) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.codes[r.CheckID] = r.Code
	})
	mux := http.NewServeMux()
	mux.HandleFunc("POST /callbacks", s.serveCallback)
	mux.Handle("GET /back", s.redirect)
	s.url = h.service.Handle(host, mux)
	return s
}

func (s *shop) startRound(r *round) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round = r
	s.codes = make(map[string]string)
	s.ledger = &ledger{known: make(map[string]sandboxfake.Outcome), finished: make(map[string]bool), handled: make(map[string]*idverify.Callback), failures: make(map[string]int)}
}

func (s *shop) currentLedger() *ledger {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger
}

// expect notes a check that was created.
func (s *shop) expect(checkID string, o sandboxfake.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.known[checkID] = o
}

// finish notes a check that was seen through.
func (s *shop) finish(checkID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.finished[checkID] = true
}

func (s *shop) takeCode(checkID string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	code := s.codes[checkID]
	delete(s.codes, checkID)
	return code
}

// serveCallback fails as often as is planned for the check: half of the time before anything is looked at, else behind the handler, when all is stored. It counts what goes out.
func (s *shop) serveCallback(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "cut off", http.StatusServiceUnavailable)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	id := checkID(body)
	s.mu.Lock()
	fail := s.ledger.failures[id] < s.plan(id)
	early := fail && s.ledger.failures[id]%2 == 0
	s.mu.Unlock()

	recorder := httptest.NewRecorder()
	if !early {
		s.callback.ServeHTTP(recorder, r)
	}
	if fail {
		recorder.Code = http.StatusBadGateway
	}
	s.mu.Lock()
	s.ledger.attempts++
	if recorder.Code >= 500 {
		s.ledger.failures[id]++
		s.ledger.failed++
	}
	s.mu.Unlock()
	w.WriteHeader(recorder.Code)
}

// plan is how often the tries of a check fail: one check in twelve, up to four times, or five where the keys are sure to be at hand for the last try.
func (s *shop) plan(id string) int {
	h := fnv.New32a()
	io.WriteString(h, id)
	if s.round.calm {
		return max(0, int(h.Sum32()%60)-54) // 1 to 5
	}
	return max(0, int(h.Sum32()%48)-43) // 1 to 4
}

// store is what an application's handler is: idempotent on the check id.
func (s *shop) store(_ context.Context, c *idverify.Callback) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.CheckID == "" || !c.Status.Final() {
		return errors.New("not a check that has ended")
	}
	if _, stored := s.ledger.handled[c.CheckID]; stored {
		s.ledger.repeated++
		return nil
	}
	s.ledger.handled[c.CheckID] = c
	return nil
}
