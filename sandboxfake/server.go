package sandboxfake

import (
	"cmp"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/renewals"
	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/sandboxfake/internal/memnet"
	"github.com/idverify/idverify-go/signature"
)

// Server is a fake of the service: a TLS server that follows docs/protocol.md, with methods to
// control and inspect it. Create one with [New] or [Start]. All methods are safe for concurrent
// use.
type Server struct {
	opts         options
	tb           TB // nil for a server created by Start
	url          string
	publicURL    string // base of all links; empty without WithPublicURL
	network      *memnet.Network
	certificates *memnet.Certificates
	http         *httptest.Server
	control      http.Handler // nil without WithControl
	page         http.Handler // nil without ControlOptions.Page
	streams      atomic.Int32 // open event streams
	keySource    *keySource
	renewals     *renewals.Counter // of the server's clients and consoles
	recent       *recentEvents     // for the timeline of a failed test, or nil
	lifecycle    sync.Mutex        // held by Reset and Close until the goroutines of the old service have ended
	resets       uint64            // guarded by lifecycle

	// service is the current service. Reset replaces it while holding the mutex of the old service.
	// See lock.
	service atomic.Pointer[service]
}

// Errors of [Server.Advance], [Server.WaitIdle], [Server.WaitDelivery] and [Server.Redeliver], for
// errors.Is.
var (
	// ErrClosed means that the server was closed before or during the call.
	ErrClosed = errors.New("server closed")

	// ErrReset means that [Server.Reset] was called during the call.
	ErrReset = errors.New("server reset")
)

// New starts a server for a test, and closes it through tb.Cleanup. If the server cannot start, the
// test fails.
//
// If the test has failed when the server is closed, New writes the latest events of the server to
// the test's log: requests, callbacks, events of checks, faults, and changes of the clock and the
// keys. With the flag -artifacts of go test, it also writes them, with details, to timeline.html in
// the test's directory for artifacts. Both redact secrets, signatures and phone numbers;
// docs/testing.md describes the limits.
//
// To write the log, tb must have the methods Failed and Logf; to write the file, also ArtifactDir.
// *testing.T, *testing.B and *testing.F have all of them. [WithoutTimeline] turns the timeline off.
//
// In a testing/synctest bubble, create the server inside the bubble, with [WithInMemory].
func New(tb TB, opts ...Option) *Server {
	tb.Helper()
	s, err := start(tb, opts)
	if err != nil {
		tb.Fatalf("%v", err)
		return nil
	}
	tb.Cleanup(func() {
		tb.Helper()
		defer s.Close() // also after a FailNow in reportFailure
		s.reportFailure()
	})
	return s
}

// TB is the part of testing.TB that [New] uses. *testing.T, *testing.B and *testing.F implement it.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Start starts a server outside a test. The caller must close it. Methods that would fail the test
// of a server created by [New] panic instead.
//
// Start fails if an option is invalid, or if the server cannot listen on the address of [WithAddr].
func Start(opts ...Option) (*Server, error) { return start(nil, opts) }

// start starts a server of a test, or without one if tb is nil.
func start(tb TB, opts []Option) (*Server, error) {
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
		tb:           tb,
		recent:       o.recordFor(tb),
		network:      memnet.New(certificates, o.inMemory, fmt.Errorf("sandboxfake: %w", ErrClosed)),
		certificates: certificates,
		keySource:    keys,
	}
	s.renewals = renewals.NewCounter(s.signal)
	listener, err := s.listen()
	if err != nil {
		return nil, fmt.Errorf("sandboxfake: %w (the listen address must be host:port; port 0 selects a free port)", err)
	}
	first, err := s.newService(o.seed)
	if err != nil {
		listener.Close()
		return nil, fmt.Errorf("sandboxfake: %w", err)
	}
	s.recent.begin(first.clock.Now(), first.clock.Frozen())
	s.service.Store(first)
	if o.control != nil && o.control.Page != nil {
		if s.page = o.control.Page(s); s.page == nil {
			listener.Close()
			return nil, errors.New("sandboxfake: control: Page returned no handler")
		}
	}
	s.control = s.controlPlane()
	if err := s.serveOn(listener); err != nil {
		listener.Close()
		return nil, fmt.Errorf("sandboxfake: %w", err)
	}
	return s, nil
}

