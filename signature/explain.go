package signature

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/idverify/idverify-go/internal/redact"
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

// Explanation is the result of [Verifier.Explain]. It is meant for logs and tools, never for a
// response: it would help an attacker.
type Explanation struct {
	// Verified reports whether the message is valid as it was received.
	Verified bool

	// Explained reports whether the message is verified, or would be with all of Changes. Explained is
	// false if no usual change explains the message, or if it could not be examined; Changes contains
	// the reason. Such a message may be forged.
	Explained bool

	// Changes contains what was changed between the service and the verifier. If the message is not
	// explained, it contains what was found instead.
	Changes []Change
}

// Change describes one part of a message: how it differs from what the service signed, or, if the
// message is not explained, what was found.
//
// The texts contain hosts of the verifier, values of [ExplainOptions], names of headers, and a host
// for which the service really signed the message. They contain nothing else of the message, and no
// IP address except one of the verifier's hosts.
type Change struct {
	// Part is "authorization", "key", "method", "host", "path", "query", "body", "clock" or
	// "callback_header"; or the name of a covered header in lower case, such as "date", or
	// "covered_header" for other covered headers. If a message is not explained, it can also be
	// "message".
	Part string `json:"part"`

	Found string `json:"found"`         // what was changed or found
	Fix   string `json:"fix,omitempty"` // what to do
}

// String returns the change as one line.
func (c Change) String() string {
	part := c.Part
	switch part {
	case callbackHeaderPart:
		part = "callback header"
	case coveredHeaderPart:
		part = "another covered header"
	}
	text := part + ": " + c.Found
	if c.Fix != "" {
		text += ": " + c.Fix
	}
	return text
}

// Explain returns the changes that make r verify, and what to do about each of them.
//
// Explain detects whether r is a callback or a redirect. It reads at most MaxBody bytes of the
// body, and only if the service made the signature, and it restores the body. It replaces r.Body to
// do so: do not use r concurrently. Pass the same *http.Request that you passed to VerifyCallback,
// and call Explain before your HTTP handler returns; after that, the body cannot be read. If the
// body cannot be examined, Explained is false and the last Change has the Part "body".
//
// Explain fetches nothing and does not use the replay store, Logger or Observe. It examines the
// cached set of a [JWKS], however old it is, [StaticKeys], and opts.Keys. Another type of
// [KeySource] is not called: pass its keys in opts.Keys.
//
// The cost is limited, because anyone can send invalid messages: at most 64 operations with a
// public key, 4,096 possible forms of the message, and 2 MiB of text for each of message and body.
// Explain stops when ctx is done, also if the body does not arrive. r.Body then returns an error,
// and a goroutine continues to read the body until net/http's server ends the read: set
// http.Server.ReadTimeout. Explain closes a body that is not from that server. opts may be nil.
func (v *Verifier) Explain(ctx context.Context, r *http.Request, opts *ExplainOptions) Explanation {
	if opts == nil {
		opts = &ExplainOptions{}
	}
	if _, inMemory := r.Body.(*restoredBody); !inMemory && r.Body != nil {
		body := &contextBody{ReadCloser: r.Body, ctx: ctx, server: r.Context().Value(http.ServerContextKey) != nil}
		r.Body = body
		defer body.release(r)
	}
	return newExamination(v, r, opts).explanation(ctx)
}

// explanation returns the result of Explain.
func (e *examination) explanation(ctx context.Context) Explanation {
	err := e.verify()
	if err == nil {
		return Explanation{Verified: true, Explained: true}
	}
	changes, ok := e.explain(ctx)
	if rejection, isError := errors.AsType[*Error](err); !ok && isError && e.ownKeys != nil {
		changes = slices.Insert(changes, 0, Change{Part: messagePart, Found: e.operation + " not verified: " + rejection.Reason.Error()})
	}
	return Explanation{Explained: ok, Changes: changes}
}

// Values of Change.Part, besides names of headers and of parts of the URL.
const (
	authorizationPart  = "authorization"
	bodyPart           = "body"
	callbackHeaderPart = "callback_header"
	coveredHeaderPart  = "covered_header"
	keyPart            = "key"
	messagePart        = "message"
)

