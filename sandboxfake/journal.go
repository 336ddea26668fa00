package sandboxfake

import (
	"maps"
	"net/http"
	"slices"
)

// journal keeps the newest entries, up to a limit, and counts those it dropped. It grows with its
// entries, so an unused one costs nothing.
type journal[T any] struct {
	limit   int
	entries []T // a ring once it is full: the oldest at first
	first   int
	dropped int
}

func (j *journal[T]) add(entry T) {
	if len(j.entries) < j.limit {
		j.entries = append(j.entries, entry)
		return
	}
	j.entries[j.first] = entry
	j.first = (j.first + 1) % j.limit
	j.dropped++
}

// all yields the entries, the oldest first.
func (j *journal[T]) all(yield func(T) bool) {
	for i := range j.entries {
		if !yield(j.entries[(j.first+i)%len(j.entries)]) {
			return
		}
	}
}

// maxHeader bounds the header of a request to the service, with its request line. A journal of
// requests with the 1 MiB that net/http allows would take gigabytes.
const maxHeader = 32 << 10

// What the journal keeps of a request.
const (
	maxJournalPath   = 4 << 10
	maxJournalBody   = 16 << 10
	maxJournalLines  = 64       // of the header
	maxJournalValue  = 1 << 10  // of one line
	maxJournalHeader = 16 << 10 // names and values together
)

// truncated marks the end of an incomplete text.
const truncated = "[truncated]"

// truncate shortens an entry to what the journal keeps.
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

// fitsJournal reports whether the journal keeps all of a header.
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

// truncateHeader returns the part of a header that the journal keeps: the first lines, sorted by
// name and shortened, that fit into maxJournalHeader. A line that does not fit is skipped.
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
