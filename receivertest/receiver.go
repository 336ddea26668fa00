package receivertest

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Kind is the subject of an examination: a receiver of callbacks, a receiver of redirects, or the
// service. It is the first part of the names of rules.
type Kind string

// The kinds.
const (
	KindCallback Kind = "callback" // POST requests of the service, with the result of a check
	KindRedirect Kind = "redirect" // GET requests of devices that return from a Check URL
	KindService  Kind = "service"  // the service, in reports of "idverify conform" only
)

// Receiver describes the receiver to examine. Keys and URL are required. Set Kind to KindRedirect
// for a receiver of redirects. Fields without an effect, such as Base64Digest for redirects, are
// invalid.
type Receiver struct {
	// Keys, from NewKeys, signs the messages. The receiver must fetch its key set from them.
	Keys *Keys

	// Kind is KindCallback, the default, or KindRedirect.
	Kind Kind

	// URL is the callback or redirect URL, as it is registered with the service. Messages are signed
	// for its host, path and query.
	URL string

	// Handler is the receiver, if it runs in this process. It is served over HTTP/1.1 on an
	// in-memory network, without TLS. It must return when the context of a request ends. If Handler
	// is nil, the examination connects to Addr.
	Handler http.Handler

	// Addr is the address to connect to; the default is the host and port of URL. Prefix it with
	// http:// or https:// if the scheme differs too, for example to bypass a TLS-terminating proxy.
	Addr string

	// TLSConfig configures https connections to the receiver. It may be nil.
	TLSConfig *tls.Config

	// Header is added to each message, for example a cookie. Commands in the report contain its
	// names, and variables such as $HEADER_COOKIE instead of its values. Packages fmt and slog print
	// the receiver without it.
	Header http.Header

	// Probe observes and controls the receiver, for the rules that need more than its responses.
	Probe Probe

	// CallbackHeader is the name of the header with the product of a callback. The default is
	// x-service-callback.
	CallbackHeader string

	// Base64Digest selects base64 for the digests of callbacks. The default is hexadecimal.
	Base64Digest bool

	// Strict also sends messages that package signature rejects but other receivers may safely accept,
	// because they differ from a genuine message only in spelling.
	Strict bool

	// Only selects rules by name. A pattern such as "callback/key-*" selects several, see
	// [path.Match]. If Only is empty, all rules are examined. The first rule, that a valid message is
	// accepted, is always examined.
	Only []string

	// Now returns the current time, for the dates of messages. The default is [time.Now].
	Now func() time.Time

	// Progress is called before each rule and, with an empty rule, at the end. done is the number of
	// examined rules. Calls are not concurrent.
	Progress func(done, total int, rule string)
}

// Format implements [fmt.Formatter]. It omits Header.
func (r Receiver) Format(f fmt.State, verb rune) {
	fmt.Fprintf(f, fmt.FormatString(f, verb), r.withoutHeader())
}

// LogValue implements [slog.LogValuer]. It omits Header.
func (r Receiver) LogValue() slog.Value { return slog.AnyValue(r.withoutHeader()) }

// withoutHeader returns r without Header and without methods.
func (r Receiver) withoutHeader() any {
	type receiver Receiver
	r.Header = nil
	return receiver(r)
}

// address is a parsed Receiver: the URL for which messages are signed, and the address to connect
// to.
type address struct {
	url      *url.URL
	hostPort string
	tls      bool
}

// Validate returns an error if r is invalid, the same as [Examine].
func (r Receiver) Validate() error {
	r.Kind = cmp.Or(r.Kind, KindCallback)
	if _, err := parseReceiver(r); err != nil {
		return err
	}
	_, err := selectRules(allRules(r.Kind, r.Strict), r.Only)
	return err
}

func parseReceiver(r Receiver) (address, error) {
	invalid := func(format string, args ...any) (address, error) {
		return address{}, fmt.Errorf("receivertest: examine: invalid receiver: "+format, args...)
	}
	if r.Keys == nil {
		return invalid("Keys is nil (see NewKeys)")
	}
	if r.Kind != KindCallback && r.Kind != KindRedirect {
		return invalid("Kind must be KindCallback or KindRedirect")
	}
	switch {
	case r.Keys.turn == nil:
		return invalid("Keys is the zero value (use NewKeys)")
	case r.Kind == KindRedirect && (r.Base64Digest || r.CallbackHeader != ""):
		return invalid("Base64Digest and CallbackHeader are for callbacks, not for redirects")
	case r.Handler != nil && (r.Addr != "" || r.TLSConfig != nil):
		return invalid("Addr and TLSConfig have no effect on a Handler")
	}
	u, err := url.Parse(r.URL)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return invalid("URL must be an absolute http or https URL")
	case u.User != nil || u.Fragment != "":
		return invalid("URL must not contain a user or a fragment")
	}
	if u.Path == "" {
		u.Path = "/"
	}
	a := address{url: u, tls: u.Scheme == "https"}
	addr := r.Addr
	if scheme, rest, ok := strings.Cut(r.Addr, "://"); ok {
		if scheme != "http" && scheme != "https" {
			return invalid("the scheme of Addr must be http or https")
		}
		a.tls, addr = scheme == "https", strings.TrimSuffix(rest, "/")
	}
	if addr == "" {
		addr = u.Host
	}
	if a.hostPort, err = withPort(addr, a.tls); err != nil {
		return invalid("Addr must be a host and a port")
	}
	if err := checkHeader(r.Header, r.CallbackHeader); err != nil {
		return invalid("%w", err)
	}
	return a, nil
}

// withPort returns addr with a port, by default that of the scheme.
func withPort(addr string, secure bool) (string, error) {
	u, err := url.Parse("//" + addr)
	if err != nil || u.Host != addr || u.Hostname() == "" {
		return "", errors.New("invalid address")
	}
	port := u.Port()
	switch {
	case port != "":
	case secure:
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

// checkHeader returns an error if h contains an invalid field, or one that is a part of a message.
func checkHeader(h http.Header, callbackHeader string) error {
	own := []string{"Authorization", "Connection", "Content-Length", "Content-Type", "Date", "Digest", "Expect", "Host", "Trailer", "Transfer-Encoding", "Upgrade", "X-Service-Callback", textproto.CanonicalMIMEHeaderKey(callbackHeader)}
	for name, values := range h {
		if slices.Contains(own, textproto.CanonicalMIMEHeaderKey(name)) {
			return fmt.Errorf("Header must not contain %s, which is a part of the message", textproto.CanonicalMIMEHeaderKey(name))
		}
		if name == "" || strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return errors.New("Header contains an invalid name")
		}
		for _, value := range values {
			if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
				return fmt.Errorf("the value of %s in Header contains control characters", name)
			}
		}
	}
	return nil
}
