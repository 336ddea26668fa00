package inbox_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modernc.org/sqlite"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/internal/synctest"
)

func TestInbox_WorkTransactionEnds(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newEndingBackend(t, d, inbox.Options{})
		for _, e := range endings(d) {
			b.result(t, e.String())

			calls := 0
			for range 4 {
				b.workOnce(t, func(ctx context.Context, tx *sql.Tx, entry inbox.Entry) error {
					calls++
					return e.do(ctx, tx, entry)
				})
				b.advance(t, 11*time.Minute)
			}

			b.wantStopped(t, e.String())
			if calls != 1 {
				t.Errorf("%s: %d calls, want 1", e, calls)
			}
			if log := b.logged(); strings.Count(log, "the transaction ended before the function returned") != 1 || !regexp.MustCompile("level=ERROR .* outcome=stopped").MatchString(log) {
				t.Errorf("%s: log = %s, want one record with the reason", e, log)
			}
		}
		b.wantStats(t, inbox.Stats{Stopped: len(endings(d))})
		b.wantOutcomes(t, slices.Repeat([]string{"work stopped"}, len(endings(d)))...)
		for _, event := range b.eventsOf("work") {
			if !errors.Is(event.Err, inbox.ErrTransactionEnded) {
				t.Errorf("error = %v, want ErrTransactionEnded", event.Err)
			}
		}
	})
}

func TestInbox_OnResultTransactionEnds(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		var e ending
		calls := 0
		b := newEndingBackend(t, d, inbox.Options{OnResult: func(ctx context.Context, tx *sql.Tx, entry inbox.Entry) error {
			calls++
			return e.do(ctx, tx, entry)
		}})
		for _, e = range endings(d) {
			calls = 0
			references := []string{"callback " + e.String(), "record " + e.String(), "search " + e.String(), "unknown " + e.String()}
			result := inbox.Result{Product: idverify.ProductPhoneCheck, CheckID: b.startSilent(t, matching, references[1]).CheckID, Status: idverify.StatusCompleted, Match: idverify.VerdictYes}

			b.open(t, b.start(t, matching, references[0]))
			b.redeliver(t)
			_, first := b.inbox.Record(t.Context(), result)
			stored, second := b.inbox.Record(t.Context(), result)
			b.plan(t, idverify.ProductSIMCheck, references[2])
			b.createAny(t, idverify.ProductSIMCheck, references[2])
			b.plan(t, idverify.ProductPhoneCheck, references[3])
			for range 3 {
				b.advance(t, 10*time.Minute)
				_ = b.inbox.Reconcile(t.Context(), b.client)
			}

			for _, reference := range references {
				b.wantStopped(t, reference)
			}
			if calls != len(references) {
				t.Errorf("%s: %d calls of OnResult, want %d", e, calls, len(references))
			}
			if !errors.Is(first, inbox.ErrTransactionEnded) || e.result != nil && !errors.Is(first, e.result) || stored || second != nil {
				t.Errorf("%s: errors of Record = %v and %v (stored = %t), want ErrTransactionEnded once", e, first, second, stored)
			}
			log := b.logged()
			for reference, record := range map[string]string{references[0]: "inbox: callback", references[2]: "inbox: check not reconciled", references[3]: "inbox: check not reconciled"} {
				record = fmt.Sprintf("level=ERROR msg=%q outcome=stopped .*reference=%s .*%s", record, regexp.QuoteMeta(strconv.Quote(reference)), inbox.ErrTransactionEnded)
				if n := len(regexp.MustCompile(record).FindAllString(log, -1)); n != 1 {
					t.Errorf("%s: log = %s, want one record %s", e, log, record)
				}
			}
		}
		n := len(endings(d))
		wantEqual(t, strings.TrimSpace(strings.Repeat("204 204 ", n)), b.responses(), "responses to results that are stored")
		b.wantOutcomes(t, slices.Repeat([]string{"callback stopped", "callback duplicate", "reconcile stopped", "reconcile stopped"}, n)...)
	})
}

