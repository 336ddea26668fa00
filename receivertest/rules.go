package receivertest

import (
	"strings"

	"github.com/idverify/idverify-go/internal/attack"
)

// Rule is a rule of an examination.
type Rule struct {
	Name     string   // for example "callback/changed-match"; stable
	Title    string   // what the receiver must do
	Reason   string   // why
	Severity Severity // of a failure; a finding can have another one
}

// Rules returns the rules for a kind of receivers, in the order in which they are examined. strict
// is [Receiver.Strict]. For other kinds than KindCallback and KindRedirect, Rules returns nil.
func Rules(kind Kind, strict bool) []Rule {
	if kind != KindCallback && kind != KindRedirect {
		return nil
	}
	var rules []Rule
	for _, r := range allRules(kind, strict) {
		rules = append(rules, Rule{r.name, r.title, r.reason, r.severity})
	}
	return rules
}

// allRules returns the rules for a kind of receivers, in the order in which they are examined. The
// first one is that a valid message is accepted.
func allRules(kind Kind, strict bool) []rule {
	rules := []rule{{
		name: "valid", severity: SeverityHigh, run: (*examination).firstValid,
		title:  "The receiver accepts a valid message",
		reason: "A receiver that rejects valid messages loses all results.",
	}}
	variants, attacks := attack.AcceptedCallbacks(), attack.Callbacks()
	if kind == KindRedirect {
		variants, attacks = attack.AcceptedRedirects(), attack.Redirects()
	}
	for _, v := range variants {
		if strict || !v.Strict {
			rules = append(rules, variantRule(v))
		}
	}
	rules = append(rules, replayRules(kind)...)
	for _, a := range attacks {
		if strict || !a.Strict {
			rules = append(rules, attackRule(a))
		}
	}
	rules = append(rules, keySetRules()...)
	if kind == KindCallback {
		rules = append(rules, storeRules()...)
	}
	rules = append(rules, rule{
		name: "still-accepts", severity: SeverityMedium, always: true, run: (*examination).stillAccepts,
		title:  "The receiver accepts a valid message at the end",
		reason: "A receiver that stops accepting messages after invalid ones lets anyone block results.",
	})
	for i := range rules {
		rules[i].name = string(kind) + "/" + rules[i].name
	}
	return rules
}

// ruleName returns the name of a rule for a row of package attack.
func ruleName(row string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(row) {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			b.WriteRune(c)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	return strings.TrimSuffix(b.String(), "-")
}
