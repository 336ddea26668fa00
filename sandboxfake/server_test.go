package sandboxfake_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

func TestServer_URL(t *testing.T) {
	t.Parallel()
	name := must(os.Hostname())(t)
	fresh := []sandboxfake.Option{sandboxfake.WithFreshKeys()}
	for _, row := range []struct {
		addr, host string
		opts       []sandboxfake.Option
	}{
		{"127.0.0.1:0", "127.0.0.1", nil},
		{"localhost:0", "localhost", nil},
		{"0.0.0.0:0", "127.0.0.1", nil},
		{":0", "127.0.0.1", nil},
		{"[::]:0", "::1", nil},
		{"[::]:0", "::1", fresh},
		{"127.0.0.2:0", "127.0.0.2", fresh},
		{name + ":0", name, fresh},
	} {
		t.Run(row.addr, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", row.addr)
			if err != nil {
				t.Skip("this machine does not have the address")
			}
			listener.Close()
			srv := sandboxfake.New(t, append(row.opts, sandboxfake.WithAddr(row.addr))...)

			got := newAPI(t, srv).get(phoneChecks)

			host, _, err := net.SplitHostPort(strings.TrimPrefix(srv.URL(), "https://"))
			if err != nil || host != row.host || got.status != http.StatusOK {
				t.Errorf("URL = %s with status %d, want host %s with 200", srv.URL(), got.status, row.host)
			}
		})
	}
}

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
				srv := must(sandboxfake.Start(sandboxfake.WithInMemory(), sandboxfake.WithControl(sandboxfake.ControlOptions{})))(t)
				a := newAPI(t, srv)
				// The journal does not fit into the buffers of the connection.
				for range 32 {
					a.call(http.MethodPost, phoneChecks, strings.Repeat("x", 8<<10))
				}
				conn, _ := a.dial()
				must(io.WriteString(conn, strings.Replace(row.request, "%s", srv.ControlToken(), 1)))(t)
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

// TestServer_VerifierOptions delivers a callback through a proxy that changes the host, and then a
// copy of it.
func TestServer_VerifierOptions(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	var log strings.Builder
	var mu sync.Mutex // guards reasons and log
	var reasons []string
	opts := signature.VerifierOptions{
		Target: func(r *http.Request) (host, requestURI string) { return r.Header.Get("X-Forwarded-Host"), "" },
		Replay: signature.NewMemoryReplayStore(0),
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Observe: func(_ context.Context, v signature.Verification) {
			mu.Lock()
			defer mu.Unlock()
			reasons = append(reasons, v.Reason)
		},
	}
	handler := srv.Verifier([]string{"app.sandbox.test"}, &opts).RequireCallback(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	url := srv.Handle("app.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("X-Forwarded-Host", r.Host)
		r.Host = "10.0.0.7:8080"
		handler.ServeHTTP(w, r)
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}))

	newAPI(t, srv).completeCheck(url)
	waitIdle(t, srv)

	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(reasons, []string{"", "ErrReplay"}) {
		t.Errorf("reasons = %q, want none for the callback and ErrReplay for its copy", reasons)
	}
	if !strings.Contains(log.String(), "reason=ErrReplay") {
		t.Errorf("log = %q, want the copy", log.String())
	}
	if opts.Now != nil || opts.CallbackHeader != "" {
		t.Error("the options were modified")
	}
}

// TestServer_VerifierOwnClock uses a clock that differs from the server's by more than the skew.
func TestServer_VerifierOwnClock(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	late := signature.VerifierOptions{Now: func() time.Time { return frozenAt.Add(time.Minute) }}
	results := make(chan error, 2)
	url := srv.Handle("app.sandbox.test", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		for _, opts := range []*signature.VerifierOptions{&late, nil} {
			_, err := srv.Verifier([]string{"app.sandbox.test"}, opts).VerifyCallback(r)
			results <- err
		}
	}))

	newAPI(t, srv).completeCheck(url)

	if err := <-results; err == nil || !strings.Contains(err.Error(), "1m0s old") {
		t.Errorf("with a clock that is a minute ahead: error = %v, want ErrSkew", err)
	}
	if err := <-results; err != nil {
		t.Errorf("with the clock of the server: error = %v, want none", err)
	}
}

func TestServer_VerifierInvalid(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		hosts []string
		opts  *signature.VerifierOptions
		want  string
	}{
		"no host":       {nil, nil, "host"},
		"URL as host":   {[]string{"https://app.sandbox.test"}, nil, "host"},
		"negative skew": {[]string{"app.sandbox.test"}, &signature.VerifierOptions{ClockSkew: -1}, "ClockSkew"},
		"header name":   {[]string{"app.sandbox.test"}, &signature.VerifierOptions{CallbackHeader: "a b"}, "CallbackHeader"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tb := fatalTB{t}
			srv := sandboxfake.New(tb, sandboxfake.WithInMemory())

			message := tb.catch(func() { srv.Verifier(row.hosts, row.opts) })

			if !strings.Contains(message, row.want) {
				t.Errorf("failure message = %q, want it to contain %q", message, row.want)
			}
		})
	}
}

