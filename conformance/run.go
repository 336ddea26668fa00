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
)

// run is one run of the suite: what it has learnt so far. One goroutine uses it.
type run struct {
	config   Config
	client   *http.Client
	tokens   map[string]string         // by scopes, of the project's credentials and of the workspace's, which have no scope in common
	keys     map[string]*rsa.PublicKey // by key id; nil until they are asked for
	projects []string                  // the ids of those to delete at the end
	charged  bool                      // a check has cost something
	stopped  error                     // why nothing more is to be sent
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
	// Where an answer sends the device is for the expectations to judge.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &run{config: config, client: &client, tokens: make(map[string]string)}, nil
}

// callTimeout bounds one call.
const callTimeout = 30 * time.Second

// maxAnswer bounds what is read of an answer, in bytes.
const maxBody = 4 << 20

// Media types of bodies that the suite sends.
const (
	mediaJSON  = "application/json"
	mediaPatch = "application/json-patch+json"
)

// reply is an answer of the service.
type response struct {
	status int
	header http.Header
	body   []byte
}

// object is a JSON object of the service.
type object map[string]any

// send makes a call. The errors tell neither URL nor address.
func (r *run) send(ctx context.Context, method, target, authorization, media string, body []byte) (*response, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("a URL of the service cannot be read")
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	httpResp, err := r.client.Do(req)
	if err != nil {
		return nil, withoutURL(err)
	}
	defer httpResp.Body.Close()
	resp := &response{status: httpResp.StatusCode, header: httpResp.Header}
	if resp.body, err = io.ReadAll(io.LimitReader(httpResp.Body, maxBody)); err != nil {
		return nil, fmt.Errorf("the answer broke off: %w", withoutURL(err))
	}
	return resp, nil
}

// withoutURL is a failure of net/http without the URL, which may hold a code or an address.
func withoutURL(err error) error {
	if timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && timeout.Timeout() {
		return errors.New("no answer came in time")
	}
	return errors.New("the connection failed or broke")
}

// call makes a call of the API with a token of one scope of the project, or of the workspace for a management scope. It waits for as long as a 429 says, within bounds.
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
		// Rate limits are not shown in the specification: one is no fault, and what it refused was not done.
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

// How long, and how often, the suite waits where the service has had too many requests.
const (
	maxAttempts   = 3
	maxRetryAfter = 60 // seconds
)

// basic is the Authorization of section 5.1.
func basic(c idverify.Credentials) string {
	req := http.Request{Header: make(http.Header)}
	req.SetBasicAuth(c.ClientID, c.ClientSecret.Reveal())
	return req.Header.Get("Authorization")
}

// tokenCall asks for a token with a multipart form (section 4), of which empty fields are left out.
func (r *run) tokenCall(ctx context.Context, c idverify.Credentials, grantType, scope string) (*response, error) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, value := range map[string]string{"grant_type": grantType, "scope": scope} {
		if value != "" {
			_ = form.WriteField(name, value) // to memory
		}
	}
	form.Close()
	return r.send(ctx, http.MethodPost, r.config.BaseURL+"/oauth2/v1/token", basic(c), form.FormDataContentType(), body.Bytes())
}

// token is a token for a scope, asked for once. Where there is none, the expectation rests on 1.
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
		return "", blocked{1}
	}
	r.tokens[scope] = token
	return token, nil
}

// newToken asks for a token and judges the answer.
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

// advance moves the service's clock. Tokens may have expired on the way.
func (r *run) advance(ctx context.Context, d time.Duration) error {
	if err := r.config.Advance(ctx, d); err != nil {
		return errors.New("the service's clock could not be moved")
	}
	clear(r.tokens)
	return nil
}

// cleanUp deletes the projects that the run made, also after ctx has ended.
func (r *run) cleanUp(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	for _, id := range r.projects {
		_, _ = r.call(ctx, "projects", http.MethodDelete, projectsPath+"/"+url.PathEscape(id), "")
	}
}

// object reads the answer as a JSON object with a status; 200 stands for any 2XX.
func (a *response) object(status int) (object, error) {
	if a.status != status && (status != 200 || a.status/100 != 2) {
		return nil, fmt.Errorf("the answer is %s, not %s", statusText(a.status), statusText(status))
	}
	return parseObject(a.body)
}

func parseObject(body []byte) (object, error) {
	var o object
	if err := json.Unmarshal(body, &o); err != nil || o == nil {
		return nil, errors.New("the body is no JSON object")
	}
	return o, nil
}

// refused judges an answer that should be a refusal: some 4XX.
func (a *response) rejected() error {
	if a.status/100 != 4 {
		return fmt.Errorf("the answer is %s, not a refusal (4XX)", statusText(a.status))
	}
	return nil
}

func statusText(status int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
}

// text is a field that must be text and not empty.
func (o object) text(name string) (string, error) {
	if s, ok := o[name].(string); ok && s != "" {
		return s, nil
	}
	return "", fmt.Errorf("%s is missing, empty or no text", name)
}

// at is the object or value at a path of names, or nil.
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

// want judges fields by what they must be; absent stands for a field that must not be there, or be null.
func (o object) want(fields object) error {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		want, got := fields[name], o[name]
		switch {
		case want == absent && got != nil:
			return fmt.Errorf("%s is %v, and should be absent", name, got)
		case want != absent && got == nil:
			return fmt.Errorf("%s is missing, and should be %v", name, want)
		case want != absent && got != want:
			return fmt.Errorf("%s is %v, not %v", name, redact(got), want)
		}
	}
	return nil
}

// absent is a field that is not applicable.
const absent = "(absent)"

// shown is a value for an error message; what is not a word or a truth value may be confidential.
func redact(v any) string {
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
