package receivertest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// accepted reports whether the receiver accepted a message: it responded with 2XX, or to a redirect
// also with 3XX.
func (e *examination) accepted(a attempt) bool {
	switch {
	case a.failure != responded:
		return false
	case a.status/100 == 2:
		return true
	case e.Kind != KindRedirect || a.status/100 != 3:
		return false
	}
	// Receivers of redirects may also send the browser to a page for errors or for signing in.
	switch where := location(a); {
	case where == location(e.valid):
		return true
	case e.unsigned.status/100 == 3 && where == location(e.unsigned):
		return false
	}
	return true
}

// rejected reports whether the receiver rejected a message: it did not accept it, and the service
// does not send it again.
func (e *examination) rejected(a attempt) bool {
	switch a.failure {
	case closed, garbage:
		return true
	case responded:
		return !e.accepted(a) && a.status/100 != 5
	}
	return false
}

// location returns the target of a response 3XX without IDs, codes and random values, so that it
// can be compared with that of another message. For other responses, it returns the status.
func location(a attempt) string {
	if a.failure != responded || a.status/100 != 3 {
		return status(a.status)
	}
	u, err := url.Parse(a.response.header.Get("Location"))
	if err != nil {
		return "malformed"
	}
	query := u.Query()
	for name, values := range query {
		if slices.ContainsFunc(values, func(v string) bool { return len(v) >= 16 || name == "check_id" || name == "code" }) {
			query.Set(name, "…")
		}
	}
	return u.Host + strings.ReplaceAll(u.Path, a.checkID, "…") + "?" + query.Encode()
}

// describe describes a response, for details.
func describe(r response) string {
	switch r.failure {
	case unreachable:
		return "cannot connect to the receiver: " + r.cause
	case closed:
		return "the receiver closed the connection without a response"
	case silent:
		return "the receiver did not respond within 10 s"
	case garbage:
		return "the response is not HTTP/1.1"
	}
	text := "response " + status(r.status)
	if r.status/100 == 3 {
		if u, err := url.Parse(r.header.Get("Location")); err == nil {
			text += fmt.Sprintf(" to %q", r.redact(u.Path))
		}
	}
	return text
}

func status(code int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code)))
}

// maxExcerpt is the maximum length of an excerpt, in bytes.
const maxExcerpt = 200

// excerpt returns the beginning of the body of a response, quoted, with a separator in front; or
// "".
func excerpt(r response) string {
	body := strings.TrimSpace(r.redact(string(r.body)))
	if body == "" || r.header.Get("Content-Encoding") != "" {
		return ""
	}
	if len(body) > maxExcerpt {
		return fmt.Sprintf("; the body begins with %q", strings.ToValidUTF8(body[:maxExcerpt], ""))
	}
	return fmt.Sprintf("; the body is %q", body)
}

// oneLine escapes control characters and everything that is not printable.
func oneLine(s string) string {
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// handlerTimeout is how long an examination waits at its end for handlers that have not returned.
const handlerTimeout = 10 * time.Second

// memoryServer serves a handler over HTTP/1.1 on pipes.
type memoryServer struct {
	server  *http.Server
	conns   chan net.Conn
	closing chan struct{}
	active  sync.WaitGroup // Serve, connections and handlers
}

// newMemoryServer starts a server. The caller must close it.
func newMemoryServer(handler http.Handler) *memoryServer {
	m := &memoryServer{conns: make(chan net.Conn), closing: make(chan struct{})}
	m.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			m.active.Add(1)
			defer m.active.Done()
			handler.ServeHTTP(w, r)
		}),
		// The report contains the consequences of a panic. A receiver logs it itself if it is important.
		ErrorLog: log.New(io.Discard, "", 0),
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				m.active.Add(1)
			case http.StateClosed, http.StateHijacked:
				m.active.Done()
			}
		},
	}
	m.active.Go(func() {
		_ = m.server.Serve(pipeListener{m})
	})
	return m
}

// dial returns a connection to the server.
func (m *memoryServer) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case m.conns <- pipeConn{server}:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// close closes all connections, which ends the contexts of requests, and waits for the handlers.
func (m *memoryServer) close() {
	_ = m.server.Close()
	done := make(chan struct{})
	go func() {
		m.active.Wait()
		close(done)
	}()
	timer := time.NewTimer(handlerTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// pipeListener accepts the connections of memoryServer.dial.
type pipeListener struct{ m *memoryServer }

func (l pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.m.conns:
		return conn, nil
	case <-l.m.closing:
		return nil, net.ErrClosed
	}
}

// Close is called once, by http.Server.
func (l pipeListener) Close() error { close(l.m.closing); return nil }

func (l pipeListener) Addr() net.Addr { return receiverAddr }

// pipeConn is a pipe with addresses of the documentation network (RFC 5737), because receivers
// parse http.Request.RemoteAddr.
type pipeConn struct{ net.Conn }

var (
	receiverAddr = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443}
	examinerAddr = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 49152}
)

func (pipeConn) LocalAddr() net.Addr  { return receiverAddr }
func (pipeConn) RemoteAddr() net.Addr { return examinerAddr }

// redacted replaces the values of added headers in texts of the receiver.
const redacted = "[REDACTED]"

// minSecretPart is the length from which a part of a value, such as one cookie, is redacted.
const minSecretPart = 6

// secretsOf returns the values of headers and their parts, also as receivers escape them, the
// longest first.
func secretsOf(headers ...http.Header) []string {
	var all []string
	add := func(s string) {
		quoted, _ := json.Marshal(s) // cannot fail
		all = append(all, s, string(quoted[1:len(quoted)-1]), html.EscapeString(s), url.QueryEscape(s), url.PathEscape(s))
	}
	for _, h := range headers {
		for _, values := range h {
			for _, value := range values {
				if value = strings.TrimSpace(value); value == "" {
					continue
				}
				add(value)
				for _, cookie := range strings.FieldsFunc(value, func(c rune) bool { return strings.ContainsRune("; ,", c) }) {
					_, content, _ := strings.Cut(cookie, "=")
					for _, part := range []string{cookie, content, strings.Trim(content, `"`)} {
						if len(part) >= minSecretPart {
							add(part)
						}
					}
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return slices.Compact(all)
}

// redact replaces secrets in a text of the receiver.
func (r response) redact(text string) string {
	var pairs []string
	for _, secret := range r.secrets {
		pairs = append(pairs, secret, redacted)
	}
	text = strings.NewReplacer(pairs...).Replace(text)
	if len(r.body) < maxBody {
		return text
	}
	// The end of the body was not read, and may be the middle of a secret.
	for _, secret := range r.secrets {
		for n := min(len(secret), len(text)); n > 0; n-- {
			if strings.HasSuffix(text, secret[:n]) {
				text = text[:len(text)-n]
				break
			}
		}
	}
	return text
}
