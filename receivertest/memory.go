package receivertest

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

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
