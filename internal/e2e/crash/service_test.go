package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// signUp is a sign-up that a backend performs.
type signUp struct {
	Product idverify.Product
	Number  string
	Early   bool // the callback arrives before Bind
}

// visit asks the test to open a Check URL on a phone.
type visit struct {
	Reference string
	CheckID   string
	CheckURL  string
	Early     bool // respond after the first attempt of the callback
}

// world is everything around the backend: the service, the phones, the network, and a recipient of
// messages.
type world struct {
	service     *sandboxfake.Server
	control     *httptest.Server
	callbackURL string
	size        int64 // checks to open

	mu       sync.Mutex // guards random, opened, messages and attempts
	random   *rand.Rand
	opened   map[string]bool          // by reference
	messages map[string]int           // by check ID, or else by reference
	attempts map[string]chan struct{} // by check ID, closed after the first attempt of its callback

	finished atomic.Bool // no further sign-ups start

	backends []*process
	turn     atomic.Int64 // round robin
	moving   sync.RWMutex // held for writing while the service's clock moves
	passed   chan struct{}
	copies   sync.WaitGroup
	network  *http.Client
	counts   counts
}

// counts are the numbers of callbacks by their treatment.
type counts struct {
	callbacks, duplicates, held, early, lost, responseLost, unreachable atomic.Int64
}

const host = "shop.sandbox.test"

func newWorld(t *testing.T, size int, random *rand.Rand) *world {
	t.Helper()
	w := &world{
		service: sandboxfake.New(t, sandboxfake.WithFrozenClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
			sandboxfake.WithJournalLimit(20*size+10_000)),
		size:     int64(size),
		random:   random,
		opened:   map[string]bool{},
		messages: map[string]int{},
		attempts: map[string]chan struct{}{},
		passed:   make(chan struct{}),
		network:  &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
	}
	w.callbackURL = w.service.Handle(host, http.HandlerFunc(w.callback)) + "/callbacks"
	mux := http.NewServeMux()
	mux.HandleFunc("/clock", func(rw http.ResponseWriter, _ *http.Request) { json.NewEncoder(rw).Encode(w.service.Now()) })
	mux.HandleFunc("/sign-ups", func(rw http.ResponseWriter, _ *http.Request) { json.NewEncoder(rw).Encode(w.nextSignUp()) })
	mux.HandleFunc("/phone", w.phone)
	mux.HandleFunc("/messages", w.message)
	w.control = httptest.NewServer(mux)
	t.Cleanup(w.control.Close)
	t.Cleanup(w.copies.Wait)
	// The outcome of one in 100 creates is unknown to the backend.
	for _, operation := range []string{"phone_check.create", "sim_check.create", "subscriber_check.create"} {
		faults := make([]sandboxfake.Fault, 100)
		faults[w.random.IntN(100)].Drop = true
		w.service.Inject(sandboxfake.Match{Operation: operation, Repeat: true}, faults...)
	}
	return w
}

// nextSignUp returns the next sign-up, or the zero signUp if enough checks have been opened.
func (w *world) nextSignUp() signUp {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.finished.Load() || int64(len(w.opened)) >= w.size {
		return signUp{}
	}
	s := signUp{Product: idverify.ProductPhoneCheck, Number: fmt.Sprintf("4477009%05d", w.random.IntN(100_000)), Early: w.random.IntN(10) == 0}
	switch w.random.IntN(20) {
	case 0:
		s.Product = idverify.ProductSIMCheck
	case 1, 2, 3:
		s.Product = idverify.ProductSubscriberCheck
	}
	return s
}

// openedChecks returns the number of checks whose Check URL was opened, and of SIMChecks.
func (w *world) openedChecks() int64 { w.mu.Lock(); defer w.mu.Unlock(); return int64(len(w.opened)) }

// phone opens a Check URL. The phone does so also if the backend is killed meanwhile.
func (w *world) phone(rw http.ResponseWriter, r *http.Request) {
	w.moving.RLock()
	defer w.moving.RUnlock()
	var v visit
	if err := json.NewDecoder(r.Body).Decode(&v); err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	attempted := make(chan struct{})
	w.mu.Lock()
	w.opened[v.Reference] = true
	if v.Early {
		w.attempts[v.CheckID] = attempted
	}
	w.mu.Unlock()
	if v.CheckURL == "" {
		return // a SIMCheck
	}
	ctx := context.WithoutCancel(r.Context())
	if _, err := w.service.Device().Open(ctx, v.CheckURL); err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	if v.Early {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		select {
		case <-attempted:
		case <-ctx.Done():
		}
	}
}

// message is the effect of a check outside of the database.
func (w *world) message(_ http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		key = r.Header.Get("Reference")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.messages[key]++
}

// advance moves the clock of the service while no phone is in use.
func (w *world) advance(ctx context.Context, d time.Duration) error {
	w.moving.Lock()
	defer w.moving.Unlock()
	return w.service.Advance(ctx, d)
}
