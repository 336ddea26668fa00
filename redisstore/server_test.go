package redisstore_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idverify/idverify-go/internal/killtest"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/redisstore"
)

func TestMain(m *testing.M) {
	redis.SetLogger(discard{}) // it logs each failed connection
	killtest.Main(openFlows)
	m.Run()
}

type discard struct{}

func (discard) Printf(context.Context, string, ...any) {}

// server is a redis-server with its own directory. It listens on a Unix socket there, so it cannot
// conflict with a used port.
type server struct {
	dir    string
	args   []string
	output bytes.Buffer

	mu      sync.Mutex // guards process
	process *exec.Cmd
}

// startServer starts a redis-server and stops it when the test ends.
func startServer(t testing.TB, args ...string) *server {
	t.Helper()
	tooltest.Require(t, tooltest.Installed("redis-server"), "run script/setup redis")
	dir := must(os.MkdirTemp("", "redis"))(t) // the path of t.TempDir is too long for a socket
	s := &server{dir: dir, args: args}
	t.Cleanup(func() {
		s.kill()
		os.RemoveAll(dir)
		if t.Failed() {
			t.Logf("output of redis-server:\n%s", s.output.Bytes())
		}
	})
	s.start(t)
	return s
}

// start starts the server with the files of an earlier run, if any, and waits until it replies.
func (s *server) start(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process = exec.Command("redis-server", append([]string{"--port", "0", "--unixsocket", s.socket(), "--dir", s.dir, "--save", ""}, s.args...)...)
	s.process.Stdout, s.process.Stderr = &s.output, &s.output
	noError(t, s.process.Start())
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: s.socket(), MaxRetries: 1000, MaxRetryBackoff: 10 * time.Millisecond})
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := client.Ping(ctx).Err(); err != nil {
		t.Fatalf("redis-server does not reply: %v", err)
	}
}

// kill kills the server, so that it cannot save its data.
func (s *server) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process.Process.Kill()
	s.process.Wait()
}

func (s *server) socket() string { return filepath.Join(s.dir, "s") }

// dial implements redis.Options.Dialer.
func (s *server) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", s.socket())
}

// client returns a new client of s, which fails at once if the server does not run.
func (s *server) client(t testing.TB) *redis.Client {
	t.Helper()
	return newClient(t, &redis.Options{Network: "unix", Addr: s.socket(), MaxRetries: 1, DialerRetries: 1})
}

// store returns a store with its own client, like that of a replica.
func (s *server) store(t testing.TB) *redisstore.Replays {
	t.Helper()
	return newStore(t, s.client(t), &redisstore.Options{Timeout: time.Minute})
}

// flows returns a store of flows with its own client, like that of a replica.
func (s *server) flows(t testing.TB) *redisstore.Flows {
	t.Helper()
	return newFlows(t, s.client(t), &redisstore.Options{Timeout: time.Minute})
}

// newClient returns a client that waits up to a minute for a reply, because the machine can be
// busy.
func newClient(t testing.TB, opts *redis.Options) *redis.Client {
	t.Helper()
	opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout, opts.PoolTimeout = time.Minute, time.Minute, time.Minute, time.Minute
	client := redis.NewClient(opts)
	t.Cleanup(func() { client.Close() })
	return client
}

func newStore(t testing.TB, client redis.UniversalClient, opts *redisstore.Options) *redisstore.Replays {
	t.Helper()
	return must(redisstore.NewReplays(client, opts))(t)
}

// unreachableClient returns a client of a server that does not run.
func unreachableClient(t testing.TB) *redis.Client {
	t.Helper()
	return newClient(t, &redis.Options{Network: "unix", Addr: filepath.Join(t.TempDir(), "none")})
}

// silentClient returns a client of a server that accepts connections and never replies.
func silentClient(t testing.TB) *redis.Client {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { listener.Close() })
	return newClient(t, &redis.Options{Addr: listener.Addr().String()})
}

// lostReplies loses connections after Redis has processed a command that changes a key, and before
// its reply. The client may send the command again.
type lostReplies struct {
	mu   sync.Mutex // guards seen
	seen map[string]bool
	max  int // of seen
}

func newLostReplies(max int) *lostReplies { return &lostReplies{seen: make(map[string]bool), max: max} }

// client returns a client of srv. Zero retries select the default.
func (l *lostReplies) client(t testing.TB, srv *server, retries int) *redis.Client {
	t.Helper()
	return newClient(t, &redis.Options{MaxRetries: retries, Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := srv.dial(ctx, "", "")
		return &lostConn{Conn: conn, replies: l}, err
	}})
}

// count returns the number of lost replies.
func (l *lostReplies) count() int { l.mu.Lock(); defer l.mu.Unlock(); return len(l.seen) }

// loses reports whether the reply to a command is lost.
func (l *lostReplies) loses(command []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !bytes.Contains(command, []byte("\r\nset\r\n")) && !bytes.Contains(command, []byte("\r\neval\r\n")) || l.seen[string(command)] || len(l.seen) == l.max {
		return false
	}
	l.seen[string(command)] = true
	return true
}

type lostConn struct {
	net.Conn
	replies *lostReplies
	lose    bool
}

func (c *lostConn) Write(b []byte) (int, error) {
	c.lose = c.lose || c.replies.loses(b)
	return c.Conn.Write(b)
}

func (c *lostConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.lose {
		c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// noError and must fail the test if err is not nil. must returns v.
var noError = tooltest.NoError

func must[T any](v T, err error) func(testing.TB) T { return tooltest.Must(v, err) }
