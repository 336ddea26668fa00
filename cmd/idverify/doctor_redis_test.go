package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/idverify/idverify-go/internal/tooltest"
)

// startRedis starts a redis-server on a Unix socket, and stops it when the test ends.
func startRedis(t *testing.T, args ...string) (socket string) {
	t.Helper()
	tooltest.Require(t, tooltest.Installed("redis-server"), "redis-server is not installed (run script/setup redis)")
	dir, err := os.MkdirTemp("", "redis") // the path of t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "s")
	var output bytes.Buffer
	process := exec.Command("redis-server", append([]string{"--port", "0", "--unixsocket", socket, "--dir", dir, "--save", ""}, args...)...)
	process.Stdout, process.Stderr = &output, &output
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		process.Process.Kill()
		process.Wait()
		os.RemoveAll(dir)
		if t.Failed() {
			t.Logf("output of redis-server:\n%s", output.Bytes())
		}
	})
	goredis.SetLogger(noLog{})
	client := goredis.NewClient(&goredis.Options{Network: "unix", Addr: socket, MaxRetries: 1000, MaxRetryBackoff: 10 * time.Millisecond})
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := client.Ping(ctx).Err(); err != nil && !strings.HasPrefix(err.Error(), "NO") && !strings.HasPrefix(err.Error(), "ERR") {
		t.Fatalf("redis-server does not reply: %v", err)
	}
	return socket
}

// forwardTCP forwards connections to a TCP address of this machine to a Unix socket, because a
// server cannot listen on a port that the system chooses.
func forwardTCP(t *testing.T, socket string) (port string) {
	t.Helper()
	return forward(t, socket, func(conn net.Conn) (net.Conn, error) { return conn, nil })
}

// forward forwards connections as forwardTCP does, after accept has changed them.
func forward(t *testing.T, socket string, accept func(net.Conn) (net.Conn, error)) (port string) {
	t.Helper()
	listener, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				accepted, err := accept(client)
				if err != nil {
					return
				}
				if server, err := net.Dial("unix", socket); err == nil {
					splice(accepted, server)
				}
			}()
		}
	}()
	_, port, err = net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// fillRedis starts a redis-server that uses about a part of maxmemory, in percent.
func fillRedis(t *testing.T, percent int) (socket string) {
	t.Helper()
	socket = startRedis(t)
	client := goredis.NewClient(&goredis.Options{Network: "unix", Addr: socket})
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const size = 20 << 20 // much more than that of a connection
	if err := client.SetRange(ctx, "fill", size, "x").Err(); err != nil {
		t.Fatal(err)
	}
	reply, err := client.Info(ctx, "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	used := int(parseMemory(reply)["used_memory"])
	if err := client.ConfigSet(ctx, "maxmemory", strconv.Itoa(used*100/percent)).Err(); err != nil {
		t.Fatal(err)
	}
	return socket
}

func TestDoctor_Redis(t *testing.T) {
	t.Parallel()
	socket := startRedis(t)
	withPassword := startRedis(t, "--requirepass", "the-password")
	port := forwardTCP(t, socket)
	untrusted := strings.TrimPrefix(serveTLS(t, newAuthority(t, "Unknown CA").issue(t, longValidity, "127.0.0.1"), http.NotFoundHandler()), "https://")
	unknown := newAuthority(t, "Unknown CA").issue(t, longValidity, "127.0.0.1")
	secure := forward(t, socket, func(conn net.Conn) (net.Conn, error) {
		server := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{unknown}})
		return server, server.Handshake()
	})
	for _, row := range []struct{ check, problem, url, detail string }{
		{"redis-connection", "unverified", "rediss://0.0.0.0:" + secure + "?skip_verify=true", "not verified"},
		{"redis-connection", "", "rediss://127.0.0.1:" + secure + "?skip_verify=true", "TLS"},
		{"redis-connection", "", "unix://" + socket, "version "},
		{"redis-connection", "", "unix://:the-password@" + withPassword, "with a password"},
		{"redis-connection", "", "redis://127.0.0.1:" + port + "/0", "latency "},
		{"redis-eviction", "", "unix://" + socket, "until they expire"},
		{"redis-connection", "invalid", "http://:the-password@redis.example.com", "not a URL of Redis"},
		{"redis-connection", "closed-port", "redis://:the-password@" + unusedAddress, "connection refused"},
		{"redis-connection", "unreachable", "redis://:the-password@255.255.255.255:6379", ""},
		{"redis-connection", "tls", "rediss://127.0.0.1:" + port, "TLS handshake: no response before the timeout"},
		{"redis-connection", "tls", "rediss://" + untrusted, "certificate signed by unknown authority"},
		{"redis-connection", "authentication", "unix://" + withPassword, "(NOAUTH)"},
		{"redis-connection", "authentication", "unix://:the-password-is-wrong@" + withPassword, "(WRONGPASS)"},
		{"redis-connection", "authentication", "unix://" + startRedis(t, "--user", "default", "on", "nopass", "~*", "+@all", "-ping"), "(NOPERM)"},
		{"redis-connection", "unavailable", "unix://" + startRedis(t, "--rename-command", "PING", ""), "unknown command"},
		{"redis-connection", "unencrypted", "redis://0.0.0.0:" + port, "without TLS"},
		{"redis-eviction", "evicts", "unix://" + startRedis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"), `maxmemory-policy is "allkeys-lru"`},
		{"redis-memory", "", "unix://" + socket, "without maxmemory"},
		{"redis-memory", "", "unix://" + fillRedis(t, 55), " MiB (5"},
		{"redis-memory", "full", "unix://" + startRedis(t, "--maxmemory", "1kb"), " of 0.0 MiB ("},
		{"redis-memory", "nearly-full", "unix://" + fillRedis(t, 95), " MiB (9"},
		{"redis-memory", "unknown", "unix://" + startRedis(t, "--user", "default", "on", "nopass", "~*", "+@all", "-info"), "NOPERM"},
		{"redis-eviction", "unknown", "unix://" + startRedis(t, "--user", "default", "on", "nopass", "~*", "+@all", "-info"), "cannot read the eviction policy"},
	} {
		t.Run(row.check+" "+row.problem, func(t *testing.T) {
			t.Parallel()

			got := doctorJSON(t, nil, "-only", "redis", "-redis", row.url, "-timeout", "4s")

			if row.problem == "" {
				got.wantOK(t, row.check)
			} else {
				got.wantProblem(t, row.check, row.problem, row.detail)
			}
			if detail := got.row(t, row.check).Detail; !strings.Contains(detail, row.detail) || strings.Contains(got.text, "the-password") {
				t.Errorf("output = %s, want %q and no password", got.text, row.detail)
			}
			if got.row(t, "redis-connection").Result == resultFailed {
				got.wantSkipped(t, "redis connection failed", "redis-eviction", "redis-memory")
			}
		})
	}
}
