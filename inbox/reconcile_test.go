package inbox_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/sandboxfake"
)

const (
	matching = "447700900012"
	noResult = "447700900055" // ends as ERROR
)

func TestInbox_ReconcileFindsReference(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		for _, product := range []idverify.Product{idverify.ProductPhoneCheck, idverify.ProductSIMCheck, idverify.ProductSubscriberCheck} {
			t.Run(d.name+" "+string(product), func(t *testing.T) {
				t.Parallel()
				b := newWorkBackend(t, d, nil)
				b.plan(t, product, "sign-up 1")
				checkID := b.createAny(t, product, "sign-up 1")

				b.advance(t, 30*time.Second-time.Microsecond)
				b.reconcile(t)
				early := b.count(string(product) + ".list")
				b.advance(t, time.Microsecond)
				b.reconcile(t)

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
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			b := newWorkBackend(t, d, nil)
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
}

func TestInbox_ReconcileStoresResult(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			b := newWorkBackend(t, d, &inbox.Options{OnResult: insertEffect})
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
}

func TestInbox_ReconcileInProgress(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			b := newWorkBackend(t, d, nil)
			b.plan(t, idverify.ProductPhoneCheck, "sign-up 1")
			check := b.createSilent(t, matching, "sign-up 1")
			if err := b.inbox.Bind(t.Context(), "sign-up 1", check.CheckID, time.Second); err != nil {
				t.Fatal(err)
			}

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
}

func TestInbox_ReconcileNotFound(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		for name, end := range map[string]func(*workBackend, *testing.T, *idverify.PhoneCheck){
			"expired": func(b *workBackend, _ *testing.T, c *idverify.PhoneCheck) { b.service.Expire(c.CheckID) },
			"error":   func(b *workBackend, t *testing.T, c *idverify.PhoneCheck) { b.open(t, c) },
		} {
			t.Run(d.name+" "+name, func(t *testing.T) {
				t.Parallel()
				b := newWorkBackend(t, d, nil)
				check := b.startSilent(t, noResult, "sign-up 1")
				end(b, t, check)

				elapsed := b.reconcileUntilEnded(t, "sign-up 1") - check.TTL

				if e := b.get(t, "sign-up 1"); e.Status != inbox.StatusLost || e.Match != idverify.VerdictUnknown || e.CheckID != check.CheckID {
					t.Errorf("entry = %+v, want StatusLost", e)
				}
				if elapsed < 5*time.Minute || elapsed > 6*time.Minute+10*time.Second {
					t.Errorf("the entry ended %s after the TTL, want 5 to 6 minutes: until then, callbacks can arrive", elapsed)
				}
				b.wantOutcomes(t, "reconcile lost")
				b.wantStats(t, inbox.Stats{Pending: 1})
			})
		}
	}
}

func TestInbox_ReconcileNeverCreated(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			b := newWorkBackend(t, d, nil)
			b.plan(t, idverify.ProductSubscriberCheck, "sign-up 1")

			elapsed := b.reconcileUntilEnded(t, "sign-up 1")
			err := b.inbox.Bind(t.Context(), "sign-up 1", "late", time.Minute)

			if e := b.get(t, "sign-up 1"); e.Status != inbox.StatusLost {
				t.Errorf("entry = %+v, want StatusLost", e)
			}
			if elapsed < 15*time.Minute || elapsed > 16*time.Minute+10*time.Second {
				t.Errorf("the entry ended %s after Plan, want 15 to 16 minutes", elapsed)
			}
			if !errors.Is(err, inbox.ErrConflict) {
				t.Errorf("Bind of an ended entry = %v, want ErrConflict", err)
			}
		})
	}
}

func TestInbox_ReconcileLiveOnly(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			for product, create := range createMethods {
				b := newWorkBackend(t, d, nil)
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
}

// TestInbox_ReconcileRaces changes the entry after the service has responded to Reconcile and
// before Reconcile stores the result.
func TestInbox_ReconcileRaces(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name+" callback", func(t *testing.T) {
			t.Parallel()
			b := newWorkBackend(t, d, &inbox.Options{OnResult: insertEffect})
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
			b := newWorkBackend(t, d, nil)
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
