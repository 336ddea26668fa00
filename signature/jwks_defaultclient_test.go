package signature_test

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/signature"
)

// Environment variables of the process that TestJWKS_DefaultClient starts. It needs its own
// process, because certificates and proxies are read once per process, and all tests share
// http.DefaultTransport.
const (
	childURL      = "IDVERIFY_TEST_KEY_SET_URL"
	childReplaced = "IDVERIFY_TEST_REPLACED_TRANSPORT"
)

// TestJWKS_DefaultClient fetches key sets without an HTTPClient, in a separate process.
func TestJWKS_DefaultClient(t *testing.T) {
	t.Parallel()
	if url := os.Getenv(childURL); url != "" {
		fetchInChild(t, url)
		return
	}
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		t.Skip("SSL_CERT_FILE has no effect on this system")
	}
	for _, tt := range []struct {
		name   string
		http2  bool
		env    string
		header int // size of the response headers
		want   string
	}{
		{"HTTP/1.1", false, "", 0, "found HTTP/1.1"},
		{"HTTP/2", true, "", 0, "found HTTP/2.0"},
		{"through a proxy", true, "HTTPS_PROXY", 0, "found HTTP/2.0"},
		{"HTTP/1.1 with large headers", false, "", 60 << 10, "found HTTP/1.1"},
		{"HTTP/2 with large headers", true, "", 60 << 10, "found HTTP/2.0"},
		{"HTTP/1.1 with headers above 64 KiB", false, "", 70 << 10, "exceeded 65536 bytes"},
		{"HTTP/2 with headers above 64 KiB", true, "", 70 << 10, "get key set: "},
		{"replaced default transport", true, childReplaced, 0, "replaced transport used\nfound HTTP/2.0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			closed := make(chan struct{}, 1)
			var protocol string
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				protocol = r.Proto
				w.Header().Set("X-Pad", strings.Repeat("a", tt.header))
				fmt.Fprint(w, keySet(jwk("a", "service-1")))
			}))
			srv.EnableHTTP2 = tt.http2
			srv.Config.ErrorLog = log.New(io.Discard, "", 0)
			srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateClosed {
					select {
					case closed <- struct{}{}:
					default:
					}
				}
			}
			srv.StartTLS()
			defer srv.Close()
			certificate := filepath.Join(t.TempDir(), "ca.pem")
			if err := os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
				t.Fatal(err)
			}
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestJWKS_DefaultClient$")
			child.Env = append(os.Environ(), "SSL_CERT_FILE="+certificate, "SSL_CERT_DIR="+t.TempDir(), childURL+"="+srv.URL)
			switch tt.env {
			case childReplaced:
				child.Env = append(child.Env, childReplaced+"=1")
			case "HTTPS_PROXY":
				proxy := httptest.NewServer(connectTo(srv.Listener.Addr().String()))
				defer proxy.Close()
				// Loopback addresses are never proxied, and example.com is in the test certificate.
				child.Env = append(child.Env, "HTTPS_PROXY="+proxy.URL, "NO_PROXY=", "no_proxy=", childURL+"=https://example.com/")
			}
			var output bytes.Buffer
			child.Stdout, child.Stderr = &output, &output
			stdin, err := child.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}

			<-closed // before the process ends: the client must not keep the connection
			stdin.Close()
			err = child.Wait()

			if got := strings.ReplaceAll(output.String(), "found", "found "+protocol); err != nil || !strings.Contains(got, tt.want) {
				t.Errorf("child error = %v, output = %q, want %q", err, got, tt.want)
			}
		})
	}
}

// fetchInChild prints the result of a key lookup and waits until standard input is closed.
func fetchInChild(t *testing.T, url string) {
	original := http.DefaultTransport.(*http.Transport)
	if os.Getenv(childReplaced) != "" {
		http.DefaultTransport = roundTrip(func(r *http.Request) (*http.Response, error) {
			fmt.Println("replaced transport used")
			return original.RoundTrip(r)
		})
	}
	j, err := signature.NewJWKS(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.PublicKey(t.Context(), "a"); err != nil {
		fmt.Println(err)
	} else {
		fmt.Println("found")
	}
	if original.MaxResponseHeaderBytes != 0 {
		t.Error("http.DefaultTransport was modified")
	}
	io.Copy(io.Discard, os.Stdin)
}

// connectTo returns a proxy that connects every CONNECT request to the given address.
func connectTo(address string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		to, err := net.Dial("tcp", address)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer to.Close()
		w.WriteHeader(http.StatusOK)
		from, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer from.Close()
		go func() {
			io.Copy(to, buffered)
			to.Close()
		}()
		io.Copy(from, to)
	}
}
