package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestInbox_ReconcileFindsReference(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		for _, product := range []idverify.Product{idverify.ProductPhoneCheck, idverify.ProductSIMCheck, idverify.ProductSubscriberCheck} {
			t.Run(d.name+" "+string(product), func(t *testing.T) {
				t.Parallel()
				b := newBackend(t, d, nil)
				b.plan(t, product, "sign-up 1")
				checkID := b.createAny(t, product, "sign-up 1")

				b.advance(t, 30*time.Second-time.Microsecond)
				b.reconcile(t)
				early := b.count(string(product) + ".list")
				b.advance(t, time.Microsecond)
				b.reconcile(t)
				bound := b.inbox.Bind(t.Context(), "sign-up 1", checkID, time.Minute)

				if bound != nil {
					t.Errorf("error of Bind after Reconcile = %v, want none", bound)
				}
				if early != 0 {
					t.Errorf("%d searches within 30 seconds, want none: Create may not have returned", early)
				}
				want := inbox.Entry{CheckID: checkID}
				if product == idverify.ProductSIMCheck {
					want.Status, want.Source = inbox.StatusCompleted, inbox.SourceReconcile
				}
				if e := b.get(t, "sign-up 1"); e.CheckID != want.CheckID || e.Status != want.Status || e.Source != want.Source {
					t.Errorf("entry = %+v, want %+v", e, want)
				}
			})
		}
	}
}

func TestInbox_ReconcileIgnoresOldChecks(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		b.createAny(t, idverify.ProductSIMCheck, "payout 1")
		b.advance(t, time.Hour)
		b.plan(t, idverify.ProductSIMCheck, "payout 1")

		b.advance(t, 30*time.Second)
		b.reconcile(t)
		before := b.get(t, "payout 1")
		checkID := b.createAny(t, idverify.ProductSIMCheck, "payout 1")
		b.advance(t, time.Minute)
		b.reconcile(t)

		if before.Status != "" || before.CheckID != "" {
			t.Errorf("entry = %+v, want nothing of a check that was created before Plan", before)
		}
		if e := b.get(t, "payout 1"); e.CheckID != checkID || e.Status != inbox.StatusCompleted {
			t.Errorf("entry = %+v, want the result of the check that was created after Plan", e)
		}
	})
}

func TestInbox_ReconcileStoresResult(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, &inbox.Options{OnResult: insertEffect})
		check := b.startSilent(t, matching, "sign-up 1")
		b.open(t, check)

		b.advance(t, check.TTL+30*time.Second-time.Microsecond)
		b.reconcile(t)
		early := b.count("phone_check.get")
		b.advance(t, time.Microsecond)
		b.reconcile(t)
		b.advance(t, time.Hour)
		b.reconcile(t)

		if reads := b.count("phone_check.get"); early != 0 || reads != 1 {
			t.Errorf("%d reads before the callback was overdue, %d in all; want 0 and 1", early, reads)
		}
		if e := b.get(t, "sign-up 1"); e.Match != idverify.VerdictYes || e.Source != inbox.SourceReconcile || e.DoneAt.IsZero() {
			t.Errorf("entry = %+v, want a processed match", e)
		}
		b.wantEffects(t, "sign-up 1")
		b.wantOutcomes(t, "reconcile stored")
	})
}

func TestInbox_ReconcileInProgress(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		b.plan(t, idverify.ProductPhoneCheck, "sign-up 1")
		check := b.createSilent(t, matching, "sign-up 1")
		noError(t, b.inbox.Bind(t.Context(), "sign-up 1", check.CheckID, time.Second))

		b.advance(t, 31*time.Second)
		b.reconcile(t)
		b.open(t, check)
		b.advance(t, 5*time.Minute-time.Microsecond)
		b.reconcile(t)
		early := b.get(t, "sign-up 1")
		b.advance(t, time.Microsecond)
		b.reconcile(t)

		if early.Status != "" {
			t.Errorf("entry = %+v, want no read for five minutes", early)
		}
		if e := b.get(t, "sign-up 1"); e.Status != inbox.StatusCompleted {
			t.Errorf("entry = %+v, want the result", e)
		}
	})
}

