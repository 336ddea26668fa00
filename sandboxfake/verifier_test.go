package sandboxfake_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

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
	if err := srv.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}

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
			tb := new(fatalTB)
			srv := sandboxfake.New(tb, sandboxfake.WithInMemory())
			t.Cleanup(func() { srv.Close() })

			message := tb.catch(func() { srv.Verifier(row.hosts, row.opts) })

			if !strings.Contains(message, row.want) {
				t.Errorf("failure message = %q, want it to contain %q", message, row.want)
			}
		})
	}
}
