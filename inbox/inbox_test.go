package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/checkflow"
	"github.com/idverify/idverify-go/inbox"
)

func TestNew_Settings(t *testing.T) {
	t.Parallel()
	const immediate, timeout, full = "_txlock=immediate", "_pragma=busy_timeout(1000)", "_pragma=synchronous(FULL)"
	pragmas := func(t *testing.T, db *sql.DB) {
		must(db.ExecContext(t.Context(), "PRAGMA busy_timeout = 5000"))(t)
	}
	one := func(_ *testing.T, db *sql.DB) { db.SetMaxOpenConns(1) }
	for _, test := range []struct {
		name     string
		settings []string
		change   func(*testing.T, *sql.DB)
		want     string // part of the error; empty for none
	}{
		{"complete", []string{immediate, timeout, full}, nil, ""},
		{"synchronous EXTRA", []string{immediate, timeout, "_pragma=synchronous(EXTRA)"}, nil, ""},
		{"default settings", nil, nil, "busy_timeout is 0 ms"},
		{"short busy timeout", []string{immediate, full, "_pragma=busy_timeout(999)"}, nil, "busy_timeout is 999 ms"},
		{"busy timeout of one connection", []string{immediate, full}, pragmas, "busy_timeout is 0 ms"},
		{"synchronous NORMAL", []string{immediate, timeout, "_pragma=synchronous(NORMAL)"}, nil, "synchronous=1"},
		{"synchronous OFF", []string{immediate, timeout, "_pragma=synchronous(OFF)"}, nil, "synchronous=0"},
		{"journal OFF", []string{immediate, timeout, full, "_pragma=journal_mode(OFF)"}, nil, "journal_mode=off"},
		{"journal MEMORY", []string{immediate, timeout, full, "_pragma=journal_mode(MEMORY)"}, nil, "journal_mode=memory"},
		{"deferred transactions", []string{timeout, full}, nil, "not immediate"},
		{"one connection", []string{immediate, timeout, full}, one, ""},
		{"one connection and deferred transactions", []string{timeout, full}, one, ""},
		{"one connection without busy timeout", []string{immediate, full}, one, "busy_timeout is 0 ms"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "checks.db")
			noError(t, inbox.Migrate(t.Context(), openDB(t, "sqlite", file), inbox.SQLite))
			db := openDB(t, "sqlite", "file:"+file+"?"+strings.Join(test.settings, "&"))
			if test.change != nil {
				test.change(t, db)
			}

			checks, err := inbox.New(t.Context(), db, inbox.SQLite, nil)

			if test.want == "" {
				if err != nil || checks == nil {
					t.Errorf("error = %v, want none", err)
				}
				return
			}
			if !errors.Is(err, inbox.ErrSettings) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want ErrSettings with %q", err, test.want)
			}
		})
	}
}

func TestNew_SynchronousCommit(t *testing.T) {
	t.Parallel()
	source := postgres.Database(t)
	noError(t, inbox.Migrate(t.Context(), openDB(t, "pgx", source), inbox.Postgres))
	for setting, want := range map[string]error{"off": inbox.ErrSettings, "on": nil, "local": nil} {
		_, err := inbox.New(t.Context(), openDB(t, "pgx", source+" synchronous_commit="+setting), inbox.Postgres, nil)

		if !errors.Is(err, want) {
			t.Errorf("synchronous_commit=%s: error = %v, want %v", setting, err, want)
		}
	}
}

func TestNew_RestoresConnections(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 1, 2} {
		db := openDB(t, "sqlite", sqliteSource(t))
		db.SetMaxOpenConns(limit)
		noError(t, inbox.Migrate(t.Context(), db, inbox.SQLite))

		must(inbox.New(t.Context(), db, inbox.SQLite, nil))(t)

		if n := db.Stats().InUse; n != 0 {
			t.Errorf("limit %d: %d connections in use after New, want 0", limit, n)
		}
		for range max(1, db.Stats().OpenConnections) {
			conn := must(db.Conn(t.Context()))(t)
			defer conn.Close()
			var timeout int
			noError(t, conn.QueryRowContext(t.Context(), "PRAGMA busy_timeout").Scan(&timeout))
			if timeout != 60000 {
				t.Errorf("limit %d: busy_timeout = %d after New, want the 60000 of the data source name", limit, timeout)
			}
			// No connection has kept a transaction.
			if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE; ROLLBACK"); err != nil {
				t.Errorf("limit %d: transaction after New: %v", limit, err)
			}
		}
	}
}

