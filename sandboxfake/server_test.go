package sandboxfake_test

import (
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/sandboxfake"
)

func TestServer_URL(t *testing.T) {
	t.Parallel()
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ addr, host string }{
		{"127.0.0.1:0", "127.0.0.1"},
		{"localhost:0", "localhost"},
		{"0.0.0.0:0", "127.0.0.1"},
		{":0", "127.0.0.1"},
		{"[::]:0", "::1"},
		{"127.0.0.2:0", "127.0.0.2"},
		{name + ":0", name},
	} {
		t.Run(row.addr, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", row.addr)
			if err != nil {
				t.Skip("this machine does not have the address")
			}
			listener.Close()
			srv := sandboxfake.New(t, sandboxfake.WithAddr(row.addr), sandboxfake.WithFreshKeys())

			got := newAPI(t, srv).get(phoneChecks)

			host, _, err := net.SplitHostPort(strings.TrimPrefix(srv.URL(), "https://"))
			if err != nil || host != row.host || got.status != http.StatusOK {
				t.Errorf("URL = %s with status %d, want host %s with 200", srv.URL(), got.status, row.host)
			}
		})
	}
}

func TestWithFreshKeys_UniquePerServer(t *testing.T) {
	t.Parallel()
	first := newControlAPI(t, sandboxfake.WithFreshKeys())
	second := newControlAPI(t, sandboxfake.WithFreshKeys())
	verified := make(chan error, 1)
	target := first.srv.Handle("app.sandbox.test", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := first.srv.Verifier([]string{"app.sandbox.test"}, nil).VerifyCallback(r)
		verified <- err
	}))
	first.completeCheck(target)

	if err := <-verified; err != nil {
		t.Errorf("callback signed with a fresh key: %v", err)
	}
	keyOf := func(a *api) map[string]any {
		return a.get("/.well-known/jwks.json").json["keys"].([]any)[0].(map[string]any)
	}
	before := keyOf(first)
	if other := keyOf(second); before["n"] == other["n"] || before["kid"] == other["kid"] {
		t.Error("two servers of one seed share a fresh key or its ID, want different ones")
	}
	first.srv.RotateKeys()
	first.srv.Reset()
	if diff := cmp.Diff(before, keyOf(first)); diff != "" {
		t.Errorf("key after Reset differs from the first one (-want +got):\n%s", diff)
	}
}

func TestWithFreshKeys_RotateDuringReset(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFreshKeys())
	done := make(chan struct{})

	go func() {
		defer close(done)
		for range 2 {
			srv.RotateKeys()
		}
	}()
	for range 20 {
		srv.Reset()
	}
	<-done

	if got := (&api{t: t, srv: srv}).get("/.well-known/jwks.json"); got.status != http.StatusOK || len(got.json["keys"].([]any)) == 0 {
		t.Errorf("key set = %d %s, want 200 with keys", got.status, got.body)
	}
}
