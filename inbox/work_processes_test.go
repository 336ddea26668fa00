package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/internal/synctest"
)

func TestInbox_WorkFindsResults(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			source := d.source(t)
			synctest.Test(t, func(t *testing.T) {
				db := openDB(t, d.driver, source)
				mine := newInbox(t, db, d.dialect, nil)
				other := newInbox(t, db, d.dialect, nil)
				ctx, shutDown := context.WithCancel(t.Context())
				processed := make(chan time.Time)
				var work sync.WaitGroup
				work.Go(func() {
					_ = mine.Work(ctx, func(context.Context, *sql.Tx, inbox.Entry) error {
						processed <- time.Now()
						return nil
					})
				})
				defer work.Wait()
				defer shutDown()
				time.Sleep(time.Second / 2) // between two polls

				storeResult(t, db, mine, "sign-up 1")
				stored := time.Now()
				if delay := (<-processed).Sub(stored); delay > time.Second/4 { // SQLite may be busy for a moment
					t.Errorf("a result of the same Inbox was found after %s, want at once", delay)
				}
				storeResult(t, db, other, "sign-up 2")
				stored = time.Now()
				if delay := (<-processed).Sub(stored); delay > time.Second {
					t.Errorf("a result of another Inbox was found after %s, want it with the next poll", delay)
				}
			})
		})
	}
}

func TestInbox_WorkSurvivesOutage(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			failed := make(chan string, 100)
			logger := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
				select {
				case failed <- string(p):
				default:
				}
				return len(p), nil
			}), nil))
			b := newWorkBackend(t, d, &inbox.Options{Logger: logger})
			b.result(t, "sign-up 1")
			b.exec(t, "ALTER TABLE idverify_checks RENAME TO unavailable")
			ctx, shutDown := context.WithCancel(t.Context())
			var work sync.WaitGroup
			work.Go(func() {
				_ = b.inbox.Work(ctx, func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
					defer shutDown()
					return insertEffect(context.WithoutCancel(ctx), tx, e)
				})
			})

			if record := <-failed; !strings.Contains(record, "inbox: work") {
				t.Errorf("log record = %q, want the failure of Work", record)
			}
			b.exec(t, "ALTER TABLE unavailable RENAME TO idverify_checks")
			work.Wait()

			b.wantEffects(t, "sign-up 1")
		})
	}
}

// TestInbox_WorkConcurrent uses a clock that jumps, so that a claimed entry is always due again and
// other workers claim it too.
func TestInbox_WorkConcurrent(t *testing.T) {
	t.Parallel()
	const entries, workers = 500, 8
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			source := d.source(t)
			var clock, processed atomic.Int64
			ctx, shutDown := context.WithCancel(t.Context())
			opts := &inbox.Options{
				MaxAttempts: 1 << 20,
				Now:         func() time.Time { return time.Unix(clock.Add(2), 0) },
				Observe: func(_ context.Context, e inbox.Event) {
					if e.Outcome == inbox.OutcomeDone && processed.Add(1) == entries {
						shutDown()
					}
				},
			}
			var inboxes []*inbox.Inbox
			db := openDB(t, d.driver, source)
			inboxes = append(inboxes, newInbox(t, db, d.dialect, opts), newInbox(t, openDB(t, d.driver, source), d.dialect, opts))
			if _, err := db.ExecContext(t.Context(), createEffects); err != nil {
				t.Fatal(err)
			}
			for n := range entries {
				storeResult(t, db, inboxes[n%2], fmt.Sprintf("sign-up %03d", n))
			}
			var running sync.Map

			var work sync.WaitGroup
			for n := range workers {
				work.Go(func() {
					err := inboxes[n%2].Work(ctx, func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
						if _, loaded := running.LoadOrStore(e.Reference, true); loaded {
							t.Errorf("%s is processed twice at a time", e.Reference)
						}
						defer running.Delete(e.Reference)
						return insertEffect(context.WithoutCancel(ctx), tx, e)
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
			work.Wait()

			var effects, distinct int
			err := db.QueryRowContext(t.Context(), "SELECT count(*), count(DISTINCT reference) FROM effects").Scan(&effects, &distinct)
			if err != nil || effects != entries || distinct != entries || processed.Load() != entries {
				t.Errorf("%d effects of %d entries in %d successful attempts, %v; want %d of each", effects, distinct, processed.Load(), err, entries)
			}
		})
	}
}

func TestInbox_WorkWithOnResult(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, d, &inbox.Options{OnResult: insertEffect})

			if err := b.inbox.Work(t.Context(), insertEffect); err == nil || !strings.Contains(err.Error(), "OnResult") {
				t.Errorf("error = %v, want one that names OnResult", err)
			}
		})
	}
}

