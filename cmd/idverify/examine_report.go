package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/idverify/idverify-go/internal/atomicfile"
	"github.com/idverify/idverify-go/receivertest"
)

// write writes the report to -o, or to stdout. If that fails, it prints the report to stderr.
func (e *examination) write(report receivertest.Report) error {
	var text bytes.Buffer
	var err error
	switch {
	case e.json:
		err = report.WriteJSON(&text)
	case e.junit:
		err = report.WriteJUnit(&text)
	default:
		err = report.WriteText(&text, e.verbose)
	}
	switch {
	case err != nil:
	case e.output == "":
		_, err = e.stdout.Write(text.Bytes())
	default:
		err = writeReport(e.output, text.Bytes())
	}
	switch {
	case err != nil:
		_ = report.WriteText(e.stderr, e.verbose)
	case e.output != "" || e.json || e.junit:
		e.summarize(report)
	}
	return err
}

// reportFile returns the path of the file that a report at path replaces. It follows symbolic
// links. special reports whether the file is a device or a pipe, which is written and not replaced.
func reportFile(path string) (file string, special bool, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return path, false, nil
	case err != nil:
		return "", false, err
	case info.IsDir():
		return "", false, &fs.PathError{Op: "write", Path: path, Err: errors.New("is a directory")}
	case !info.Mode().IsRegular():
		return path, true, nil
	}
	file, err = filepath.EvalSymlinks(path)
	return file, false, err
}

// checkReportFile returns an error if a report cannot be written to path. It leaves an existing
// file unchanged.
func checkReportFile(path string) error {
	file, special, err := reportFile(path)
	if err != nil || special {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".idverify-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// writeReport writes a report to path.
func writeReport(path string, content []byte) error {
	file, special, err := reportFile(path)
	if err != nil {
		return err
	}
	if special {
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.Write(content)
		return errors.Join(err, f.Close())
	}
	return atomicfile.Replace(file, content)
}

// summarize prints the failed rules and the number of all on stderr.
func (e *examination) summarize(report receivertest.Report) {
	counts, severe := make(map[receivertest.Result]int), make(map[receivertest.Severity]int)
	for _, f := range report.Findings {
		counts[f.Result]++
		if f.Result == receivertest.Fail {
			severe[f.Severity]++
		}
	}
	for _, f := range report.Failed() {
		what, _, _ := strings.Cut(f.Detail, "\n")
		fmt.Fprintf(e.stderr, "FAIL  %s (%s, %s)\n", clean(what, lineLength), f.Rule, f.Severity)
	}
	var numbers []string
	for _, s := range severities {
		if severe[s] > 0 {
			numbers = append(numbers, fmt.Sprintf("%d %s", severe[s], s))
		}
	}
	failed := fmt.Sprintf("%d failed", counts[receivertest.Fail])
	if len(numbers) > 0 {
		failed += " (" + strings.Join(numbers, ", ") + ")"
	}
	fmt.Fprintf(e.stderr, "%d passed, %s, %d not applicable\n", counts[receivertest.Pass], failed, counts[receivertest.NotApplicable])
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

// detailParts matches the parts of a detail that are quoted from the receiver, and other text.
var detailParts = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[^"]+|"`)

// leadingComments matches the comments of a command, which are its first lines.
var leadingComments = regexp.MustCompile(`^(?:#[^\n]*\n)+`)

// forFlags returns the report with the names of flags. It does not change text that the receiver
// has sent, nor the messages of commands.
func forFlags(report receivertest.Report) receivertest.Report {
	names := strings.NewReplacer(fieldNames...)
	report.Findings = slices.Clone(report.Findings)
	for i := range report.Findings {
		f := &report.Findings[i]
		f.Detail = detailParts.ReplaceAllStringFunc(f.Detail, func(part string) string {
			if strings.HasPrefix(part, `"`) {
				return part
			}
			return names.Replace(part)
		})
		f.Curl = leadingComments.ReplaceAllStringFunc(f.Curl, names.Replace)
	}
	return report
}

// neverRequested is the beginning of a cause that receivertest lists if it did not receive a
// request for the key set.
const neverRequested = "The receiver has not requested the key set."

// withHandshakes replaces the cause that the receiver has not requested the key set, if it has
// connected to the key server but not trusted its certificate.
func withHandshakes(report receivertest.Report, untrusted int) receivertest.Report {
	if untrusted == 0 || len(report.Findings) == 0 || report.Findings[0].Result != receivertest.Fail {
		return report
	}
	report.Findings = slices.Clone(report.Findings)
	f := &report.Findings[0]
	lines := strings.Split(f.Detail, "\n")
	i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, neverRequested) })
	if i < 0 {
		return report
	}
	lines[i] = "The receiver connected to the key set, but does not trust its certificate. Start it with the CA file (Node.js: NODE_EXTRA_CA_CERTS; Python, and Go on Linux: SSL_CERT_FILE), and if it reaches the key set by another name, set -keys-name."
	f.Detail = strings.Join(lines, "\n")
	return report
}
