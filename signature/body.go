package signature

import (
	"bytes"
	"errors"
	"io"
	"net/http"
)

// Sizes of the initial read buffer, in bytes. Content-Length determines the size only up to
// maxBuffer, because it is untrusted.
const (
	usualBuffer = 512
	maxBuffer   = 64 << 10
)

// bodyConsumed is the most likely reason why a body is closed, or ends early without a read error.
const bodyConsumed = "middleware in front of the verifier has read it (put the verifier first, or restore r.Body)"

// readBody returns the body of r, or an error if it is larger than MaxBody, whatever its
// Content-Length. It appends the body to buf, which must be empty, if it fits. It always restores
// r.Body.
func (v *Verifier) readBody(r *http.Request, buf []byte) ([]byte, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	original := r.Body
	if r.ContentLength >= int64(cap(buf)) {
		buf = make([]byte, 0, min(r.ContentLength+1, maxBuffer)) // one more, for the read that returns io.EOF
	}
	body, err := readAtMost(original, buf, v.maxBody+1)
	tooLarge := int64(len(body)) > v.maxBody
	if err == nil && !tooLarge {
		// The body that is returned must not refer to the original, which may refer to a connection.
		restored := &restoredBody{Closer: original}
		restored.Reset(body)
		r.Body = restored
		// net/http reports a truncated body as an error. If there is no error, other code has read a part
		// of the body.
		if int64(len(body)) < r.ContentLength {
			return nil, newError(ErrBody, "body is shorter than its Content-Length: "+bodyConsumed)
		}
		return body, nil
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), original), original}
	if _, limited := errors.AsType[*http.MaxBytesError](err); limited || tooLarge {
		return nil, newError(ErrTooLarge, "body is larger than MaxBody or a limit set by middleware")
	}
	if isClosed(err) {
		return nil, wrapError(ErrBody, "body is closed: "+bodyConsumed, err)
	}
	// A sender can close the connection in the middle of a valid message.
	return nil, asWarning(wrapError(ErrBody, "body could not be read", err))
}

// restoredBody is a body that can be read again. Close closes the original.
type restoredBody struct {
	bytes.Reader
	io.Closer
}

// isClosed reports whether err means that the body was closed before it was read. net/http exports
// this error only for HTTP/1.
func isClosed(err error) bool {
	return errors.Is(err, http.ErrBodyReadAfterClose) || err.Error() == "body closed by handler"
}

// readAtMost appends the content of r to b until b has limit bytes.
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
