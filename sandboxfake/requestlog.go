package sandboxfake

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// WithRequestLog writes a line to w for each call that is answered and each try of a callback that has ended: when, what, which status, how long it took.
// The lines hold no credentials, tokens, codes, phone numbers or IP addresses, so they may be kept; [Server.Requests] is for what they leave out. One line is one Write; w is not used by two at a time.
func WithRequestLog(w io.Writer) Option {
	return func(o *options) error {
		o.log = &requestLog{w: w}
		return nil
	}
}

// requestLog writes the lines of WithRequestLog. A nil one writes none.
type requestLog struct {
	mu sync.Mutex // guards w
	w  io.Writer
}

// call writes the line of a call that was answered with status.
func (l *requestLog) call(c *call, status int, elapsed time.Duration) {
	if l == nil {
		return
	}
	operation, result := c.op.Name, ""
	if operation == "" {
		operation = "-"
	}
	if c.fault != nil {
		result = "by an injected fault"
	}
	l.line(c.r.Method, plainPath(c.r.URL.EscapedPath()), operation, status, result, elapsed)
}

// attempt writes the line of the n-th try of a delivery.
func (l *requestLog) attempt(d *delivery, n int, attempt Attempt, elapsed time.Duration) {
	if l == nil {
		return
	}
	l.line("→", fmt.Sprintf("callback %s", d.CheckID), fmt.Sprintf("%s %s, try %d", d.Product, d.Status, n), attempt.Status, string(attempt.Result), elapsed)
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

// plainPath is a path with everything masked that could be an address, a number or a secret: what stays are words, versions and ids.
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

// isUUID reports whether a path segment has the form of the ids that the service gives out.
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
