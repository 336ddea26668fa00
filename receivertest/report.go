package receivertest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Report is the result of an examination. It contains no values of Receiver.Header.
type Report struct {
	Kind     string        `json:"kind"` // "callback" or "redirect"
	URL      string        `json:"url"`  // Receiver.URL
	Started  time.Time     `json:"started"`
	Duration time.Duration `json:"duration"` // in nanoseconds

	// Findings contains one finding for each examined rule.
	Findings []Finding `json:"findings"`
}

// Finding is the result of a rule.
type Finding struct {
	Rule     string   `json:"rule"`   // for example "callback/changed-match"; stable
	Title    string   `json:"title"`  // what the receiver must do
	Reason   string   `json:"reason"` // why
	Severity Severity `json:"severity"`
	Result   Result   `json:"result"`

	// Detail describes what happened: why the rule failed or is not applicable. It may contain text
	// from the receiver's response, with control characters escaped.
	Detail string `json:"detail,omitempty"`

	// Curl is a script for sh that sends the message of a failed rule again, or empty. Its comments
	// say for how long a receiver accepts the message's date, and how to repeat the rule with a new
	// message.
	Curl string `json:"curl,omitempty"`
}

// Severity is the severity of a rule's failure.
type Severity string

// Severities of rules, from the most severe.
const (
	Critical Severity = "critical" // anyone can forge a result
	High     Severity = "high"     // another customer, or a recorded message, can change a result; or a result is lost
	Medium   Severity = "medium"   // one of several defenses is missing
	Low      Severity = "low"      // wrong status, or waste of resources
)

// Result is the result of a rule.
type Result string

// Results of rules.
const (
	Pass          Result = "pass"
	Fail          Result = "fail"
	NotApplicable Result = "not applicable" // Finding.Detail contains the reason
)

// Failed returns the findings of failed rules.
func (r Report) Failed() []Finding { return r.with(Fail) }

func (r Report) with(result Result) []Finding {
	var found []Finding
	for _, f := range r.Findings {
		if f.Result == result {
			found = append(found, f)
		}
	}
	return found
}

// WriteJSON writes the report as one JSON object, with the names of the fields as in their tags.
func (r Report) WriteJSON(w io.Writer) error {
	if r.Findings == nil {
		r.Findings = []Finding{}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// WriteText writes the report for people: a conclusion if anyone can forge a result, failed rules
// with their details, rules that are not applicable, rules that passed, and the numbers of each.
// Only the first three failed rules include their commands.
func (r Report) WriteText(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "Examination of the %s receiver %s\n", r.Kind, oneLine(r.URL))
	if conclusion := r.conclusion(); conclusion != "" {
		fmt.Fprintf(b, "\n%s\n", conclusion)
	}
	commands := 0
	for _, f := range r.Failed() {
		fmt.Fprintf(b, "\nFAIL  %s (%s)\n", f.Rule, f.Severity)
		writeIndented(b, "      ", f.Title+".", f.Reason, f.Detail)
		switch {
		case f.Curl == "":
		case commands < maxCommands:
			commands++
			fmt.Fprintln(b, "      Send the message again:")
			writeIndented(b, "        ", f.Curl)
		default:
			fmt.Fprintln(b, "      For the command to send the message again, examine only this rule.")
		}
	}
	for _, group := range []struct {
		result Result
		label  string
	}{{NotApplicable, "n/a "}, {Pass, "pass"}} {
		found := r.with(group.result)
		if len(found) > 0 {
			fmt.Fprintln(b)
		}
		for _, f := range found {
			line := group.label + "  " + f.Rule
			if f.Detail != "" {
				line += ": " + f.Detail
			}
			writeIndented(b, "", line)
		}
	}
	fmt.Fprintf(b, "\n%d passed, %d failed%s, %d not applicable, in %v\n", len(r.with(Pass)), len(r.Failed()), r.severities(), len(r.with(NotApplicable)), r.Duration.Round(time.Millisecond))
	return b.Flush()
}

// maxCommands is the number of commands in a text report. Each has about 20 lines.
const maxCommands = 3

// conclusion summarizes the failures that let anyone forge a result, or returns "".
func (r Report) conclusion() string {
	var critical []string
	unsigned, requested := false, true
	for _, f := range r.Findings {
		_, name, _ := strings.Cut(f.Rule, "/")
		switch {
		case f.Detail == withoutKeySet:
			requested = false
		case f.Result == Fail && f.Severity == Critical:
			critical = append(critical, f.Rule)
			// Anyone can make these messages, without a genuine one.
			unsigned = unsigned || slices.Contains([]string{"no-authorization", "zero-signature", "unpublished-key"}, name)
		}
	}
	switch {
	case !requested:
		return "CRITICAL: the receiver does not verify signatures: it accepts messages, and has never requested the key set."
	case unsigned:
		return "CRITICAL: the receiver does not verify signatures: it accepts messages that anyone can make."
	case len(critical) > 0:
		return "CRITICAL: anyone can forge a result, see " + critical[0] + "."
	}
	return ""
}

// severities returns the number of failures of each severity, for example " (2 critical, 1 low)".
func (r Report) severities() string {
	counts := make(map[Severity]int)
	for _, f := range r.Failed() {
		counts[f.Severity]++
	}
	var texts []string
	for _, s := range []Severity{Critical, High, Medium, Low} {
		if counts[s] > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", counts[s], s))
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return " (" + strings.Join(texts, ", ") + ")"
}

// writeIndented writes each line of texts with an indent. It omits empty texts and replaces control
// characters, which could change the terminal.
func writeIndented(w io.Writer, indent string, texts ...string) {
	for _, text := range texts {
		if text == "" {
			continue
		}
		for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
			fmt.Fprintln(w, indent+strings.Map(visible, line))
		}
	}
}

func visible(c rune) rune {
	if c < ' ' && c != '\t' || 0x7f <= c && c < 0xa0 {
		return utf8.RuneError
	}
	return c
}
