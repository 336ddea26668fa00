package conformance

import (
	"bytes"
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/redact"
)

// run is the state of one run. It is not safe for concurrent use.
type run struct {
	config   Config
	client   *http.Client
	tokens   map[string]string         // by scope; project and workspace credentials have no scope in common
	keys     map[string]*rsa.PublicKey // by key ID; nil until fetched
	projects []string                  // IDs of the projects to delete at the end
	charged  bool                      // a check was charged
	stopped  error                     // why the remaining rules are not run
}

func newRun(config Config) (*run, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	config.BaseURL = strings.TrimSuffix(config.BaseURL, "/")
	if config.Patience == 0 {
		config.Patience = 15 * time.Second
	}
	client := http.Client{}
	if config.HTTPClient != nil {
		client = *config.HTTPClient
	}
	// The rules inspect redirects themselves.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &run{config: config, client: &client, tokens: make(map[string]string)}, nil
}

// callTimeout limits the time for one request and its response.
const callTimeout = 30 * time.Second

// maxBody limits the response body, in bytes.
const maxBody = 4 << 20

// Media types of request bodies.
const (
	mediaJSON  = "application/json"
	mediaPatch = "application/json-patch+json"
)

// response is an HTTP response with its complete body.
type response struct {
	status int
	header http.Header
	body   []byte
}

// object is a JSON object from the service.
type object map[string]any

// send sends one request. Its errors contain neither URL nor address.
func (r *run) send(ctx context.Context, method, target, authorization, media string, body []byte) (*response, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("invalid URL from the service")
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	httpResp, err := r.client.Do(req)
	if err != nil {
		return nil, redact.Error(err)
	}
	defer httpResp.Body.Close()
	resp := &response{status: httpResp.StatusCode, header: httpResp.Header}
	if resp.body, err = io.ReadAll(io.LimitReader(httpResp.Body, maxBody)); err != nil {
		return nil, fmt.Errorf("truncated response: %w", redact.Error(err))
	}
	return resp, nil
}

// connect returns an error unless the service responds to a request. A response that is truncated
// or contains an invalid redirect is a response.
func (r *run) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.config.BaseURL+keySetPath, nil)
	if err != nil {
		return redact.Error(err)
	}
	transport := r.client.Transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	httpResp, err := transport.RoundTrip(req)
	if err != nil {
		return redact.Error(err)
	}
	return httpResp.Body.Close()
}

