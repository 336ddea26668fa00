package signature

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// ExplainOptions configures [Verifier.Explain].
type ExplainOptions struct {
	// Paths are the paths of your callback and redirect URLs as registered with the service, with the
	// query if a URL has one. They help behind a proxy that changes the path.
	Paths []string

	// Keys contains other key sets by name, for example that of the sandbox under "sandbox". Only
	// [StaticKeys] and the set that a [JWKS] has cached are examined.
	Keys map[string]KeySource

	// AnyDate ignores the difference between the date of the message and the clock. Set it if the
	// message was received earlier, and the time is unknown.
	AnyDate bool
}

// Explain returns why r is not verified: one line for each change that would make it verify, with
// what to do. If there is more than one line, all of these changes are needed. The first line
// begins with "verified:" if r is valid, and with "not explained:" if no usual cause explains the
// rejection; such a message is probably forged. Other lines begin with the part that was changed:
// "authorization:", "key:", "method:", "host:", "path:", "query:", "date:", "digest:",
// "header NAME:", "another covered header:", "callback header:", "clock:" or "body:". After
// "not explained:", they contain what was found, such as "body: cannot be examined:" if the body
// cannot be read or is too large, or "the message is still rejected after these changes:".
//
// Use Explain for logs and tools, never for a response: it would help an attacker. The lines
// contain your hosts, the values of opts, the names of headers, and a host name for which the
// service really signed the message. They contain nothing else of the message, and no IP address
// except one of your hosts.
//
// Explain detects whether r is a callback or a redirect. It reads at most MaxBody bytes of the
// body, and only if the service made the signature, and it restores the body. It replaces r.Body to
// do so: do not use r concurrently. Pass the same *http.Request that you passed to VerifyCallback,
// and call Explain before your HTTP handler returns; after that, the body cannot be read.
//
// Explain fetches nothing and does not use the replay store, Logger or Observe. It examines the
// cached set of a [JWKS], however old it is, [StaticKeys], and opts.Keys. Another type of
// [KeySource] is not called: pass its keys in opts.Keys.
//
// The cost is limited, because anyone can send invalid messages: at most 64 operations with a
// public key, 4,096 possible forms of the message, and 2 MiB of text for each of message and body.
// Explain stops when ctx is done, also if the body does not arrive. r.Body then returns an error. A
// read of a body cannot be canceled, so a goroutine continues it until net/http's server ends it:
// at http.Server.ReadTimeout, which you should set, or when the connection ends. Explain closes any
// other body instead. opts may be nil.
//
// Protocol: docs/protocol.md, section 12.
func (v *Verifier) Explain(ctx context.Context, r *http.Request, opts *ExplainOptions) []string {
	if opts == nil {
		opts = &ExplainOptions{}
	}
	if _, inMemory := r.Body.(*restoredBody); !inMemory && r.Body != nil {
		body := &contextBody{ReadCloser: r.Body, ctx: ctx, server: r.Context().Value(http.ServerContextKey) != nil}
		r.Body = body
		defer body.release(r)
	}
	return newExplanation(v, r, opts).lines(ctx)
}

// lines returns the result of Explain.
func (e *explanation) lines(ctx context.Context) []string {
	err := e.verify()
	if err == nil {
		return []string{e.verified()}
	}
	found, ok := e.explain(ctx)
	if ok {
		return found
	}
	rejection := strings.TrimPrefix(withOperation(e.operation, err).Error(), "signature: ")
	if e.ownKeys == nil && e.authorization.text != "" {
		rejection = e.operation + " not verified: the keys of the verifier cannot be examined"
	}
	return append([]string{"not explained: " + rejection}, found...)
}

// explanation is the state of one call of Explain.
type explanation struct {
	v         *Verifier // copy without replay store, logger and observer
	r         *http.Request
	opts      *ExplainOptions
	operation string // "callback" or "redirect"
	replay    bool   // the verifier has a replay store
	now       time.Time
	ownKeys   StaticKeys // of the verifier; nil if unavailable

	path, query string // of the request; the query begins with "?" or is empty, without authorization and date of a redirect

	authorization foundAuthorization
	key           foundKey
	covered       []dimension
	budget        budget

	bodyRead bool
	body     []byte
	bodyErr  error
}

func newExplanation(v *Verifier, r *http.Request, opts *ExplainOptions) *explanation {
	e := &explanation{r: r, opts: opts, operation: "redirect", replay: v.replay != nil, ownKeys: cachedKeys(v.keys)}
	if r.Method == http.MethodPost || len(r.Header["Digest"]) > 0 || strings.HasPrefix(r.Header.Get("Authorization"), "Signature ") {
		e.operation = "callback"
	}
	dry := *v
	dry.keys, dry.replay, dry.observe, dry.logger = e.ownKeys, nil, nil, slog.New(slog.DiscardHandler)
	if e.ownKeys == nil {
		dry.keys = StaticKeys{}
	}
	e.v = &dry
	e.path, e.query = e.receivedTarget()
	e.now = v.now()
	if opts.AnyDate {
		if date, ok := parseDate(e.receivedDate()); ok {
			e.now = date
		}
	}
	dry.now = func() time.Time { return e.now }
	return e
}

