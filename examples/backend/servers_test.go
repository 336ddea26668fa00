package main

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

	"github.com/jackc/pgx/v5"
)

// postgres is the database server of the tests. It starts with the first test that needs it. Each
// test has its own database in it.
var postgres dbServer

// postgresScript starts the server. Without the trap, the server would continue if the test process
// ended during its start.
const postgresScript = `trap "" PIPE; initdb -D data -U test --auth=trust --encoding=UTF8 --no-locale --no-sync >log 2>&1 &&
	pg_ctl start -D data -w -l log -o "-c listen_addresses='' -c unix_socket_directories=$PWD -c max_connections=900" >/dev/null ||
	exit 1
	echo ready; read -r _; pg_ctl stop -D data -m immediate >/dev/null 2>&1; rm -rf "$PWD"`

func TestMain(m *testing.M) {
	code := m.Run()
	postgres.close()
	os.Exit(code)
}

// dbServer is a server of PostgreSQL in its own temporary directory, with a Unix socket there. It
// ends when its input is closed: at the latest with this process.
type dbServer struct {
	once    sync.Once
	dir     string
	err     error
	input   io.Closer
	command *exec.Cmd
	next    atomic.Int64
}

// start starts the server, or skips the test if it is not installed.
func (s *dbServer) start(t *testing.T) {
	t.Helper()
	bin := binDir("initdb")
	if bin == "" {
		t.Skip("PostgreSQL is not installed (run script/setup postgres)")
	}
	s.once.Do(func() { s.err = s.startIn(bin) })
	if s.err != nil {
		t.Fatal(s.err)
	}
}

func (s *dbServer) startIn(bin string) (err error) {
	if s.dir, err = os.MkdirTemp("", "backend"); err != nil { // the path of t.TempDir is too long for a socket
		return err
	}
	s.command = exec.Command("/bin/sh", "-c", postgresScript)
	s.command.Dir = s.dir
	s.command.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "PWD="+s.dir)
	s.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if u, lookupErr := user.Lookup("postgres"); lookupErr == nil && os.Getuid() == 0 { // PostgreSQL does not run as root
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		s.command.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(s.dir, uid, gid); err != nil {
			return err
		}
	}
	if s.input, err = s.command.StdinPipe(); err != nil {
		return err
	}
	output, err := s.command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.command.Start(); err != nil {
		return err
	}
	if line, _ := bufio.NewReader(output).ReadString('\n'); line != "ready\n" {
		log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		return fmt.Errorf("PostgreSQL does not start:\n%s", log)
	}
	return nil
}

func (s *dbServer) close() {
	if s.input != nil {
		s.input.Close()
		_ = s.command.Wait()
	}
	os.RemoveAll(s.dir)
}

// binDir returns the directory of a program, or the empty string if it is not installed. Debian
// does not add the commands of the PostgreSQL server to the PATH.
func binDir(program string) string {
	if path, err := exec.LookPath(program); err == nil {
		return filepath.Dir(path)
	}
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + program); len(found) > 0 {
		return filepath.Dir(slices.Max(found))
	}
	return ""
}

// newDatabase returns the URL of an empty database.
func (s *dbServer) newDatabase(t *testing.T) string {
	t.Helper()
	s.start(t)
	n := s.next.Add(1)
	source := "host=" + s.dir + " user=test dbname="
	admin, err := pgx.Connect(t.Context(), source+"postgres")
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(t.Context())
	name := fmt.Sprintf("test%d", n)
	if _, err := admin.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return source + name
}
