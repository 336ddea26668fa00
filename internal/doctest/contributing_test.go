package doctest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestContributing_CodeReferences verifies the table "Where a change belongs": every file in it
// exists and declares the names that follow it.
func TestContributing_CodeReferences(t *testing.T) {
	t.Parallel()
	files := declarations(t)

	tb := findTable(t, "../CONTRIBUTING.md", "Change")

	for _, row := range tb.rows {
		file := ""
		for _, span := range codeSpans(row.cells[1]) {
			switch {
			case strings.Contains(span, "*"):
				if matches, err := filepath.Glob(filepath.Join(root, span)); err != nil || len(matches) == 0 {
					t.Errorf("CONTRIBUTING.md:%d: no file matches %s", row.line, span)
				}
			case strings.Contains(span, "/") || strings.HasSuffix(span, ".go"):
				file = span
				if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
					t.Errorf("CONTRIBUTING.md:%d: %s does not exist", row.line, file)
				}
			case !files[file][span]:
				t.Errorf("CONTRIBUTING.md:%d: %q does not declare %s", row.line, file, span)
			}
		}
	}
	if len(tb.rows) < 20 {
		t.Errorf("rows = %d, want at least 20", len(tb.rows))
	}
}
