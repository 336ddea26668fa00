package docs_test

import (
	"go/ast"
	"go/printer"
	"go/token"
	"strings"
	"testing"
)

// TestArchitecture_InboxTimes compares the times of the inbox with its constants.
func TestArchitecture_InboxTimes(t *testing.T) {
	t.Parallel()
	units := strings.NewReplacer(" s", "*time.Second", " min", "*time.Minute")
	constants := make(map[string]string)
	for _, file := range packageFiles(t, "inbox") {
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
				var value strings.Builder
				if err := printer.Fprint(&value, token.NewFileSet(), spec.Values[0]); err != nil {
					t.Error(err)
				}
				constants[spec.Names[0].Name] = strings.ReplaceAll(value.String(), " ", "")
			}
			return true
		})
	}

	for _, row := range findTable(t, "architecture.md", "Time").rows {
		name := codeSpans(row.cells[0])[0]
		if want := constants[name]; strings.TrimPrefix(units.Replace(row.cells[1]), "1*") != want {
			t.Errorf("%s: %s = %s, want %s", at("architecture.md", row), name, row.cells[1], want)
		}
	}
}
