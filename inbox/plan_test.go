package inbox_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestInbox_PlanInTransaction(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		b.exec(t, "CREATE TABLE sign_ups (reference text)")
		signUp := func(reference string, commit bool) {
			tx := must(b.db.BeginTx(t.Context(), nil))(t)
			defer tx.Rollback()
			must(tx.ExecContext(t.Context(), "INSERT INTO sign_ups VALUES ($1)", reference))(t)
			noError(t, b.inbox.Plan(t.Context(), tx, idverify.ProductSubscriberCheck, reference))
			if commit {
				noError(t, tx.Commit())
			}
		}

		signUp("kept", true)
		signUp("rolled back", false)

		e := b.get(t, "kept")
		if want := (inbox.Entry{Reference: "kept", Product: idverify.ProductSubscriberCheck, PlannedAt: b.service.Now()}); *e != want {
			t.Errorf("entry = %+v, want %+v", *e, want)
		}
		if _, err := b.inbox.Get(t.Context(), "rolled back"); !errors.Is(err, inbox.ErrNotFound) {
			t.Errorf("error = %v, want ErrNotFound: the transaction was rolled back", err)
		}
		if n := b.number(t, "SELECT count(*) FROM sign_ups"); n != 1 {
			t.Errorf("%d sign-ups, want 1", n)
		}
	})
}

func TestInbox_PlanUsedReference(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		b.plan(t, idverify.ProductPhoneCheck, "committed")
		tx := must(b.db.BeginTx(t.Context(), nil))(t)
		defer tx.Rollback()

		committed := b.inbox.Plan(t.Context(), tx, idverify.ProductSIMCheck, "committed")
		first := b.inbox.Plan(t.Context(), tx, idverify.ProductPhoneCheck, "same transaction")
		second := b.inbox.Plan(t.Context(), tx, idverify.ProductPhoneCheck, "same transaction")
		noError(t, tx.Commit())

		for name, err := range map[string]error{"committed": committed, "same transaction": second} {
			if !errors.Is(err, inbox.ErrReferenceUsed) {
				t.Errorf("%s: error = %v, want ErrReferenceUsed", name, err)
			}
		}
		if first != nil {
			t.Errorf("error = %v after ErrReferenceUsed, want a usable transaction", first)
		}
		if e := b.get(t, "committed"); e.Product != idverify.ProductPhoneCheck {
			t.Errorf("product = %s, want that of the first Plan", e.Product)
		}
		b.get(t, "same transaction")
	})
}

// invalidIDs are references and check IDs that cannot be stored.
var invalidIDs = map[string]string{
	"empty":         "",
	"NUL":           "a\x00b",
	"invalid UTF-8": "a\xffb",
	"too long":      strings.Repeat("x", 1025),
}

func TestInbox_PlanInvalid(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		tx := must(b.db.BeginTx(t.Context(), nil))(t)
		defer tx.Rollback()

		failures := map[string]error{"nil transaction": b.inbox.Plan(t.Context(), nil, idverify.ProductPhoneCheck, "r")}
		for name, reference := range invalidIDs {
			failures[name] = b.inbox.Plan(t.Context(), tx, idverify.ProductPhoneCheck, reference)
		}
		for _, product := range []idverify.Product{"", "reachability", "PHONE_CHECK", "phone_check\x00"} {
			failures[fmt.Sprintf("product %q", product)] = b.inbox.Plan(t.Context(), tx, product, "r")
		}
		longest := b.inbox.Plan(t.Context(), tx, idverify.ProductPhoneCheck, strings.Repeat("ü", 512))
		noError(t, tx.Commit())

		for name, err := range failures {
			_, id := invalidIDs[name]
			if !errors.Is(err, idverify.ErrBadRequest) || id && !strings.Contains(err.Error(), "1 to 1024 bytes") {
				t.Errorf("%s: error = %v, want ErrBadRequest", name, err)
			}
		}
		if longest != nil {
			t.Errorf("reference of 1024 bytes: error = %v, want none", longest)
		}
		if n := b.number(t, "SELECT count(*) FROM idverify_checks"); n != 1 {
			t.Errorf("%d entries, want 1", n)
		}
	})
}

