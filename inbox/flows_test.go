package inbox_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/checkflow"
	"github.com/idverify/idverify-go/checkflow/storetest"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/internal/killtest"
)

// TestInbox_Flows uses two connection pools, like two processes.
func TestInbox_Flows(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		for name, max := range map[string]int{"default": 0, "full": 100} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				source := d.source(t)
				var stores []checkflow.Store
				for range 2 {
					db := openDB(t, d.driver, source)
					db.SetMaxOpenConns(8)
					stores = append(stores, newInbox(t, db, d.dialect, nil).Flows(max))
				}

				storetest.Run(t, func(*testing.T) checkflow.Store { return killtest.Alternate(stores...) })
			})
		}
	}, serializable)
}

func TestInbox_FlowsFull(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		flows := b.inbox.Flows(2)
		add := func(checkID string, ttl time.Duration) error {
			return flows.Add(t.Context(), checkflow.Flow{CheckID: checkID, Owner: sha256.Sum256(nil), State: checkflow.StateStarted}, ttl)
		}

		first, second := add("a", time.Hour), add("b", time.Minute)
		b.advance(t, time.Minute-time.Microsecond)
		early, again := add("c", time.Hour), add("b", time.Hour)
		b.advance(t, time.Microsecond)
		late := add("c", time.Hour)
		full := flows.Available(t.Context())

		if first != nil || second != nil || late != nil {
			t.Errorf("Add = %v and %v with room, %v after a flow expired; want no error", first, second, late)
		}
		if !errors.Is(early, checkflow.ErrFull) || !errors.Is(again, checkflow.ErrExists) || !errors.Is(full, checkflow.ErrFull) {
			t.Errorf("Add = %v, of an existing flow %v, Available = %v; want ErrFull, ErrExists, ErrFull", early, again, full)
		}
		if _, reason, err := flows.Claim(t.Context(), "a", sha256.Sum256(nil), true); reason != "" || err != nil {
			t.Errorf("Claim of a live flow = %q, %v; want success", reason, err)
		}
		if rows := dump(t, b.db, "idverify_flows"); strings.Count(rows, "\n") != 3 {
			t.Errorf("rows = %s, want 3: the expired flow may be alive for a process whose clock is behind", rows)
		}
		b.advance(t, 10*time.Minute)
		_ = flows.Available(t.Context())
		if rows := dump(t, b.db, "idverify_flows"); strings.Count(rows, "\n") != 2 {
			t.Errorf("rows = %s, want 2: Available deletes expired flows", rows)
		}
	})
}

// TestInbox_PurgeFlows checks that Purge deletes expired flows, which contain phone numbers, and
// keeps entries if Retention is negative.
func TestInbox_PurgeFlows(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, &inbox.Options{Retention: -1})
		b.insertEnded(t, "old", 3, "done_at", 1000*24*time.Hour)
		for n := range 3 {
			f := checkflow.Flow{CheckID: fmt.Sprint("check", n), State: checkflow.StateStarted, PhoneNumber: "447700900000"}
			noError(t, b.inbox.Flows(0).Add(t.Context(), f, time.Duration(n+1)*time.Minute))
		}
		b.advance(t, 12*time.Minute)

		deleted, err := b.inbox.Purge(t.Context())

		rows, entries := dump(t, b.db, "idverify_flows"), b.number(t, "SELECT count(*) FROM idverify_checks")
		if deleted != 0 || entries != 3 || err != nil || strings.Count(rows, "\n") != 1 || !strings.Contains(rows, "check2") {
			t.Errorf("Purge = %d, %v, then %d entries and flows %s; want 0 deleted of 3 entries, and only the flow that expired less than 10 minutes ago", deleted, err, entries, rows)
		}
	})
}

// TestInbox_FlowsPurgeFails checks that a start does not depend on the deletion of expired flows.
func TestInbox_FlowsPurgeFails(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		db, faulty := openFaulty(t, d)
		flows := newInbox(t, db, d.dialect, nil).Flows(0)
		faulty.arm(1, faults[0])

		available := flows.Available(t.Context())

		steps, failed := faulty.disarm()
		if !failed || len(steps) == 0 || !strings.Contains(steps[0].query, "DELETE") {
			t.Fatalf("steps = %v, want a failed deletion first", steps)
		}
		faulty.arm(0, faults[0])
		added := flows.Add(t.Context(), checkflow.Flow{CheckID: "check", State: checkflow.StateStarted}, time.Hour)
		steps, _ = faulty.disarm()
		if available != nil || added != nil {
			t.Errorf("Available = %v, Add = %v; want no error", available, added)
		}
		for _, step := range steps {
			if strings.Contains(step.query, "DELETE") {
				t.Errorf("Add executes %q, after the check was charged", step.query)
			}
		}
	})
}
