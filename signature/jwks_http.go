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
	// fetchTimeout limits one fetch. A callback may wait for two: one that is in progress when it
	// arrives, and its own. The service waits 10 s for the response.
	fetchTimeout = 3 * time.Second

	maxKeySetHeader = 64 << 10
	maxKeySetBody   = 1 << 20
	maxRedirects    = 5

	// ageTolerance is the accuracy with which two copies from caches are compared. The Age header has
	// a resolution of one second, and a response takes up to fetchTimeout.
	ageTolerance = fetchTimeout + 2*time.Second

	minLifetime     = time.Minute
	defaultLifetime = 5 * time.Minute // without max-age
)

// fetchBody fetches a key set within fetchTimeout. It returns an error unless the status is 200 and
// the body is within maxKeySetBody. It closes the connection, because the next fetch is minutes
// away.
func fetchBody(ctx context.Context, client *http.Client, url string) (http.Header, []byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, fetchTimeout, errors.New("no response within 3 s"))
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, wrapError(ErrKeySource, "get key set", err)
	}
	r.Header.Set("Accept", "application/json")
	// A cached set may be older than the key of this lookup.
	r.Header.Set("Cache-Control", "no-cache")
	r.Close = true
	response, err := client.Do(r)
	if err != nil {
		return nil, nil, wrapError(ErrKeySource, "get key set", fetchCause(ctx, err), r.URL.Hostname())
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, nil, newError(ErrKeySource, statusText(response.StatusCode))
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxKeySetBody+1))
	if err != nil {
		return nil, nil, wrapError(ErrKeySource, "get key set: read body", fetchCause(ctx, err), r.URL.Hostname())
	}
	if len(body) > maxKeySetBody {
		return nil, nil, newError(ErrKeySource, "get key set: body is larger than 1 MiB")
	}
	return response.Header, body, nil
}

// statusText describes a response with a status other than 200. A 3XX or 4XX status suggests a
// wrong URL, except 429.
func statusText(status int) string {
	text := fmt.Sprintf("get key set: %d %s", status, http.StatusText(status))
	if status/100 == 3 || status/100 == 4 && status != http.StatusTooManyRequests {
		text += " (check the URL of the key set)"
	}
	return text
}

// fetchCause returns the cause of ctx if ctx is done, and err otherwise.
func fetchCause(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("connection closed before the response: %w", io.EOF)
	}
	return err
}

// defaultTransport returns a clone of http.DefaultTransport with limited response headers. If the
// application has replaced http.DefaultTransport by another type, it returns that.
func defaultTransport() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t = t.Clone()
	t.MaxResponseHeaderBytes = maxKeySetHeader
	return t
}

// sameHostOnly returns a redirect policy that permits at most maxRedirects redirects, all to https
// on the same host, and then applies next.
func sameHostOnly(next func(*http.Request, []*http.Request) error) func(*http.Request, []*http.Request) error {
	return func(r *http.Request, via []*http.Request) error {
		switch {
		case r.URL.Scheme != "https" || !strings.EqualFold(r.URL.Host, via[0].URL.Host):
			return errors.New("redirected to another host")
		case len(via) > maxRedirects:
			return errors.New("too many redirects")
		case next != nil:
			return next(r, via)
		}
		return nil
	}
}

// cachedFor returns the Age of a response (RFC 9111, section 5.1), which is zero unless it came
// from a cache.
func cachedFor(header http.Header) time.Duration {
	seconds, _ := strconv.ParseUint(header.Get("Age"), 10, 31)
	return time.Duration(seconds) * time.Second
}

// lifetime returns how long a set may be used without a new fetch, at most limit. This is the
// max-age minus the Age, but at least minLifetime, or defaultLifetime if there is no max-age.
func lifetime(header http.Header, limit time.Duration) time.Duration {
	age, ok := maxAge(header)
	if !ok {
		return min(defaultLifetime, limit)
	}
	return min(max(age-cachedFor(header), minLifetime), limit)
}

// maxAge returns the max-age directive of the Cache-Control header (RFC 9111, section 5.2.2.1).
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
