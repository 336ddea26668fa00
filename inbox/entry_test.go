package inbox_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
)

// TestEntry_Verdicts records results that were not made with ResultOf.
func TestEntry_Verdicts(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		const phone, sim, subscriber = idverify.ProductPhoneCheck, idverify.ProductSIMCheck, idverify.ProductSubscriberCheck
		const yes, no, unknown = idverify.VerdictYes, idverify.VerdictNo, idverify.VerdictUnknown
		b := newBackend(t, d, &inbox.Options{OnResult: insertEffect})
		for n, row := range []struct {
			product            idverify.Product
			status             idverify.CheckStatus
			match, noSIMChange idverify.Verdict
			want               []idverify.Verdict
		}{
			{phone, idverify.StatusCompleted, yes, yes, []idverify.Verdict{yes, unknown}},
			{phone, idverify.StatusCompleted, no, unknown, []idverify.Verdict{no, unknown}},
			{phone, idverify.StatusError, yes, unknown, []idverify.Verdict{unknown, unknown}},
			{sim, idverify.StatusCompleted, yes, yes, []idverify.Verdict{unknown, yes}},
			{sim, idverify.StatusError, unknown, no, []idverify.Verdict{unknown, unknown}},
			{subscriber, idverify.StatusCompleted, yes, yes, []idverify.Verdict{yes, yes}},
			{subscriber, idverify.StatusCompleted, yes, no, []idverify.Verdict{yes, no}},
			{subscriber, idverify.StatusCompleted, no, yes, []idverify.Verdict{no, unknown}},
			{subscriber, idverify.StatusCompleted, unknown, yes, []idverify.Verdict{unknown, unknown}},
			{subscriber, idverify.StatusExpired, yes, yes, []idverify.Verdict{unknown, unknown}},
		} {
			reference := fmt.Sprint("row ", n)
			b.plan(t, row.product, reference)
			result := inbox.Result{Product: row.product, CheckID: "check of " + reference, ReferenceID: reference, Status: row.status, Match: row.match, NoSIMChange: row.noSIMChange}
			must(b.inbox.Record(t.Context(), result))(t)

			e := b.get(t, reference)

			if got := []idverify.Verdict{e.Match, e.NoSIMChange}; !cmp.Equal(got, row.want) {
				t.Errorf("%+v: verdicts = %v, want %v", result, got, row.want)
			}
		}
	})
}

func TestInbox_GetInvalid(t *testing.T) {
	onDatabases(t, func(t *testing.T, d database) {
		b := newBackend(t, d, nil)

		for name, reference := range invalidIDs {
			if _, err := b.inbox.Get(t.Context(), reference); !errors.Is(err, inbox.ErrNotFound) {
				t.Errorf("%s: error = %v, want ErrNotFound", name, err)
			}
			if _, err := b.inbox.GetByCheckID(t.Context(), reference); !errors.Is(err, inbox.ErrNotFound) {
				t.Errorf("%s: error of GetByCheckID = %v, want ErrNotFound", name, err)
			}
		}
	})
}