func TestInbox_ReconcileNotFound(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		for _, test := range []struct {
			name, number string
			end          func(*backend, *testing.T, *idverify.PhoneCheck)
		}{
			{"expired", noResult, func(b *backend, _ *testing.T, c *idverify.PhoneCheck) { b.service.Expire(c.CheckID) }},
			{"error", noResult, func(b *backend, t *testing.T, c *idverify.PhoneCheck) { b.open(t, c) }},
			{"match in another project", matching, func(b *backend, t *testing.T, c *idverify.PhoneCheck) {
				b.open(t, c)
				b.client = b.otherCustomer().client
			}},
		} {
			t.Run(d.name+" "+test.name, func(t *testing.T) {
				t.Parallel()
				b := newBackend(t, d, nil)
				check := b.startSilent(t, test.number, "sign-up 1")
				test.end(b, t, check)

				elapsed := b.reconcileUntilEnded(t, "sign-up 1") - check.TTL

				if e := b.get(t, "sign-up 1"); e.Status != inbox.StatusLost || e.Source != inbox.SourceReconcile || e.Match != idverify.VerdictUnknown || e.CheckID != check.CheckID {
					t.Errorf("entry = %+v, want StatusLost from Reconcile", e)
				}
				if elapsed < 5*time.Minute || elapsed > 6*time.Minute+10*time.Second {
					t.Errorf("the entry ended %s after the TTL, want 5 to 6 minutes: until then, callbacks can arrive", elapsed)
				}
				b.wantOutcomes(t, "reconcile lost")
				b.wantStats(t, inbox.Stats{Pending: 1})
				if log, want := b.logged(), `level=WARN msg="inbox: check not found, ended as LOST" check_id=`+check.CheckID+` reference="sign-up 1"`; !strings.Contains(log, want) {
					t.Errorf("log = %s, want %s", log, want)
				}
			})
		}
	}
}

func TestInbox_ReconcileLiveOnly(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		for product, create := range createMethods {
			b := newBackend(t, d, nil)
			b.client = b.service.Client(idverify.WithLiveOnly())
			b.plan(t, product, "sign-up 1")
			b.service.Inject(sandboxfake.Match{Operation: string(product) + ".create"}, sandboxfake.Fault{Drop: true})

			_, err := create(t.Context(), b.inbox, b.client, matching, "sign-up 1")
			b.reconcileUntilEnded(t, "sign-up 1")

			if !errors.Is(err, idverify.ErrOutcomeUnknown) {
				t.Fatalf("%s: error = %v, want ErrOutcomeUnknown", product, err)
			}
			if e := b.get(t, "sign-up 1"); e.Status != inbox.StatusLost || e.CheckID != "" || e.Match != idverify.VerdictUnknown || e.NoSIMChange != idverify.VerdictUnknown {
				t.Errorf("%s: entry = %+v, want StatusLost: the result of a sandbox project proves nothing", product, e)
			}
		}
	})
}

// TestInbox_ReconcileRaces changes the entry after the service has responded to Reconcile and
// before Reconcile stores the result.
func TestInbox_ReconcileRaces(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name+" callback", func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, d, &inbox.Options{OnResult: insertEffect})
			b.service.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback}, sandboxfake.Fault{Status: http.StatusBadRequest})
			check := b.start(t, matching, "sign-up 1")
			b.open(t, check)
			b.advance(t, check.TTL+30*time.Second)
			b.meanwhile(t, func() {
				if err := errors.Join(b.service.Redeliver(t.Context(), b.service.Deliveries()[0].ID), b.service.WaitIdle(t.Context())); err != nil {
					t.Error(err)
				}
			})

			b.reconcile(t)

			if e := b.get(t, "sign-up 1"); e.Source != inbox.SourceCallback || e.Match != idverify.VerdictYes {
				t.Errorf("entry = %+v, want the result of the callback", e)
			}
			b.wantEffects(t, "sign-up 1")
			b.wantOutcomes(t, "callback stored", "reconcile duplicate")
		})
		t.Run(d.name+" bind", func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, d, nil)
			b.plan(t, idverify.ProductPhoneCheck, "sign-up 1")
			b.advance(t, 15*time.Minute)
			b.meanwhile(t, func() {
				if err := b.inbox.Bind(t.Context(), "sign-up 1", "check 1", time.Minute); err != nil {
					t.Error(err)
				}
			})

			b.reconcile(t)

			if e := b.get(t, "sign-up 1"); e.Status != "" || e.CheckID != "check 1" {
				t.Errorf("entry = %+v, want a check in progress", e)
			}
			b.wantOutcomes(t)
		})
	}
}

