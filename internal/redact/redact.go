// Package redact removes secrets and personal data from texts and errors, for packages idverify,
// signature, checkflow, inbox and redisstore.
package redact

import (
	"html"
	"maps"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Placeholder replaces what is removed from a text.
const Placeholder = "[REDACTED]"

// Query returns query with a placeholder for the code of a redirect.
func Query(query url.Values) url.Values {
	if query.Has("code") {
		query = maps.Clone(query)
		query.Set("code", Placeholder)
	}
	return query
}

// Patterns of texts that Text redacts. They may also match harmless text, so that no secret
// leaks.
var (
	ipv4 = regexp.MustCompile(`\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?`)
	// ipv6 matches hexadecimal groups with two colons, which may be percent-encoded. It also matches
	// times of day.
	ipv6      = regexp.MustCompile(`(?i)[0-9a-f]*(?::|%3a)[0-9a-f]*(?::|%3a)(?:[0-9a-f:]|%3a)*`)
	date      = regexp.MustCompile(`^(?:19|20)\d\d[-/][01]\d[-/][0-3]\d$`)
	timeOfDay = regexp.MustCompile(`^\d{1,2}:\d\d:\d\d$`)
	// sensitive matches credentials, which contain a digit or are longer than the words that may
	// follow "bearer" or "basic" in a sentence, URLs, and seven or more digits, which up to three
	// spaces, dots, hyphens or dashes, parentheses, slashes or underscores may separate. Commas
	// separate numbers, such as those of a JSON array.
	sensitive = regexp.MustCompile(`(?i)\b(?:bearer|basic)[\s:]+(?:[\w.~+/-]*[0-9=][\w.~+/=-]*|[\w.~+/=-]{16,})|\b[a-z][a-z0-9+.-]*://\S+|\+?\(?\p{Nd}(?:(?:[ ()./_\p{Pd}]|%20|&nbsp;){0,3}\p{Nd}){6,}`)
)

// Text prepares untrusted text for an error or a log. The result is one line of at most 300
// printable characters, in which secrets, phone numbers, addresses and URLs are redacted.
func Text(s string, secrets ...string) string {
	const longest = 300
	s = redactSecrets(s, 16*longest, secrets)
	s = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	s = ipv4.ReplaceAllString(s, Placeholder)
	s = ipv6.ReplaceAllStringFunc(s, func(run string) string {
		if timeOfDay.MatchString(run) {
			return run
		}
		return Placeholder
	})
	s = sensitive.ReplaceAllStringFunc(s, func(found string) string {
		if date.MatchString(found) {
			return found
		}
		return Placeholder
	})
	if runes := []rune(s); len(runes) > longest {
		s = string(runes[:longest]) + "…"
	}
	return s
}

// redactSecrets replaces every secret in s with a placeholder. It also recognizes secrets with
// characters escaped for a URL, HTML or JSON. It stops when the result has limit bytes. If the
// caller truncated s before, a partial secret might not be recognized.
func redactSecrets(s string, limit int, secrets []string) string {
	var b strings.Builder
	for i := 0; i < len(s) && b.Len() < limit; {
		if n := secretAt(s, i, secrets); n > 0 {
			b.WriteString(Placeholder)
			i += n
			continue
		}
		b.WriteByte(s[i])
		i++
	}
	return b.String()
}

// Contains reports whether s contains a secret that Text would redact.
func Contains(s string, secrets []string) bool {
	for i := range len(s) {
		if secretAt(s, i, secrets) > 0 {
			return true
		}
	}
	return false
}

const (
	// minWordLength is the minimum length of a secret that is redacted within a word. Shorter secrets
	// would make other words unreadable.
	minWordLength = 8
	// minPrefix is the number of leading characters of a longer secret that are redacted even if the
	// rest differs. It limits the processing time for malicious input.
	minPrefix = 64
	// minPartial is the number of leading characters that are redacted at the end of a text, which may
	// have been truncated within the secret.
	minPartial = 12
)

// secretAt returns the length of the secret at s[i], in any notation, or 0 if there is none.
// Sufficiently long parts of a secret also match: see minPrefix and minPartial.
func secretAt(s string, i int, secrets []string) int {
	longest := 0
	escaped := strings.IndexByte(`%+&\`, s[i]) >= 0
	for _, secret := range secrets {
		if secret == "" || s[i] != secret[0] && !escaped {
			continue // fast path
		}
		for _, unescape := range notations {
			matched, n := matchPrefix(s[i:], secret, unescape)
			switch {
			case len(secret) < minWordLength && !isWordAt(s, i, n):
			case matched == len(secret), matched >= minPrefix, matched >= minPartial && i+n == len(s):
				longest = max(longest, n)
			}
		}
	}
	return longest
}

// matchPrefix decodes the start of s with unescape. It returns the number of leading bytes of
// secret that it matches, and the length of the match in s.
func matchPrefix(s, secret string, unescape func(string) (string, int)) (matched, n int) {
	for matched < len(secret) && n < len(s) {
		char, length := s[n:n+1], 1
		if escaped, escape := unescape(s[n:]); escape > 0 {
			char, length = escaped, escape
		}
		if !strings.HasPrefix(secret[matched:], char) {
			break
		}
		matched += len(char)
		n += length
	}
	return matched, n
}

// notations decode a character: plain, and escaped for a path, a form, HTML and JSON. Each returns
// the character that the escape at the start of s represents, and the length of the escape, which
// is 0 if there is no escape.
var notations = []func(s string) (char string, length int){
	func(string) (string, int) { return "", 0 },
	percentEscape,
	func(s string) (string, int) {
		if s[0] == '+' {
			return " ", 1
		}
		return percentEscape(s)
	},
	func(s string) (string, int) {
		if s[0] != '&' {
			return "", 0
		}
		entity := htmlEntity.FindString(s)
		if char := html.UnescapeString(entity); char != entity {
			return char, len(entity)
		}
		return "", 0
	},
	func(s string) (string, int) {
		if s[0] != '\\' {
			return "", 0
		}
		escape := jsonEscape.FindString(s)
		if char, err := strconv.Unquote(`"` + strings.Replace(escape, `\/`, "/", 1) + `"`); err == nil {
			return char, len(escape)
		}
		return "", 0
	},
}

var (
	htmlEntity = regexp.MustCompile(`^&[#0-9A-Za-z]{1,10};`)
	jsonEscape = regexp.MustCompile(`^\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})`)
	anyEscape  = regexp.MustCompile(`(?:%[0-9A-Fa-f]{2}|\\[bfnrt]|\\u[0-9A-Fa-f]{4})$`)
)

func percentEscape(s string) (string, int) {
	if s[0] != '%' || len(s) < 3 {
		return "", 0
	}
	b, err := strconv.ParseUint(s[1:3], 16, 8)
	if err != nil {
		return "", 0
	}
	return string([]byte{byte(b)}), 3
}

// isWordAt reports whether the n bytes at s[i] are a separate word.
func isWordAt(s string, i, n int) bool {
	before, _ := utf8.DecodeLastRuneInString(s[:i])
	after, _ := utf8.DecodeRuneInString(s[i+n:])
	return (!isWordRune(before) || anyEscape.MatchString(s[max(0, i-6):i])) && !isWordRune(after)
}

func isWordRune(r rune) bool {
	return r == '_' || r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}
