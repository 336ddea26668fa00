package sandboxfake

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
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// memHost is the service's own host in memory, below the domain that the in-process certificate is
// valid for.
const (
	memDomain = ".sandbox.test"
	memHost   = "idverify" + memDomain
)

// network is where the connections of a server, its clients, its device and its callbacks go: to hosts in this process first, and, unless all is in memory, to the system's network.
type network struct {
	ctx       context.Context // of every request; ends with the server, since net/http alone would not tell a handler that has left its body unread
	cancel    context.CancelFunc
	identity  *identity
	transport *http.Transport
	self      *memListener // the service's own listener; nil over loopback
	dialed    atomic.Int64 // numbers the callers' addresses

	mu    sync.Mutex // guards the hosts that Handle adds
	hosts map[string]*host
	// Both serve the hosts, by https and by http. They start with the first host.
	secure, plain             *httptest.Server
	secureListen, plainListen *memListener
	closed                    bool
}

// host is one in-memory host.
type host struct {
	handler     http.Handler
	certificate *tls.Certificate
}

func newNetwork(id *identity) *network {
	n := &network{identity: id, hosts: make(map[string]*host)}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.transport = &http.Transport{
		DialContext:     n.dial,
		TLSClientConfig: &tls.Config{RootCAs: id.roots},
		// An idle connection keeps its buffers, and a process may have thousands; no answer is long.
		ReadBufferSize:        512,
		WriteBufferSize:       512,
		MaxIdleConnsPerHost:   64,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
	}
	return n
}

// handle makes h answer for a host, in the place of an earlier handler for it.
func (n *network) handle(hostport string, h http.Handler) error {
	if h == nil {
		return errors.New("handle: the handler is nil")
	}
	name := hostName(hostport)
	if name == "" || name == memHost || net.ParseIP(name) != nil || strings.ContainsAny(hostport, " /@?#") || strings.Contains(name, ":") {
		return fmt.Errorf("handle: the host must be a DNS name, such as app.sandbox.test, and not the service's own")
	}
	certificate := n.identity.hosts
	if certificate.Leaf.VerifyHostname(name) != nil {
		var err error
		if certificate, err = n.identity.inProcess.issue(name); err != nil {
			return fmt.Errorf("handle: certificate: %w", err)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[name] = &host{handler: h, certificate: &certificate}
	if n.secure == nil && !n.closed {
		n.secureListen, n.plainListen = newMemListener(memAddr(443)), newMemListener(memAddr(80))
		n.secure = n.serve(tls.NewListener(n.secureListen, n.tlsConfig(n.identity.hosts)), http.HandlerFunc(n.serveHost), http.DefaultMaxHeaderBytes)
		n.plain = n.serve(n.plainListen, http.HandlerFunc(n.serveHost), http.DefaultMaxHeaderBytes)
	}
	return nil
}

// lookup finds the in-memory host of a host name, with or without a port.
func (n *network) lookup(hostport string) *host {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hosts[hostName(hostport)]
}

func (n *network) serveHost(w http.ResponseWriter, r *http.Request) {
	h := n.lookup(r.Host)
	if h == nil {
		http.Error(w, "sandboxfake: no handler for this host: add one with Handle", http.StatusMisdirectedRequest)
		return
	}
	h.handler.ServeHTTP(w, r)
}

// dial is the DialContext of everything that leaves the server or its clients.
func (n *network) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if n.lookup(addr) != nil {
		listener := n.secureListen
		if _, port, _ := net.SplitHostPort(addr); port == "80" {
			listener = n.plainListen
		}
		if listener == nil { // the host came after Close
			return nil, ErrClosed
		}
		return listener.dial(ctx, n.callerAddr())
	}
	if n.self == nil {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	if hostName(addr) == memHost {
		return n.self.dial(ctx, n.callerAddr())
	}
	return nil, fmt.Errorf("sandboxfake: an in-memory server opens no socket: make the host known with Handle")
}

// callerAddr is the address that the other end of an in-memory connection sees.
func (n *network) callerAddr() net.Addr {
	return memAddr(int(49152 + n.dialed.Add(1)%16384))
}

// tlsConfig returns the configuration of a listener. It serves certificate, except for the hosts of
// Handle, which have their own.
func (n *network) tlsConfig(certificate tls.Certificate) *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{certificate},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if h := n.lookup(hello.ServerName); h != nil {
				return h.certificate, nil
			}
			return nil, nil // the first of Certificates
		},
		NextProtos: []string{"http/1.1"},
		// A test makes a few connections and is over: tickets and a post-quantum exchange would cost more than the connection.
		SessionTicketsDisabled: true,
		CurvePreferences:       []tls.CurveID{tls.X25519, tls.CurveP256},
	}
}

// close ends the hosts and every connection that nobody uses.
func (n *network) close() {
	n.mu.Lock()
	n.closed = true
	secure, plain := n.secure, n.plain
	n.mu.Unlock()
	n.cancel()
	n.transport.CloseIdleConnections()
	if secure != nil {
		secure.Close()
		plain.Close()
	}
	n.transport.CloseIdleConnections()
}

// serve starts an httptest.Server on a listener of ours. Its own client and certificate, which
// would cost a parse of an RSA key, stay unused.
func (n *network) serve(l net.Listener, h http.Handler, maxHeader int) *httptest.Server {
	server := &httptest.Server{
		Listener: l,
		Config: &http.Server{
			Handler:     h,
			BaseContext: func(net.Listener) context.Context { return n.ctx },
			// net/http adds 4 KiB.
			MaxHeaderBytes: maxHeader,
			// Not nil: no HTTP/2, whose setup would be a good part of the start.
			TLSNextProto: make(map[string]func(*http.Server, *tls.Conn, http.Handler)),
			// A client that does not trust the test CA sees the error itself.
			ErrorLog: log.New(io.Discard, "", 0),
		},
	}
	if n.self == nil {
		// Over a socket anyone may connect, and begin a request and never end it.
		server.Config.ReadHeaderTimeout, server.Config.IdleTimeout = 10*time.Second, 2*time.Minute
	}
	server.Start()
	return server
}

func memAddr(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }

// hostName is the host of host:port in lower case, without the port.
func hostName(hostport string) string {
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		hostport = h
	}
	return strings.ToLower(strings.TrimSuffix(hostport, "."))
}
