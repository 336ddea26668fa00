package signature

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Limits of the search for the body that was signed. The callbacks of the service have less than
// 4 KiB.
const (
	maxVariedBody = 16 << 10 // bytes of a body with variants
	maxBodyBytes  = 2 << 20  // bytes of all variants
)

const keepBody = "pass the body on as received (put the verifier before middleware that parses it)"

// originalBody returns the body that the digest belongs to, and its change. For a body that cannot
// be examined or explained, it returns what was found, and reports false.
func (e *examination) originalBody() (body []byte, change Change, ok bool) {
	digest, parsed := parseDigest(e.value("digest"))
	if !parsed {
		return nil, Change{Part: "digest", Found: "signed in a form that is neither hexadecimal nor standard base64 with padding: the service does not send it"}, false
	}
	received, err := e.readBody()
	if err != nil {
		return nil, Change{Part: bodyPart, Found: "cannot be examined: " + detailOf(err)}, false
	}
	if sha256.Sum256(received) == digest {
		return received, Change{}, true
	}
	return e.findBody(received, digest)
}

// findBody looks for the body that was signed among those from which middleware and proxies make
// the received one.
func (e *examination) findBody(received []byte, digest [sha256.Size]byte) (body []byte, change Change, ok bool) {
	switch {
	case len(received) == 0:
		return nil, Change{Part: bodyPart, Found: "empty, but the signed body is not: " + bodyConsumed}, false
	case len(received) > maxVariedBody:
		return nil, Change{Part: bodyPart, Found: "differs from the signed one; a body above 16 KiB is not examined further"}, false
	}
	examine := func(b []byte, found string) bool {
		if e.budget.bodyBytes+len(b) > maxBodyBytes {
			return false
		}
		e.budget.bodyForms++
		e.budget.bodyBytes += len(b)
		if sha256.Sum256(b) == digest {
			body, change, ok = b, Change{bodyPart, found, keepBody}, true
		}
		return ok
	}
	if examineBytes(received, examine) || examineJSON(received, examine) {
		return body, change, true
	}
	if bytes.ContainsRune(received, utf8.RuneError) {
		return nil, Change{bodyPart, "differs from the signed one, and contains replacement characters: middleware read it in another charset", keepBody}, false
	}
	return nil, Change{Part: bodyPart, Found: "differs from the signed one, and no usual change of middleware explains it: the rest of the message is genuine, so the body was replaced on the way, or belongs to another message"}, false
}

// examineBytes calls examine with variants of any body until it returns true.
func examineBytes(b []byte, examine func([]byte, string) bool) bool {
	const bom = "\uFEFF"
	withoutEnd := bytes.TrimRight(b, "\r\n")
	if examine(withoutEnd, "signed without the line break at its end, which was added on the way") ||
		examine(append(bytes.Clone(b), '\n'), "signed with a line break at its end, which was removed on the way") ||
		examine(append(bytes.Clone(b), "\r\n"...), "signed with a line break (CR LF) at its end, which was removed on the way") ||
		examine(bytes.TrimPrefix(b, []byte(bom)), "signed without the byte order mark, which was added on the way") ||
		examine(append([]byte(bom), b...), "signed with a byte order mark, which was removed on the way") ||
		examine(bytes.TrimSpace(b), "signed without the white space around it, which was added on the way") ||
		examine(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), "signed with LF line breaks, which were replaced by CR LF") ||
		examine(bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n")), "signed with CR LF line breaks, which were replaced by LF") {
		return true
	}
	if decoded, err := base64.StdEncoding.DecodeString(string(withoutEnd)); err == nil && examine(decoded, "received in base64 (isBase64Encoded of a gateway)") {
		return true
	}
	var text string
	if json.Unmarshal(b, &text) == nil && examine([]byte(text), "received as a JSON string that contains the body") {
		return true
	}
	const charset = "converted to another charset on the way"
	if narrow, ok := toLatin1(b); ok && examine(narrow, charset) {
		return true
	}
	wide := make([]rune, len(b))
	for i, c := range b {
		wide[i] = rune(c)
	}
	return examine([]byte(string(wide)), charset)
}

