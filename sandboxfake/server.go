package sandboxfake

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/sandboxfake/internal/memnet"
	"github.com/idverify/idverify-go/signature"
)

// Server is the service in this process: a TLS server with the rules of the specification, and the handles that a test wants on it.
// All methods are safe for concurrent use.
type Server struct {
	opts         options
	tb           TB // nil for a server made by Start
	url          string
	network      *memnet.Network
	certificates *memnet.Certificates
	http         *httptest.Server
	control      http.Handler // of WithControlPlane; nil without
	keySource    *keySource
	lifecycle    sync.Mutex // held by Reset and Close until everything they ended has ended
	resets       uint64     // how many there were; lifecycle guards it

	// service is replaced by Reset, while the mutex of the old one is held. See lock.
	service atomic.Pointer[service]
}

// ErrClosed is the error of what can't be done, or waited for, because the server was closed.
var ErrClosed = errors.New("sandboxfake: the server is closed")

// ErrReset is the error of what can't be waited for any more, because the server was reset.
var ErrReset = errors.New("sandboxfake: the server was reset")

// New starts a server for the length of a test and closes it through tb.Cleanup. It fails the test when it cannot start.
//
// Inside a testing/synctest bubble it needs [WithInMemory], and must be made in the bubble.
func New(tb TB, opts ...Option) *Server {
	tb.Helper()
	s, err := Start(opts...)
	if err != nil {
		tb.Fatalf("%v", err)
		return nil
	}
	s.tb = tb
	tb.Cleanup(func() { s.Close() })
	return s
}

// TB is what [New] needs of a test; *testing.T, *testing.B and *testing.F fit.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Start starts a server outside a test. The caller closes it. Where a method of a server made by [New] fails the test, that of this one panics: it is a mistake of the program's author.
// It fails when an option is out of range, or when the address of [WithAddr] cannot be listened on.
func Start(opts ...Option) (*Server, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, fmt.Errorf("sandboxfake: %w", err)
	}
	certificates, keys, err := o.certificates()
	if err != nil {
		return nil, fmt.Errorf("sandboxfake: keys: %w", err)
	}
	s := &Server{
		opts:         o,
		network:      memnet.New(certificates, o.inMemory, ErrClosed),
		certificates: certificates,
		keySource:    keys,
	}
	listener, err := s.listen()
	if err != nil {
		return nil, fmt.Errorf("sandboxfake: %w", err)
	}
	first, err := s.newService(o.seed)
	if err != nil {
		listener.Close()
		return nil, fmt.Errorf("sandboxfake: %w", err)
	}
	s.service.Store(first)
	s.control = s.controlPlane()
	s.http = s.network.Serve(listener, http.HandlerFunc(s.serve), maxHeader)
	return s, nil
}

// newService returns a new service of the server, with the IDs of a seed.
func (s *Server) newService(seed uint64) (*service, error) {
	return newService(&s.opts, s.url, s.network.Transport(), s.keySource, seed)
}

// lock returns the current service with its mutex locked. Until the caller unlocks it, Reset cannot
// replace the service.
func (s *Server) lock() *service {
	for {
		svc := s.service.Load()
		svc.mu.Lock()
		if svc == s.service.Load() {
			return svc
		}
		svc.mu.Unlock()
	}
}

// listen opens the server's listener and sets its URL.
func (s *Server) listen() (net.Listener, error) {
	listener, err := s.network.Listen(s.opts.addr)
	if err != nil {
		return nil, err
	}
	s.url = "https://" + memnet.ServiceHost
	if !s.opts.inMemory {
		s.url = "https://" + advertised(s.opts.addr, listener.Addr())
	}
	return listener, nil
}

// advertised is how clients reach a listener that was asked for as addr: by the host's own name, and by loopback where it listens on every address.
func advertised(addr string, got net.Addr) string {
	host, _, _ := net.SplitHostPort(addr)
	_, port, _ := net.SplitHostPort(got.String())
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}

// Close stops the server: callbacks under way are cancelled, waiters get [ErrClosed], connections end. It returns when no goroutine of the server is left; closing again does nothing.
// Like httptest.Server's, it waits for handlers that are still at work, also those of [Server.Handle]; the contexts of their requests end. Do not call it from a handler. The error is always nil.
func (s *Server) Close() error {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	svc := s.lock()
	if svc.ended != nil {
		svc.mu.Unlock()
		return nil
	}
	svc.end(ErrClosed)
	svc.mu.Unlock()
	svc.running.Wait()
	s.network.Close()
	s.http.Close()
	return nil
}

