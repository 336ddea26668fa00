package crash

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"time"
)

// fate describes how the network treats a callback.
type fate struct {
	lost         bool // before it reaches a backend
	responseLost bool
	duplicated   bool
	held         bool // until another callback has passed
}

func (w *world) fate() fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fate{
		lost:         w.random.IntN(50) == 0,
		responseLost: w.random.IntN(50) == 0,
		duplicated:   w.random.IntN(10) == 0,
		held:         w.random.IntN(10) == 0,
	}
}

// callback passes a callback to a backend, as a load balancer does: if the backend cannot be
// reached, the response is 502.
func (w *world) callback(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer w.pass(body)
	w.counts.callbacks.Add(1)
	f := w.fate()
	if f.lost {
		w.counts.lost.Add(1)
		panic(http.ErrAbortHandler) // the service does not send it again
	}
	if f.held {
		w.counts.held.Add(1)
		select {
		case <-w.passed:
		case <-time.After(50 * time.Millisecond): // there may be no other callback
		}
	}
	if f.duplicated {
		w.counts.duplicates.Add(1)
		w.copies.Go(func() { w.forward(r, body) })
	}
	status := w.forward(r, body)
	switch {
	case f.responseLost:
		w.counts.responseLost.Add(1)
		panic(http.ErrAbortHandler)
	case status == http.StatusServiceUnavailable:
		w.counts.early.Add(1)
	}
	rw.WriteHeader(status)
}

// pass continues what waits for the callback: a callback that is held, and an early sign-up.
func (w *world) pass(body []byte) {
	select {
	case w.passed <- struct{}{}:
	default:
	}
	var check struct {
		CheckID string `json:"check_id"`
	}
	if json.Unmarshal(body, &check) != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if attempted := w.attempts[check.CheckID]; attempted != nil {
		close(attempted)
		delete(w.attempts, check.CheckID)
	}
}

// forward sends a callback to the next backend and returns the status of the response.
func (w *world) forward(r *http.Request, body []byte) int {
	p := w.backends[int(w.turn.Add(1))%len(w.backends)]
	base := p.url.Load()
	if base == nil {
		w.counts.unreachable.Add(1)
		return http.StatusBadGateway
	}
	request, err := http.NewRequest(r.Method, *base+r.RequestURI, bytes.NewReader(body))
	if err != nil {
		return http.StatusInternalServerError
	}
	request.Host = r.Host
	request.Header = r.Header.Clone()
	response, err := w.network.Do(request)
	if err != nil {
		w.counts.unreachable.Add(1)
		return http.StatusBadGateway
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}
