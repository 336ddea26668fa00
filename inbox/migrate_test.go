package inbox_test

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/inbox"
)

func TestMigrate_Repeated(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil) // has migrated
		b.plan(t, "phone_check", "kept")
		before := schema(t, d, b.db)

		if err := inbox.Migrate(t.Context(), b.db, d.dialect); err != nil {
			t.Fatal(err)
		}

		b.get(t, "kept")
		if diff := cmp.Diff(before, schema(t, d, b.db)); diff != "" {
			t.Errorf("the second Migrate changed the schema (-before +after):\n%s", diff)
		}
	})
}

func TestMigrate_Concurrently(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		db := d.open(t)

		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if err := inbox.Migrate(t.Context(), db, d.dialect); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()

		if got := versions(t, db); !slices.Equal(got, []string{"1", "2", "3"}) {
			t.Errorf("versions = %q, want 1, 2 and 3 once", got)
		}
	}, serializable)
}

func TestMigrate_NewerVersion(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		b.exec(t, "INSERT INTO idverify_schema (version) VALUES (99)")
		b.exec(t, "ALTER TABLE idverify_checks ADD COLUMN added text")
		before := schema(t, d, b.db)

		if err := inbox.Migrate(t.Context(), b.db, d.dialect); err != nil {
			t.Fatal(err)
		}

		if diff := cmp.Diff(before, schema(t, d, b.db)); diff != "" {
			t.Errorf("Migrate changed a newer schema (-before +after):\n%s", diff)
		}
		if got := versions(t, b.db); !slices.Equal(got, []string{"1", "2", "3", "99"}) {
			t.Errorf("versions = %q, want 1, 2, 3 and 99", got)
		}
	})
}

// A database of the first version keeps its entries.
func TestMigrate_FromFirstVersion(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		db := d.open(t)
		first, err := fs.ReadFile(inbox.Migrations(), "0001_create_idverify_checks.up.sql")
		if err != nil {
			t.Fatal(err)
		}
		for _, statements := range []string{string(first),
			"INSERT INTO idverify_checks (reference, product, planned_at, give_up_at) VALUES ('planned', 'phone_check', 1, 1)",
			"INSERT INTO idverify_checks (reference, product, planned_at, give_up_at, status) VALUES ('lost', 'phone_check', 1, 1, 'UNKNOWN')"} {
			if _, err := db.ExecContext(t.Context(), statements); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := inbox.New(t.Context(), db, d.dialect, nil); !errors.Is(err, inbox.ErrSchema) {
			t.Errorf("error of New = %v, want ErrSchema: a column is missing", err)
		}

		if err := inbox.Migrate(t.Context(), db, d.dialect); err != nil {
			t.Fatal(err)
		}

		checks := newInbox(t, db, d.dialect, nil)
		for reference, want := range map[string]inbox.Status{"planned": "", "lost": inbox.StatusLost} {
			if e, err := checks.Get(t.Context(), reference); err != nil || e.Status != want {
				t.Errorf("entry %s = %+v, error %v, want status %q", reference, e, err, want)
			}
		}
	})
}

func TestMigrate_RollsBack(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		db := d.open(t)
		// The last statements of the migration fail.
		if _, err := db.ExecContext(t.Context(), "CREATE TABLE idverify_checks_stopped (n integer)"); err != nil {
			t.Fatal(err)
		}
		before := schema(t, d, db)

		err := inbox.Migrate(t.Context(), db, d.dialect)

		if err == nil || !strings.Contains(err.Error(), "0001_create_idverify_checks.up.sql") {
			t.Errorf("error = %v, want one with the name of the file", err)
		}
		if diff := cmp.Diff(before, schema(t, d, db)); diff != "" {
			t.Errorf("a failed Migrate changed the schema (-before +after):\n%s", diff)
		}
	})
}

// A migration tool passes each file to the driver.
func TestMigrations_EqualMigrate(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		byTool, byMigrate := d.open(t), d.open(t)
		names, err := fs.Glob(inbox.Migrations(), "*")
		if err != nil {
			t.Fatal(err)
		}
		for n, name := range names {
			if want := fmt.Sprintf("%04d_", n+1); !strings.HasPrefix(name, want) || !strings.HasSuffix(name, ".up.sql") {
				t.Errorf("file %d = %s, want %s….up.sql", n, name, want)
			}
			text, err := fs.ReadFile(inbox.Migrations(), name)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := byTool.ExecContext(t.Context(), string(text)); err != nil {
				t.Fatal(err)
			}
		}

		if err := inbox.Migrate(t.Context(), byMigrate, d.dialect); err != nil {
			t.Fatal(err)
		}

		got := schema(t, d, byMigrate)
		if diff := cmp.Diff(schema(t, d, byTool), got); diff != "" || len(got) < 20 {
			t.Errorf("Migrate makes another schema of %d rows than the files (-files +Migrate):\n%s", len(got), diff)
		}
		if got, want := versions(t, byMigrate), versions(t, byTool); !slices.Equal(got, want) {
			t.Errorf("versions = %q, want %q", got, want)
		}
		if _, err := inbox.New(t.Context(), byTool, d.dialect, nil); err != nil {
			t.Errorf("New after the files of Migrations: %v", err)
		}
	})
}

// schema returns the columns and indexes of a database.
func schema(t testing.TB, d database, db *sql.DB) []string {
	t.Helper()
	query := "SELECT m.name || ' ' || coalesce(c.name || ' ' || c.type || ' ' || c.\"notnull\" || ' ' || coalesce(c.dflt_value, ''), m.sql, '') " +
		"FROM sqlite_master m LEFT JOIN pragma_table_info(m.name) c ON m.type = 'table' ORDER BY 1"
	if d.dialect == inbox.Postgres {
		query = "SELECT table_name || ' ' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' || coalesce(column_default, '') " +
			"FROM information_schema.columns WHERE table_schema = 'public' UNION SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1"
	}
	return texts(t, db, query)
}

func versions(t testing.TB, db *sql.DB) []string {
	t.Helper()
	return texts(t, db, "SELECT CAST(version AS text) FROM idverify_schema ORDER BY version")
}

// texts returns the rows of a query with one column.
func texts(t testing.TB, db *sql.DB, query string) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
