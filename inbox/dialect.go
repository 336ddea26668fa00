package inbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
)

// Dialect is the kind of the database. The zero value is invalid: [New] rejects it.
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
// difference between the dialects in statements on the table. SQLite has one writer and needs none.
func (d Dialect) skipLocked() string {
	if d == Postgres {
		return " FOR UPDATE SKIP LOCKED"
	}
	return ""
}

// readCommitted returns the options of the transactions of this package. They need no higher
// isolation level, with which concurrent transactions would fail.
func (d Dialect) readCommitted() *sql.TxOptions {
	if d == Postgres {
		return &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	}
	return nil
}

// isReadCommitted reports whether statements without a transaction are read committed, too.
func (d Dialect) isReadCommitted(ctx context.Context, db *sql.DB) (bool, error) {
	if d != Postgres {
		return true, nil
	}
	var level string
	err := db.QueryRowContext(ctx, "SELECT current_setting('default_transaction_isolation')").Scan(&level)
	return level == "read committed", err
}

// savepoint exists as long as the transaction in which it was set. SQLite ends a transaction by
// itself if the disk is full, a statement is interrupted or ON CONFLICT ROLLBACK applies, and
// database/sql does not notice: later statements of the transaction are committed one by one.
const savepoint = "idverify_inbox"

// setSavepoint sets the savepoint. On SQLite, it also returns the number of rows that the
// connection has changed so far, which a rollback does not reduce.
func (d Dialect) setSavepoint(ctx context.Context, tx *sql.Tx) (changes int64, err error) {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT "+savepoint); err != nil || d != SQLite {
		return 0, err
	}
	err = tx.QueryRowContext(ctx, "SELECT total_changes()").Scan(&changes)
	return changes, err
}

// releaseSavepoint returns failure, the error of the function that used the transaction, or an
// *endedError if the transaction has ended. Any other problem is left to the commit.
func (d Dialect) releaseSavepoint(ctx context.Context, tx *sql.Tx, changes int64, failure error) error {
	_, err := tx.ExecContext(ctx, "RELEASE SAVEPOINT "+savepoint)
	switch {
	case err == nil:
		return failure
	case d == SQLite && ctx.Err() != nil:
		// There was no time for RELEASE, for example because the process was suspended. The transaction
		// may have ended before.
		return &endedError{cause: failure, wrote: true}
	case errors.Is(err, sql.ErrTxDone) && ctx.Err() == nil:
		// The function called Commit or Rollback of tx, so its later statements have failed.
		return &endedError{cause: failure}
	case !d.ended(err):
		return failure
	}
	// The later statements of the function are committed. If it failed, it can be called again unless
	// it changed something.
	if d == SQLite && failure != nil {
		var now int64
		err := tx.QueryRowContext(ctx, "SELECT total_changes()").Scan(&now)
		return &endedError{cause: failure, wrote: err != nil || now != changes}
	}
	return &endedError{cause: failure, wrote: true}
}

// ended reports whether err, the error of RELEASE, means that the transaction of the savepoint has
// ended.
func (d Dialect) ended(err error) bool {
	if d == Postgres {
		state := sqlState(err)
		return state == "25P01" || state == "3B001" // no transaction, or another one
	}
	return strings.Contains(err.Error(), "no such savepoint") // SQLite has no code for this error
}

// sqlStateError is implemented by the errors of PostgreSQL drivers that come from the server.
type sqlStateError interface {
	error
	SQLState() string
}

// sqlState returns the SQLSTATE of an error of PostgreSQL, or an empty string.
func sqlState(err error) string {
	if e, ok := errors.AsType[sqlStateError](err); ok {
		return e.SQLState()
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
