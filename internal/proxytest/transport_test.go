package proxytest

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"testing"
)

// protocols lists the protocols between client and proxy.
var protocols = []string{"h2", "http/1.1"}

// transport returns a transport that connects to the proxy for every host and requires the given
// protocol. For HTTP/2 it is configured like the transport of the default client.
func (p *proxy) transport(t *testing.T, protocol string) *http.Transport {
	t.Helper()
	transport := &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return p.dial(ctx) },
		ForceAttemptHTTP2: protocol == "h2",
		TLSClientConfig: &tls.Config{
			RootCAs: p.roots,
			VerifyConnection: func(s tls.ConnectionState) error {
				if s.NegotiatedProtocol != protocol {
					return fmt.Errorf("negotiated protocol = %q, want %q", s.NegotiatedProtocol, protocol)
				}
				return nil
			},
		},
	}
	if protocol != "h2" {
		transport.TLSClientConfig.NextProtos = []string{protocol}
	}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}
