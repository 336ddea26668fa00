package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
)

// awaitCallback creates a check for a phone number that ends in suffix, opens its Check URL and
// waits for the callback. target is the URL to which the callback was sent.
func (r *run) awaitCallback(ctx context.Context, p product, suffix string) (m *message, check object, target string, err error) {
	box := r.config.Receiver.open(http.StatusNoContent)
	defer box.close()
	if check, err = r.start(ctx, p, suffix, box.url); err != nil {
		return nil, nil, "", err
	}
	if _, _, err = r.open(ctx, check, ""); err != nil {
		return nil, nil, "", err
	}
	m, err = box.first(ctx, r.config.Patience)
	return m, check, box.url, err
}

// requireCallback returns a PhoneCheck callback for a rule that inspects its contents. If
// none arrives, the error is blocked{callbackRule}.
func (r *run) requireCallback(ctx context.Context) (m *message, check object, target string, err error) {
	m, check, target, err = r.awaitCallback(ctx, phoneCheck, "02")
	if err != nil && !errors.Is(err, errCharged) {
		err = blocked{callbackRule}
	}
	return m, check, target, err
}

func (r *run) sendsCallback(ctx context.Context) error {
	m, _, _, err := r.awaitCallback(ctx, phoneCheck, "02")
	if err != nil {
		return err
	}
	if m.method != http.MethodPost {
		return fmt.Errorf("method is %s, want POST", describe(m.method))
	}
	return nil
}

func (r *run) callbackPayload(ctx context.Context) error {
	m, check, _, err := r.requireCallback(ctx)
	if err != nil {
		return err
	}
	return validatePayload(m, check, object{"status": "COMPLETED", "match": true})
}

// validatePayload checks that the body of a callback describes check and has the wanted fields.
func validatePayload(m *message, check, want object) error {
	payload, err := parseObject(m.body)
	if err != nil {
		return err
	}
	if err := payload.validateCheck(); err != nil {
		return err
	}
	if payload["check_id"] != check["check_id"] {
		return errors.New("check_id does not match the check")
	}
	return payload.want(want)
}

func (r *run) callbackHeaders(ctx context.Context) error {
	m, _, _, err := r.requireCallback(ctx)
	if err != nil {
		return err
	}
	if media, _, _ := mime.ParseMediaType(m.header.Get("Content-Type")); media != mediaJSON {
		return errors.New("Content-Type is not application/json")
	}
	if _, err := http.ParseTime(m.header.Get("Date")); err != nil {
		return errors.New("header Date is missing or invalid")
	}
	if m.header.Get("Digest") == "" {
		return errors.New("header Digest is missing")
	}
	if m.header.Get("Content-Length") != strconv.Itoa(len(m.body)) {
		return errors.New("Content-Length is missing or does not match the body")
	}
	if kind := m.header.Get(callbackHeader); kind != phoneCheck.scope {
		return fmt.Errorf("header %s is %s, want %q", callbackHeader, describe(kind), phoneCheck.scope)
	}
	return nil
}

func (r *run) callbackSignature(ctx context.Context) error {
	m, _, target, err := r.requireCallback(ctx)
	if err != nil {
		return err
	}
	return r.verifyCallback(ctx, target, m)
}

func (r *run) callbackDigest(ctx context.Context) error {
	m, _, _, err := r.requireCallback(ctx)
	if err != nil {
		return err
	}
	return validateDigest(m.header.Get("Digest"), m.body)
}

// callbackOf tests the callback for a check whose phone number ends in suffix.
func callbackOf(p product, suffix string, want object) func(*run, context.Context) error {
	return func(r *run, ctx context.Context) error {
		m, check, _, err := r.awaitCallback(ctx, p, suffix)
		if err != nil {
			return err
		}
		if kind := m.header.Get(callbackHeader); kind != p.scope {
			return fmt.Errorf("header %s is %s, want %q", callbackHeader, describe(kind), p.scope)
		}
		return validatePayload(m, check, want)
	}
}

// retryWindow is long enough for all attempts of a delivery.
const retryWindow = 10 * time.Minute

// attempts tests how many attempts the service makes when the receiver responds with status. If
// several are allowed, it also verifies the signature of each.
func attempts(status, atLeast, atMost int) func(*run, context.Context) error {
	return func(r *run, ctx context.Context) error {
		box := r.config.Receiver.open(status)
		defer box.close()
		check, err := r.start(ctx, phoneCheck, "02", box.url)
		if err != nil {
			return err
		}
		if _, _, err := r.open(ctx, check, ""); err != nil {
			return err
		}
		if _, err := box.first(ctx, r.config.Patience); err != nil {
			return blocked{callbackRule}
		}
		if err := r.advance(ctx, retryWindow); err != nil {
			return err
		}
		messages, _ := box.all()
		if len(messages) < atLeast || len(messages) > atMost {
			return fmt.Errorf("got %d attempts in %v, want %d to %d", len(messages), retryWindow, atLeast, atMost)
		}
		if atMost == 1 {
			return nil
		}
		for i, m := range messages {
			if err := r.verifyCallback(ctx, box.url, m); err != nil {
				return fmt.Errorf("attempt %d: %w", i+1, err)
			}
		}
		return nil
	}
}

// checkLifetime is longer than the time after which an unopened check expires.
const checkLifetime = 121 * time.Second

func (r *run) expires(ctx context.Context) error {
	box := r.config.Receiver.open(http.StatusNoContent)
	defer box.close()
	check, err := r.start(ctx, phoneCheck, "02", box.url)
	if err != nil {
		return err
	}
	if err := r.advance(ctx, checkLifetime); err != nil {
		return err
	}
	m, err := box.first(ctx, r.config.Patience)
	if err != nil {
		return err
	}
	if err := validatePayload(m, check, object{"status": "EXPIRED"}); err != nil {
		return err
	}
	_, end, err := r.awaitResult(ctx, phoneCheck, check)
	if err == nil && end != nil {
		return errors.New("the expired check can still be read")
	}
	return err
}

// Receiver receives the service's callbacks. Serve it at its public URL; each rule uses its
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
		return nil, errors.New("conformance: new receiver: the public URL must be an absolute http or https URL without userinfo, query or fragment")
	}
	return &Receiver{publicURL: strings.TrimSuffix(publicURL, "/"), inboxes: make(map[string]*inbox)}, nil
}

// ServeHTTP records a callback and responds with the status that its rule requires.
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

// inbox receives the callbacks of one rule.
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