// call sends an API request with a token for scope. It retries after a 429 with a Retry-After of at
// most maxRetryAfter.
func (r *run) call(ctx context.Context, scope, method, path, body string) (*response, error) {
	token, err := r.token(ctx, scope)
	if err != nil {
		return nil, err
	}
	media := ""
	switch {
	case method == http.MethodPatch:
		media = mediaPatch
	case body != "":
		media = mediaJSON
	}
	for attempt := 1; ; attempt++ {
		resp, err := r.send(ctx, method, r.config.BaseURL+path, "Bearer "+token, media, []byte(body))
		if err != nil || resp.status != http.StatusTooManyRequests || attempt == maxAttempts {
			return resp, err
		}
		// A rate limit is not a fault, and the service did not process the request.
		seconds, err := strconv.Atoi(resp.header.Get("Retry-After"))
		if err != nil || seconds < 0 || seconds > maxRetryAfter {
			return resp, nil
		}
		select {
		case <-time.After(time.Duration(seconds) * time.Second):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Limits on retries after 429.
const (
	maxAttempts   = 3
	maxRetryAfter = 60 // seconds
)

// basic returns the Basic Authorization header for c.
func basic(c idverify.Credentials) string {
	req := http.Request{Header: make(http.Header)}
	req.SetBasicAuth(c.ClientID, c.ClientSecret.Reveal())
	return req.Header.Get("Authorization")
}

// tokenCall requests a token with a multipart form. Empty fields are omitted.
func (r *run) tokenCall(ctx context.Context, c idverify.Credentials, grantType, scope string) (*response, error) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, value := range map[string]string{"grant_type": grantType, "scope": scope} {
		if value != "" {
			_ = form.WriteField(name, value) // cannot fail: writes to memory
		}
	}
	form.Close()
	return r.send(ctx, http.MethodPost, r.config.BaseURL+"/oauth2/v1/token", basic(c), form.FormDataContentType(), body.Bytes())
}

// token returns a cached or new token for scope. If the service issues none, the error is
// blocked{tokenRule}.
func (r *run) token(ctx context.Context, scope string) (string, error) {
	if token := r.tokens[scope]; token != "" {
		return token, nil
	}
	c := r.config.Project
	if scope == "projects" {
		c = r.config.Workspace
	}
	token, err := r.newToken(ctx, c, scope)
	if err != nil {
		return "", blocked{tokenRule}
	}
	r.tokens[scope] = token
	return token, nil
}

// newToken requests a token and validates the response.
func (r *run) newToken(ctx context.Context, c idverify.Credentials, scope string) (string, error) {
	resp, err := r.tokenCall(ctx, c, "client_credentials", scope)
	if err != nil {
		return "", err
	}
	o, err := resp.object(200)
	if err != nil {
		return "", err
	}
	token, err := o.text("access_token")
	if err != nil {
		return "", err
	}
	if kind, _ := o["token_type"].(string); !strings.EqualFold(kind, "bearer") {
		return "", errors.New(`token_type is not "bearer"`)
	}
	return token, nil
}

// advance moves the service's clock forward. It drops the cached tokens, which may have expired.
func (r *run) advance(ctx context.Context, d time.Duration) error {
	if err := r.config.Advance(ctx, d); err != nil {
		return errors.New("cannot advance the service's clock")
	}
	clear(r.tokens)
	return nil
}

// cleanUpTimeout limits the time to delete the created projects.
const cleanUpTimeout = 30 * time.Second

// cleanUp deletes the projects that the run created, even if ctx has ended.
func (r *run) cleanUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	remain := 0
	for _, id := range r.projects {
		resp, err := r.call(ctx, "projects", http.MethodDelete, projectsPath+"/"+url.PathEscape(id), "")
		if err != nil || resp.status/100 != 2 {
			remain++
		}
	}
	if remain > 0 {
		return fmt.Errorf("%d of %d created projects were not deleted (delete the projects whose names begin with %q)", remain, len(r.projects), projectPrefix)
	}
	return nil
}

// object decodes the body as a JSON object. The status must match; 200 matches any 2xx.
func (a *response) object(status int) (object, error) {
	if a.status != status && (status != 200 || a.status/100 != 2) {
		return nil, fmt.Errorf("status is %s, want %s", statusText(a.status), statusText(status))
	}
	return parseObject(a.body)
}

func parseObject(body []byte) (object, error) {
	var o object
	if err := json.Unmarshal(body, &o); err != nil || o == nil {
		return nil, errors.New("body is not a JSON object")
	}
	return o, nil
}

// rejected returns an error unless the status is 4xx.
func (a *response) rejected() error {
	if a.status/100 != 4 {
		return fmt.Errorf("status is %s, want 4xx", statusText(a.status))
	}
	return nil
}

func statusText(status int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
}

// text returns the value of a field, which must be a non-empty string.
func (o object) text(name string) (string, error) {
	if s, ok := o[name].(string); ok && s != "" {
		return s, nil
	}
	return "", fmt.Errorf("%s is missing, empty or not a string", name)
}

// at returns the value at a path of field names, or nil.
func (o object) at(names ...string) any {
	var value any = map[string]any(o)
	for _, name := range names {
		inner, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = inner[name]
	}
	return value
}

// want compares fields with their expected values. The value absent means that the field must be
// missing or null.
func (o object) want(fields object) error {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		want, got := fields[name], o[name]
		switch {
		case want == absent && got != nil:
			return fmt.Errorf("%s is %v, want it absent", name, describe(got))
		case want != absent && got == nil:
			return fmt.Errorf("%s is missing, want %v", name, want)
		case want != absent && got != want:
			return fmt.Errorf("%s is %v, want %v", name, describe(got), want)
		}
	}
	return nil
}

// absent is the expected value of a field that does not apply.
const absent = "(absent)"

// describe formats v for an error message. Anything but a bool or a plain word may be confidential,
// so only its type is shown.
func describe(v any) string {
	switch v := v.(type) {
	case bool:
		return fmt.Sprint(v)
	case string:
		if len(v) <= 32 && strings.Trim(v, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz _-") == "" {
			return fmt.Sprintf("%q", v)
		}
	}
	return fmt.Sprintf("another %T", v)
}