// A function that fails after its transaction has ended is called again if it changed nothing.
func TestInbox_WorkRetriesRolledBack(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		all := []ending{{name: "Tx.Rollback", end: func(_ context.Context, tx *sql.Tx) error { return errors.Join(errEffect, tx.Rollback()) }}}
		if d.dialect == inbox.SQLite {
			all = append(all, implicitEndings...)
		}
		b := newEndingBackend(t, d, inbox.Options{})
		var references []string
		for _, e := range all {
			references = append(references, e.name)
			b.result(t, e.name)

			b.workOnce(t, func(ctx context.Context, tx *sql.Tx, _ inbox.Entry) error { return e.end(ctx, tx) })
			b.advance(t, time.Second)
			b.workOnce(t, insertEffect)
		}

		slices.Sort(references)
		b.wantEffects(t, references...)
		b.wantOutcomes(t, slices.Repeat([]string{"work failed", "work done"}, len(all))...)
	})
}

// A function may use savepoints of its own.
func TestInbox_WorkSavepoints(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newEndingBackend(t, d, inbox.Options{})
		b.result(t, "sign-up 1")

		b.workOnce(t, func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
			if err := statements("SAVEPOINT mine", "INSERT INTO unique_rows VALUES (2)", "RELEASE SAVEPOINT mine", "SAVEPOINT mine").end(ctx, tx); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "INSERT INTO unique_rows VALUES (1)"); err == nil {
				return errors.New("no conflict")
			}
			return errors.Join(statements("ROLLBACK TO SAVEPOINT mine").end(ctx, tx), insertEffect(ctx, tx, e))
		})

		b.wantEffects(t, "sign-up 1")
		b.wantOutcomes(t, "work done")
	})
}

// While the function of a transaction that has ended is still running, nothing locks the entry.
func TestInbox_TransactionEndsDuringCall(t *testing.T) {
	t.Parallel()
	for _, onResult := range []bool{false, true} {
		t.Run(fmt.Sprintf("OnResult %t", onResult), func(t *testing.T) {
			t.Parallel()
			ended, finish := make(chan struct{}), make(chan struct{})
			var calls atomic.Int64
			do := func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
				if calls.Add(1) == 1 {
					_, _ = tx.ExecContext(ctx, "INSERT OR ROLLBACK INTO unique_rows VALUES (1)")
					close(ended)
					<-finish
				}
				return insertEffect(ctx, tx, e)
			}
			b, process := recordOrWork(t, onResult, do)

			var first sync.WaitGroup
			first.Go(process)
			<-ended
			b.advance(t, time.Minute)
			process()
			close(finish)
			first.Wait()
			process()

			b.wantStopped(t, "sign-up 1")
			if n := calls.Load(); n != 1 {
				t.Errorf("%d calls, want 1", n)
			}
		})
	}
}

// If the entry cannot be stopped, for example because the disk is full, the function is not called
// again either.
func TestInbox_StopFailureBlocksCall(t *testing.T) {
	t.Parallel()
	for _, onResult := range []bool{false, true} {
		t.Run(fmt.Sprintf("OnResult %t", onResult), func(t *testing.T) {
			t.Parallel()
			calls := 0
			do := func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
				calls++
				_, _ = tx.ExecContext(ctx, "ROLLBACK")
				return insertEffect(ctx, tx, e)
			}
			b, process := recordOrWork(t, onResult, do)
			b.exec(t, "CREATE TRIGGER full BEFORE UPDATE ON idverify_checks WHEN NEW.stopped_at IS NOT NULL BEGIN SELECT RAISE(ABORT, 'no space'); END")

			for range 2 {
				process()
				b.advance(t, 11*time.Minute)
			}
			for _, event := range b.eventsOf("work") {
				if errors.Is(event.Err, inbox.ErrTransactionEnded) || strings.Count(fmt.Sprint(event.Err), "stop") != 1 {
					t.Errorf("error = %v, want it without ErrTransactionEnded, which means that the entry has stopped", event.Err)
				}
			}
			b.exec(t, "DROP TRIGGER full")
			process()

			b.wantStopped(t, "sign-up 1")
			if calls != 1 {
				t.Errorf("%d calls, want 1", calls)
			}
			if !onResult && !strings.Contains(b.logged(), "no space") {
				t.Error("the log does not contain why the entry was not stopped")
			}
		})
	}
}

