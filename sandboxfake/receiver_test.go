package sandboxfake_test

import (
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"testing"
)

// bodies is a receiver that acknowledges callbacks and stores their bodies.
type bodies struct {
	mu  sync.Mutex // guards all
	all []map[string]any
}

func (b *bodies) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	var body map[string]any
	if err := json.Unmarshal(text, &body); err != nil {
		http.Error(w, "not JSON", http.StatusBadRequest)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, body)
	w.WriteHeader(http.StatusNoContent)
}

func (b *bodies) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.all)
}

func (b *bodies) last(t testing.TB) map[string]any {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.all) == 0 {
		t.Fatal("no callback received")
	}
	return b.all[len(b.all)-1]
}

// finish creates a PhoneCheck with the callback URL target and opens its Check URL, which queues
// the callback.
func (a *api) finish(target string) (id string) {
	a.t.Helper()
	id = a.create(phoneChecks, `{"phone_number":"447700900012","callback_url":"`+target+`"}`)
	if r := a.get(phoneChecks + "/" + id + "/redirect"); r.status != http.StatusOK {
		a.t.Fatalf("open: %d %s", r.status, r.body)
	}
	return id
}

// holding is a receiver that reports each callback on came and responds with the next status from
// answer.
type holding struct {
	came   chan *http.Request
	answer chan int
}

func newHolding() *holding {
	return &holding{came: make(chan *http.Request, 100), answer: make(chan int)}
}

func (h *holding) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The request's context is canceled with the connection only after the body was read.
	io.Copy(io.Discard, r.Body)
	h.came <- r
	select {
	case status := <-h.answer:
		w.WriteHeader(status)
	case <-r.Context().Done():
	}
}
