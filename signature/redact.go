package signature

import (
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/url"
	"regexp"
	"strings"
	"unicode"
)

const (
	redacted     = "[REDACTED]"
	maxCauseText = 300 // runes
	maxInput     = 16 * maxCauseText
)

var (
	// sensitive matches credentials, URLs, IPv4 addresses with their port, hexadecimal groups with two
	// colons such as IPv6 addresses, and seven or more digits, also separated by spaces, dots, hyphens
	// and parentheses. It prefers false positives to leaks.
	sensitive = regexp.MustCompile(`(?i)\b(?:bearer|basic)[\s:]+(?:[\w.~+/-]*[0-9=][\w.~+/=-]*|[\w.~+/=-]{16,})|\b[a-z][a-z0-9+.-]*://\S+|\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?|[0-9a-f]*:[0-9a-f]*:[0-9a-f:]*(?:(?:\.\d{1,3}){3}(?::\d+)?)?|\+?\(?\d(?:[ ().-]{0,3}\d){6,}`)
	// dateOrTime matches dates and times of day, which sensitive also matches. Errors about expired
	// certificates contain them.
	dateOrTime = regexp.MustCompile(`^(?:(?:19|20)\d\d-[01]\d-[0-3]\d|\d{1,2}:\d\d:\d\d)$`)
)

// redact prepares text of another package for an error or a log. The result is one line of at most
// maxCauseText printable characters without credentials, phone numbers, IP addresses and URLs.
func redact(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	s = s[:min(len(s), maxInput)] // bounds the time of the expression
	s = sensitive.ReplaceAllStringFunc(s, func(found string) string {
		if dateOrTime.MatchString(found) {
			return found
		}
		return redacted
	})
	if runes := []rune(s); len(runes) > maxCauseText {
		s = string(runes[:maxCauseText]) + "…"
	}
	return s
}

// withoutURL unwraps a *url.Error, whose text contains the URL. It returns other errors unchanged.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// causeText returns the text of err without credentials, numbers, addresses and URLs, and without
// the host names that packages net and x509 include in their errors.
func causeText(err error) string {
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return "look up host: " + redact(e.Err)
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		if e.Err == nil {
			return redact(e.Op) // e.Error would panic
		}
		return redact(e.Op) + ": " + causeText(e.Err) // a proxyconnect wraps the error of the dial
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "certificate is for another host"
	}
	err = withoutURL(err)
	switch text := err.Error(); {
	case err == io.EOF:
		return "connection closed before the response"
	case strings.HasPrefix(text, "failed to parse Location header"): // a relative one contains no host, but maybe secrets
		return "redirect has an invalid Location"
	default:
		return redact(text)
	}
}
