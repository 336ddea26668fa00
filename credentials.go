package idverify

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/idverify/idverify-go/internal/redact"
)

// Credentials are a client ID and its secret, which the client exchanges for access tokens. Project
// credentials are for a [Client], workspace credentials for a [Console].
//
// They can be decoded from JSON, for example {"client_id": "…", "client_secret": "…"}. Other
// fields of the JSON are ignored; NewClient and NewConsole report missing ones. Encoded as JSON,
// the secret is a placeholder. [CredentialsFromEnv] reads credentials from the environment.
type Credentials struct {
	ClientID     string `json:"client_id"`
	ClientSecret Secret `json:"client_secret"`
}

// CredentialsSource provides the credentials of a [Client] or a [Console]. The sources
// [Credentials] and [CredentialsFromEnv] do not change. With another source, the credentials can be
// rotated while the Client or Console is in use: [CredentialsFile] reads a file, and a
// [CredentialsFunc] a secret store.
//
// The client calls such a source before each token request, not for each operation: about once per
// hour and scope. If the service rejects the credentials, the client calls the source once more,
// and requests the token once more if the source returns different credentials. While the
// credentials remain rejected, each operation that needs a token calls the source twice. A source
// should not cache credentials: after a rejection, it would return the rejected ones again.
//
// The context ends with the token request: after 30 s, or after the timeout of an attempt if that
// is shorter. The token request then fails with [context.DeadlineExceeded], and the result of the
// source is ignored. Other token requests wait for the source until then. At most five calls of the
// source run at a time.
//
// An error of the source is retried like a token request that was not sent, see [RetryPolicy],
// unless the service has just rejected the credentials. The operation's error matches the source's
// error by errors.Is and errors.As, but contains only its redacted text. The operation's error does
// not match the errors of this package, such as [ErrOutcomeUnknown], even if the source uses a
// Console. Invalid credentials and a panic are errors that are not retried.
//
// To rotate without failed calls, create the new credentials, let the source return them in all
// processes, and then delete the old credentials.
type CredentialsSource interface {
	Credentials(ctx context.Context) (Credentials, error)
}

// Credentials implements [CredentialsSource]. It returns c.
func (c Credentials) Credentials(context.Context) (Credentials, error) { return c, nil }

// CredentialsFunc is a function that implements [CredentialsSource].
type CredentialsFunc func(ctx context.Context) (Credentials, error)

// Credentials implements [CredentialsSource]. It calls f.
func (f CredentialsFunc) Credentials(ctx context.Context) (Credentials, error) { return f(ctx) }

// Environment variables of [CredentialsFromEnv].
const (
	envClientID     = "IDVERIFY_CLIENT_ID"
	envClientSecret = "IDVERIFY_CLIENT_SECRET"
)

// CredentialsFromEnv reads the environment variables IDVERIFY_CLIENT_ID and IDVERIFY_CLIENT_SECRET,
// and returns a source of these credentials, which does not notice later changes of the variables.
//
// If a variable is missing, empty or invalid, NewClient and NewConsole return an error that names
// the variable, without its value. White space around a value, such as the newline at the end of a
// file, is an error.
func CredentialsFromEnv() CredentialsSource {
	return envCredentials{os.Getenv(envClientID), NewSecret(os.Getenv(envClientSecret))}
}

// envCredentials are credentials from the environment, which do not change.
type envCredentials Credentials

// Credentials implements [CredentialsSource].
func (c envCredentials) Credentials(context.Context) (Credentials, error) {
	if err := c.validate(); err != nil {
		return Credentials{}, fmt.Errorf("idverify: %w", err)
	}
	return Credentials(c), nil
}

// validate is like [Credentials.validate]. Its error names the variables.
func (c envCredentials) validate() error {
	if err := Credentials(c).validateAs(envClientID, envClientSecret, "set both variables"); err != nil {
		return fmt.Errorf("read credentials from the environment: %w", err)
	}
	return nil
}

// CredentialsFile returns a source that reads the JSON of [Credentials] from the file with the
// given path, each time that it is called. To rotate the credentials, rename a new file to path, so
// that no reader sees half of it. The file should have mode 0600. Its errors contain neither the
// path nor parts of the file.
func CredentialsFile(path string) CredentialsSource {
	return CredentialsFunc(func(context.Context) (Credentials, error) {
		text, err := os.ReadFile(path) //nolint:gosec // The caller chooses the file.
		if pathError, ok := errors.AsType[*fs.PathError](err); ok {
			err = pathError.Err
		}
		if err != nil {
			return Credentials{}, fmt.Errorf("idverify: read credentials file: %w (restore the file, or correct its path)", err)
		}
		var c Credentials
		if json.Unmarshal(text, &c) != nil {
			return Credentials{}, errors.New(`idverify: read credentials file: not JSON with "client_id" and "client_secret" (restore the file)`)
		}
		return c, nil
	})
}

