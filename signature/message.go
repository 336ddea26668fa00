package signature

import (
	"crypto/rsa"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Message is a callback or redirect that was verified: it comes from the service, for one of the verifier's hosts, now, and unchanged.
// Whose check it is about is not verified: another customer of the service can name your callback URL. Compare its check_id with those that you created.
type Message struct {
	KeyID string     // the id of the key that signed it
	Date  time.Time  // when it was signed, in UTC
	Kind  string     // what the callback header says, for example phone_check; empty for a redirect
	Body  []byte     // of a callback; shared with r.Body, do not change it
	Query url.Values // of a redirect, without authorization and date; of a callback, the query of its callback URL
}

// What a signature must cover (specification, section 5.3). A redirect's authorization, which that section also names, carries the signature and cannot be signed by it.
func callbackCoverage(callbackHeader string) []string {
	return []string{"(request-target)", "host", "date", callbackHeader, "digest"}
}

func redirectCoverage() []string { return []string{"(request-target)", "host", "date"} }

// message is a message in its parts: what a signature is computed over, and what it says of itself.
type message struct {
	authorization
	method       string // in lower case
	target       string // path and query
	host         string
	date         string
	kind, digest string // of a callback
	header       http.Header
	key          *rsa.PublicKey // set when the signature has been verified with it
}

// checkCoverage refuses a signature that leaves out a name of required, names one twice, or covers what only other versions of the draft know.
func (m *message) checkCoverage(required []string) error {
	for i, name := range m.covered {
		if slices.Contains(m.covered[:i], name) {
			return newError(ErrCoverage, "the signature covers a name twice")
		}
		if strings.HasPrefix(name, "(") && name != "(request-target)" {
			return newError(ErrCoverage, "the signature covers a special name other than (request-target)")
		}
	}
	for _, name := range required {
		if !slices.Contains(m.covered, name) {
			return newError(ErrCoverage, "the signature does not cover "+name)
		}
	}
	return nil
}

// signingString is one line for each covered name, in their order: "name: value" (specification, section 5.3, callback, 4).
// It is appended to text, so that the caller can keep it off the heap.
func (m *message) signingString(text []byte) ([]byte, error) {
	for i, name := range m.covered {
		if i > 0 {
			text = append(text, '\n')
		}
		text = append(text, name...)
		text = append(text, ": "...)
		switch name {
		case "(request-target)":
			text = append(text, m.method...)
			text = append(text, ' ')
			text = append(text, m.target...)
		case "host":
			text = append(text, m.host...)
		case "date":
			text = append(text, m.date...)
		default:
			value, err := onlyValue(m.header, http.CanonicalHeaderKey(name))
			if err != nil {
				return nil, err
			}
			text = append(text, value...)
		}
	}
	return text, nil
}

// onlyValue is the value of a covered header by its canonical key. It must occur exactly once: of two, the signature would cover the one and the application could read the other.
func onlyValue(header http.Header, key string) (string, error) {
	values := header[key]
	if len(values) != 1 {
		return "", newError(ErrCoverage, "a header that is or must be covered does not occur exactly once")
	}
	if !oneLine(values[0]) {
		return "", newError(ErrMalformed, "a covered header holds control characters")
	}
	return values[0], nil
}

// oneLine tells that s cannot end its line of the signing string and begin another. A server's headers never can; those of a request made by hand could.
func oneLine(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// hostOf is the host as it stands in the request, for a server's and for a client's.
func hostOf(r *http.Request) string {
	if r.Host == "" && r.URL != nil {
		return r.URL.Host
	}
	return r.Host
}

// uriOf is the request target as it came over the wire. r.URL is not: it is decoded, and handlers such as http.StripPrefix change it.
func uriOf(r *http.Request) string {
	if r.RequestURI == "" && r.URL != nil {
		return r.URL.RequestURI()
	}
	return r.RequestURI
}

// maxTarget bounds a request target, in bytes: more than any browser sends, and than an Authorization of maxAuthorization needs in every escape.
const maxTarget = 64 << 10

// requestTarget is the path and query of a request URI, byte for byte. The absolute form, which proxies and httptest.NewRequest write, must name the host.
func requestTarget(uri, host string) (string, error) {
	if len(uri) > maxTarget {
		return "", newError(ErrMalformed, "the request target is longer than 64 KiB")
	}
	for i := range len(uri) {
		if c := uri[i]; c <= ' ' || c == 0x7f {
			return "", newError(ErrMalformed, "the request target holds spaces or control characters")
		}
	}
	if strings.HasPrefix(uri, "/") {
		return uri, nil
	}
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok || !strings.EqualFold(scheme, "https") && !strings.EqualFold(scheme, "http") {
		return "", newError(ErrMalformed, "the request target is neither a path nor an absolute URI")
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	if !sameHost(rest[:end], host) {
		return "", newError(ErrHost, "the request target names another host than the request")
	}
	if rest = rest[end:]; !strings.HasPrefix(rest, "/") {
		rest = "/" + rest
	}
	return rest, nil
}
