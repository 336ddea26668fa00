package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/sandboxfake"
)

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
				b := newWorkBackend(t, d, nil)
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

func TestInbox_ReconcileRateLimited(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			b := newWorkBackend(t, d, nil)
			b.startSilent(t, matching, "sign-up 1")
			b.startSilent(t, matching, "sign-up 2")
			b.plan(t, idverify.ProductSIMCheck, "payout 1")
			b.advance(t, time.Hour)
			before := len(b.service.Requests())
			b.service.Inject(sandboxfake.Match{Repeat: true}, sandboxfake.Fault{Status: http.StatusTooManyRequests})

			err := b.inbox.Reconcile(t.Context(), b.client)

			if n := len(b.service.Requests()) - before; !errors.Is(err, idverify.ErrRateLimited) || n > 2 {
				t.Errorf("error = %v after %d requests, want ErrRateLimited after one and its token", err, n)
			}
		})
	}
}

func TestInbox_ReconcileContinues(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			b := newWorkBackend(t, d, nil)
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
}

func TestInbox_ReconcileCanceled(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			b := newWorkBackend(t, d, nil)
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
}

func TestInbox_ReconcileConcurrent(t *testing.T) {
	t.Parallel()
	const checks = 20
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			b := newWorkBackend(t, d, &inbox.Options{OnResult: insertEffect})
			var want []string
			for n := range checks {
				want = append(want, fmt.Sprintf("sign-up %02d", n))
				b.open(t, b.startSilent(t, matching, want[n]))
			}
			b.advance(t, time.Hour)

			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					if err := b.inbox.Reconcile(t.Context(), b.client); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()

			b.wantEffects(t, want...)
			if reads := b.count("phone_check.get"); reads != checks {
				t.Errorf("%d reads of %d checks, want one each", reads, checks)
			}
		})
	}
}

func TestInbox_ReconcileBacklog(t *testing.T) {
	t.Parallel()
	const entries = 1000
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			b := newWorkBackend(t, d, nil)
			tx, err := b.db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for n := range entries {
				if err := b.inbox.Plan(t.Context(), tx, idverify.ProductPhoneCheck, fmt.Sprint("sign-up ", n)); err != nil {
					t.Fatal(err)
				}
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			b.advance(t, 15*time.Minute)

			b.reconcile(t)

			b.wantStats(t, inbox.Stats{Pending: entries})
		})
	}
}

// reconcile calls Reconcile, which must succeed.
func (b *workBackend) reconcile(t testing.TB) {
	t.Helper()
	if err := b.inbox.Reconcile(t.Context(), b.client); err != nil {
		t.Fatal(err)
	}
}

// reconcileUntilEnded calls Reconcile every ten seconds, as Run does, until the entry has ended. It
// returns the time that this took.
func (b *workBackend) reconcileUntilEnded(t testing.TB, reference string) time.Duration {
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
func (b *workBackend) meanwhile(t testing.TB, do func()) {
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

// createAny creates a check of a product without a callback, and returns its ID.
func (b *workBackend) createAny(t testing.TB, product idverify.Product, reference string) (checkID string) {
	t.Helper()
	var err error
	switch product {
	case idverify.ProductPhoneCheck:
		return b.createSilent(t, matching, reference).CheckID
	case idverify.ProductSIMCheck:
		var check *idverify.SIMCheck
		if check, err = b.client.SIMChecks.Create(t.Context(), idverify.SIMCheckParams{PhoneNumber: matching, ReferenceID: reference}); err == nil {
			return check.CheckID
		}
	case idverify.ProductSubscriberCheck:
		var check *idverify.SubscriberCheck
		if check, err = b.client.SubscriberChecks.Create(t.Context(), idverify.SubscriberCheckParams{PhoneNumber: matching, ReferenceID: reference}); err == nil {
			return check.CheckID
		}
	}
	t.Fatal(err)
	return ""
}

// createSilent creates a PhoneCheck without a callback.
func (b *workBackend) createSilent(t testing.TB, number, reference string) *idverify.PhoneCheck {
	t.Helper()
	check, err := b.client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: number, ReferenceID: reference})
	if err != nil {
		t.Fatal(err)
	}
	return check
}

// startSilent plans, creates and binds a PhoneCheck without a callback.
func (b *workBackend) startSilent(t testing.TB, number, reference string) *idverify.PhoneCheck {
	t.Helper()
	b.plan(t, idverify.ProductPhoneCheck, reference)
	check := b.createSilent(t, number, reference)
	if err := b.inbox.Bind(t.Context(), reference, check.CheckID, check.TTL); err != nil {
		t.Fatal(err)
	}
	return check
}

// count returns the number of requests of an operation.
func (b *workBackend) count(operation string) (n int) {
	for _, r := range b.service.Requests() {
		if r.Operation == operation {
			n++
		}
	}
	return n
}

func (b *workBackend) wantOutcomes(t testing.TB, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, b.outcomes()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