// toLatin1 encodes UTF-8 text in ISO 8859-1.
func toLatin1(b []byte) (narrow []byte, ok bool) {
	for _, r := range string(b) {
		if r > 0xff {
			return nil, false
		}
		narrow = append(narrow, byte(r)) //nolint:gosec // r is at most 0xff
	}
	return narrow, true
}

// examineJSON calls examine with other serializations of a JSON body until it returns true.
func examineJSON(b []byte, examine func([]byte, string) bool) bool {
	var compact bytes.Buffer
	if json.Compact(&compact, bytes.TrimPrefix(b, []byte("\uFEFF"))) != nil {
		return false
	}
	type form struct {
		text  []byte
		cause string
	}
	forms := []form{{compact.Bytes(), "re-serialized on the way"}}
	if ordered, ok := sortKeys(compact.Bytes()); ok {
		forms = append(forms, form{ordered, "re-serialized on the way, with its members in another order"})
	}
	for _, f := range forms {
		for _, ascii := range []bool{false, true} {
			forms = append(forms, form{requote(f.text, ascii), f.cause + ", with other escapes in its strings"})
		}
	}
	for _, f := range forms {
		for _, layout := range layouts(f.text) {
			for _, end := range []string{"", "\n", "\r\n"} {
				if examine(append(bytes.Clone(layout), end...), f.cause) {
					return true
				}
			}
		}
	}
	return false
}

// layouts returns compact JSON with the usual white space.
func layouts(compact []byte) [][]byte {
	all := [][]byte{compact, spaced(compact)}
	// Indentation multiplies the size of deeply nested values, so its size is checked first.
	if depth(compact) > 8 {
		return all
	}
	for _, indent := range []string{"  ", "    ", "\t"} {
		var b bytes.Buffer
		if json.Indent(&b, compact, "", indent) == nil {
			all = append(all, b.Bytes())
		}
	}
	return all
}

// depth returns the maximum number of open brackets, including those in strings.
func depth(text []byte) int {
	deepest, open := 0, 0
	for _, c := range text {
		switch c {
		case '{', '[':
			open++
			deepest = max(deepest, open)
		case '}', ']':
			open--
		}
	}
	return deepest
}

// spaced returns compact JSON with a space after each comma and colon, as Python writes it.
func spaced(compact []byte) []byte {
	var b bytes.Buffer
	for i := 0; i < len(compact); i++ {
		if compact[i] == '"' {
			end := stringEnd(compact, i)
			b.Write(compact[i:end])
			i = end - 1
			continue
		}
		b.WriteByte(compact[i])
		if compact[i] == ',' || compact[i] == ':' {
			b.WriteByte(' ')
		}
	}
	return b.Bytes()
}

// stringEnd returns the index after the string literal that begins at i.
func stringEnd(text []byte, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return min(i+1, len(text))
}

// requote writes each string of valid JSON with as few escapes as possible, or only in ASCII.
func requote(text []byte, ascii bool) []byte {
	var b bytes.Buffer
	for i := 0; i < len(text); i++ {
		if text[i] != '"' {
			b.WriteByte(text[i])
			continue
		}
		end := stringEnd(text, i)
		var s string
		if json.Unmarshal(text[i:end], &s) != nil {
			return text
		}
		quoted := marshal(s)
		if ascii {
			quoted = escapeNonASCII(quoted)
		}
		b.Write(quoted)
		i = end - 1
	}
	return b.Bytes()
}

