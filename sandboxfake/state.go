package sandboxfake

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"sync"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake/internal/vclock"
)

// state is everything that Reset makes anew. The server's mutex guards it.
type state struct {
	server  *Server
	ctx     context.Context // ends with the state: every attempt under way runs on it
	cancel  context.CancelFunc
	running sync.WaitGroup // the attempts under way, of which each has its goroutine

	clock      vclock.Clock
	ids        ids
	keys       keyRing
	dates      messageDates
	accounts   accounts
	tokens     tokens
	checks     map[string]*check // by check id, of every project
	deliveries journal[*delivery]
	requests   journal[*Request]
	injections []*injection
	windows    map[*workspace]*rateWindow // of WithRateLimit
	revision   uint64                     // counts the changes of deliveries
	inFlight   int                        // attempts under way
	waiting    []*delivery                // due, but too many are in flight

	initial struct{ project, workspace idverify.Credentials }
}

// newState returns the state of a new server, or of one that was reset: a workspace with its owner,
// and a sandbox project, made by the same code that serves HTTP requests. These always have the
// same IDs and credentials, so that clients need no new configuration after a reset. All other IDs
// come from seed.
func (s *Server) newState(seed uint64) (*state, error) {
	st := &state{
		server:     s,
		ids:        ids{seed: s.opts.seed},
		checks:     make(map[string]*check),
		windows:    make(map[*workspace]*rateWindow),
		deliveries: journal[*delivery]{limit: s.opts.journalLimit},
		requests:   journal[*Request]{limit: s.opts.journalLimit},
	}
	st.ctx, st.cancel = context.WithCancel(context.Background())
	st.dates.system = s.opts.systemDates
	if !s.opts.frozenAt.IsZero() {
		st.clock.Freeze(s.opts.frozenAt)
	}
	st.keys.source = s.keySource
	if err := st.keys.add(s, st); err != nil {
		return nil, err
	}
	if err := st.bootstrap(); err != nil {
		return nil, err
	}
	st.ids.seed = seed
	return st, nil
}

// wireTime is a time as the service keeps it: in whole seconds, as the wire shows it.
func wireTime(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// ids makes everything that another service would draw at random, from a seed and counters: the same calls give the same ids.
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

// counter numbers the things of one owner, by kind, so that what one owner does leaves the ids of another alone.
type counter map[string]uint64

// digest is the next 32 bytes of a kind for an owner.
func (i *ids) digest(kind, owner string, c *counter) [sha256.Size]byte {
	if *c == nil {
		*c = make(counter)
	}
	(*c)[kind]++
	b := binary.BigEndian.AppendUint64(nil, i.seed)
	b = binary.BigEndian.AppendUint64(b, (*c)[kind])
	b = append(b, kind...)
	b = append(b, 0)
	b = append(b, owner...)
	return sha256.Sum256(b)
}

// uuid is the next id of a kind, in the form of a UUID.
func (i *ids) uuid(kind, owner string, c *counter) string {
	d := i.digest(kind, owner, c)
	d[6] = d[6]&0x0f | 0x80 // version 8: made by a rule of our own (RFC 9562)
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

// secret is the next token, code or client secret of a kind: 43 characters that stand in a URL as they are.
func (i *ids) secret(kind, owner string, c *counter) string {
	d := i.digest(kind, owner, c)
	return base64.RawURLEncoding.EncodeToString(d[:])
}
