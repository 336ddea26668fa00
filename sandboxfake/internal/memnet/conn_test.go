package memnet_test

import (
	"net"
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"github.com/idverify/idverify-go/sandboxfake/internal/memnet"
)

func TestPipe_ImplementsConn(t *testing.T) {
	t.Parallel()
	nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
		client, server := memnet.Pipe(&net.TCPAddr{Port: 1}, &net.TCPAddr{Port: 2})
		return client, server, func() {
			client.Close()
			server.Close()
		}, nil
	})
}

func TestLimitWrites_ImplementsConn(t *testing.T) {
	t.Parallel()
	nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
		plain := memnet.NewListener(&net.TCPAddr{Port: 2}, net.ErrClosed)
		accepted := make(chan net.Conn, 1)
		go func() {
			server, _ := memnet.LimitWrites(plain).Accept()
			accepted <- server
		}()
		client, err := plain.Dial(t.Context(), &net.TCPAddr{Port: 1})
		if err != nil {
			return nil, nil, nil, err
		}
		server := <-accepted
		return client, server, func() {
			client.Close()
			server.Close()
		}, nil
	})
}

// The system must not take thousands of responses from the server for a client that does not read.
func TestLimitWrites_SocketBuffer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := memnet.LimitWrites(listener).Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if err := server.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}

	n, err := server.Write(make([]byte, 16<<20))

	if err == nil || n > 1<<20 {
		t.Errorf("%d bytes written without a reader (%v), want at most 1 MiB", n, err)
	}
}
