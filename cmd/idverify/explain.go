package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/idverify/idverify-go/signature"
)

// explainFlags are the flags of the command explain.
type explainFlags struct {
	jwks           string
	otherKeys      map[string]string // file by name
	hosts, paths   []string
	at             time.Time
	callbackHeader string
	asJSON         bool
}

// explanation is the output of the command with -json.
type explanation struct {
	Verified      bool               `json:"verified"`
	Explained     bool               `json:"explained"`      // see signature.Explanation
	ClockExamined bool               `json:"clock_examined"` // -at was set
	Changes       []signature.Change `json:"changes"`
	Lost          []string           `json:"lost"` // parts that the capture does not contain

	undecided bool // only the body may be invalid, and the capture does not contain it as text
	noPath    bool // -path was not set
}

// explain reports which change would make a captured callback or redirect verify.
func explain(ctx context.Context, p *program, args []string) int {
	var f explainFlags
	flags := newFlags("explain", "< request.txt")
	f.define(flags)
	if code, ok := p.parse(flags, args); !ok {
		return code
	}
	if flags.NArg() > 0 {
		argument := clean(shellQuote(flags.Arg(0)), lineLength)
		return p.misused("explain", fmt.Errorf("unexpected argument %s (use < %s)", argument, argument))
	}
	if len(f.hosts) == 0 {
		return p.misused("explain", errors.New("-host is required: the host of your callback or redirect URL"))
	}
	result, err := p.explain(ctx, &f)
	if err != nil {
		fmt.Fprintln(p.stderr, "idverify: explain:", err)
		source := baseURLVariable
		if f.jwks != "" {
			source = "-jwks"
		}
		if hint := p.connectionHint(err, source); hint != "" {
			fmt.Fprintln(p.stderr, "Next: "+clean(hint, lineLength))
		}
		return exitError
	}
	if f.asJSON {
		if code := p.printJSON(result); code != exitOK {
			return code
		}
	} else {
		result.writeText(p.stdout)
	}
	switch {
	case result.Verified:
		return exitOK
	case result.undecided:
		return exitError
	}
	return exitProblem
}

func (f *explainFlags) define(flags *flag.FlagSet) {
	f.otherKeys = make(map[string]string)
	flags.StringVar(&f.jwks, "jwks", "", "`file or https URL` of the key set (default: the key set of "+baseURLVariable+")")
	flags.Func("other-jwks", "another key set to examine, as `name=file`, for example that of the sandbox; repeatable", func(s string) error {
		name, file, ok := strings.Cut(s, "=")
		if !ok || name == "" || file == "" {
			return errors.New("expected name=file")
		}
		f.otherKeys[name] = file
		return nil
	})
	flags.Func("host", "`host` of your callback or redirect URL, with its port if it has one; required; repeatable", func(s string) error {
		f.hosts = append(f.hosts, s)
		return nil
	})
	flags.Func("path", "registered `path` of your callback or redirect URL, with its query if it has one; repeatable", func(s string) error {
		if !strings.HasPrefix(s, "/") {
			return errors.New("expected a path that begins with /")
		}
		f.paths = append(f.paths, s)
		return nil
	})
	flags.Func("at", "`time` when the request was received, such as 2026-01-02T15:04:05Z; without it, the clock is not examined", func(s string) (err error) {
		for _, layout := range []string{time.RFC3339, http.TimeFormat} {
			if f.at, err = time.Parse(layout, s); err == nil {
				return nil
			}
		}
		return errors.New("expected a time such as 2026-01-02T15:04:05Z")
	})
	flags.StringVar(&f.callbackHeader, "callback-header", "", "`name` of the callback header (default x-service-callback)")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON document")
}

// explain reads the request and the key sets, and explains the request.
func (p *program) explain(ctx context.Context, f *explainFlags) (*explanation, error) {
	input, err := io.ReadAll(io.LimitReader(p.stdin, maxCapture+1))
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	if len(input) > maxCapture {
		return nil, errors.New("the input is larger than 4 MiB")
	}
	c, err := parseCapture(input)
	if err != nil {
		return nil, err
	}
	if c.noSignature {
		return nil, errors.New("the log has redacted the signature, without which nothing can be examined (log the Authorization header, or the query of a redirect, of one request: it is valid for seconds and for this message only; or capture the request with tcpdump)")
	}
	opts := &signature.ExplainOptions{Paths: f.paths, Keys: make(map[string]signature.KeySource), AnyDate: f.at.IsZero()}
	for name, file := range f.otherKeys {
		if opts.Keys[name], err = keySetFile(ctx, file); err != nil {
			return nil, fmt.Errorf("-other-jwks %s: %w", name, err)
		}
	}
	keys, err := p.keySet(ctx, f.jwks)
	if err != nil {
		return nil, err
	}
	v, err := signature.NewVerifier(keys, f.hosts, &signature.VerifierOptions{
		CallbackHeader: f.callbackHeader, MaxBody: maxCapture,
		Now: func() time.Time { return f.at },
	})
	if err != nil {
		return nil, err
	}
	result := &explanation{Lost: c.lost, noPath: len(f.paths) == 0, ClockExamined: !f.at.IsZero()}
	if result.Lost == nil {
		result.Lost = []string{}
	}
	result.set(v.Explain(ctx, c.request(), opts), c)
	return result, ctx.Err()
}

