package main

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxCapture is the maximum size of a captured request, in bytes.
const maxCapture = 4 << 20

// capture is a captured request.
type capture struct {
	method string
	target string // path and query, as in the request line
	host   string
	header http.Header
	body   []byte
	noBody bool     // the capture does not contain the body
	lost   []string // parts that the capture does not contain, or that the log changed

	parsedBody  bool // the log contains the body as JSON, not as text
	noSignature bool // the log has redacted the signature
}

// parseCapture parses a request in the form of HTTP/1.1, as captured by curl -v, tcpdump or a
// browser, or as JSON of a log. It returns an error if the input contains no request.
func parseCapture(input []byte) (*capture, error) {
	input = bytes.TrimPrefix(input, []byte("\uFEFF"))
	trimmed := bytes.TrimSpace(input)
	if len(trimmed) == 0 {
		return nil, errors.New("the input is empty (pass the request on stdin)")
	}
	c := &capture{header: make(http.Header)}
	parse := c.parseRaw
	if trimmed[0] == '{' || trimmed[0] == '[' {
		input, parse = trimmed, c.parseJSON
	}
	if err := parse(input); err != nil {
		return nil, err
	}
	if host := c.header.Get("Host"); host != "" {
		c.host = host
	}
	c.header.Del("Host")
	c.findRedacted()
	c.findMissing()
	return c, nil
}

// maxLost is the maximum number of lost parts that are listed.
const maxLost = 20

// lose reports a part that the capture does not contain or that the log changed.
func (c *capture) lose(part string) {
	switch {
	case slices.Contains(c.lost, part):
	case len(c.lost) < maxLost:
		c.lost = append(c.lost, part)
	case len(c.lost) == maxLost:
		c.lost = append(c.lost, "other parts, which are not listed")
	}
}

// request returns the captured request, as a server receives it.
func (c *capture) request() *http.Request {
	r := &http.Request{
		Method: c.method, Host: c.host, RequestURI: c.target, Header: c.header,
		Body: io.NopCloser(bytes.NewReader(c.body)), ContentLength: int64(len(c.body)),
	}
	if c.noBody {
		r.Body = unknownBody{}
	}
	return r
}

// unknownBody is the body of a request whose capture does not contain it.
type unknownBody struct{}

func (unknownBody) Read([]byte) (int, error) {
	return 0, errors.New("the capture does not contain it")
}
func (unknownBody) Close() error { return nil }

// requestLine matches a request line, also in a line of tcpdump -A or of an access log.
var requestLine = regexp.MustCompile(`(GET|POST|HEAD|PUT|PATCH|DELETE|OPTIONS) (/\S*|https?://\S+)(?: HTTP/[0-9.]+\b|$)`)

// parseRaw parses a message of HTTP/1.1 with LF or CR LF, also with the prefixes of curl -v, or
// with the pseudo-headers of HTTP/2.
func (c *capture) parseRaw(input []byte) error {
	if lines := curlLines(input); lines != nil {
		input = lines
		c.noBody = true // curl -v does not print the body
	}
	head := true
	for head {
		var line string
		line, input = cutLine(input)
		switch m := requestLine.FindStringSubmatch(line); {
		case m != nil && c.method == "":
			c.method = m[1]
			c.setTarget(m[2])
		case strings.HasPrefix(line, ":"):
			c.pseudoHeader(line)
		case strings.TrimSpace(line) == "":
			head = c.method == "" && len(input) > 0 // text before the request
		default:
			if name, value, ok := strings.Cut(line, ":"); ok && c.method != "" && isHeaderName(name) && !strings.Contains(value, "\r") {
				c.header.Add(name, strings.TrimSpace(value))
			}
		}
		head = head && len(input) > 0
	}
	if c.method == "" || c.target == "" {
		return errors.New("the input contains no HTTP request (expected a request line such as \"POST /callbacks HTTP/1.1\", or JSON)")
	}
	c.setBody(input)
	return nil
}

// curlLines returns the request in the output of curl -v, whose lines begin with ">", or nil.
func curlLines(input []byte) []byte {
	var request []byte
	for line := range bytes.Lines(input) {
		if rest, ok := bytes.CutPrefix(line, []byte("> ")); ok {
			request = append(request, rest...)
		} else if len(bytes.TrimSpace(line)) == 1 && line[0] == '>' {
			request = append(request, '\n')
		}
	}
	if !requestLine.Match(request) {
		return nil
	}
	return request
}

