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
// 3 s, the timeout of a fetch, before the call.
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
			err = f.err
		case <-ctx.Done():
			err = wrapError(ErrKeySource, "get key set", ctx.Err())
		}
	}
	if err != nil {
		return withOperation(refreshOperation, err)
	}
	return nil
}

// refresh returns the fetch to wait for, or nil if the last valid set is younger than MinRefetch.
// It releases the lock even if the caller's clock panics.
func (j *JWKS) refresh(ctx context.Context) (*fetch, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if set := j.current.Load(); set != nil {
		if age, ok := elapsed(set.fetched, j.now()); ok && age < j.minRefetch {
			return nil, nil
		}
	}
	return j.join(ctx, false)
}

// Age returns the time since the last successful fetch, by the wall clock or the monotonic clock,
// whichever is longer. It reports false before the first such fetch. If the wall clock has been set
// back to before that fetch, the set is not used, and Age returns the largest Duration.
func (j *JWKS) Age() (age time.Duration, fetched bool) {
	set := j.current.Load()
	if set == nil {
		return 0, false
	}
	age, ok := elapsed(set.fetched, j.now())
	if !ok {
		return math.MaxInt64, true
	}
	return age, true
}
