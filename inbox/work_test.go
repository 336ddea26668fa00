package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
)

func TestInbox_WorkCommitsEffects(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		b.result(t, "sign-up 1")

		var got inbox.Entry
		found := b.workOnce(t, func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
			got = e
			return insertEffect(ctx, tx, e)
		})
		again := b.workOnce(t, insertEffect)

		if !found || got.Match != idverify.VerdictYes || got.Reference != "sign-up 1" || got.Attempts != 1 {
			t.Errorf("found = %t, entry = %+v, want the result at the first attempt", found, got)
		}
		if again {
			t.Error("the result was processed twice")
		}
		b.wantEffects(t, "sign-up 1")
		if e := b.get(t, "sign-up 1"); !e.DoneAt.Equal(b.service.Now()) {
			t.Errorf("DoneAt = %s, want now", e.DoneAt)
		}
		b.wantStats(t, inbox.Stats{})
	})
}

func TestInbox_WorkRollsBack(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		for name, fail := range map[string]func() error{
			"error": func() error { return errEffect },
			"panic": func() error { panic(matching) },
		} {
			t.Run(d.name+" "+name, func(t *testing.T) {
				t.Parallel()
				b := newBackend(t, d, nil)
				b.result(t, "sign-up 1")

				found := b.workOnce(t, func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
					if err := insertEffect(ctx, tx, e); err != nil {
						return err
					}
					return fail()
				})

				if e := b.get(t, "sign-up 1"); !found || !e.DoneAt.IsZero() || e.Attempts != 1 {
					t.Errorf("found = %t, entry = %+v, want one attempt and no success", found, e)
				}
				b.wantEffects(t)
				b.wantStats(t, inbox.Stats{Pending: 1})
				want := regexp.MustCompile(`level=ERROR msg="inbox: entry not processed" check_id="check of sign-up 1" reference="sign-up 1" attempt=1 outcome=failed error=".+"`)
				if log := b.logged(); !want.MatchString(log) || strings.Contains(log, matching) {
					t.Errorf("log = %s, want the failure without the value of the panic", log)
				}
			})
		}
	}
}

func TestInbox_WorkPauses(t *testing.T) {
	var want []time.Duration
	for pause := time.Second; len(want) < 19; pause *= 2 {
		want = append(want, min(pause, 10*time.Minute))
	}
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		b.result(t, "sign-up 1")

		if !b.workOnce(t, failEffect) {
			t.Fatal("no first attempt")
		}
		for n, pause := range want {
			b.advance(t, pause-time.Microsecond)
			if b.workOnce(t, failEffect) {
				t.Fatalf("attempt %d started early", n+2)
			}
			b.advance(t, time.Microsecond)
			if !b.workOnce(t, failEffect) {
				t.Fatalf("no attempt %d after %s", n+2, pause)
			}
		}
		stoppedAt := b.service.Now()
		b.wantStats(t, inbox.Stats{Stopped: 1})
		b.advance(t, 24*time.Hour)
		if b.workOnce(t, failEffect) {
			t.Error("attempt of a stopped entry")
		}

		stopped, err := b.inbox.Stopped(t.Context(), 10)
		if err != nil || len(stopped) != 1 || stopped[0].Attempts != 20 || !stopped[0].StoppedAt.Equal(stoppedAt) {
			t.Errorf("stopped = %+v, %v, want the entry after 20 attempts", stopped, err)
		}
		b.wantOutcomes(t, append(slices.Repeat([]string{"work failed"}, 19), "work stopped")...)
	})
}

func TestInbox_WorkMeasuresPauseFromFailure(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		b.result(t, "sign-up 1")
		slow := func(context.Context, *sql.Tx, inbox.Entry) error {
			b.advance(t, time.Minute)
			return errEffect
		}

		b.workOnce(t, slow)

		if b.workOnce(t, slow) {
			t.Error("attempt without a pause")
		}
		b.advance(t, time.Second)
		if !b.workOnce(t, slow) {
			t.Error("no attempt after the pause")
		}
	})
}

