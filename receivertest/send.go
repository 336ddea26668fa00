package receivertest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"
)

// messageTimeout is the service's timeout for a message.
const messageTimeout = 10 * time.Second

// Limits on a response.
const (
	maxResponse     = 1 << 20 // bytes, with informational responses and headers
	maxBody         = 4 << 10 // bytes of the body that are read
	bodyTimeout     = time.Second
	maxInformations = 16 // 1XX responses
)

// failure is the reason why there is no response.
type failure int

const (
	responded   failure = iota
	unreachable         // no connection
	closed              // connection closed without a response
	silent              // no response within messageTimeout
	garbage             // response is not HTTP
)

// response is the response to a message.
type response struct {
	failure failure
	cause   string // if failure is unreachable
	status  int
	header  http.Header
	body    []byte   // the first bytes
	secrets []string // parts of the added headers, the longest first; not shown in details
}

// sender sends messages, each over a new connection.
type sender struct {
	dial func(context.Context) (net.Conn, error)
}

// newSender returns a sender for connections to a.
func newSender(a address, config *tls.Config) *sender {
	if config == nil {
		config = &tls.Config{}
	}
	config = config.Clone()
	if config.ServerName == "" {
		config.ServerName = a.url.Hostname()
	}
	config.NextProtos = []string{"http/1.1"}
	return &sender{dial: func(ctx context.Context) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", a.hostPort)
		if err != nil || !a.tls {
			return conn, err
		}
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, err
		}
		return secure, nil
	}}
}

// send sends a message byte for byte. It returns an error only if ctx is done.
func (s *sender) send(ctx context.Context, method string, message []byte) (response, error) {
	limited, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	conn, err := s.dial(limited)
	if err != nil {
		if ctx.Err() != nil {
			return response{}, ctx.Err()
		}
		return response{failure: unreachable, cause: connectionError(err)}, nil
	}
	// Closing the connection ends reads and writes.
	stop := context.AfterFunc(limited, func() { conn.Close() })
	written := make(chan struct{})
	go func() {
		defer close(written)
		// A receiver may respond before it has read the whole message, so an error means nothing.
		_, _ = conn.Write(message)
	}()

	resp := receive(conn, method)

	timedOut := limited.Err() != nil
	stop()
	conn.Close()
	<-written
	switch {
	case ctx.Err() != nil:
		return response{}, ctx.Err()
	case timedOut && resp.failure != responded:
		return response{failure: silent}, nil
	}
	return resp, nil
}

// receive reads the final response from conn.
func receive(conn net.Conn, method string) response {
	r := bufio.NewReader(io.LimitReader(conn, maxResponse))
	if _, err := r.Peek(1); err != nil {
		return response{failure: closed}
	}
	for range maxInformations {
		httpResp, err := http.ReadResponse(r, &http.Request{Method: method}) //nolint:bodyclose // the caller closes conn
		if err != nil {
			return response{failure: garbage}
		}
		if httpResp.StatusCode/100 == 1 && httpResp.StatusCode != http.StatusSwitchingProtocols {
			continue
		}
		resp := response{status: httpResp.StatusCode, header: httpResp.Header}
		// The body is used for details only, so an incomplete one is sufficient.
		timer := time.AfterFunc(bodyTimeout, func() { conn.Close() })
		defer timer.Stop()
		var body bytes.Buffer
		_, _ = io.CopyN(&body, httpResp.Body, maxBody)
		resp.body = body.Bytes()
		return resp
	}
	return response{failure: garbage}
}

// connectionError describes a failed connection, without addresses.
func connectionError(err error) string {
	var dns *net.DNSError
	var hostname x509.HostnameError
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to the host"
	case errors.As(err, &dns):
		return "host name not found"
	case errors.As(err, &hostname):
		return "TLS certificate is for another host name"
	case errors.As(err, &authority):
		return "TLS certificate is signed by an unknown authority"
	case errors.As(err, &invalid):
		return "TLS certificate is invalid"
	case errors.As(err, &record):
		return "TLS handshake failed: the receiver does not use TLS"
	}
	return "connection failed"
}