func TestInbox_PlanConcurrently(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		const goroutines, references = 1000, 500
		b := newBackend(t, d, nil)
		b.db.SetMaxOpenConns(20)
		var planned, used atomic.Int64

		concurrently(goroutines, func(n int) {
			tx, err := b.db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer tx.Rollback()
			switch err := b.inbox.Plan(t.Context(), tx, idverify.ProductPhoneCheck, fmt.Sprint("reference ", n%references)); {
			case errors.Is(err, inbox.ErrReferenceUsed):
				used.Add(1)
			case err != nil:
				t.Error(err)
			default:
				planned.Add(1)
			}
			if err := tx.Commit(); err != nil {
				t.Error(err)
			}
		})

		if planned.Load() != references || used.Load() != goroutines-references {
			t.Errorf("%d planned and %d used, want %d and %d", planned.Load(), used.Load(), references, goroutines-references)
		}
		if n := b.number(t, "SELECT count(*) FROM idverify_checks"); n != references {
			t.Errorf("%d entries, want %d", n, references)
		}
	})
}

func TestInbox_Bind(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		for _, reference := range []string{"bound", "unbound", "unknown", "recorded"} {
			b.plan(t, idverify.ProductPhoneCheck, reference)
		}
		noError(t, b.inbox.Bind(t.Context(), "bound", "check 1", time.Minute))
		result := inbox.Result{Product: idverify.ProductPhoneCheck, CheckID: "check 3", ReferenceID: "recorded", Status: idverify.StatusCompleted}
		must(b.inbox.Record(t.Context(), result))(t)
		b.exec(t, "UPDATE idverify_checks SET status = 'LOST' WHERE reference = 'unknown'")

		for _, test := range []struct {
			name, reference, checkID string
			want                     error
		}{
			{"same check ID", "bound", "check 1", nil},
			{"after Record", "recorded", "check 3", nil},
			{"another check ID", "bound", "check 2", inbox.ErrConflict},
			{"another check ID after Record", "recorded", "check 2", inbox.ErrConflict},
			{"check ID of another entry", "unbound", "check 1", inbox.ErrConflict},
			{"ended without a check ID", "unknown", "check 2", inbox.ErrConflict},
			{"reference not planned", "missing", "check 2", inbox.ErrNotFound},
			{"invalid reference", "a\x00b", "check 2", inbox.ErrNotFound},
			{"empty check ID", "unbound", "", idverify.ErrBadRequest},
			{"check ID with NUL", "unbound", "a\x00b", idverify.ErrBadRequest},
			{"check ID with invalid UTF-8", "unbound", "a\xffb", idverify.ErrBadRequest},
			{"check ID too long", "unbound", strings.Repeat("x", 1025), idverify.ErrBadRequest},
		} {
			err := b.inbox.Bind(t.Context(), test.reference, test.checkID, time.Minute)

			if !errors.Is(err, test.want) || errors.Is(err, idverify.ErrBadRequest) && !strings.Contains(err.Error(), "1 to 1024 bytes") {
				t.Errorf("%s: error = %v, want %v", test.name, err, test.want)
			}
		}

		for reference, want := range map[string]string{"bound": "check 1", "unbound": "", "unknown": "", "recorded": "check 3"} {
			if got := b.get(t, reference).CheckID; got != want {
				t.Errorf("check ID of %s = %q, want %q", reference, got, want)
			}
		}
	})
}

func TestInbox_BindTTL(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		overdue := func() int { return must(b.inbox.Stats(t.Context()))(t).Overdue }
		for n, test := range []struct{ ttl, overdue time.Duration }{
			{0, 150 * time.Second},
			{-time.Hour, 150 * time.Second},
			{math.MinInt64, 150 * time.Second},
			{math.MaxInt64, 150 * time.Second},
			{24*time.Hour + 1, 150 * time.Second},
			{time.Minute, 90 * time.Second},
			{24 * time.Hour, 24*time.Hour + 30*time.Second},
		} {
			b.plan(t, idverify.ProductPhoneCheck, fmt.Sprint("r ", n))

			noError(t, b.inbox.Bind(t.Context(), fmt.Sprint("r ", n), fmt.Sprint("check ", n), test.ttl))

			b.advance(t, test.overdue-time.Microsecond)
			before := overdue() - n // without the entries of other rows
			b.advance(t, time.Microsecond)
			if after := overdue() - n; before != 0 || after != 1 {
				t.Errorf("ttl %v: overdue before and after %v = %d and %d, want 0 and 1", test.ttl, test.overdue, before, after)
			}
		}
	})
}