// examination is the state of one call of Explain.
type examination struct {
	v         *Verifier // copy without replay store, logger and observer
	r         *http.Request
	opts      *ExplainOptions
	operation string // "callback" or "redirect"
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

func newExamination(v *Verifier, r *http.Request, opts *ExplainOptions) *examination {
	e := &examination{r: r, opts: opts, operation: "redirect", ownKeys: cachedKeys(v.keys)}
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
func (e *examination) verify() error {
	var err error
	if e.operation == "callback" {
		_, err = e.v.callback(e.r)
	} else {
		_, err = e.v.redirect(e.r)
	}
	return err
}

// explain returns the changes that make the message verify. Without them, it reports false and
// returns what was found.
func (e *examination) explain(ctx context.Context) (changes []Change, ok bool) {
	if found, ok := e.findAuthorization(); !ok {
		return []Change{found}, false
	}
	if e.ownKeys == nil && len(e.opts.Keys) == 0 {
		return []Change{{keyPart, "the verifier has no keys that can be examined", "a JWKS fetches its set for the first message; for another key source, set ExplainOptions.Keys"}}, false
	}
	if !e.findKey() {
		return []Change{e.noKey()}, false
	}
	e.covered = e.dimensions()
	switch found, err := e.search(ctx); {
	case found:
		return e.conclude()
	case err != nil:
		return []Change{{Part: keyPart, Found: signedByService + ", but the examination was canceled"}}, false
	}
	return []Change{{keyPart, signedByService + ", but a covered part (host, path, query, Date, Digest or callback header) differs from what was signed, and no usual change of a proxy explains it",
		"compare the request that your proxy receives with the one that it forwards, and pass the registered paths; if they are equal, the signature was copied from another message"}}, false
}

const signedByService = "the service made the signature"

// conclude checks everything except the signature for the form of the message that the search
// found, and verifies the result.
func (e *examination) conclude() (changes []Change, ok bool) {
	for _, c := range []Change{e.authorization.change, e.key.change} {
		if c != (Change{}) {
			changes = append(changes, c)
		}
	}
	for _, d := range e.covered {
		if o := d.options[d.chosen]; o.found != "" {
			changes = append(changes, Change{e.part(d.name), o.found, cmp.Or(o.fix, d.fix)})
		}
	}
	changes = append(changes, e.otherChanges()...)
	var body []byte
	if e.operation == "callback" {
		var change Change
		body, change, ok = e.originalBody()
		if change != (Change{}) {
			changes = append(changes, change)
		}
		if !ok {
			return changes, false
		}
	}
	// The verifier itself decides, so that no change promises what it would reject.
	if err := e.confirm(body); err != nil {
		return append(changes, Change{Part: messagePart, Found: "still rejected after these changes: " + detailOf(err)}), false
	}
	return changes, len(changes) > 0
}

// part returns the value of Change.Part for a dimension. It does not repeat names that the sender
// could have chosen.
func (e *examination) part(name string) string {
	if isToken(name) && !slices.Contains(e.v.header.coverage, name) && !strings.Contains(name, "callback") {
		return coveredHeaderPart
	}
	return strings.Trim(name, "()")
}

// confirm verifies the message in the form that the search found.
func (e *examination) confirm(body []byte) error {
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

// otherChanges returns the changes of what the verifier checks besides signature and body.
func (e *examination) otherChanges() []Change {
	var changes []Change
	if host := e.value("host"); !e.v.hosts.allows(host) {
		changes = append(changes, Change{"host", fmt.Sprintf("signed for %s, which is not one of the verifier's hosts%s", e.hostText(host), e.portText(host)),
			"if it is yours, add it to them; if not, the message was sent to another customer and is rightly rejected"})
	}
	if e.operation == "callback" && e.callbackHeader() != e.v.header.name {
		name := e.callbackHeader()
		if redact.Text(name) != name {
			name = "another header"
		}
		changes = append(changes, Change{callbackHeaderPart, "the service sent the product in " + name, "configure the verifier with this name (in Go, with VerifierOptions.CallbackHeader)"})
	}
	if c, ok := e.clock(); ok {
		changes = append(changes, c)
	}
	return changes
}

// callbackHeader returns the covered header that contains the product of the callback: that of the
// verifier, or else the only one that is not another header of every callback.
func (e *examination) callbackHeader() string {
	own := e.v.header.name
	covered := e.authorization.covered.slice()
	if slices.Contains(covered, own) {
		return own
	}
	others := slices.DeleteFunc(slices.Clone(covered), func(name string) bool { return slices.Contains(e.v.header.coverage, name) })
	if len(others) != 1 || !isToken(others[0]) {
		return own
	}
	return others[0]
}

// clock reports whether the date is outside the allowed skew, and returns the change.
func (e *examination) clock() (c Change, ok bool) {
	date, ok := parseDate(e.value("date"))
	age := e.now.Sub(date)
	if !ok || e.opts.AnyDate || age.Abs() <= e.v.skew {
		return Change{}, false
	}
	// Round up, so that the advice suffices. A date of another century saturates a Duration.
	difference := min(age.Abs(), 100*365*24*time.Hour)
	difference = (difference + time.Second - 1).Truncate(time.Second)
	direction, fix := "before", "if all messages are rejected, its clock is fast, synchronize it with NTP; otherwise the message was delayed, or is a copy of an old one"
	if age < 0 {
		direction, fix = "after", "its clock is slow, synchronize it with NTP"
	}
	if difference <= maxAdvisedSkew {
		fix += fmt.Sprintf(" (an allowed skew of %v would accept it)", difference)
	}
	return Change{"clock", fmt.Sprintf("signed %v %s the time of this machine, and the allowed skew is %v", difference, direction, e.v.skew), fix}, true
}

// maxAdvisedSkew is the largest ClockSkew that Explain mentions. A larger one accepts old copies.
const maxAdvisedSkew = 30 * time.Second

// detailOf returns the text of a verification error without its operation.
func detailOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.detail
	}
	return redact.Text(err.Error())
}

// maxExplainedKeys is the maximum number of public keys with which Explain examines a signature.
const maxExplainedKeys = 64

// foundKey is the key that made a signature.
type foundKey struct {
	key    *rsa.PublicKey
	hash   [sha256.Size]byte // hash of the text that was signed
	change Change            // zero if the verifier has the key under its ID
}

// cachedKeys returns the keys of source that are available without a call of PublicKey, or nil.
func cachedKeys(source KeySource) StaticKeys {
	switch source := source.(type) {
	case StaticKeys:
		return source
	case *JWKS:
		if source != nil {
			return source.cachedKeys()
		}
	}
	return nil
}

// findKey looks for the key that made the signature: first under its ID, then among all keys.
func (e *examination) findKey() bool {
	type named struct {
		name string
		keys StaticKeys
	}
	sets := []named{{"", e.ownKeys}}
	for _, name := range slices.Sorted(maps.Keys(e.opts.Keys)) {
		sets = append(sets, named{name, cachedKeys(e.opts.Keys[name])})
	}
	for _, set := range sets {
		if e.matches(set.keys[e.authorization.keyID]) {
			e.key.change = e.otherKeySet(set.name)
			return true
		}
	}
	for _, set := range sets {
		for _, id := range slices.Sorted(maps.Keys(set.keys)) {
			if id != e.authorization.keyID && e.matches(set.keys[id]) {
				found := "keyId in the Authorization is not the ID of the key that made the signature"
				if set.name != "" {
					found += fmt.Sprintf(", which is in the key set %q", set.name)
				}
				e.key.change = Change{keyPart, found, "check whether a proxy or a test changes it, and whether the key set is the one of the service"}
				return true
			}
		}
	}
	return false
}

// otherKeySet returns the change for a key of a set in opts.Keys.
func (e *examination) otherKeySet(name string) Change {
	if name == "" {
		return Change{}
	}
	found := fmt.Sprintf("signed with a key of the key set %q", name)
	if e.ownKeys == nil {
		return Change{keyPart, found + "; the keys of the verifier cannot be examined", "check that it has this key set"}
	}
	return Change{keyPart, found + ", which the verifier does not have: the message comes from that environment", "use its base URL for the key set, or change the callback or redirect URL that is registered there"}
}

// matches reports whether key made the signature, and sets e.key if so.
func (e *examination) matches(key *rsa.PublicKey) bool {
	if key == nil || e.budget.keys == maxExplainedKeys {
		return false
	}
	e.budget.keys++
	hash, ok := signedHash(key, e.authorization.signature)
	if ok {
		e.key = foundKey{key: key, hash: hash}
	}
	return ok
}

// noKey returns what was found about a signature that no examined key made.
func (e *examination) noKey() Change {
	known := "the key set has no key with the ID in the Authorization"
	switch {
	case e.ownKeys == nil:
		known = "the keys of the verifier cannot be examined"
	case e.ownKeys[e.authorization.keyID] != nil:
		known = "the key with the ID in the Authorization did not make the signature"
	}
	if len(e.opts.Keys) > 0 {
		known += ", and no examined key of another key set made the signature"
	}
	return Change{keyPart, known, "the message is probably forged, or the Authorization was changed, or it comes from another environment (pass its key set in ExplainOptions.Keys, too)"}
}

// digestInfo is the DER prefix of a SHA-256 hash in a signature (RFC 8017, section 9.2).
const digestInfo = "\x30\x31\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x01\x05\x00\x04\x20"

// signedHash returns the hash that the owner of key signed, and reports whether key made the
// signature. With the hash, one operation with the key is enough to examine many forms of a
// message.
func signedHash(key *rsa.PublicKey, signature []byte) (hash [sha256.Size]byte, ok bool) {
	s := new(big.Int).SetBytes(signature)
	if !usable(key) || key.E > math.MaxInt32 || len(signature) != key.Size() || s.Cmp(key.N) >= 0 {
		return hash, false
	}
	encoded := s.Exp(s, big.NewInt(int64(key.E)), key.N).FillBytes(make([]byte, key.Size()))
	padding := bytes.Repeat([]byte{0xff}, len(encoded)-3-len(digestInfo)-sha256.Size)
	prefix := slices.Concat([]byte{0, 1}, padding, []byte{0}, []byte(digestInfo))
	rest, ok := bytes.CutPrefix(encoded, prefix)
	copy(hash[:], rest)
	return hash, ok
}

// cachedKeys returns the keys of the last valid set, however old it is. It does not fetch the set
// and does not delay a fetch. The caller must not modify the result.
func (j *JWKS) cachedKeys() StaticKeys {
	if set := j.current.Load(); set != nil {
		return set.keys
	}
	return nil
}

// Limits of the search for the form of a message that was signed. A usual message has less than 500
// bytes of signed text.
const (
	maxForms     = 4096    // forms of a message
	maxFormBytes = 2 << 20 // signed text of all forms, in bytes
	maxOptions   = 192     // values of one part
)

// optionsPerPart limits the values of each part if several parts are changed, by their number.
var optionsPerPart = [...]int{maxOptions, maxOptions, 40, 8}

// budget counts what Explain has used.
type budget struct {
	keys, forms, bytes int
	bodyForms          int
	bodyBytes          int
}

// Names of the parts of the request target. They are not tokens, unlike the names of headers.
const (
	methodPart = "(method)"
	pathPart   = "(path)"
	queryPart  = "(query)"
)

// dimension is a part of a message with the values that it may have had when it was signed.
type dimension struct {
	name    string   // covered header in lower case, or one of the parts of the request target
	fix     string   // of a Change
	options []option // most likely first
	chosen  int
}

// option is a possible value of a part.
type option struct {
	value   string
	found   string // of a Change; empty if this is the received value
	fix     string // of a Change; empty means that of the part
	general bool   // a later option with the same value has a more precise text
}

// add appends an option, unless the value is already one. found is empty for the received value.
func (d *dimension) add(value, found string) { d.addOption(option{value: value, found: found}) }

func (d *dimension) addOption(o option) {
	i := slices.IndexFunc(d.options, func(other option) bool { return other.value == o.value })
	switch {
	case i >= 0 && d.options[i].general:
		d.options[i] = o
	case i < 0 && len(d.options) < maxOptions:
		d.options = append(d.options, o)
	}
}

// value returns the chosen value of a part, or "" if the signature does not cover it.
func (e *examination) value(name string) string {
	for i := range e.covered {
		if d := &e.covered[i]; d.name == name && len(d.options) > 0 {
			return d.options[d.chosen].value
		}
	}
	return ""
}

// search looks for the form of the message that was signed: first with one changed part, then with
// two and three.
func (e *examination) search(ctx context.Context) (found bool, err error) {
	for _, d := range e.covered {
		if len(d.options) == 0 {
			return false, nil
		}
	}
	for changed := range optionsPerPart {
		if found, err = e.combine(ctx, 0, changed, optionsPerPart[changed]); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// combine examines all forms in which the given number of parts, from the given one on, have
// another value than their first.
func (e *examination) combine(ctx context.Context, from, changed, limit int) (found bool, err error) {
	if changed == 0 {
		return e.examine(), ctx.Err()
	}
	for i := from; i <= len(e.covered)-changed; i++ {
		d := &e.covered[i]
		for d.chosen = 1; d.chosen < min(len(d.options), limit); d.chosen++ {
			if found, err = e.combine(ctx, i+1, changed-1, limit); found || err != nil || e.budget.spent() {
				return found, err
			}
		}
		d.chosen = 0
	}
	return false, nil
}

// examine reports whether the chosen values are those that were signed.
func (e *examination) examine() bool {
	if e.budget.spent() {
		return false
	}
	text := make([]byte, 0, usualText)
	for i, name := range e.authorization.covered.slice() {
		if i > 0 {
			text = append(text, '\n')
		}
		text = append(text, name+": "...)
		if name == "(request-target)" {
			text = append(text, e.value(methodPart)+" "...)
			text = append(text, e.value(pathPart)...)
			text = append(text, e.value(queryPart)...)
		} else {
			text = append(text, e.value(name)...)
		}
	}
	e.budget.forms++
	e.budget.bytes += len(text)
	return sha256.Sum256(text) == e.key.hash
}

func (b *budget) spent() bool { return b.forms >= maxForms || b.bytes >= maxFormBytes }
