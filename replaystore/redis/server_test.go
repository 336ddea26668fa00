package redis_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/idverify/idverify-go/replaystore/redis"
)

func TestMain(m *testing.M) {
	goredis.SetLogger(discard{}) // it reports each connection that cannot be had
	m.Run()
}

type discard struct{}

func (discard) Printf(context.Context, string, ...any) {}

// server is a redis-server of a test, with its files in a directory of its own. It listens on a socket there, so no port can be taken.
type server struct {
	dir    string
	args   []string
	output bytes.Buffer

	mu      sync.Mutex // guards process
	process *exec.Cmd
}

// startServer starts a redis-server and stops it when the test is over.
func startServer(t testing.TB, args ...string) *server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("there is no redis-server on this machine: install it, for example with apt-get install redis-server")
	}
	dir, err := os.MkdirTemp("", "redis") // t.TempDir is too long for the name of a socket
	if err != nil {
		t.Fatal(err)
	}
	s := &server{dir: dir, args: args}
	t.Cleanup(func() {
		s.kill()
		os.RemoveAll(dir)
		if t.Failed() {
			t.Logf("redis-server said:\n%s", s.output.Bytes())
		}
	})
	s.start(t)
	return s
}

// start runs the server over what an earlier run left in its directory, and waits until it answers.
func (s *server) start(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process = exec.Command("redis-server", append([]string{"--port", "0", "--unixsocket", s.socket(), "--dir", s.dir, "--save", ""}, s.args...)...)
	s.process.Stdout, s.process.Stderr = &s.output, &s.output
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	client := goredis.NewClient(&goredis.Options{Network: "unix", Addr: s.socket(), MaxRetries: 1000, MaxRetryBackoff: 10 * time.Millisecond})
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := client.Ping(ctx).Err(); err != nil {
		t.Fatalf("redis-server does not answer: %v", err)
	}
}

// kill ends the server as a power cut would.
func (s *server) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process.Process.Kill()
	s.process.Wait()
}

func (s *server) socket() string { return filepath.Join(s.dir, "s") }

// client is a new client of s. It waits long for an answer, however busy the machine, and not at all for a server that is not there.
func (s *server) client(t testing.TB) *goredis.Client {
	t.Helper()
	return newClient(t, &goredis.Options{Network: "unix", Addr: s.socket(), MaxRetries: 1, DialerRetries: 1,
		DialTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute, PoolTimeout: time.Minute})
}

// store is a store over a client of its own, as each replica has one.
func (s *server) store(t testing.TB) *redis.Store {
	t.Helper()
	return newStore(t, s.client(t), &redis.Options{Timeout: time.Minute})
}

func newClient(t testing.TB, opts *goredis.Options) *goredis.Client {
	t.Helper()
	client := goredis.NewClient(opts)
	t.Cleanup(func() { client.Close() })
	return client
}

func newStore(t testing.TB, client goredis.UniversalClient, opts *redis.Options) *redis.Store {
	t.Helper()
	store, err := redis.New(client, opts)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// unreachableClient is a client of a server that is not there.
func unreachableClient(t testing.TB) *goredis.Client {
	t.Helper()
	return newClient(t, &goredis.Options{Network: "unix", Addr: filepath.Join(t.TempDir(), "none")})
}

// silentClient is a client of a server that takes connections and never answers.
func silentClient(t testing.TB) *goredis.Client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return newClient(t, &goredis.Options{Addr: listener.Addr().String()})
}