// A planned check that was never created must not cost many searches.
func TestInbox_ReconcileSearchesLessOften(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		b.plan(t, idverify.ProductPhoneCheck, "sign-up 1")

		for range 16 * 6 {
			b.advance(t, 10*time.Second)
			b.reconcile(t)
		}

		if n := b.count("phone_check.list"); n != 6 {
			t.Errorf("%d searches, want 6: after 30 s, 1½, 3, 6 and 12 minutes, and at the end", n)
		}
		if e := b.get(t, "sign-up 1"); e.Status != inbox.StatusLost {
			t.Errorf("status = %q, want LOST", e.Status)
		}
	})
}

// A backlog of one product that exceeds the rate limit must not keep the others waiting.
func TestInbox_ReconcileOldestProductFirst(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		b.plan(t, idverify.ProductSubscriberCheck, "sign-up 1")
		checkID := b.createAny(t, idverify.ProductSubscriberCheck, "sign-up 1")
		b.advance(t, time.Second)
		b.plan(t, idverify.ProductPhoneCheck, "sign-in 1")
		b.service.Inject(sandboxfake.Match{Operation: "phone_check.list", Repeat: true}, sandboxfake.Fault{Status: http.StatusTooManyRequests})
		b.advance(t, time.Minute)

		err := b.inbox.Reconcile(t.Context(), b.client)

		if !errors.Is(err, idverify.ErrRateLimited) {
			t.Errorf("error = %v, want ErrRateLimited", err)
		}
		if e := b.get(t, "sign-up 1"); e.CheckID != checkID {
			t.Errorf("entry = %+v, want the check that waits longest to be found", e)
		}
	})
}

// Entries whose result your function rejects, or whose read the service rejects, must not delay the
// others.
func TestInbox_ReconcilePoison(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		for status, want := range map[int]string{0: "invalid customer record", 400: ": 400 ", 409: ": 409 "} {
			b := newBackend(t, d, &inbox.Options{OnResult: func(ctx context.Context, tx *sql.Tx, e inbox.Entry) error {
				if strings.HasPrefix(e.Reference, "poison") {
					return errors.New("invalid customer record")
				}
				return insertEffect(ctx, tx, e)
			}})
			for n := range 5 {
				b.open(t, b.startSilent(t, matching, fmt.Sprint("poison ", n)))
			}
			b.advance(t, time.Second) // the entry of sign-up 1 becomes due last
			b.open(t, b.startSilent(t, matching, "sign-up 1"))
			b.advance(t, time.Hour)
			if status > 0 {
				b.service.Inject(sandboxfake.Match{Operation: "phone_check.get"}, slices.Repeat([]sandboxfake.Fault{{Status: status}}, 5)...)
			}

			err := b.inbox.Reconcile(t.Context(), b.client)

			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error = %v, want %s", err, want)
			}
			b.wantEffects(t, "sign-up 1")
			before := b.count("phone_check.get")
			b.advance(t, 9*time.Minute)
			b.reconcile(t)
			if n := b.count("phone_check.get") - before; n != 0 {
				t.Errorf("%d reads within ten minutes of a failure, want none", n)
			}
		}
	})
}

var failedRead = regexp.MustCompile(`level=ERROR msg="inbox: check not reconciled" outcome=failed check_id=\S+ reference="(sign-up|payout) \d" error=".+"`)

