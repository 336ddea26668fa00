package crash

import (
	"database/sql"
	"encoding/json"
	"iter"
	"net/http"
	"strings"
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/sandboxfake"
)

// verify verifies the database after the recovery.
func (w *world) verify(t *testing.T, db *sql.DB) {
	t.Helper()
	for _, p := range w.backends {
		p.kill() // the rest of the test must not change the database
	}
	if n := w.service.DroppedRequests() + w.service.DroppedDeliveries(); n != 0 {
		t.Fatalf("the journals of the service have dropped %d entries", n)
	}
	entries := w.entries(t, db)
	created := w.created(t)
	delivered := w.delivered()
	effects := map[string]int{}
	for row := range query(t, db, "SELECT reference FROM effects") {
		effects[row]++
	}
	var problems problems
	for reference := range created {
		if entries[reference] == nil {
			problems.add(t, "check %s was created and is not stored", reference)
		}
	}
	for reference, e := range entries {
		if n := effects[reference]; n != 1 {
			problems.add(t, "check %s with status %q has %d effects, want 1", reference, e.Status, n)
		}
		key := e.CheckID
		if key == "" {
			key = reference
		}
		if w.messages[key] == 0 {
			problems.add(t, "check %s with status %q has no effect outside of the database", reference, e.Status)
		}
		c, ok := created[reference]
		if !ok {
			if e.Status != inbox.StatusLost {
				problems.add(t, "check %s was not created and has status %q, want %q", reference, e.Status, inbox.StatusLost)
			}
			continue
		}
		if c.product != e.Product {
			problems.add(t, "check %s has product %q, want %q", reference, e.Product, c.product)
		}
		c.opened = w.opened[reference] || c.product == idverify.ProductSIMCheck
		if want := c.want(delivered[e.CheckID]); !want[resultOf(e)] {
			problems.add(t, "check %s of a number that ends in %s: result %+v (source %q, opened %t, acknowledged %q), want one of %+v",
				reference, c.number[len(c.number)-2:], resultOf(e), e.Source, c.opened, delivered[e.CheckID], want)
		}
	}
	w.report(t, entries, created, &problems)
}

// report logs the figures of the run.
func (w *world) report(t *testing.T, entries map[string]*inbox.Entry, created map[string]*creation, p *problems) {
	t.Helper()
	sources, statuses, messages := map[inbox.Source]int{}, map[inbox.Status]int{}, 0
	for _, e := range entries {
		sources[e.Source]++
		statuses[e.Status]++
	}
	for _, n := range w.messages {
		messages += n
	}
	c := &w.counts
	t.Logf("%d checks planned, %d created, %d opened; statuses %v, sources %v", len(entries), len(created), len(w.opened), statuses, sources)
	t.Logf("%d callback attempts: %d duplicated, %d held, %d early, %d lost, %d with a lost response, %d without a backend",
		c.callbacks.Load(), c.duplicates.Load(), c.held.Load(), c.early.Load(), c.lost.Load(), c.responseLost.Load(), c.unreachable.Load())
	t.Logf("%d messages for %d checks; %d problems", messages, len(w.messages), p.n)
}

// problems counts the failures and reports the first of them.
type problems struct{ n int }

func (p *problems) add(t *testing.T, format string, args ...any) {
	t.Helper()
	if p.n++; p.n <= 20 {
		t.Errorf(format, args...)
	}
}

// creation is a check that was created.
type creation struct {
	product idverify.Product
	number  string
	opened  bool
}

// result is the part of an entry that the phone number determines.
type result struct {
	status             inbox.Status
	match, noSIMChange idverify.Verdict
}

func resultOf(e *inbox.Entry) result { return result{e.Status, e.Match, e.NoSIMChange} }

// verdict returns the verdict of a field of the wire or of the table.
func verdict(b *bool) idverify.Verdict {
	switch {
	case b == nil:
		return idverify.VerdictUnknown
	case *b:
		return idverify.VerdictYes
	}
	return idverify.VerdictNo
}

