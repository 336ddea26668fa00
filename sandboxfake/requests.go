package sandboxfake

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"time"

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
// Requests waits for token renewals as [Server.Idle] does, until the server is reset or closed.
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
	switch op.Name {
	case wire.Revoke.Name, wire.CompletePhoneCheck.Name, wire.CompleteSubscriberCheck.Name, wire.AddPaymentMethod.Name, "":
		secret = true
	case wire.Token.Name:
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
