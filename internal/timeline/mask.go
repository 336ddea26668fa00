package timeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/idverify/idverify-go/internal/redact"
)

// Redacted replaces a secret.
const Redacted = redact.Placeholder

// maxText is the maximum length of a text that MaskText returns, in runes.
const maxText = 200

// sensitive matches URLs, IP addresses with their port, seven or more digits, credentials, and JSON
// web tokens.
var sensitive = regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*://\S+|\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?|\[?[0-9a-f]*:[0-9a-f]*:[0-9a-f:]*(?:\.\d{1,3}){0,3}\]?(?::\d+)?|\+?\d(?:[ ().-]{0,3}\d){6,}|\b(?:bearer|basic)[\s:]+\S+|\beyJ[\w-]+(?:\.[\w-]*)*`)

// named matches the value of a name such as client_secret. The first group remains.
var named = regexp.MustCompile(`(?i)((?:token|secret|code|key|password|authorization)["']?\s*[=:]\s*|signature=)(?:(?:bearer|basic)\s+)?(?:"[^"]*"?|'[^']*'?|[^\s,;]+)`)

// longWord matches words that MaskText masks if they have the form of a secret.
var longWord = regexp.MustCompile(`[A-Za-z0-9_]{12,}`)

// MaskText returns text, such as the cause of an error, as one line of printable characters, with
// addresses, numbers and credentials redacted.
func MaskText(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text[:min(len(text), 8*maxText)])
	text = named.ReplaceAllString(strings.Join(strings.Fields(text), " "), "${1}"+Redacted)
	text = sensitive.ReplaceAllString(text, Redacted)
	text = longWord.ReplaceAllStringFunc(text, func(word string) string {
		if word != "SubscriberCheck" && hasUpper(word) && (hasLower(word) || strings.ContainsAny(word, digits)) {
			return Redacted
		}
		return word
	})
	if runes := []rune(text); len(runes) > maxText {
		text = string(runes[:maxText]) + "…"
	}
	return text
}

// MaskPath masks the segments of a path that could be an address, a number or a secret. Short
// words, versions and IDs remain. A secret that has the form of a lower-case word also remains.
func MaskPath(path string) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		if segment != "" && !isWord(segment) && !isUUID(segment) {
			segments[i] = Redacted
		}
	}
	return strings.Join(segments, "/")
}

// shownParameters are the names of query parameters that MaskTarget does not mask.
var shownParameters = []string{
	"check_id", "code", "error", "error_description", "fragment", "id", "limit", "next", "order", "page", "product", "redirect_url",
	"search", "secret", "session", "signature", "size", "sort", "start", "state", "status", "token", "type", "user", "version",
}

// MaskTarget masks a path and all values of its query. It also masks parameter names that are not
// in shownParameters.
func MaskTarget(target string) string {
	path, query, ok := strings.Cut(target, "?")
	if !ok {
		return MaskPath(path)
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, _, _ := strings.Cut(pair, "=")
		if !slices.Contains(shownParameters, name) {
			name = Redacted
		}
		pairs[i] = name + "=" + Redacted
	}
	return MaskPath(path) + "?" + strings.Join(pairs, "&")
}

// MaskURL masks a URL as MaskTarget does, and its userinfo, fragment and any address except
// loopback. It returns Redacted for other text.
func MaskURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return Redacted
	}
	host := u.Host
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil && !addr.Unmap().IsLoopback() || err != nil && sensitive.MatchString(host) {
		host = Redacted
	}
	target := u.EscapedPath()
	if u.RawQuery != "" {
		target += "?" + u.RawQuery
	}
	return u.Scheme + "://" + host + MaskTarget(target)
}

// MaskNumber returns the last two digits of a phone number. They determine the result of a check of
// a sandbox project.
func MaskNumber(number string) string {
	if len(number) < 7 || strings.Trim(number, "0123456789") != "" {
		return Redacted
	}
	return "…" + number[len(number)-2:]
}

// maxBody is the maximum size of a body that MaskBody decodes, in bytes.
const maxBody = 64 << 10

// MaskBody returns an indented JSON body with redacted values. Those of shownFields, booleans, and
// numbers of at most six digits remain. Of any other body it returns only the size.
func MaskBody(body []byte) string {
	var v any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	switch {
	case len(body) == 0:
		return ""
	case len(body) > maxBody || decoder.Decode(&v) != nil || decoder.More():
		return fmt.Sprintf("%d bytes", len(body))
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	// Values that were decoded can be encoded.
	_ = encoder.Encode(maskValue("", v))
	return strings.TrimSuffix(text.String(), "\n")
}

// shownFields are the fields of JSON bodies whose words, IDs and times are not secret.
var shownFields = []string{"check_id", "status", "product", "version", "error", "error_code", "op", "path", "mode", "currency", "charge_currency", "created_at", "updated_at"}

// maskValue returns a decoded JSON value as MaskBody shows it.
func maskValue(name string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		fields := make(map[string]any)
		for name, value := range v {
			if !isWord(name) {
				name, value = Redacted, Redacted
			}
			fields[name] = maskValue(name, value)
		}
		return fields
	case []any:
		items := make([]any, len(v))
		for i, item := range v {
			items[i] = maskValue(name, item)
		}
		return items
	case json.Number:
		if len(v) > 7 { // digits and a decimal point
			return Redacted
		}
	case string:
		return maskString(name, v)
	}
	return v
}

func maskString(name, text string) string {
	_, notTime := time.Parse("2006-01-02T15:04:05Z0700", text)
	switch {
	case text == "":
		return ""
	case name == "phone_number":
		return MaskNumber(text)
	case strings.HasSuffix(name, "_url"):
		return MaskURL(text)
	case slices.Contains(shownFields, name) && (isWord(strings.TrimPrefix(text, "/")) || isUUID(text) || notTime == nil):
		return text
	}
	return Redacted
}

// Limits of isWord, in letters.
const (
	maxWord      = 24
	maxUpperWord = 11 // of a word with upper-case letters
)

// isWord reports whether a path segment or the name of a field is a name such as phone_check,
// jwks.json or v0.1. Longer words, and words with digits besides a version, can be secrets.
func isWord(s string) bool {
	if len(s) > 2*maxWord || strings.Trim(s, lower+upper+digits+"._-") != "" {
		return false
	}
	letters, numbers := 0, 0
	for _, c := range s {
		switch {
		case '0' <= c && c <= '9':
			numbers++
		case c != '.' && c != '_' && c != '-':
			letters++
		}
	}
	if hasUpper(s) {
		return letters <= maxUpperWord && numbers == 0
	}
	return letters > 0 && letters <= maxWord && numbers <= 2
}

const (
	lower  = "abcdefghijklmnopqrstuvwxyz"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits = "0123456789"
)

func hasLower(s string) bool { return strings.ContainsAny(s, lower) }

func hasUpper(s string) bool { return strings.ContainsAny(s, upper) }

// isUUID reports whether a path segment has the form of the service's IDs.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, c := range s {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (c == '-') || !dash && !strings.ContainsRune("0123456789abcdefABCDEF", c) {
			return false
		}
	}
	return true
}
