package proxytest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// behavior is how an armed backend handles requests. It calls act when it has read a complete
// request.
type behavior struct {
	name       string
	act        func(net.Conn, *http.Request) (open bool)
	idle       bool // closes idle connections when armed
	closeEarly bool // closes connections before it reads from them
	valid      bool // responds as the service does
}

// behaviors lists the behaviors that each operation is tested with.
var behaviors = []behavior{
	{name: "responds", act: respond, valid: true},
	{name: "closes idle connections", act: respond, idle: true, valid: true},
	{name: "closes before reading", act: hangUp, idle: true, closeEarly: true},
	{name: "closes", act: hangUp},
	{name: "resets", act: reset},
	{name: "truncates the header", act: truncated(20)},
	{name: "truncates the body", act: truncated(-5)},
	{name: "sends garbage", act: garbage},
}

// backend is a service on a TCP port. It responds correctly until it is armed.
type backend struct {
	behavior behavior
	listener net.Listener
	wg       sync.WaitGroup

	mu       sync.Mutex
	armed    bool
	closed   bool
	conns    map[net.Conn]bool
	requests []string // method and target of each complete request since arm
}

// startBackend starts a backend and stops it when the test ends.
func startBackend(t *testing.T, b behavior) *backend {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := &backend{behavior: b, listener: listener, conns: make(map[net.Conn]bool)}
	s.wg.Go(s.accept)
	t.Cleanup(func() {
		s.listener.Close()
		s.mu.Lock()
		s.closed = true
		s.closeConns()
		s.mu.Unlock()
		s.wg.Wait()
	})
	return s
}

// arm enables the behavior and clears the list of requests.
func (s *backend) arm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed, s.requests = true, nil
	if s.behavior.idle {
		s.closeConns()
	}
}

// received returns the complete requests since arm with the given method.
func (s *backend) received(method string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.requests), func(r string) bool { return !strings.HasPrefix(r, method+" ") })
}

// closeConns closes all connections. The caller holds mu.
func (s *backend) closeConns() {
	for conn := range s.conns {
		conn.Close()
	}
}

func (s *backend) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed || s.armed && s.behavior.closeEarly {
			conn.Close()
		} else {
			s.conns[conn] = true
			s.wg.Go(func() { s.serve(conn) })
		}
		s.mu.Unlock()
	}
}

func (s *backend) serve(conn net.Conn) {
	defer func() {
		conn.Close()
		s.mu.Lock()
		delete(s.conns, conn)
		s.mu.Unlock()
	}()
	reader := bufio.NewReader(conn)
	for {
		r, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return // incomplete request
		}
		act := respond
		s.mu.Lock()
		if s.armed {
			s.requests = append(s.requests, r.Method+" "+r.RequestURI)
			act = s.behavior.act
		}
		s.mu.Unlock()
		if !act(conn, r) {
			return
		}
	}
}

// respond responds as the service does.
func respond(conn net.Conn, r *http.Request) bool {
	_, err := io.WriteString(conn, response(r))
	return err == nil
}

func hangUp(net.Conn, *http.Request) bool { return false }

func reset(conn net.Conn, _ *http.Request) bool {
	conn.(*net.TCPConn).SetLinger(0)
	return false
}

// truncated sends the first n bytes of the response, or all but the last -n.
func truncated(n int) func(net.Conn, *http.Request) bool {
	return func(conn net.Conn, r *http.Request) bool {
		text := response(r)
		end := n
		if n < 0 {
			end += len(text)
		}
		io.WriteString(conn, text[:end])
		return false
	}
}

func garbage(conn net.Conn, _ *http.Request) bool {
	io.WriteString(conn, "\x16\x03\x01 this is not HTTP \x00\xff\r\n\r\nnor is this\r\n")
	return false
}

const (
	checkID     = "check-1"
	projectID   = "project-1"
	clientID    = "client-1"
	phoneNumber = "447700900000"
)

// response returns the response of the service to r.
func response(r *http.Request) string {
	check := `{"check_id":"` + checkID + `","status":"%s","phone_number":"` + phoneNumber + `"}`
	status := http.StatusOK
	var body string
	switch {
	case r.URL.Path == "/oauth2/v1/token":
		body = `{"access_token":"synthetic-access-token","token_type":"bearer","expires_in":3600}`
	case r.Method == http.MethodPost:
		status, body = http.StatusCreated, fmt.Sprintf(check, "ACCEPTED")
	case r.Method == http.MethodDelete:
		body = `{"deleted":true}` // the test truncates it
	case strings.Contains(r.URL.Path, "/credentials/"):
		body = `{"client_id":"` + clientID + `"}`
	default:
		body = fmt.Sprintf(check, "COMPLETED")
	}
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", status, http.StatusText(status), len(body), body)
}