// TestServer_VerifierSlowKeySet fetches a key set whose response takes 4 s, longer than the limit.
func TestServer_VerifierSlowKeySet(t *testing.T) {
	t.Parallel()
	for operation, want := range map[string]error{"none": nil, "phone_check.create": nil, "jwks.get": signature.ErrKeySource} {
		t.Run("fault: "+operation, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithRequestLog(writerFunc(func(p []byte) {
					if strings.Contains(string(p), "jwks.get") {
						time.Sleep(4 * time.Second) // of the bubble's clock
					}
				})))
				location := newAPI(t, srv).location(`{"phone_number":"447700900012","redirect_url":"https://app.sandbox.test/"}`)
				if operation != "none" {
					srv.Inject(sandboxfake.Match{Operation: operation}, sandboxfake.Fault{})
				}

				_, err := srv.Verifier([]string{"app.sandbox.test"}, nil).VerifyRedirect(browserRequest(location, "app.sandbox.test"))

				if !errors.Is(err, want) {
					t.Errorf("error = %v, want %v", err, want)
				}
			})
		})
	}
}

// heap returns the bytes in use on the heap and in stacks.
func heap() uint64 {
	// Collect several times: one collection only queues finalizers, and only halves large stacks.
	for range 5 {
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc + stats.StackInuse
}

// This test measures the memory of the process, so it does not call t.Parallel.
func TestServer_MemoryPerServer(t *testing.T) {
	// All servers exist at the same time. A tenth of them has handled requests and has an open
	// connection.
	const servers, connected, limit = 2000, 200, 64 << 10
	newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory())) // creates what all servers share
	before := heap()
	alive := make([]*sandboxfake.Server, 0, servers)
	start := func() *sandboxfake.Server {
		t.Helper()
		srv := must(sandboxfake.Start(sandboxfake.WithInMemory()))(t)
		t.Cleanup(func() { srv.Close() })
		alive = append(alive, srv)
		return srv
	}
	for range connected {
		newAPI(t, start()).get(phoneChecks)
	}

	each := (heap() - before) / connected
	for range servers - connected {
		start()
	}
	all := (heap() - before) / servers

	t.Logf("%d KiB per server with a connection, %d KiB on average", each>>10, all>>10)
	if !tooltest.RaceDetector() && max(each, all) > limit {
		t.Errorf("a server uses %d bytes with a connection, %d on average, want at most %d", each, all, limit)
	}
	for _, srv := range []*sandboxfake.Server{alive[0], alive[servers-1]} {
		if r := newAPI(t, srv).get(phoneChecks); r.status != 200 {
			t.Errorf("status among 2,000 servers = %d, want 200", r.status)
		}
	}
}

// This test measures the memory of the process, so it does not call t.Parallel.
func TestServer_MemoryPerCheck(t *testing.T) {
	const checks, limit = 20_000, 600
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	before := heap()

	srv.StoreChecks(checks)

	each := (heap() - before) / checks
	t.Logf("%d bytes per unopened check with a callback URL", each)
	if each > limit {
		t.Errorf("a check uses %d bytes, want at most %d", each, limit)
	}
	runtime.KeepAlive(srv)
}

// A bubble fails the test if a goroutine does not end.
func TestServer_CloseStopsGoroutines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := must(sandboxfake.Start(sandboxfake.WithInMemory()))(t)
		a := newAPI(t, srv)
		app := newBlockingReceiver()
		for i := range 10 {
			a.completeCheck(srv.Handle(fmt.Sprintf("app%d.sandbox.test", i), app))
			<-app.received
		}
		a.get(phoneChecks)

		srv.Close()

		if _, err := srv.HTTPClient().Get(srv.URL()); err == nil {
			t.Error("closed server responds, want an error")
		}
		if _, err := srv.HTTPClient().Get(srv.Handle("late.sandbox.test", http.NotFoundHandler())); err == nil {
			t.Error("host added after Close responds, want an error")
		}
	})
}

func TestServer_IsolatesServers(t *testing.T) {
	t.Parallel()
	one, other := sandboxfake.New(t, sandboxfake.WithInMemory()), sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithSeed(1))
	mine, theirs := newAPI(t, one), newAPI(t, other)
	id := mine.create(phoneChecks, `{"phone_number":"447700900012"}`)

	theirs.get(phoneChecks+"/"+id).wantProblem(t, 404, "check_not_found")
	theirs.token = mine.token
	theirs.get(phoneChecks).wantProblem(t, 401, "unauthorized")

	host := one.Handle("app.sandbox.test", http.NotFoundHandler())
	if _, err := other.HTTPClient().Get(host); err == nil {
		t.Error("another server's client reaches the host, want an error")
	}
}

func TestServer_RejectsPlainHTTP(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t)

	response, err := http.Get("http" + strings.TrimPrefix(srv.URL(), "https") + phoneChecks)

	noError(t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("plain HTTP = %d, want 400", response.StatusCode)
	}
}
