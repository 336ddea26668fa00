package inbox

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/idverify/idverify-go"
)

// Run calls [Inbox.Reconcile] every ten seconds and [Inbox.Purge] every hour, both for the first
// time at once. When ctx ends, it returns nil. Failures are logged. Every process may call Run.
func (i *Inbox) Run(ctx context.Context, client *idverify.Client) error {
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
			return nil
		}
	}
}

// The intervals of Run.
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
