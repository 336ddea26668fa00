package proxytest

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/signature"
)

// page is docs/production.md.
type page string

func readPage(t *testing.T) page {
	t.Helper()
	return page(must(os.ReadFile("../../docs/production.md"))(t))
}

// The configurations of each proxy, in the order of the page.
const (
	unchanged = iota // forwards host and request target unchanged
	rewriting        // changes both, and forwards the original values in headers
	configurations
)

// blocks returns the configurations, which are the code blocks in the given language.
func (p page) blocks(t *testing.T, language string) []string {
	t.Helper()
	var blocks []string
	for _, match := range regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(string(p), -1) {
		if match[1] == language {
			blocks = append(blocks, match[2])
		}
	}
	if len(blocks) != configurations {
		t.Fatalf("the page has %d code blocks in %s, want %d", len(blocks), language, configurations)
	}
	return blocks
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

// codeSpans returns the code spans in a cell of a table.
func codeSpans(cell string) []string {
	var spans []string
	for _, match := range codeSpan.FindAllStringSubmatch(cell, -1) {
		spans = append(spans, match[1])
	}
	return spans
}

// table returns the cells of the rows below the given header row.
func (p page) table(t *testing.T, head string) [][]string {
	t.Helper()
	_, text, ok := strings.Cut(string(p), head+"\n")
	if !ok {
		t.Fatalf("the page has no table %q", head)
	}
	var rows [][]string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(line, "|\n"), " | ")
		for i, cell := range cells {
			cells[i] = strings.TrimSpace(cell)
		}
		if !strings.HasPrefix(line, "|---") {
			rows = append(rows, cells)
		}
	}
	return rows
}

// misconfiguration is a configuration or URL under which genuine messages are rejected.
type misconfiguration struct {
	proxy   string
	line    string // the line to replace; empty if the URL is the cause
	changed string
	url     string
	effect  string
	reasons []error
}

// misconfigurations returns the rows of the two tables of misconfigurations.
func (p page) misconfigurations(t *testing.T) []misconfiguration {
	t.Helper()
	var misconfigurations []misconfiguration
	for _, cells := range p.table(t, "| Proxy | Line above | Changed to | Effect | Error |") {
		misconfigurations = append(misconfigurations, misconfiguration{
			proxy:   strings.ToLower(cells[0]),
			line:    strings.Join(codeSpans(cells[1]), "\n"),
			changed: strings.Join(codeSpans(cells[2]), "\n"),
			effect:  cells[3],
			reasons: reasons(t, cells[4]),
		})
	}
	for _, cells := range p.table(t, "| Proxy | URL | Effect | Error |") {
		misconfigurations = append(misconfigurations, misconfiguration{
			proxy:   strings.ToLower(cells[0]),
			url:     strings.Join(codeSpans(cells[1]), ""),
			effect:  cells[2],
			reasons: reasons(t, cells[3]),
		})
	}
	return misconfigurations
}

// reasons returns the errors of package signature in a cell.
func reasons(t *testing.T, cell string) []error {
	t.Helper()
	var reasons []error
	for _, name := range codeSpans(cell) {
		switch name {
		case "ErrHost":
			reasons = append(reasons, signature.ErrHost)
		case "ErrSignature":
			reasons = append(reasons, signature.ErrSignature)
		default:
			t.Fatalf("the page contains an unexpected error %q", name)
		}
	}
	return reasons
}

func (m misconfiguration) name() string {
	name := m.changed + m.url
	if name == "" {
		name = "without " + m.line
	}
	return m.proxy + "/" + strings.NewReplacer("/", "|", "\n", " ").Replace(name)
}
