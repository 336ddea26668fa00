package inbox_test

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
)

func TestMigrate_Concurrently(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		db := d.open(t)

		concurrently(20, func(int) {
			if err := inbox.Migrate(t.Context(), db, d.dialect); err != nil {
				t.Error(err)
			}
		})

		wantEqual(t, []string{"1", "2", "3"}, versions(t, db), "versions")
	}, serializable)
}

func TestMigrate_UpToDate(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil) // has migrated
		b.plan(t, "phone_check", "kept")
		for _, newer := range []bool{false, true} {
			if newer {
				b.exec(t, "INSERT INTO idverify_schema (version) VALUES (99)")
				b.exec(t, "ALTER TABLE idverify_checks ADD COLUMN added text")
			}
			before, versionsBefore := schema(t, d, b.db), versions(t, b.db)

			noError(t, inbox.Migrate(t.Context(), b.db, d.dialect))

			b.get(t, "kept")
			wantEqual(t, before, schema(t, d, b.db), "schema after Migrate, with a newer version: %t", newer)
			wantEqual(t, versionsBefore, versions(t, b.db), "versions after Migrate, with a newer version: %t", newer)
		}
	})
}

// A database of the first version keeps its entries.
func TestMigrate_FromFirstVersion(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		db := d.open(t)
		first := must(fs.ReadFile(inbox.Migrations(), "0001_create_idverify_checks.up.sql"))(t)
		for _, statements := range []string{string(first),
			"INSERT INTO idverify_checks (reference, product, planned_at, give_up_at) VALUES ('planned', 'phone_check', 1, 1)",
			"INSERT INTO idverify_checks (reference, product, planned_at, give_up_at, status) VALUES ('lost', 'phone_check', 1, 1, 'UNKNOWN')"} {
			must(db.ExecContext(t.Context(), statements))(t)
		}
		if _, err := inbox.New(t.Context(), db, d.dialect, nil); !errors.Is(err, inbox.ErrSchema) {
			t.Errorf("error of New = %v, want ErrSchema: a column is missing", err)
		}

		noError(t, inbox.Migrate(t.Context(), db, d.dialect))

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
		must(db.ExecContext(t.Context(), "CREATE TABLE idverify_checks_stopped (n integer)"))(t)
		before := schema(t, d, db)

		err := inbox.Migrate(t.Context(), db, d.dialect)

		if err == nil || !strings.Contains(err.Error(), "0001_create_idverify_checks.up.sql") {
			t.Errorf("error = %v, want one with the name of the file", err)
		}
		wantEqual(t, before, schema(t, d, db), "schema after a failed Migrate")
	})
}

// A migration tool passes each file to the driver.
func TestMigrations_EqualMigrate(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		byTool, byMigrate := d.open(t), d.open(t)
		for n, name := range must(fs.Glob(inbox.Migrations(), "*"))(t) {
			if want := fmt.Sprintf("%04d_", n+1); !strings.HasPrefix(name, want) || !strings.HasSuffix(name, ".up.sql") {
				t.Errorf("file %d = %s, want %s….up.sql", n, name, want)
			}
			text := must(fs.ReadFile(inbox.Migrations(), name))(t)
			must(byTool.ExecContext(t.Context(), string(text)))(t)
		}

		noError(t, inbox.Migrate(t.Context(), byMigrate, d.dialect))

		got := schema(t, d, byMigrate)
		wantEqual(t, schema(t, d, byTool), got, "schema of Migrate, compared with that of the files")
		if len(got) < 20 {
			t.Errorf("schema = %q, want at least 20 rows", got)
		}
		wantEqual(t, versions(t, byTool), versions(t, byMigrate), "versions")
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

// TestStatements_UseIndexes reads the plan of each statement that an operation of package inbox
// executes, in a database with many processed entries. It captures the statements in the driver.
func TestStatements_UseIndexes(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		statements := captureStatements(t, d)
		p := &point{points: newPoints(t, d, operation{})}
		p.fill(t)

		if d.dialect == inbox.SQLite { // rarely has statistics
			p.verifyPlans(t, statements)
		}
		p.exec(t, "ANALYZE")
		p.verifyPlans(t, statements)
		t.Logf("%d statements", len(statements))
	})
}

// verifyPlans verifies that the cost of no statement depends on the number of processed entries.
func (p *point) verifyPlans(t *testing.T, statements []statement) {
	t.Helper()
	for _, s := range statements {
		for _, plan := range p.explain(t, s) {
			if reason := slowStep(plan); reason != "" {
				t.Errorf("%s\n%s\n%s", reason, s.query, strings.Join(plan, "\n"))
				break
			}
		}
	}
}

