package sandboxfake

import (
	"cmp"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/idverify/idverify-go/internal/wire"
)

// maxURL is the maximum length of a callback or redirect URL, in bytes. It bounds the size of the
// delivery journal.
//
// Protocol: docs/protocol.md, section 3.
const maxURL = 2048

// validateURLs validates the callback URL and the redirect URL of a request. Either may be empty,
// which means that there is none.
func validateURLs(callbackURL, redirectURL string) error {
	if defect := urlDefect(callbackURL); callbackURL != "" && defect != "" {
		return newProblem(wire.BadRequest, "callback_url "+defect)
	}
	if defect := cmp.Or(urlDefect(redirectURL), queryDefect(redirectURL)); redirectURL != "" && defect != "" {
		return newProblem(wire.BadRequest, "redirect_url "+defect)
	}
	return nil
}

// urlDefect returns why text is not a valid URL, without quoting it, or "" if it is valid: an
// absolute http or https URL of at most maxURL bytes without userinfo and fragment, in printable
// ASCII. The host has no percent escape: it would be an internationalized name, which browsers send
// as punycode, or have an IPv6 zone.
//
// Protocol: docs/protocol.md, section 3.
func urlDefect(text string) string {
	unprintable := func(r rune) bool { return r <= ' ' || r == 0x7f }
	nonASCII := func(r rune) bool { return r > 0x7f }
	u, err := url.Parse(text)
	switch {
	case len(text) > maxURL:
		return "must have at most 2048 bytes"
	case strings.ContainsFunc(text, unprintable):
		return "must not contain spaces or control characters (percent-encode them)"
	case strings.Contains(text, "#"):
		return "must not have a fragment"
	case err != nil:
		return "is malformed: the host, the port or a percent escape is not valid"
	case u.Scheme == "":
		return "must be absolute: begin with https:// or http://"
	case u.Scheme != "http" && u.Scheme != "https":
		return "must have the scheme https or http"
	case u.User != nil:
		return "must not contain userinfo"
	case u.Hostname() == "":
		return "must be absolute: the host is missing"
	case strings.ContainsFunc(u.Host, nonASCII):
		return "must have a host in ASCII (write an internationalized name as punycode, xn--…)"
	case strings.Contains(u.Hostname(), "%"):
		return "must have a host without percent escapes and zones"
	case strings.ContainsFunc(text, nonASCII):
		return "must have a path and query in ASCII (percent-encode other characters)"
	}
	return ""
}

// redirectParams are the query parameters that the service adds to a redirect URL. The URL must not
// already contain them.
var redirectParams = []string{"check_id", "code", "error", "error_description", "authorization", "date"}

// queryDefect returns why the query of a redirect URL is invalid, or "" if it is valid.
func queryDefect(text string) string {
	_, rawQuery, _ := strings.Cut(text, "?")
	query, err := url.ParseQuery(rawQuery)
	switch {
	case err != nil:
		return "has a malformed query"
	case slices.ContainsFunc(redirectParams, query.Has):
		return "must not have a query parameter that the service adds: " + strings.Join(redirectParams, ", ")
	}
	return ""
}

// browserHost returns the host of a valid URL as a browser sends it: in lower case and without the
// default port. The signature of a redirect covers the Host header that arrives at the customer.
func browserHost(u *url.URL) string {
	host := strings.ToLower(u.Hostname())
	port := strings.TrimLeft(u.Port(), "0")
	switch {
	case port == "", u.Scheme == "http" && port == "80", u.Scheme == "https" && port == "443":
		if strings.Contains(host, ":") {
			return "[" + host + "]"
		}
		return host
	}
	return net.JoinHostPort(host, port)
}
