package idverify_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	idverify "github.com/idverify/idverify-go"
)

// http2Server is an HTTP/2 server for tests of single frames. It passes the parts of each request
// to react, which writes the response.
type http2Server struct {
	listener  net.Listener
	tls       *httptest.Server // for its certificate
	settings  []http2.Setting
	transport *http.Transport
	react     func(*http2Stream, http2Event)

	conns sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	open     map[net.Conn]bool
	dialed   []*net.TCPConn
	complete map[string]int // complete requests, by method and path
	streams  int            // requests whose headers arrived, except token requests
}

// http2Event is the part of a request that has arrived.
type http2Event int

const (
	headersReceived http2Event = iota // without the end of the request
	requestReceived
)

// http2Stream is one request. Its methods write frames and ignore errors, because the client may
// have closed the connection.
type http2Stream struct {
	*http2.Framer
	conn         net.Conn
	id           uint32
	number       int // of the request, from 1, over all connections, without token requests
	method, path string
	ended        bool // do not write any more
}

// newHTTP2Server starts a server and closes it at the end of the test.
func newHTTP2Server(t testing.TB, react func(*http2Stream, http2Event), settings ...http2.Setting) *http2Server {
	t.Helper()
	s := &http2Server{react: react, settings: settings, open: make(map[net.Conn]bool), complete: make(map[string]int)}
	s.tls = httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(s.tls.Close)
	config := s.tls.TLS.Clone()
	config.NextProtos = []string{"h2"}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	s.listener = listener
	s.transport = s.tls.Client().Transport.(*http.Transport).Clone()
	s.transport.ForceAttemptHTTP2 = true
	s.transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.dialed = append(s.dialed, conn.(*net.TCPConn))
		return conn, nil
	}
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.open[conn] = true
			s.mu.Unlock()
			s.conns.Go(func() { s.serve(conn) })
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-accepting
		s.mu.Lock()
		for conn := range s.open {
			conn.Close()
		}
		s.mu.Unlock()
		s.conns.Wait()
	})
	return s
}

func (s *http2Server) url() string { return "https://" + s.listener.Addr().String() }

// http2Clients contains a client and a console for one server.
type http2Clients struct {
	client  *idverify.Client
	console *idverify.Console
}

func (s *http2Server) clients(t testing.TB, opts ...idverify.Option) http2Clients {
	t.Helper()
	opts = append([]idverify.Option{idverify.WithHTTPClient(&http.Client{Transport: s.transport}), idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"})}, opts...)
	client, err := idverify.NewClient(s.url(), credentials, opts...)
	if err != nil {
		t.Fatal(err)
	}
	console, err := idverify.NewConsole(s.url(), credentials, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return http2Clients{client, console}
}

// wait closes the client's connections for writing, and waits until the server has read everything.
func (s *http2Server) wait() {
	s.mu.Lock()
	for _, conn := range s.dialed {
		conn.CloseWrite()
	}
	s.mu.Unlock()
	s.conns.Wait()
}

// received returns the number of complete requests with this method, without token requests.
func (s *http2Server) received(method string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for request, times := range s.complete {
		if strings.HasPrefix(request, method+" ") && !strings.HasSuffix(request, " "+tokenPath) {
			n += times
		}
	}
	return n
}

// receivedTokens returns the number of complete token requests.
func (s *http2Server) receivedTokens() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.complete["POST "+tokenPath]
}

func (s *http2Server) serve(conn net.Conn) {
	defer func() {
		conn.Close()
		s.mu.Lock()
		delete(s.open, conn)
		s.mu.Unlock()
	}()
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(conn, preface); err != nil || string(preface) != http2.ClientPreface {
		return
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	framer.WriteSettings(s.settings...)
	streams := make(map[uint32]*http2Stream)
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			if _, ok := errors.AsType[http2.StreamError](err); ok {
				continue
			}
			return
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				framer.WritePing(true, frame.Data)
			}
		case *http2.MetaHeadersFrame:
			stream := &http2Stream{Framer: framer, conn: conn, id: frame.StreamID, method: frame.PseudoValue("method"), path: frame.PseudoValue("path")}
			streams[frame.StreamID] = stream
			s.headers(stream)
			if frame.StreamEnded() {
				s.end(stream)
			}
		case *http2.DataFrame:
			if stream := streams[frame.StreamID]; stream != nil && frame.StreamEnded() {
				s.end(stream)
			}
		}
	}
}

func (s *http2Server) headers(stream *http2Stream) {
	if stream.path != tokenPath {
		s.mu.Lock()
		s.streams++
		stream.number = s.streams
		s.mu.Unlock()
	}
	s.react(stream, headersReceived)
}

func (s *http2Server) end(stream *http2Stream) {
	s.mu.Lock()
	s.complete[stream.method+" "+stream.path]++
	s.mu.Unlock()
	s.react(stream, requestReceived)
}

// withToken returns a function that issues tokens and passes other requests to react.
func withToken(react func(*http2Stream, http2Event)) func(*http2Stream, http2Event) {
	return func(s *http2Stream, event http2Event) {
		switch {
		case s.path != tokenPath:
			react(s, event)
		case event == requestReceived:
			s.respondToken()
		}
	}
}

func (s *http2Stream) respond(status int, body string) {
	if s.ended {
		return
	}
	s.ended = true
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	encoder.WriteField(hpack.HeaderField{Name: ":status", Value: strconv.Itoa(status)})
	encoder.WriteField(hpack.HeaderField{Name: "content-type", Value: "application/json"})
	s.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: body == ""})
	if body != "" {
		s.WriteData(s.id, true, []byte(body))
	}
}

func (s *http2Stream) respondToken() {
	s.respond(http.StatusOK, `{"access_token":"token-1","token_type":"bearer","expires_in":3600}`)
}

// reset closes the stream with RST_STREAM.
func (s *http2Stream) reset(code http2.ErrCode) {
	if !s.ended {
		s.ended = true
		s.WriteRSTStream(s.id, code)
	}
}
