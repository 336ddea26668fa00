package memnet_test

import (
	"net"
	"testing"

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
