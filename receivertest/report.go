package receivertest

import (
	"bufio"
	"cmp"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Report is the result of an examination. It contains no values of Receiver.Header.
type Report struct {
	Kind     Kind          `json:"kind"`
	URL      string        `json:"url"` // Receiver.URL, or the base URL of the service
	Started  time.Time     `json:"started"`
	Duration time.Duration `json:"-"` // WriteJSON writes it as duration_seconds

	// Findings contains one finding for each examined rule.
	Findings []Finding `json:"findings"`
}

// Finding is the result of a rule.
type Finding struct {
	Rule     string   `json:"rule"`   // for example "callback/changed-match"; stable
	Title    string   `json:"title"`  // what the receiver or service must do
	Reason   string   `json:"reason"` // why
	Severity Severity `json:"severity,omitempty"`
	Result   Result   `json:"result"`

	// Detail describes what happened: what the receiver did wrong, or why the rule is not applicable.
	// After a failure, it begins with a verb, such as "accepted an invalid message". It may contain
	// text from the receiver's response, with control characters escaped.
	Detail string `json:"detail,omitempty"`

	// Causes are the likely causes of a failure of the first rule, that a valid message is accepted.
	// If that rule passed, its Causes can contain CauseKeySet: the receiver cannot have verified the
	// message.
	Causes []Cause `json:"causes,omitempty"`

	// Curl is a script for sh that sends the message of a failed rule again, or empty. Its comments
	// say for how long a receiver accepts the message's date, and how to repeat the rule with a new
	// message.
	Curl string `json:"curl,omitempty"`
}

// Cause is a likely cause of what a receiver did.
type Cause struct {
	Code CauseCode `json:"code"`
	Text string    `json:"text"` // the cause, and what to do
}

// CauseCode identifies a cause.
type CauseCode string

// Codes of causes.
const (
	CauseUnreachable    CauseCode = "unreachable"     // the receiver does not listen
	CauseConnection     CauseCode = "connection"      // it does not respond with HTTP
	CauseSignIn         CauseCode = "sign_in"         // it requires signing in
	CauseRedirect       CauseCode = "redirect"        // it redirects to another URL
	CauseHandler        CauseCode = "handler"         // it has no handler for the path
	CauseRateLimit      CauseCode = "rate_limit"      // it limits the rate
	CauseServerError    CauseCode = "server_error"    // it failed
	CauseKeySetPath     CauseCode = "key_set_path"    // it requested another path than that of the key set
	CauseKeySet         CauseCode = "key_set"         // it has not requested the key set
	CauseHost           CauseCode = "host"            // it expects another host
	CauseClock          CauseCode = "clock"           // its clock differs
	CauseDigest         CauseCode = "digest"          // it expects another encoding of the digest
	CauseCallbackHeader CauseCode = "callback_header" // it expects another callback header
	CauseUnknownCheck   CauseCode = "unknown_check"   // it does not know the check: the Probe has no Created
	CauseNoSession      CauseCode = "no_session"      // it requires a session: the Probe has no Session
)

// Severity is the severity of a rule's failure.
type Severity string

// Severities of rules, from the most severe.
const (
	SeverityCritical Severity = "critical" // anyone can forge a result
	SeverityHigh     Severity = "high"     // another customer, or a recorded message, can change a result; or a result is lost
	SeverityMedium   Severity = "medium"   // one of several defenses is missing
	SeverityLow      Severity = "low"      // wrong status, or waste of resources
)

// Result is the result of a rule.
type Result string

// Results of rules.
const (
	ResultPass          Result = "pass"
	ResultFail          Result = "fail"
	ResultNotApplicable Result = "not_applicable" // Finding.Detail contains the reason
)

// Failed returns the findings of failed rules.
func (r Report) Failed() []Finding { return r.with(ResultFail) }

func (r Report) with(result Result) []Finding {
	var found []Finding
	for _, f := range r.Findings {
		if f.Result == result {
			found = append(found, f)
		}
	}
	return found
}

// WriteJSON writes the report as one JSON object, with the names of the fields as in their tags and
// the duration in seconds as duration_seconds.
func (r Report) WriteJSON(w io.Writer) error {
	findings := make([]Finding, 0, len(r.Findings))
	for _, f := range r.Findings {
		// Versions of Go encode invalid UTF-8 differently.
		f.Detail, f.Curl = strings.ToValidUTF8(f.Detail, "\ufffd"), strings.ToValidUTF8(f.Curl, "\ufffd")
		findings = append(findings, f)
	}
	r.Findings = findings
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		Report
		DurationSeconds float64 `json:"duration_seconds"`
	}{r, r.Duration.Round(time.Millisecond).Seconds()})
}