func TestInbox_ReconcileOutage(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		for name, fault := range map[string]sandboxfake.Fault{
			"unavailable":     {Status: http.StatusServiceUnavailable},
			"connection lost": {Drop: true},
			"proxy 404":       {Status: http.StatusNotFound, Code: "not_found"},
			"proxy page":      {Status: http.StatusNotFound, Body: "<html>not found</html>"},
			"empty page":      {Status: http.StatusOK, Body: "{}"},
		} {
			t.Run(d.name+" "+name, func(t *testing.T) {
				t.Parallel()
				b := newBackend(t, d, nil)
				for n := range 5 {
					b.startSilent(t, matching, fmt.Sprint("sign-up ", n))
				}
				b.plan(t, idverify.ProductSIMCheck, "payout 1")
				b.advance(t, time.Hour)
				repair := b.service.Inject(sandboxfake.Match{Repeat: true, Operation: "phone_check.get"}, fault)
				repairSearch := b.service.Inject(sandboxfake.Match{Repeat: true, Operation: "sim_check.list"}, fault)

				err := b.inbox.Reconcile(t.Context(), b.client)

				if err == nil {
					t.Error("no error")
				}
				b.wantOutcomes(t, "reconcile failed", "reconcile failed", "reconcile failed", "reconcile failed") // three gets, one search
				if log := b.logged(); len(failedRead.FindAllString(log, -1)) != 4 {
					t.Errorf("log = %s, want four records of failed reads", log)
				}
				b.wantStats(t, inbox.Stats{InProgress: 6, Overdue: 2})
				repair()
				repairSearch()
				b.reconcile(t)
				b.wantStats(t, inbox.Stats{Pending: 2, InProgress: 4})
				b.advance(t, 10*time.Minute)
				b.reconcile(t)
				b.wantStats(t, inbox.Stats{Pending: 6, OldestAge: 10 * time.Minute})
			})
		}
	}
}

// A service that hangs must not hold an entry for longer than its lease of a minute: another
// process would read it, too.
func TestInbox_ReconcileHangingService(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t, databases[0], nil)
		service := b.service.HTTPClient().Transport
		b.client = b.service.Client(idverify.WithHTTPClient(&http.Client{Transport: roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return service.RoundTrip(r)
		})}))
		b.plan(t, idverify.ProductPhoneCheck, "without ID")
		b.planned(t, "with ID", "check")
		b.advance(t, time.Hour)
		start := time.Now()

		err := b.inbox.Reconcile(t.Context(), b.client)

		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != 2*25*time.Second {
			t.Errorf("error = %v after %s, want DeadlineExceeded after 25 s for each of two checks", err, took)
		}
	})
}

func TestInbox_ReconcileRateLimited(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		b.plan(t, idverify.ProductSIMCheck, "payout 1")
		b.plan(t, idverify.ProductSIMCheck, "payout 2")
		b.startSilent(t, matching, "sign-up 1")
		b.advance(t, time.Hour)
		b.service.Inject(sandboxfake.Match{Operation: "sim_check.list", Repeat: true}, sandboxfake.Fault{Status: http.StatusTooManyRequests})

		err := b.inbox.Reconcile(t.Context(), b.client)

		if searches, reads := b.count("sim_check.list"), b.count("phone_check.get"); !errors.Is(err, idverify.ErrRateLimited) || searches != 1 || reads != 0 {
			t.Errorf("error = %v after %d searches and %d reads, want ErrRateLimited after one search", err, searches, reads)
		}
	})
}

// The pause after a failed read is a quarter of the age of the entry, from one to ten minutes.
func TestInbox_ReconcilePauses(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		for age, pause := range map[time.Duration]time.Duration{
			30 * time.Second: time.Minute, 4 * time.Minute: time.Minute, 8 * time.Minute: 2 * time.Minute, 40 * time.Minute: 10 * time.Minute, time.Hour: 10 * time.Minute,
		} {
			b := newBackend(t, d, nil)
			b.plan(t, idverify.ProductPhoneCheck, "sign-up 1")
			b.advance(t, age)
			b.service.Inject(sandboxfake.Match{Operation: "phone_check.list"}, sandboxfake.Fault{Status: http.StatusServiceUnavailable})

			err := b.inbox.Reconcile(t.Context(), b.client)
			b.advance(t, pause-time.Microsecond)
			b.reconcile(t)
			early := b.count("phone_check.list")
			b.advance(t, time.Microsecond)
			b.reconcile(t)

			if late := b.count("phone_check.list"); err == nil || early != 1 || late != 2 {
				t.Errorf("age %s: error = %v, %d searches before and %d after %s, want an error, 1 and 2", age, err, early, late, pause)
			}
		}
	})
}