// validate returns an error for credentials that are incomplete or cannot be sent in a Basic
// header.
func (c Credentials) validate() error {
	return c.validateAs("the client ID", "the client secret", "set both fields of Credentials: in JSON, client_id and client_secret")
}

// validateAs is like validate. Parameters id and secret name the values in errors, and hint says
// what to do if one is missing.
func (c Credentials) validateAs(id, secret, hint string) error {
	text := c.ClientSecret.Reveal()
	switch {
	case c.ClientID == "" && text == "":
		return errors.New(id + " and " + secret + " are missing (" + hint + ")")
	case c.ClientID == "":
		return errors.New(id + " is missing (" + hint + ")")
	case text == "":
		return errors.New(secret + " is missing (" + hint + ")")
	case strings.TrimSpace(c.ClientID) != c.ClientID:
		return errors.New(id + surrounded)
	case strings.TrimSpace(text) != text:
		return errors.New(secret + surrounded)
	case text == redacted:
		return errors.New(secret + " is the placeholder of a printed Secret (use the original secret)")
	case strings.ContainsFunc(c.ClientID, func(r rune) bool { return r == ':' || r < ' ' }):
		return errors.New(id + " contains a colon or a control character")
	}
	return nil
}

// equal reports whether c and d have the same content.
func (c Credentials) equal(d Credentials) bool {
	return c.ClientID == d.ClientID && c.ClientSecret.Equal(d.ClientSecret)
}

// isZero reports whether c is empty.
func (c Credentials) isZero() bool { return c.equal(Credentials{}) }

// secrets returns the texts of c that must be redacted: the secret and the encoded credentials of a
// Basic Authorization header.
func (c Credentials) secrets() []string {
	if c.isZero() {
		return nil
	}
	secret := c.ClientSecret.Reveal()
	basic := []byte(c.ClientID + ":" + secret)
	return []string{secret,
		base64.StdEncoding.EncodeToString(basic),
		base64.URLEncoding.EncodeToString(basic),
		base64.RawStdEncoding.EncodeToString(basic),
		base64.RawURLEncoding.EncodeToString(basic)}
}

// surrounded ends the error for a value with white space around it.
const surrounded = " begins or ends with white space, such as the newline at the end of a file (remove it)"

// maxPreviousCredentials is the number of earlier credentials of a source that are still redacted.
const maxPreviousCredentials = 4

// maxAbandonedCalls is the number of calls of a source that can run although their contexts have
// ended and another call has replaced them.
const maxAbandonedCalls = 4

// credentialSource returns the credentials for token requests.
//
// The caller's function runs on a goroutine of its own, because it may ignore its context. The
// goroutine ends when the function returns.
type credentialSource struct {
	source func(context.Context) (Credentials, error) // nil if the credentials are fixed

	mu       sync.Mutex    // guards the fields below
	current  Credentials   // the last ones that source returned
	previous []Credentials // earlier ones, oldest first, without duplicates
	texts    []Secret      // of current and previous, which must be redacted
	changed  bool          // current has changed and no record of this was logged
	inflight *sourceCall   // the last call, if it has not returned; otherwise nil
	running  int           // calls that have not returned: inflight and the abandoned ones
}

// sourceCall is a call of a source. The fields after done are set before it is closed.
type sourceCall struct {
	ctx         context.Context
	done        chan struct{}
	abandoned   bool // another call has replaced it
	credentials Credentials
	err         error  // returned by the source
	fault       string // why the result cannot be used; not sanitized
}

// newCredentialSource returns the source c. It returns an error if c is nil or invalid Credentials.
func newCredentialSource(c CredentialsSource) (*credentialSource, error) {
	switch c := c.(type) {
	case Credentials:
		return fixedCredentials(c), c.validate()
	case envCredentials:
		return fixedCredentials(Credentials(c)), c.validate()
	case CredentialsFunc:
		if c != nil {
			return &credentialSource{source: c}, nil
		}
	case nil:
	default:
		return &credentialSource{source: c.Credentials}, nil
	}
	return nil, errors.New("the CredentialsSource is nil (pass Credentials, CredentialsFromEnv, CredentialsFile or a CredentialsFunc)")
}

// fixedCredentials returns a source that always returns c.
func fixedCredentials(c Credentials) *credentialSource {
	s := &credentialSource{current: c}
	s.setTexts()
	return s
}

// get returns the finished call of the source, or an error if ctx ends before that. If fresh is
// set, the call began after get was called.
func (s *credentialSource) get(ctx context.Context, fresh bool) (*sourceCall, error) {
	for {
		call, started := s.join(ctx)
		finished, err := call.await(ctx)
		switch {
		case err != nil:
			return nil, err
		case finished && (started || !fresh):
			return call, nil
		case finished:
			fresh = false // any call that is in progress now began after this one has ended
		}
	}
}

