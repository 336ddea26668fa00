package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
)

// The test searches all outputs for the phone numbers of the checks.
func TestInbox_NoPhoneNumbers(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		i := newIntake(t, d, func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
			if e.Reference == "failing" && e.Status != inbox.StatusLost {
				return errors.New("failed")
			}
			return addEffect(ctx, tx, e)
		})
		const number = "447700900012"
		for _, reference := range []string{"stored", "failing"} {
			i.open(t, i.start(t, number, reference))
		}
		other := i.otherCustomer()
		other.open(t, other.create(t, number, "other"))
		i.plan(t, idverify.ProductSIMCheck, "SIM")
		sim, err := i.client.SIMChecks.Create(t.Context(), idverify.SIMCheckParams{PhoneNumber: number, ReferenceID: "SIM"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := i.inbox.Record(t.Context(), inbox.ResultOf(sim)); err != nil {
			t.Fatal(err)
		}
		i.plan(t, idverify.ProductPhoneCheck, "unbound")
		i.create(t, number, "unbound")
		advance(t, i.service, 31*time.Second)
		texts := []string{fmt.Sprint(i.inbox.Reconcile(t.Context(), i.client)), fmt.Sprint(i.inbox.Bind(t.Context(), "unbound", "conflict", 0))}
		advance(t, i.service, time.Hour)
		texts = append(texts, fmt.Sprint(i.inbox.Reconcile(t.Context(), i.client)))

		i.mu.Lock()
		texts = append(texts, i.log.String(), fmt.Sprintf("%+v", i.events))
		i.mu.Unlock()
		rows := dump(t, i.db, "idverify_checks")
		texts = append(texts, rows)

		for _, text := range texts {
			if strings.Contains(text, number[2:]) {
				t.Errorf("text contains the phone number:\n%s", text)
			}
		}
		for _, want := range []string{"stored", "failing", "SIM", "unbound", "COMPLETED", sim.CheckID} {
			if !strings.Contains(rows, want) {
				t.Errorf("table does not contain %q, want the test to search it:\n%s", want, rows)
			}
		}
		if !strings.Contains(i.log.String(), `"outcome":"failed"`) || !strings.Contains(i.log.String(), `"outcome":"early"`) {
			t.Errorf("log = %s, want failed and early callbacks", i.log.String())
		}
	})
}

// dump returns all values of a table.
func dump(t testing.TB, db *sql.DB, table string) string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT * FROM "+table)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for rows.Next() {
		values := make([]sql.NullString, len(columns))
		dest := make([]any, len(columns))
		for n := range values {
			dest[n] = &values[n]
		}
		if err := rows.Scan(dest...); err != nil {
			t.Fatal(err)
		}
		for n, v := range values {
			fmt.Fprintf(&text, "%s=%s ", columns[n], v.String)
		}
		text.WriteString("\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return text.String()
}