// Two entries cannot get the same check ID, not even at the same time.
func TestInbox_BindOneEntry(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		const entries = 20
		b := newBackend(t, d, nil)
		b.db.SetMaxOpenConns(20)
		for n := range entries {
			b.plan(t, idverify.ProductPhoneCheck, fmt.Sprint(n))
		}
		bound := make([]error, entries)

		concurrently(entries, func(n int) { bound[n] = b.inbox.Bind(t.Context(), fmt.Sprint(n), "check", 0) })

		successes := 0
		for n, err := range bound {
			if err == nil {
				successes++
			}
			if err := b.inbox.Bind(t.Context(), fmt.Sprint(n), "check", 0); bound[n] != nil && !errors.Is(err, inbox.ErrConflict) {
				t.Errorf("error of a later Bind = %v, want ErrConflict", err)
			}
		}
		if n := b.number(t, "SELECT count(*) FROM idverify_checks WHERE check_id = 'check'"); successes != 1 || n != 1 {
			t.Errorf("%d calls of Bind and %d entries have the check ID, want 1", successes, n)
		}
	})
}

func TestInbox_Discard(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		b.plan(t, idverify.ProductPhoneCheck, "not created")
		b.start(t, matching, "created")

		if err := b.inbox.Discard(t.Context(), "not created"); err != nil {
			t.Errorf("error = %v, want none", err)
		}

		if _, err := b.inbox.Get(t.Context(), "not created"); !errors.Is(err, inbox.ErrNotFound) {
			t.Errorf("error of Get = %v, want ErrNotFound", err)
		}
		for reference, want := range map[string]error{"not created": inbox.ErrNotFound, "": inbox.ErrNotFound, "a\x00b": inbox.ErrNotFound, "created": inbox.ErrConflict} {
			if err := b.inbox.Discard(t.Context(), reference); !errors.Is(err, want) {
				t.Errorf("Discard(%q) = %v, want %v", reference, err, want)
			}
		}
		if e := b.get(t, "created"); e.CheckID == "" {
			t.Errorf("entry = %+v, want the check", e)
		}
	})
}

// created returns the number of checks that the service has created for a reference.
func (b *backend) created(t testing.TB, reference string) (n int) {
	t.Helper()
	for _, r := range b.service.Requests() {
		if strings.HasSuffix(r.Operation, ".create") && r.Status == http.StatusCreated && strings.Contains(string(r.Body), strconv.Quote(reference)) {
			n++
		}
	}
	return n
}

// createMethods call the create methods of an Inbox. They return the ID of the check, if any.
var createMethods = map[idverify.Product]func(context.Context, *inbox.Inbox, *idverify.Client, string, string) (string, error){
	idverify.ProductPhoneCheck: func(ctx context.Context, i *inbox.Inbox, c *idverify.Client, number, reference string) (string, error) {
		check, err := i.CreatePhoneCheck(ctx, c, idverify.PhoneCheckParams{PhoneNumber: number, ReferenceID: reference})
		return inbox.ResultOf(check).CheckID, err
	},
	idverify.ProductSubscriberCheck: func(ctx context.Context, i *inbox.Inbox, c *idverify.Client, number, reference string) (string, error) {
		check, err := i.CreateSubscriberCheck(ctx, c, idverify.SubscriberCheckParams{PhoneNumber: number, ReferenceID: reference})
		return inbox.ResultOf(check).CheckID, err
	},
	idverify.ProductSIMCheck: func(ctx context.Context, i *inbox.Inbox, c *idverify.Client, number, reference string) (string, error) {
		check, err := i.CreateSIMCheck(ctx, c, idverify.SIMCheckParams{PhoneNumber: number, ReferenceID: reference})
		return inbox.ResultOf(check).CheckID, err
	},
}

