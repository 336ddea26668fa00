package sandboxfake_test

import (
	"fmt"
	"net/http"
	"runtime"
	"testing"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// heap is how many bytes are in use, on the heap and in stacks.
func heap() uint64 {
	// Several times: a collection only queues what has a finalizer, and halves a stack that has become too large.
	for range 5 {
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc + stats.StackInuse
}

// It runs alone, without t.Parallel: it measures the memory of the process.
func TestServer_MemoryPerServer(t *testing.T) {
	// All are alive at once; a tenth of them, which is measured, has answered and keeps the connection.
	const servers, answering, limit = 2000, 200, 64 << 10
	newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory())) // what all servers share is made with the first
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
	for range answering {
		newAPI(t, start()).get(phoneChecks)
	}

	each := (heap() - before) / answering
	for range servers - answering {
		start()
	}
	all := (heap() - before) / servers

	t.Logf("%d KiB a server with a connection, %d KiB over all", each>>10, all>>10)
	if !raceDetector && max(each, all) > limit {
		t.Errorf("a server takes %d bytes with a connection, %d over all, want at most %d", each, all, limit)
	}
	for _, srv := range []*sandboxfake.Server{alive[0], alive[servers-1]} {
		if r := newAPI(t, srv).get(phoneChecks); r.status != 200 {
			t.Errorf("among 2,000 a server answers %d", r.status)
		}
	}
}

// It runs alone, without t.Parallel: it measures the memory of the process.
func TestServer_MemoryPerCheck(t *testing.T) {
	const checks, limit = 20_000, 600
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	before := heap()

	srv.StoreChecks(checks)

	each := (heap() - before) / checks
	t.Logf("%d bytes a check with a callback URL that waits for its Check URL to be opened", each)
	if each > limit {
		t.Errorf("a check takes %d bytes, want at most %d", each, limit)
	}
	runtime.KeepAlive(srv)
}

// A bubble ends only when every goroutine in it has: one that outlives Close fails the test.
func TestServer_CloseStopsGoroutines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv, err := sandboxfake.Start(sandboxfake.WithInMemory())
		if err != nil {
			t.Fatal(err)
		}
		a := newAPI(t, srv)
		app := newHolding()
		for i := range 10 {
			a.finish(srv.Handle(fmt.Sprintf("app%d.sandbox.test", i), app))
			<-app.came
		}
		a.get(phoneChecks)

		srv.Close()

		if _, err := srv.HTTPClient().Get(srv.URL()); err == nil {
			t.Error("a closed server answers")
		}
		if _, err := srv.HTTPClient().Get(srv.Handle("late.sandbox.test", http.NotFoundHandler())); err == nil {
			t.Error("a host answers that came after Close")
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
		t.Error("a host of one server answers to the other's client")
	}
}
