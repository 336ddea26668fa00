package main

import (
	"net"
	"net/netip"
	"testing"
)

// endpoints is a connection with fixed addresses.
type endpoints struct {
	net.Conn
	local, remote string
}

func (e endpoints) LocalAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(e.local))
}
func (e endpoints) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(e.remote))
}

func TestHealthcheck_IsLocal(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, local, remote string
		want                bool
	}{
		{"loopback", "127.0.0.1:40000", "127.0.0.1:8443", true},
		{"IPv6 loopback", "[::1]:40000", "[::1]:8443", true},
		{"address of this machine", "192.0.2.1:40000", "192.0.2.1:8443", true},
		{"mapped address of this machine", "192.0.2.1:40000", "[::ffff:192.0.2.1]:8443", true},
		{"other machine", "192.0.2.1:40000", "192.0.2.2:8443", false},
		{"other machine over IPv6", "[2001:db8::1]:40000", "[2001:db8::2]:8443", false},
	} {
		if got := isLocal(endpoints{local: row.local, remote: row.remote}); got != row.want {
			t.Errorf("%s: local = %v, want %v", row.name, got, row.want)
		}
	}
}
