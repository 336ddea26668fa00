package inspector_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestProducts_Outcome(t *testing.T) {
	t.Parallel()
	type outcome struct {
		Status      string `json:"status"`
		Match       *bool  `json:"match"`
		NoSIMChange *bool  `json:"no_sim_change"`
		ErrorCode   string `json:"error_code"`
	}
	outcomes := map[string]func(string) sandboxfake.Outcome{
		"phone_check": sandboxfake.PhoneCheckOutcome, "sim_check": sandboxfake.SIMCheckOutcome, "subscriber_check": sandboxfake.SubscriberCheckOutcome,
	}
	field := func(v idverify.Verdict) *bool {
		if v == idverify.VerdictUnknown {
			return nil
		}
		return new(v == idverify.VerdictYes)
	}
	want := make(map[string][]outcome)
	for product, determine := range outcomes {
		for i := range 100 {
			o := determine(fmt.Sprintf("4477009000%02d", i))
			if o.Status == idverify.StatusError {
				o.Match = idverify.VerdictUnknown // valid only if COMPLETED
			}
			want[product] = append(want[product], outcome{string(o.Status), field(o.Match), field(o.NoSIMChange), o.ErrorCode})
		}
	}

	got := snippet[map[string][]outcome](t, `Object.fromEntries(input.map((product) => [product,
		Array.from({ length: 100 }, (_, i) => p.outcomeOf(product, '4477009000' + String(i).padStart(2, '0')))]))`, []string{"phone_check", "sim_check", "subscriber_check"})

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results by number (-fake +page):\n%s", diff)
	}
}

// The form for a new check accepts the same numbers as the client.
func TestProducts_NormalizeNumber(t *testing.T) {
	t.Parallel()
	type normalized struct {
		Number string `json:"number"`
		Error  string `json:"error"`
	}
	texts := []string{
		"447700900012", "+44 7700 900012", " +44 (7700) 900-012\t", "(+44) 7700.900\u2011012", "\u0085+44\u00a07700\u202f900\u2009012\u2003", "\u2003447700900012", "1234567", "123456789012345",
		"", " ", "+", "()", "123456", "1234567890123456", "07700 900012", "0044 7700 900012", "+44 (0)7700 900012", "44( 0 )7700900012", "44 (00) 7700900012", "+(0)44 7700 900012",
		"44+7700900012", "++447700900012", "447700900012+", "447700900012x3", "447700900012, 447700900013", "44/7700900012", "\u0664\u06647700900012", "4477\u20037700900012", "\ufeff447700900012",
	}
	var want []normalized
	for _, text := range texts {
		number, err := idverify.NormalizePhoneNumber(text)
		n := normalized{Number: number}
		if err != nil {
			_, n.Error, _ = strings.Cut(err.Error(), idverify.ErrPhoneFormat.Error()+": ")
		}
		want = append(want, n)
	}

	got := snippet[[]normalized](t, `input.map(p.normalizeNumber)`, texts)

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("normalized numbers (-client +page):\n%s", diff)
	}
}
