package receivertest_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/receivertest"
	"github.com/idverify/idverify-go/signature"
)

// mistake matches the detail of a failed rule, which reads as a sentence after the word FAIL.
var mistake = regexp.MustCompile(`^(accepted|acted|did not|neither|rejected|responded) [^:]*: `)

// examine examines a receiver and returns the report.
func examine(t *testing.T, r receivertest.Receiver) receivertest.Report {
	t.Helper()
	report := must(receivertest.Examine(t.Context(), r))(t)
	severities := make(map[string]receivertest.Severity)
	for _, rule := range receivertest.Rules(report.Kind, r.Strict) {
		severities[rule.Name] = rule.Severity
	}
	for _, f := range report.Failed() {
		if !mistake.MatchString(f.Detail) {
			t.Errorf("%s: detail = %q, want what the receiver did wrong first", f.Rule, f.Detail)
		}
		// These rules are critical if the receiver accepts a message with an unknown key: then it
		// verifies nothing.
		accepts := strings.Contains(f.Rule, "/key-set-") && f.Severity == receivertest.SeverityCritical
		if want := severities[f.Rule]; f.Severity != want && f.Severity != receivertest.SeverityLow && !accepts {
			t.Errorf("%s: severity = %q, want %q or low", f.Rule, f.Severity, want)
		}
	}
	return report
}

// failures returns the names of failed rules, without the kind.
func failures(report receivertest.Report) string {
	var names []string
	for _, f := range report.Failed() {
		_, name, _ := strings.Cut(f.Rule, "/")
		names = append(names, name)
	}
	return strings.Join(names, "\n")
}

// finding returns the finding of a rule.
func finding(t *testing.T, report receivertest.Report, rule string) receivertest.Finding {
	t.Helper()
	i := slices.IndexFunc(report.Findings, func(f receivertest.Finding) bool { return f.Rule == rule })
	if i < 0 {
		t.Fatalf("no finding for %s in %d findings", rule, len(report.Findings))
	}
	return report.Findings[i]
}

// wantFinding compares the result and a part of the detail of a rule.
func wantFinding(t *testing.T, report receivertest.Report, rule string, result receivertest.Result, detail string) {
	t.Helper()
	if f := finding(t, report, rule); f.Result != result || !strings.Contains(f.Detail, detail) {
		t.Errorf("%s: %s: %q, want %s with %q", f.Rule, f.Result, f.Detail, result, detail)
	}
}

// count returns the number of rules with a result.
func count(report receivertest.Report, result receivertest.Result) (n int) {
	for _, f := range report.Findings {
		if f.Result == result {
			n++
		}
	}
	return n
}

// bubble runs a parallel subtest in a bubble, where the waits of an examination take no time. The
// name can be the fault of a receiver, which is empty for a correct one.
func bubble(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	if name == "" {
		name = "correct"
	}
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, test)
	})
}

// wantAllPassed reports each rule that has another result.
func wantAllPassed(t *testing.T, report receivertest.Report, minimum int) {
	t.Helper()
	for _, f := range report.Findings {
		if f.Result != receivertest.ResultPass {
			t.Errorf("%s: %s, want pass: %s", f.Rule, f.Result, f.Detail)
		}
	}
	if len(report.Findings) < minimum {
		t.Errorf("%d rules, want at least %d", len(report.Findings), minimum)
	}
}

func TestExamine_CallbackHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := callbackReceiver(t, newBackend(""), &signature.VerifierOptions{Replay: signature.NewMemoryReplayStore(0)})

		report := examine(t, r)

		wantAllPassed(t, report, 150)
	})
}

// TestExamine_WithoutProbe examines a receiver that does not know the checks. What it acts on is
// not observed.
func TestExamine_WithoutProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := callbackReceiver(t, newBackend(""), nil)
		r.Probe = receivertest.Probe{}

		report := examine(t, r)

		if got := failures(report); got != "" {
			t.Errorf("failed rules = %q, want none", got)
		}
		for rule, want := range map[string]string{
			"callback/effect":        "needs a probe with Effects",
			"callback/replay":        "accepted, which is harmless",
			"callback/unknown-check": "needs a probe with Created",
			"callback/other-product": "needs a probe with Created",
			"callback/slow-store":    "needs a probe with SlowStore",
		} {
			wantFinding(t, report, rule, receivertest.ResultNotApplicable, want)
		}
	})
}