func TestInbox_Create(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		for product, create := range createMethods {
			reference := string(product)
			b.plan(t, product, reference)

			checkID := must(create(t.Context(), b.inbox, b.client, matching, reference))(t)

			e, err := b.inbox.GetByCheckID(t.Context(), checkID)
			if err != nil || e.Reference != reference || e.CheckID != checkID {
				t.Errorf("entry = %+v, error %v, want check %s of %s", e, err, checkID, reference)
				continue
			}
			want := inbox.Status("")
			if product == idverify.ProductSIMCheck {
				want = inbox.StatusCompleted
			}
			if e.Status != want || (e.NoSIMChange == idverify.VerdictYes) != (want != "") {
				t.Errorf("entry = %+v, want status %q with its result", e, want)
			}
		}
	})
}

func TestInbox_CreateRejected(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		for product, create := range createMethods {
			other := idverify.ProductPhoneCheck
			if product == other {
				other = idverify.ProductSIMCheck
			}
			name := func(state string) string { return string(product) + " " + state }
			for _, state := range []string{"bound", "lost", "created"} {
				b.plan(t, product, name(state))
			}
			b.plan(t, other, name("of another product"))
			noError(t, b.inbox.Bind(t.Context(), name("bound"), name("check"), 0))
			b.exec(t, "UPDATE idverify_checks SET status = 'LOST' WHERE reference = $1", name("lost"))
			must(create(t.Context(), b.inbox, b.client, matching, name("created")))(t)
			before := len(b.service.Requests())

			for reference, want := range map[string]error{
				name("bound"): inbox.ErrConflict, name("lost"): inbox.ErrConflict, name("created"): inbox.ErrConflict, name("of another product"): inbox.ErrConflict,
				name("not planned"): inbox.ErrNotFound, "a\x00b": inbox.ErrNotFound,
			} {
				checkID, err := create(t.Context(), b.inbox, b.client, matching, reference)
				if checkID != "" || !errors.Is(err, want) || errors.Is(err, idverify.ErrOutcomeUnknown) {
					t.Errorf("%q: check %q, error %v, want no check and %v", reference, checkID, err, want)
				}
			}

			if n := len(b.service.Requests()) - before; n != 0 {
				t.Errorf("%s: %d requests, want none", product, n)
			}
		}
	})
}

// Without a reference, each call plans and creates a check.
func TestInbox_CreateWithoutReference(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		for product, create := range createMethods {
			references := make(map[string]bool)
			for range 2 {
				checkID := must(create(t.Context(), b.inbox, b.client, matching, ""))(t)
				e, err := b.inbox.GetByCheckID(t.Context(), checkID)
				if err != nil || e.Product != product || b.created(t, e.Reference) != 1 {
					t.Fatalf("entry = %+v, error %v, want a planned check with its reference as ReferenceID", e, err)
				}
				references[e.Reference] = true
			}
			if len(references) != 2 {
				t.Errorf("%s: references = %v, want another one for each check", product, references)
			}

			_, err := create(t.Context(), b.inbox, b.client, "1", "")
			if n := b.number(t, "SELECT count(*) FROM idverify_checks WHERE check_id IS NULL"); !errors.Is(err, idverify.ErrPhoneFormat) || n != 0 {
				t.Errorf("%s: error = %v, %d entries without a check; want ErrPhoneFormat and none", product, err, n)
			}
			b.service.Inject(sandboxfake.Match{Operation: string(product) + ".create"}, sandboxfake.Fault{Drop: true})
			_, err = create(t.Context(), b.inbox, b.client, matching, "")
			lost := texts(t, b.db, "SELECT reference FROM idverify_checks WHERE check_id IS NULL")
			if log := b.logged(); len(lost) == 1 && !strings.Contains(log, `level=WARN msg="inbox: outcome of the create unknown" reference=`+lost[0]+" error=") {
				t.Errorf("%s: log = %s, want the reference %s, which only the database has", product, log, lost[0])
			}
			if len(lost) != 1 || !errors.Is(b.inbox.Discard(t.Context(), lost[0]), inbox.ErrConflict) {
				t.Errorf("%s: entries without a check = %q, want one that Discard keeps: the check may exist", product, lost)
			}
			b.advance(t, 31*time.Second)
			if reconcileErr := b.inbox.Reconcile(t.Context(), b.client); !errors.Is(err, idverify.ErrOutcomeUnknown) || reconcileErr != nil {
				t.Errorf("%s: error = %v, of Reconcile %v; want ErrOutcomeUnknown", product, err, reconcileErr)
			}
			if n := b.number(t, "SELECT count(*) FROM idverify_checks WHERE product = '"+string(product)+"' AND check_id IS NOT NULL"); n != 3 {
				t.Errorf("%s: %d checks stored, want 3: Reconcile finds the one whose response was lost", product, n)
			}
		}
	}, serializable)
}

