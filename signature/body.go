package signature

import (
	"bytes"
	"errors"
	"io"
	"net/http"
)

// Bounds of what is allocated before anything was read: a Content-Length alone proves nothing.
const (
	minBuffer = 512
	maxBuffer = 64 << 10
)

// restoredBody is a body that was read and can be read again. Closing it closes the original.
type restoredBody struct {
	bytes.Reader
	io.Closer
}

// bodyConsumed is the cause of most incomplete bodies that the sender is not responsible for.
const bodyConsumed = "middleware in front of the verifier has read it (put the verifier first, or restore r.Body)"

// readBody reads the body, at most MaxBody of it whatever Content-Length says, and restores it,
// even if it returns an error.
func (v *Verifier) readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	original := r.Body
	body, err := readAtMost(original, make([]byte, 0, min(max(r.ContentLength+1, minBuffer), maxBuffer)), v.maxBody+1)
	tooLarge := int64(len(body)) > v.maxBody
	if err == nil && !tooLarge {
		restored := &restoredBody{Closer: original}
		restored.Reset(body)
		r.Body = restored
		// net/http reports a truncated body as an error. A short body without an error was read earlier.
		if int64(len(body)) < r.ContentLength {
			return nil, newError(ErrBody, "the body ends before its Content-Length: "+bodyConsumed)
		}
		return body, nil
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), original), original}
	if _, limited := errors.AsType[*http.MaxBytesError](err); limited || tooLarge {
		return nil, newError(ErrTooLarge, "the body is larger than MaxBody, or than a limit set before the verifier")
	}
	if isClosed(err) {
		return nil, wrapError(ErrBody, "the body is closed: "+bodyConsumed, err)
	}
	// A sender can cut the connection within a copy of a genuine message.
	return nil, asWarning(wrapError(ErrBody, "the body could not be read to its end", err))
}

// isClosed reports whether a body was closed before it was read. net/http exports the error of
// HTTP/1 only.
func isClosed(err error) bool {
	return errors.Is(err, http.ErrBodyReadAfterClose) || err.Error() == "body closed by handler"
}

// readAtMost appends to b what r holds, until its end or limit bytes.
func readAtMost(r io.Reader, b []byte, limit int64) ([]byte, error) {
	for int64(len(b)) < limit {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):min(int64(cap(b)), limit)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
	return b, nil
}