// A result was stored while a clock was ahead, and the clock was then corrected.
func TestInbox_WorkClockAhead(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		const ahead = 30 * 24 * time.Hour
		b := newBackend(t, d, nil)
		wrong := newInbox(t, b.db, d.dialect, &inbox.Options{Now: func() time.Time { return b.service.Now().Add(ahead) }})
		storeResult(t, b.db, wrong, "sign-up 1")
		due := "due_at=" + b.service.Now().Add(ahead).UTC().Truncate(time.Microsecond).Format("2006-01-02T15:04:05.000Z")
		b.result(t, "sign-up 2")

		b.wantStats(t, inbox.Stats{Pending: 2, OldestAge: ahead})
		for b.workOnce(t, insertEffect) {
		}

		b.wantEffects(t, "sign-up 1", "sign-up 2")
		b.wantOutcomes(t, "work done", "work done")
		if log := b.logged(); strings.Count(log, "level=WARN") != 1 || !strings.Contains(log, "reference=\"sign-up 1\" "+due) {
			t.Errorf("log = %s, want one record about the entry with %s", log, due)
		}
	})
}

// The clock of a process may be behind that of the process that set a pause.
func TestInbox_WorkClockBehind(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		b.result(t, "sign-up 1")
		for range 12 {
			b.workOnce(t, failEffect)
			b.advance(t, 10*time.Minute)
		}
		b.workOnce(t, failEffect)
		for behind, want := range map[time.Duration]bool{0: false, 10 * time.Minute: false, 11 * time.Minute: true} {
			other := newInbox(t, b.db, d.dialect, &inbox.Options{Now: func() time.Time { return b.service.Now().Add(-behind) }})

			found, err := other.WorkOnce(t.Context(), insertEffect)

			if err != nil || found != want {
				t.Errorf("clock behind by %s: found = %t, error %v, want %t", behind, found, err, want)
			}
		}
	})
}

func TestInbox_Retry(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, &inbox.Options{MaxAttempts: 1})
		b.result(t, "sign-up 1")
		b.result(t, "sign-up 2")
		b.workOnce(t, failEffect)

		if err := b.inbox.Retry(t.Context(), "sign-up 2"); !errors.Is(err, inbox.ErrNotFound) {
			t.Errorf("retry of an entry that has not stopped: %v, want ErrNotFound", err)
		}
		noError(t, b.inbox.Retry(t.Context(), "sign-up 1"))
		for b.workOnce(t, insertEffect) {
		}

		b.wantEffects(t, "sign-up 1", "sign-up 2")
		if e := b.get(t, "sign-up 1"); e.Attempts != 1 || !e.StoppedAt.IsZero() {
			t.Errorf("entry = %+v, want it as if it had not stopped", e)
		}
		b.wantStats(t, inbox.Stats{})
	})
}

func TestInbox_WorkContinuesAfterFailure(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		for n := range 5 {
			b.result(t, fmt.Sprint("sign-up ", n))
		}

		calls := 0
		for b.workOnce(t, func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
			if calls++; e.Reference == "sign-up 0" || e.Reference == "sign-up 3" {
				return errEffect
			}
			return insertEffect(ctx, tx, e)
		}) {
		}

		if calls != 5 {
			t.Errorf("%d calls, want one for each entry", calls)
		}
		b.wantEffects(t, "sign-up 1", "sign-up 2", "sign-up 4")
	})
}

// TestInbox_WorkCountsKilled ends the goroutine of Work in the function, as the end of a process
// does: nothing after the function runs.
func TestInbox_WorkCountsKilled(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, &inbox.Options{MaxAttempts: 2})
		b.result(t, "sign-up 1")
		b.result(t, "sign-up 2")
		killed := func() {
			var all sync.WaitGroup
			all.Go(func() {
				_, _ = b.inbox.WorkOnce(t.Context(), func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
					if err := insertEffect(ctx, tx, e); err != nil {
						t.Error(err)
					}
					runtime.Goexit()
					return nil
				})
			})
			all.Wait()
		}

		killed()
		if e := b.get(t, "sign-up 1"); e.Attempts != 1 || !e.DoneAt.IsZero() {
			t.Errorf("entry = %+v, want one attempt and no success", e)
		}
		b.workOnce(t, insertEffect)
		b.wantEffects(t, "sign-up 2")
		if b.workOnce(t, insertEffect) {
			t.Error("attempt without a pause")
		}
		b.advance(t, time.Second)
		killed()
		b.advance(t, 2*time.Second)
		if !b.workOnce(t, insertEffect) {
			t.Error("the entry was not stopped")
		}

		b.wantEffects(t, "sign-up 2")
		b.wantStats(t, inbox.Stats{Stopped: 1})
		if e := b.get(t, "sign-up 1"); e.Attempts != 2 {
			t.Errorf("%d attempts, want 2", e.Attempts)
		}
		b.wantOutcomes(t, "work done", "work stopped")
	})
}

