package idverify

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

var (
	// addressLike finds what may be an IP address, perhaps with a port; a time of day looks like one, too.
	addressLike = regexp.MustCompile(`(?i)[0-9a-f]*[.:][0-9a-f.:]+`)
	// sensitive finds credentials, URLs and phone numbers. A run of seven digits is taken for a number: rather one too many.
	sensitive = regexp.MustCompile(`(?i)\b(?:bearer|basic)\s+[\w.~+/=-]+|\b[a-z][a-z0-9+.-]*://\S+|\+\d[\d ().-]{5,}\d|\+?\d{7,}`)
)

// clean makes foreign text fit for an error or a log: one line of printable characters, of bearable length, without anything secret or personal.
func clean(s string, secrets ...string) string {
	const longest = 300
	s = s[:min(len(s), 16*longest)]
	for _, secret := range secrets {
		if secret != "" {
			s = strings.ReplaceAll(s, secret, redacted)
		}
	}
	s = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	s = addressLike.ReplaceAllStringFunc(s, redactAddress)
	s = sensitive.ReplaceAllString(s, redacted)
	if runes := []rune(s); len(runes) > longest {
		s = string(runes[:longest]) + "…"
	}
	return s
}

func redactAddress(s string) string {
	text := strings.TrimRight(s, ".:") // the end of a sentence
	_, err := netip.ParseAddr(text)
	if err != nil {
		_, err = netip.ParseAddrPort(text)
	}
	if err != nil {
		_, err = netip.ParseAddr(s)
		text = s
	}
	if err != nil {
		return s
	}
	return redacted + s[len(text):]
}

// begins shows how a body begins that is not what it should be.
func begins(body []byte, secrets ...string) string {
	text := clean(string(body[:min(len(body), 4<<10)]), secrets...)
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

// causeText says why nothing was answered, without the addresses that package net puts into its errors.
func causeText(err error) string {
	if dnsErr, ok := errors.AsType[*net.DNSError](err); ok {
		return "look up the service's host: " + clean(dnsErr.Err)
	}
	if opErr, ok := errors.AsType[*net.OpError](err); ok && opErr.Err != nil {
		return opErr.Op + ": " + clean(opErr.Err.Error())
	}
	return clean(err.Error())
}
