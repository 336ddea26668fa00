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

// shop is the backend of a customer of the service. It receives the callbacks and redirects of a
// round and records them in a ledger.
type shop struct {
	url      string
	callback http.Handler

	mu     sync.Mutex // guards the fields below
	round  *round
	ledger *ledger
	codes  map[string]string // by check ID, until takeCode
}

// ledger records what a shop knows of its checks.
type ledger struct {
	known    map[string]sandboxfake.Outcome // outcomes of created checks, by check ID
	finished map[string]bool                // checks that must not expire, by check ID
	handled  map[string]*idverify.Callback  // stored callbacks, by check ID
	failures map[string]int                 // attempts that got a 5XX response, by check ID

	attempts, failed, repeated int
}

func newShop(t testing.TB, h *harness) *shop {
	t.Helper()
	s := new(shop)
	keys := must(signature.NewJWKS(h.service.URL()+"/.well-known/jwks.json", &signature.JWKSOptions{
		HTTPClient: h.httpClient(), Now: h.service.Now, MinRefetch: time.Second,
	}))(t)
	verifier := must(signature.NewVerifier(keys, []string{host}, &signature.VerifierOptions{
		Now:       h.service.Now,
		Replay:    signature.NewMemoryReplayStore(1 << 22),
		ClockSkew: time.Minute, // on a busy machine, messages can take longer than the default
	}))(t)
	s.callback = idverify.CallbackHandler(verifier, s.store)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /callbacks", s.serveCallback)
	mux.Handle("GET /back", idverify.RedirectHandler(verifier, func(_ http.ResponseWriter, _ *http.Request, r *idverify.Redirect) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.codes[r.CheckID] = r.Code
	}))
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

// expect records a created check and its outcome.
func (s *shop) expect(checkID string, o sandboxfake.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.known[checkID] = o
}

// finish records that a check ran to its end.
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

// serveCallback fails the planned number of attempts for the check. The first, third and
// fifth failure occur before the handler runs, the others after it has stored the callback.
func (s *shop) serveCallback(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "body truncated", http.StatusServiceUnavailable)
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

// plan returns how many attempts of a check fail. About one check in twelve fails up to four times,
// or up to five times in a calm round, where the keys are available for the last attempt.
func (s *shop) plan(id string) int {
	h := fnv.New32a()
	io.WriteString(h, id)
	if s.round.calm {
		return max(0, int(h.Sum32()%60)-54) // 1 to 5
	}
	return max(0, int(h.Sum32()%48)-43) // 1 to 4
}

// store stores a callback. Like the handler of an application, it is idempotent on the check ID.
func (s *shop) store(_ context.Context, c *idverify.Callback) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.CheckID == "" || !c.Status.Final() {
		return errors.New("not a final check")
	}
	if _, stored := s.ledger.handled[c.CheckID]; stored {
		s.ledger.repeated++
		return nil
	}
	s.ledger.handled[c.CheckID] = c
	return nil
}
