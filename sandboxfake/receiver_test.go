package sandboxfake_test

import (
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"testing"
)

// recordingReceiver is a receiver that acknowledges callbacks and stores their bodies.
type recordingReceiver struct {
	mu  sync.Mutex // guards all
	all []map[string]any
}

func (b *recordingReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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

func (b *recordingReceiver) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.all)
}

func (b *recordingReceiver) last(t testing.TB) map[string]any {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.all) == 0 {
		t.Fatal("no callback received")
	}
	return b.all[len(b.all)-1]
}

// completeCheck creates a PhoneCheck with the callback URL target and opens its Check URL, which
// queues the callback.
func (a *api) completeCheck(target string) (id string) {
	a.t.Helper()
	id = a.create(phoneChecks, `{"phone_number":"447700900012","callback_url":"`+target+`"}`)
	if r := a.get(phoneChecks + "/" + id + "/redirect"); r.status != http.StatusOK {
		a.t.Fatalf("open: %d %s", r.status, r.body)
	}
	return id
}

// blockingReceiver is a receiver that reports each callback on received and responds with the next
// status from respond.
type blockingReceiver struct {
	received chan *http.Request
	respond  chan int
}

func newBlockingReceiver() *blockingReceiver {
	return &blockingReceiver{received: make(chan *http.Request, 100), respond: make(chan int)}
}

func (h *blockingReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The request's context is canceled with the connection only after the body was read.
	io.Copy(io.Discard, r.Body)
	h.received <- r
	select {
	case status := <-h.respond:
		w.WriteHeader(status)
	case <-r.Context().Done():
	}
}