// If the commit that stops the entry fails, the result is not stored: the service must send the
// callback again.
func TestHandler_StopNotCommitted(t *testing.T) {
	t.Parallel()
	calls := 0
	b := newEndingBackend(t, databases[1], inbox.Options{OnResult: func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
		calls++
		_, _ = tx.ExecContext(ctx, "ROLLBACK")
		return insertEffect(ctx, tx, e)
	}})
	b.exec(t, "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no space'; END $$")
	b.exec(t, "CREATE CONSTRAINT TRIGGER full_disk AFTER UPDATE ON idverify_checks DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.stopped_at IS NOT NULL) EXECUTE FUNCTION full_disk()")

	b.open(t, b.start(t, matching, "sign-up 1"))
	b.exec(t, "DROP TRIGGER full_disk ON idverify_checks")
	b.redeliver(t)

	wantEqual(t, "500 204", b.responses(), "responses to the result, which was not stored at first")
	b.wantStopped(t, "sign-up 1")
	if calls != 1 {
		t.Errorf("%d calls of OnResult, want 1", calls)
	}
}

// Serializable transactions that do not touch the same rows fail, too.
func TestHandler_Serializable(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		database database
		onResult func(context.Context, *sql.Tx, inbox.Entry) error
	}{{"Work", serializable, nil}, {"OnResult", serializable, insertEffect}, {"after New", databases[1], nil}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.database.source(t) // starts the server outside of the bubble
			synctest.Test(t, func(t *testing.T) {
				const checks, concurrent = 128, 8
				b := newBackend(t, test.database, &inbox.Options{OnResult: test.onResult})
				makeSerializable(t, b.db)
				b.db.SetMaxIdleConns(concurrent)
				b.db.SetMaxOpenConns(concurrent)
				for n := range checks {
					b.planned(t, fmt.Sprint("r", n), fmt.Sprint("check ", n))
				}
				url := b.signedURL(t, nil)
				var next, failed atomic.Int64

				concurrently(concurrent, func(int) {
					for n := next.Add(1); n <= checks; n = next.Add(1) {
						body := bodyOf(fmt.Sprint("check ", n-1), b.service.Now(), `"status":"COMPLETED","match":true`)
						status, err := b.send(t.Context(), t, url, "phone_check", body)
						if err != nil {
							t.Error(err)
							return
						}
						if status != http.StatusNoContent {
							failed.Add(1)
						}
					}
				})

				if n := failed.Load(); n > 0 {
					t.Errorf("%d of %d callbacks were not stored at the first attempt", n, checks)
				}
				if n := b.number(t, "SELECT count(*) FROM idverify_checks WHERE status = 'COMPLETED'"); n != checks {
					t.Errorf("%d results, want %d", n, checks)
				}
				if n := b.effects(t); test.onResult != nil && n != checks {
					t.Errorf("%d effects, want %d", n, checks)
				}
			})
		})
	}
}

// Statements of the package are read committed. A function may need the default of the database.
func TestInbox_IsolationLevels(t *testing.T) {
	t.Parallel()
	b := newBackend(t, serializable, &inbox.Options{Retention: time.Second})
	b.exec(t, "CREATE TABLE levels (n serial, level text)")
	b.exec(t, "CREATE FUNCTION record_level() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "+
		"INSERT INTO levels (level) VALUES (current_setting('transaction_isolation')); RETURN NULL; END $$")
	b.exec(t, "CREATE TRIGGER record_level AFTER UPDATE OR DELETE ON idverify_checks FOR EACH ROW EXECUTE FUNCTION record_level()")

	b.open(t, b.start(t, matching, "sign-up 1"))
	b.workOnce(t, insertEffect)
	b.advance(t, time.Minute)
	must(b.inbox.Purge(t.Context()))(t)

	want := []string{"read committed", "read committed", "read committed", "serializable", "read committed"}
	wantEqual(t, want, texts(t, b.db, "SELECT level FROM levels ORDER BY n"), "levels of Bind, the callback, the claim of Work, its function and Purge")
}