func TestExamine_HandmadeReceiver(t *testing.T) {
	t.Parallel()
	tests := []struct {
		fault string
		want  string // failed rules, separated by spaces
	}{
		{"", ""},
		{noDigest, "changed-match signed-digest-of-another-body signed-digest-of-the-empty-body changed-body-and-a-second-digest"},
		{noHost, "signed-for-another-customer our-host-as-prefix our-host-as-suffix our-host-only-in-x-forwarded-host our-host-only-in-forwarded"},
		{forwardedHost, "our-host-only-in-x-forwarded-host"},
		{noDate, "old-date-and-a-second-date date-60-s-old date-60-s-ahead date-5000-s-old date-5000-s-ahead old-date-with-new-x-date"},
		{longSkew, "old-date-and-a-second-date date-60-s-old date-60-s-ahead old-date-with-new-x-date"},
		{noCoverage, "request-target-not-covered host-not-covered date-not-covered digest-not-covered only-date-covered signature-of-a-redirect"},
		{noAlgorithm, "public-key-as-hmac-secret-pem"},
		{keyOfMessage, "own-public-key-as-key-id"},
		{outage400, "key-set-error key-set-malformed key-set-hangs"},
		{outageHangs, "key-set-hangs"},
		{noRefetch, "key-rotation"},
		{noReplayStore, ""}, // the backend acts once
		{noBodyLimit, "body-of-10-mib"},
		{onlyCompleted, "accepts-status-expired accepts-status-error"},
		{reserializes, "accepts-spaces-in-the-body accepts-newline-after-the-body"},
		{panics, ""}, // closes the connection
		{actsOnUnknownChecks, "unknown-check"},
		{actsOnOtherProducts, "other-product"},
		{actsOnDuplicates, "duplicate"},
		{rejectsDuplicates, "duplicate"},
		{actsTwice, "effect slow-store-retry"},
		{losesResults, "effect slow-store"},
		{hangsWithStore, "slow-store"},
		{acknowledgesUnstored, "slow-store"},
		{marksUnstored, "slow-store-retry"},
	}
	for _, test := range tests {
		bubble(t, test.fault, func(t *testing.T) {
			report := examine(t, handmadeReceiver(t, test.fault))

			if test.fault == reserializes {
				wantFinding(t, report, "callback/accepts-spaces-in-the-body", receivertest.ResultFail, `did not accept a valid message (spaces in the body): response 401 Unauthorized; the body is "digest"`)
			}
			got := strings.Fields(failures(report))
			want := strings.Fields(test.want)
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("failed rules (-want +got):\n%s", diff)
			}
		})
	}
}

// TestExamine_RefreshBetweenRules examines a receiver that also requests the key set at other times
// than for a message.
func TestExamine_RefreshBetweenRules(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := handmadeReceiver(t, "")
		r.Only = []string{"callback/key-*"}
		r.Progress = func(int, int, string) {
			if err := r.Handler.(*handmade).refresh(); err != nil {
				t.Error(err)
			}
		}

		wantAllPassed(t, examine(t, r), 5)
	})
}

// handmadeReceiver returns a receiver with a mistake of handmade or backend.
func handmadeReceiver(t *testing.T, fault string) receivertest.Receiver {
	t.Helper()
	keys, b := newKeys(t), newBackend(fault)
	h := &handmade{fault: fault, minRefetch: 30 * time.Second, backend: b, replays: map[string]bool{}}
	if fault != "" {
		// Signing takes most of the time. Use small keys, and send fewer messages while the key set
		// fails.
		keys, h.minRefetch = must(receivertest.NewSmallKeys())(t), 2*time.Second
	}
	h.keys = keys
	return receivertest.Receiver{Keys: keys, URL: callbackURL, Handler: h, Probe: b.probe()}
}

func TestExamine_NoSignature(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		report := examine(t, handmadeReceiver(t, noSignature))

		for _, rule := range []string{"no-signature-parameter", "zero-signature", "unpublished-key", "body-and-digest-changed", "different-query", "key-set-error"} {
			f := finding(t, report, "callback/"+rule)
			if f.Result != receivertest.ResultFail || f.Severity != receivertest.SeverityCritical && f.Severity != receivertest.SeverityHigh || f.Curl == "" {
				t.Errorf("%s: %s, %s, want a severe failure with a command", rule, f.Result, f.Severity)
			}
			if strings.Contains(f.Reason, "is genuine") {
				t.Errorf("%s: reason = %q, want why an invalid message must be rejected", rule, f.Reason)
			}
		}
		for _, rule := range []string{"signed-for-another-customer", "date-60-s-old", "digest-not-covered", "changed-match"} {
			wantFinding(t, report, "callback/"+rule, receivertest.ResultPass, "")
		}
	})
}

