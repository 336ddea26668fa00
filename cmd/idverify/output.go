package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"

	"golang.org/x/term"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/atomicfile"
	"github.com/idverify/idverify-go/receivertest"
)

// clean returns s for a terminal. Values of the service are untrusted: characters that a terminal
// could interpret, or that are not visible, are escaped, and long text is truncated.
func clean(s string, longest int) string {
	var b strings.Builder
	count := 0
	for _, r := range s {
		if count++; count > longest {
			b.WriteString("…")
			break
		}
		if unicode.IsPrint(r) && r != unicode.ReplacementChar {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

// The lengths to which clean truncates.
const (
	cellLength = 64
	lineLength = 2048
)

// maskNumber returns the last two digits of a phone number.
func maskNumber(number string) string {
	runes := []rune(number)
	if len(runes) < 5 {
		return "…"
	}
	return "…" + string(runes[len(runes)-2:])
}

// longNumber matches UUIDs, which mask keeps, and phone numbers in a text: seven or more digits,
// with up to three separators between two of them.
var longNumber = regexp.MustCompile(`[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|\d{4}-\d\d-\d\dT[0-9:.]+|\+?\(?\d(?:[ ().-]{0,3}\d){6,}`)

// mask returns text with the phone numbers in it masked.
func mask(text string) string {
	return longNumber.ReplaceAllStringFunc(text, func(found string) string {
		if len(found) == 36 && strings.Count(found, "-") == 4 || strings.Contains(found, "T") {
			return found
		}
		return maskNumber(found)
	})
}

// maskValue masks phone numbers in a decoded JSON value.
func maskValue(value any) any {
	switch v := value.(type) {
	case string:
		return mask(v)
	case float64:
		if text := strconv.FormatFloat(v, 'f', -1, 64); mask(text) != text {
			return mask(text)
		}
	case []any:
		masked := make([]any, len(v))
		for i := range v {
			masked[i] = maskValue(v[i])
		}
		return masked
	case map[string]any:
		masked := make(map[string]any, len(v))
		for name := range v {
			masked[mask(name)] = maskValue(v[name])
		}
		return masked
	}
	return value
}

// encode returns the JSON of v. Characters that a terminal could interpret are escaped.
func encode(v any, indent string) (string, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(v); err != nil {
		return "", err
	}
	var escaped strings.Builder
	for _, r := range b.String() {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			escaped.WriteRune(r)
		case r > 0xffff: // JSON has only 16-bit escapes
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&escaped, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&escaped, `\u%04x`, r)
		}
	}
	return escaped.String(), nil
}

// printJSON prints v as one JSON document.
func (p *program) printJSON(v any) int {
	text, err := encode(v, "  ")
	if err != nil {
		return p.fail(err)
	}
	fmt.Fprint(p.stdout, text)
	return exitOK
}

// isTerminal reports whether stream, an input or output of the program, is a terminal. Another
// character device, such as /dev/null, is not.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	// Fd can make the file block, unlike the file descriptor of SyscallConn.
	connection, err := file.SyscallConn()
	terminal := false
	return err == nil && connection.Control(func(fd uintptr) { terminal = term.IsTerminal(int(fd)) }) == nil && terminal
}

// row is a line of a table for people.
type row struct{ name, value string }

// printRows prints the rows that have a value.
func (p *program) printRows(rows []row) {
	t := newTable(p.stdout)
	for _, r := range rows {
		if r.value != "" {
			t.line(r.name, clean(r.value, lineLength))
		}
	}
	t.flush()
}

// table aligns columns.
type table struct {
	out     io.Writer
	aligned bytes.Buffer
	columns *tabwriter.Writer // writes to aligned
}

func newTable(out io.Writer) *table {
	t := &table{out: out}
	t.columns = tabwriter.NewWriter(&t.aligned, 0, 0, 2, ' ', 0)
	return t
}

// line adds a line of clean cells. All lines of a table have the same number of cells.
func (t *table) line(cells ...string) {
	fmt.Fprintln(t.columns, strings.Join(cells, "\t"))
}

// values adds a line of untrusted cells.
func (t *table) values(cells ...string) {
	for i := range cells {
		cells[i] = clean(cells[i], cellLength)
	}
	t.line(cells...)
}

// flush prints the lines, without the spaces at their ends.
func (t *table) flush() {
	t.columns.Flush()
	for line := range strings.Lines(t.aligned.String()) {
		fmt.Fprintln(t.out, strings.TrimRight(line, " \n"))
	}
	t.aligned.Reset()
}

// severities are the severities of rules, from the most severe.
var severities = []receivertest.Severity{receivertest.SeverityCritical, receivertest.SeverityHigh, receivertest.SeverityMedium, receivertest.SeverityLow}

// reportFlags are the flags of a command that writes a report.
type reportFlags struct {
	json, junit, verbose bool
	output               string
}

func (f *reportFlags) define(flags *flag.FlagSet) {
	flags.BoolVar(&f.json, "json", false, "print one JSON document")
	flags.BoolVar(&f.junit, "junit", false, "print one XML document in the format of JUnit")
	flags.BoolVar(&f.verbose, "v", false, "list all rules, also those that passed")
	flags.StringVar(&f.output, "o", "", "write the report to this `path`; by default to stdout")
}

