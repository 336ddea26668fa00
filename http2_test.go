package idverify_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/tooltest"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// streamFault is a failure of a request: apply runs when the event at has happened.
type streamFault struct {
	name  string
	at    http2Event
	apply func(*http2Stream)
}

// streamFaults returns the faults of an HTTP/2 request, before and after the request is complete:
// RST_STREAM with each code, GOAWAY with an earlier, the current or a later stream as the last
// processed one, and a closed connection.
func streamFaults() []streamFault {
	var faults []streamFault
	for _, at := range []struct {
		name  string
		event http2Event
	}{{"before END_STREAM", headersReceived}, {"after END_STREAM", requestReceived}} {
		add := func(name string, apply func(*http2Stream)) {
			faults = append(faults, streamFault{name + " " + at.name, at.event, apply})
		}
		for code := http2.ErrCodeNo; code <= http2.ErrCodeHTTP11Required; code++ {
			add("RST_STREAM "+code.String(), func(s *http2Stream) { s.reset(code) })
		}
		for _, code := range []http2.ErrCode{http2.ErrCodeNo, http2.ErrCodeProtocol, http2.ErrCodeEnhanceYourCalm} {
			add("GOAWAY before the stream "+code.String(), func(s *http2Stream) {
				s.ended = true
				s.WriteGoAway(max(s.id, 2)-2, code, nil)
			})
			for position, last := range map[string]func(id uint32) uint32{
				"before the stream":  func(id uint32) uint32 { return max(id, 2) - 2 },
				"at the stream":      func(id uint32) uint32 { return id },
				"after every stream": func(uint32) uint32 { return 1<<31 - 1 },
			} {
				add("GOAWAY "+position+", then closed "+code.String(), func(s *http2Stream) {
					s.WriteGoAway(last(s.id), code, nil)
					s.conn.Close()
				})
			}
		}
		add("connection closed", func(s *http2Stream) { s.conn.Close() })
	}
	return faults
}

// http2Operation is an operation, with its response and a function that calls it.
type http2Operation struct {
	name, method string
	response     string
	call         func(context.Context, http2Clients) error
}

var (
	createOperation = http2Operation{"Create", http.MethodPost, `{"check_id":"c","status":"ACCEPTED"}`, func(ctx context.Context, c http2Clients) error {
		return errorOf(c.client.PhoneChecks.Create(ctx, createParams))
	}}
	completeOperation = http2Operation{"Complete", http.MethodPatch, `{"check_id":"c","status":"COMPLETED","match":true}`, func(ctx context.Context, c http2Clients) error {
		return errorOf(c.client.PhoneChecks.Complete(ctx, "c", "code"))
	}}
	resetOperation = http2Operation{"Reset", http.MethodPost, `{"client_id":"client","client_secret":"another-secret"}`, func(ctx context.Context, c http2Clients) error {
		return errorOf(c.console.WorkspaceCredentials.ResetSecret(ctx, "member", "client"))
	}}
	getOperation = http2Operation{"Get", http.MethodGet, `{"check_id":"c","status":"COMPLETED","match":true}`, func(ctx context.Context, c http2Clients) error {
		return errorOf(c.client.PhoneChecks.Get(ctx, "c"))
	}}
	deleteOperation = http2Operation{"Delete", http.MethodDelete, "", func(ctx context.Context, c http2Clients) error {
		return c.console.ProjectCredentials.Delete(ctx, "project", "client")
	}}
	putOperation = http2Operation{"UpdateAccount", http.MethodPut, `{"company_name":"c"}`, func(ctx context.Context, c http2Clients) error {
		return errorOf(c.console.Billing.Update(ctx, idverify.BillingAccount{CompanyName: "c"}))
	}}
)

// defaultRetries permits the default number of attempts, with waits of at most a millisecond.
var defaultRetries = idverify.RetryPolicy{MinWait: time.Microsecond, MaxWait: time.Millisecond, AttemptTimeout: patience}

