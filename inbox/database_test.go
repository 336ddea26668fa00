package inbox_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	_ "modernc.org/sqlite"             // the driver sqlite

	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/inbox/internal/pgtest"
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
	once   sync.Once
	server *pgtest.Server
	err    error
	next   atomic.Int64
}

func TestMain(m *testing.M) {
	registerCancel()
	code := m.Run()
	if cluster.server != nil {
		cluster.server.Close()
	}
	os.Exit(code)
}

func postgresSource(t testing.TB) string {
	t.Helper()
	cluster.once.Do(func() { cluster.server, cluster.err = pgtest.Start() })
	if errors.Is(cluster.err, pgtest.ErrNotInstalled) {
		t.Skip(cluster.err)
	}
	if cluster.err != nil {
		t.Fatal(cluster.err)
	}
	name := fmt.Sprintf("test%d", cluster.next.Add(1))
	admin := openDB(t, "pgx", cluster.server.Source("postgres"))
	if _, err := admin.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return cluster.server.Source(name)
}
