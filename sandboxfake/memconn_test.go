package sandboxfake

import (
	"net"
	"testing"

	"golang.org/x/net/nettest"
)

func TestMemoryConnBehavesAsANetConn(t *testing.T) {
	t.Parallel()
	nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
		client, server := newMemConn(&net.TCPAddr{Port: 1}, &net.TCPAddr{Port: 2})
		return client, server, func() {
			client.Close()
			server.Close()
		}, nil
	})
}
