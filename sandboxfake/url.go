package sandboxfake

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"

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
	if defect := redirectDefect(redirectURL); redirectURL != "" && defect != "" {
		return newProblem(wire.BadRequest, "redirect_url "+defect)
	}
	return nil
}

const malformedURL = "is malformed: the host, the port or a percent escape is not valid"

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
		return malformedURL
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

// redirectDefect returns why text is not a valid redirect URL, or "" if it is valid. Apart from
// urlDefect, it may contain what browsers encode: spaces in the path and query, and a host that is
// not in ASCII.
func redirectDefect(text string) string {
	if strings.Contains(text, "#") {
		return "must not have a fragment"
	}
	u := browserURL(text)
	if u == nil || len(text) > maxURL {
		return cmp.Or(urlDefect(text), malformedURL)
	}
	return cmp.Or(urlDefect(u.String()), queryDefect(text))
}

// browserURL returns a redirect URL as a browser sends it, or nil if no browser would send it. Its
// path is in Opaque, which net/url does not encode again.
//
// A browser normalizes each URL before it sends a request, and the service signs what is sent.
// net/url does not implement the standard of browsers, WHATWG URL.
//
// Protocol: docs/protocol.md, section 7.
func browserURL(text string) *url.URL {
	scheme, rest, _ := strings.Cut(text, "://")
	scheme = strings.ToLower(scheme)
	if scheme != "http" && scheme != "https" || strings.TrimSpace(text) != text {
		return nil
	}
	end := strings.IndexAny(rest, `/\?#`)
	if end < 0 {
		end = len(rest)
	}
	host, ok := browserHost(scheme, rest[:end])
	if !ok {
		return nil
	}
	path, query, _ := strings.Cut(rest[end:], "?")
	return &url.URL{Scheme: scheme, Host: host, Opaque: "//" + host + browserPath(path), RawQuery: percentEncode(query, queryEncoded)}
}

// The printable ASCII characters that browsers encode in a query and a path. The standard does not
// encode | in a path, but Chromium does.
const (
	queryEncoded = ` "<>'`
	pathEncoded  = " \"<>^`{|}"
)

// percentEncode encodes the characters of text that set contains.
func percentEncode(text, set string) string {
	var b strings.Builder
	for i := range len(text) {
		if strings.IndexByte(set, text[i]) >= 0 {
			fmt.Fprintf(&b, "%%%02X", text[i])
		} else {
			b.WriteByte(text[i])
		}
	}
	return b.String()
}

// browserPath returns a path without dot segments, with slashes for backslashes.
func browserPath(path string) string {
	segments := strings.Split(strings.ReplaceAll(path, `\`, "/"), "/")[1:]
	var kept []string
	for i, segment := range segments {
		switch strings.ReplaceAll(strings.ToLower(segment), "%2e", ".") {
		case "..":
			kept = kept[:max(0, len(kept)-1)]
		case ".":
		default:
			kept = append(kept, percentEncode(segment, pathEncoded))
			continue
		}
		if i == len(segments)-1 {
			kept = append(kept, "")
		}
	}
	return "/" + strings.Join(kept, "/")
}

// browserHost returns the host and port of a URL without userinfo: the host in lower case and
// ASCII, an IP address in its usual form, and no default port. ok is false if they are not valid.
func browserHost(scheme, authority string) (host string, ok bool) {
	name, port := authority, ""
	if colon := strings.LastIndexByte(authority, ':'); colon > strings.LastIndexByte(authority, ']') {
		name, port = authority[:colon], authority[colon+1:]
	}
	if address, isIPv6 := strings.CutPrefix(name, "["); isIPv6 {
		name, ok = browserIPv6(address)
	} else if name, ok = browserName(name); ok {
		name, ok = browserIPv4(name)
	}
	if !ok || port == "" {
		return name, ok
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", false
	}
	if scheme == "http" && number == 80 || scheme == "https" && number == 443 {
		return name, true
	}
	return name + ":" + strconv.FormatUint(number, 10), true
}

// browserIDNA converts internationalized names as browsers do: UTS #46, nontransitional, without
// the rules for registration.
var browserIDNA = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.BidiRule(), idna.CheckJoiners(true), idna.CheckHyphens(false), idna.StrictDomainName(false), idna.VerifyDNSLength(false))

// browserName returns a DNS name in lower case, with punycode for other characters than ASCII.
func browserName(name string) (ascii string, ok bool) {
	ascii = strings.ToLower(name)
	if strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) || strings.Contains("."+ascii, ".xn--") {
		var err error
		// Browsers map a capital sharp s to a small one. The tables of package idna are older and map
		// it to ss.
		if ascii, err = browserIDNA.ToASCII(strings.ReplaceAll(name, "ẞ", "ß")); err != nil || !utf8.ValidString(name) {
			return "", false
		}
		// Package idna decodes the label xn-- to an empty one.
		if emptyLabels(ascii) > emptyLabels(name) {
			return "", false
		}
	}
	return ascii, ascii != "" && strings.Trim(ascii, "abcdefghijklmnopqrstuvwxyz0123456789.-_") == ""
}

// emptyLabels returns the number of empty labels of a DNS name.
func emptyLabels(name string) (n int) {
	for _, separator := range []string{"。", "．", "｡"} {
		name = strings.ReplaceAll(name, separator, ".")
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" {
			n++
		}
	}
	return n
}

// browserIPv4 returns name with dots between four decimal numbers if its last part is a number, as
// in 127.1 and 0x7f.1. Such a name is always an address.
func browserIPv4(name string) (address string, ok bool) {
	parts := strings.Split(strings.TrimSuffix(name, "."), ".")
	last := len(parts) - 1
	if _, isNumber := ipv4Number(parts[last]); !isNumber && (parts[last] == "" || strings.Trim(parts[last], "0123456789") != "") {
		return name, true
	}
	if last > 3 {
		return "", false
	}
	var ip [4]byte
	for i, part := range parts {
		number, isNumber := ipv4Number(part)
		size := 1 // in bytes
		if i == last {
			size = 4 - last
		}
		if !isNumber || number >= 1<<(8*size) {
			return "", false
		}
		for k := range size {
			ip[i+k] = byte(number >> (8 * (size - 1 - k)))
		}
	}
	return netip.AddrFrom4(ip).String(), true
}

// ipv4Number parses a part of an IPv4 address: hexadecimal after 0x, octal after 0, or decimal.
func ipv4Number(part string) (number uint64, ok bool) {
	digits, base := part, 10
	if hex, found := strings.CutPrefix(part, "0x"); found {
		digits, base = "0"+hex, 16
	} else if len(part) > 1 && part[0] == '0' {
		base = 8
	}
	number, err := strconv.ParseUint(digits, base, 64)
	return number, err == nil || errors.Is(err, strconv.ErrRange) // too large for any part
}

// browserIPv6 returns an IPv6 address in its shortest form, in brackets. bracketed ends with a
// bracket.
func browserIPv6(bracketed string) (address string, ok bool) {
	text, ok := strings.CutSuffix(bracketed, "]")
	ip, err := netip.ParseAddr(text)
	if !ok || err != nil || !ip.Is6() || ip.Zone() != "" {
		return "", false
	}
	if ip.Is4In6() { // String would write it with dots
		b := ip.As16()
		return fmt.Sprintf("[::ffff:%x:%x]", binary.BigEndian.Uint16(b[12:]), binary.BigEndian.Uint16(b[14:])), true
	}
	return "[" + ip.String() + "]", true
}