// captureStatements returns the different statements that all operations execute.
func captureStatements(t *testing.T, d database) []statement {
	t.Helper()
	idle := func(*point, *testing.T) {}
	reads := []operation{
		{name: "Get", arrange: (*point).createUnbound, act: func(p *point, t *testing.T) error { p.get(t, p.reference); return nil }},
		{name: "Stats", arrange: idle, act: func(p *point, t *testing.T) error { _, err := p.inbox.Stats(t.Context()); return err }},
		{name: "Stopped", arrange: idle, act: func(p *point, t *testing.T) error { _, err := p.inbox.Stopped(t.Context(), 10); return err }},
	}
	var statements []statement
	for _, op := range slices.Concat(reads, storeOperations[1:], handlerOperations, workOperations, reconcileOperations) {
		p := &point{points: newPoints(t, d, op), reference: op.name, product: idverify.ProductPhoneCheck, phone: matching, fn: applyEffect}
		op.arrange(p, t)
		p.faults.arm(0, fault{})
		if err := op.act(p, t); err != nil {
			t.Fatalf("%s: %v", op.name, err)
		}
		steps, _ := p.faults.disarm()
		uses := false
		for _, step := range steps {
			if !strings.Contains(step.query, "idverify_checks") {
				continue
			}
			uses = true
			if !slices.ContainsFunc(statements, func(s statement) bool { return s.query == step.query }) {
				statements = append(statements, step)
			}
		}
		if !uses {
			t.Errorf("%s executes no statement, want its statements captured", op.name)
		}
	}
	return statements
}

// fill inserts entries as in a database that has been in use for a while. With fewer entries,
// PostgreSQL reads the whole table to delete a batch of 500.
func (p *point) fill(t *testing.T) {
	t.Helper()
	for i := range 20 {
		p.insertEnded(t, fmt.Sprint("done ", i), 10_000, "done_at", time.Duration(i)*24*time.Hour)
	}
	p.insertEnded(t, "due", 50, "due_at", time.Second)
	// PostgreSQL may sort a few stopped entries instead of reading their index.
	p.insertEnded(t, "stopped", 2_000, "stopped_at", time.Hour)
	p.exec(t, "UPDATE idverify_checks SET status = NULL, done_at = NULL, ended_at = NULL, reconcile_at = planned_at WHERE reference LIKE 'done 0 99%'")
}

// explain returns the plans that the database uses for a statement.
func (p *point) explain(t *testing.T, s statement) [][]string {
	t.Helper()
	var values []any
	var literals []string
	for _, a := range s.args {
		values = append(values, a.Value)
		literals = append(literals, literal(t, a.Value))
	}
	if p.dialect == inbox.SQLite {
		return [][]string{texts(t, p.db, "EXPLAIN QUERY PLAN "+s.query, values...)}
	}
	// PostgreSQL may change to a generic plan after five executions in a connection.
	p.db.SetMaxOpenConns(1)
	p.exec(t, "PREPARE explained AS "+s.query)
	defer p.exec(t, "DEALLOCATE explained")
	var plans [][]string
	for range 8 {
		plans = append(plans, texts(t, p.db, "EXPLAIN EXECUTE explained ("+strings.Join(literals, ", ")+")"))
	}
	return plans
}

// literal returns an argument as SQL.
func literal(t *testing.T, v any) string {
	t.Helper()
	v = must(driver.DefaultParameterConverter.ConvertValue(v))(t)
	switch v := v.(type) {
	case nil:
		return "NULL"
	case int64:
		return fmt.Sprint(v)
	}
	return "'" + strings.ReplaceAll(fmt.Sprint(v), "'", "''") + "'"
}

var (
	tableScan = regexp.MustCompile(`Seq Scan on idverify_checks|SCAN idverify_checks$|Sort|TEMP B-TREE`)
	// unboundedScan is a scan of a whole index.
	unboundedScan = regexp.MustCompile(`SCAN idverify_checks USING (?:COVERING )?INDEX (\w+)|(?:Index Scan|Index Only Scan|Bitmap Index Scan) (?:using|on) (\w+)`)
	// smallIndex contains only entries that are not processed.
	smallIndex = regexp.MustCompile(`idverify_checks_(due|reconcile|stopped)$`)
)

// slowStep returns why a plan becomes slower with the number of processed entries, or the empty
// string.
func slowStep(plan []string) string {
	for i, line := range plan {
		if tableScan.MatchString(line) {
			return "it reads the whole table, or sorts"
		}
		found := unboundedScan.FindStringSubmatch(line)
		if found == nil || smallIndex.MatchString(found[1]+found[2]) {
			continue
		}
		if i+1 == len(plan) || !strings.Contains(plan[i+1], "Index Cond:") {
			return "it reads a whole index that contains processed entries"
		}
	}
	return ""
}
