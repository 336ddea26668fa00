package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/signature"
)

// addr returns the host and port of a URL.
func addr(url string) string {
	_, hostport, _ := strings.Cut(url, "://")
	return hostport
}

// mappedShop starts a receiver on this machine whose public host is shop.example.com, and the
// program with -map. It returns the program and the requests that the receiver has verified.
func mappedShop(t *testing.T) (a announced, accepted chan *http.Request) {
	t.Helper()
	accepted = make(chan *http.Request, 8)
	var handler http.Handler
	ready := make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-ready
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(receiver.Close)
	_, a = startJSON(t, "-fixed-keys", "-map", "Shop.example.com="+addr(receiver.URL))
	keys, err := signature.NewJWKS(a.URL+"/.well-known/jwks.json", &signature.JWKSOptions{HTTPClient: a.client(t)})
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := signature.NewVerifier(keys, []string{"shop.example.com"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	callbacks := idverify.CallbackHandler(verifier, func(context.Context, *idverify.Callback) error { return nil })
	handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		accepted <- r
		callbacks.ServeHTTP(w, r)
	})
	close(ready)
	return a, accepted
}

func TestProgram_MapFlag(t *testing.T) {
	t.Parallel()
	a, accepted := mappedShop(t)
	for _, row := range []struct{ url, target, proto string }{
		{"https://shop.example.com/callbacks", "/callbacks", "https"},
		{"http://shop.example.com/callbacks", "/callbacks", "http"},
		{"https://SHOP.example.com:443", "/", "https"},
		// The signature covers the path and the query as the service sent them.
		{"https://shop.example.com//a/../b%2Fc%7e?b=2&a=1;c=%zz&d=a+b%20c&", "//a/../b%2Fc%7e?b=2&a=1;c=%zz&d=a+b%20c&", "https"},
		{"https://shop.example.com/callbacks?", "/callbacks?", "https"},
	} {
		delivery := a.deliver(t, row.url)

		r := <-accepted
		attempts := delivery["attempts"].([]any)
		if delivery["acknowledged"] != true || len(attempts) != 1 {
			t.Errorf("%s: delivery = %v, want it verified and acknowledged at the first attempt", row.url, delivery)
		}
		if r.RequestURI != row.target || r.Header.Get("X-Forwarded-Proto") != row.proto || r.Header.Get("X-Forwarded-Host") != r.Host || r.Header.Get("X-Forwarded-For") != "127.0.0.1" {
			t.Errorf("%s: request for %s with header %v, want %s and the headers of a proxy", row.url, r.RequestURI, r.Header, row.target)
		}
		// The receiver gets every header as signed and recorded, and the host of the URL.
		recorded := attempts[0].(map[string]any)["header"].(map[string]any)
		for name, values := range recorded {
			if diff := cmp.Diff(values, any(toAny(r.Header.Values(name)))); diff != "" {
				t.Errorf("%s: header %s (-recorded +received):\n%s", row.url, name, diff)
			}
		}
	}
}

func toAny(values []string) []any {
	var all []any
	for _, value := range values {
		all = append(all, value)
	}
	return all
}

