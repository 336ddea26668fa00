package receivertest_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/receivertest"
)

func TestRules_UnknownKind(t *testing.T) {
	t.Parallel()
	if rules := receivertest.Rules("other", true); rules != nil {
		t.Errorf("%d rules of an unknown kind, want none", len(rules))
	}
}

func TestRules_Findings(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)
	rejectAll := respond(http.StatusBadRequest) // after the first rule, all others are not applicable
	for _, kind := range []receivertest.Kind{receivertest.KindCallback, receivertest.KindRedirect} {
		for _, strict := range []bool{false, true} {
			report := must(receivertest.Examine(t.Context(), receivertest.Receiver{
				Keys: keys, Kind: kind, URL: "https://shop.example.com/", Handler: rejectAll, Strict: strict,
			}))(t)

			rules := receivertest.Rules(kind, strict)

			var want []receivertest.Rule
			for _, f := range report.Findings {
				want = append(want, receivertest.Rule{Name: f.Rule, Title: f.Title, Reason: f.Reason, Severity: f.Severity})
			}
			if diff := cmp.Diff(want, rules); diff != "" || len(rules) < 5 {
				t.Errorf("%d rules of %v, strict: %t (-findings +rules):\n%s", len(rules), kind, strict, diff)
			}
		}
	}
}
