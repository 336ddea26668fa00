package inbox_test

import (
	"context"
	"database/sql/driver"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/inbox"
)

// TestStatements_UseIndexes reads the plan of each statement that an operation of package inbox
// executes, in a database with many processed entries. It captures the statements in the driver.
func TestStatements_UseIndexes(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
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
		p := &point{points: newPoints(t, d, op), reference: op.name, fn: applyEffect}
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
	if p.dialect == inbox.SQLite {
		return [][]string{p.lines(t, "EXPLAIN QUERY PLAN "+s.query, s.args)}
	}
	var literals []string
	for _, a := range s.args {
		literals = append(literals, literal(t, a.Value))
	}
	// PostgreSQL may change to a generic plan after five executions in a connection.
	p.db.SetMaxOpenConns(1)
	p.exec(t, "PREPARE explained AS "+s.query)
	defer p.exec(t, "DEALLOCATE explained")
	var plans [][]string
	for range 8 {
		plans = append(plans, p.lines(t, "EXPLAIN EXECUTE explained ("+strings.Join(literals, ", ")+")", nil))
	}
	return plans
}

// literal returns an argument as SQL.
func literal(t *testing.T, v any) string {
	t.Helper()
	v, err := driver.DefaultParameterConverter.ConvertValue(v)
	if err != nil {
		t.Fatal(err)
	}
	switch v := v.(type) {
	case nil:
		return "NULL"
	case int64:
		return fmt.Sprint(v)
	}
	return "'" + strings.ReplaceAll(fmt.Sprint(v), "'", "''") + "'"
}

// lines returns the last column of the rows of a query.
func (p *point) lines(t *testing.T, query string, args []driver.NamedValue) []string {
	t.Helper()
	values := make([]any, len(args))
	for i, a := range args {
		values[i] = a.Value
	}
	rows, err := p.db.QueryContext(context.WithoutCancel(t.Context()), query, values...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	columns, _ := rows.Columns()
	var lines []string
	for rows.Next() {
		row, dest := make([]string, len(columns)), make([]any, len(columns))
		for i := range row {
			dest[i] = &row[i]
		}
		if err := rows.Scan(dest...); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, row[len(row)-1])
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return lines
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