// set sets the result of Verifier.Explain.
func (e *explanation) set(found signature.Explanation, c *capture) {
	e.Verified, e.Explained, e.Changes = found.Verified, found.Explained, append([]signature.Change{}, found.Changes...)
	for i := range e.Changes {
		e.Changes[i].Fix = strings.Replace(e.Changes[i].Fix, "in ExplainOptions.Keys", "with -other-jwks", 1)
	}
	last := len(e.Changes) - 1
	if last < 0 || e.Changes[last].Part != bodyPart || !c.noBody && !c.parsedBody {
		return
	}
	body := signature.Change{Part: bodyPart}
	switch {
	case c.noBody:
		// Everything else verifies, so that the missing body is not the cause of the rejection.
		e.Changes = slices.DeleteFunc(e.Changes, func(c signature.Change) bool { return c.Part == "message" })
		last = len(e.Changes) - 1
		body.Found = "not in the capture, so that only the rest was examined; it verifies" + withChanges(last)
		e.Explained, e.undecided = last > 0, last == 0
	case e.Explained:
		body.Found = "matches the digest once it is re-serialized; the log may have changed it, or middleware in front of the receiver"
		e.Explained, e.undecided = last > 0, last == 0
	default:
		body.Found = "differs from the signed one also if it is re-serialized; the log may have changed it"
	}
	if c.parsedBody {
		body.Fix = "the capture contains it as JSON: capture it as text to decide"
	}
	e.Changes[last] = body
}

// bodyPart is the Change.Part of the body.
const bodyPart = "body"

func withChanges(n int) string {
	switch n {
	case 0:
		return " without a change: most likely the body was changed"
	case 1:
		return " with the change above"
	}
	return " with the changes above"
}

func (e *explanation) writeText(w io.Writer) {
	for _, line := range e.Lost {
		fmt.Fprintln(w, "lost:", clean(line, lineLength))
	}
	switch {
	case e.Verified:
		fmt.Fprintln(w, "verified: the message is valid")
	case !e.Explained && !e.undecided:
		fmt.Fprintln(w, "not explained: no usual change makes the message valid")
	}
	for _, c := range e.Changes {
		fmt.Fprintln(w, clean(c.String(), lineLength))
	}
	if e.noPath && (e.Verified || !e.Explained) {
		fmt.Fprintln(w, "path: no registered path to compare with (set -path to the path of your callback or redirect URL)")
	}
	if !e.ClockExamined {
		fmt.Fprintln(w, "clock: not examined (set -at to the time when the request was received)")
	}
}

// keySet returns the key set in a file or at a URL, or that of the service. It fetches the set.
func (p *program) keySet(ctx context.Context, source string) (*signature.JWKS, error) {
	if source != "" && !strings.Contains(source, "://") {
		return keySetFile(ctx, source)
	}
	if source == "" {
		baseURL, err := p.baseURL()
		if err != nil {
			return nil, fmt.Errorf("%w, or -jwks to the file or URL of a key set", err)
		}
		source = strings.TrimRight(baseURL, "/") + "/.well-known/jwks.json"
	}
	client, err := p.httpClient()
	if err != nil {
		return nil, err
	}
	return fetchedKeySet(ctx, source, client)
}

func fetchedKeySet(ctx context.Context, url string, client *http.Client) (*signature.JWKS, error) {
	keys, err := signature.NewJWKS(url, &signature.JWKSOptions{HTTPClient: client})
	if err != nil {
		return nil, err
	}
	return keys, keys.Refresh(ctx)
}

// keySetFile returns the key set in a file. A JWKS parses it, so that the same rules apply as to a
// fetched set.
func keySetFile(ctx context.Context, path string) (*signature.JWKS, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxCapture))
	if err != nil {
		return nil, err
	}
	return fetchedKeySet(ctx, "https://localhost/", &http.Client{Transport: fileTransport(content)})
}

// fileTransport responds to every request with the content of a file.
type fileTransport []byte

func (t fileTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", ProtoMajor: 1, ProtoMinor: 1, Request: r, Header: make(http.Header),
		Body: io.NopCloser(bytes.NewReader(t)), ContentLength: int64(len(t)),
	}, nil
}

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

