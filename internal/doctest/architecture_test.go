package doctest_test

import (
	"go/ast"
	"go/printer"
	"go/token"
	"path/filepath"
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

// TestArchitecture_FakeFiles requires that each file of the fake belongs to one layer.
func TestArchitecture_FakeFiles(t *testing.T) {
	t.Parallel()
	layers := map[string]int{"doc.go": 1}
	for _, row := range findTable(t, "architecture.md", "Layer of `sandboxfake`").rows {
		for _, pattern := range codeSpans(row.cells[2]) {
			files, err := filepath.Glob(filepath.Join(root, "sandboxfake", pattern))
			if err != nil || len(files) == 0 {
				t.Errorf("%s: no file matches sandboxfake/%s", at("architecture.md", row), pattern)
			}
			for _, file := range files {
				layers[filepath.Base(file)]++
			}
		}
	}

	files := must(filepath.Glob(filepath.Join(root, "sandboxfake", "*.go")))(t)
	for _, file := range files {
		if name := filepath.Base(file); !strings.HasSuffix(name, "_test.go") && layers[name] != 1 {
			t.Errorf("sandboxfake/%s belongs to %d layers, want 1", name, layers[name])
		}
	}
}
