package sandboxfake

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"
)

// WithRequestLog writes a line to w at the end of each request and of each delivery attempt, with
// its time, operation, status and duration. The lines contain no credentials, tokens, codes, phone
// numbers or IP addresses. For headers and bodies, use [Server.Requests].
//
// Each line is one Write; the server does not call w concurrently.
func WithRequestLog(w io.Writer) Option {
	return func(o *options) error {
		o.log = &requestLog{w: w}
		return nil
	}
}

// requestLog writes the log of WithRequestLog. A nil *requestLog writes nothing.
type requestLog struct {
	mu sync.Mutex // guards w
	w  io.Writer
}

// call logs a call and the status of its response.
func (l *requestLog) call(c *call, status int, elapsed time.Duration) {
	if l == nil {
		return
	}
	operation, result := c.op.Name, ""
	if operation == "" {
		operation = "-"
	}
	if c.fault != nil {
		result = "injected fault"
	}
	l.line(c.r.Method, plainPath(c.r.URL.EscapedPath()), operation, status, result, elapsed)
}

// attempt logs the n-th attempt of a delivery.
func (l *requestLog) attempt(d *delivery, n int, attempt Attempt, elapsed time.Duration) {
	if l == nil {
		return
	}
	result := string(attempt.Result)
	if attempt.Error != "" {
		result += ": " + plainCause(attempt.Error)
	}
	l.line("→", fmt.Sprintf("callback %s", d.CheckID), fmt.Sprintf("%s %s, attempt %d", d.Product, d.Status, n), attempt.Status, result, elapsed)
}

func (l *requestLog) line(method, path, operation string, status int, result string, d time.Duration) {
	code := "---"
	if status != 0 {
		code = fmt.Sprint(status)
	}
	if result != "" {
		code += " " + result
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, "%s %-6s %s %s %s %.1fms\n", time.Now().Format("15:04:05.000"), method, path, operation, code, float64(d.Microseconds())/1000)
}

// maxCause is the maximum length of a cause in the log, in runes.
const maxCause = 200

// sensitive matches URLs, IP addresses with their port, seven or more digits, and credentials.
var sensitive = regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*://\S+|\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?|\[?[0-9a-f]*:[0-9a-f]*:[0-9a-f:]*(?:\.\d{1,3}){0,3}\]?(?::\d+)?|\+?\d(?:[ ().-]{0,3}\d){6,}|\b(?:bearer|basic)[\s:]+\S+`)

// plainCause returns the cause of an attempt without response as one line of printable characters,
// with addresses, numbers and credentials masked.
func plainCause(cause string) string {
	cause = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, cause[:min(len(cause), 8*maxCause)])
	cause = sensitive.ReplaceAllString(strings.Join(strings.Fields(cause), " "), masked)
	if runes := []rune(cause); len(runes) > maxCause {
		cause = string(runes[:maxCause]) + "…"
	}
	return cause
}

// plainPath masks the segments of a path that could be an address, a number or a secret. Words,
// versions and IDs remain.
func plainPath(path string) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		if segment != "" && !isWord(segment) && !isUUID(segment) {
			segments[i] = masked
		}
	}
	return strings.Join(segments, "/")
}

// isWord reports whether a path segment is a name such as phone_check, jwks.json or v0.1.
func isWord(s string) bool {
	if len(s) > 32 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "" {
		return false
	}
	letters, digits := 0, 0
	for _, c := range s {
		switch {
		case '0' <= c && c <= '9':
			digits++
		case c != '.' && c != '_' && c != '-':
			letters++
		}
	}
	return letters > 0 && digits <= 2 || s == ".well-known"
}

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