// A delivery through -map has the same result as a direct one, whatever the receiver does.
func TestProgram_MapSameResult(t *testing.T) {
	t.Parallel()
	hijacked := func(response string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			io.WriteString(conn, response)
			conn.Close()
		}
	}
	for _, row := range []struct {
		name     string
		receiver http.HandlerFunc // nil: nothing listens, as on port 9
		fault    string
		result   string
		status   any
	}{
		{"down", nil, "", "unreachable", nil},
		{"connection lost before the response", hijacked(""), "", "unreachable", nil},
		{"malformed response", hijacked("SSH-2.0\r\n\r\n"), "", "unreachable", nil},
		{"connection lost in the header", hijacked("HTTP/1.1 204 No Con"), "", "unreachable", nil},
		{"connection lost after the header", hijacked("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"), "", "acknowledged", 200.0},
		{"connection lost in a chunked body", hijacked("HTTP/1.1 500 Internal Server Error\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"), "", "failed", 500.0},
		{"interim response", hijacked("HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"), "", "acknowledged", 204.0},
		{"chunked response", func(w http.ResponseWriter, _ *http.Request) {
			http.NewResponseController(w).Flush()
			io.WriteString(w, "thanks")
		}, "", "acknowledged", 200.0},
		{"long response", func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 1<<20)) }, "", "acknowledged", 200.0},
		{"redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, "", "rejected", 302.0},
		{"rejection", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, "", "rejected", 403.0},
		{"gateway error of the receiver", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, "", "failed", 502.0},
		{"truncated callback", func(http.ResponseWriter, *http.Request) {}, `{"truncate":true}`, "unreachable", nil},
		{"changed body", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }, `{"body":"{}"}`, "rejected", 400.0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			bodies := make(chan string, 8)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				bodies <- fmt.Sprintf("%d of %d bytes, complete: %v", len(body), r.ContentLength, err == nil)
				row.receiver(w, r)
			}))
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			server.Start()
			t.Cleanup(server.Close)
			direct := server.URL
			if row.receiver == nil {
				direct = "http://127.0.0.1:9"
			}
			p, a := startJSON(t, "-fixed-keys", "-map", "shop.example.com="+addr(direct))
			var results, errors []string
			for _, url := range []string{direct + "/callbacks", "http://shop.example.com/callbacks", "https://shop.example.com/callbacks"} {
				if row.fault != "" {
					a.control(t, http.MethodPost, "faults", `{"match":{"operation":"callback"},"faults":[`+row.fault+`]}`)
				}

				attempt := a.firstAttempt(t, url)

				if attempt["result"] != row.result || attempt["status"] != row.status {
					t.Errorf("%s: result %v with status %v (%v), want %s with %v", url, attempt["result"], attempt["status"], attempt["error"], row.result, row.status)
				}
				if row.receiver != nil {
					results = append(results, <-bodies)
				}
				errors = append(errors, fmt.Sprint(attempt["error"]))
			}

			p.stop(os.Interrupt) // it has then logged everything
			for i := range results {
				if results[i] != results[0] {
					t.Errorf("body through -map = %s\nwant that of the direct delivery, %s", results[i], results[0])
				}
			}
			if row.receiver == nil && !strings.Contains(p.log.String(), "sandboxfake: -map: no response from the receiver of shop.example.com: connection refused\n") {
				t.Errorf("the log does not say why the deliveries failed (%v):\n%s", errors, p.log.String())
			}
		})
	}
}

// firstAttempt queues a callback and returns its first attempt.
func (a announced) firstAttempt(t *testing.T, callbackURL string) map[string]any {
	t.Helper()
	check := a.create(t, a.token(t, a.client(t)), callbackURL)
	a.call(t, "", http.MethodGet, strings.TrimPrefix(check["_links"].(map[string]any)["check_url"].(map[string]any)["href"].(string), a.URL), "")
	for {
		deliveries := a.control(t, http.MethodGet, fmt.Sprintf("deliveries?check_id=%s", check["check_id"]), "")["deliveries"].([]any)
		if attempts := deliveries[0].(map[string]any)["attempts"].([]any); len(attempts) > 0 {
			return attempts[0].(map[string]any)
		}
		a.control(t, http.MethodPost, "idle", "")
	}
}

// It takes 10 s, the timeout of an attempt.
func TestProgram_MapTimeout(t *testing.T) {
	t.Parallel()
	disconnected := make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		close(disconnected)
	}))
	t.Cleanup(receiver.Close)
	p, a := startJSON(t, "-fixed-keys", "-map", "shop.example.com="+addr(receiver.URL))

	attempt := a.firstAttempt(t, "https://shop.example.com/callbacks")

	if attempt["result"] != "timed out" || strings.Contains(p.log.String(), "-map") {
		t.Errorf("attempt = %v, log %q, want a timeout and no failure of the receiver", attempt, p.log.String())
	}
	<-disconnected // the program does not wait longer than the service
}

func TestProgram_MapToTLS(t *testing.T) {
	t.Parallel()
	receiver := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	receiver.Config.ErrorLog = log.New(io.Discard, "", 0)
	receiver.StartTLS()
	t.Cleanup(receiver.Close)
	ca := writePEM(t, "CERTIFICATE", receiver.Certificate().Raw)
	_, port, err := net.SplitHostPort(addr(receiver.URL))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name, target string
		args         []string
		acknowledged bool
		log          string
	}{
		{"with its CA", receiver.URL + "/", []string{"-receiver-ca", ca}, true, ""},
		{"unknown CA", receiver.URL, nil, false, "unknown authority"},
		{"certificate for another name", "https://localhost:" + port, []string{"-receiver-ca", ca}, false, "the certificate is for another host"},
		{"without TLS", addr(receiver.URL), nil, false, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p, a := startJSON(t, append(row.args, "-fixed-keys", "-map", "shop.example.com="+row.target)...)

			delivery := a.deliver(t, "https://shop.example.com/callbacks")
			p.stop(os.Interrupt) // it has then logged everything

			if delivery["acknowledged"] != row.acknowledged || !strings.Contains(p.log.String(), row.log) {
				t.Errorf("acknowledged = %v, log %q, want %v and %q", delivery["acknowledged"], p.log.String(), row.acknowledged, row.log)
			}
		})
	}
}