// TestExamine_WrongStatus examines receivers that reject messages with a wrong status. All failures
// have a low severity, because the receivers do not act on invalid messages.
func TestExamine_WrongStatus(t *testing.T) {
	t.Parallel()
	for fault, detail := range map[string]string{
		error500:  "response 500 Internal Server Error, want 400",
		accept200: "): response 200 OK, without an effect; want 400",
	} {
		bubble(t, fault, func(t *testing.T) {
			report := examine(t, handmadeReceiver(t, fault))

			failed := report.Failed()
			for _, f := range failed {
				if f.Severity != receivertest.SeverityLow || !strings.Contains(f.Detail, detail) && f.Rule != "callback/replay" {
					t.Errorf("%s: %s, %q, want low with %q", f.Rule, f.Severity, f.Detail, detail)
				}
			}
			if len(failed) < 50 {
				t.Errorf("%d failed rules, want at least 50", len(failed))
			}
		})
	}
}

// TestExamine_ActsBeforeVerification examines a receiver that rejects invalid messages, but too
// late.
func TestExamine_ActsBeforeVerification(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		report := examine(t, handmadeReceiver(t, actsBefore))

		for _, rule := range []string{"no-authorization", "changed-match", "signed-for-another-customer", "key-set-error"} {
			if f := finding(t, report, "callback/"+rule); f.Result != receivertest.ResultFail || !strings.HasPrefix(f.Detail, "acted on ") {
				t.Errorf("%s: %s, %q, want a failure because of the effect", rule, f.Result, f.Detail)
			}
		}
	})
}

func TestExamine_Replay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := callbackReceiver(t, newBackend(actsOnDuplicates), nil) // without a replay store
		r.Only = []string{"callback/replay", "callback/duplicate"}

		report := examine(t, r)

		if got := failures(report); got != "replay\nduplicate" {
			t.Errorf("failed rules = %q, want replay and duplicate", got)
		}
		if f := finding(t, report, "callback/replay"); !strings.HasPrefix(f.Detail, "acted again on the check (2 effects): ") {
			t.Errorf("detail = %q, want the number of effects", f.Detail)
		}
	})
}

// TestExamine_StopsAccepting examines receivers that block the sender. Rules that would pass
// without having been examined are not applicable.
func TestExamine_StopsAccepting(t *testing.T) {
	t.Parallel()
	for fault, detail := range map[string]string{
		rateLimit:        "response 429 Too Many Requests (raise its rate limit for the examination)",
		bans:             "the receiver stopped accepting valid messages",
		silentRejections: "the receiver did not respond to 5 invalid messages",
	} {
		bubble(t, fault, func(t *testing.T) {
			report := examine(t, handmadeReceiver(t, fault))

			wantFinding(t, report, "callback/still-accepts", receivertest.ResultFail, detail)
			wantFinding(t, report, "callback/zero-signature", receivertest.ResultNotApplicable, detail)
			// The ban began before this rule, but was noticed after it.
			if fault == bans {
				wantFinding(t, report, "callback/no-authorization", receivertest.ResultNotApplicable, "")
			}
			passed := count(report, receivertest.ResultPass)
			if passed > 40 {
				t.Errorf("%d rules passed, want only those before the receiver stopped", passed)
			}
		})
	}
}

func TestExamine_RateLimitRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := handmadeReceiver(t, "")
		r.Handler = limited(r.Handler, 10)
		r.Probe.SlowStore = nil

		report := examine(t, r)

		for _, f := range report.Findings {
			if f.Result != receivertest.ResultPass && !strings.HasPrefix(f.Rule, "callback/slow-store") {
				t.Errorf("%s: %s, want pass: %s", f.Rule, f.Result, f.Detail)
			}
		}
		if n := count(report, receivertest.ResultPass); n < 96 {
			t.Errorf("%d rules passed, want at least 96", n)
		}
	})
}

