package signature

import (
	"cmp"
	"crypto/rsa"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/idverify/idverify-go/internal/redact"
)

// Message is a verified callback or redirect: the service recently signed it for one of the
// verifier's hosts, and it was not changed in transit.
//
// The owner of the check is not verified. Another customer of the service can use your callback
// URL, so compare the check_id with those of your own checks.
//
// Packages fmt and slog print it without the code of a redirect.
type Message struct {
	KeyID   string     // ID of the key that signed the message
	Date    time.Time  // time of the signature, in UTC
	Product string     // value of the callback header, for example phone_check; empty for a redirect
	Body    []byte     // body of a callback; shared with r.Body, do not modify it
	Query   url.Values // query of the URL; without authorization and date if a redirect
}

// Format implements [fmt.Formatter]. It prints a placeholder for the code of a redirect.
func (m Message) Format(f fmt.State, verb rune) {
	fmt.Fprintf(f, fmt.FormatString(f, verb), m.redacted())
}

// LogValue implements [slog.LogValuer]. It contains a placeholder for the code of a redirect.
func (m Message) LogValue() slog.Value { return slog.AnyValue(m.redacted()) }

// redacted returns m without the code and without methods.
func (m Message) redacted() any {
	type message Message
	m.Query = redact.Query(m.Query)
	return message(m)
}

// callbackHeader is the header that contains the product of a callback.
type callbackHeader struct {
	name     string   // in lower case
	key      string   // canonical form of name
	coverage []string // the names that the signature of a callback must cover
}

// newCallbackHeader returns the header with the given name, or the default one for an empty name.
func newCallbackHeader(name string) callbackHeader {
	name = cmp.Or(strings.ToLower(name), defaultCallbackHeader)
	return callbackHeader{name, http.CanonicalHeaderKey(name), []string{"(request-target)", "host", "date", name, "digest"}}
}

// redirectCoverage returns the names that the signature of a redirect must cover. The authorization
// parameter contains the signature, so it cannot be covered.
func redirectCoverage() []string { return []string{"(request-target)", "host", "date"} }

// message contains the parts of a message that is being verified or signed.
type message struct {
	authorization
	method          string // lower case
	target          string // path and query
	host            string
	date            string
	productHeader   string // name of the callback header, in lower case; received callbacks only
	product, digest string // values of this header and of digest; received callbacks only
	header          http.Header
	key             *rsa.PublicKey // the key that verified the signature; nil before that
}

// checkCoverage returns an error if the signature does not cover a required name, covers a name
// twice, or covers a special name that only other versions of the draft define.
func (m *message) checkCoverage(required []string) error {
	covered := m.covered.slice()
	for i, name := range covered {
		if slices.Contains(covered[:i], name) {
			return newError(ErrCoverage, "signature covers a name twice")
		}
		if strings.HasPrefix(name, "(") && name != "(request-target)" {
			return newError(ErrCoverage, "signature covers a special name other than (request-target)")
		}
	}
	for _, name := range required {
		if !slices.Contains(covered, name) {
			return newError(ErrCoverage, "signature does not cover "+name)
		}
	}
	return nil
}

// usualText is the size of a buffer for the signing string of a usual message, in bytes.
const usualText = 512

// signingString appends one line "name: value" for each covered name to text. The caller can pass a
// buffer on the stack.
func (m *message) signingString(text []byte) ([]byte, error) {
	for i, name := range m.covered.slice() {
		if i > 0 {
			text = append(text, '\n')
		}
		text = append(text, name...)
		text = append(text, ": "...)
		switch {
		case name == "(request-target)":
			text = append(text, m.method...)
			text = append(text, ' ')
			text = append(text, m.target...)
		case name == "host":
			text = append(text, m.host...)
		case name == "date":
			text = append(text, m.date...)
		// Already read from the header of a callback; a lookup by name would allocate the canonical key.
		case name == "digest" && m.digest != "":
			text = append(text, m.digest...)
		case name == m.productHeader && m.product != "":
			text = append(text, m.product...)
		default:
			value, err := onlyValue(m.header[http.CanonicalHeaderKey(name)])
			if err != nil {
				return nil, err
			}
			text = append(text, value...)
		}
	}
	return text, nil
}

// onlyValue returns the value of a covered header. The header must occur exactly once; otherwise
// the application could read a value that was not signed.
func onlyValue(values []string) (string, error) {
	if len(values) != 1 {
		return "", newError(ErrCoverage, "covered header must occur exactly once")
	}
	if !oneLine(values[0]) {
		return "", newError(ErrMalformed, "covered header contains control characters")
	}
	return values[0], nil
}

// oneLine reports whether s has no control characters except tab, so that it cannot add a line to
// the signing string. net/http's server ensures this; a request built in code may violate it.
func oneLine(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// hostOf returns the host of a server or client request.
func hostOf(r *http.Request) string {
	if r.Host == "" && r.URL != nil {
		return r.URL.Host
	}
	return r.Host
}

// uriOf returns the request target of a server or client request. In a server request, RequestURI
// contains it unchanged. URL is decoded, and handlers such as http.StripPrefix modify it.
func uriOf(r *http.Request) string {
	if r.RequestURI == "" && r.URL != nil {
		return r.URL.RequestURI()
	}
	return r.RequestURI
}

// maxTarget is the maximum length of a request target, in bytes. An Authorization of
// maxAuthorization bytes fits into it even if every byte is escaped.
const maxTarget = 64 << 10

// requestTarget returns the path and query of a request URI, byte for byte. If the URI is absolute,
// as in requests of proxies and httptest.NewRequest, its host must be the given one.
func requestTarget(uri, host string) (string, error) {
	if len(uri) > maxTarget {
		return "", newError(ErrMalformed, "request target is longer than 64 KiB")
	}
	for i := range len(uri) {
		if c := uri[i]; c <= ' ' || c == 0x7f {
			return "", newError(ErrMalformed, "request target contains spaces or control characters")
		}
	}
	if strings.HasPrefix(uri, "/") {
		return uri, nil
	}
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok || !strings.EqualFold(scheme, "https") && !strings.EqualFold(scheme, "http") {
		return "", newError(ErrMalformed, "request target is neither a path nor an absolute URI")
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	if !sameHost(rest[:end], host) {
		return "", newError(ErrHost, "host in the request target does not match the request's host")
	}
	if rest = rest[end:]; !strings.HasPrefix(rest, "/") {
		rest = "/" + rest
	}
	return rest, nil
}