// The transaction of Plan is open. On SQLite, it locks the database.
func TestInbox_CreateBeforeCommit(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		if d.dialect == inbox.SQLite {
			d.source = func(t testing.TB) string {
				return strings.Replace(sqliteSource(t), "busy_timeout(60000)", "busy_timeout(1000)", 1)
			}
		}
		b := newBackend(t, d, nil)
		tx := must(b.db.BeginTx(t.Context(), nil))(t)
		defer tx.Rollback()
		noError(t, b.inbox.Plan(t.Context(), tx, idverify.ProductPhoneCheck, "sign-up 1"))

		check, err := b.inbox.CreatePhoneCheck(t.Context(), b.client, idverify.PhoneCheckParams{PhoneNumber: matching, ReferenceID: "sign-up 1"})

		if check != nil || !errors.Is(err, inbox.ErrNotFound) {
			t.Errorf("check = %v, error = %v, want ErrNotFound", check != nil, err)
		}
		if n := len(b.service.Requests()); n != 0 {
			t.Errorf("%d requests, want none", n)
		}
	})
}

// Two Inboxes, like those of two processes, create the checks of the same references at the same
// time.
func TestInbox_CreateOnce(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		const goroutines = 100
		b := newBackend(t, d, nil)
		b.db.SetMaxOpenConns(20)
		boxes := []*inbox.Inbox{b.inbox, newInbox(t, b.db, d.dialect, &inbox.Options{Now: b.service.Now})}
		for product, create := range createMethods {
			reference := string(product)
			b.plan(t, product, reference)
			var created, conflicts atomic.Int64

			concurrently(goroutines, func(n int) {
				switch checkID, err := create(t.Context(), boxes[n%2], b.client, matching, reference); {
				case err == nil && checkID != "":
					created.Add(1)
				case checkID == "" && errors.Is(err, inbox.ErrConflict) && !errors.Is(err, idverify.ErrOutcomeUnknown):
					conflicts.Add(1)
				default:
					t.Errorf("check %q, error %v, want a check or ErrConflict", checkID, err)
				}
			})

			if created.Load() != 1 || conflicts.Load() != goroutines-1 {
				t.Errorf("%s: %d calls created a check and %d conflicted, want 1 and %d", product, created.Load(), conflicts.Load(), goroutines-1)
			}
			if n := b.created(t, reference); n != 1 {
				t.Errorf("%s: the service created %d checks, want 1: each one is charged", product, n)
			}
		}
	}, serializable)
}

