package sandboxfake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/timeline"
	"github.com/idverify/idverify-go/internal/wire"
)

// Request is a request in the service's journal. Credentials in headers are redacted, as are bodies
// that may contain a code, a token or a card number.
//
// The journal keeps at most 4 KiB of the path, 16 KiB of the body, and 64 header lines (16 KiB in
// total, and 1 KiB per value). Truncated text ends in "[truncated]". The service rejects a header
// larger than 36 KiB with 431 and does not record the request.
type Request struct {
	ID          string // the X-Request-Id of the response
	Time        time.Time
	Operation   string // such as "phone_check.create"; empty for an unknown path, or if the request was rejected earlier
	Method      string
	Path        string // with the query
	Header      http.Header
	Body        []byte
	Truncated   bool   // Path, Header or Body is incomplete
	Status      int    // of the response, even if a fault withheld it
	ClientID    string // empty without valid credentials
	ProjectID   string
	WorkspaceID string
	Fault       *Fault // injected fault, or nil
}

// redacted replaces a secret.
const redacted = timeline.Redacted

// Requests returns the requests in the journal, oldest first: at most 1,024, or the limit of
// [WithJournalLimit]. See [Server.DroppedRequests]. The result shares no memory with the server.
//
// Requests waits for token renewals as [Server.WaitIdle] does, until the server is reset or closed.
func (s *Server) Requests() []Request {
	s.awaitRenewals()
	svc := s.lock()
	defer svc.mu.Unlock()
	out := make([]Request, 0, len(svc.requests.entries))
	for entry := range svc.requests.all {
		r := *entry
		r.Header = r.Header.Clone()
		r.Body = bytes.Clone(r.Body)
		if r.Fault != nil {
			r.Fault = new(*r.Fault)
		}
		out = append(out, r)
	}
	return out
}

// DroppedRequests returns the number of requests that the journal has dropped because of its limit.
func (s *Server) DroppedRequests() int {
	svc := s.lock()
	defer svc.mu.Unlock()
	return svc.requests.dropped
}

// journalRequest adds a request and the status of its response to the journal.
func (s *service) journalRequest(c *call, resp *response) {
	entry := &Request{
		Time:      s.clock.Now(),
		Operation: c.op.Name,
		Method:    c.r.Method,
		Path:      c.r.RequestURI,
		Header:    c.r.Header,
		Body:      redactBody(c.op, c.body),
		Status:    resp.status,
		Fault:     c.fault,
	}
	// The request is over: nothing else reads its header.
	for _, name := range []string{"Authorization", "Proxy-Authorization", "Cookie"} {
		for i := range entry.Header[name] {
			entry.Header[name][i] = redacted
		}
	}
	entry.truncate()
	if c.credential != nil {
		entry.ClientID = c.credential.clientID
	}
	p, w := s.owner(c)
	if p != nil {
		entry.ProjectID = p.id
	}
	if w != nil {
		entry.WorkspaceID = w.id
	}
	c.id = s.requestID(p)
	entry.ID = c.id
	s.requests.add(entry)
	s.recent.addRequest(c, entry, resp)
}

// requestID returns the next request ID of a project, or of requests without a project.
func (s *service) requestID(p *project) string {
	if p == nil {
		return s.ids.uuid("request", "", &s.ids.root)
	}
	return s.ids.uuid("request", p.id, &p.counter)
}

// owner returns the project and the workspace of a call, or nil.
func (s *service) owner(c *call) (*project, *workspace) {
	credential := c.credential
	if credential == nil {
		clientID, _, _ := c.r.BasicAuth()
		credential = s.accounts.credentials[clientID]
	}
	if credential != nil {
		return credential.project, credential.workspace
	}
	// Check URLs are opened without credentials.
	if check := s.checks[c.ids["check_id"]]; check != nil {
		return check.project, check.project.workspace
	}
	return nil, nil
}

// redactBody redacts a body that may contain a secret: a token to revoke, a code, a card number, or
// the body of a request that was rejected before its operation was known.
func redactBody(op wire.Operation, body []byte) []byte {
	secret := false
	switch {
	case op.Name == wire.Revoke.Name, op.Action() == "complete", op.Name == wire.AddPaymentMethod.Name, op.Name == "":
		secret = true
	case op.Name == wire.Token.Name:
		secret = bytes.Contains(body, []byte("client_secret"))
	}
	if secret && len(body) > 0 {
		return []byte(redacted)
	}
	return body
}

// maxHeader is the maximum size of a request header, including the request line. net/http adds 4
// KiB to it.
const maxHeader = 32 << 10

