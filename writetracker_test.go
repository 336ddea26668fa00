package idverify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"

	idverify "github.com/idverify/idverify-go"
)

// Writing to a dead connection fails before anything arrives, so the client sends the request over
// another connection.
func TestClient_RetriesDeadConnection(t *testing.T) {
	t.Parallel()
	server := newHTTP2Server(t, withToken(func(s *http2Stream, event http2Event) {
		if event == requestReceived {
			s.respond(http.StatusCreated, createOperation.response)
		}
	}))
	plain := newService(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, createOperation.response)
	})
	plainTransport := plain.Client().Transport.(*http.Transport).Clone()
	plainTransport.DialContext = new(net.Dialer).DialContext
	for _, tt := range []struct {
		name, url string
		transport *http.Transport
		creates   func() int
	}{
		{"HTTP/1.1", plain.URL, plainTransport, func() int { return len(plain.calls()) }},
		{"HTTP/2", server.url(), server.transport, func() int { server.wait(); return server.received(http.MethodPost) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var first *failingConn
			dial := tt.transport.DialContext
			tt.transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dial(ctx, network, addr)
				if first != nil || err != nil {
					return conn, err
				}
				first = &failingConn{Conn: conn}
				return first, nil
			}
			c := must(idverify.NewClient(tt.url, credentials, idverify.WithHTTPClient(&http.Client{Transport: tt.transport}), idverify.WithRetry(defaultRetries)))(t)
			must(c.Token(t.Context(), idverify.ScopePhoneCheck))(t)
			first.broken.Store(true)

			_, err := c.PhoneChecks.Create(t.Context(), createParams)

			if n := tt.creates(); err != nil || n != 1 {
				t.Errorf("creates = %d, error = %v, want 1 and no error", n, err)
			}
		})
	}
}

// failingConn is a connection whose writes fail once broken is set.
type failingConn struct {
	net.Conn
	broken atomic.Bool
}

func (c *failingConn) Write(p []byte) (int, error) {
	if c.broken.Load() {
		return 0, syscall.EPIPE
	}
	return c.Conn.Write(p)
}

// The client sends a request at most twice over HTTP/1.1, even if every idle connection is dead.
func TestClient_LimitsWritesOverHTTP1(t *testing.T) {
	t.Parallel()
	const connections = 6
	var dying atomic.Bool
	var primed sync.WaitGroup
	primed.Add(connections)
	srv := newService(t, func(w http.ResponseWriter, r *http.Request) {
		if dying.Load() {
			panic(http.ErrAbortHandler)
		}
		primed.Done()
		primed.Wait() // until every request has its own connection
		fmt.Fprint(w, getOperation.response)
	})
	transport := srv.Client().Transport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = connections
	c := srv.client(t, idverify.WithHTTPClient(&http.Client{Transport: transport}), withoutRetries)
	get := func() error { return errorOf(c.PhoneChecks.Get(t.Context(), "c")) }
	for err := range concurrently(connections, get) {
		noError(t, err)
	}
	before := len(srv.calls())
	dying.Store(true)

	err := get()

	if n := len(srv.calls()) - before; err == nil || n > 2 {
		t.Errorf("requests in one attempt = %d, error = %v, want at most 2 and an error", n, err)
	}
	if errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want one that is not context.Canceled: the caller did not cancel", err)
	}
}

// A transport cannot read the body of an attempt that has failed.
func TestClient_BodyUnreadableAfterAttempt(t *testing.T) {
	t.Parallel()
	var bodies []io.Reader
	var getBody func() (io.ReadCloser, error)
	c := newTransportClient(t, func(r *http.Request) (*http.Response, error) {
		bodies = append(bodies, r.Body)
		if getBody == nil {
			getBody = r.GetBody
		}
		if len(bodies) == 1 {
			io.ReadFull(r.Body, make([]byte, 5))
			return nil, errors.New("lost")
		}
		rest, _ := io.ReadAll(bodies[0])
		if len(rest) > 0 {
			t.Errorf("read %d bytes from the body of a failed attempt, want 0", len(rest))
		}
		if _, err := getBody(); err == nil {
			t.Error("GetBody of a failed attempt succeeded, want an error")
		}
		return response(http.StatusCreated, []byte(createOperation.response)), nil
	})

	_, err := c.PhoneChecks.Create(t.Context(), createParams)

	if err != nil || len(bodies) != 2 {
		t.Errorf("attempts = %d, error = %v, want 2 and no error: the first attempt wrote only part of the request", len(bodies), err)
	}
}

