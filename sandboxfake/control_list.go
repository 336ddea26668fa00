package sandboxfake

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Default and maximum number of items on a page of the control plane.
const (
	defaultControlPage = 50
	maxControlPage     = 200
)

// maxControlSearch is the maximum length of a search text, in bytes. It is the length of the
// longest text that is searched.
const maxControlSearch = maxJournalPath

// controlListing contains the query parameters of a list.
type controlListing struct {
	limit  int // 0 if the parameter is missing
	before *cursor
	query  url.Values
}

// cursor is the position in a journal at which a page ends. It remains valid while entries are
// added or dropped.
type cursor struct {
	generation uint64 // of the service
	seq        uint64 // of the last entry of the page, counted from the first one ever added
}

func (c cursor) String() string { return fmt.Sprintf("%d-%d", c.generation, c.seq) }

// parseCursor parses a cursor.
func parseCursor(text string) (*cursor, error) {
	generation, seq, _ := strings.Cut(text, "-")
	var c cursor
	var err error
	if c.generation, err = strconv.ParseUint(generation, 10, 64); err == nil {
		c.seq, err = strconv.ParseUint(seq, 10, 64)
	}
	if err != nil {
		return nil, badControl("before must be the value of next in the previous page")
	}
	return &c, nil
}

// newControlListing parses the parameters limit, before and search. Except for those in repeatable,
// a parameter must not be repeated.
func newControlListing(r *http.Request, repeatable ...string) (*controlListing, error) {
	l := &controlListing{query: r.URL.Query()}
	for name, values := range l.query {
		if len(values) > 1 && !slices.Contains(repeatable, name) {
			return nil, badControl("duplicate query parameter %q", name)
		}
	}
	if len(l.query.Get("search")) > maxControlSearch {
		return nil, badControl("search must have at most %d bytes", maxControlSearch)
	}
	var err error
	if l.query.Has("limit") {
		l.limit, err = strconv.Atoi(l.query.Get("limit"))
		if err != nil || l.limit < 1 || l.limit > maxControlPage {
			return nil, badControl("limit must be from 1 to %d", maxControlPage)
		}
	}
	if l.query.Has("before") {
		if l.before, err = parseCursor(l.query.Get("before")); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// errOldCursor is returned for a cursor from before a reset.
func errOldCursor() error {
	p := &problem{Type: "about:blank", Status: http.StatusConflict, Detail: "the server was reset after the previous page: request the first page"}
	p.Title = http.StatusText(p.Status)
	return p
}

// scanChunk is the number of journal entries that a page examines while it holds the mutex.
const scanChunk = 500

// controlPage calls visit for the entries of a page, newest first. visit reports whether the page
// contains the entry, and is called with s.mu held. controlPage returns the cursor of the next
// page, or "" if there is none. The caller does not hold s.mu, so that a search of many entries
// does not block the service.
func controlPage[T any](s *service, j *journal[T], l *controlListing, visit func(entry T, full bool) bool) (next string, err error) {
	limit := l.limit
	if limit == 0 {
		limit = defaultControlPage
	}
	before := ^uint64(0)
	if l.before != nil {
		if l.before.generation != s.generation {
			return "", errOldCursor()
		}
		before = l.before.seq
	}
	last := cursor{generation: s.generation}
	found := 0
	chunk := func() (more bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		oldest := uint64(j.dropped)
		before = min(before, oldest+uint64(len(j.entries)))
		for range scanChunk {
			if before <= oldest {
				return false
			}
			before--
			full := found == limit
			if !visit(j.at(int(before-oldest)), full) {
				continue
			}
			if full {
				next = last.String()
				return false
			}
			found++
			last.seq = before
		}
		return true
	}
	for chunk() {
	}
	return next, nil
}