// object is a JSON object of a log. Its values keep their original text.
type object map[string]json.RawMessage

// containers are the members that contain a request, or a part of it, in the JSON of common logs:
// of pino and Caddy (req, request), HAR (log, entries, request), Google Cloud (httpRequest,
// jsonPayload), the Elastic Common Schema (http, request) and AWS (requestContext, http).
var containers = []string{"log", "entries", "event", "request", "req", "httpRequest", "http", "jsonPayload", "requestContext"}

// maxNested is the depth to which containers are searched.
const maxNested = 4

// parseJSON parses a request in the JSON of a log or of a gateway.
func (c *capture) parseJSON(input []byte) error {
	d := json.NewDecoder(bytes.NewReader(input))
	var root json.RawMessage
	if err := d.Decode(&root); err != nil {
		return errors.New("the input is not valid JSON")
	}
	if d.More() {
		return errors.New("the input contains more than one JSON value (pass one request)")
	}
	var objects []object
	if err := collect(root, maxNested, &objects); err != nil {
		return err
	}
	c.setJSONHeaders(objects)
	if err := c.setJSONTarget(objects); err != nil {
		return err
	}
	return c.setJSONBody(objects)
}

// collect appends the object in raw and those in its containers.
func collect(raw json.RawMessage, depth int, objects *[]object) error {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
		if len(list) > 1 {
			return errors.New("the input contains more than one request (pass one)")
		}
		raw = list[0]
	}
	var o object
	if json.Unmarshal(raw, &o) != nil || o == nil {
		return nil
	}
	*objects = append(*objects, o)
	if depth == 0 {
		return nil
	}
	for _, name := range containers {
		if nested, ok := o[name]; ok {
			if err := collect(nested, depth-1, objects); err != nil {
				return err
			}
		}
	}
	return nil
}

// text returns the first member with one of the names that is a non-empty string.
func text(objects []object, names ...string) string {
	for _, name := range names {
		for _, o := range objects {
			var s string
			if json.Unmarshal(o[name], &s) == nil && s != "" {
				return s
			}
		}
	}
	return ""
}

// setJSONTarget sets the method, the request target and the host.
func (c *capture) setJSONTarget(objects []object) error {
	if m := requestLine.FindStringSubmatch(text(objects, "request", "request_line")); m != nil {
		c.method = m[1]
		c.setTarget(m[2])
	}
	if method := text(objects, "method", "httpMethod", "request_method", "requestMethod", "verb"); method != "" {
		c.method = strings.ToUpper(method)
	}
	host := text(objects, "http_host", "domainName", "authority", "domain")
	if host == "" && c.header.Get("Host") == "" {
		// A log can also contain the name of its own machine as host.
		for _, o := range objects {
			if text([]object{o}, "method", "request_method", "uri", "url") != "" && text([]object{o}, "host") != "" {
				host = text([]object{o}, "host")
			}
		}
	}
	target := text(objects, "rawPath", "url", "originalUrl", "requestUrl", "request_uri", "requestUri", "uri", "target", "path", "requestPath", "original", "full")
	if target == "" {
		// The member url of the Elastic Common Schema is an object.
		for _, o := range objects {
			var u object
			if json.Unmarshal(o["url"], &u) == nil {
				target = text([]object{u}, "full", "original", "path")
				objects = append(objects, u)
			}
		}
	}
	c.host = host
	if target != "" {
		c.setTarget(target)
	}
	if c.method == "" || c.target == "" {
		return errors.New("the JSON contains no HTTP request (expected members such as method, url and headers)")
	}
	if !strings.Contains(c.target, "?") {
		if query := c.jsonQuery(objects); query != "" {
			c.target += "?" + query
		}
	}
	return nil
}

// jsonQuery returns the query of a log that contains it apart from the path.
func (c *capture) jsonQuery(objects []object) string {
	if raw := text(objects, "rawQueryString", "query_string", "queryString", "rawQuery", "args", "query"); raw != "" {
		return strings.TrimPrefix(raw, "?")
	}
	// A load balancer of AWS passes the parameters escaped, and API Gateway decodes them.
	escape := url.QueryEscape
	for _, o := range objects {
		if _, balancer := o["elb"]; balancer {
			escape = func(s string) string { return s }
		}
	}
	for _, name := range []string{"multiValueQueryStringParameters", "queryStringParameters", "query"} {
		for _, o := range objects {
			var pairs []string
			for _, p := range orderedPairs(o[name]) {
				pairs = append(pairs, escape(p.name)+"="+escape(p.value))
			}
			if len(pairs) > 0 {
				c.lose("the log contains the query only as separate parameters: their order and escapes are lost")
				return strings.Join(pairs, "&")
			}
		}
	}
	return ""
}

// pair is a header or parameter.
type pair struct{ name, value string }

