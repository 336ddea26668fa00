package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"
)

// Receiver receives the service's callbacks. Serve it at its public URL; each expectation uses its
// own path below that. It is safe for concurrent use and may serve several runs.
type Receiver struct {
	publicURL string

	mu      sync.Mutex // guards inboxes
	inboxes map[string]*inbox
}

// maxCallback limits the body of a callback, in bytes.
const maxCallback = 1 << 20

// NewReceiver returns a receiver that the service reaches at publicURL, an absolute http or https
// URL without userinfo, query or fragment. A proxy in front of it may rewrite the path but must
// keep the last segment.
func NewReceiver(publicURL string) (*Receiver, error) {
	u, err := url.Parse(publicURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("conformance: new receiver: public URL must be an absolute http or https URL without userinfo, query or fragment")
	}
	return &Receiver{publicURL: strings.TrimSuffix(publicURL, "/"), inboxes: make(map[string]*inbox)}, nil
}

// ServeHTTP records a callback and responds with the status that its expectation requires.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	box := r.inboxes[path.Base(req.URL.Path)]
	r.mu.Unlock()
	if box == nil {
		http.NotFound(w, req)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxCallback))
	if err != nil {
		// Keep the message: its digest will not match.
		body = append(body, " (truncated)"...)
	}
	header := req.Header.Clone()
	header.Set("Content-Length", fmt.Sprint(req.ContentLength))
	if box.status >= 300 && box.status < 400 {
		w.Header().Set("Location", box.url)
	}
	w.WriteHeader(box.status)
	box.add(&message{method: req.Method, header: header, body: body})
}

// message is a received callback.
type message struct {
	method string
	header http.Header
	body   []byte
}

// inbox receives the callbacks of one expectation.
type inbox struct {
	receiver *Receiver
	name     string
	url      string
	status   int // of the response

	mu       sync.Mutex // guards messages and changed
	messages []*message
	changed  chan struct{} // closed when a message arrives
}

// open creates an inbox that responds with status. Its URL has a query, which the signature must
// cover.
func (r *Receiver) open(status int) *inbox {
	name := rand.Text()
	box := &inbox{receiver: r, name: name, url: r.publicURL + "/" + name + "?from=conformance&a=%2f+b", status: status, changed: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inboxes[name] = box
	return box
}

func (b *inbox) close() {
	b.receiver.mu.Lock()
	defer b.receiver.mu.Unlock()
	delete(b.receiver.inboxes, b.name)
}

func (b *inbox) add(m *message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.messages = append(b.messages, m)
	close(b.changed)
	b.changed = make(chan struct{})
}

// all returns the messages so far and a channel that is closed when the next message arrives.
func (b *inbox) all() ([]*message, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.messages, b.changed
}

// first waits up to patience for the first message.
func (b *inbox) first(ctx context.Context, patience time.Duration) (*message, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		messages, changed := b.all()
		if len(messages) > 0 {
			return messages[0], nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil, fmt.Errorf("no callback within %v", patience)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