// newService returns a new service for the server. Its IDs are derived from seed.
func (s *Server) newService(seed uint64) (*service, error) {
	svc, err := newService(&s.opts, s.PublicURL(), s.network.Transport(), s.keySource, seed)
	if err == nil {
		svc.renewals, svc.recent, svc.generation = s.renewals, s.recent, s.resets
	}
	return svc, err
}

// signal wakes all callers that wait for a change.
func (s *Server) signal() {
	svc := s.lock()
	defer svc.mu.Unlock()
	svc.signal()
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

// Close stops the server. It cancels callbacks in flight and closes all connections. Methods that
// are waiting return [ErrClosed]. Close returns when all goroutines of the server have ended.
// Further calls do nothing.
//
// Close cancels the contexts of outstanding requests and waits for their handlers, including the
// handlers of [Server.Handle]. It closes connections that are still in use after a second. Do not
// call it from a handler. The error is always nil.
func (s *Server) Close() error {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	svc := s.lock()
	if svc.ended != nil {
		svc.mu.Unlock()
		return nil
	}
	svc.end(ErrClosed)
	s.recent.add(recent{kind: recentClose, at: svc.clock.Now()})
	svc.mu.Unlock()
	svc.running.Wait()
	s.network.Close()
	memnet.CloseServer(s.http)
	return nil
}

// Reset restores the initial state. It removes all checks, tokens and faults, and all workspaces
// and projects except the initial ones, and clears the journals. A frozen clock returns to its
// initial time, and a running clock to the system's time. Hosts of [Server.Handle] remain.
//
// Reset cancels callbacks that are in flight or due later, and aborts calls that a [Fault] delays.
// Methods that are waiting return [ErrReset]. The same calls then return the same IDs as before,
// unless [WithNewIDsAfterReset] is set. After Close, Reset does nothing. Do not call it from a
// handler.
func (s *Server) Reset() { s.reset(nil) }

// reset implements Reset. The new IDs are derived from seed or, if it is nil, from the seed that
// the options determine.
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
	s.recent.add(recent{kind: recentReset, at: fresh.clock.Now()})
	s.service.Store(fresh)
	svc.mu.Unlock()
	svc.running.Wait()
}

// URL returns the base URL of the service, on this machine. Its certificate is signed by the
// server's own authority, or is that of [WithCertificate]. [Server.HTTPClient] accepts both. Pass
// that client to idverify.WithHTTPClient and signature.JWKSOptions. [Server.Client] and
// [Server.Verifier] already use it.
func (s *Server) URL() string { return s.url }

// HTTPClient returns a client that reaches the server and the hosts of [Server.Handle] and trusts
// their certificates. Each call returns a new client; all share one transport.
func (s *Server) HTTPClient() *http.Client { return &http.Client{Transport: s.network.Transport()} }

// CACertPEM returns the CA certificate of the server, PEM-encoded, for clients in other processes.
// This CA can sign only for loopback and the hosts of [WithAddr] and [WithPublicURL]. Another CA
// signs the certificates of hosts of [Server.Handle]. Unless [WithFreshKeys] is set, the CA's
// private key is public: trust it in tests only.
//
// With [WithCertificate], the root certificate of that certificate follows, if it is known.
func (s *Server) CACertPEM() []byte {
	encoded := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.certificates.Exported.Certificate.Raw})
	if own := s.opts.certificate; own != nil && own.Root != nil {
		encoded = append(encoded, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Root.Raw})...)
	}
	return encoded
}

