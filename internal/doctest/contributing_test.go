package doctest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestContributing_CodeReferences verifies the table and the list of "Where a change belongs":
// every file in them exists and declares the names that follow it.
func TestContributing_CodeReferences(t *testing.T) {
	t.Parallel()
	files := declarations(t)

	tb := findTable(t, "../CONTRIBUTING.md", "Change")
	texts := make(map[int]string) // by line
	for _, row := range tb.rows {
		texts[row.line] = row.cells[1]
	}
	items := 0
	inSection := false
	for i, line := range strings.Split(readPage(t, "../CONTRIBUTING.md"), "\n") {
		switch {
		case strings.HasPrefix(line, "#"):
			inSection = line == "### Add a product"
		case inSection && strings.HasPrefix(line, "- "):
			texts[i+1] = line
			items++
		}
	}

	for line, text := range texts {
		file := ""
		for _, span := range codeSpans(text) {
			switch {
			case strings.Contains(span, "*"):
				if matches, err := filepath.Glob(filepath.Join(root, span)); err != nil || len(matches) == 0 {
					t.Errorf("CONTRIBUTING.md:%d: no file matches %s", line, span)
				}
			case strings.Contains(span, "/") || strings.HasSuffix(span, ".go"):
				file = span
				if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
					t.Errorf("CONTRIBUTING.md:%d: %s does not exist", line, file)
				}
			case !files[file][span]:
				t.Errorf("CONTRIBUTING.md:%d: %q does not declare %s", line, file, span)
			}
		}
	}
	if len(tb.rows) < 20 || items < 5 {
		t.Errorf("rows = %d, want at least 20; items = %d, want at least 5", len(tb.rows), items)
	}
}
