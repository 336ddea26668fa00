package main

import (
	"context"
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/idverify/idverify-go/inbox"
	_ "modernc.org/sqlite" // driver "sqlite"
)

// sqliteFile is a data source of SQLite.
type sqliteFile struct {
	path    string
	options url.Values // of the data source name; nil for a path
}

// parseSQLite parses a path, or a data source name such as file:checks.db?_txlock=immediate.
func parseSQLite(source string) (*sqliteFile, error) {
	name, isName := strings.CutPrefix(source, "file:")
	if !isName {
		return &sqliteFile{path: source}, nil
	}
	name, query, _ := strings.Cut(name, "?")
	options, err := url.ParseQuery(query)
	if err != nil {
		return nil, err
	}
	path, err := url.PathUnescape(name)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(path, "//") { // file:///path or file://localhost/path
		path = path[2:]
		path = path[max(0, strings.Index(path, "/")):]
	}
	return &sqliteFile{path: path, options: options}, nil
}

// readOnly returns the data source name with which this program opens the file. It has the settings
// of the given one, except those that would change the file.
func (f *sqliteFile) readOnly() string {
	options := url.Values{"mode": {"ro"}}
	for _, pragma := range f.options["_pragma"] {
		if !strings.HasPrefix(strings.ToLower(pragma), "journal_mode") {
			options.Add("_pragma", pragma)
		}
	}
	if f.options == nil {
		options["_pragma"] = []string{"busy_timeout(5000)", "synchronous(FULL)"}
	}
	return "file:" + url.PathEscape(f.path) + "?" + options.Encode()
}

// openSQLite opens a file. It does not create one.
func (d *doctorRun) openSQLite(ctx context.Context) diagnosis {
	f, err := parseSQLite(d.database)
	if err != nil {
		return sick("invalid", "the data source name of SQLite is malformed")
	}
	info, err := os.Stat(f.path)
	switch {
	case os.IsNotExist(err):
		return sick("missing", "the SQLite file does not exist")
	case err != nil || !info.Mode().IsRegular():
		return sick("unreachable", "the SQLite file cannot be read")
	}
	db, err := sql.Open("sqlite", f.readOnly())
	if err != nil {
		return sick("invalid", "the data source name of SQLite is malformed")
	}
	// With one connection, inbox.New begins no transaction, which would need the right to write.
	db.SetMaxOpenConns(1)
	var version, integrity string
	if err := db.QueryRowContext(ctx, "SELECT sqlite_version(), (SELECT count(*) FROM sqlite_master)").Scan(&version, &integrity); err != nil {
		db.Close()
		return sick("unreachable", "%s", databaseError(err))
	}
	d.stored = &inboxDatabase{db: db, dialect: inbox.SQLite, sqlite: f}
	return healthy("SQLite file, %d KiB", (info.Size()+1023)/1024)
}

// checkSettings checks the settings that a data source name contains, and the journal of the file.
func (f *sqliteFile) checkSettings(ctx context.Context, db *sql.DB) diagnosis {
	var journal string
	if err := db.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&journal); err != nil {
		return sick("unreadable", "%s", databaseError(err))
	}
	switch {
	case journal != "wal":
		return sick("journal", "journal_mode is %s: readers and the writer block each other", journal)
	case f.options == nil:
		return healthy("journal_mode is wal (pass the data source name of your service to check its other settings)")
	case !slices.Equal(f.options["_txlock"], []string{"immediate"}):
		return sick("not-immediate", "the data source name has no _txlock=immediate")
	}
	return healthy("journal_mode is wal, and the data source name has safe settings")
}

// checkPrivileges checks that this process may write to the file and its directory, and that other
// users may not read it. It does not write.
func (f *sqliteFile) checkPrivileges() diagnosis {
	file, err := os.OpenFile(f.path, os.O_RDWR, 0)
	if err != nil {
		return sick("denied", "this user may not write to the SQLite file")
	}
	info, err := file.Stat()
	file.Close()
	if err != nil {
		return sick("unreadable", "the permissions of the SQLite file cannot be read")
	}
	directory, err := os.Stat(filepath.Dir(f.path))
	if err == nil && info.Mode().Perm()&0o044 != 0 && directory.Mode().Perm()&0o011 != 0 {
		return sick("readable", "other users may read the SQLite file (permissions %#o)", info.Mode().Perm())
	}
	return healthy("this user may read and write the SQLite file")
}
