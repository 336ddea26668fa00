package main

import (
	"runtime"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A job becomes available again during its first run, as if its worker had been paused and River
// had rescued it.
func TestJobs_RunTwiceAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	app := s.browser(t)
	begun := app.post("/signups", `{"phone_number": "447700900012"}`)
	other := must(pgx.Connect(t.Context(), s.env["DATABASE_URL"]))(t)
	defer other.Close(t.Context())
	lock := must(other.Begin(t.Context()))(t)
	must(lock.Exec(t.Context(), "SELECT FROM signups FOR UPDATE"))(t)
	s.open(t, begun.text("check_url"))
	s.awaitValue(t, "1", "SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")

	s.value(t, "UPDATE river_job SET state = 'available' WHERE kind = 'idverify_result' RETURNING ''")
	s.awaitValue(t, "2", "SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
	noError(t, lock.Rollback(t.Context()))
	s.awaitValue(t, "completed", "SELECT state::text FROM river_job WHERE kind = 'idverify_result'")
	s.awaitValue(t, "0", "SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL")
	s.stop() // it would cancel the second run before

	if attempts := s.value(t, "SELECT attempt::text FROM river_job WHERE kind = 'idverify_result'"); attempts != "2" {
		t.Errorf("%s attempts, want 2", attempts)
	}
	if got := s.value(t, "SELECT string_agg(decision, ' ') FROM decisions"); got != verified {
		t.Errorf("decisions = %q, want one", got)
	}
	if got := s.value(t, "SELECT status FROM signups"); got != verified {
		t.Errorf("status = %q, want verified", got)
	}
}

// awaitValue waits until a query returns want.
func (s *site) awaitValue(t *testing.T, want, query string) {
	t.Helper()
	for s.value(t, query) != want {
		runtime.Gosched()
	}
}