func TestNew_Schema(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		db := d.open(t)

		_, missing := inbox.New(t.Context(), db, d.dialect, nil)
		noError(t, inbox.Migrate(t.Context(), db, d.dialect))
		must(db.ExecContext(t.Context(), "UPDATE idverify_schema SET version = version - 1"))(t)
		_, old := inbox.New(t.Context(), db, d.dialect, nil)
		must(db.ExecContext(t.Context(), "INSERT INTO idverify_schema (version) VALUES (99)"))(t)
		_, newer := inbox.New(t.Context(), db, d.dialect, nil)
		must(db.ExecContext(t.Context(), "DELETE FROM idverify_schema"))(t)
		_, empty := inbox.New(t.Context(), db, d.dialect, nil)

		for name, err := range map[string]error{"missing": missing, "old": old, "empty": empty} {
			if !errors.Is(err, inbox.ErrSchema) || !strings.Contains(err.Error(), "run Migrate") {
				t.Errorf("%s: error = %v, want ErrSchema with advice", name, err)
			}
		}
		if newer != nil {
			t.Errorf("newer: error = %v, want none", newer)
		}
	})
}

func TestNew_Invalid(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		db := d.open(t)
		closed := d.open(t)
		closed.Close()
		canceled, cancel := context.WithCancel(t.Context())
		cancel()

		for _, test := range []struct {
			name    string
			ctx     context.Context
			db      *sql.DB
			dialect inbox.Dialect
			want    string
		}{
			{"no database", t.Context(), nil, d.dialect, "db is nil"},
			{"no dialect", t.Context(), db, 0, "unsupported dialect Dialect(0)"},
			{"unknown dialect", t.Context(), db, 3, "unsupported dialect Dialect(3)"},
			{"closed database", t.Context(), closed, d.dialect, "database is closed"},
			{"canceled context", canceled, db, d.dialect, "context canceled"},
		} {
			_, newErr := inbox.New(test.ctx, test.db, test.dialect, nil)
			migrateErr := inbox.Migrate(test.ctx, test.db, test.dialect)

			if newErr == nil || !strings.Contains(newErr.Error(), test.want) || errors.Is(newErr, inbox.ErrSchema) {
				t.Errorf("%s: error of New = %v, want %q", test.name, newErr, test.want)
			}
			if migrateErr == nil || !strings.Contains(migrateErr.Error(), test.want) {
				t.Errorf("%s: error of Migrate = %v, want %q", test.name, migrateErr, test.want)
			}
		}
	})
}

func TestInbox_DatabaseUnavailable(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		ctx, flows := t.Context(), b.inbox.Flows(0)
		b.db.Close()

		_, get := b.inbox.Get(ctx, "r")
		_, getByCheckID := b.inbox.GetByCheckID(ctx, "check")
		_, created := b.inbox.CreatePhoneCheck(ctx, b.client, idverify.PhoneCheckParams{PhoneNumber: matching, ReferenceID: "r"})
		_, recorded := b.inbox.Record(ctx, inbox.Result{Product: idverify.ProductPhoneCheck, CheckID: "check", Status: idverify.StatusCompleted})
		_, stats := b.inbox.Stats(ctx)
		_, stopped := b.inbox.Stopped(ctx, 1)
		purged, purge := b.inbox.Purge(ctx)
		_, _, claimed := flows.Claim(ctx, "check", [32]byte{}, true)
		_, finished := flows.Finish(ctx, "check")

		for _, test := range []struct {
			operation string
			err       error
		}{
			{"get", get},
			{"get", getByCheckID},
			{"create phone_check", created},
			{"bind", b.inbox.Bind(ctx, "r", "check", 0)},
			{"discard", b.inbox.Discard(ctx, "r")},
			{"record", recorded},
			{"reconcile", b.inbox.Reconcile(ctx, b.client)},
			{"retry", b.inbox.Retry(ctx, "r")},
			{"stats", stats},
			{"stopped entries", stopped},
			{"purge", purge},
			{"check flow store", flows.Available(ctx)},
			{"add flow", flows.Add(ctx, checkflow.Flow{CheckID: "check"}, time.Hour)},
			{"claim flow", claimed},
			{"finish flow", finished},
		} {
			if test.err == nil || !strings.HasPrefix(test.err.Error(), "inbox: "+test.operation+": ") || !strings.HasSuffix(test.err.Error(), "database is closed") {
				t.Errorf("error = %v, want that of the database from the operation %q", test.err, test.operation)
			}
		}
		if n := len(b.service.Requests()); purged != 0 || n != 0 {
			t.Errorf("%d entries purged and %d requests, want none", purged, n)
		}
	})
}