// escapeNonASCII replaces other characters than ASCII by \u escapes.
func escapeNonASCII(s []byte) []byte {
	const digits = "0123456789abcdef"
	var b bytes.Buffer
	for _, r := range string(s) {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
			continue
		}
		units := []rune{r}
		if r > 0xffff {
			units = []rune{0xd800 + (r-0x10000)>>10, 0xdc00 + (r-0x10000)&0x3ff}
		}
		for _, u := range units {
			b.WriteString(`\u`)
			for shift := 12; shift >= 0; shift -= 4 {
				b.WriteByte(digits[u>>shift&0xf])
			}
		}
	}
	return b.Bytes()
}

// sortKeys returns JSON with the members of each object in alphabetical order.
func sortKeys(compact []byte) (ordered []byte, ok bool) {
	d := json.NewDecoder(bytes.NewReader(compact))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil {
		return nil, false
	}
	ordered = marshal(value)
	return ordered, ordered != nil
}

// marshal returns compact JSON without HTML escapes, or nil.
func marshal(value any) []byte {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(value) != nil {
		return nil
	}
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}

// readBody returns the body of the request and restores it.
func (e *examination) readBody() ([]byte, error) {
	if !e.bodyRead {
		e.bodyRead = true
		if e.r.ContentLength > e.v.maxBody {
			e.bodyErr = newError(ErrTooLarge, fmt.Sprintf("it is larger than MaxBody: set VerifierOptions.MaxBody to at least %d to accept it", e.r.ContentLength))
		} else {
			e.body, e.bodyErr = e.v.readBody(e.r, nil)
		}
	}
	return e.body, e.bodyErr
}

// contextBody is a request body whose Read returns when a context ends, although an io.Reader
// cannot be interrupted. Each Read of the original is on a goroutine of its own.
type contextBody struct {
	io.ReadCloser                 // the original
	ctx           context.Context // nil after release
	server        bool            // the original belongs to net/http's server
	buf           []byte
	abandoned     error // the error of Read after the context has ended during one; nil before
}

// Read implements io.Reader. It reads into a buffer of its own, because the caller can reuse p
// after the context has ended.
func (b *contextBody) Read(p []byte) (int, error) {
	switch {
	case b.abandoned != nil:
		return 0, b.abandoned
	case b.ctx == nil || b.ctx.Done() == nil:
		return b.ReadCloser.Read(p)
	case b.ctx.Err() != nil:
		return 0, notReceived(b.ctx)
	}
	if b.buf == nil {
		b.buf = make([]byte, maxBuffer)
	}
	type result struct {
		n        int
		err      error
		panicked any
	}
	done := make(chan result, 1)
	original, buf := b.ReadCloser, b.buf[:min(len(p), len(b.buf))]
	go func() {
		r := result{err: errors.New("body called runtime.Goexit")}
		defer func() {
			r.panicked = recover()
			done <- r
		}()
		r.n, r.err = original.Read(buf)
	}()
	select {
	case r := <-done:
		if r.panicked != nil {
			panic(r.panicked)
		}
		return copy(p, buf[:r.n]), r.err
	case <-b.ctx.Done():
		b.abandoned = notReceived(b.ctx)
		// Close unblocks Read, see http.Request.Body. That of net/http's server waits for the Read
		// instead, which the server ends itself.
		if !b.server {
			go func() {
				defer func() { _ = recover() }()
				_ = original.Close()
			}()
		}
		return 0, b.abandoned
	}
}

// Close closes the original. It does nothing after the context has ended during a Read, for which
// it might wait.
func (b *contextBody) Close() error {
	if b.abandoned != nil {
		return nil
	}
	return b.ReadCloser.Close()
}

// release makes Read independent of the context, and restores the body of r if it was not read.
func (b *contextBody) release(r *http.Request) {
	b.ctx, b.buf = nil, nil
	if r.Body == b && b.abandoned == nil {
		r.Body = b.ReadCloser
	}
}

func notReceived(ctx context.Context) error {
	return fmt.Errorf("not received before the context ended: %w", ctx.Err())
}