// orderedPairs returns headers or parameters of any form: an object with strings or lists, a list
// of objects with name and value, a list of pairs, or a list of names and values in turn.
func orderedPairs(raw json.RawMessage) []pair {
	var pairs []pair
	add := func(name string, value json.RawMessage) {
		for _, s := range stringsOf(value) {
			pairs = append(pairs, pair{name, s})
		}
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		members(raw, add)
		return pairs
	}
	var flat []string
	if json.Unmarshal(raw, &flat) == nil && len(flat)%2 == 0 {
		for i := 0; i < len(flat); i += 2 {
			pairs = append(pairs, pair{flat[i], flat[i+1]})
		}
		return pairs
	}
	for _, entry := range list {
		var o object
		var couple []json.RawMessage
		switch {
		case json.Unmarshal(entry, &couple) == nil && len(couple) == 2:
			if names := stringsOf(couple[0]); len(names) == 1 {
				add(names[0], couple[1])
			}
		case json.Unmarshal(entry, &o) == nil:
			if name := text([]object{o}, "name", "key", "Name", "Key"); name != "" {
				add(name, firstOf(o, "value", "Value", "values"))
			} else {
				members(entry, add)
			}
		}
	}
	return pairs
}

func firstOf(o object, names ...string) json.RawMessage {
	for _, name := range names {
		if value, ok := o[name]; ok {
			return value
		}
	}
	return nil
}

// members calls f with each member of a JSON object, in its order.
func members(raw json.RawMessage, f func(name string, value json.RawMessage)) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return
	}
	for d.More() {
		name, err := d.Token()
		key, ok := name.(string)
		var value json.RawMessage
		if err != nil || !ok || d.Decode(&value) != nil {
			return
		}
		f(key, value)
	}
}

// stringsOf returns a string, number or list of these.
func stringsOf(raw json.RawMessage) []string {
	var s string
	if json.Unmarshal(raw, &s) == nil && len(raw) > 0 && raw[0] == '"' {
		return []string{s}
	}
	var n json.Number
	if json.Unmarshal(raw, &n) == nil && n != "" {
		return []string{n.String()}
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	var all []string
	for _, entry := range list {
		var s string
		if json.Unmarshal(entry, &s) == nil {
			all = append(all, s)
		}
	}
	return all
}

// setJSONHeaders sets the headers. nginx logs each header as a member such as http_date.
func (c *capture) setJSONHeaders(objects []object) {
	for _, name := range []string{"multiValueHeaders", "rawHeaders", "headers", "requestHeaders", "request_headers", "header"} {
		for _, o := range objects {
			pairs := orderedPairs(o[name])
			for _, p := range pairs {
				if isHeaderName(p.name) && !strings.ContainsAny(p.value, "\r\n") {
					c.header.Add(p.name, strings.TrimSpace(p.value))
				}
			}
			if len(pairs) > 0 {
				return
			}
		}
	}
	for _, o := range objects {
		for name, value := range o {
			if header, ok := strings.CutPrefix(name, "http_"); ok && isHeaderName(header) {
				for _, s := range stringsOf(value) {
					if s != "-" && s != "" && !strings.ContainsAny(s, "\r\n") {
						c.header.Add(strings.ReplaceAll(header, "_", "-"), s)
					}
				}
			}
		}
	}
}

// setJSONBody sets the body. A log that contains the body as JSON has parsed it.
func (c *capture) setJSONBody(objects []object) error {
	for _, name := range []string{"body_base64", "bodyBase64", "body", "rawBody", "raw_body", "request_body", "requestBody", "postData"} {
		for _, o := range objects {
			raw, ok := o[name]
			if !ok || string(raw) == "null" {
				continue
			}
			var post object
			if name == "postData" && json.Unmarshal(raw, &post) == nil { // HAR
				raw = post["text"]
			}
			if name == "body" && json.Unmarshal(raw, &post) == nil && post["content"] != nil { // Elastic Common Schema
				raw = post["content"]
			}
			var s string
			if json.Unmarshal(raw, &s) != nil {
				c.body, c.parsedBody = bytes.Clone(raw), true
				c.lose("the log contains the body as JSON, not as text: its original white space and escapes may be lost")
				return nil
			}
			c.body = []byte(s)
			if isTrue(objects, "isBase64Encoded") || strings.Contains(strings.ToLower(name), "base64") {
				decoded, err := base64.StdEncoding.DecodeString(s)
				if err != nil {
					return errors.New("the body is not valid base64")
				}
				c.body = decoded
			}
			return nil
		}
	}
	c.noBody = c.method == "POST"
	return nil
}

func isTrue(objects []object, name string) bool {
	for _, o := range objects {
		if string(o[name]) == "true" {
			return true
		}
	}
	return false
}
