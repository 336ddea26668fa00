package receivertest

import (
	"strings"
	"testing"
)

// Run examines the receiver and reports each failed rule as an error of the test, with the command
// to send its message again. Rules that are not applicable are logged. Run must be called from the
// goroutine of the test.
func Run(t testing.TB, r Receiver) {
	t.Helper()
	report, err := Examine(t.Context(), r)
	if conclusion := report.conclusion(); conclusion != "" {
		t.Log(conclusion)
	}
	var skipped []string
	for _, f := range report.Findings {
		switch f.Result {
		case Fail:
			var b strings.Builder
			writeIndented(&b, "", f.Rule+" ("+string(f.Severity)+")", f.Title+".", f.Reason, f.Detail, f.Curl)
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
