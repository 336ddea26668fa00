package main

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/idverify/idverify-go/inbox"
)

// resultArgs are the arguments of the job that processes the result of a check.
type resultArgs struct {
	Reference string `json:"reference"`
}

// Kind implements river.JobArgs.
func (resultArgs) Kind() string { return "idverify_result" }

// enqueue returns the OnResult of the inbox. It inserts a job in the transaction that stores the
// result. The workers use another client, whose driver is faster and notifies them at once.
func enqueue(jobs *river.Client[*sql.Tx]) func(context.Context, *sql.Tx, inbox.Entry) error {
	return func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
		_, err := jobs.InsertTx(ctx, tx, resultArgs{Reference: e.Reference}, nil)
		return err
	}
}

// resultWorker processes results.
type resultWorker struct {
	river.WorkerDefaults[resultArgs]

	pool    *pgxpool.Pool
	checks  *inbox.Inbox
	process func(context.Context, pgx.Tx, *inbox.Entry) error
}

// Work commits the effects of process together with the end of the job. River may run a job twice,
// even at the same time, so process must make each result take effect once. Effects outside of the
// database happen at least once: use e.Reference as their idempotency key.
func (w *resultWorker) Work(ctx context.Context, job *river.Job[resultArgs]) error {
	e, err := w.checks.Get(ctx, job.Args.Reference)
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		if err := w.process(ctx, tx, e); err != nil {
			return err
		}
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
}