// WriteText writes the report for people: a conclusion if anyone can forge a result, failed rules,
// rules that are not applicable, and the number of each result. With verbose, it also lists the
// rules that passed, and each rule that is not applicable for the same reason as the one before it.
//
// A command to send a message again is long, and useless after seconds. Therefore only the first
// three rules that failed with different reasons include theirs.
func (r Report) WriteText(w io.Writer, verbose bool) error {
	b := bufio.NewWriter(w)
	subject := string(r.Kind)
	if r.Kind == KindCallback || r.Kind == KindRedirect {
		subject += " receiver"
	}
	fmt.Fprintf(b, "Examination of the %s %s\n", subject, oneLine(r.URL))
	if conclusion := r.conclusion(); conclusion != "" {
		fmt.Fprintf(b, "\n%s\n", conclusion)
	}
	failed, shown := r.Failed(), r.commands()
	for _, f := range failed {
		fmt.Fprintln(b)
		writeIndented(b, "", "FAIL  "+f.Detail)
		writeIndented(b, "      ", fmt.Sprintf("%s: %s", f.name(), f.Reason))
		f.writeCauses(b)
		if shown[f.Rule] {
			fmt.Fprintln(b, "      Send the message again (its date is valid for seconds):")
			writeIndented(b, "        ", f.Curl)
		}
	}
	if slices.ContainsFunc(failed, func(f Finding) bool { return f.Curl != "" && !shown[f.Rule] }) {
		fmt.Fprintln(b, "\nFor the command of another rule, examine only that rule.")
	}
	groups := [][]Finding{r.with(ResultNotApplicable)}
	if verbose {
		groups = append(groups, r.with(ResultPass))
	}
	for _, found := range groups {
		if len(found) > 0 {
			fmt.Fprintln(b)
		}
		for i := 0; i < len(found); {
			same := 1
			for !verbose && i+same < len(found) && found[i+same].Detail == found[i].Detail {
				same++
			}
			writeIndented(b, "", row(found[i], same-1))
			i += same
		}
	}
	fmt.Fprintf(b, "\n%d passed, %d failed%s, %d not applicable, in %s\n", len(r.with(ResultPass)), len(failed), r.severities(), len(r.with(ResultNotApplicable)), seconds(r.Duration))
	return b.Flush()
}

// name returns the rule with its severity, if any.
func (f Finding) name() string {
	if f.Severity == "" {
		return f.Rule
	}
	return fmt.Sprintf("%s (%s)", f.Rule, f.Severity)
}

func (f Finding) writeCauses(w io.Writer) {
	for _, c := range f.Causes {
		writeIndented(w, "      ", c.Text)
	}
}

// row returns the line of a rule that has not failed, and of more rules with the same detail.
func row(f Finding, more int) string {
	line := "pass  " + f.Rule
	if f.Result == ResultNotApplicable {
		line = "n/a   " + f.Rule
	}
	if more > 0 {
		line += fmt.Sprintf(" and %d more", more)
	}
	if text := cmp.Or(f.Detail, f.Title); text != "" {
		line += ": " + text
	}
	return line
}

// maxCommands is the number of commands in a text. Each has about 20 lines.
const maxCommands = 3

// commands returns the names of the rules whose command is printed: the first failed ones with
// different reasons.
func (r Report) commands() map[string]bool {
	shown, reasons := make(map[string]bool), make(map[string]bool)
	for _, f := range r.Failed() {
		if f.Curl != "" && !reasons[f.Reason] && len(shown) < maxCommands {
			shown[f.Rule], reasons[f.Reason] = true, true
		}
	}
	return shown
}

// conclusion summarizes the failures that let anyone forge a result, or returns "".
func (r Report) conclusion() string {
	var critical []string
	unsigned, requested := false, true
	for _, f := range r.Findings {
		_, name, _ := strings.Cut(f.Rule, "/")
		switch {
		case f.Result == ResultPass && slices.ContainsFunc(f.Causes, func(c Cause) bool { return c.Code == CauseKeySet }):
			requested = false
		case f.Result == ResultFail && f.Severity == SeverityCritical:
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
	for _, s := range []Severity{SeverityCritical, SeverityHigh, SeverityMedium, SeverityLow} {
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

// seconds returns a duration for people.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Round(time.Millisecond).Seconds(), 'f', -1, 64) + " s"
}

func visible(c rune) rune {
	if c < ' ' && c != '\t' || 0x7f <= c && c < 0xa0 {
		return utf8.RuneError
	}
	return c
}

type junitSuite struct {
	XMLName   xml.Name    `xml:"testsuite"`
	Name      string      `xml:"name,attr"`
	Tests     int         `xml:"tests,attr"`
	Failures  int         `xml:"failures,attr"`
	Errors    int         `xml:"errors,attr"`
	Skipped   int         `xml:"skipped,attr"`
	Time      string      `xml:"time,attr"`
	Timestamp string      `xml:"timestamp,attr"`
	Cases     []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Failure *junitFailure `xml:"failure"`
	Skipped *junitSkipped `xml:"skipped"`
}

type junitFailure struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

type junitSkipped struct {
	Message string `xml:"message,attr"`
}

// WriteJUnit writes the report as a test suite in the XML format of JUnit, which CI systems read.
// Each rule is a test case. A rule that is not applicable is skipped. Control characters, which XML
// cannot contain, are replaced.
func (r Report) WriteJUnit(w io.Writer) error {
	suite := junitSuite{
		Name:      "receivertest " + string(r.Kind) + " " + r.URL,
		Tests:     len(r.Findings),
		Failures:  len(r.Failed()),
		Skipped:   len(r.with(ResultNotApplicable)),
		Time:      fmt.Sprintf("%.3f", r.Duration.Seconds()),
		Timestamp: r.Started.UTC().Format(time.RFC3339),
	}
	for _, f := range r.Findings {
		c := junitCase{Class: "receivertest." + string(r.Kind), Name: f.Rule}
		switch f.Result {
		case ResultFail:
			var text strings.Builder
			text.WriteString(f.Detail + "\n")
			for _, c := range f.Causes {
				text.WriteString(c.Text + "\n")
			}
			text.WriteString(f.Reason + "\n")
			if f.Curl != "" {
				text.WriteString("\n" + f.Curl + "\n")
			}
			c.Failure = &junitFailure{Type: string(f.Severity), Message: f.Detail, Text: text.String()}
		case ResultNotApplicable:
			c.Skipped = &junitSkipped{Message: f.Detail}
		}
		suite.Cases = append(suite.Cases, c)
	}
	b := bufio.NewWriter(w)
	fmt.Fprint(b, xml.Header)
	enc := xml.NewEncoder(b)
	enc.Indent("", "  ")
	if err := enc.Encode(suite); err != nil {
		return err
	}
	fmt.Fprintln(b)
	return b.Flush()
}
