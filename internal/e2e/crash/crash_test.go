package crash

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/internal/pgtest"
	"github.com/idverify/idverify-go/internal/tooltest"
)

// TestInbox_CrashesOnPostgres kills four processes with River workers, and crashes PostgreSQL once.
func TestInbox_CrashesOnPostgres(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	source := server.Source("postgres")
	db := openDatabase(t, "pgx", source, inbox.Postgres)
	migrateRiver(t, source)
	w, random := newScenario(t, 1_000)
	w.startBackends(t, 4, config{Dialect: inbox.Postgres, Source: source, Concurrency: 4})

	w.storm(t, random, storm{perKill: 50, crashDatabase: server.Crash})
	w.recoverAll(t, db)

	w.verify(t, db)
	for row := range query(t, db, "SELECT state || ': ' || count(*) FROM river_job WHERE state <> 'completed' GROUP BY state") {
		t.Errorf("jobs of River are %s, want all completed", row)
	}
}

// TestInbox_CrashesOnSQLite kills one process with Work.
func TestInbox_CrashesOnSQLite(t *testing.T) {
	t.Parallel()
	source := "file:" + filepath.Join(t.TempDir(), "checks.db") + "?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	db := openDatabase(t, "sqlite", source, inbox.SQLite)
	w, random := newScenario(t, 300)
	w.startBackends(t, 1, config{Dialect: inbox.SQLite, Source: source, Concurrency: 8})

	w.storm(t, random, storm{perKill: 16})
	w.recoverAll(t, db)

	w.verify(t, db)
}

// newScenario returns a world for the given number of checks. The environment variables
// IDVERIFY_CRASHTEST_CHECKS and IDVERIFY_CRASHTEST_SEED replace the number and the seed. With
// 20,000 checks, the test takes minutes on two processors.
func newScenario(t *testing.T, size int) (*world, *rand.Rand) {
	t.Helper()
	seed := rand.Uint64()
	if text, ok := os.LookupEnv("IDVERIFY_CRASHTEST_SEED"); ok {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	if text, ok := os.LookupEnv("IDVERIFY_CRASHTEST_CHECKS"); ok {
		size, _ = strconv.Atoi(text)
	}
	t.Logf("%d checks, IDVERIFY_CRASHTEST_SEED=%d", size, seed)
	return newWorld(t, size, rand.New(rand.NewPCG(seed, 1))), rand.New(rand.NewPCG(seed, 2))
}

// storm configures the crashes.
type storm struct {
	perKill       int64        // opened checks per kill, on average
	crashDatabase func() error // nil: the database is a file
}

// storm kills and restarts processes until three quarters of the checks have been opened, and
// returns when all have been. The number of kills does not depend on the speed of the machine.
func (w *world) storm(t *testing.T, random *rand.Rand, s storm) {
	t.Helper()
	begin, kills := time.Now(), 0
	var clock sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer clock.Wait()
	defer cancel()
	clock.Go(func() { w.runClock(ctx, t) })
	for opened := w.openedChecks(); opened < w.size; {
		if s.crashDatabase != nil && opened > w.size/2 {
			noError(t, s.crashDatabase())
			t.Logf("the database has crashed after %v", time.Since(begin))
			s.crashDatabase = nil
		}
		next := min(w.size, opened+1+random.Int64N(2*s.perKill-1))
		for opened = w.openedChecks(); opened < next; opened = w.openedChecks() {
			time.Sleep(time.Millisecond)
		}
		if opened >= w.size*3/4 {
			continue
		}
		victims := w.backends
		if random.IntN(10) > 0 { // sometimes all processes end at the same time
			i := random.IntN(len(w.backends))
			victims = w.backends[i : i+1]
		}
		for _, p := range victims {
			p.kill()
			kills++
		}
		startAll(t, victims)
	}
	t.Logf("%d processes killed in %v", kills, time.Since(begin))
}

// runClock lets five seconds of the service's time pass in each second.
func (w *world) runClock(ctx context.Context, t *testing.T) {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := w.advance(ctx, 10*time.Second); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	}
}

// recoverAll lets time pass until each check has a result and the backends have acted on it.
func (w *world) recoverAll(t *testing.T, db *sql.DB) {
	t.Helper()
	begin := time.Now()
	var open, waiting int
	for range 900 { // at least three minutes
		noError(t, w.advance(t.Context(), 20*time.Second))
		for _, p := range w.backends {
			response := must(w.network.Post(*p.url.Load()+"/reconcile", "", nil))(t)
			response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Errorf("Reconcile: %s after the crashes have ended", response.Status)
			}
		}
		row := db.QueryRowContext(t.Context(), "SELECT (SELECT count(*) FROM idverify_checks WHERE status IS NULL), "+
			"(SELECT count(*) FROM idverify_checks WHERE status IS NOT NULL AND reference NOT IN (SELECT reference FROM effects))")
		noError(t, row.Scan(&open, &waiting))
		if open == 0 && waiting == 0 {
			t.Logf("recovered in %v", time.Since(begin))
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Errorf("after %v, %d checks have no result and %d results wait", time.Since(begin), open, waiting)
}

func openDatabase(t *testing.T, driver, source string, d inbox.Dialect) *sql.DB {
	t.Helper()
	db := must(sql.Open(driver, source))(t)
	t.Cleanup(func() { db.Close() })
	noError(t, inbox.Migrate(t.Context(), db, d))
	for _, statement := range []string{
		"CREATE TABLE sign_ups (reference text PRIMARY KEY)",
		// The reference is not unique, so that a second effect would be stored.
		"CREATE TABLE effects (reference text NOT NULL, job_id bigint UNIQUE)",
	} {
		must(db.ExecContext(t.Context(), statement))(t)
	}
	return db
}

func migrateRiver(t *testing.T, source string) {
	t.Helper()
	pool := must(pgxpool.New(t.Context(), source))(t)
	defer pool.Close()
	migrator := must(rivermigrate.New(riverpgxv5.New(pool), nil))(t)
	if _, err := migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil); err != nil {
		t.Fatal(fmt.Errorf("migrate River: %w", err))
	}
}

// noError and must fail the test if err is not nil. must returns v.
var noError = tooltest.NoError

func must[T any](v T, err error) func(testing.TB) T { return tooltest.Must(v, err) }
