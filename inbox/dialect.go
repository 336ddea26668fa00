package inbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
)

// Dialect is the kind of the database.
type Dialect int

// The supported databases.
const (
	SQLite   Dialect = iota + 1 // version 3.38 or newer
	Postgres                    // PostgreSQL, version 15 or newer
)

// String returns the name of the database.
func (d Dialect) String() string {
	switch d {
	case SQLite:
		return "SQLite"
	case Postgres:
		return "PostgreSQL"
	}
	return fmt.Sprintf("Dialect(%d)", int(d))
}

// skipLocked returns the clause that gives concurrent transactions different rows. It is the only
// difference between the statements of the dialects. SQLite has one writer and needs none.
func (d Dialect) skipLocked() string {
	if d == Postgres {
		return " FOR UPDATE SKIP LOCKED"
	}
	return ""
}

// valid verifies the arguments of New and Migrate.
func (d Dialect) valid(db *sql.DB) error {
	switch {
	case db == nil:
		return errors.New("db is nil")
	case d != SQLite && d != Postgres:
		return fmt.Errorf("unsupported dialect %s", d)
	}
	return nil
}

// check verifies the settings and the schema of db.
func (d Dialect) check(ctx context.Context, db *sql.DB) error {
	if err := d.valid(db); err != nil {
		return err
	}
	if err := db.PingContext(ctx); err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	checkSettings := checkPostgres
	if d == SQLite {
		checkSettings = checkSQLite
	}
	if err := checkSettings(ctx, db); err != nil {
		return err
	}
	var version sql.NullInt64
	if err := db.QueryRowContext(ctx, "SELECT max(version) FROM idverify_schema").Scan(&version); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("read the schema version: %w", err)
		}
		return fmt.Errorf("%w (run Migrate, or grant SELECT on idverify_schema): %w", ErrSchema, err)
	}
	if version.Int64 < schemaVersion {
		return fmt.Errorf("%w: version %d, want %d (run Migrate)", ErrSchema, version.Int64, schemaVersion)
	}
	return nil
}

// minBusyTimeout is the shortest accepted busy timeout of SQLite, in milliseconds. Without one, a
// statement fails at once while another connection writes.
const minBusyTimeout = 1000

func checkSQLite(ctx context.Context, db *sql.DB) error {
	first, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("get a connection: %w", err)
	}
	defer first.Close()
	if err := checkPragmas(ctx, first); err != nil {
		return err
	}
	if db.Stats().MaxOpenConnections == 1 {
		return nil // no other connection of this process can write in the meantime
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	defer tx.Rollback()
	// An executed PRAGMA statement applies to one connection only. This is another one.
	if err := checkPragmas(ctx, tx); err != nil {
		return err
	}
	return checkImmediate(ctx, first)
}

// checkPragmas verifies the settings of a connection.
func checkPragmas(ctx context.Context, q querier) error {
	var file, journal string
	if err := q.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&file); err != nil {
		return fmt.Errorf("read the name of the file: %w", err)
	}
	if file == "" {
		return fmt.Errorf("%w: the database is in memory, and each connection has its own (use a file)", ErrSettings)
	}
	if err := q.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&journal); err != nil {
		return fmt.Errorf("read journal_mode: %w", err)
	}
	if journal == "off" || journal == "memory" {
		return fmt.Errorf("%w: a crash can damage the database with journal_mode=%s (set it to WAL in the data source name)", ErrSettings, journal)
	}
	var timeout, synchronous int
	if err := q.QueryRowContext(ctx, "PRAGMA busy_timeout").Scan(&timeout); err != nil {
		return fmt.Errorf("read busy_timeout: %w", err)
	}
	if timeout < minBusyTimeout {
		return fmt.Errorf("%w: busy_timeout is %d ms (set it to 5000 in the data source name)", ErrSettings, timeout)
	}
	if err := q.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&synchronous); err != nil {
		return fmt.Errorf("read synchronous: %w", err)
	}
	if synchronous < 2 {
		return fmt.Errorf("%w: a power failure loses results with synchronous=%d (set it to FULL in the data source name)", ErrSettings, synchronous)
	}
	return nil
}

// checkImmediate verifies that a transaction locks the database when it begins, while one is open
// on another connection. A deferred transaction that reads before it writes fails if another
// connection has written in the meantime, and the busy timeout does not apply.
func checkImmediate(ctx context.Context, other *sql.Conn) error {
	// The settings of this connection change: remove it from the pool.
	defer func() { _ = other.Raw(func(any) error { return driver.ErrBadConn }) }()
	if _, err := other.ExecContext(ctx, "PRAGMA busy_timeout = 0"); err != nil {
		return fmt.Errorf("set busy_timeout: %w", err)
	}
	_, err := other.ExecContext(ctx, "BEGIN IMMEDIATE")
	switch {
	case err == nil:
		return fmt.Errorf("%w: transactions are not immediate (add _txlock=immediate to the data source name)", ErrSettings)
	case ctx.Err() != nil:
		return fmt.Errorf("begin a second transaction: %w", err)
	}
	return nil
}

func checkPostgres(ctx context.Context, db *sql.DB) error {
	var commit string
	if err := db.QueryRowContext(ctx, "SELECT current_setting('synchronous_commit')").Scan(&commit); err != nil {
		return fmt.Errorf("read synchronous_commit: %w", err)
	}
	if commit == "off" {
		return fmt.Errorf("%w: a crash of the server loses results with synchronous_commit=off (set it to on)", ErrSettings)
	}
	return nil
}
