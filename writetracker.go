package idverify

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/idverify/idverify-go/internal/wire"
)

// maxWrites is the maximum number of times that an attempt may start to write its request.
const maxWrites = 2

var (
	errConnectionLost  = errors.New("connection lost after the request was sent")
	errConnectionsLost = errors.New("connection lost twice while the request was being sent")
)

// writeTracker limits how often net/http writes a request, and records whether the request may have
// been written completely. An attempt that sends the request again after 401 uses two trackers.
//
// Independently of the retry policy, net/http sends some requests again: over HTTP/2 after
// REFUSED_STREAM, PROTOCOL_ERROR and GOAWAY, over HTTP/1.1 if an idle connection was closed.
// writeTracker does not assume that the server did not process these requests, because proxies send
// REFUSED_STREAM after their backend has read the request. Therefore:
//   - The body of a POST or PATCH can be read to its end once, counting all copies that GetBody
//     returns. net/http can use another connection until a copy was read to its end.
//   - No request is written to a third connection or stream. This is the only limit for a request
//     without a body (GET, DELETE). Over HTTP/1.1 the limit requires connections of type *tls.Conn,
//     which net/http uses by default.
type writeTracker struct {
	body    []byte // nil if the request has no body
	maxEnds int    // maximum value of ends
	cancel  context.CancelFunc
	trace   httptrace.ClientTrace

	mu       sync.Mutex // guards the fields below
	reports  bool       // the transport supports net/http/httptrace
	conns    int        // number of connections or streams that were obtained
	ends     int        // number of times that body was read to its end
	exceeded bool       // a third connection was obtained, so the request was canceled
	failed   bool       // the attempt has failed and must not write any more
}

// newWriteTracker returns a tracker for sending op once. The caller must not change body
// afterwards.
func newWriteTracker(op wire.Operation, body []byte) *writeTracker {
	t := &writeTracker{body: body, maxEnds: 1}
	if idempotent(op) || op == wire.Token {
		t.maxEnds = maxWrites
	}
	return t
}

// track returns a copy of req with limited writes. Its context ends at deadline, unless that is
// zero, with errAttemptTimeout as the cause. The caller must call t.cancel when it has read the
// response.
func (t *writeTracker) track(req *http.Request, deadline time.Time) *http.Request {
	var ctx context.Context
	if deadline.IsZero() {
		ctx, t.cancel = context.WithCancel(req.Context())
	} else {
		ctx, t.cancel = context.WithDeadlineCause(req.Context(), deadline, errAttemptTimeout)
	}
	t.trace.GetConn, t.trace.GotConn = t.getConn, t.gotConn
	req = req.WithContext(httptrace.WithClientTrace(ctx, &t.trace))
	if t.body != nil {
		req.Body = &trackedBody{tracker: t}
		req.GetBody = t.newBody
		req.ContentLength = int64(len(t.body))
	}
	return req
}

// getConn is called before a connection is obtained.
func (t *writeTracker) getConn(string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reports = true
}

// gotConn is called before the request is written to a connection or stream.
func (t *writeTracker) gotConn(info httptrace.GotConnInfo) {
	t.mu.Lock()
	t.conns++
	exceeded := t.conns > maxWrites
	t.exceeded = exceeded
	t.mu.Unlock()
	if !exceeded {
		return
	}
	t.cancel()
	// HTTP/2 checks the context before it writes the headers. HTTP/1.1 does not, but there the
	// connection belongs to this request alone.
	if conn, ok := info.Conn.(*tls.Conn); ok && conn.ConnectionState().NegotiatedProtocol != "h2" {
		conn.NetConn().Close()
	}
}

// newBody implements http.Request.GetBody. It returns an error when the body must not be read
// again.
func (t *writeTracker) newBody() (io.ReadCloser, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed || t.ends >= t.maxEnds {
		return nil, errConnectionLost
	}
	return &trackedBody{tracker: t}, nil
}

// fail records that the attempt failed with err. It returns the error to report, and whether the
// request may have been written completely. Afterwards the body cannot be read, even if the
// transport is still processing the request.
//
// A request with a body may have been written if the body was read to its end. A request without a
// body may have been written if a connection was obtained or if the transport does not report
// connections.
func (t *writeTracker) fail(err error) (cause error, written bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = true
	if t.exceeded {
		err = errConnectionsLost // the error of net/http looks like a cancellation by the caller
	}
	if t.body != nil {
		return err, t.ends > 0
	}
	return err, t.conns > 0 || !t.reports
}

// rewritten reports whether the request may have been written completely more than once.
func (t *writeTracker) rewritten() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.conns > 1
}

// trackedBody reads the body of a tracked request. Several may be in use at the same time, because
// net/http can read a body while it cancels the stream.
type trackedBody struct {
	tracker *writeTracker

	// The tracker's mutex guards these fields.
	offset int
	closed bool
}

func (b *trackedBody) Read(p []byte) (int, error) {
	t := b.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case b.closed || t.failed:
		return 0, http.ErrBodyReadAfterClose
	case b.offset == len(t.body):
		return 0, io.EOF
	}
	rest := t.body[b.offset:]
	if len(p) < len(rest) {
		b.offset += copy(p, rest)
		return len(p), nil
	}
	if t.ends >= t.maxEnds {
		return 0, errConnectionLost
	}
	t.ends++
	b.offset = len(t.body)
	return copy(p, rest), io.EOF
}

func (b *trackedBody) Close() error {
	b.tracker.mu.Lock()
	defer b.tracker.mu.Unlock()
	b.closed = true
	return nil
}
