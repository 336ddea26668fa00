package signature

import (
	"context"
	"math"
	"time"
)

// refreshOperation is the Operation of the errors of JWKS.Refresh.
const refreshOperation = "key set refresh"

// Refresh fetches the key set now, unless the last valid set is younger than MinRefetch. Use it for
// a readiness probe, and to reject a removed key before the max-age of the set has passed. After
// Refresh returns nil, a key no longer verifies if the service removed it at least MinRefetch and
// 10 s before the call. The 10 s cover the timeout of a fetch and the resolution of the Age header.
//
// A cache between you and the service may ignore the request for a new copy. If the Age of the
// response is MinRefetch or more, Refresh uses the set but returns an error. Within MinRefetch of a
// fetch, it also returns that error, without a request, once a copy from a cache is older than
// MinRefetch. Caches that send no Age header are not noticed.
//
// Concurrent calls and key lookups share one fetch. During the delay after a failed fetch, Refresh
// returns the error of that fetch without a request. It does not delay the fetches for key IDs that
// are not in the set. If ctx is done, Refresh returns an error and the fetch continues.
//
// The error wraps [ErrKeySource], and that of ctx if ctx is done. It does not mean that
// verification is unavailable: the last valid set remains in use until MaxStale. See [JWKS.Age].
func (j *JWKS) Refresh(ctx context.Context) error {
	f, err := j.refresh(ctx)
	if f != nil {
		select {
		case <-f.done:
			if err = f.err; err == nil && f.set.originAge >= j.minRefetch {
				err = errCachedSet
			}
		case <-ctx.Done():
			err = wrapError(ErrKeySource, "get key set", ctx.Err())
		}
	}
	if err != nil {
		return withOperation(refreshOperation, err)
	}
	return nil
}

// refresh returns the fetch to wait for, or nil if the last valid set is younger than MinRefetch or
// was fetched within that time. It releases the lock even if the caller's clock panics.
func (j *JWKS) refresh(ctx context.Context) (*fetch, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if set := j.current.Load(); set != nil {
		now := j.now()
		age, ok := set.age(now)
		since, _ := elapsed(set.fetched, now)
		switch {
		case ok && age < j.minRefetch:
			return nil, nil
		case ok && since < j.minRefetch && j.fetch == nil:
			return nil, errCachedSet // another fetch would most likely return the same copy
		}
	}
	return j.join(ctx, false)
}

// errCachedSet is the error of Refresh if the last valid set is older than MinRefetch although it
// was just fetched.
var errCachedSet = newError(ErrKeySource, "key set came from a cache and is older than MinRefetch (does a cache ignore Cache-Control: no-cache?)")

// Age returns the age of the last valid key set: the time since it was fetched, by the wall clock
// or the monotonic clock, whichever is longer, and the Age header of that response. It reports
// false before the first successful fetch. If the wall clock has been set back to before that
// fetch, the set is not used, and Age returns the largest Duration.
func (j *JWKS) Age() (age time.Duration, fetched bool) {
	set := j.current.Load()
	if set == nil {
		return 0, false
	}
	age, ok := set.age(j.now())
	if !ok {
		return math.MaxInt64, true
	}
	return age, true
}
