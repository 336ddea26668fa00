package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/idverify/idverify-go/receivertest"
)

// write writes the report to -o, or to stdout.
func (e *examination) write(report receivertest.Report) error {
	out := e.stdout
	if e.output != "" {
		f, err := os.Create(e.output)
		if err != nil {
			return err
		}
		defer f.Close()
		out = f
	}
	if err := e.formats()[e.format](report, out); err != nil {
		return err
	}
	if f, ok := out.(*os.File); ok && e.output != "" {
		if err := f.Close(); err != nil {
			return err
		}
	}
	if e.output != "" || e.format != textFormat {
		e.summarize(report)
	}
	return nil
}

// formats returns the functions that write a report, by the value of -format.
func (e *examination) formats() map[string]func(receivertest.Report, io.Writer) error {
	return map[string]func(receivertest.Report, io.Writer) error{
		textFormat: receivertest.Report.WriteText,
		"json":     receivertest.Report.WriteJSON,
		"junit":    receivertest.Report.WriteJUnit,
	}
}

// summarize prints the failed rules and the number of all on stderr.
func (e *examination) summarize(report receivertest.Report) {
	counts := make(map[receivertest.Result]int)
	for _, f := range report.Findings {
		counts[f.Result]++
	}
	for _, f := range report.Failed() {
		fmt.Fprintf(e.stderr, "FAIL  %s (%s): %s\n", f.Rule, f.Severity, f.Title)
	}
	fmt.Fprintf(e.stderr, "%d passed, %d failed, %d not applicable\n", counts[receivertest.Pass], counts[receivertest.Fail], counts[receivertest.NotApplicable])
}

// printRules prints the rules of an examination.
func (e *examination) printRules() {
	for _, rule := range e.rules() {
		fmt.Fprintf(e.stdout, "%s (%s)\n    %s.\n    %s\n", rule.Name, rule.Severity, strings.TrimSuffix(rule.Title, "."), rule.Reason)
	}
}

// fieldNames maps the names of package receivertest, in advice to its callers, to flags.
var fieldNames = []string{
	"set Probe.Created", "pass a -probe with PUT",
	"set Probe.Effects", "pass a -probe with GET",
	"set Probe.SlowStore", "pass a -probe with POST and store",
	"set Probe.Session", "pass a -probe with POST and session",
	"Probe.Created", "a -probe with PUT",
	"Probe.Effects", "a -probe with GET",
	"Probe.SlowStore", "a -probe with POST and store",
	"Probe.Session", "a -probe with POST and session",
	"Receiver.Base64Digest", "-digest base64",
	"Base64Digest must be false", "-digest hex",
	"Receiver.URL and Receiver.Addr", "the URL and -addr",
	"Receiver.URL", "the URL of the command",
	" (Keys)", "",
	"the authorities of Receiver.TLSConfig", "the certificates of -receiver-ca",
}

// forFlags returns the report with the names of flags.
func forFlags(report receivertest.Report) receivertest.Report {
	names := strings.NewReplacer(fieldNames...)
	report.Findings = slices.Clone(report.Findings)
	for i := range report.Findings {
		f := &report.Findings[i]
		f.Detail, f.Curl = names.Replace(f.Detail), names.Replace(f.Curl)
	}
	return report
}
