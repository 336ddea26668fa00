package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/idverify/idverify-go/signature"
)

// keySetChecks returns the check of the keys that sign callbacks and redirects.
func (d *doctorRun) keySetChecks() []doctorCheck {
	return []doctorCheck{{name: "key-set", needs: []string{"config-base-url", "config-ca-file", "base-url-response"}, run: d.checkKeySet}}
}

// oldCopy is the age of a cached key set below which a verifier does not fetch it again.
const oldCopy = 30 * time.Second

// checkKeySet evaluates the key set as a verifier does.
func (d *doctorRun) checkKeySet(ctx context.Context) diagnosis {
	e := d.request(ctx)
	switch {
	case e.status == 0 || e.err != nil:
		return sick("unavailable", "%s", e.failure())
	case e.status != http.StatusOK:
		return sick("unavailable", "%s", statusLine(e.status))
	}
	log := &errorCounter{}
	keys, err := signature.NewJWKS("https://localhost/.well-known/jwks.json", &signature.JWKSOptions{
		HTTPClient: &http.Client{Transport: replayed{e}}, Logger: slog.New(log),
	})
	if err != nil {
		return sick("unavailable", "%v", err)
	}
	var set struct {
		Keys []struct {
			ID string `json:"kid"`
		} `json:"keys"`
	}
	_ = json.Unmarshal(e.body, &set)
	usable := 0
	for _, key := range set.Keys {
		if _, err := keys.PublicKey(ctx, key.ID); err == nil {
			usable++
			d.keyID = key.ID
		}
	}
	if usable == 0 {
		return sick("unusable", "none of %s in the response is usable", plural(len(set.Keys), "key"))
	}
	detail := plural(usable, "key")
	ignored := len(set.Keys) - usable
	if ignored > 0 {
		detail += ", " + strconv.Itoa(ignored) + " ignored"
	}
	age := headerSeconds(e.header.Get("Age"))
	switch {
	case log.records.Load() > 0:
		return sick("ignored", "%s: they are published twice or with private parts", detail)
	case age > oldCopy:
		return sick("cached", "%s, from a cache that fetched them %s ago", detail, seconds(age))
	}
	return healthy("%s, fetched in %s, %s", detail, seconds(e.ended.Sub(e.began)), validity(e.header, age))
}

// validity describes how long the key set may be used.
func validity(header http.Header, age time.Duration) string {
	for directive := range strings.SplitSeq(header.Get("Cache-Control"), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		if maxAge := headerSeconds(value); strings.EqualFold(name, "max-age") && maxAge > 0 {
			return "valid for " + seconds(maxAge-age)
		}
	}
	return "without a max-age"
}

// headerSeconds parses a number of seconds. It returns 0 if there is none.
func headerSeconds(text string) time.Duration {
	n, err := strconv.ParseUint(strings.Trim(text, `"`), 10, 31)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second
}

// replayed is a transport that returns a response again.
type replayed struct{ e *exchange }

// RoundTrip implements [http.RoundTripper].
func (t replayed) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: t.e.status, Header: t.e.header, Body: io.NopCloser(bytes.NewReader(t.e.body)), Request: r}, nil
}

// errorCounter counts log records at level error.
type errorCounter struct{ records atomic.Int32 }

// Enabled implements [slog.Handler].
func (c *errorCounter) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelError
}

// Handle implements [slog.Handler].
func (c *errorCounter) Handle(context.Context, slog.Record) error {
	c.records.Add(1)
	return nil
}

// WithAttrs implements [slog.Handler].
func (c *errorCounter) WithAttrs([]slog.Attr) slog.Handler { return c }

// WithGroup implements [slog.Handler].
func (c *errorCounter) WithGroup(string) slog.Handler { return c }
