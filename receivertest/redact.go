package receivertest

import (
	"cmp"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// redacted replaces the values of added headers in texts of the receiver.
const redacted = "[REDACTED]"

// minSecretPart is the length from which a part of a value, such as one cookie, is redacted.
const minSecretPart = 6

// secretsOf returns the values of headers and their parts, also as receivers escape them, the
// longest first.
func secretsOf(headers ...http.Header) []string {
	var all []string
	add := func(s string) {
		quoted, _ := json.Marshal(s) // cannot fail
		all = append(all, s, string(quoted[1:len(quoted)-1]), html.EscapeString(s), url.QueryEscape(s), url.PathEscape(s))
	}
	for _, h := range headers {
		for _, values := range h {
			for _, value := range values {
				if value = strings.TrimSpace(value); value == "" {
					continue
				}
				add(value)
				for _, cookie := range strings.FieldsFunc(value, func(c rune) bool { return strings.ContainsRune("; ,", c) }) {
					_, content, _ := strings.Cut(cookie, "=")
					for _, part := range []string{cookie, content, strings.Trim(content, `"`)} {
						if len(part) >= minSecretPart {
							add(part)
						}
					}
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return slices.Compact(all)
}

// redact replaces secrets in a text of the receiver.
func (r response) redact(text string) string {
	var pairs []string
	for _, secret := range r.secrets {
		pairs = append(pairs, secret, redacted)
	}
	text = strings.NewReplacer(pairs...).Replace(text)
	if len(r.body) < maxBody {
		return text
	}
	// The end of the body was not read, and may be the middle of a secret.
	for _, secret := range r.secrets {
		for n := min(len(secret), len(text)); n > 0; n-- {
			if strings.HasSuffix(text, secret[:n]) {
				text = text[:len(text)-n]
				break
			}
		}
	}
	return text
}
