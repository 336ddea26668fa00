package signature

import (
	"context"
	"log/slog"
	"time"

	"github.com/idverify/idverify-go/internal/redact"
)

// run fetches the key set and publishes the result, even if the caller's HTTP client, clock or
// logger panics or calls runtime.Goexit.
func (j *JWKS) run(ctx context.Context, f *fetch) {
	f.ended, f.err, f.fault = f.begun, newError(ErrKeySource, "get key set: HTTP client or clock called runtime.Goexit"), true
	defer j.publish(f)
	defer j.logResult(ctx, f)
	defer func() {
		if p := recover(); p != nil {
			f.err, f.fault = newError(ErrKeySource, "get key set: HTTP client or clock panicked in "+redact.PanicSite()+": "+redact.PanicText(p)), true
		}
	}()

	set, ignored, err := j.get(ctx)
	ended := j.now()
	f.set, f.ignored, f.ended, f.err, f.fault = set, ignored, ended, err, false
}

// publish stores the result and wakes the callers that wait for it. It does not call user code.
func (j *JWKS) publish(f *fetch) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if f.err == nil {
		j.current.Store(f.set)
		j.failures = 0
	} else {
		j.lastErr = f.err
		j.retryPause = pause{from: f.ended, length: min(time.Second<<min(j.failures, 20), j.minRefetch)}
		if f.fault && j.failures == 0 {
			j.retryPause = pause{} // not a failure of the service, so the next call may fetch at once
		}
		j.failures++
	}
	j.fetch = nil
	close(f.done)
}

// logResult logs a failed fetch, or the ignored keys of a successful one. It recovers if the logger
// panics.
func (j *JWKS) logResult(ctx context.Context, f *fetch) {
	defer func() { _ = recover() }()
	if f.err == nil {
		if f.ignored != (ignoredKeys{}) {
			j.logger.LogAttrs(ctx, slog.LevelError, "signature: keys of the key set ignored",
				slog.Int("private_parts", f.ignored.private),
				slog.Int("duplicate", f.ignored.duplicate))
		}
		return
	}
	j.mu.Lock()
	failures := j.failures + 1
	j.mu.Unlock()
	set := j.current.Load()
	j.logger.LogAttrs(ctx, slog.LevelError, "signature: key set not fetched",
		slog.Int("failures", failures),
		slog.Bool("old_set_usable", set != nil && set.usable(f.ended, j.maxStale)),
		slog.String("error", withOperation("key lookup", f.err).Error()))
}

// get fetches and parses the key set.
func (j *JWKS) get(ctx context.Context) (*keySet, ignoredKeys, error) {
	header, body, err := fetchBody(ctx, &j.client, j.url)
	if err != nil {
		return nil, ignoredKeys{}, err
	}
	keys, ignored, err := parseKeySet(body)
	if err != nil {
		return nil, ignored, err
	}
	age := cachedFor(header)
	set, err := j.newest(&keySet{keys: keys, fetched: j.now(), originAge: age, lifetime: lifetime(header, j.maxAge), cached: age > 0})
	return set, ignored, err
}

// newest returns set, or a copy of the last valid set if set is an older one from a cache. An older
// set may contain keys that the service has removed since. It must not extend the use of the last
// valid set beyond MaxStale.
func (j *JWKS) newest(set *keySet) (*keySet, error) {
	last := j.current.Load()
	if last == nil {
		return set, nil
	}
	age, ok := last.age(set.fetched)
	if !ok || set.originAge <= age+ageTolerance {
		return set, nil
	}
	kept := &keySet{keys: last.keys, fetched: set.fetched, originAge: age, cached: true}
	switch since, _ := elapsed(last.fetched, set.fetched); {
	case last.fresh(set.fetched):
		kept.lifetime = last.lifetime - since
	case last.usable(set.fetched, j.maxStale):
		kept.lifetime = min(minLifetime, j.maxAge)
	default:
		return nil, newError(ErrKeySource, "get key set: response came from a cache and is older than the last valid key set")
	}
	return kept, nil
}
