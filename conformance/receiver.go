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

// Receiver gets the service's callbacks for the suite. Serve it where its public URL leads; each expectation has an address of its own below that.
// It may serve several runs at once.
type Receiver struct {
	publicURL string

	mu      sync.Mutex // guards all below
	inboxes map[string]*inbox
}

// maxCallback bounds what is read of a callback, in bytes.
const maxCallback = 1 << 20

// NewReceiver returns a receiver that the service reaches at publicURL: absolute, http or https, without query and fragment. A proxy between may shorten the path, but keeps its last segment.
func NewReceiver(publicURL string) (*Receiver, error) {
	u, err := url.Parse(publicURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("conformance: the receiver's public URL must be absolute, http or https, without userinfo, query and fragment")
	}
	return &Receiver{publicURL: strings.TrimSuffix(publicURL, "/"), inboxes: make(map[string]*inbox)}, nil
}

// ServeHTTP takes what the service sends, and answers as the expectation wants it.
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
		// What comes is judged as it is: cut off, it fits no digest.
		body = append(body, " (cut off)"...)
	}
	header := req.Header.Clone()
	header.Set("Content-Length", fmt.Sprint(req.ContentLength))
	if box.status >= 300 && box.status < 400 {
		w.Header().Set("Location", box.url)
	}
	w.WriteHeader(box.status)
	box.add(&message{method: req.Method, header: header, body: body})
}

// message is what the receiver got.
type message struct {
	method string
	header http.Header
	body   []byte
}

// inbox is the address of one expectation, below the receiver's.
type inbox struct {
	receiver *Receiver
	name     string
	url      string
	status   int // that it answers

	mu       sync.Mutex // guards both below
	messages []*message
	changed  chan struct{} // closed at the next message
}

// open makes an inbox that answers with status. The query is for the signature to cover.
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

// all is what has come so far, and a channel that is closed when more does.
func (b *inbox) all() ([]*message, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.messages, b.changed
}

// first waits for a message and returns it.
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
			return nil, fmt.Errorf("no callback came in %v", patience)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
