//go:build unix

// Package pgtest runs a PostgreSQL server for tests.
package pgtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// Server is a PostgreSQL server that listens on a Unix socket in its own temporary directory.
type Server struct {
	dir   string
	alive io.Closer // input of watcher, which stops the server when it is closed
	watch *exec.Cmd
}

// ErrNotInstalled means that the machine has no PostgreSQL server. A test then skips.
var ErrNotInstalled = errors.New("PostgreSQL is not installed (run script/setup postgres)")

// Start starts a server with an empty data directory. The caller must close it. If the process
// ends without Close, for example because a test panics, the server ends too.
func Start() (*Server, error) {
	if bin() == "" {
		return nil, ErrNotInstalled
	}
	dir, err := os.MkdirTemp("", "postgres") // the path of testing.T.TempDir is too long for a socket
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir}
	if err := s.start(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) start() error {
	if credential := serverUser(); credential != nil {
		if err := os.Chown(s.dir, int(credential.Uid), int(credential.Gid)); err != nil {
			return err
		}
	}
	if err := s.run("initdb", "-D", s.data(), "-U", "test", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"); err != nil {
		return err
	}
	// The watcher stops the server when this process has ended and its end of the pipe is closed.
	s.watch = exec.Command("/bin/sh", "-c", `read -r _; "$0" stop -D "$1/data" -m immediate; rm -rf "$1"`, filepath.Join(bin(), "pg_ctl"), s.dir)
	s.watch.Dir = "/"
	s.watch.SysProcAttr = &syscall.SysProcAttr{Credential: serverUser(), Setpgid: true}
	alive, err := s.watch.StdinPipe()
	if err != nil {
		return err
	}
	if err := s.watch.Start(); err != nil {
		return err
	}
	s.alive = alive
	options := "-c listen_addresses='' -c unix_socket_directories=" + s.dir + " -c max_connections=300"
	return s.run("pg_ctl", "start", "-D", s.data(), "-w", "-l", filepath.Join(s.dir, "log"), "-o", options)
}

// Source returns the data source name of a database. The server has the database "postgres".
func (s *Server) Source(database string) string {
	return "host=" + s.dir + " user=test dbname=" + database
}

// Crash restarts the server without a shutdown of its connections and without a checkpoint, so that
// it recovers from its log.
func (s *Server) Crash() error {
	return s.run("pg_ctl", "restart", "-D", s.data(), "-w", "-l", filepath.Join(s.dir, "log"), "-m", "immediate")
}

// Close stops the server and removes its data.
func (s *Server) Close() {
	if s.alive != nil {
		s.alive.Close()
		_ = s.watch.Wait()
	}
	os.RemoveAll(s.dir)
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// run runs a command of PostgreSQL.
func (s *Server) run(name string, args ...string) error {
	command := exec.Command(filepath.Join(bin(), name), args...)
	command.Dir = s.dir
	command.SysProcAttr = &syscall.SysProcAttr{Credential: serverUser()}
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, output.Bytes())
	}
	return nil
}

// bin returns the directory of the server's commands, which Debian does not add to the PATH, or
// the empty string if the server is not installed.
func bin() string {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path)
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(slices.Max(found))
}

// serverUser returns the user that runs the server, or nil for the current user. PostgreSQL does
// not run as root.
func serverUser() *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