// The client never repeats a POST or PATCH that was written completely, even if HTTP/2 guarantees
// that the stream was not processed: a proxy may send REFUSED_STREAM after its backend has
// processed the request.
func TestClient_WritesOnceOverHTTP2(t *testing.T) {
	t.Parallel()
	for _, op := range []http2Operation{createOperation, completeOperation, resetOperation} {
		for _, fault := range streamFaults() {
			for _, then := range []string{"then a response", "always"} {
				t.Run(fmt.Sprintf("%s/%s/%s", op.name, fault.name, then), func(t *testing.T) {
					t.Parallel()
					srv := newHTTP2Server(t, withToken(func(s *http2Stream, event http2Event) {
						switch {
						case event == fault.at && (s.number == 1 || then == "always"):
							fault.apply(s)
						case event == requestReceived:
							s.respond(http.StatusOK, op.response)
						}
					}))

					ctx := withDeadline(t, time.Minute)
					err := op.call(ctx, srv.clients(t, idverify.WithRetry(defaultRetries)))

					srv.wait()
					switch n := srv.received(op.method); {
					case n > 1:
						t.Errorf("complete requests = %d, want at most 1: each may be charged (error %v)", n, err)
					case err == nil && n != 1:
						t.Errorf("error = nil after %d complete requests, want 1 request", n)
					}
					if err == nil && fault.at == requestReceived {
						t.Error("error = nil, want an error: the only complete request had no response")
					}
					// The outcome is known only if the client could retry to the end, because it never wrote a
					// complete body.
					gaveUp := err != nil && strings.HasSuffix(err.Error(), " [4 attempts]") && srv.received(op.method) == 0
					if err != nil && !gaveUp && !errors.Is(err, idverify.ErrOutcomeUnknown) {
						t.Errorf("error = %q, want ErrOutcomeUnknown", err)
					}
					if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("error = %v, want one that is not the caller's cancellation", err)
					}
				})
			}
		}
	}
}

// Without a limit net/http repeats a request without a body each time that the server resets it.
func TestClient_LimitsWritesOverHTTP2(t *testing.T) {
	t.Parallel()
	for _, op := range []http2Operation{getOperation, deleteOperation, putOperation} {
		for _, fault := range streamFaults() {
			t.Run(op.name+"/"+fault.name, func(t *testing.T) {
				t.Parallel()
				srv := newHTTP2Server(t, withToken(func(s *http2Stream, event http2Event) {
					if event == fault.at {
						fault.apply(s)
					}
				}))

				err := op.call(withDeadline(t, time.Minute), srv.clients(t, withoutRetries))

				srv.wait()
				if n := srv.received(op.method); n > 2 || err == nil {
					t.Errorf("requests in one attempt = %d, error = %v, want at most 2 and an error", n, err)
				}
				if errors.Is(err, idverify.ErrOutcomeUnknown) || errors.Is(err, context.Canceled) {
					t.Errorf("error = %v, want a connection error: the operation is idempotent", err)
				}
			})
		}
	}
}

// The client writes a token request at most twice. Without a token it does not send the operation.
func TestClient_LimitsTokenWritesOverHTTP2(t *testing.T) {
	t.Parallel()
	for _, fault := range streamFaults() {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			srv := newHTTP2Server(t, func(s *http2Stream, event http2Event) {
				if event == fault.at {
					fault.apply(s)
				}
			})

			err := createOperation.call(withDeadline(t, time.Minute), srv.clients(t, withoutRetries))

			srv.wait()
			if n := srv.receivedTokens(); n > 2 || err == nil {
				t.Errorf("token requests in one attempt = %d, error = %v, want at most 2 and an error", n, err)
			}
			if n := srv.received(http.MethodPost); n != 0 {
				t.Errorf("creates = %d, want 0: there is no token", n)
			}
			if errors.Is(err, idverify.ErrOutcomeUnknown) || errors.Is(err, context.Canceled) {
				t.Errorf("error = %v, want a connection error: the check was not sent", err)
			}
		})
	}
}

