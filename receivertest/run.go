package receivertest

import (
	"fmt"
	"strings"
	"testing"
)

// Run examines the receiver and reports each failed rule as an error of the test. The errors of the
// same rules as in the text of a report include the command that sends their message again. Rules
// that are not applicable are logged. Run must be called from the goroutine of the test.
func Run(t testing.TB, r Receiver) {
	t.Helper()
	report, err := Examine(t.Context(), r)
	if conclusion := report.conclusion(); conclusion != "" {
		t.Log(conclusion)
	}
	var skipped []string
	shown := report.commands()
	for _, f := range report.Findings {
		switch f.Result {
		case Fail:
			var b strings.Builder
			writeIndented(&b, "", fmt.Sprintf("%s (%s): %s", f.Rule, f.Severity, f.Detail), f.Reason)
			f.writeCauses(&b)
			if shown[f.Rule] {
				writeIndented(&b, "", f.Curl)
			}
			t.Error(b.String())
		case NotApplicable:
			skipped = append(skipped, f.Rule+": "+f.Detail)
		}
	}
	if len(skipped) > 0 {
		t.Log("not applicable:\n" + strings.Join(skipped, "\n"))
	}
	if err != nil {
		t.Fatal(err)
	}
}
