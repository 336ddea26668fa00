package signature

import (
	"bytes"
	"errors"
	"io"
	"net/http"
)

// firstRead bounds what a Content-Length alone can make us allocate.
const firstRead = 64 << 10

// readBody reads the whole body, at most MaxBody of it whatever Content-Length says, and restores it: also what was read of a body that is then refused.
func (v *Verifier) readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	original := r.Body
	limited := io.LimitedReader{R: original, N: v.maxBody + 1}
	var buf bytes.Buffer
	buf.Grow(int(min(max(r.ContentLength, 0), firstRead)) + bytes.MinRead)
	_, err := buf.ReadFrom(&limited)
	body := buf.Bytes()
	if err != nil || limited.N == 0 {
		r.Body = &restoredBody{Reader: io.MultiReader(bytes.NewReader(body), original), Closer: original}
	} else {
		r.Body = &restoredBody{Reader: bytes.NewReader(body), Closer: original}
	}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge || limited.N == 0 {
		return nil, refuse(ErrTooLarge, "the body is larger than MaxBody, or than a limit set before the verifier")
	}
	if err != nil {
		return nil, because(ErrBody, "the body could not be read to its end", err)
	}
	return body, nil
}

type restoredBody struct {
	io.Reader
	io.Closer
}
