package inbox

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/idverify/idverify-go"
)

// Start starts [Inbox.Work] with fn, and calls [Inbox.Reconcile] every ten seconds and
// [Inbox.Purge] every hour, both for the first time at once. They run in goroutines until ctx ends
// or stop is called, and log their failures. Every process may call Start.
//
// If fn is nil, Work is not started: results are processed by [Options].OnResult, or wait for
// another call of Work. If OnResult is set, fn must be nil. A backend that only keeps a record, for
// example because checkflow signs people in, passes an fn that returns nil: Purge deletes only
// entries that were processed.
//
// The function stop ends the goroutines and waits for them. Call it after the HTTP server has shut
// down, and before you close the database:
//
//	defer db.Close()
//	stop := checks.Start(context.WithoutCancel(ctx), client, fn) // ctx ends at a signal
//	defer stop()
//	// … serve until the program is stopped …
func (i *Inbox) Start(ctx context.Context, client *idverify.Client, fn func(ctx context.Context, tx *sql.Tx, e Entry) error) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { i.maintain(ctx, client) })
	if fn != nil {
		running.Go(func() {
			if err := i.Work(ctx, fn); err != nil {
				i.log(ctx, slog.LevelError, "inbox: work", err)
			}
		})
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// maintain calls Reconcile and Purge until ctx ends.
func (i *Inbox) maintain(ctx context.Context, client *idverify.Client) {
	reconcile := time.NewTicker(reconcileInterval)
	defer reconcile.Stop()
	purge := time.NewTicker(purgeInterval)
	defer purge.Stop()
	for purgeDue := true; ; {
		if err := i.Reconcile(ctx, client); err != nil && ctx.Err() == nil {
			i.log(ctx, slog.LevelError, "inbox: reconcile", err)
		}
		if purgeDue {
			if _, err := i.Purge(ctx); err != nil && ctx.Err() == nil {
				i.log(ctx, slog.LevelError, "inbox: purge", err)
			}
			purgeDue = false
		}
		select {
		case <-reconcile.C:
		case <-purge.C:
			purgeDue = true
		case <-ctx.Done():
			return
		}
	}
}

// The intervals of Start.
const (
	reconcileInterval = 10 * time.Second
	purgeInterval     = time.Hour
)

// purgeBatch is the number of entries that one statement deletes, so that none holds locks for
// long.
const purgeBatch = 500

// Purge deletes the entries that were processed longer than [Options].Retention ago, in batches of
// 500, and returns their number. Later callbacks of their checks are ignored. It also deletes the
// expired flows of [Inbox.Flows].
func (i *Inbox) Purge(ctx context.Context) (deleted int64, err error) {
	if i.opts.Retention >= 0 {
		before := i.now() - i.opts.Retention.Microseconds()
		deleted, err = purgeAll(ctx, func(ctx context.Context) (int64, error) { return i.purgeBatch(ctx, before) })
	}
	if err == nil {
		_, err = purgeAll(ctx, i.purgeFlowBatch)
	}
	if err != nil {
		return deleted, fmt.Errorf("inbox: purge: %w", err)
	}
	return deleted, nil
}

// purgeAll deletes batches until one is not full.
func purgeAll(ctx context.Context, deleteBatch func(context.Context) (int64, error)) (deleted int64, err error) {
	for {
		n, err := deleteBatch(ctx)
		deleted += n
		if err != nil || n < purgeBatch {
			return deleted, err
		}
	}
}

// purgeBatch deletes one batch of the entries that were processed before the given time.
func (i *Inbox) purgeBatch(ctx context.Context, before int64) (deleted int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	result, err := i.exec(ctx, "WITH old AS MATERIALIZED (SELECT reference FROM idverify_checks WHERE done_at < $1 ORDER BY done_at LIMIT $2"+i.dialect.skipLocked()+") "+
		"DELETE FROM idverify_checks WHERE reference IN (SELECT reference FROM old)", before, purgeBatch)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
