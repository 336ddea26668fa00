package main

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/idverify/idverify-go/inbox"
)

//go:embed schema.sql
var schema string

// migrationLock is the key of the advisory lock that makes replicas migrate one after the other.
const migrationLock = 0x5409

// migrate creates or updates the tables of the inbox, of River and of the shop.
func migrate(ctx context.Context, pool *pgxpool.Pool, db *sql.DB) error {
	lock, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	defer lock.Release()
	if _, err := lock.Exec(ctx, "SELECT pg_advisory_lock($1)", migrationLock); err != nil {
		return fmt.Errorf("lock migrations: %w", err)
	}
	// The connection is closed, which also releases the lock.
	defer lock.Conn().Close(context.WithoutCancel(ctx))
	if err := inbox.Migrate(ctx, db, inbox.Postgres); err != nil {
		return err
	}
	jobs, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return fmt.Errorf("migrate River: %w", err)
	}
	if _, err := jobs.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("migrate River: %w", err)
	}
	if _, err := pool.Exec(ctx, schema); err != nil {
		return fmt.Errorf("migrate the tables of the shop: %w", err)
	}
	return nil
}