// Limits of a request in the journal, in bytes except for maxJournalLines.
const (
	maxJournalPath   = 4 << 10
	maxJournalBody   = 16 << 10
	maxJournalLines  = 64       // of the header
	maxJournalValue  = 1 << 10  // of one header value
	maxJournalHeader = 16 << 10 // all header names and values
)

// truncated marks the end of truncated text.
const truncated = "[truncated]"

// truncate shortens an entry to the limits of the journal.
func (r *Request) truncate() {
	if len(r.Path) > maxJournalPath {
		r.Path, r.Truncated = r.Path[:maxJournalPath]+truncated, true
	}
	if len(r.Body) > maxJournalBody {
		r.Body, r.Truncated = slices.Concat(r.Body[:maxJournalBody], []byte(truncated)), true
	}
	if !fitsJournal(r.Header) {
		r.Header, r.Truncated = truncateHeader(r.Header), true
	}
}

// fitsJournal reports whether a header is within the limits of the journal.
func fitsJournal(h http.Header) bool {
	lines, size := 0, 0
	for name, values := range h {
		for _, value := range values {
			lines++
			size += len(name) + len(value)
			if len(value) > maxJournalValue {
				return false
			}
		}
	}
	return lines <= maxJournalLines && size <= maxJournalHeader
}

// truncateHeader returns a header within the limits of the journal. It takes the lines in order of
// name, truncates their values, and skips lines that do not fit into maxJournalHeader.
func truncateHeader(h http.Header) http.Header {
	kept := make(http.Header)
	lines, size := 0, 0
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			if len(value) > maxJournalValue {
				value = value[:maxJournalValue] + truncated
			}
			if lines == maxJournalLines || size+len(name)+len(value) > maxJournalHeader {
				continue
			}
			lines++
			size += len(name) + len(value)
			kept[name] = append(kept[name], value)
		}
	}
	return kept
}

// journal contains the newest entries, up to a limit, and the number of dropped entries. It
// allocates memory only as entries are added.
type journal[T any] struct {
	limit   int
	entries []T // a ring buffer when full; the oldest is entries[first]
	first   int
	dropped int
}

// add adds an entry. If the journal is full, it drops the oldest entry and returns it.
func (j *journal[T]) add(entry T) (dropped T) {
	if len(j.entries) < j.limit {
		j.entries = append(j.entries, entry)
		return dropped
	}
	dropped, j.entries[j.first] = j.entries[j.first], entry
	j.first = (j.first + 1) % j.limit
	j.dropped++
	return dropped
}

// at returns the i-th entry, counted from the oldest.
func (j *journal[T]) at(i int) T { return j.entries[(j.first+i)%len(j.entries)] }

// all yields the entries, oldest first.
func (j *journal[T]) all(yield func(T) bool) {
	for i := range j.entries {
		if !yield(j.at(i)) {
			return
		}
	}
}

// Delivery is a callback with all its delivery attempts.
type Delivery struct {
	ID          string
	CheckID     string
	ReferenceID string               // of the check; may be empty
	Product     idverify.Product     // in the callback header
	Status      idverify.CheckStatus // of the check
	ProjectID   string
	URL         string
	Body        []byte
	Attempts    []Attempt
	NextAttempt time.Time // zero if there is no further attempt
	Done        bool      // no attempt is in flight or due later
}

// Acknowledged reports whether the receiver responded with a 2XX status.
func (d Delivery) Acknowledged() bool {
	return len(d.Attempts) > 0 && d.Attempts[len(d.Attempts)-1].Result == ResultAcknowledged
}

// Attempt is one attempt of a delivery.
type Attempt struct {
	Time   time.Time // on the server's clock
	Header http.Header
	Status int // of the response; 0 without a response
	Result AttemptResult
	Error  string // reason for a missing response
	Fault  *Fault // injected fault, or nil
	// Duration is the time from sending the callback to the response or the error, and the latency of
	// a fault, on the system's clock.
	Duration time.Duration
}

// AttemptResult classifies the outcome of an attempt.
type AttemptResult string

// Results of an attempt. A callback is retried only after ResultFailed.
const (
	ResultAcknowledged AttemptResult = "acknowledged" // 2XX
	ResultRejected     AttemptResult = "rejected"     // 3XX or 4XX
	ResultTimedOut     AttemptResult = "timed_out"    // no response within 10 s
	ResultUnreachable  AttemptResult = "unreachable"  // connection failed or lost
	ResultFailed       AttemptResult = "failed"       // 5XX
)

// text returns the result for people.
func (r AttemptResult) text() string { return strings.ReplaceAll(string(r), "_", " ") }