func TestInbox_ReconcileContinues(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		for n := range 10 {
			b.open(t, b.startSilent(t, matching, fmt.Sprint("sign-up ", n)))
			b.plan(t, idverify.ProductSIMCheck, fmt.Sprint("payout ", n))
			b.createAny(t, idverify.ProductSubscriberCheck, fmt.Sprint("other ", n))
		}
		b.advance(t, time.Hour)
		failing := sandboxfake.Fault{Status: http.StatusInternalServerError}
		b.service.Inject(sandboxfake.Match{Operation: "phone_check.get", Repeat: true}, failing, failing, sandboxfake.Fault{})
		b.service.Inject(sandboxfake.Match{Operation: "sim_check.list", Repeat: true}, sandboxfake.Fault{Status: http.StatusForbidden})
		b.plan(t, idverify.ProductSubscriberCheck, "other")
		b.advance(t, time.Hour)

		err := b.inbox.Reconcile(t.Context(), b.client)

		if !errors.Is(err, idverify.ErrForbidden) {
			t.Errorf("error = %v, want that of the failing product too", err)
		}
		// Two of three reads of PhoneChecks failed. All but three reads of SIMChecks are due.
		b.wantStats(t, inbox.Stats{Pending: 4, InProgress: 17, Overdue: 7})
		if e := b.get(t, "other"); e.Status != inbox.StatusLost {
			t.Errorf("entry = %+v, want it to be read although another product fails", e)
		}
	})
}

func TestInbox_ReconcileCanceled(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		b.open(t, b.startSilent(t, matching, "sign-up 1"))
		b.advance(t, time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		b.meanwhile(t, cancel)

		err := b.inbox.Reconcile(ctx, b.client)

		if !errors.Is(err, context.Canceled) {
			t.Errorf("error = %v, want context.Canceled", err)
		}
		b.wantOutcomes(t)
	})
}

func TestInbox_ReconcileConcurrent(t *testing.T) {
	const checks = 20
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, &inbox.Options{OnResult: insertEffect})
		var want []string
		for n := range checks {
			want = append(want, fmt.Sprintf("sign-up %02d", n))
			b.open(t, b.startSilent(t, matching, want[n]))
		}
		b.advance(t, time.Hour)

		concurrently(4, func(int) {
			if err := b.inbox.Reconcile(t.Context(), b.client); err != nil {
				t.Error(err)
			}
		})

		b.wantEffects(t, want...)
		if reads := b.count("phone_check.get"); reads != checks {
			t.Errorf("%d reads of %d checks, want one each", reads, checks)
		}
	})
}

func TestInbox_ReconcileBacklog(t *testing.T) {
	const entries = 1000
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)
		tx := must(b.db.BeginTx(t.Context(), nil))(t)
		for n := range entries {
			noError(t, b.inbox.Plan(t.Context(), tx, idverify.ProductPhoneCheck, fmt.Sprint("sign-up ", n)))
		}
		noError(t, tx.Commit())
		b.advance(t, 15*time.Minute)

		b.reconcile(t)

		b.wantStats(t, inbox.Stats{Pending: entries})
	})
}

// reconcile calls Reconcile, which must succeed.
func (b *backend) reconcile(t testing.TB) {
	t.Helper()
	noError(t, b.inbox.Reconcile(t.Context(), b.client))
}

// reconcileUntilEnded calls Reconcile every ten seconds, as Start does, until the entry has ended.
// It returns the time that this took.
func (b *backend) reconcileUntilEnded(t testing.TB, reference string) time.Duration {
	t.Helper()
	for elapsed := time.Duration(0); elapsed < time.Hour; elapsed += 10 * time.Second {
		b.reconcile(t)
		if e := b.get(t, reference); e.Status != "" {
			return elapsed
		}
		b.advance(t, 10*time.Second)
	}
	t.Fatal("the entry has not ended")
	return 0
}

// meanwhile calls do when the service has responded to the next request of the client.
func (b *backend) meanwhile(t testing.TB, do func()) {
	t.Helper()
	client := b.service.HTTPClient()
	transport, once := client.Transport, new(sync.Once)
	client.Transport = roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		response, err := transport.RoundTrip(r)
		if r.Method == http.MethodGet {
			once.Do(do)
		}
		return response, err
	})
	b.client = b.service.Client(idverify.WithHTTPClient(client))
}

type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