// Now returns the time on the server's clock.
func (s *Server) Now() time.Time {
	svc := s.lock()
	defer svc.mu.Unlock()
	return svc.clock.Now()
}

// Credentials returns the credentials of the initial project: a sandbox project, or with
// [WithLiveProject] a live project. They can obtain tokens for the product scopes.
func (s *Server) Credentials() idverify.Credentials {
	svc := s.lock()
	defer svc.mu.Unlock()
	return svc.initial.project
}

// ConsoleCredentials returns the credentials of the owner of the initial workspace. They can obtain
// tokens for the management scopes.
func (s *Server) ConsoleCredentials() idverify.Credentials {
	svc := s.lock()
	defer svc.mu.Unlock()
	return svc.initial.workspace
}

// Client returns a client of the initial project that uses the server's HTTP client and clock.
// Options in opts are applied after these and can override them. If NewClient rejects an option,
// the test fails. The client has [Server.Credentials]: to test a CredentialsSource, call
// NewClient with [Server.URL] and [Server.HTTPClient] instead.
func (s *Server) Client(opts ...idverify.Option) *idverify.Client {
	client, err := idverify.NewClient(s.url, s.Credentials(), s.withDefaults(opts)...)
	s.must(err)
	return client
}

// Verifier returns a verifier of the server's callbacks and redirects to the given hosts, with the
// server's keys. opts may be nil and is not modified. For fields that are zero, Now is the server's
// clock for signatures, and CallbackHeader is the server's. If NewVerifier rejects the hosts or the
// options, the test fails.
//
// A fetch of the keys has no time limit of its own, because the usual 3 s can be too short on a
// busy machine. If a fault for the operation "jwks.get" is injected, the usual limit applies.
func (s *Server) Verifier(hosts []string, opts *signature.VerifierOptions) *signature.Verifier {
	var o signature.VerifierOptions
	if opts != nil {
		o = *opts
	}
	o.CallbackHeader = cmp.Or(o.CallbackHeader, s.opts.callbackHeader)
	if o.Now == nil {
		o.Now = s.messageNow
	}
	keys, err := signature.NewJWKS(s.url+wire.JWKS.Path, &signature.JWKSOptions{HTTPClient: &http.Client{Transport: keySetTransport{s}}, Now: s.Now})
	s.must(err)
	verifier, err := signature.NewVerifier(keys, hosts, &o)
	s.must(err)
	return verifier
}

// keySetTransport sends the requests of [Server.Verifier]. Their deadlines apply only if a fault
// for the key set is injected.
type keySetTransport struct{ server *Server }

func (t keySetTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	context.AfterFunc(r.Context(), func() {
		// A fault may have been injected after the request began.
		if errors.Is(r.Context().Err(), context.Canceled) || t.server.hasKeySetFault() {
			cancel()
		}
	})
	return t.server.network.Transport().RoundTrip(r.WithContext(ctx))
}

// hasKeySetFault reports whether an injection matches requests for the key set.
func (s *Server) hasKeySetFault() bool {
	svc := s.lock()
	defer svc.mu.Unlock()
	return slices.ContainsFunc(svc.injections, func(i *injection) bool { return i.match.matches(wire.JWKS.Name, nil, nil, "") })
}

// Handle serves https://host, and http://host on port 80, with h, and returns the base URL. The
// host is in memory: only callbacks, [Server.Device] and [Server.HTTPClient] can reach it. They
// trust its certificate.
//
// The host must be a DNS name other than the service's own; otherwise the test fails. Handling a
// host again replaces its handler.
func (s *Server) Handle(host string, h http.Handler) (baseURL string) {
	s.must(s.network.Handle(host, h))
	return "https://" + memnet.HostName(host)
}

// must fails the test, or panics without one, if err is not nil.
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
// host. With a certificate of the user, which these clients may not trust, it also handles those to
// the server's own host.
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