// If the first write of an idempotent request is lost, the request succeeds in the same attempt.
func TestClient_ResendsRefusedStream(t *testing.T) {
	t.Parallel()
	for _, op := range []http2Operation{getOperation, putOperation} {
		t.Run(op.name, func(t *testing.T) {
			t.Parallel()
			var tokens atomic.Int32
			srv := newHTTP2Server(t, func(s *http2Stream, event http2Event) {
				switch {
				case event != requestReceived:
				case s.path == tokenPath && tokens.Add(1) == 1, s.path != tokenPath && s.number == 1:
					s.reset(http2.ErrCodeRefusedStream)
				case s.path == tokenPath:
					s.respondToken()
				default:
					s.respond(http.StatusOK, op.response)
				}
			})

			err := op.call(t.Context(), srv.clients(t, withoutRetries))

			srv.wait()
			if n, tokens := srv.received(op.method), srv.receivedTokens(); err != nil || n != 2 || tokens != 2 {
				t.Errorf("requests = %d, token requests = %d, error = %v, want 2, 2 and no error", n, tokens, err)
			}
		})
	}
}

// 404 after the second write of a DELETE means that the first write has deleted the resource.
func TestClient_DeleteAfterLostWrite(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		op   http2Operation
		want error
	}{{deleteOperation, nil}, {getOperation, idverify.ErrNotFound}} {
		t.Run(tt.op.name, func(t *testing.T) {
			t.Parallel()
			srv := newHTTP2Server(t, withToken(func(s *http2Stream, event http2Event) {
				switch {
				case event != requestReceived:
				case s.number == 1:
					s.reset(http2.ErrCodeRefusedStream)
				default:
					s.respond(http.StatusNotFound, `{"type":"https://docs.example/reference/api-errors#not_found"}`)
				}
			}))

			err := tt.op.call(t.Context(), srv.clients(t, withoutRetries))

			srv.wait()
			if n := srv.received(tt.op.method); n != 2 || !errors.Is(err, tt.want) {
				t.Errorf("requests = %d, error = %v, want 2 and %v", n, err, tt.want)
			}
		})
	}
}

// The client uses another connection if it knows that the idle one is closed. The request arrives
// once.
func TestClient_ClosedIdleConnection(t *testing.T) {
	t.Parallel()
	for name, goAway := range map[string]bool{"GOAWAY": true, "closed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			closed := make(chan struct{}) // by both sides
			srv := newHTTP2Server(t, withToken(func(s *http2Stream, event http2Event) {
				switch {
				case event != requestReceived:
				case s.number == 1:
					s.respond(http.StatusOK, getOperation.response)
					if goAway {
						s.WriteGoAway(s.id, http2.ErrCodeNo, nil)
					}
					s.conn.(*tls.Conn).CloseWrite()
					io.Copy(io.Discard, s.conn)
					close(closed)
				default:
					s.respond(http.StatusCreated, createOperation.response)
				}
			}))
			c := srv.clients(t, idverify.WithRetry(defaultRetries))
			noError(t, getOperation.call(t.Context(), c))
			<-closed

			err := createOperation.call(t.Context(), c)

			srv.wait()
			if n := srv.received(http.MethodPost); err != nil || n != 1 {
				t.Errorf("creates = %d, error = %v, want 1 and no error", n, err)
			}
		})
	}
}

// http2Server is an HTTP/2 server for tests of single frames. It passes the parts of each request
// to react, which writes the response.
type http2Server struct {
	listener  net.Listener
	tls       *httptest.Server // for its certificate
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
func newHTTP2Server(t testing.TB, react func(*http2Stream, http2Event)) *http2Server {
	t.Helper()
	s := &http2Server{react: react, open: make(map[net.Conn]bool), complete: make(map[string]int)}
	s.tls = httptest.NewUnstartedServer(http.NotFoundHandler())
	s.tls.TLS = tooltest.TLSConfig(t)
	s.tls.StartTLS()
	t.Cleanup(s.tls.Close)
	config := s.tls.TLS.Clone()
	config.NextProtos = []string{"h2"}
	s.listener = must(tls.Listen("tcp", "127.0.0.1:0", config))(t)
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
			conn, err := s.listener.Accept()
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
		s.listener.Close()
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
	opts = append([]idverify.Option{idverify.WithHTTPClient(&http.Client{Transport: s.transport}), v02}, opts...)
	client := must(idverify.NewClient(s.url(), credentials, opts...))(t)
	console := must(idverify.NewConsole(s.url(), credentials, opts...))(t)
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
	framer.WriteSettings()
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
