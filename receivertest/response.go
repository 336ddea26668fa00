package receivertest

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// accepted reports whether the receiver accepted a message: it responded with 2XX, or to a redirect
// also with 3XX.
func (e *examination) accepted(a attempt) bool {
	switch {
	case a.failure != responded:
		return false
	case a.status/100 == 2:
		return true
	case e.Kind != Redirect || a.status/100 != 3:
		return false
	}
	// Receivers of redirects may also send the browser to a page for errors or for signing in.
	switch where := location(a); {
	case where == location(e.valid):
		return true
	case e.unsigned.status/100 == 3 && where == location(e.unsigned):
		return false
	}
	return true
}

// rejected reports whether the receiver rejected a message: it did not accept it, and the service
// does not send it again.
func (e *examination) rejected(a attempt) bool {
	switch a.failure {
	case closed, garbage:
		return true
	case responded:
		return !e.accepted(a) && a.status/100 != 5
	}
	return false
}

// location returns the target of a response 3XX without IDs, codes and random values, so that it
// can be compared with that of another message. For other responses, it returns the status.
func location(a attempt) string {
	if a.failure != responded || a.status/100 != 3 {
		return status(a.status)
	}
	u, err := url.Parse(a.response.header.Get("Location"))
	if err != nil {
		return "malformed"
	}
	query := u.Query()
	for name, values := range query {
		if slices.ContainsFunc(values, func(v string) bool { return len(v) >= 16 || name == "check_id" || name == "code" }) {
			query.Set(name, "…")
		}
	}
	return u.Host + strings.ReplaceAll(u.Path, a.checkID, "…") + "?" + query.Encode()
}

// describe describes a response, for details.
func describe(r response) string {
	switch r.failure {
	case unreachable:
		return "cannot connect to the receiver: " + r.cause
	case closed:
		return "the receiver closed the connection without a response"
	case silent:
		return "the receiver did not respond within 10 s"
	case garbage:
		return "the response is not HTTP/1.1"
	}
	text := "response " + status(r.status)
	if r.status/100 == 3 {
		if u, err := url.Parse(r.header.Get("Location")); err == nil {
			text += fmt.Sprintf(" to %q", r.redact(u.Path))
		}
	}
	return text
}

func status(code int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code)))
}

// maxExcerpt is the maximum length of an excerpt, in bytes.
const maxExcerpt = 200

// excerpt returns the beginning of the body of a response, quoted, with a separator in front; or
// "".
func excerpt(r response) string {
	body := strings.TrimSpace(r.redact(string(r.body)))
	if body == "" || r.header.Get("Content-Encoding") != "" {
		return ""
	}
	if len(body) > maxExcerpt {
		return fmt.Sprintf("; the body begins with %q", strings.ToValidUTF8(body[:maxExcerpt], ""))
	}
	return fmt.Sprintf("; the body is %q", body)
}

// oneLine escapes control characters and everything that is not printable.
func oneLine(s string) string {
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