// check verifies that at most one format is selected.
func (f *reportFlags) check() error {
	if f.json && f.junit || f.verbose && (f.json || f.junit) {
		return errors.New("only one of -json, -junit and -v is possible")
	}
	return nil
}

// prepare returns an error if the report cannot be written. A command that takes minutes calls it
// first, so that a wrong path does not lose the report.
func (f *reportFlags) prepare() error {
	if f.output == "" {
		return nil
	}
	if err := checkReportFile(f.output); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// writeReport writes a report to -o, or to stdout. If that fails, it prints the report to stderr.
func (p *program) writeReport(f reportFlags, report receivertest.Report) error {
	var text bytes.Buffer
	var err error
	switch {
	case f.json:
		err = report.WriteJSON(&text)
	case f.junit:
		err = report.WriteJUnit(&text)
	default:
		err = report.WriteText(&text, f.verbose)
	}
	switch {
	case err != nil:
	case f.output == "":
		_, err = p.stdout.Write(text.Bytes())
	default:
		err = writeReportFile(f.output, text.Bytes())
	}
	switch {
	case err != nil:
		_ = report.WriteText(p.stderr, f.verbose)
	case f.output != "" || f.json || f.junit:
		p.summarize(report)
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

// writeReportFile writes a report to path. An existing file keeps its permissions; only the user
// can read a new one, because a report contains signed messages.
func writeReportFile(path string, content []byte) error {
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
	perm := fs.FileMode(0o600)
	if info, err := os.Stat(file); err == nil {
		perm = info.Mode().Perm()
	}
	return atomicfile.Replace(file, content, perm)
}

// summarize prints the failed rules and the number of all on stderr.
func (p *program) summarize(report receivertest.Report) {
	counts, severe := make(map[receivertest.Result]int), make(map[receivertest.Severity]int)
	for _, f := range report.Findings {
		counts[f.Result]++
		if f.Result == receivertest.ResultFail {
			severe[f.Severity]++
		}
	}
	for _, f := range report.Failed() {
		name := f.Rule
		if f.Severity != "" {
			name += ", " + string(f.Severity)
		}
		fmt.Fprintf(p.stderr, "FAIL  %s (%s)\n", clean(f.Detail, lineLength), name)
	}
	var numbers []string
	for _, s := range severities {
		if severe[s] > 0 {
			numbers = append(numbers, fmt.Sprintf("%d %s", severe[s], s))
		}
	}
	failed := fmt.Sprintf("%d failed", counts[receivertest.ResultFail])
	if len(numbers) > 0 {
		failed += " (" + strings.Join(numbers, ", ") + ")"
	}
	fmt.Fprintf(p.stderr, "%d passed, %s, %d not applicable\n", counts[receivertest.ResultPass], failed, counts[receivertest.ResultNotApplicable])
}

// printRules prints rules, with their severities if they have any.
func (p *program) printRules(rules []receivertest.Rule) {
	for _, rule := range rules {
		name := rule.Name
		if rule.Severity != "" {
			name += fmt.Sprintf(" (%s)", rule.Severity)
		}
		fmt.Fprintf(p.stdout, "%s\n    %s.\n    %s\n", name, strings.TrimSuffix(rule.Title, "."), rule.Reason)
	}
}

// progress shows the progress of a command: on a terminal as one line that changes, elsewhere as a
// few lines.
type progress struct {
	w        io.Writer
	terminal bool
	shown    int // tenths of the rules, on other outputs than terminals
}

func newProgress(w io.Writer) *progress {
	return &progress{w: w, terminal: isTerminal(w)}
}

// The control sequence erases the rest of the line.
const eraseLine = "\r\x1b[K"

// rule shows that done rules of total are examined, and that rule is next. It is a
// receivertest.Receiver.Progress.
func (p *progress) rule(done, total int, rule string) {
	switch tenths := 10 * done / max(total, 1); {
	case p.terminal:
		fmt.Fprintf(p.w, "%sexamined %d of %d rules: %s", eraseLine, done, total, rule)
	case tenths > p.shown:
		p.shown = tenths
		fmt.Fprintf(p.w, "examined %d of %d rules\n", done, total)
	}
}

// waiting shows that the command waits for the receiver. first is false if that was shown before.
func (p *progress) waiting(first bool, left time.Duration) {
	switch left := seconds(left.Round(time.Second)); {
	case p.terminal:
		fmt.Fprintf(p.w, "%swaiting until the receiver listens, for %s", eraseLine, left)
	case first:
		fmt.Fprintf(p.w, "waiting until the receiver listens, for at most %s\n", left)
	}
}

// clear removes the line from a terminal.
func (p *progress) clear() {
	if p.terminal {
		fmt.Fprint(p.w, eraseLine)
	}
}

// seconds returns a duration for people.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Round(100*time.Microsecond).Seconds(), 'f', -1, 64) + " s"
}

// shortTime returns t in UTC, or "" for the zero Time.
func shortTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.DateTime)
}

