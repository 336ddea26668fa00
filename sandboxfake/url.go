package sandboxfake

import (
	"net"
	"net/url"
	"slices"
	"strings"
)

// maxURL is the maximum length of a callback or redirect URL, in bytes. It bounds the size of the
// delivery journal.
//
// Protocol: docs/protocol.md, section 3.
const maxURL = 2048

const (
	badCallbackURL = "callback_url must be an absolute http or https URL of at most 2048 bytes without userinfo or fragment"
	badRedirectURL = "redirect_url must be an absolute http or https URL of at most 2048 bytes without userinfo, fragment or the query parameters that the service adds"
)

// validURL reports whether text is an absolute http or https URL of at most maxURL bytes without
// userinfo and fragment, in printable ASCII. It rejects a host with a percent escape, which is an
// internationalized name or has an IPv6 zone. Browsers send internationalized names as punycode.
func validURL(text string) bool {
	unprintable := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > maxURL || strings.ContainsFunc(text, unprintable) || strings.Contains(text, "#"):
		return false
	case u.Scheme != "http" && u.Scheme != "https", u.User != nil:
		return false
	}
	return u.Hostname() != "" && !strings.Contains(u.Hostname(), "%") && !strings.ContainsFunc(u.Host, unprintable)
}

// redirectParams are the query parameters that the service adds to a redirect URL. The URL must not
// already contain them.
var redirectParams = []string{"check_id", "code", "error", "error_description", "authorization", "date"}

// validRedirectURL reports whether text is a valid URL with none of redirectParams in its query.
func validRedirectURL(text string) bool {
	if !validURL(text) {
		return false
	}
	_, rawQuery, _ := strings.Cut(text, "?")
	query, err := url.ParseQuery(rawQuery)
	return err == nil && !slices.ContainsFunc(redirectParams, query.Has)
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
