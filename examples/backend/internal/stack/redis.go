package stack

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Redis is a Redis server that listens on a Unix socket.
type Redis struct {
	program, dir string
	process      *process
}

func newRedis(dir, program string) *Redis {
	return &Redis{program: program, dir: filepath.Join(dir, "redis")}
}

// URL returns the URL of the server.
func (r *Redis) URL() string { return "unix://" + r.socket() }

// Restart stops the server and starts it again with its data.
func (r *Redis) Restart(ctx context.Context) error {
	r.stop()
	return r.start(ctx)
}

func (r *Redis) start(ctx context.Context) error {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	// Redis must neither evict replay claims nor lose them in a restart.
	server := exec.Command(r.program, "--port", "0", "--unixsocket", r.socket(), "--dir", r.dir, "--save", "",
		"--appendonly", "yes", "--appendfsync", "always", "--maxmemory", "64mb", "--maxmemory-policy", "noeviction")
	var err error
	if r.process, err = startProcess(filepath.Dir(r.dir), "redis", server, nil); err != nil {
		return err
	}
	return r.process.await(ctx, r.ping)
}

func (r *Redis) stop() {
	if r.process != nil {
		_ = r.process.stop() // the exit code does not matter
	}
}

func (r *Redis) socket() string { return filepath.Join(r.dir, "socket") }

// ping returns nil if the server has loaded its data and replies.
func (r *Redis) ping(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", r.socket())
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		return err
	}
	reply := make([]byte, len("+PONG"))
	if _, err := io.ReadFull(conn, reply); err != nil {
		return err
	}
	if string(reply) != "+PONG" {
		return fmt.Errorf("unexpected reply to PING: %q", reply)
	}
	return nil
}
