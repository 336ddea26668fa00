package sandboxfake

import (
	"cmp"
	"net"
	"net/http"
	"strings"

	"github.com/idverify/idverify-go/sandboxfake/internal/memnet"
)

// listen opens the server's listener and sets its URLs.
func (s *Server) listen() (net.Listener, error) {
	listener, err := s.network.Listen(s.opts.addr)
	if err != nil {
		return nil, err
	}
	s.url = "https://" + memnet.ServiceHost
	if !s.opts.inMemory {
		s.url = "https://" + advertised(s.opts.addr, listener.Addr())
	}
	if public := s.opts.public.addr(listener.Addr()); public != "" {
		s.publicURL = "https://" + strings.TrimSuffix(public, ":443")
	}
	return listener, nil
}

// serveOn handles the requests of a listener, and of in-process clients that connect to the public
// host or, with a certificate that they may not trust, to the server's own.
func (s *Server) serveOn(listener net.Listener) error {
	var direct []string
	if public := s.opts.public.addr(listener.Addr()); public != "" {
		direct = append(direct, public)
	}
	if s.opts.certificate != nil && !s.opts.inMemory {
		direct = append(direct, strings.TrimPrefix(s.url, "https://"))
	}
	handler := http.HandlerFunc(s.serve)
	if len(direct) > 0 {
		if err := s.network.ServeDirect(direct, handler, maxHeader); err != nil {
			return err
		}
	}
	s.http = s.network.Serve(listener, handler, maxHeader)
	return nil
}

// advertised returns the address that clients connect to. It has the configured host, or loopback
// if the listener accepts connections on every address.
func advertised(addr string, bound net.Addr) string {
	host, _, _ := net.SplitHostPort(addr)
	_, port, _ := net.SplitHostPort(bound.String())
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}

// addr returns the host and port that clients connect to, or "" without a public URL. bound is the
// address of the listener.
func (h publicHost) addr(bound net.Addr) string {
	if h.name == "" {
		return ""
	}
	port := h.port
	if port == "0" {
		_, port, _ = net.SplitHostPort(bound.String())
	}
	return net.JoinHostPort(h.name, port)
}

// PublicURL returns the base of all links: the URL of [WithPublicURL] in lower case, with the port
// unless it is 443, or [Server.URL] without that option.
func (s *Server) PublicURL() string { return cmp.Or(s.publicURL, s.url) }
