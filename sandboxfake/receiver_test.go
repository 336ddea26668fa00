package sandboxfake_test

import (
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"testing"
)

// bodies is a receiver of callbacks that acknowledges and remembers them.
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
		t.Fatal("no callback came")
	}
	return b.all[len(b.all)-1]
}
