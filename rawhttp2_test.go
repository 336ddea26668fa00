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

// rawHTTP2 is an HTTP/2 server that misbehaves frame by frame: it does nothing but call react.
type rawHTTP2 struct {
	listener  net.Listener
	tls       *httptest.Server // for its certificate
	settings  []http2.Setting
	transport *http.Transport
	react     func(*rawStream, rawEvent)

	conns sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	open     map[net.Conn]bool
	dialed   []*net.TCPConn
	complete map[string]int // requests that arrived whole, by method and path
	streams  int            // requests whose headers arrived, except those for a token
}

// rawEvent is the part of a request that has just arrived.
type rawEvent int

const (
	headersReceived rawEvent = iota // the request is not complete yet
	requestReceived
)

// rawStream is one request. Its methods write frames and ignore errors: the client may have gone.
type rawStream struct {
	*http2.Framer
	conn         net.Conn
	id           uint32
	number       int // counts the requests from 1, over all connections, except those for a token
	method, path string
	ended        bool // nothing more is written to it
}

// newRawHTTP2 returns a running server, which ends with the test.
func newRawHTTP2(t testing.TB, react func(*rawStream, rawEvent), settings ...http2.Setting) *rawHTTP2 {
	t.Helper()
	s := &rawHTTP2{react: react, settings: settings, open: make(map[net.Conn]bool), complete: make(map[string]int)}
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

func (s *rawHTTP2) url() string { return "https://" + s.listener.Addr().String() }

// rawClients are a client and a console for one server.
type rawClients struct {
	client  *idverify.Client
	console *idverify.Console
}

func (s *rawHTTP2) clients(t testing.TB, opts ...idverify.Option) rawClients {
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
	return rawClients{client, console}
}

// wait ends what the client writes, and waits until all of it was read.
func (s *rawHTTP2) wait() {
	s.mu.Lock()
	for _, conn := range s.dialed {
		conn.CloseWrite()
	}
	s.mu.Unlock()
	s.conns.Wait()
}

// received returns how many requests with this method arrived whole, except those for a token.
func (s *rawHTTP2) received(method string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for request, times := range s.complete {
		if strings.HasPrefix(request, method+" ") && !strings.HasSuffix(request, " "+tokenPath) {
			n += times
		}
	}
	return n
}

// receivedTokens returns how many token requests arrived whole.
func (s *rawHTTP2) receivedTokens() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.complete["POST "+tokenPath]
}

func (s *rawHTTP2) serve(conn net.Conn) {
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
	streams := make(map[uint32]*rawStream)
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
			stream := &rawStream{Framer: framer, conn: conn, id: frame.StreamID, method: frame.PseudoValue("method"), path: frame.PseudoValue("path")}
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

func (s *rawHTTP2) headers(stream *rawStream) {
	if stream.path != tokenPath {
		s.mu.Lock()
		s.streams++
		stream.number = s.streams
		s.mu.Unlock()
	}
	s.react(stream, headersReceived)
}

func (s *rawHTTP2) end(stream *rawStream) {
	s.mu.Lock()
	s.complete[stream.method+" "+stream.path]++
	s.mu.Unlock()
	s.react(stream, requestReceived)
}

// withToken returns a reaction that issues tokens, and passes everything else to react.
func withToken(react func(*rawStream, rawEvent)) func(*rawStream, rawEvent) {
	return func(s *rawStream, event rawEvent) {
		switch {
		case s.path != tokenPath:
			react(s, event)
		case event == requestReceived:
			s.respondToken()
		}
	}
}

func (s *rawStream) respond(status int, body string) {
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

func (s *rawStream) respondToken() {
	s.respond(http.StatusOK, `{"access_token":"token-1","token_type":"bearer","expires_in":3600}`)
}

// reset ends the stream with RST_STREAM.
func (s *rawStream) reset(code http2.ErrCode) {
	if !s.ended {
		s.ended = true
		s.WriteRSTStream(s.id, code)
	}
}
