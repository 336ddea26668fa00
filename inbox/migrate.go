package inbox

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

// Migrate creates or updates the tables of package inbox in one transaction. It does nothing if
// they are up to date. Several processes may call it at the same time. A newer version of the
// schema is kept, so that old and new processes can run together during a deployment.
//
// To use a migration tool of your own instead, see [Migrations].
func Migrate(ctx context.Context, db *sql.DB, d Dialect) error {
	err := d.valid(db)
	if err == nil {
		err = migrate(ctx, db, d)
	}
	if err != nil {
		return fmt.Errorf("inbox: migrate: %w", err)
	}
	return nil
}

// Migrations returns the migrations as SQL files for a migration tool of your own, in the order of
// their names, for example 0001_create_idverify_checks.up.sql. Both dialects use the same files.
// Each file records its version in the table idverify_schema. Published files do not change.
func Migrations() fs.FS {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		panic(err) // unreachable: the name is a constant
	}
	return dir
}

//go:embed migrations/*.up.sql
var migrations embed.FS

// schemaVersion is the version of the schema that this code needs: the number of the last file in
// migrations.
const schemaVersion = 3

// migrationLock is the key of the advisory lock that prevents concurrent migrations in PostgreSQL.
const migrationLock = 0x1d7e51f7

func migrate(ctx context.Context, db *sql.DB, d Dialect) error {
	// Creating a table requires a right that a process may lack, even if the table exists.
	var current sql.NullInt64
	if err := db.QueryRowContext(ctx, "SELECT max(version) FROM idverify_schema").Scan(&current); err == nil && current.Int64 >= schemaVersion {
		return nil
	}
	tx, err := db.BeginTx(ctx, d.readCommitted())
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if d == Postgres {
		// SQLite has one writer at a time, and needs no lock.
		if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", migrationLock); err != nil {
			return err
		}
	}
	var version sql.NullInt64
	if _, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS idverify_schema (version integer NOT NULL)"); err != nil {
		return err
	}
	if err := tx.QueryRowContext(ctx, "SELECT max(version) FROM idverify_schema").Scan(&version); err != nil {
		return err
	}
	files, err := fs.Glob(migrations, "migrations/*.up.sql")
	if err != nil {
		return err
	}
	for i, name := range files {
		if int64(i) < version.Int64 {
			continue
		}
		text, err := migrations.ReadFile(name)
		if err != nil {
			return err
		}
		// Not every driver accepts several statements in one call.
		for _, statement := range strings.SplitAfter(string(text), ";\n") {
			if strings.TrimSpace(statement) == "" {
				continue
			}
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return tx.Commit()
}
