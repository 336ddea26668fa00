package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
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
	Verified      bool     `json:"verified"`
	Explained     bool     `json:"explained"`      // verified, or Lines contains changes that make it verify
	ClockExamined bool     `json:"clock_examined"` // -at was set
	Lines         []string `json:"lines"`          // see Verifier.Explain
	Lost          []string `json:"lost"`           // parts that the capture does not contain

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

const (
	verifiedPrefix     = "verified:"
	notExplainedPrefix = "not explained:"
	bodyPrefix         = "body:"
	unknownBodyPrefix  = "body: cannot be examined:"
	otherBodyPrefix    = "body: differs from the signed one"
)

// programTerms replaces the names of package signature, because the receiver can be written in any
// language.
var programTerms = strings.NewReplacer(
	"in ExplainOptions.Paths", "with -path",
	"in ExplainOptions.Keys", "with -other-jwks",
	" see VerifierOptions.Target", "",
	"return it from VerifierOptions.Target, or configure the proxy to keep it", "configure the proxy to keep it, or the receiver to verify the original (in Go, with VerifierOptions.Target)",
	"pass it to NewVerifier", "add it to the hosts of the receiver, and pass it with -host",
	"check VerifierOptions.CallbackHeader", "check -callback-header",
	"set VerifierOptions.CallbackHeader to this name", "set -callback-header and the header of the receiver to this name",
	" for VerifyCallback or CallbackHandler", "",
	" for VerifyRedirect or RedirectHandler", "",
	"ClockSkew is", "the allowed difference is",
	"a ClockSkew of", "an allowed difference of",
)

// set sets the result of Verifier.Explain.
func (e *explanation) set(lines []string, c *capture) {
	for i, line := range lines {
		lines[i] = programTerms.Replace(line)
	}
	e.Lines = lines
	e.Verified = strings.HasPrefix(lines[0], verifiedPrefix)
	e.Explained = !strings.HasPrefix(lines[0], notExplainedPrefix)
	last := len(lines) - 1
	switch {
	case c.noBody && strings.HasPrefix(lines[last], unknownBodyPrefix):
		// Everything else verifies, so that the missing body is not the cause of the rejection.
		e.Lines = append(lines[1:last:last], "body: not in the capture, so that only the rest was examined; it verifies"+withChanges(last-1))
		e.Explained, e.undecided = last > 1, last == 1
	case c.parsedBody && e.Explained && strings.HasPrefix(lines[last], bodyPrefix):
		e.Lines[last] = "body: matches the digest once it is re-serialized; the log may have changed it, or middleware in front of the receiver" + captureText
		e.Explained, e.undecided = last > 0, last == 0
	case c.parsedBody && strings.HasPrefix(lines[last], otherBodyPrefix):
		e.Lines[last] = "body: differs from the signed one also if it is re-serialized; the log may have changed it" + captureText
	}
}

const captureText = " (the capture contains it as JSON: capture it as text to decide)"

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
	for _, line := range e.Lines {
		fmt.Fprintln(w, clean(line, lineLength))
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
