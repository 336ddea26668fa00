package idverify

import (
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// The patterns that clean removes. They match too much rather than too little.
var (
	ipv4 = regexp.MustCompile(`\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?`)
	// ipv6 finds runs with two colons; a time of day is one, too.
	ipv6      = regexp.MustCompile(`(?i)[0-9a-f]*:[0-9a-f]*:[0-9a-f:]*`)
	date      = regexp.MustCompile(`^(?:19|20)\d\d-[01]\d-[0-3]\d$`)
	timeOfDay = regexp.MustCompile(`^\d{1,2}:\d\d:\d\d$`)
	// sensitive finds credentials, which have a digit or are longer than the words that may follow such a scheme in a sentence; URLs; and seven digits or more, however they are joined.
	sensitive = regexp.MustCompile(`(?i)\b(?:bearer|basic)[\s:]+(?:[\w.~+/-]*[0-9=][\w.~+/=-]*|[\w.~+/=-]{16,})|\b[a-z][a-z0-9+.-]*://\S+|\+?\(?\d(?:[ ().-]{0,3}\d){6,}`)
)

// sanitize sanitizes untrusted text for an error or a log: the result is one line of at most 300
// printable characters, without secrets, phone numbers, addresses and URLs.
func sanitize(s string, secrets ...string) string {
	const longest = 300
	s = redactSecrets(s, 16*longest, secrets)
	s = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	s = ipv4.ReplaceAllString(s, redacted)
	s = ipv6.ReplaceAllStringFunc(s, func(run string) string {
		if timeOfDay.MatchString(run) {
			return run
		}
		return redacted
	})
	s = sensitive.ReplaceAllStringFunc(s, func(found string) string {
		if date.MatchString(found) {
			return found
		}
		return redacted
	})
	if runes := []rune(s); len(runes) > longest {
		s = string(runes[:longest]) + "…"
	}
	return s
}

// bodyStart returns how an unexpected body begins.
func bodyStart(body []byte, secrets ...string) string {
	text := sanitize(string(body[:min(len(body), 64<<10)]), secrets...)
	if text == "" {
		return "the body is empty"
	}
	return "the body begins " + strconv.Quote(text)
}

// cause takes the *url.Error off err: it holds the URL.
func cause(err error) error {
	if urlErr, ok := errors.AsType[*url.Error](err); ok {
		return urlErr.Err
	}
	return err
}

// causeText returns why there is no response, without the addresses that errors of package net
// contain.
func causeText(err error, secrets ...string) string {
	if dnsErr, ok := errors.AsType[*net.DNSError](err); ok {
		return "look up the service's host: " + sanitize(dnsErr.Err, secrets...)
	}
	if opErr, ok := errors.AsType[*net.OpError](err); ok {
		if opErr.Err == nil {
			return opErr.Op // its method Error would panic
		}
		return opErr.Op + ": " + sanitize(opErr.Err.Error(), secrets...)
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "the certificate is for another host"
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the answer was cut off"
	case errors.Is(err, io.EOF):
		return "the connection was closed before the answer"
	}
	return sanitize(err.Error(), secrets...)
}