func cutLine(b []byte) (line string, rest []byte) {
	first, rest, _ := bytes.Cut(b, []byte("\n"))
	return strings.TrimSuffix(string(first), "\r"), rest
}

// pseudoHeader sets a pseudo-header of HTTP/2, such as ":path: /callbacks".
func (c *capture) pseudoHeader(line string) {
	name, value, _ := strings.Cut(line[1:], ":")
	value = strings.TrimSpace(value)
	switch name {
	case "method":
		c.method = value
	case "path":
		c.setTarget(value)
	case "authority":
		c.host = value
	}
}

// isHeaderName reports whether s is the name of a header.
func isHeaderName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// setTarget sets the request target, and the host if the target is an absolute URL. It does not
// parse the URL, because that would change its escapes.
func (c *capture) setTarget(target string) {
	if scheme, rest, ok := strings.Cut(target, "://"); ok && !strings.ContainsAny(scheme, "/?") {
		end := len(rest)
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			end = i
		}
		c.host, target = rest[:end], rest[end:]
		if !strings.HasPrefix(target, "/") {
			target = "/" + target
		}
	}
	target, _, _ = strings.Cut(target, "#")
	c.target = target
}

// setBody sets the body of a raw message from the rest of the input.
func (c *capture) setBody(rest []byte) {
	if c.noBody {
		return
	}
	if strings.EqualFold(c.header.Get("Transfer-Encoding"), "chunked") {
		if decoded, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(rest))); err == nil {
			c.body = decoded
			return
		}
	}
	c.body = rest
	length, err := strconv.Atoi(c.header.Get("Content-Length"))
	switch {
	case err != nil || length < 0:
		// An editor or shell adds a line break to the end of a file.
		c.body = bytes.TrimSuffix(bytes.TrimSuffix(rest, []byte("\n")), []byte("\r"))
	case length == 0:
		c.body = nil
	case len(rest) == 0:
		c.noBody = true
	case len(rest) > length && len(bytes.TrimSpace(rest[length:])) == 0:
		c.body = rest[:length]
	case len(rest) != length:
		c.lose("the body has " + strconv.Itoa(len(rest)) + " bytes, but its Content-Length is " + strconv.Itoa(length) + ": the capture truncates or changes it")
	}
}

// placeholder matches what logs write in place of a secret or of the end of a long value.
var placeholder = regexp.MustCompile(`(?i)^\W*(?:redacted|filtered|masked|removed|hidden|omitted|scrubbed|sanitized|obfuscated)\b|[\[<(](?:redacted|filtered|masked|removed|hidden|omitted)\b|\*{3}|^x{4,}$|(?:\.\.\.|…)(?:\W*truncated\W*)?$`)

// findRedacted removes the values that the log has redacted or truncated, and reports them.
func (c *capture) findRedacted() {
	for _, name := range slices.Sorted(maps.Keys(c.header)) {
		if isExamined(name) && slices.ContainsFunc(c.header[name], placeholder.MatchString) {
			delete(c.header, name)
			c.lose("the log has redacted or truncated the header " + name)
			c.noSignature = c.noSignature || name == "Authorization"
		}
	}
	_, query, _ := strings.Cut(c.target, "?")
	for segment := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(segment, "=")
		if plain, err := url.QueryUnescape(value); err == nil {
			value = plain
		}
		if placeholder.MatchString(value) {
			c.lose("the log has redacted or truncated a parameter of the query")
			c.noSignature = c.noSignature || name == "authorization"
		}
	}
	if placeholder.Match(c.body) {
		c.body, c.noBody = nil, true
		c.lose("the log has redacted or truncated the body")
	}
}

// isExamined reports whether the service signs the header.
func isExamined(name string) bool {
	return slices.Contains([]string{"Authorization", "Date", "Digest", "Host"}, name) || strings.Contains(name, "Callback")
}

// findMissing reports parts of every message that the capture does not contain.
func (c *capture) findMissing() {
	missing := func(name string) {
		if c.header.Get(name) == "" && !slices.ContainsFunc(c.lost, func(s string) bool { return strings.HasSuffix(s, " "+name) }) {
			c.lose("the capture has no header " + name)
		}
	}
	if c.host == "" {
		missing("Host")
	}
	if c.method != http.MethodPost {
		return
	}
	for _, name := range []string{"Authorization", "Date", "Digest"} {
		missing(name)
	}
	if c.noBody && !slices.Contains(c.lost, "the log has redacted or truncated the body") {
		c.lose("the capture has no body")
	}
}