func TestInbox_CreateFails(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		for _, test := range []struct {
			name   string
			fault  sandboxfake.Fault
			number string
			want   error
			kept   bool // the entry is left to Reconcile
			checks int  // created by the service
		}{
			{name: "lost response", fault: sandboxfake.Fault{Drop: true}, want: idverify.ErrOutcomeUnknown, kept: true, checks: 1},
			{name: "truncated response", fault: sandboxfake.Fault{Truncate: true}, want: idverify.ErrOutcomeUnknown, kept: true, checks: 1},
			{name: "500", fault: sandboxfake.Fault{Status: 500}, want: idverify.ErrOutcomeUnknown, kept: true},
			{name: "402", fault: sandboxfake.Fault{Status: 402}, want: idverify.ErrInsufficientBalance},
			{name: "invalid number", number: "1", want: idverify.ErrPhoneFormat},
			{name: "sandbox project", want: idverify.ErrSandbox, checks: 1},
		} {
			for product, create := range createMethods {
				reference := test.name + " " + string(product)
				b.plan(t, product, reference)
				client := b.client
				if errors.Is(test.want, idverify.ErrSandbox) {
					client = b.service.Client(idverify.WithLiveOnly())
				}
				if test.fault != (sandboxfake.Fault{}) {
					b.service.Inject(sandboxfake.Match{Operation: string(product) + ".create"}, test.fault)
				}

				checkID, err := create(t.Context(), b.inbox, client, cmp.Or(test.number, matching), reference)
				discarded := b.inbox.Discard(t.Context(), reference)
				_, repeated := create(t.Context(), b.inbox, client, matching, reference)

				if checkID != "" || !errors.Is(err, test.want) {
					t.Errorf("%s: check %q, error %v, want %v", reference, checkID, err, test.want)
				}
				want := inbox.ErrNotFound
				if test.kept {
					want = inbox.ErrConflict
				}
				if !errors.Is(discarded, want) || !errors.Is(repeated, want) {
					t.Errorf("%s: error of Discard = %v, of the next call = %v, want %v", reference, discarded, repeated, want)
				}
				if n := b.created(t, reference); n != test.checks {
					t.Errorf("%s: %d checks created, want %d", reference, n, test.checks)
				}
			}
		}
		b.advance(t, 31*time.Second)
		b.reconcile(t)
		for product := range createMethods {
			if e := b.get(t, "lost response "+string(product)); e.CheckID == "" {
				t.Errorf("%s: Reconcile did not find the check", e.Reference)
			}
		}
	})
}

// The context ends before or after the service creates the check.
func TestInbox_CreateCanceled(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		for product, create := range createMethods {
			before, after := "before "+string(product), "after "+string(product)
			b.plan(t, product, before)
			b.plan(t, product, after)
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			ctx, cancel := context.WithCancel(t.Context())
			client := b.service.Client(idverify.WithObserver(func(ctx context.Context, operation string) (context.Context, func(idverify.Attempt)) {
				return ctx, func(idverify.Attempt) {
					if operation == string(product)+".create" {
						cancel()
					}
				}
			}))

			_, canceled := create(ended, b.inbox, b.client, matching, before)
			checkID, err := create(ctx, b.inbox, client, matching, after)

			if !errors.Is(canceled, context.Canceled) || b.created(t, before) != 0 {
				t.Errorf("%s: error = %v, want Canceled and no check", before, canceled)
			}
			if e := b.get(t, after); ctx.Err() == nil || err != nil || e.CheckID != checkID || checkID == "" {
				t.Errorf("%s: error = %v, check ID = %q, stored %q; want a stored check", after, err, checkID, e.CheckID)
			}
		}
	})
}

// Reconcile ends an entry 15 minutes after its create began, which may be long after Plan.
func TestInbox_CreateLate(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		b.plan(t, idverify.ProductPhoneCheck, "sign-up 1")
		b.advance(t, 14*time.Minute)
		b.service.Inject(sandboxfake.Match{Operation: "phone_check.create"}, sandboxfake.Fault{Status: 500})

		_, err := b.inbox.CreatePhoneCheck(t.Context(), b.client, idverify.PhoneCheckParams{PhoneNumber: matching, ReferenceID: "sign-up 1"})
		if !errors.Is(err, idverify.ErrOutcomeUnknown) {
			t.Fatal(err)
		}

		for _, step := range []struct {
			wait time.Duration
			want inbox.Status
		}{{14 * time.Minute, ""}, {time.Minute, inbox.StatusLost}} {
			b.advance(t, step.wait)
			b.reconcile(t)
			if e := b.get(t, "sign-up 1"); e.Status != step.want {
				t.Errorf("status = %q, want %q", e.Status, step.want)
			}
		}
	})
}
