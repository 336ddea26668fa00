package inbox_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
)

// BenchmarkThroughput measures the results that 16 goroutines store in a second, and the entries
// that one Work processes in a second. Its figures are in docs/replicas.md.
func BenchmarkThroughput(b *testing.B) {
	for _, d := range databases {
		b.Run(d.name+"/record", func(b *testing.B) {
			checks, db := throughputInbox(b, d)
			results := plannedResults(b, checks, db)
			var next atomic.Int64
			b.SetParallelism(8)
			b.ResetTimer()

			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := checks.Record(b.Context(), results[next.Add(1)-1]); err != nil {
						b.Error(err)
					}
				}
			})

			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "results/s")
		})
		b.Run(d.name+"/work", func(b *testing.B) {
			checks, db := throughputInbox(b, d)
			for _, r := range plannedResults(b, checks, db) {
				if _, err := checks.Record(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := db.ExecContext(b.Context(), "CREATE TABLE sign_ups (reference text PRIMARY KEY, verdict text)"); err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			processed := 0
			b.ResetTimer()

			err := checks.Work(ctx, func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
				if processed++; processed == b.N {
					cancel()
				}
				_, err := tx.ExecContext(context.WithoutCancel(ctx), "INSERT INTO sign_ups (reference, verdict) VALUES ($1, $2)", e.Reference, e.Match)
				return err
			})

			if err != nil || processed != b.N {
				b.Fatalf("processed %d entries with error %v, want %d", processed, err, b.N)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
		})
	}
}

// throughputInbox returns an Inbox on an empty database, with 16 connections.
func throughputInbox(b *testing.B, d database) (*inbox.Inbox, *sql.DB) {
	b.Helper()
	db := d.open(b)
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16)
	if err := inbox.Migrate(b.Context(), db, d.dialect); err != nil {
		b.Fatal(err)
	}
	checks, err := inbox.New(b.Context(), db, d.dialect, nil)
	if err != nil {
		b.Fatal(err)
	}
	return checks, db
}

// plannedResults plans b.N checks in one transaction, and returns their results.
func plannedResults(b *testing.B, checks *inbox.Inbox, db *sql.DB) []inbox.Result {
	b.Helper()
	tx, err := db.BeginTx(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer tx.Rollback()
	results := make([]inbox.Result, b.N)
	for n := range results {
		results[n] = inbox.Result{
			Product: idverify.ProductPhoneCheck, CheckID: fmt.Sprintf("%s-%d", rand.Text(), n), ReferenceID: rand.Text(),
			Status: idverify.StatusCompleted, Match: idverify.VerdictYes,
		}
		if err := checks.Plan(b.Context(), tx, results[n].Product, results[n].ReferenceID); err != nil {
			b.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
	for _, r := range results {
		if err := checks.Bind(b.Context(), r.ReferenceID, r.CheckID, 0); err != nil {
			b.Fatal(err)
		}
	}
	return results
}