// verify verifies the request as it was received.
func (e *explanation) verify() error {
	var err error
	if e.operation == "callback" {
		_, err = e.v.callback(e.r)
	} else {
		_, err = e.v.redirect(e.r)
	}
	return err
}

func (e *explanation) verified() string {
	line := "verified: this is a valid callback for VerifyCallback or RequireCallback"
	if e.operation == "redirect" {
		line = "verified: this is a valid redirect for VerifyRedirect or RequireRedirect"
	}
	if e.replay {
		line += " (the replay store was not used: a copy of an accepted message is rejected with ErrReplay)"
	}
	if e.opts.AnyDate {
		line += " (the clock was not examined)"
	}
	return line
}

// explain returns the changes that make the message verify. Without them, it reports false, and the
// lines contain what was found.
func (e *explanation) explain(ctx context.Context) (lines []string, ok bool) {
	if line, ok := e.findAuthorization(); !ok {
		return []string{line}, false
	}
	if e.ownKeys == nil && len(e.opts.Keys) == 0 {
		return []string{"key: the verifier has no keys that can be examined (a JWKS fetches its set for the first message; for another key source, set ExplainOptions.Keys)"}, false
	}
	if !e.findKey() {
		return []string{e.noKey()}, false
	}
	e.covered = e.dimensions()
	switch found, err := e.search(ctx); {
	case found:
	case err != nil:
		return []string{"key: " + signedByService + ", but the examination was canceled"}, false
	default:
		return []string{"key: " + signedByService + ", but a covered part (host, path, query, Date, Digest or callback header) differs from what was signed, and no usual change of a proxy explains it: compare the request that your proxy receives with the one that it forwards, and pass your paths in ExplainOptions.Paths; if they are equal, the signature was copied from another message"}, false
	}
	return e.conclude()
}

const signedByService = "the service made the signature"

// conclude checks everything except the signature for the form of the message that the search
// found, and verifies the result.
func (e *explanation) conclude() (lines []string, ok bool) {
	for _, line := range []string{e.authorization.cause, e.key.cause} {
		if line != "" {
			lines = append(lines, line)
		}
	}
	for _, d := range e.covered {
		if line := d.options[d.chosen].cause; line != "" {
			lines = append(lines, line)
		}
	}
	lines = append(lines, e.otherChanges()...)
	var body []byte
	if e.operation == "callback" {
		var line string
		if body, line, ok = e.originalBody(); line != "" {
			lines = append(lines, line)
		}
		if !ok {
			return lines, false
		}
	}
	// The verifier itself decides, so that no line promises what it would reject.
	if err := e.confirm(body); err != nil {
		return append(lines, "the message is still rejected after these changes: "+strings.TrimPrefix(withOperation(e.operation, err).Error(), "signature: ")), false
	}
	return lines, len(lines) > 0
}

// confirm verifies the message in the form that the search found.
func (e *explanation) confirm(body []byte) error {
	v := *e.v
	host, date := e.value("host"), e.value("date")
	v.keys, v.target = StaticKeys{e.authorization.keyID: e.key.key}, nil
	v.hosts = hostSet{splitHost(host): true}
	if signed, ok := parseDate(date); ok {
		v.now = func() time.Time { return signed }
	}
	target := e.value(pathPart) + e.value(queryPart)
	r := (&http.Request{Method: http.MethodGet, Host: host, RequestURI: target, Header: make(http.Header)}).WithContext(e.r.Context())
	if e.operation == "redirect" {
		r.RequestURI += "&authorization=" + encodeParameter(e.authorization.text) + "&date=" + encodeParameter(date)
		_, err := v.redirect(r)
		return err
	}
	v.header = newCallbackHeader(e.callbackHeader())
	for _, d := range e.covered {
		if isToken(d.name) {
			r.Header[http.CanonicalHeaderKey(d.name)] = []string{d.options[d.chosen].value}
		}
	}
	r.Header.Set("Authorization", e.authorization.text)
	r.Method, r.Body, r.ContentLength = http.MethodPost, io.NopCloser(bytes.NewReader(body)), int64(len(body))
	_, err := v.callback(r)
	return err
}

// originalBody returns the body that the digest belongs to, and the line for its change. The line
// of a body that cannot be examined or explained is not empty, and the result is false.
func (e *explanation) originalBody() (body []byte, line string, ok bool) {
	digest, parsed := parseDigest(e.value("digest"))
	if !parsed {
		return nil, "digest: signed in a form that is neither hexadecimal nor standard base64 with padding: the service does not send it", false
	}
	received, err := e.readBody()
	if err != nil {
		return nil, "body: cannot be examined: " + detailOf(err), false
	}
	if sha256.Sum256(received) == digest {
		return received, "", true
	}
	return e.findBody(received, digest)
}