func TestInbox_WorkShutdown(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		b.result(t, "sign-up 1")
		b.result(t, "sign-up 2")

		ctx, shutDown := context.WithCancel(t.Context())
		err := b.inbox.Work(ctx, func(ctx context.Context, _ *sql.Tx, _ inbox.Entry) error {
			shutDown()
			return ctx.Err()
		})
		if e := b.get(t, "sign-up 1"); err != nil || e.Attempts != 0 || !e.DoneAt.IsZero() {
			t.Errorf("failure at shutdown: error %v, entry %+v, want an attempt that does not count", err, e)
		}
		for range 2 {
			ctx, shutDown = context.WithCancel(t.Context())
			err = b.inbox.Work(ctx, func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
				shutDown()
				return insertEffect(context.WithoutCancel(ctx), tx, e)
			})
			if err != nil {
				t.Errorf("Work = %v, want nil", err)
			}
		}

		b.wantEffects(t, "sign-up 1", "sign-up 2")
		b.wantOutcomes(t, "work done", "work done")
		if err := b.inbox.Work(ctx, insertEffect); err != nil {
			t.Errorf("Work with an ended context = %v, want nil", err)
		}
	})
}

func TestInbox_WorkFindsResults(t *testing.T) {
	inBubbles(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		other := newInbox(t, b.db, d.dialect, &inbox.Options{Now: b.service.Now})
		b.planned(t, "sign-up 2", "check")
		url := b.signedURL(t, nil)
		ctx, shutDown := context.WithCancel(t.Context())
		processed := make(chan time.Time)
		var work sync.WaitGroup
		work.Go(func() {
			_ = b.inbox.Work(ctx, func(context.Context, *sql.Tx, inbox.Entry) error {
				processed <- time.Now()
				return nil
			})
		})

		time.Sleep(time.Second / 2) // between two polls
		for _, test := range []struct {
			name  string
			store func()
			limit time.Duration
		}{
			{"Record", func() { b.result(t, "sign-up 1") }, time.Second / 4}, // SQLite may be busy for a moment
			{"Handler", func() {
				if _, err := b.send(t.Context(), t, url, "phone_check", signedBody(b, `"status":"COMPLETED","match":true`)); err != nil {
					t.Error(err)
				}
			}, time.Second / 4},
			{"another Inbox", func() { storeResult(t, b.db, other, "sign-up 3") }, time.Second},
		} {
			stored := time.Now()

			test.store()

			if delay := (<-processed).Sub(stored); delay > test.limit {
				t.Errorf("a result of %s was found after %s, want within %s", test.name, delay, test.limit)
			}
			time.Sleep(time.Second - time.Since(stored))
		}
		shutDown()
		work.Wait()
	})
}

func TestInbox_WorkSurvivesOutage(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		failed := make(logRecords, 100)
		b := newBackend(t, d, &inbox.Options{Logger: slog.New(slog.NewTextHandler(failed, nil))})
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

// TestInbox_WorkConcurrent uses a clock that jumps, so that a claimed entry is always due again and
// other workers claim it too.
func TestInbox_WorkConcurrent(t *testing.T) {
	const entries, workers = 500, 8
	onDatabases(t, func(t *testing.T, d database) {
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
		db := openDB(t, d.driver, source)
		inboxes := []*inbox.Inbox{newInbox(t, db, d.dialect, opts), newInbox(t, openDB(t, d.driver, source), d.dialect, opts)}
		must(db.ExecContext(t.Context(), "CREATE TABLE effects (reference text NOT NULL)"))(t)
		for n := range entries {
			storeResult(t, db, inboxes[n%2], fmt.Sprintf("sign-up %03d", n))
		}
		var running sync.Map

		concurrently(workers, func(n int) {
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

		var effects, distinct int
		err := db.QueryRowContext(t.Context(), "SELECT count(*), count(DISTINCT reference) FROM effects").Scan(&effects, &distinct)
		if err != nil || effects != entries || distinct != entries || processed.Load() != entries {
			t.Errorf("%d effects of %d entries in %d successful attempts, %v; want %d of each", effects, distinct, processed.Load(), err, entries)
		}
	})
}