// want returns the possible results. A result that the service keeps must be stored. Others end as
// LOST, unless the backend acknowledged the callback.
func (c *creation) want(acknowledged idverify.CheckStatus) map[result]bool {
	outcome := map[idverify.Product]func(string) sandboxfake.Outcome{
		idverify.ProductPhoneCheck:      sandboxfake.PhoneCheckOutcome,
		idverify.ProductSubscriberCheck: sandboxfake.SubscriberCheckOutcome,
		idverify.ProductSIMCheck:        sandboxfake.SIMCheckOutcome,
	}[c.product](c.number)
	if !c.opened {
		outcome = sandboxfake.Outcome{Status: idverify.StatusExpired}
	}
	ended := result{status: inbox.Status(outcome.Status)}
	if outcome.Status == idverify.StatusCompleted {
		ended.match, ended.noSIMChange = outcome.Match, outcome.NoSIMChange
	}
	want := map[result]bool{ended: true}
	if outcome.Status != idverify.StatusCompleted && acknowledged == "" {
		want[result{status: inbox.StatusLost}] = true
	}
	return want
}

// created returns the checks that the service has created, by reference.
func (w *world) created(t *testing.T) map[string]*creation {
	t.Helper()
	products := map[string]idverify.Product{
		"phone_check.create":      idverify.ProductPhoneCheck,
		"sim_check.create":        idverify.ProductSIMCheck,
		"subscriber_check.create": idverify.ProductSubscriberCheck,
	}
	created := map[string]*creation{}
	for _, r := range w.service.Requests() {
		if !strings.HasSuffix(r.Operation, ".create") || r.Status != http.StatusCreated || products[r.Operation] == "" {
			continue
		}
		var body struct {
			ReferenceID string `json:"reference_id"`
			PhoneNumber string `json:"phone_number"`
		}
		noError(t, json.Unmarshal(r.Body, &body))
		if created[body.ReferenceID] != nil {
			t.Errorf("check %s was created twice", body.ReferenceID)
		}
		created[body.ReferenceID] = &creation{product: products[r.Operation], number: body.PhoneNumber}
	}
	return created
}

// delivered returns the status of each acknowledged callback, by check ID.
func (w *world) delivered() map[string]idverify.CheckStatus {
	delivered := map[string]idverify.CheckStatus{}
	for _, d := range w.service.Deliveries() {
		if d.Acknowledged() {
			delivered[d.CheckID] = d.Status
		}
	}
	return delivered
}

// entries returns all entries by reference. Each must belong to a sign-up, and each sign-up must
// have one.
func (w *world) entries(t *testing.T, db *sql.DB) map[string]*inbox.Entry {
	t.Helper()
	for row := range query(t, db, "SELECT coalesce(c.reference, s.reference) FROM idverify_checks c FULL JOIN sign_ups s ON s.reference = c.reference "+
		"WHERE c.reference IS NULL OR s.reference IS NULL") {
		t.Errorf("check %s has no sign-up, or the sign-up has no check", row)
	}
	rows := must(db.QueryContext(t.Context(), "SELECT reference, product, coalesce(check_id, ''), coalesce(status, ''), is_match, no_sim_change, source FROM idverify_checks"))(t)
	defer rows.Close()
	entries := map[string]*inbox.Entry{}
	for rows.Next() {
		var e inbox.Entry
		var match, noSIMChange *bool
		noError(t, rows.Scan(&e.Reference, &e.Product, &e.CheckID, &e.Status, &match, &noSIMChange, &e.Source))
		e.Match, e.NoSIMChange = verdict(match), verdict(noSIMChange)
		entries[e.Reference] = &e
	}
	noError(t, rows.Err())
	return entries
}

// query returns the rows of a statement with one column.
func query(t *testing.T, db *sql.DB, statement string) iter.Seq[string] {
	return func(yield func(string) bool) {
		rows := must(db.QueryContext(t.Context(), statement))(t)
		defer rows.Close()
		for rows.Next() {
			var r string
			noError(t, rows.Scan(&r))
			if !yield(r) {
				return
			}
		}
		noError(t, rows.Err())
	}
}
