package signature_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/signature"
)

// missing is the finding of Explain for a body that did not arrive.
const missing = "body: cannot be examined: body could not be read: not received before the context ended: "

// observedBody reports when its first Read begins and ends.
type observedBody struct {
	io.ReadCloser
	began, ended chan struct{}
}

func (b observedBody) Read(p []byte) (int, error) {
	close(b.began)
	defer close(b.ended)
	return b.ReadCloser.Read(p)
}

// unfinishedCallback returns a signed callback to a server, without its body.
func unfinishedCallback(t *testing.T, server *httptest.Server, receiver string) *http.Request {
	t.Helper()
	r := callbackRequest(t, server.URL+"/callbacks").WithContext(t.Context())
	r.Host = host
	sign(t, r, body)
	r.Host, r.ContentLength = receiver, int64(len(body))
	return r
}

// A server receives the headers of a callback, but not its body. Explain must return when its
// context ends, and its goroutine must end with the request at the latest.
func TestVerifier_ExplainEndsWithContext(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		host:                {"not explained: message: callback not verified: body incomplete", missing + "context canceled"},
		"other.example.com": {"not explained: message: callback not verified: host not allowed", "host: signed for " + host, missing + "context canceled"},
	} {
		for _, protocol := range []string{"HTTP/1.1", "HTTP/1.1, kept alive", "HTTP/2.0"} {
			t.Run(name+"/"+protocol, func(t *testing.T) {
				t.Parallel()
				v := newVerifier(t, signature.VerifierOptions{})
				began, ended, explanations := make(chan struct{}), make(chan struct{}), make(chan signature.Explanation, 1)
				server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					ctx, cancel := context.WithCancel(r.Context())
					defer cancel()
					r.Body = observedBody{r.Body, began, ended}
					go func() {
						<-began
						cancel()
					}()

					got := v.Explain(ctx, r, nil)

					if n, err := r.Body.Read(make([]byte, 1)); n != 0 || !errors.Is(err, context.Canceled) {
						t.Errorf("Read after Explain = %d, %v; want the error of the context", n, err)
					}
					if err := r.Body.Close(); err != nil {
						t.Errorf("Close after Explain = %v, want nil", err)
					}
					if protocol == "HTTP/1.1" {
						w.Header().Set("Connection", "close") // otherwise net/http reads the body before it responds
					}
					explanations <- got
				}))
				server.Config.ErrorLog = log.New(io.Discard, "", 0)
				server.EnableHTTP2 = protocol == "HTTP/2.0"
				server.StartTLS()
				t.Cleanup(server.Close)
				r := unfinishedCallback(t, server, name)
				var closeConn func() error
				if protocol == "HTTP/2.0" {
					connect(t, server)
					content, end := io.Pipe()
					r.Body, r.GetBody, closeConn = content, nil, end.Close
					go func() {
						if resp, err := server.Client().Do(r); err == nil {
							resp.Body.Close()
						}
					}()
				} else {
					conn := must(tls.Dial("tcp", server.Listener.Addr().String(), server.Client().Transport.(*http.Transport).TLSClientConfig))(t)
					closeConn = conn.Close
					w := bufio.NewWriter(conn)
					fmt.Fprintf(w, "POST /callbacks HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", name, len(body))
					noError(t, r.Header.Write(w))
					fmt.Fprint(w, "\r\n")
					noError(t, w.Flush())
				}

				got := <-explanations
				if protocol == "HTTP/1.1, kept alive" {
					closeConn()
				}
				<-ended
				closeConn()

				checkExplanation(t, got, want)
			})
		}
	}
}

// slowBody returns its parts with a pause before each of them, and then waits until it is closed.
func slowBody(pause time.Duration, parts ...string) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		for _, part := range parts {
			time.Sleep(pause)
			if _, err := io.WriteString(w, part); err != nil {
				return
			}
		}
		if strings.Join(parts, "") == body {
			w.Close()
		}
	}()
	return r
}

// The bubble fails if a goroutine is left.
func TestVerifier_ExplainSlowBody(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		parts   []string
		timeout time.Duration // of the context; 0 means none
		took    time.Duration
		want    string // last line
	}{
		"in time":        {[]string{body[:1], body[1:9], body[9:]}, 10 * time.Second, 3 * time.Second, "verified"},
		"no timeout":     {[]string{body[:1], body[1:9], body[9:]}, 0, 3 * time.Second, "verified"},
		"never":          {nil, 10 * time.Second, 10 * time.Second, missing + "context deadline exceeded"},
		"never complete": {[]string{body[:9]}, 10 * time.Second, 10 * time.Second, missing + "context deadline exceeded"},
		"too late":       {[]string{body[:1], body[1:9], body[9:]}, 2500 * time.Millisecond, 2500 * time.Millisecond, missing + "context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := request(t, signedCallback())
				r.Body, r.ContentLength = slowBody(time.Second, tt.parts...), int64(len(body))
				ctx := context.Background()
				if tt.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.timeout)
					defer cancel()
				}
				start := time.Now()

				got := newVerifier(t, signature.VerifierOptions{}).Explain(ctx, r, nil)

				if took := time.Since(start); took != tt.took {
					t.Errorf("Explain took %v, want %v", took, tt.took)
				}
				lines := linesOf(got)
				if last := lines[len(lines)-1]; !strings.HasPrefix(last, tt.want) {
					t.Errorf("lines = %q, want the last one %q", lines, tt.want)
				}
				left, err := io.ReadAll(r.Body)
				if verified := tt.want == "verified"; verified && (string(left) != body || err != nil) || !verified && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("body after Explain = %q, %v", left, err)
				}
				time.Sleep(time.Hour) // the sender gives up
			})
		})
	}
}

// A context that ends after Explain has returned does not affect the rest of the body.
func TestVerifier_ExplainReleasesBody(t *testing.T) {
	t.Parallel()
	const size = 100_000
	for name, change := range map[string]func(*http.Request){
		"not read":  func(r *http.Request) { r.Header.Del("Authorization") },
		"too large": func(*http.Request) {},
	} {
		r := request(t, signedCallback())
		r.Body, r.ContentLength = restored([]byte(strings.Repeat("a", size))), -1
		change(r)
		ctx, cancel := context.WithCancel(t.Context())

		newVerifier(t, signature.VerifierOptions{MaxBody: 10}).Explain(ctx, r, nil)
		cancel()

		if left, err := io.ReadAll(r.Body); len(left) != size || err != nil {
			t.Errorf("%s: %d bytes after Explain, %v; want %d", name, len(left), err, size)
		}
	}
}

// panickingBody panics when it is read.
type panickingBody struct{ io.ReadCloser }

func (panickingBody) Read([]byte) (int, error) { panic(http.ErrAbortHandler) }

// A panic of the body must reach the caller, not end the process.
func TestVerifier_ExplainBodyPanics(t *testing.T) {
	t.Parallel()
	r := request(t, signedCallback())
	r.Body = panickingBody{r.Body}
	defer func() {
		if p := recover(); p != http.ErrAbortHandler {
			t.Errorf("panic = %v, want that of the body", p)
		}
	}()

	newVerifier(t, signature.VerifierOptions{}).Explain(t.Context(), r, nil)

	t.Error("Explain returned, want the panic of the body")
}
