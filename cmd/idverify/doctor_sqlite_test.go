package main

import (
	"crypto/sha256"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/inbox"
)

// safeSQLite are the settings of docs/production.md.
const safeSQLite = "?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"

// newSQLite creates a database, and returns its path and a connection.
func newSQLite(t *testing.T, migrate bool) (path string, db *sql.DB) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "private")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "checks.db")
	db, err := sql.Open("sqlite", "file:"+url.PathEscape(path)+safeSQLite)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if migrate {
		if err := inbox.Migrate(t.Context(), db, inbox.SQLite); err != nil {
			t.Fatal(err)
		}
	} else {
		execute(t, db, "CREATE TABLE orders (id integer)")
	}
	return path, db
}

func execute(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
}

// insertEntry stores a check in a state of docs/production.md.
func insertEntry(t *testing.T, db *sql.DB, state string) {
	t.Helper()
	now := time.Now().UnixMicro()
	hour := time.Hour.Microseconds()
	var reconcile, due, ended, stopped any
	switch state {
	case "in progress":
		reconcile = now + hour
	case "overdue":
		reconcile = now - hour
	case "pending":
		due, ended = now, now
	case "delayed":
		due, ended = now-hour, now-hour
	case "stopped":
		stopped, ended = now, now
	}
	execute(t, db, "INSERT INTO idverify_checks (reference, product, planned_at, give_up_at, reconcile_at, due_at, ended_at, stopped_at) VALUES ($1, 'phone_check', $2, $3, $4, $5, $6, $7)",
		state, now, now+hour, reconcile, due, ended, stopped)
}

func TestDoctor_SQLite(t *testing.T) {
	t.Parallel()
	path, db := newSQLite(t, true)
	insertEntry(t, db, "in progress")
	insertEntry(t, db, "pending")
	before := fileHashes(t, filepath.Dir(path))

	byPath := doctorJSON(t, nil, "-only", "database", "-database", path)
	byName := doctorJSON(t, map[string]string{databaseURLVariable: "file:" + url.PathEscape(path) + safeSQLite}, "-only", "database")

	for _, got := range []doctorOutput{byPath, byName} {
		got.wantOK(t, "database-connection", "database-schema", "database-settings", "database-privileges", "database-entries")
		if row := got.row(t, "database-entries"); row.Detail != "1 in progress, 0 overdue, 1 pending, 0 stopped" {
			t.Errorf("entries = %q", row.Detail)
		}
	}
	if row := byName.row(t, "database-settings"); !strings.Contains(row.Detail, "safe settings") {
		t.Errorf("settings = %q", row.Detail)
	}
	if after := fileHashes(t, filepath.Dir(path)); after != before {
		t.Errorf("doctor changed the database:\n%s\nwant:\n%s", after, before)
	}
}

// fileHashes returns the hashes of the files of a database, except its shared memory.
func fileHashes(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), "-shm") {
			fmt.Fprintf(&all, "%s %x\n", entry.Name(), sha256.Sum256([]byte(readText(t, filepath.Join(dir, entry.Name())))))
		}
	}
	return all.String()
}

func TestDoctor_SQLiteProblems(t *testing.T) {
	t.Parallel()
	name := func(path, settings string) string { return "file:" + url.PathEscape(path) + settings }
	for _, row := range []struct {
		check, problem string
		arrange        func(t *testing.T) (source string)
		detail         string
	}{
		{"database-connection", "invalid", func(*testing.T) string { return "file:x?_pragma=%zz" }, "malformed"},
		{"database-connection", "missing", func(t *testing.T) string { return filepath.Join(t.TempDir(), "none.db") }, "does not exist"},
		{"database-connection", "unreachable", func(t *testing.T) string { return writeFile(t, strings.Repeat("no database ", 100)) }, "not a database"},
		{"database-connection", "unreachable", func(t *testing.T) string { return t.TempDir() }, "cannot be read"},
		{"database-schema", "missing", func(t *testing.T) string { path, _ := newSQLite(t, false); return path }, "no tables"},
		{"database-schema", "outdated", func(t *testing.T) string {
			path, db := newSQLite(t, true)
			execute(t, db, "UPDATE idverify_schema SET version = 0")
			return path
		}, "version 0, and module inbox needs 1"},
		{"database-settings", "unsafe", func(t *testing.T) string {
			path, _ := newSQLite(t, true)
			return name(path, "?_txlock=immediate&_pragma=busy_timeout(10)&_pragma=synchronous(FULL)")
		}, "busy_timeout is 10 ms"},
		{"database-settings", "unsafe", func(t *testing.T) string {
			path, _ := newSQLite(t, true)
			return name(path, "?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=synchronous(OFF)")
		}, "synchronous=0"},
		{"database-settings", "not-immediate", func(t *testing.T) string {
			path, _ := newSQLite(t, true)
			return name(path, strings.Replace(safeSQLite, "_txlock=immediate&", "", 1))
		}, "no _txlock=immediate"},
		{"database-settings", "journal", func(t *testing.T) string {
			path, db := newSQLite(t, true)
			execute(t, db, "PRAGMA journal_mode = DELETE")
			return name(path, safeSQLite)
		}, "journal_mode is delete"},
		{"database-privileges", "readable", func(t *testing.T) string {
			path, _ := newSQLite(t, true)
			if err := errorsOf(os.Chmod(path, 0o644), os.Chmod(filepath.Dir(path), 0o755)); err != nil {
				t.Fatal(err)
			}
			return path
		}, "permissions 0644"},
		{"database-entries", "stopped", entryIn("stopped"), "1 stopped"},
		{"database-entries", "delayed", entryIn("delayed"), "the oldest result waits for 3600 s"},
		{"database-entries", "overdue", entryIn("overdue"), "1 overdue"},
	} {
		t.Run(row.check+" "+row.problem, func(t *testing.T) {
			t.Parallel()

			got := doctorJSON(t, nil, "-only", "database", "-database", row.arrange(t))

			got.wantProblem(t, row.check, row.problem, row.detail)
			if row.check == "database-connection" {
				got.wantSkipped(t, "database connection failed", "database-schema", "database-settings", "database-privileges", "database-entries")
			}
		})
	}
}

func errorsOf(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

func entryIn(state string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		path, db := newSQLite(t, true)
		insertEntry(t, db, state)
		return path
	}
}

// A database that nobody has opened has no files of the write-ahead log. doctor must not create it.
func TestDoctor_SQLiteCreatesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()

	got := doctorJSON(t, nil, "-only", "database", "-database", "file:"+filepath.Join(dir, "none.db")+safeSQLite)

	got.wantProblem(t, "database-connection", "missing", "does not exist")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("doctor created %v (error %v)", entries, err)
	}
}

func TestSQLiteFile_Names(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"checks.db":                            "checks.db",
		"/var/lib/checks.db":                   "/var/lib/checks.db",
		"file:checks.db":                       "checks.db",
		"file:%2Fvar%2Flib%2Fchecks.db?mode=x": "/var/lib/checks.db",
		"file:///var/lib/checks.db":            "/var/lib/checks.db",
		"file://localhost/var/lib/checks.db":   "/var/lib/checks.db",
	} {
		f, err := parseSQLite(source)

		if err != nil || f.path != want {
			t.Errorf("path of %q = %+v, error %v, want %s", source, f, err, want)
		}
	}
}