// Serialization failures and deadlocks of OnResult are not failures of the callback.
func TestHandler_Conflicts(t *testing.T) {
	t.Parallel()
	postgres.Start(t) // outside of the bubble
	synctest.Test(t, func(t *testing.T) {
		var calls, conflicts int
		var state string
		b := newBackend(t, databases[1], &inbox.Options{OnResult: func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
			if calls++; calls > conflicts {
				return insertEffect(ctx, tx, e)
			}
			_, err := tx.ExecContext(ctx, "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '"+state+"'; END $$")
			return err
		}})
		b.planned(t, "r", "check")
		url := b.signedURL(t, nil)

		for _, test := range []struct {
			state     string
			conflicts int
			want      int
		}{
			{"40001", math.MaxInt, http.StatusInternalServerError},
			{"40P01", math.MaxInt, http.StatusInternalServerError},
			{"23505", 1, http.StatusInternalServerError}, // not a conflict of transactions
			{"40001", 3, http.StatusNoContent},
		} {
			calls, conflicts, state = 0, test.conflicts, test.state
			begin := time.Now()

			status := must(b.send(t.Context(), t, url, "phone_check", signedBody(b, `"status":"COMPLETED","match":true`)))(t)

			if elapsed := time.Since(begin); status != test.want || elapsed > 8*time.Second {
				t.Errorf("%d times %s: response = %d after %s and %d calls, want %d within 8 s", conflicts, state, status, elapsed, calls, test.want)
			}
			if wantMore := state != "23505"; wantMore != (calls > 1) {
				t.Errorf("%s: %d calls", state, calls)
			}
		}
		b.wantEffects(t, "r")
	})
}

// ending is a way in which a transaction ends while a function is called.
type ending struct {
	name   string
	end    func(context.Context, *sql.Tx) error
	result error // of the function, which ignores the error of end, and then has an effect
}

// endings returns the endings of a database.
func endings(d database) (all []ending) {
	ways := []ending{statements("COMMIT"), statements("ROLLBACK"), statements("ROLLBACK", "BEGIN"),
		{name: "Tx.Commit", end: func(_ context.Context, tx *sql.Tx) error { return tx.Commit() }}}
	if d.dialect == inbox.SQLite {
		ways = append(ways, implicitEndings...)
	}
	for _, e := range ways {
		for _, e.result = range []error{nil, errEffect} {
			all = append(all, e)
		}
	}
	return all
}

// implicitEndings are the endings that no statement of the function asks for.
var implicitEndings = []ending{
	statements("INSERT OR ROLLBACK INTO unique_rows VALUES (1)"),
	{name: "full disk", end: fillDisk},
	{name: "interrupted write", end: interruptWrite},
}

// do is a function for Work and OnResult.
func (e ending) do(ctx context.Context, tx *sql.Tx, entry inbox.Entry) error {
	_ = e.end(ctx, tx)
	_ = insertEffect(ctx, tx, entry)
	return e.result
}

// String returns the name of the ending, for references.
func (e ending) String() string { return fmt.Sprintf("%s, then %v", e.name, e.result) }

// statements returns an ending by statements.
func statements(all ...string) ending {
	return ending{name: strings.Join(all, " "), end: func(ctx context.Context, tx *sql.Tx) error {
		var failures []error
		for _, s := range all {
			_, err := tx.ExecContext(ctx, s)
			failures = append(failures, err)
		}
		return errors.Join(failures...)
	}}
}

// fillDisk inserts a row that has no room in the file.
func fillDisk(ctx context.Context, tx *sql.Tx) error {
	var pages int
	if err := tx.QueryRowContext(ctx, "PRAGMA page_count").Scan(&pages); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA max_page_count = %d; INSERT INTO unique_rows VALUES (zeroblob(100000))", pages))
	_, reset := tx.ExecContext(ctx, "PRAGMA max_page_count = 1000000")
	return errors.Join(err, reset)
}

