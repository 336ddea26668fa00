package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"

	"golang.org/x/term"
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
