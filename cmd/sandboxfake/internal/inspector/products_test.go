package inspector_test

import (
	"fmt"
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
	want := make(map[string][]outcome)
	for product, determine := range outcomes {
		for i := range 100 {
			o := determine(fmt.Sprintf("4477009000%02d", i))
			if o.Status == idverify.StatusError {
				o.Match = nil // valid only if COMPLETED
			}
			want[product] = append(want[product], outcome{string(o.Status), o.Match, o.NoSIMChange, o.ErrorCode})
		}
	}

	got := snippet[map[string][]outcome](t, `Object.fromEntries(input.map((product) => [product,
		Array.from({ length: 100 }, (_, i) => p.outcomeOf(product, '4477009000' + String(i).padStart(2, '0')))]))`, []string{"phone_check", "sim_check", "subscriber_check"})

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results by number (-fake +page):\n%s", diff)
	}
}
