package inbox_test

import (
	"bytes"
	"database/sql"
	"fmt"
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

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	_ "modernc.org/sqlite"             // the driver sqlite

	"github.com/idverify/idverify-go/inbox"
)

// database opens empty databases of a kind.
type database struct {
	name    string
	dialect inbox.Dialect
	driver  string
	source  func(testing.TB) string // data source name of a new database
}

// databases are the databases that the tests use.
var databases = []database{
	{"SQLite", inbox.SQLite, "sqlite", sqliteSource},
	{"PostgreSQL", inbox.Postgres, "pgx", postgresSource},
}

// open opens a new database.
func (d database) open(t testing.TB) *sql.DB {
	t.Helper()
	return openDB(t, d.driver, d.source(t))
}

func openDB(t testing.TB, driver, source string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func sqliteSource(t testing.TB) string {
	t.Helper()
	return "file:" + filepath.Join(t.TempDir(), "checks.db") + "?_txlock=immediate&_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
}

// cluster is the PostgreSQL server of the tests. It starts with the first test that needs it and
// ends with the process. Each test has its own database in it.
var cluster struct {
	once sync.Once
	dir  string
	err  error
	next atomic.Int64
}

func TestMain(m *testing.M) {
	code := m.Run()
	if cluster.dir != "" {
		_ = pgCommand(cluster.dir, "pg_ctl", "stop", "-D", filepath.Join(cluster.dir, "data"), "-m", "immediate").Run()
		os.RemoveAll(cluster.dir)
	}
	os.Exit(code)
}

func postgresSource(t testing.TB) string {
	t.Helper()
	if pgBin() == "" {
		t.Skip("PostgreSQL is not installed (run script/setup postgres)")
	}
	cluster.once.Do(func() { cluster.err = startCluster() })
	if cluster.err != nil {
		t.Fatal(cluster.err)
	}
	name := fmt.Sprintf("test%d", cluster.next.Add(1))
	source := "host=" + cluster.dir + " user=test dbname="
	admin := openDB(t, "pgx", source+"postgres")
	if _, err := admin.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return source + name
}

// startCluster starts a server that listens on a Unix socket in its own directory.
func startCluster() error {
	dir, err := os.MkdirTemp("", "postgres") // the path of t.TempDir is too long for a socket
	if err != nil {
		return err
	}
	cluster.dir = dir
	if credential := serverUser(); credential != nil {
		if err := os.Chown(dir, int(credential.Uid), int(credential.Gid)); err != nil {
			return err
		}
	}
	data := filepath.Join(dir, "data")
	for _, args := range [][]string{
		{"initdb", "-D", data, "-U", "test", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"},
		{"pg_ctl", "start", "-D", data, "-w", "-l", filepath.Join(dir, "log"), "-o", "-c listen_addresses='' -c unix_socket_directories=" + dir + " -c max_connections=300"},
	} {
		var output bytes.Buffer
		command := pgCommand(dir, args[0], args[1:]...)
		command.Stdout, command.Stderr = &output, &output
		if err := command.Run(); err != nil {
			return fmt.Errorf("%s: %w\n%s", args[0], err, output.Bytes())
		}
	}
	return nil
}

// pgCommand returns a command of PostgreSQL.
func pgCommand(dir, name string, args ...string) *exec.Cmd {
	command := exec.Command(filepath.Join(pgBin(), name), args...)
	command.Dir = dir
	command.SysProcAttr = &syscall.SysProcAttr{Credential: serverUser()}
	return command
}

// pgBin returns the directory of the server's commands, which Debian does not add to the PATH, or
// the empty string if the server is not installed.
func pgBin() string {
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
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