// docsURL is the address of the documentation, because the program is used without a checkout.
const docsURL = "https://github.com/idverify/idverify-go/blob/main/docs/"

// linked returns text with the addresses of the pages that it names as docs/PAGE.
func linked(text string) string { return strings.ReplaceAll(text, "docs/", docsURL) }

// fail prints an error of the client with the commands to run next and the section of the docs, and
// returns the exit code. The commands in next replace the usual ones.
func (p *program) fail(err error, next ...string) int {
	a := adviceOn(err)
	if len(next) == 0 {
		next = a.next
	}
	if hint := p.connectionHint(err, baseURLVariable); hint != "" {
		next = append([]string{hint}, next...)
	}
	text := strings.Replace(err.Error(), " (to trust another CA, set the HTTP client: see WithHTTPClient)", "", 1)
	if !strings.HasPrefix(text, "idverify: ") {
		text = "idverify: " + text
	}
	fmt.Fprintln(p.stderr, clean(text, lineLength))
	for _, line := range next {
		fmt.Fprintln(p.stderr, "Next: "+clean(line, lineLength))
	}
	if a.section != "" {
		fmt.Fprintln(p.stderr, "See:  "+docsURL+"errors.md#"+a.section)
	}
	return a.code
}

// unable prints an error that ends a command.
func (p *program) unable(command string, err error) int {
	fmt.Fprintf(p.stderr, "idverify: %s: %v\n", command, err)
	return exitError
}

// connectionHint returns what to change if the server was not reached or not trusted, or "". source
// is the variable or flag with its URL.
func (p *program) connectionHint(err error, source string) string {
	path := p.getenv(caFileVariable)
	invalid, _ := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "check the port of " + source + ", and that the server runs: nothing listens on this port"
	case invalid == nil || !isUntrusted(invalid):
		return ""
	case path == "":
		return "set " + caFileVariable + " to the root certificate of the server if you trust it"
	}
	return "set " + caFileVariable + " to the root certificate of this server if you trust it: " + otherCA(invalid.UnverifiedCertificates, path)
}

// advice describes what to do after an error.
type advice struct {
	code    int
	next    []string
	section string // of docs/errors.md
}

const runDoctor = "idverify doctor (checks the connection, the credentials and the clock)"

func adviceOn(err error) advice {
	rejected, isRejected := errors.AsType[*idverify.Error](err)
	tokenError, isTokenError := errors.AsType[*idverify.TokenError](err)
	_, isDecodeError := errors.AsType[*idverify.DecodeError](err)
	_, isEnded := errors.AsType[*idverify.NoResultError](err)
	switch {
	case errors.Is(err, idverify.ErrOutcomeUnknown):
		return advice{exitError, nil, "outcome-unknown"}
	case errors.Is(err, context.Canceled):
		return advice{exitError, nil, ""}
	case isEnded:
		return advice{exitProblem, []string{"read the callback of the check, which reports how it ended"}, "error-codes-of-checks"}
	case isTokenError && temporary(tokenError.Status):
		return advice{exitError, []string{later(tokenError.RetryAfter), runDoctor}, "token-errors"}
	case isTokenError:
		return advice{exitProblem, []string{runDoctor}, "token-errors"}
	case isRejected && temporary(rejected.Status):
		return advice{exitError, []string{later(rejected.RetryAfter), runDoctor}, "problem-codes"}
	case isRejected && rejected.Code() == "":
		return advice{exitProblem, []string{runDoctor}, "errors-without-a-sentinel"} // probably of a proxy
	case errors.Is(err, idverify.ErrInsufficientBalance):
		return advice{exitProblem, []string{"top up the workspace; until then, verify users in another way"}, "problem-codes"}
	case errors.Is(err, idverify.ErrNotMobileIP), errors.Is(err, idverify.ErrNetworkNotSupported):
		return advice{exitProblem, nil, "problem-codes"}
	case errors.Is(err, idverify.ErrUnauthorized), errors.Is(err, idverify.ErrForbidden):
		return advice{exitProblem, []string{runDoctor}, "problem-codes"}
	case isRejected:
		return advice{exitProblem, nil, "problem-codes"}
	case errors.Is(err, idverify.ErrPhoneFormat), errors.Is(err, idverify.ErrBadRequest):
		return advice{exitUsage, nil, "sentinels"} // rejected by the client
	case errors.Is(err, context.DeadlineExceeded):
		return advice{exitError, []string{"set a longer -timeout", runDoctor}, "errors-without-a-sentinel"}
	case isDecodeError:
		return advice{exitError, []string{"look for a proxy that changes responses", runDoctor}, "errors-without-a-sentinel"}
	}
	return advice{exitError, []string{runDoctor}, "errors-without-a-sentinel"}
}

// temporary reports whether the request may succeed later. The client retries after the same
// statuses; any other 5XX is permanent, and usually of a proxy.
func temporary(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

func later(retryAfter time.Duration) string {
	if retryAfter <= 0 {
		return "run the command again later"
	}
	return fmt.Sprintf("run the command again in %s", seconds(retryAfter))
}
