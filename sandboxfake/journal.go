package sandboxfake

// journal keeps the newest entries, up to a limit, and counts those it dropped. It grows with its entries, so an unused one costs nothing.
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
