// Package memnet implements a network for tests. Its clients reach hosts in this process without a
// socket, over TLS with certificates that they trust.
package memnet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// domain is the domain that the certificate of in-memory hosts is valid for.
const domain = ".sandbox.test"

// ServiceHost is the host of the service on an in-memory network.
const ServiceHost = "idverify" + domain

// Network connects a service, its clients and its receivers. Connections to hosts of
// [Network.Handle] stay in memory, and all others use the system's network. If the network is in
// memory, connections to the service also stay in memory, and all others fail. A Network is safe
// for concurrent use.
type Network struct {
	// ctx is the base context of all requests. Close cancels it, because net/http does not
	// notify a handler that has not read its request body.
	ctx       context.Context
	cancel    context.CancelFunc
	errClosed error

	certificates *Certificates
	transport    *http.Transport
	service      *Listener    // nil if the service listens on a socket
	dialed       atomic.Int64 // numbers the addresses of callers

	// ServeDirect sets these before the first connection.
	directAddrs  []string // canonical
	direct       *Listener
	directServer *httptest.Server

	mu    sync.Mutex // guards the fields below
	hosts map[string]*host
	// The servers of the hosts, for HTTPS and HTTP. The first Handle starts them.
	secure, plain                 *httptest.Server
	secureListener, plainListener *Listener
	closed                        bool
}

// host is one in-memory host.
type host struct {
	handler     http.Handler
	certificate *tls.Certificate
}

