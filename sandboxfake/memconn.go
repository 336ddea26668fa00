package sandboxfake

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// memBuffer is how much one direction of an in-memory connection holds before a writer waits, as a socket's buffer would.
// It is above a TLS record, so that a close_notify always finds room: over an unbuffered pipe both ends can wait for each other until the TLS time-out.
const memBuffer = 64 << 10

// memConn is one end of a buffered in-memory connection. It waits on sync.Cond alone, which lets the time of a testing/synctest bubble move.
type memConn struct {
	in, out       *memPipe
	local, remote net.Addr
}

// newMemConn returns the two ends of a connection.
func newMemConn(client, server net.Addr) (*memConn, *memConn) {
	up, down := newMemPipe(), newMemPipe()
	return &memConn{in: down, out: up, local: client, remote: server}, &memConn{in: up, out: down, local: server, remote: client}
}

func (c *memConn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	return n, c.wrap("read", err)
}

func (c *memConn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	return n, c.wrap("write", err)
}

// Close ends both directions. What the peer has not read yet, it still reads, and then io.EOF.
func (c *memConn) Close() error {
	c.out.closeWrite()
	c.in.closeRead()
	return nil
}

func (c *memConn) LocalAddr() net.Addr  { return c.local }
func (c *memConn) RemoteAddr() net.Addr { return c.remote }

func (c *memConn) SetDeadline(t time.Time) error {
	c.in.setReadDeadline(t)
	c.out.setWriteDeadline(t)
	return nil
}

func (c *memConn) SetReadDeadline(t time.Time) error {
	c.in.setReadDeadline(t)
	return nil
}

func (c *memConn) SetWriteDeadline(t time.Time) error {
	c.out.setWriteDeadline(t)
	return nil
}

// wrap gives an error the shape that users of package net expect; io.EOF stays itself.
func (c *memConn) wrap(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: c.local.Network(), Source: c.local, Addr: c.remote, Err: err}
}

// memPipe is one direction of a memConn.
type memPipe struct {
	mu   sync.Mutex // guards all below
	cond *sync.Cond
	data []byte // written and not yet read
	// The writer has closed: reads drain data and end. The reader has closed: writes fail.
	writerClosed, readerClosed bool
	readBy, writeBy            memDeadline
}

func newMemPipe() *memPipe {
	p := new(memPipe)
	p.cond = sync.NewCond(&p.mu)
	return p
}

func (p *memPipe) read(b []byte) (int, error) {
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
			// An idle connection holds no buffer: a process may keep thousands.
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

func (p *memPipe) write(b []byte) (n int, err error) {
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
		if room := min(memBuffer-len(p.data), len(b)); room > 0 {
			p.data = append(p.data, b[:room]...)
			b, n = b[room:], n+room
			p.cond.Broadcast()
			continue
		}
		p.cond.Wait()
	}
}

func (p *memPipe) closeWrite() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writerClosed = true
	p.writeBy.stop()
	p.cond.Broadcast()
}

func (p *memPipe) closeRead() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readerClosed = true
	p.data = nil
	p.readBy.stop()
	p.cond.Broadcast()
}

func (p *memPipe) setReadDeadline(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.readerClosed {
		p.readBy.set(t, p.cond)
	}
}

func (p *memPipe) setWriteDeadline(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.writerClosed {
		p.writeBy.set(t, p.cond)
	}
}

// memDeadline wakes the waiters of a pipe when its time comes.
type memDeadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *memDeadline) set(t time.Time, cond *sync.Cond) {
	d.stop()
	d.at = t
	if wait := time.Until(t); !t.IsZero() && wait > 0 {
		d.timer = time.AfterFunc(wait, cond.Broadcast)
	}
	cond.Broadcast()
}

func (d *memDeadline) passed() bool { return !d.at.IsZero() && time.Until(d.at) <= 0 }

func (d *memDeadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

// memListener accepts in-memory connections.
type memListener struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newMemListener(addr net.Addr) *memListener {
	return &memListener{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *memListener) Addr() net.Addr { return l.addr }

// dial connects to the listener; from is the address that the server sees.
func (l *memListener) dial(ctx context.Context, from net.Addr) (net.Conn, error) {
	client, server := newMemConn(from, l.addr)
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: l.addr.Network(), Addr: l.addr, Err: ErrClosed}
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: l.addr.Network(), Addr: l.addr, Err: ctx.Err()}
	}
}
