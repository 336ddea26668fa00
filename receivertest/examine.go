package receivertest

import (
	"cmp"
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"
)

// Examine sends messages to the receiver and reports which rules it follows. It returns an error if
// it cannot run: the Receiver is invalid, the receiver is unreachable, a part of the Probe fails,
// or ctx is done, which the error wraps. The report then contains the findings so far. A receiver
// that rejects all messages is not an error but a failed rule, and its finding contains the
// likely causes.
//
// Messages are sent one after the other, each over a new connection. Examine waits at most 10 s for
// a response, the timeout of the service, and reads at most 1 MiB. When it returns, its connections
// are closed and a Handler has returned, unless that ignores the end of its request's context for
// 10 s.
func Examine(ctx context.Context, r Receiver) (Report, error) {
	r.Kind = cmp.Or(r.Kind, KindCallback)
	a, err := parseReceiver(r)
	if err != nil {
		return Report{}, err
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	e := &examination{Receiver: r, address: a, responses: make(map[int]rejection)}
	if e.rules, err = selectRules(allRules(r.Kind, r.Strict), r.Only); err != nil {
		return Report{}, err
	}
	if err := r.Keys.begin(ctx); err != nil {
		return Report{}, err
	}
	defer r.Keys.end()
	defer e.removeNewKey()
	if r.Handler != nil {
		server := newMemoryServer(r.Handler)
		defer server.close()
		e.sender = &sender{dial: server.dial}
	} else {
		e.sender = newSender(a, r.TLSConfig)
	}

	e.report = Report{Kind: r.Kind, URL: r.URL, Started: r.Now()}
	started := time.Now()
	err = e.run(ctx)
	e.report.Duration = time.Since(started)
	if err != nil {
		return e.report, fmt.Errorf("receivertest: examine: %w", err)
	}
	return e.report, nil
}

// examination is the state of one call of Examine. It is not safe for concurrent use.
type examination struct {
	Receiver
	address address
	sender  *sender
	rules   []rule
	report  Report

	stopped string          // why the remaining rules are not applicable, or empty
	newKey  *rsa.PrivateKey // created and published during the examination; nil before
	valid   attempt         // the first valid message
	acts    bool            // the receiver acted on a message
	settle  time.Duration   // how long to wait for an effect that must not occur
	slow    *slowStoreResult

	// Redirects: a message without a signature.
	unsigned attempt

	// Attacks: indices of the findings since the last accepted message, and the responses by the
	// index of the finding.
	unconfirmed []int
	responses   map[int]rejection
	silent      int // number of attacks without a response
}

// rule is a rule for receivers. An error of run ends the examination.
type rule struct {
	name     string // after "callback/" or "redirect/"
	title    string
	reason   string
	severity Severity
	attack   bool // run sends one message that must be rejected
	always   bool // run also after the receiver has stopped accepting messages
	run      func(*examination, context.Context) (outcome, error)
}

// outcome is the result of a rule.
type outcome struct {
	result   Result
	detail   string
	causes   []Cause
	severity Severity // if it differs from that of the rule
	reason   string   // if it differs from that of the rule
	sent     *attempt // the message that the detail describes
}

func passed(detail string) outcome { return outcome{result: ResultPass, detail: detail} }
func notApplicable(detail string) outcome {
	return outcome{result: ResultNotApplicable, detail: detail}
}

// failed returns the outcome of a failed rule: what the receiver did wrong, and its response to the
// message that was sent. severity is empty if it is that of the rule.
func failed(severity Severity, sent attempt, what, response string) outcome {
	return outcome{result: ResultFail, detail: what + ": " + response, severity: severity, sent: &sent}
}

// selectRules returns the first rule, and those that match a pattern in only.
func selectRules(all []rule, only []string) ([]rule, error) {
	if len(only) == 0 {
		return all, nil
	}
	selected := make([]bool, len(all))
	selected[0] = true
	for _, pattern := range only {
		found := false
		for i, r := range all {
			ok, err := path.Match(pattern, r.name)
			if err != nil {
				return nil, fmt.Errorf("receivertest: examine: invalid receiver: Only contains the malformed pattern %q", pattern)
			}
			found = found || ok
			selected[i] = selected[i] || ok
		}
		if !found {
			return nil, fmt.Errorf("receivertest: examine: invalid receiver: Only contains %q, which matches no rule (Strict and Kind determine the rules)", pattern)
		}
	}
	var rules []rule
	for i, r := range all {
		if selected[i] {
			rules = append(rules, r)
		}
	}
	return rules, nil
}

// confirmEvery is the number of attacks after which a valid message must be accepted.
const confirmEvery = 20

func (e *examination) run(ctx context.Context) error {
	for i, r := range e.rules {
		if e.Progress != nil {
			e.Progress(i, len(e.rules), r.name)
		}
		if err := e.examine(ctx, r); err != nil {
			return err
		}
		last := i == len(e.rules)-1 || !e.rules[i+1].attack
		if r.attack && (last || len(e.unconfirmed) >= confirmEvery) && e.stopped == "" {
			if _, err := e.confirm(ctx); err != nil {
				return err
			}
		}
		if r.attack && last {
			if err := e.checkEffects(ctx); err != nil {
				return err
			}
		}
	}
	if e.Progress != nil {
		e.Progress(len(e.rules), len(e.rules), "")
	}
	return nil
}

// examine runs a rule and appends its finding to the report.
func (e *examination) examine(ctx context.Context, r rule) error {
	o := notApplicable(e.stopped)
	var err error
	if e.stopped == "" || r.always {
		o, err = r.run(e, ctx)
		if errors.Is(err, errors.ErrUnsupported) {
			o, err = notApplicable("the probe does not support this rule"), nil
		}
	}
	if err == nil || o.result != "" {
		e.report.Findings = append(e.report.Findings, e.finding(r, o))
	}
	return err
}

func (e *examination) finding(r rule, o outcome) Finding {
	f := Finding{Rule: r.name, Title: r.title, Reason: r.reason, Severity: r.severity, Result: o.result, Detail: o.detail, Causes: o.causes}
	if o.result == ResultFail {
		f.Severity, f.Reason = cmp.Or(o.severity, f.Severity), cmp.Or(o.reason, f.Reason)
		if o.sent != nil {
			f.Curl = e.curl(r.name, o.sent.request)
		}
	}
	return f
}

// pause waits for d.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop makes the remaining rules not applicable.
func (e *examination) stop(detail string) { e.stopped = detail }

// discard makes passed findings not applicable.
func (e *examination) discard(findings []int, detail string) {
	for _, i := range findings {
		f := &e.report.Findings[i]
		if f.Result == ResultPass {
			f.Result, f.Detail = ResultNotApplicable, detail
		}
	}
}

// Run examines the receiver and reports each failed rule as an error of the test. The first three
// failures with different reasons include a curl command that sends the message again. Rules that
// are not applicable are logged. Run must be called from the goroutine of the test.
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
		case ResultFail:
			var b strings.Builder
			writeIndented(&b, "", fmt.Sprintf("%s (%s): %s", f.Rule, f.Severity, f.Detail), f.Reason)
			f.writeCauses(&b)
			if shown[f.Rule] {
				writeIndented(&b, "", f.Curl)
			}
			t.Error(b.String())
		case ResultNotApplicable:
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