// Reset restores the state after New: no checks, projects or tokens other than the initial ones,
// empty journals, no faults. The same calls then return the same IDs as before, unless
// [WithNewIDsAfterReset] is set. Callbacks in flight and due later are canceled, waiters get
// [ErrReset], and a call that is delayed by the latency of a [Fault] is aborted. A frozen clock
// shows its first time, a running one the system's. Hosts of [Server.Handle] stay. After Close it
// does nothing. Do not call it from a handler.
func (s *Server) Reset() { s.reset(nil) }

// reset is Reset with a seed, or with the one that the options choose.
func (s *Server) reset(seed *uint64) {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	s.resets++
	switch {
	case seed != nil:
	case s.opts.newIDs:
		seed = new((&ids{seed: s.opts.seed}).afterReset(s.resets))
	default:
		seed = &s.opts.seed
	}
	fresh, err := s.newService(*seed)
	s.must(err)
	svc := s.lock()
	if svc.ended != nil { // closed
		svc.mu.Unlock()
		return
	}
	svc.end(ErrReset)
	s.service.Store(fresh)
	svc.mu.Unlock()
	svc.running.Wait()
}

// URL returns the base URL of the service. Its certificate is the fake's own: give idverify.NewClient WithHTTPClient(s.HTTPClient()), and signature.NewJWKS the same as its HTTPClient, or take [Server.Client] and [Server.Verifier], which have both.
func (s *Server) URL() string { return s.url }

// HTTPClient returns a client that trusts the server's certificate and reaches it, and the hosts of [Server.Handle], in every mode. Each call returns a new client over one transport.
func (s *Server) HTTPClient() *http.Client { return &http.Client{Transport: s.network.Transport()} }

// CACertPEM returns the certificate of the authority that signed the server's, for clients in other
// processes. The authority is constrained to loopback and the host of [WithAddr]; hosts of
// [Server.Handle] have certificates of another one. Unless [WithFreshKeys] is set its key is
// public: trust it in tests only.
func (s *Server) CACertPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.certificates.Exported.Certificate.Raw})
}

// Now returns the time on the server's clock.
func (s *Server) Now() time.Time {
	svc := s.lock()
	defer svc.mu.Unlock()
	return svc.clock.Now()
}

// Credentials returns those of the sandbox project that every server begins with. They may have the product scopes.
func (s *Server) Credentials() idverify.Credentials {
	svc := s.lock()
	defer svc.mu.Unlock()
	return svc.initial.project
}

// ConsoleCredentials returns those of the owner of the workspace that every server begins with. They may have the management scopes.
func (s *Server) ConsoleCredentials() idverify.Credentials {
	svc := s.lock()
	defer svc.mu.Unlock()
	return svc.initial.workspace
}

// Client returns a client of the server's own project, over its HTTP client and its clock. Options come after these and may replace them; one that NewClient refuses fails the test.
func (s *Server) Client(opts ...idverify.Option) *idverify.Client {
	client, err := idverify.NewClient(s.url, s.Credentials(), s.withDefaults(opts)...)
	s.must(err)
	return client
}

// Verifier returns a verifier of the server's callbacks and redirects to the given hosts, at least
// one, with the server's keys and the clock that dates its signatures. A host that NewVerifier
// rejects fails the test.
func (s *Server) Verifier(hosts ...string) *signature.Verifier {
	keys, err := signature.NewJWKS(s.url+wire.JWKS.Path, &signature.JWKSOptions{HTTPClient: s.HTTPClient(), Now: s.Now})
	s.must(err)
	verifier, err := signature.NewVerifier(keys, hosts, &signature.VerifierOptions{CallbackHeader: s.opts.callbackHeader, Now: s.messageNow})
	s.must(err)
	return verifier
}

// messageNow returns the time on the clock that dates messages.
func (s *Server) messageNow() time.Time {
	svc := s.lock()
	defer svc.mu.Unlock()
	return svc.messageNow()
}

// Handle makes h answer at https://host, and at http://host on port 80, for callbacks, [Server.Device] and [Server.HTTPClient], without a socket and with a certificate that they trust. It returns the base URL.
// The host is a DNS name other than the service's own; a second handler for one host replaces the first. Another host fails the test.
func (s *Server) Handle(host string, h http.Handler) (baseURL string) {
	s.must(s.network.Handle(host, h))
	return "https://" + memnet.HostName(host)
}

// must reports a mistake of the test's author: to the test, or without one by a panic.
func (s *Server) must(err error) {
	if err == nil {
		return
	}
	if s.tb != nil {
		s.tb.Helper()
		s.tb.Fatalf("sandboxfake: %v", err)
	}
	panic(fmt.Sprintf("sandboxfake: %v", err))
}
