package idverify_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/sandboxfake"
)

// TestErrOutcomeUnknown_FaultMatrix tests each operation with each fault. Only the effect of the
// fault and the method determine whether the error matches ErrOutcomeUnknown.
func TestErrOutcomeUnknown_FaultMatrix(t *testing.T) {
	t.Parallel()
	for _, m := range slices.Concat(productOperations, consoleOperations) {
		t.Run(m.op.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := newOutcomeTest(t)
				for _, fault := range outcomeFaults() {
					if !fault.mismatch || comparesResponse(m.op) {
						o.check(m, fault)
					}
				}
			})
		})
	}
}

// comparesResponse reports whether the client compares the response to op with the request. The
// workspace of the tests is "default", which stands for any ID.
func comparesResponse(op wire.Operation) bool {
	path := strings.TrimSuffix(op.Path, "/reset")
	return strings.HasSuffix(path, "_id}") && !strings.HasSuffix(path, "{workspace_id}") || op.Method == http.MethodPost && strings.HasSuffix(path, "/checks")
}

// outcomeTest is a service with a fault. Its fields are set while no request is in flight.
type outcomeTest struct {
	t      *testing.T
	srv    *sandboxfake.Server
	base   string
	cancel context.CancelFunc // cancels the caller's context

	respond, token http.HandlerFunc // nil: no fault
}

func newOutcomeTest(t *testing.T) *outcomeTest {
	o := &outcomeTest{t: t, srv: sandboxfake.New(t, sandboxfake.WithInMemory())}
	o.base = o.srv.Handle("faulty.sandbox.test", o)
	return o
}

func (o *outcomeTest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	isToken := r.URL.Path == tokenPath
	switch {
	case isToken && o.token != nil:
		o.token(w, r)
	case isToken:
		io.WriteString(w, validToken)
	case o.respond != nil:
		o.respond(w, r)
	default:
		o.t.Errorf("%s %s reached the service", r.Method, r.URL.Path)
	}
}

// check runs m with fault and compares the error.
func (o *outcomeTest) check(m matrixOperation, fault outcomeFault) {
	o.t.Helper()
	ctx, cancel := context.WithCancel(o.t.Context())
	defer cancel()
	o.cancel = cancel
	if fault.canceled {
		cancel()
	}
	if fault.deadline > 0 {
		ctx, cancel = context.WithTimeout(ctx, fault.deadline)
		defer cancel()
	}
	o.respond, o.token = nil, nil
	if fault.respond != nil {
		o.respond = fault.respond(o)
	}
	if fault.token != nil {
		o.token = fault.token(o)
	}
	h := o.srv.HTTPClient()
	defer h.CloseIdleConnections()
	h.Timeout = fault.timeout
	if fault.transport != nil {
		h.Transport = fault.transport(o)
	}
	s := &matrixTest{t: o.t, srv: o.srv, ids: []string{"id-1", "id-2"}}
	s.client = must(idverify.NewClient(o.base, credentials, idverify.WithHTTPClient(h), idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2", SubscriberCheck: "v0.2"})))(o.t)
	s.console = must(idverify.NewConsole(o.base, credentials, idverify.WithHTTPClient(h)))(o.t)

	err := m.do(ctx, s)

	synctest.Wait() // handlers may still run after the caller has returned
	o.compare(m.op, fault, err)
}

// compare compares err with the error that fault causes.
func (o *outcomeTest) compare(op wire.Operation, fault outcomeFault, err error) {
	o.t.Helper()
	if fault.effect == 0 {
		o.t.Errorf("fault %s has no effect: set one", fault.name)
	}
	if succeeds := fault.deletes && op.Method == http.MethodDelete; (err == nil) != succeeds {
		o.t.Errorf("%s: error = %v, want success: %t", fault.name, err, succeeds)
	}
	unknown := err != nil && fault.effect == maybeProcessed && !retryable(op)
	if got := errors.Is(err, idverify.ErrOutcomeUnknown); got != unknown {
		o.t.Errorf("%s: error = %v, matches ErrOutcomeUnknown: %t, want %t", fault.name, err, got, unknown)
	}
	if err != nil && strings.Contains(err.Error(), "outcome unknown") != unknown {
		o.t.Errorf("%s: error = %v, want a text with \"outcome unknown\": %t", fault.name, err, unknown)
	}
	for _, sentinel := range append([]error{context.Canceled, context.DeadlineExceeded}, otherSentinels...) {
		if got, want := errors.Is(err, sentinel), sentinel == fault.is; got != want {
			o.t.Errorf("%s: error = %v, matches %q: %t, want %t", fault.name, err, sentinel, got, want)
		}
	}
}

// otherSentinels are the sentinels of which an *Error matches at most one.
var otherSentinels = []error{
	idverify.ErrBadRequest, idverify.ErrPhoneFormat, idverify.ErrUnauthorized, idverify.ErrInsufficientBalance, idverify.ErrForbidden, idverify.ErrNotFound,
	idverify.ErrConflict, idverify.ErrNotMobileIP, idverify.ErrNetworkNotSupported, idverify.ErrRateLimited, idverify.ErrIPMismatch, idverify.ErrSandbox,
}

// cancelDuringRequest cancels the caller's context when the service has read the request.
func (o *outcomeTest) cancelDuringRequest() http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		o.cancel()
		hang(w, r)
	}
}

// cancelAfterBody returns a transport that cancels the caller's context when a response was read.
func (o *outcomeTest) cancelAfterBody() http.RoundTripper {
	return roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		resp, err := o.newTransport().RoundTrip(r)
		if err == nil && r.URL.Path != tokenPath {
			resp.Body = &cancelingBody{resp.Body, o.cancel}
		}
		return resp, err
	})
}

type cancelingBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *cancelingBody) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}

// newTransport returns a transport that opens a connection for each request. The first one is for
// the token.
func (o *outcomeTest) newTransport() *http.Transport {
	transport := o.srv.HTTPClient().Transport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true
	return transport
}

func (o *outcomeTest) refuseConnections() http.RoundTripper {
	transport, dials := o.newTransport(), 0
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials++; dials > 1 {
			return nil, errors.New("connection refused")
		}
		return dial(ctx, network, address)
	}
	return transport
}

func (o *outcomeTest) failHandshakes() http.RoundTripper {
	transport, handshakes := o.newTransport(), 0
	transport.TLSClientConfig.VerifyConnection = func(tls.ConnectionState) error {
		if handshakes++; handshakes > 1 {
			return errors.New("certificate revoked")
		}
		return nil
	}
	return transport
}

// failWrites returns a transport whose connections are closed during the write after the first n.
func (o *outcomeTest) failWrites(n int) http.RoundTripper {
	transport, dials := o.newTransport(), 0
	dial, config := transport.DialContext, transport.TLSClientConfig.Clone()
	config.ServerName, _, _ = strings.Cut(strings.TrimPrefix(o.base, "https://"), ":")
	transport.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		dials++
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		secure := tls.Client(conn, config)
		if dials == 1 {
			return secure, nil
		}
		return &limitedConn{secure, n}, secure.HandshakeContext(ctx)
	}
	return transport
}

// limitedConn closes the connection during a write when left is 0.
type limitedConn struct {
	net.Conn
	left int // number of writes
}

func (c *limitedConn) Write(p []byte) (int, error) {
	if c.left--; c.left >= 0 {
		return c.Conn.Write(p)
	}
	n, _ := c.Conn.Write(p[:len(p)/2])
	c.Conn.Close()
	return n, errors.New("broken pipe")
}