// await waits for the result of c. It returns false if another call can replace c or has done so,
// and an error if ctx ends before that.
func (c *sourceCall) await(ctx context.Context) (finished bool, err error) {
	ended := c.ctx.Done()
	if c.ctx.Err() != nil {
		ended = nil // join could not replace c
	}
	select {
	case <-c.done:
	case <-ended:
	case <-ctx.Done():
	}
	select {
	case <-c.done: // takes precedence
		return !c.abandoned, nil
	default:
	}
	if exceedsDeadline(ctx, 0) {
		<-ctx.Done() // do not start another call now
	}
	return false, ctx.Err()
}

// join returns the call in progress. If there is none, or its context has ended, it starts one with
// ctx, which must not be canceled before its deadline while the call is in progress. If too many
// calls are running, it returns the last one.
func (s *credentialSource) join(ctx context.Context) (call *sourceCall, started bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inflight == nil || s.inflight.ctx.Err() != nil && s.running <= maxAbandonedCalls {
		started = true
		s.running++
		s.inflight = &sourceCall{ctx: ctx, done: make(chan struct{})}
		go s.run(s.inflight)
	}
	return s.inflight, started
}

// run calls the source. A panic would end the process, and runtime.Goexit would leave the token
// requests waiting. Both become a fault of the call.
func (s *credentialSource) run(call *sourceCall) {
	defer s.finish(call)
	call.fault = "called runtime.Goexit"
	defer func() {
		if p := recover(); p != nil {
			call.fault = "panic in " + redact.PanicSite() + ": " + redact.PanicText(p)
		}
	}()
	call.credentials, call.err = s.source(call.ctx)
	call.fault = ""
	if call.err == nil {
		if err := call.credentials.validate(); err != nil {
			call.fault = "invalid credentials: " + err.Error()
		}
	}
}

// finish stores the result of call and wakes the token requests that wait for it.
func (s *credentialSource) finish(call *sourceCall) {
	defer close(call.done)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	if call.abandoned = s.inflight != call; call.abandoned {
		return // the result may be older than that of a later call
	}
	s.inflight = nil
	next := call.credentials
	if call.err != nil || call.fault != "" || next.equal(s.current) {
		return
	}
	s.previous = slices.DeleteFunc(s.previous, next.equal)
	if !s.current.isZero() {
		s.previous = append(s.previous, s.current)
		s.changed = true
	}
	s.previous = s.previous[max(0, len(s.previous)-maxPreviousCredentials):]
	s.current = next
	s.setTexts()
}

// takeChanged reports whether the credentials have changed since the last call of takeChanged.
func (s *credentialSource) takeChanged() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.changed
	s.changed = false
	return changed
}

// appendSecrets appends the texts of the current and the previous credentials that must be
// redacted.
func (s *credentialSource) appendSecrets(texts []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.texts {
		texts = append(texts, t.Reveal())
	}
	return texts
}

// setTexts sets the texts that must be redacted. The caller holds s.mu or has created s.
func (s *credentialSource) setTexts() {
	s.texts = nil
	for _, c := range append([]Credentials{s.current}, s.previous...) {
		for _, text := range c.secrets() {
			s.texts = append(s.texts, NewSecret(text))
		}
	}
}

// redacted is printed in place of a Secret.
const redacted = redact.Placeholder

// Secret is a string that is not printed by fmt, encoding/json, log/slog, or packages that read
// unexported fields by reflection, such as test assertions. Only [Secret.Reveal] returns it.
//
// The zero Secret is empty. A Secret may be copied. Use [Secret.Equal] to compare: == and
// reflect.DeepEqual report only whether two Secrets come from the same call of NewSecret. Two zero
// Secrets are equal.
type Secret struct {
	// hidden is a pointer, so that fmt prints only an address: fmt prints unexported fields without
	// calling their methods. A pointer is also comparable; a function is not.
	hidden *hidden
}

// hidden stores the text in a closure, because reflection cannot read the variables of a function.
type hidden struct{ text func() string }

// NewSecret returns s as a Secret.
func NewSecret(s string) Secret { return Secret{&hidden{func() string { return s }}} }

// Reveal returns the text, for example to store it. Do not print the result.
func (s Secret) Reveal() string {
	if s.hidden == nil {
		return ""
	}
	return s.hidden.text()
}

// Equal reports whether s and t have the same text, in constant time. The go-cmp package uses it.
func (s Secret) Equal(t Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(t.Reveal())) == 1
}

// Format implements [fmt.Formatter]. It prints a placeholder for every verb.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, redacted) }

// LogValue implements [slog.LogValuer]. It returns a placeholder.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON implements json.Marshaler. It returns a placeholder.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// UnmarshalText implements encoding.TextUnmarshaler, so that a Secret can be decoded from JSON, a
// flag or a configuration file. It returns an error for the placeholder that a Secret is printed
// as: the original text is lost.
func (s *Secret) UnmarshalText(text []byte) error {
	if string(text) == redacted {
		return errors.New("idverify: decode secret: the text is the placeholder of a printed Secret (use the original secret)")
	}
	*s = NewSecret(string(text))
	return nil
}
