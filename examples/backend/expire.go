package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
)

// expireArgs are the arguments of the job that deletes phone numbers and addresses.
type expireArgs struct{}

// Kind implements river.JobArgs.
func (expireArgs) Kind() string { return "expire" }

// expireHourly returns the job, which River inserts on one replica.
func expireHourly() []*river.PeriodicJob {
	return []*river.PeriodicJob{river.NewPeriodicJob(river.PeriodicInterval(time.Hour),
		func() (river.JobArgs, *river.InsertOpts) { return expireArgs{}, nil }, &river.PeriodicJobOpts{RunOnStart: true})}
}

// expireWorkers returns the worker of the job.
func expireWorkers(pool *pgxpool.Pool) *river.Workers {
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, _ *river.Job[expireArgs]) error {
		_, err := pool.Exec(ctx, "DELETE FROM sessions WHERE created_at < now() - interval '12 hours'")
		if err == nil {
			_, err = pool.Exec(ctx, "DELETE FROM signins WHERE created_at < now() - interval '1 hour'")
		}
		if err == nil {
			_, err = pool.Exec(ctx, "DELETE FROM signups WHERE status IN ('failed', 'rejected') AND created_at < now() - interval '1 day'")
		}
		return err
	}))
	return workers
}
