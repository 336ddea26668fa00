package crash

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/checkflow"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/internal/killtest"
	"github.com/idverify/idverify-go/internal/pgtest"
)

// TestInbox_FlowsCrashOnPostgres kills the processes that share the flows, and crashes PostgreSQL
// once.
func TestInbox_FlowsCrashOnPostgres(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)

	runFlows(t, server.Source("postgres"), server.Crash)
}

// TestInbox_FlowsCrashOnSQLite kills the processes that share the file.
func TestInbox_FlowsCrashOnSQLite(t *testing.T) {
	t.Parallel()
	runFlows(t, "file:"+filepath.Join(t.TempDir(), "flows.db")+"?_txlock=immediate&_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)", nil)
}

func runFlows(t *testing.T, source string, crash func() error) {
	t.Helper()
	store := must(openFlows(t.Context(), source))(t)
	killtest.Run(t, store, source, crash)
}

// openFlows returns the store of this process, or of one that killtest starts.
func openFlows(ctx context.Context, source string) (checkflow.Store, error) {
	driver, dialect := "pgx", inbox.Postgres
	if strings.HasPrefix(source, "file:") {
		driver, dialect = "sqlite", inbox.SQLite
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return nil, err
	}
	if err := inbox.Migrate(ctx, db, dialect); err != nil {
		return nil, err
	}
	checks, err := inbox.New(ctx, db, dialect, nil)
	if err != nil {
		return nil, err
	}
	return checks.Flows(1 << 30), nil
}
