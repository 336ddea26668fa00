package sandboxfake_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// A client that never sends the rest of a body loses its connection after 30 seconds.
func TestServer_BodyTimeout(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, request, part string
		status              string
	}{
		{"service", "POST /oauth2/v1/token HTTP/1.1\r\nContent-Length: 100\r\n", "grant", "HTTP/1.1 401 "},
		{"service, nothing sent", "POST /oauth2/v1/token HTTP/1.1\r\nContent-Length: 100\r\n", "", "HTTP/1.1 401 "},
		{"service, chunked", "POST /oauth2/v1/token HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", "5\r\ngrant\r\n", "HTTP/1.1 401 "},
		{"unread body", "OPTIONS /oauth2/v1/token HTTP/1.1\r\nContent-Length: 100\r\n", "", "HTTP/1.1 204 "},
		{"control plane", "POST /_sandbox/advance HTTP/1.1\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n", `{"sec`, "HTTP/1.1 400 "},
		{"control plane without token", "POST /_sandbox/advance HTTP/1.1\r\nContent-Length: 100\r\n", "", "HTTP/1.1 401 "},
		{"page", "POST /_sandbox/open/a-check HTTP/1.1\r\nContent-Length: 100\r\n", "as=", "HTTP/1.1 200 "},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := newPageAPI(t)
				conn, host := a.dial()
				conn.SetReadDeadline(time.Now().Add(time.Hour))
				started := time.Now()

				_, err := fmt.Fprintf(conn, "%sHost: %s\r\n\r\n%s", strings.ReplaceAll(row.request, "%s", a.srv.ControlToken()), host, row.part)
				if err != nil {
					t.Fatal(err)
				}
				response, err := io.ReadAll(conn)

				if waited := time.Since(started); errors.Is(err, os.ErrDeadlineExceeded) || waited != 30*time.Second {
					t.Errorf("connection closed after %v (%v), want 30s", waited, err)
				}
				if !strings.HasPrefix(string(response), row.status) {
					t.Errorf("response = %q, want %q", response, row.status)
				}
			})
		})
	}
}

// The deadline of a body must not end a request that takes longer, or the next one on its
// connection.
func TestServer_BodyTimeoutEnds(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, method, path, body string
		status                   int
	}{
		{"delayed call", http.MethodPost, phoneChecks, `{"phone_number":"447700900012"}`, 503},
		{"delayed call of the control plane", http.MethodPost, "/_sandbox/checks", `{"phone_number":"447700900012"}`, 200},
		{"body that is not used", http.MethodGet, "/_sandbox/deliveries?wait_seconds=60&check_id=", `{"phone_number":"447700900012"}`, 200},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := newControlAPI(t)
				if strings.HasSuffix(row.path, "check_id=") {
					row.path += a.create(phoneChecks, row.body)
				} else {
					a.srv.Inject(sandboxfake.Match{Operation: "phone_check.create"}, sandboxfake.Fault{Latency: time.Minute, Status: 503})
				}
				request := a.request(row.method, row.path, row.body)
				request.Header.Set("Content-Type", "application/json")
				request.Header.Set("Authorization", "Bearer "+a.token)
				if strings.HasPrefix(row.path, "/_sandbox/") {
					request.Header = bearer(a.srv.ControlToken())
					request.Header.Set("Content-Type", "application/json")
				}
				started := time.Now()

				got := a.do(request)

				if waited := time.Since(started); got.status != row.status || waited != time.Minute {
					t.Errorf("%d after %v, want %d after 1m0s: %s", got.status, waited, row.status, got.body)
				}
				time.Sleep(time.Minute)
				if got := a.post(phoneChecks, `{"phone_number":"447700900012"}`); got.status != http.StatusCreated {
					t.Errorf("next request = %d %s, want 201", got.status, got.body)
				}
			})
		})
	}
}

// An event stream whose request has a body does not end with the deadline of the body.
func TestServer_BodyTimeoutEndsBeforeStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newControlAPI(t)
		conn, host := a.dial()
		conn.SetReadDeadline(time.Now().Add(5 * time.Minute))

		_, err := fmt.Fprintf(conn, "GET /_sandbox/events HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: 2\r\n\r\n{}", host, a.srv.ControlToken())
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(conn)

		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the stream ended (%v), want it to last", err)
		}
	})
}

// A client that reads no responses loses its connection after 30 seconds.
func TestServer_WriteTimeout(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, request string }{
		{"service", "GET /.well-known/jwks.json HTTP/1.1\r\n"},
		{"service, preflight", "OPTIONS " + phoneChecks + " HTTP/1.1\r\n"},
		{"control plane", "GET /_sandbox/health HTTP/1.1\r\n"},
		{"page", "GET /_sandbox/page/ HTTP/1.1\r\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := newPageAPI(t)
				conn, host := a.dial()
				conn.SetDeadline(time.Now().Add(75 * time.Second))
				started := time.Now()

				_, err := io.WriteString(conn, strings.Repeat(row.request+"Host: "+host+"\r\n\r\n", 3000))

				// After the timeout, crypto/tls waits another 5 s for the client to read its alert.
				if waited := time.Since(started); err == nil || waited < 30*time.Second || waited > 35*time.Second {
					t.Errorf("requests sent for %v (%v), want a connection that is closed after 30 to 35 s", waited, err)
				}
			})
		})
	}
}

// A client that reads slowly gets the whole response.
func TestServer_WriteTimeoutSlowReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newControlAPI(t)
		for range 32 { // more than fits into the buffers of the connection
			a.call(http.MethodPost, phoneChecks, strings.Repeat("x", 8<<10))
		}
		request := a.request(http.MethodGet, "/_sandbox/requests", "")
		request.Header = bearer(a.srv.ControlToken())
		response, err := a.srv.HTTPClient().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		started := time.Now()

		var read int64
		for err == nil {
			time.Sleep(10 * time.Second)
			var n int64
			n, err = io.CopyN(io.Discard, response.Body, 16<<10)
			read += n
		}

		if err != io.EOF || read != response.ContentLength || time.Since(started) < 2*time.Minute {
			t.Errorf("%d bytes read in %v (%v), want %d", read, time.Since(started), err, response.ContentLength)
		}
	})
}