// Retrying transports copy the body with GetBody. Only one of the copies can be read to the end.
func TestClient_LimitsBodyCopies(t *testing.T) {
	t.Parallel()
	c := newTransportClient(t, func(r *http.Request) (*http.Response, error) {
		copied, err := r.GetBody()
		if err != nil {
			t.Errorf("GetBody before the first read: error = %v, want nil", err)
			return nil, err
		}
		if _, err := io.ReadAll(r.Body); err != nil {
			t.Errorf("read the body: error = %v, want nil", err)
		}
		if rest, err := io.ReadAll(copied); err == nil {
			t.Errorf("read all %d bytes of the second copy, want an error", len(rest))
		}
		if _, err := r.GetBody(); err == nil {
			t.Error("GetBody succeeded after the request was sent, want an error")
		}
		return nil, errors.New("lost")
	})

	_, err := c.PhoneChecks.Create(t.Context(), createParams)

	if !errors.Is(err, idverify.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "outcome unknown: lost; the check may exist") {
		t.Errorf("error = %v, want ErrOutcomeUnknown and the cause", err)
	}
}

// Transports rely on Content-Length, on the end of the body, and on Close.
func TestClient_RequestBody(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(io.ReadCloser) ([]byte, error){
		"at once":      func(b io.ReadCloser) ([]byte, error) { return io.ReadAll(b) },
		"byte by byte": func(b io.ReadCloser) ([]byte, error) { return io.ReadAll(iotest.OneByteReader(b)) },
	} {
		c := newTransportClient(t, func(r *http.Request) (*http.Response, error) {
			body, err := read(r.Body)
			var sent struct {
				PhoneNumber string `json:"phone_number"`
			}
			if err == nil {
				err = json.Unmarshal(body, &sent)
			}
			if err != nil || sent.PhoneNumber != createParams.PhoneNumber || r.ContentLength != int64(len(body)) {
				t.Errorf("%s: body = %q (%d bytes), Content-Length = %d, error = %v, want the JSON of the parameters", name, body, len(body), r.ContentLength, err)
			}
			return response(http.StatusCreated, []byte(createOperation.response)), nil
		})

		if _, err := c.PhoneChecks.Create(t.Context(), createParams); err != nil {
			t.Errorf("%s: Create: error = %v, want nil", name, err)
		}
	}

	c := newTransportClient(t, func(r *http.Request) (*http.Response, error) {
		r.Body.Close()
		if n, err := r.Body.Read(make([]byte, 100)); n > 0 || err == nil || err == io.EOF {
			t.Errorf("Read after Close = %d, %v, want 0 and an error other than io.EOF", n, err)
		}
		return nil, errors.New("lost")
	})
	if _, err := c.PhoneChecks.Create(t.Context(), createParams); err == nil || errors.Is(err, idverify.ErrOutcomeUnknown) {
		t.Errorf("error = %v, want one that does not match ErrOutcomeUnknown: nothing was read", err)
	}
}

// A transport that does not support net/http/httptrace may have sent the DELETE that failed, so 404
// from the second attempt means that the credentials were deleted.
func TestProjectCredentialsService_DeleteRetry(t *testing.T) {
	t.Parallel()
	var attempts atomic.Int32
	c := must(idverify.NewConsole("https://idverify.sandbox.test", credentials, idverify.WithRetry(fastRetries), idverify.WithHTTPClient(&http.Client{
		Transport: tokenTransport(func(*http.Request) (*http.Response, error) {
			if attempts.Add(1) == 1 {
				return nil, errors.New("lost")
			}
			return response(http.StatusNotFound, []byte(`{"type":"https://docs.example/reference/api-errors#not_found"}`)), nil
		}),
	})))(t)

	err := c.ProjectCredentials.Delete(t.Context(), "project", "client")

	if n := attempts.Load(); err != nil || n != 2 {
		t.Errorf("attempts = %d, error = %v, want 2 and no error: the first may have deleted the credentials", n, err)
	}
}
