package memnet

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// bufferSize is the number of bytes that one direction of a connection buffers before a write
// blocks. It is larger than a TLS record, so that a close_notify never blocks. Over an unbuffered
// pipe, both ends can wait for each other until the TLS timeout.
const bufferSize = 64 << 10

// conn is one end of a buffered in-memory connection. It blocks only on sync.Cond, so that the
// time of a testing/synctest bubble can advance.
type conn struct {
	in, out       *pipe
	local, remote net.Addr
}

// Pipe returns the two ends of an in-memory connection. They support deadlines.
func Pipe(clientAddr, serverAddr net.Addr) (client, server net.Conn) {
	up, down := newPipe(), newPipe()
	client = &conn{in: down, out: up, local: clientAddr, remote: serverAddr}
	server = &conn{in: up, out: down, local: serverAddr, remote: clientAddr}
	return client, server
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	return n, c.wrap("read", err)
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	return n, c.wrap("write", err)
}

// Close closes both directions. The peer can still read the buffered data, followed by io.EOF.
func (c *conn) Close() error {
	c.out.closeWrite()
	c.in.closeRead()
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error {
	c.in.setReadDeadline(t)
	c.out.setWriteDeadline(t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.setReadDeadline(t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.setWriteDeadline(t)
	return nil
}

// wrap wraps an error in a net.OpError, as package net does. It returns io.EOF unchanged.
func (c *conn) wrap(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: c.local.Network(), Source: c.local, Addr: c.remote, Err: err}
}

// pipe is one direction of a connection.
type pipe struct {
	mu   sync.Mutex // guards the fields below
	cond *sync.Cond
	data []byte // written and not yet read
	// After the writer has closed, reads return the rest of data and then io.EOF. After the
	// reader has closed, writes fail.
	writerClosed, readerClosed bool
	readBy, writeBy            deadline
}

func newPipe() *pipe {
	p := new(pipe)
	p.cond = sync.NewCond(&p.mu)
	return p
}

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.readerClosed:
			return 0, net.ErrClosed
		case p.readBy.passed():
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		case len(p.data) > 0:
			n := copy(b, p.data)
			// An idle connection keeps no buffer, because a process may have thousands.
			if p.data = p.data[n:]; len(p.data) == 0 {
				p.data = nil
			}
			p.cond.Broadcast()
			return n, nil
		case p.writerClosed:
			return 0, io.EOF
		}
		p.cond.Wait()
	}
}

func (p *pipe) write(b []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.writerClosed:
			return n, net.ErrClosed
		case p.readerClosed:
			return n, io.ErrClosedPipe
		case p.writeBy.passed():
			return n, os.ErrDeadlineExceeded
		case len(b) == 0:
			return n, nil
		}
		if room := min(bufferSize-len(p.data), len(b)); room > 0 {
			p.data = append(p.data, b[:room]...)
			b, n = b[room:], n+room
			p.cond.Broadcast()
			continue
		}
		p.cond.Wait()
	}
}

func (p *pipe) closeWrite() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writerClosed = true
	p.writeBy.stop()
	p.cond.Broadcast()
}

func (p *pipe) closeRead() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readerClosed = true
	p.data = nil
	p.readBy.stop()
	p.cond.Broadcast()
}

func (p *pipe) setReadDeadline(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.readerClosed {
		p.readBy.set(t, p.cond)
	}
}

func (p *pipe) setWriteDeadline(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.writerClosed {
		p.writeBy.set(t, p.cond)
	}
}

// deadline wakes the waiters of a pipe when it passes.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) set(t time.Time, cond *sync.Cond) {
	d.at = t
	switch wait := time.Until(t); {
	case t.IsZero():
		d.stop()
	case wait <= 0:
		d.stop()
		cond.Broadcast()
	case d.timer == nil:
		d.timer = time.AfterFunc(wait, cond.Broadcast)
	default:
		d.timer.Reset(wait)
	}
}

func (d *deadline) passed() bool { return !d.at.IsZero() && time.Until(d.at) <= 0 }

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

// Listener accepts in-memory connections.
type Listener struct {
	addr      net.Addr
	errClosed error
	conns     chan net.Conn
	closed    chan struct{}
	once      sync.Once
}

// NewListener returns a listener with the given address. After Close, Dial fails with errClosed.
func NewListener(addr net.Addr, errClosed error) *Listener {
	return &Listener{addr: addr, errClosed: errClosed, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return l.addr }

// Dial connects to the listener. from is the client address that the server sees.
func (l *Listener) Dial(ctx context.Context, from net.Addr) (net.Conn, error) {
	client, server := Pipe(from, l.addr)
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: l.addr.Network(), Addr: l.addr, Err: l.errClosed}
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: l.addr.Network(), Addr: l.addr, Err: ctx.Err()}
	}
}

// Limits of a connection of LimitWrites: the duration of a write, by the system's clock, and the
// number of bytes that the system buffers. By default it buffers megabytes, which are thousands of
// responses, before a write blocks.
const (
	writeTimeout = 30 * time.Second
	writeBuffer  = 64 << 10
)

// LimitWrites returns a listener whose connections limit the duration of each write, unless a
// deadline for writes is set. Otherwise a client that sends requests but does not read the
// responses could keep its connection forever.
//
// http.Server.WriteTimeout would also limit the time until a response begins, which a delayed call
// or a wait exceeds. A deadline that a handler sets would not apply to what net/http writes itself.
func LimitWrites(l net.Listener) net.Listener { return limitedListener{l} }

type limitedListener struct{ net.Listener }

func (l limitedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if socket, ok := c.(*net.TCPConn); ok {
		_ = socket.SetWriteBuffer(writeBuffer)
	}
	return &limitedConn{Conn: c}, nil
}

// limitedConn is a connection of LimitWrites.
type limitedConn struct {
	net.Conn
	hasDeadline atomic.Bool // for writes, set by the user of the connection
}

func (c *limitedConn) Write(p []byte) (int, error) {
	if !c.hasDeadline.Load() {
		if err := c.Conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(p)
}

func (c *limitedConn) SetDeadline(t time.Time) error {
	c.hasDeadline.Store(!t.IsZero())
	return c.Conn.SetDeadline(t)
}

func (c *limitedConn) SetWriteDeadline(t time.Time) error {
	c.hasDeadline.Store(!t.IsZero())
	return c.Conn.SetWriteDeadline(t)
}
