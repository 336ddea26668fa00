package sandboxfake_test

import (
	"fmt"
	"net/http"
	"runtime"
	"testing"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

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
		srv, err := sandboxfake.Start(sandboxfake.WithInMemory())
		if err != nil {
			t.Fatal(err)
		}
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
	if !raceDetector && max(each, all) > limit {
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
		srv, err := sandboxfake.Start(sandboxfake.WithInMemory())
		if err != nil {
			t.Fatal(err)
		}
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
