package sandboxfake_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// A client that stalls must not keep the server from closing: the program would ignore SIGTERM.
func TestServer_CloseWithStalledClient(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, request string }{
		{"incomplete body", "POST " + phoneChecks + " HTTP/1.1\r\nHost: idverify.sandbox.test\r\nContent-Length: 10\r\n\r\n{"},
		{"response not read", "GET /_sandbox/requests HTTP/1.1\r\nHost: idverify.sandbox.test\r\nAuthorization: Bearer %s\r\n\r\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				srv, err := sandboxfake.Start(sandboxfake.WithInMemory(), sandboxfake.WithControl(sandboxfake.ControlOptions{}))
				if err != nil {
					t.Fatal(err)
				}
				a := newAPI(t, srv)
				// The journal does not fit into the buffers of the connection.
				for range 32 {
					a.call(http.MethodPost, phoneChecks, strings.Repeat("x", 8<<10))
				}
				raw, err := srv.HTTPClient().Transport.(*http.Transport).DialContext(t.Context(), "tcp", "idverify.sandbox.test:443")
				if err != nil {
					t.Fatal(err)
				}
				conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
				defer conn.Close()
				if _, err := io.WriteString(conn, strings.Replace(row.request, "%s", srv.ControlToken(), 1)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				started := time.Now()

				srv.Close()

				if waited := time.Since(started); waited > 2*time.Second {
					t.Errorf("Close returned after %v, want about a second", waited)
				}
			})
		})
	}
}
