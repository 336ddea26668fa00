package inbox_test

import (
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
)

func TestEntry_Verdicts(t *testing.T) {
	t.Parallel()
	const phone, sim, subscriber = idverify.ProductPhoneCheck, idverify.ProductSIMCheck, idverify.ProductSubscriberCheck
	const yes, no, unknown = idverify.VerdictYes, idverify.VerdictNo, idverify.VerdictUnknown
	yesPointer, noPointer := new(true), new(false)
	for _, test := range []struct {
		product               idverify.Product
		match, noSIMChange    *bool
		matched, simUnchanged idverify.Verdict // of a COMPLETED check
	}{
		{phone, nil, nil, unknown, unknown},
		{phone, yesPointer, nil, yes, unknown},
		{phone, noPointer, nil, no, unknown},
		{phone, yesPointer, yesPointer, yes, unknown},
		{sim, nil, nil, unknown, unknown},
		{sim, nil, yesPointer, unknown, yes},
		{sim, nil, noPointer, unknown, no},
		{sim, yesPointer, yesPointer, unknown, yes},
		{subscriber, nil, nil, unknown, unknown},
		{subscriber, nil, yesPointer, unknown, unknown},
		{subscriber, yesPointer, nil, yes, unknown},
		{subscriber, yesPointer, yesPointer, yes, yes},
		{subscriber, yesPointer, noPointer, yes, no},
		{subscriber, noPointer, nil, no, unknown},
		{subscriber, noPointer, yesPointer, no, unknown},
		{subscriber, noPointer, noPointer, no, unknown},
		{"", yesPointer, yesPointer, unknown, unknown},
		{"reachability", yesPointer, yesPointer, unknown, unknown},
	} {
		for _, status := range []idverify.CheckStatus{
			idverify.StatusCompleted, idverify.StatusExpired, idverify.StatusError, inbox.StatusUnknown, "", idverify.StatusPending, idverify.StatusAccepted, "completed",
		} {
			e := inbox.Entry{Product: test.product, Status: status, Match: test.match, NoSIMChange: test.noSIMChange}

			matched, simUnchanged := e.Matched(), e.SIMUnchanged()

			wantMatched, wantSIM := unknown, unknown
			if status == idverify.StatusCompleted {
				wantMatched, wantSIM = test.matched, test.simUnchanged
			}
			if matched != wantMatched || simUnchanged != wantSIM {
				t.Errorf("%s in status %q, match %v, no SIM change %v: verdicts = %s, %s; want %s, %s",
					test.product, status, text(test.match), text(test.noSIMChange), matched, simUnchanged, wantMatched, wantSIM)
			}
		}
	}
}

func text(b *bool) string {
	switch {
	case b == nil:
		return "nil"
	case *b:
		return "true"
	}
	return "false"
}
