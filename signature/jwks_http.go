package signature

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// A callback may wait for two fetches, one under way when it came and one of its own, and the service waits 10 s for its answer.
	fetchTimeout = 3 * time.Second

	maxKeySetHeader = 64 << 10
	maxKeySetBody   = 1 << 20
	maxRedirects    = 5

	minLifetime     = time.Minute
	defaultLifetime = 5 * time.Minute // where the answer names none
)

// defaultTransport returns a clone of http.DefaultTransport with bounded response headers, so that
// it uses the same proxies, certificates and HTTP/2. If http.DefaultTransport has been replaced by
// another type, it is used as it is.
func defaultTransport() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t = t.Clone()
	t.MaxResponseHeaderBytes = maxKeySetHeader
	return t
}

// fetchBody gets a key set: within fetchTimeout, 200 only, bounded. It leaves no connection behind, because the next fetch is minutes away.
func fetchBody(ctx context.Context, client *http.Client, url string) (http.Header, []byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, fetchTimeout, errors.New("no answer within 3 s"))
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, wrapError(ErrKeySource, "get key set", err)
	}
	r.Header.Set("Accept", "application/json")
	// A set out of a cache on the way may be older than the key that is looked for.
	r.Header.Set("Cache-Control", "no-cache")
	r.Close = true
	response, err := client.Do(r)
	if err != nil {
		return nil, nil, wrapError(ErrKeySource, "get key set", fetchCause(ctx, err))
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, nil, newError(ErrKeySource, fmt.Sprintf("get key set: answered %d %s", response.StatusCode, http.StatusText(response.StatusCode)))
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxKeySetBody+1))
	if err != nil {
		return nil, nil, wrapError(ErrKeySource, "get key set: read body", fetchCause(ctx, err))
	}
	if len(body) > maxKeySetBody {
		return nil, nil, newError(ErrKeySource, "get key set: the body is larger than 1 MiB")
	}
	return response.Header, body, nil
}

// fetchCause says that the time was up where err says only that a context ended.
func fetchCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// sameHostOnly refuses redirects to where the service's keys are not: another host, or plain http.
func sameHostOnly(next func(*http.Request, []*http.Request) error) func(*http.Request, []*http.Request) error {
	return func(r *http.Request, via []*http.Request) error {
		switch {
		case r.URL.Scheme != "https" || !strings.EqualFold(r.URL.Host, via[0].URL.Host):
			return errors.New("redirected to another host")
		case len(via) > maxRedirects:
			return errors.New("redirected too often")
		case next != nil:
			return next(r, via)
		}
		return nil
	}
}

// cachedFor is how long the answer lay in caches on its way (RFC 9111, section 5.1).
func cachedFor(header http.Header) time.Duration {
	seconds, _ := strconv.ParseUint(header.Get("Age"), 10, 31)
	return time.Duration(seconds) * time.Second
}

// lifetime is how long a set may be used, by the max-age of its answer, less the age that it came with, and at most limit.
func lifetime(header http.Header, limit time.Duration) time.Duration {
	age, ok := maxAge(header)
	if !ok {
		return min(defaultLifetime, limit)
	}
	return min(max(age-cachedFor(header), minLifetime), limit)
}

// maxAge reads the max-age of Cache-Control (RFC 9111, section 5.2.2.1).
func maxAge(header http.Header) (age time.Duration, ok bool) {
	for _, value := range header.Values("Cache-Control") {
		for directive := range strings.SplitSeq(value, ",") {
			name, seconds, _ := strings.Cut(strings.TrimSpace(directive), "=")
			if !strings.EqualFold(name, "max-age") {
				continue
			}
			n, err := strconv.ParseUint(strings.Trim(seconds, `"`), 10, 32)
			return time.Duration(n) * time.Second, err == nil || errors.Is(err, strconv.ErrRange)
		}
	}
	return 0, false
}