var errEffect = errors.New("effect failed")

// createEffects creates the table that the functions of Work write.
const createEffects = "CREATE TABLE effects (reference text NOT NULL)"

func insertEffect(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO effects (reference) VALUES ($1)", e.Reference)
	return err
}

// workBackend is a backend that records events and has a table of effects.
type workBackend struct {
	*backend

	mu     sync.Mutex // guards events
	events []inbox.Event
}

func newWorkBackend(t testing.TB, d database, opts *inbox.Options) *workBackend {
	t.Helper()
	if opts == nil {
		opts = &inbox.Options{}
	}
	b := new(workBackend)
	opts.Observe = func(_ context.Context, e inbox.Event) {
		if e.Operation == "record" {
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.events = append(b.events, e)
	}
	b.backend = newBackend(t, d, opts)
	b.client = b.service.Client(idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1}))
	b.exec(t, createEffects)
	return b
}

// outcomes returns the operations and outcomes of all events except those of Record.
func (b *workBackend) outcomes() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []string
	for _, e := range b.events {
		all = append(all, e.Operation+" "+string(e.Outcome))
	}
	return all
}

func (b *workBackend) workOnce(t testing.TB, do func(context.Context, *sql.Tx, inbox.Entry) error) bool {
	t.Helper()
	found, err := b.inbox.WorkOnce(t.Context(), do)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// result stores a match.
func (b *workBackend) result(t testing.TB, reference string) {
	t.Helper()
	storeResult(t, b.db, b.inbox, reference)
}

func (b *workBackend) exec(t testing.TB, statement string) {
	t.Helper()
	if _, err := b.db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func (b *workBackend) wantEffects(t testing.TB, want ...string) {
	t.Helper()
	rows, err := b.db.QueryContext(t.Context(), "SELECT reference FROM effects ORDER BY reference")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got []string
	for rows.Next() {
		var reference string
		if err := rows.Scan(&reference); err != nil {
			t.Fatal(err)
		}
		got = append(got, reference)
	}
	if diff := cmp.Diff(want, got); diff != "" || rows.Err() != nil {
		t.Errorf("effects (-want +got):\n%s%v", diff, rows.Err())
	}
}

func (b *backend) wantStats(t testing.TB, want inbox.Stats) {
	t.Helper()
	got, err := b.inbox.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
}

func (b *backend) advance(t testing.TB, d time.Duration) {
	t.Helper()
	if err := b.service.Advance(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

// newInbox returns an Inbox of db, which may be empty.
func newInbox(t testing.TB, db *sql.DB, d inbox.Dialect, opts *inbox.Options) *inbox.Inbox {
	t.Helper()
	if err := inbox.Migrate(t.Context(), db, d); err != nil {
		t.Fatal(err)
	}
	checks, err := inbox.New(t.Context(), db, d, opts)
	if err != nil {
		t.Fatal(err)
	}
	return checks
}

// planTx plans a PhoneCheck in its own transaction.
func planTx(t testing.TB, db *sql.DB, checks *inbox.Inbox, reference string) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := checks.Plan(t.Context(), tx, idverify.ProductPhoneCheck, reference); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// storeResult plans a check and stores that it is a match.
func storeResult(t testing.TB, db *sql.DB, checks *inbox.Inbox, reference string) {
	t.Helper()
	planTx(t, db, checks, reference)
	stored, err := checks.Record(t.Context(), inbox.Result{Product: idverify.ProductPhoneCheck, CheckID: "check of " + reference, ReferenceID: reference,
		Status: idverify.StatusCompleted, Match: idverify.VerdictYes})
	if err != nil || !stored {
		t.Fatalf("stored = %t, error = %v", stored, err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