// interruptWrite executes an endless statement, which cancels its own context.
func interruptWrite(ctx context.Context, tx *sql.Tx) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	id := cancels.next.Add(1)
	cancels.functions.Store(id, cancel)
	defer cancels.functions.Delete(id)
	_, err := tx.ExecContext(ctx, "INSERT INTO unique_rows WITH RECURSIVE n (i) AS (SELECT 2 + cancel_context($1) UNION ALL SELECT i + 1 FROM n) SELECT i FROM n", id)
	return err
}

// cancels are the functions that the SQL function cancel_context calls.
var cancels struct {
	next      atomic.Int64
	functions sync.Map // map[int64]context.CancelFunc
}

// registerCancel registers the function cancel_context of SQLite, for connections opened later. The
// driver does not synchronize it with the opening of connections.
func registerCancel() {
	sqlite.MustRegisterScalarFunction("cancel_context", 1, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
		cancel, _ := cancels.functions.Load(args[0])
		cancel.(context.CancelFunc)()
		return int64(0), nil
	})
}

// newEndingBackend returns a backend with the table that the endings use.
func newEndingBackend(t *testing.T, d database, opts inbox.Options) *backend {
	t.Helper()
	b := newBackend(t, d, &opts)
	b.exec(t, "CREATE TABLE unique_rows (n integer UNIQUE)")
	b.exec(t, "INSERT INTO unique_rows VALUES (1)")
	return b
}

// wantStopped verifies that an entry has a result and has stopped, after at most one effect.
func (b *backend) wantStopped(t *testing.T, reference string) {
	t.Helper()
	if e := b.get(t, reference); e.Status == "" || e.StoppedAt.IsZero() || !e.DoneAt.IsZero() || e.Attempts != 0 {
		t.Errorf("entry = %+v, want a stopped result with 0 attempts", e)
	}
	if n := b.number(t, "SELECT count(*) FROM effects WHERE reference = $1", reference); n > 1 {
		t.Errorf("%d effects of %q, want at most 1: the customer is credited more than once", n, reference)
	}
}

// recordOrWork returns a backend with a planned check, and a function that calls Record with its
// result, or that calls Work after its result was recorded.
func recordOrWork(t *testing.T, onResult bool, do func(context.Context, *sql.Tx, inbox.Entry) error) (b *backend, process func()) {
	t.Helper()
	if !onResult {
		b = newEndingBackend(t, databases[0], inbox.Options{})
		b.result(t, "sign-up 1")
		return b, func() { b.workOnce(t, do) }
	}
	b = newEndingBackend(t, databases[0], inbox.Options{OnResult: do})
	b.plan(t, idverify.ProductPhoneCheck, "sign-up 1")
	result := inbox.Result{Product: idverify.ProductPhoneCheck, CheckID: "check", ReferenceID: "sign-up 1", Status: idverify.StatusCompleted, Match: idverify.VerdictYes}
	return b, func() { _, _ = b.inbox.Record(t.Context(), result) }
}

// A commit that hangs ends with the callback: the service waits for the response. The limit is
// real, because no time passes in a bubble while the database works. On a busy machine, an earlier
// statement may exceed it, with the same result.
func TestInbox_CommitHangs(t *testing.T) {
	t.Parallel()
	b := newBackend(t, databases[1], &inbox.Options{OnResult: insertEffect})
	b.exec(t, "CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(30); RETURN NULL; END'")
	b.exec(t, "CREATE CONSTRAINT TRIGGER hangs AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hang()")
	b.plan(t, idverify.ProductPhoneCheck, "r")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()

	stored, err := b.inbox.Record(ctx, inbox.Result{Product: idverify.ProductPhoneCheck, CheckID: "check", ReferenceID: "r", Status: idverify.StatusCompleted, Match: idverify.VerdictYes})

	if stored || err == nil {
		t.Errorf("stored = %v, error = %v, want an error before the commit ends", stored, err)
	}
}
