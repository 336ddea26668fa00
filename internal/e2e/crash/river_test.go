package crash

import (
	"context"
	"database/sql"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/idverify/idverify-go/inbox"
)

// actJob is the job that acts on a result.
type actJob struct {
	Reference string `json:"reference"`
	CheckID   string `json:"check_id"`
}

// Kind implements river.JobArgs.
func (actJob) Kind() string { return "act" }

// startRiver starts the workers and returns the function that inserts their jobs.
func (b *backend) startRiver(ctx context.Context) (func(context.Context, *sql.Tx, inbox.Entry) error, error) {
	pool, err := pgxpool.New(ctx, b.config.Source)
	if err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &actWorker{backend: b, pool: pool})
	worker, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:               map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 32}},
		Workers:              workers,
		Logger:               b.log,
		FetchPollInterval:    200 * time.Millisecond,
		JobTimeout:           3 * time.Second,
		RescueStuckJobsAfter: 5 * time.Second, // longer than the timeout of a job
		RetryPolicy:          retryAtOnce{},
		MaxAttempts:          1000, // the processes are killed much more often than in production
	})
	if err != nil {
		return nil, err
	}
	for err := worker.Start(ctx); err != nil; err = worker.Start(ctx) {
		b.log.Error("River cannot start", "error", err)
		time.Sleep(100 * time.Millisecond)
	}
	inserter, err := river.NewClient(riverdatabasesql.New(b.db), &river.Config{Logger: b.log, MaxAttempts: 1000})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
		_, err := inserter.InsertTx(ctx, tx, actJob{Reference: e.Reference, CheckID: e.CheckID}, nil)
		return err
	}, nil
}

// actWorker acts on results: first outside of the database, then in it.
type actWorker struct {
	river.WorkerDefaults[actJob]

	backend *backend
	pool    *pgxpool.Pool
}

// Work implements river.Worker. River runs a job at least once: a job whose process was paused may
// run twice at the same time. The job ID makes the second one have no effect.
func (w *actWorker) Work(ctx context.Context, job *river.Job[actJob]) error {
	if err := w.backend.actOutside(ctx, job.Args.Reference, job.Args.CheckID); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO effects (reference, job_id) VALUES ($1, $2) ON CONFLICT (job_id) DO NOTHING", job.Args.Reference, job.ID)
		if err != nil {
			return err
		}
		_, err = river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
}

// retryAtOnce retries jobs without a pause.
type retryAtOnce struct{}

// NextRetry implements river.ClientRetryPolicy.
func (retryAtOnce) NextRetry(*rivertype.JobRow) time.Time { return time.Now() }
