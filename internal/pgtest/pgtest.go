//go:build unix

// Package pgtest runs a PostgreSQL server for tests.
package pgtest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/idverify/idverify-go/internal/tooltest"
)

// Shared is a server for all tests of a package. TestMain must close it.
type Shared struct {
	databases atomic.Int64
	once      sync.Once // guards the fields below
	server    *Server
	err       error
}

// Start returns the server. The first test starts it, with an empty data directory. Without
// PostgreSQL, Start ends the test as tooltest.Require does.
func (s *Shared) Start(t testing.TB) *Server {
	t.Helper()
	tooltest.Require(t, bin() != "", "run script/setup postgres")
	s.once.Do(func() { s.server, s.err = start() })
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.server
}

// Database returns the data source name of a new database, which the end of the test drops: with
// -count, the databases would otherwise fill the disk.
func (s *Shared) Database(t testing.TB) string {
	t.Helper()
	server := s.Start(t)
	name := fmt.Sprintf("test%d", s.databases.Add(1))
	run := func(command string) error {
		output, err := server.shell(command + " -h $PWD -U test " + name).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", command, err, output)
		}
		return nil
	}
	if err := run("createdb"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := run("dropdb --force"); err != nil {
			t.Log(err)
		}
	})
	return server.Source(name)
}

// Close stops the server, if a test has started it, and removes its data.
func (s *Shared) Close() {
	if s.server != nil {
		s.server.close()
	}
}

// Start is Shared.Start of a server for one test.
func Start(t testing.TB) *Server {
	t.Helper()
	s := new(Shared)
	t.Cleanup(s.Close)
	return s.Start(t)
}

// Server is a PostgreSQL server that listens on a Unix socket in its own temporary directory.
type Server struct {
	dir     string
	input   io.Closer // of script
	command *exec.Cmd
}

// script starts the server, and stops it when its input is closed: at the latest when the process
// of the tests has ended. Without the trap, the server would continue if that happened during its
// start. On a busy machine, a start can take longer than pg_ctl's default of a minute.
const script = `trap "" PIPE; initdb -D data -U test --auth=trust --encoding=UTF8 --no-locale --no-sync >log 2>&1 &&
	pg_ctl start -D data -w -t 3600 -l log -o "-c listen_addresses='' -c unix_socket_directories=$PWD -c max_connections=900" >/dev/null ||
	exit 1
	echo ready; read -r _; pg_ctl stop -D data -m immediate >/dev/null 2>&1; rm -rf "$PWD"`

func start() (*Server, error) {
	dir, err := os.MkdirTemp("", "postgres") // the path of testing.T.TempDir is too long for a socket
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir}
	if err := s.start(); err != nil {
		s.close()
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
	command := s.shell(script)
	input, err := command.StdinPipe()
	if err != nil {
		return err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	s.command, s.input = command, input
	if line, _ := bufio.NewReader(output).ReadString('\n'); line != "ready\n" {
		log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		return fmt.Errorf("PostgreSQL does not start:\n%s", log)
	}
	return nil
}

// Source returns the data source name of a database. The server has the database "postgres".
func (s *Server) Source(database string) string {
	return "host=" + s.dir + " user=test dbname=" + database
}

// Crash restarts the server without a shutdown of its connections and without a checkpoint, so that
// it recovers from its log.
func (s *Server) Crash() error {
	if output, err := s.shell("pg_ctl restart -D data -w -t 3600 -l log -m immediate").CombinedOutput(); err != nil {
		return fmt.Errorf("restart PostgreSQL: %w\n%s", err, output)
	}
	return nil
}

func (s *Server) close() {
	if s.input != nil {
		s.input.Close()
		_ = s.command.Wait()
	}
	os.RemoveAll(s.dir)
}

// shell returns a command with the programs of the server in its PATH.
func (s *Server) shell(script string) *exec.Cmd {
	command := exec.Command("/bin/sh", "-c", script)
	command.Dir = s.dir
	command.Env = append(os.Environ(), "PATH="+bin()+":"+os.Getenv("PATH"), "PWD="+s.dir)
	command.SysProcAttr = &syscall.SysProcAttr{Credential: serverUser(), Setpgid: true}
	return command
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