// New returns a network. If inMemory is set, the service also listens in memory, not on a socket.
// Connecting to an in-memory host after Close fails with errClosed.
func New(c *Certificates, inMemory bool, errClosed error) *Network {
	n := &Network{certificates: c, errClosed: errClosed, hosts: make(map[string]*host)}
	if inMemory {
		n.service = n.newListener(443)
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.transport = &http.Transport{
		DialContext:     n.dial,
		TLSClientConfig: &tls.Config{RootCAs: c.roots},
		// Idle connections keep their buffers. A process may have thousands, and all responses
		// are short.
		ReadBufferSize:        1024,
		WriteBufferSize:       512,
		MaxIdleConnsPerHost:   64,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
	}
	if inMemory {
		// All servers support P-256, the fastest curve. With a choice, crypto/tls prefers others.
		n.transport.TLSClientConfig.CurvePreferences = []tls.CurveID{tls.CurveP256}
	} else {
		// In memory, it would close connections whenever the clock of a bubble advances.
		n.transport.IdleConnTimeout = 90 * time.Second
	}
	return n
}

// Transport returns the transport of the network's clients, which trusts its certificates.
func (n *Network) Transport() *http.Transport { return n.transport }

// Listen returns the service's listener, for TLS connections with [LimitWrites]. addr is the TCP
// address to listen on; an in-memory network ignores it.
func (n *Network) Listen(addr string) (net.Listener, error) {
	if n.service != nil {
		return tls.NewListener(LimitWrites(n.service), n.tlsConfig(always(&n.certificates.hosts))), nil
	}
	// Without keep-alive probes: IdleTimeout closes the connections of clients that have gone.
	listener, err := (&net.ListenConfig{KeepAlive: -1}).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	return tls.NewListener(LimitWrites(listener), n.tlsConfig(n.certificates.forService)), nil
}

// ServeDirect makes the connections of the network's clients to addrs, each a host and a port, stay
// in memory, with a certificate that the clients trust. Call it before the first connection.
func (n *Network) ServeDirect(addrs []string, h http.Handler, maxHeader int) error {
	var names []string
	for _, addr := range addrs {
		n.directAddrs = append(n.directAddrs, canonicalAddr(addr))
		names = append(names, HostName(addr))
	}
	certificate, err := n.certificates.inProcess.Issue(names...)
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	n.direct = n.newListener(443)
	n.directServer = n.Serve(tls.NewListener(LimitWrites(n.direct), n.tlsConfig(always(&certificate))), h, maxHeader)
	return nil
}

// Serve starts a server on a listener. The server's own client and certificate are not used. Close
// cancels the contexts of requests.
func (n *Network) Serve(l net.Listener, h http.Handler, maxHeader int) *httptest.Server {
	server := &httptest.Server{
		Listener: l,
		Config: &http.Server{
			Handler:     h,
			BaseContext: func(net.Listener) context.Context { return n.ctx },
			// net/http adds 4 KiB.
			MaxHeaderBytes: maxHeader,
			// A non-nil map disables HTTP/2, whose setup would take much of the start time.
			TLSNextProto: make(map[string]func(*http.Server, *tls.Conn, http.Handler)),
			// A client that does not trust the certificate reports the error itself.
			ErrorLog: log.New(io.Discard, "", 0),
		},
	}
	if n.service == nil {
		// Anyone can connect to a socket and never finish a request.
		server.Config.ReadHeaderTimeout, server.Config.IdleTimeout = 10*time.Second, 2*time.Minute
	}
	server.Start()
	return server
}

// Handle serves a host in memory, HTTP on port 80 and HTTPS on any other port. It replaces an
// earlier handler of the host.
func (n *Network) Handle(hostport string, h http.Handler) error {
	if h == nil {
		return errors.New("handle: nil handler")
	}
	name := HostName(hostport)
	isDirect := func(addr string) bool { return HostName(addr) == name }
	if name == "" || name == ServiceHost || slices.ContainsFunc(n.directAddrs, isDirect) || net.ParseIP(name) != nil || strings.ContainsAny(hostport, " /@?#") || strings.Contains(name, ":") {
		return fmt.Errorf("handle: host must be a DNS name, such as app.sandbox.test, and must not be the service's own host")
	}
	certificate := n.certificates.hosts
	if certificate.Leaf.VerifyHostname(name) != nil {
		var err error
		if certificate, err = n.certificates.inProcess.Issue(name); err != nil {
			return fmt.Errorf("handle: certificate: %w", err)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[name] = &host{handler: h, certificate: &certificate}
	if n.secure == nil && !n.closed {
		n.secureListener, n.plainListener = n.newListener(443), n.newListener(80)
		n.secure = n.Serve(tls.NewListener(n.secureListener, n.tlsConfig(always(&n.certificates.hosts))), http.HandlerFunc(n.serveHost), http.DefaultMaxHeaderBytes)
		n.plain = n.Serve(n.plainListener, http.HandlerFunc(n.serveHost), http.DefaultMaxHeaderBytes)
	}
	return nil
}

// lookup returns the in-memory host of a host name, with or without a port, or nil.
func (n *Network) lookup(hostport string) *host {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hosts[HostName(hostport)]
}

func (n *Network) serveHost(w http.ResponseWriter, r *http.Request) {
	h := n.lookup(r.Host)
	if h == nil {
		http.Error(w, "sandboxfake: no handler for this host (add one with Handle)", http.StatusMisdirectedRequest)
		return
	}
	h.handler.ServeHTTP(w, r)
}

// dial is the DialContext of the transport.
func (n *Network) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if n.lookup(addr) != nil {
		listener := n.secureListener
		if _, port, _ := net.SplitHostPort(addr); port == "80" {
			listener = n.plainListener
		}
		if listener == nil { // the host was added after Close
			return nil, n.errClosed
		}
		return listener.Dial(ctx, n.callerAddr())
	}
	if slices.Contains(n.directAddrs, canonicalAddr(addr)) {
		return n.direct.Dial(ctx, n.callerAddr())
	}
	if n.service == nil {
		return (&net.Dialer{KeepAlive: -1}).DialContext(ctx, network, addr)
	}
	if HostName(addr) == ServiceHost {
		return n.service.Dial(ctx, n.callerAddr())
	}
	return nil, fmt.Errorf("sandboxfake: connect: the host is not on the in-memory network (add it with Handle)")
}

// callerAddr returns the client address of a new in-memory connection.
func (n *Network) callerAddr() net.Addr {
	return memAddr(int(49152 + n.dialed.Add(1)%16384))
}

// tlsConfig returns the configuration of a listener. It serves the certificate that choose returns,
// except for the hosts of Handle, which have their own.
func (n *Network) tlsConfig(choose func(*tls.ClientHelloInfo) *tls.Certificate) *tls.Config {
	return &tls.Config{
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if h := n.lookup(hello.ServerName); h != nil {
				return h.certificate, nil
			}
			return choose(hello), nil
		},
		NextProtos: []string{"http/1.1"},
		// A test makes few connections. Session tickets and a post-quantum key exchange would
		// cost more than they save.
		SessionTicketsDisabled: true,
		// Small records are useful on slow networks only.
		DynamicRecordSizingDisabled: true,
		CurvePreferences:            []tls.CurveID{tls.X25519, tls.CurveP256},
	}
}

// always returns a function for tlsConfig that returns certificate.
func always(certificate *tls.Certificate) func(*tls.ClientHelloInfo) *tls.Certificate {
	return func(*tls.ClientHelloInfo) *tls.Certificate { return certificate }
}

// Close closes the servers of the hosts and all idle connections, and cancels the contexts of all
// requests.
func (n *Network) Close() {
	n.mu.Lock()
	n.closed = true
	servers := []*httptest.Server{n.secure, n.plain, n.directServer}
	n.mu.Unlock()
	n.cancel()
	n.transport.CloseIdleConnections()
	for _, server := range servers {
		if server != nil {
			CloseServer(server)
		}
	}
	n.transport.CloseIdleConnections()
}

// closeGrace is the time for which a server that is closing waits for requests in progress.
const closeGrace = time.Second

// CloseServer closes a server of Serve and waits for its handlers. After closeGrace it closes their
// connections, because a client that neither sends nor reads could block a handler forever.
func CloseServer(server *httptest.Server) {
	closed := make(chan struct{})
	timer := time.AfterFunc(closeGrace, func() {
		defer close(closed)
		server.CloseClientConnections()
	})
	server.Close()
	if !timer.Stop() {
		<-closed
	}
}

// newListener returns an in-memory listener on a port of loopback.
func (n *Network) newListener(port int) *Listener { return NewListener(memAddr(port), n.errClosed) }

func memAddr(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }

// canonicalAddr returns host:port with the host in lower case and without a trailing dot.
func canonicalAddr(hostport string) string {
	_, port, _ := net.SplitHostPort(hostport)
	return net.JoinHostPort(HostName(hostport), port)
}

// HostName returns the host of host:port in lower case, without the port or a trailing dot.
func HostName(hostport string) string {
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		hostport = h
	}
	return strings.ToLower(strings.TrimSuffix(hostport, "."))
}
