package sandboxfake

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"sync"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/renewals"
	"github.com/idverify/idverify-go/sandboxfake/internal/vclock"
)

// service implements the operations of the service. It owns everything that Reset replaces:
// accounts, checks, tokens, journals and the clock. It has no reference to its [Server].
type service struct {
	opts      *options
	url       string          // base of all links
	transport *http.Transport // for callbacks
	ctx       context.Context // context of delivery attempts; canceled by end
	cancel    context.CancelFunc
	running   sync.WaitGroup    // goroutines of delivery attempts
	renewals  *renewals.Counter // of the server's clients and consoles
	recent    *recentEvents     // of the server, or nil
	// generation is the number of resets before this service.
	generation uint64

	mu      sync.Mutex    // guards the fields below
	ended   error         // nil until end; then ErrReset or ErrClosed
	timer   *time.Timer   // wakes a running clock for the next event
	wakes   time.Time     // due time of the event that the timer is set for; zero for none
	changed chan struct{} // closed at the next change; nil while nobody waits

	clock      vclock.Clock
	ids        ids
	keys       keyRing
	dates      messageDates
	accounts   accounts
	tokens     tokens
	checks     map[string]*check // of all projects, by check ID
	history    *history          // nil without the control plane
	deliveries journal[*delivery]
	requests   journal[*Request]
	injections []*injection
	windows    map[*workspace]*rateWindow // of WithRateLimit
	revision   uint64                     // see noteChange
	performing uint64                     // sequence number of the call in progress among the recent events, or 0
	inFlight   int                        // delivery attempts in flight
	delayed    int                        // token requests that a fault delays
	waiting    []*delivery                // due, but maxInFlight attempts are in flight

	initial struct {
		project, workspace     idverify.Credentials
		projectID, workspaceID string
	}
}

// newService returns a service with the initial workspace, its owner and its project. Their
// IDs and credentials do not depend on seed, so that clients need no new configuration after a
// reset. All other IDs are derived from seed.
func newService(opts *options, url string, transport *http.Transport, keys *keySource, seed uint64) (*service, error) {
	s := &service{
		opts:       opts,
		url:        url,
		transport:  transport,
		ids:        ids{seed: opts.seed},
		keys:       keyRing{source: keys},
		dates:      messageDates{system: opts.systemDates},
		checks:     make(map[string]*check),
		windows:    make(map[*workspace]*rateWindow),
		deliveries: journal[*delivery]{limit: opts.journalLimit},
		requests:   journal[*Request]{limit: opts.journalLimit},
	}
	if opts.control != nil {
		s.history = newHistory(opts.journalLimit)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if !opts.frozenAt.IsZero() {
		s.clock.Freeze(opts.frozenAt)
	}
	if err := s.addKey(); err != nil {
		return nil, err
	}
	if err := s.bootstrap(); err != nil {
		return nil, err
	}
	s.ids.seed = seed
	return s, nil
}

// end ends the service. It cancels delivery attempts and makes callers that wait return err. The
// caller holds s.mu.
func (s *service) end(err error) {
	s.ended = err
	s.cancel()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.signal()
}

// signal wakes all callers that wait for a change. The caller holds s.mu.
func (s *service) signal() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// noteChange increments the revision, and wakes all callers that wait for a change. It is called
// for every change that the control plane shows. The caller holds s.mu.
func (s *service) noteChange() {
	s.revision++
	s.signal()
}

// nextChange returns a channel that is closed at the next change or at the end of the service. The
// caller holds s.mu.
func (s *service) nextChange() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// await waits until done returns true. It calls done immediately and after every change. It returns
// an error if the service or ctx ends. The caller holds s.mu, which is unlocked while it waits.
func (s *service) await(ctx context.Context, done func() bool) error {
	for {
		switch {
		case s.ended != nil:
			return s.ended
		case done():
			return nil
		}
		changed := s.nextChange()
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if err := ctx.Err(); err != nil && !done() {
			return err
		}
	}
}

// wireTime returns t in UTC, truncated to seconds, the precision of times in JSON.
func wireTime(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// ids generates IDs and secrets from a seed and counters, so that the same calls return the same
// values.
type ids struct {
	seed uint64
	root counter
}

// afterReset returns the seed after the n-th reset.
func (i *ids) afterReset(n uint64) uint64 {
	c := counter{"reset": n - 1}
	d := i.digest("reset", "", &c)
	return binary.BigEndian.Uint64(d[:])
}

// counter is the number of IDs generated for one owner, by kind. Each owner has its own counter, so
// that owners do not affect each other's IDs.
type counter map[string]uint64

// digest returns the next 32 bytes for the given kind and owner.
func (i *ids) digest(kind, owner string, c *counter) [sha256.Size]byte {
	if *c == nil {
		*c = make(counter)
	}
	(*c)[kind]++
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 128), i.seed)
	b = binary.BigEndian.AppendUint64(b, (*c)[kind])
	b = append(b, kind...)
	b = append(b, 0)
	b = append(b, owner...)
	return sha256.Sum256(b)
}

// uuid returns the next ID of the given kind, formatted as a UUID.
func (i *ids) uuid(kind, owner string, c *counter) string {
	d := i.digest(kind, owner, c)
	d[6] = d[6]&0x0f | 0x80 // version 8: custom (RFC 9562)
	d[8] = d[8]&0x3f | 0x80
	text := make([]byte, 0, 36)
	for i, part := range [][]byte{d[0:4], d[4:6], d[6:8], d[8:10], d[10:16]} {
		if i > 0 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, part)
	}
	return string(text)
}

// secret returns the next token, code or client secret. It has 43 characters that need no escaping
// in a URL.
func (i *ids) secret(kind, owner string, c *counter) string {
	d := i.digest(kind, owner, c)
	return base64.RawURLEncoding.EncodeToString(d[:])
}