// Deliveries returns the callbacks in the journal, oldest first: at most 1,024, or the limit of
// [WithJournalLimit]. See [Server.DroppedDeliveries]. The result shares no memory with the server.
func (s *Server) Deliveries() []Delivery {
	svc := s.lock()
	defer svc.mu.Unlock()
	out := make([]Delivery, 0, len(svc.deliveries.entries))
	for d := range svc.deliveries.all {
		out = append(out, d.copy())
	}
	return out
}

// DroppedDeliveries returns the number of callbacks that the journal has dropped because of its
// limit. They are delivered nevertheless.
func (s *Server) DroppedDeliveries() int {
	svc := s.lock()
	defer svc.mu.Unlock()
	return svc.deliveries.dropped
}

// WaitDelivery waits until match returns true for a callback, and returns that callback. It calls
// match for each callback in the journal, and again for each callback that is queued, sent or
// responded to. To wait for the end of all attempts, check Done in match.
//
// The error wraps the error of ctx, [ErrReset] or [ErrClosed], and its text contains the result of
// the last attempt. match must not call the server.
func (s *Server) WaitDelivery(ctx context.Context, match func(Delivery) bool) (Delivery, error) {
	svc := s.lock()
	defer svc.mu.Unlock()
	var found Delivery
	seen := uint64(0)
	err := svc.await(ctx, func() bool {
		for d := range svc.deliveries.all {
			if d.revision <= seen {
				continue
			}
			if found = d.copy(); match(found) {
				return true
			}
		}
		seen = svc.revision
		return false
	})
	if err != nil {
		return Delivery{}, fmt.Errorf("sandboxfake: wait for delivery: %w: no match among %d callbacks (%s)", err, len(svc.deliveries.entries), svc.lastAttempt())
	}
	return found, nil
}

// lastAttempt describes the latest attempt of the deliveries in the journal, for errors.
func (s *service) lastAttempt() string {
	var last *Attempt
	for d := range s.deliveries.all {
		if n := len(d.Attempts); n > 0 && (last == nil || !d.Attempts[n-1].Time.Before(last.Time)) {
			last = &d.Attempts[n-1]
		}
	}
	switch {
	case len(s.deliveries.entries) == 0:
		return "check that the check or its project has a callback URL"
	case last == nil:
		return "no attempt has ended"
	case last.Status == 0:
		return fmt.Sprintf("last attempt: %s, no response", last.Result.text())
	}
	return fmt.Sprintf("last attempt: %s, status %d", last.Result.text(), last.Status)
}

// Redeliver queues a callback from the journal for immediate delivery, whatever the result of its
// earlier attempts. It creates a new delivery with the same body, and a new date and signature. A
// date has whole seconds: if the check already has a callback of this second, the new one is sent
// in the next. With [WithFrozenClock] there is no next second before [Server.Advance]: the callback
// is then identical to the one of the same second, and a verifier with a replay store rejects it.
//
// Redeliver does not wait for the delivery. It fails if the journal has no delivery with this ID.
func (s *Server) Redeliver(ctx context.Context, deliveryID string) error {
	_, err := s.redeliver(ctx, deliveryID)
	return err
}

// redeliver implements Redeliver. It returns the ID of the new delivery.
func (s *Server) redeliver(ctx context.Context, deliveryID string) (newID string, err error) {
	svc := s.lock()
	defer svc.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("sandboxfake: redeliver: %w", err)
	}
	if svc.ended != nil {
		return "", fmt.Errorf("sandboxfake: redeliver: %w", svc.ended)
	}
	i := slices.IndexFunc(svc.deliveries.entries, func(d *delivery) bool { return d.ID == deliveryID })
	if i < 0 {
		return "", fmt.Errorf("sandboxfake: redeliver: %w", errNoDelivery)
	}
	first := svc.deliveries.entries[i]
	again := &delivery{project: first.project, dated: first.dated, Delivery: first.copy()}
	again.Attempts, again.Done = nil, false
	svc.queueDelivery(again)
	svc.runDue()
	return again.ID, nil
}

var errNoDelivery = errors.New("delivery not found in the journal")

// copy returns a copy of d that shares no memory with it.
func (d *delivery) copy() Delivery {
	c := d.Delivery
	c.Body = bytes.Clone(c.Body)
	c.Attempts = slices.Clone(c.Attempts)
	for i, a := range c.Attempts {
		c.Attempts[i].Header = a.Header.Clone()
		if a.Fault != nil {
			c.Attempts[i].Fault = new(*a.Fault)
		}
	}
	return c
}
