package doctest_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/internal/tooltest"
)

// table is a table of a Markdown page.
type table struct {
	section string // the heading above the table, without its marks
	header  []string
	rows    []tableRow
}

type tableRow struct {
	line  int // counted from 1
	cells []string
}

// readTables returns the tables of a page.
func readTables(t *testing.T, page string) []table {
	t.Helper()
	text := readPage(t, page)

	var tables []table
	section, inTable := "", false
	for i, line := range strings.Split(text, "\n") {
		if heading, ok := strings.CutPrefix(line, "#"); ok {
			section = strings.TrimLeft(heading, "# ")
		}
		if !strings.HasPrefix(line, "|") {
			inTable = false
			continue
		}
		cells := splitCells(line)
		switch last := len(tables) - 1; {
		case !inTable:
			tables = append(tables, table{section: section, header: cells})
		case !strings.HasPrefix(line, "|---"):
			if len(cells) != len(tables[last].header) {
				t.Fatalf("%s:%d: %d cells, want %d", page, i+1, len(cells), len(tables[last].header))
			}
			tables[last].rows = append(tables[last].rows, tableRow{i + 1, cells})
		}
		inTable = true
	}
	return tables
}

// splitCells returns the cells of a row, without white space around them.
func splitCells(line string) []string {
	line = strings.ReplaceAll(line, "| | ", "|  | ") // the separators of an empty cell must not overlap
	cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), " | ")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// findTable returns the first table of a page whose first column has the given heading.
func findTable(t *testing.T, page, column string) table {
	t.Helper()
	for _, tb := range readTables(t, page) {
		if tb.header[0] == column {
			return tb
		}
	}
	t.Fatalf("%s has no table whose first column is %q", page, column)
	return table{}
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

// codeSpans returns the texts in backticks.
func codeSpans(cell string) []string {
	var spans []string
	for _, match := range codeSpan.FindAllStringSubmatch(cell, -1) {
		spans = append(spans, match[1])
	}
	return spans
}

// at returns the place of a row, for failure messages.
func at(page string, row tableRow) string { return fmt.Sprintf("docs/%s:%d", page, row.line) }

// noError and must fail the test if err is not nil. must returns v.
var noError = tooltest.NoError

func must[T any](v T, err error) func(testing.TB) T { return tooltest.Must(v, err) }