// TestExamine_NotReady examines a receiver that cannot verify messages until it has fetched the key
// set.
func TestExamine_NotReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := handmadeReceiver(t, "")
		r.Only = []string{"callback/valid"}
		next, ready := r.Handler, time.Now().Add(5*time.Second)
		r.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if time.Now().Before(ready) {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			next.ServeHTTP(w, r)
		})

		wantAllPassed(t, examine(t, r), 1)
	})
}

// TestExamine_OneRule examines single rules, which must not depend on others.
func TestExamine_OneRule(t *testing.T) {
	t.Parallel()
	for fault, rule := range map[string]string{actsOnUnknownChecks: "unknown-check", actsOnOtherProducts: "other-product", marksUnstored: "slow-store-retry", actsOnDuplicates: "duplicate"} {
		bubble(t, rule, func(t *testing.T) {
			broken, correct := handmadeReceiver(t, fault), handmadeReceiver(t, "")
			broken.Only = []string{"callback/" + rule}
			correct.Only = broken.Only

			got, passed := examine(t, broken), examine(t, correct)

			if failures(got) != rule || len(got.Findings) != 2 {
				t.Errorf("failed rules = %q in %d findings, want %s in 2", failures(got), len(got.Findings), rule)
			}
			wantAllPassed(t, passed, 2)
		})
	}
}

// TestExamine_SharedKeys runs two examinations with the same keys at once. One makes the key set
// fail, which the other must not notice.
func TestExamine_SharedKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := handmadeReceiver(t, ""), handmadeReceiver(t, "")
		second.Keys = first.Keys
		second.Handler.(*handmade).keys = first.Keys
		first.Only = []string{"callback/key-*"}
		second.Only = first.Only
		reports := make(chan receivertest.Report)
		for _, r := range []receivertest.Receiver{first, second} {
			go func() {
				report, err := receivertest.Examine(t.Context(), r)
				if err != nil {
					t.Error(err)
				}
				reports <- report
			}()
		}

		for range 2 {
			if got := failures(<-reports); got != "" {
				t.Errorf("failed rules = %q, want none", got)
			}
		}
	})
}

// fakeTB records what a test reports. Other methods of testing.TB must not be called.
type fakeTB struct {
	testing.TB
	ctx context.Context

	mu     sync.Mutex
	errors []string
	logs   []string
	fatal  string
}

func (f *fakeTB) Helper()                  {}
func (f *fakeTB) Context() context.Context { return f.ctx }
func (f *fakeTB) Error(args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errors = append(f.errors, fmt.Sprint(args...))
}
func (f *fakeTB) Log(args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.logs = append(f.logs, fmt.Sprint(args...))
}
func (f *fakeTB) Fatal(args ...any) { f.fatal = fmt.Sprint(args...); runtime.Goexit() }

func runFake(t *testing.T, r receivertest.Receiver) *fakeTB {
	t.Helper()
	f := &fakeTB{ctx: t.Context()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		receivertest.Run(f, r)
	}()
	<-done
	return f
}

func TestRun_Failures(t *testing.T) {
	t.Parallel()
	f := runFake(t, receivertest.Receiver{
		Keys: newKeys(t), URL: callbackURL, Handler: respond(http.StatusNoContent),
		Only: []string{"callback/changed-match", "callback/no-digest", "callback/effect"},
	})

	if len(f.errors) != 2 || f.fatal != "" {
		t.Fatalf("errors = %q, fatal %q, want one for each failed rule", f.errors, f.fatal)
	}
	for _, want := range []string{"callback/changed-match (critical): accepted an invalid message (changed match): response 204 No Content\n", "curl "} {
		if !strings.Contains(f.errors[0], want) {
			t.Errorf("error = %q, want %q", f.errors[0], want)
		}
	}
	if len(f.logs) != 2 || !strings.Contains(f.logs[0], "CRITICAL: the receiver does not verify signatures") || !strings.Contains(f.logs[1], "callback/effect: needs a probe with Effects") {
		t.Errorf("log = %q, want the conclusion and the rule that is not applicable", f.logs)
	}
}

func TestRun_InvalidReceiver(t *testing.T) {
	t.Parallel()

	f := runFake(t, receivertest.Receiver{})

	if !strings.Contains(f.fatal, "Keys is nil") {
		t.Errorf("fatal = %q, want the invalid receiver", f.fatal)
	}
}
